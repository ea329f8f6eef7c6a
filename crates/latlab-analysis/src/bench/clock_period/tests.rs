//! Synthetic times of known periods.

use super::*;
use latlab_model::bench::{BenchRow, StateMedian};
use latlab_model::finding::Value;
use latlab_model::record::Unit;
use latlab_stats::rng::SplitMix64;
use proptest::prelude::*;

/// Cycles of nine operations on a Skylake.
const CYCLES: [f64; 9] = [1.0, 2.0, 2.0, 3.0, 4.0, 5.0, 4.0, 4.0, 14.0];

/// A number from 0 to 1.
fn unit(rng: &mut SplitMix64) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Times of so many cycles each, with errors of a share of the time.
fn times(cycles: &[f64], period: f64, noise: f64, seed: u64) -> Vec<Timing> {
    let mut rng = SplitMix64::new(seed);
    let mut normal = || (0..12).map(|_| unit(&mut rng)).sum::<f64>() - 6.0;
    let mut time = |c: &f64| {
        let ns = c * period;
        Timing { ns: ns * (1.0 + noise * normal()), error: ns * noise }
    };
    cycles.iter().map(&mut time).collect()
}

fn clock(times: &[Timing]) -> Option<f64> {
    divisor(times).decided().map(|p| p.ns)
}

#[test]
fn the_divisor_of_exact_times_is_the_period() {
    for period in [0.2, 0.2725, 1.0, 1.25, 10.0] {
        let found = clock(&times(&CYCLES, period, 0.0, 1)).expect("a period");
        assert!((found / period - 1.0).abs() < 1e-9, "{period}: {found}");
    }
}

#[test]
fn noise_of_half_a_percent_leaves_the_period() {
    let mut decided = 0;
    for seed in 0..200 {
        let found = divisor(&times(&CYCLES, 0.2725, 0.005, seed));
        let Some(period) = found.decided() else { continue };
        decided += 1;
        assert!((period.ns / 0.2725 - 1.0).abs() < 0.01, "{seed}: {period:?}");
        assert!((period.ns - 0.2725).abs() < period.half * 2.5, "{seed}: {period:?}");
    }
    assert!(decided > 190, "{decided} of 200");
}

#[test]
fn missing_operations_leave_the_period() {
    // No multiplication of floating point, no load.
    let found = clock(&times(&[1.0, 2.0, 3.0, 4.0, 14.0], 0.4, 0.002, 3)).expect("a period");
    assert!((found / 0.4 - 1.0).abs() < 0.005, "{found}");
    // None that takes one cycle.
    let found = clock(&times(&[2.0, 3.0, 5.0, 7.0, 13.0], 0.4, 0.001, 4)).expect("a period");
    assert!((found / 0.4 - 1.0).abs() < 0.005, "{found}");
}

#[test]
fn a_common_factor_is_part_of_the_period() {
    // Times alone do not decide: all are multiples of two cycles, and the largest divisor is reported.
    let even = CYCLES.map(|c| 2.0 * c);
    let found = clock(&times(&even, 0.2, 0.001, 5)).expect("a period");
    assert!((found / 0.4 - 1.0).abs() < 0.005, "{found}");
}

#[test]
fn a_factor_that_hangs_on_one_operation_is_open() {
    // Without the addition all are even.
    let found = divisor(&times(&[1.0, 2.0, 4.0, 6.0, 8.0, 14.0, 10.0], 0.3, 0.001, 6));
    assert_eq!(found.decided(), None);
    let all = found.best.iter().chain(&found.rivals);
    let mut periods: Vec<f64> = all.map(|p| (p.ns * 10.0).round() / 10.0).collect();
    periods.sort_by(f64::total_cmp);
    assert_eq!(periods, [0.3, 0.6]);
}

#[test]
fn a_spoilt_operation_is_named_and_many_are_no_period() {
    let mut spoilt = times(&CYCLES, 0.2725, 0.002, 7);
    // Measured while the clock was a fifth slower.
    spoilt[8].ns *= 1.23;
    let found = divisor(&spoilt);
    let period = found.decided().unwrap_or_else(|| panic!("{found:?}"));
    assert!((period.ns / 0.2725 - 1.0).abs() < 0.005, "{period:?}");
    assert_eq!(period.fits, [true, true, true, true, true, true, true, true, false]);
    for i in [1, 3, 4, 5, 6] {
        spoilt[i].ns *= 1.0 + 0.07 * i as f64;
    }
    assert_eq!(clock(&spoilt), None);
}

#[test]
fn two_spoilt_operations_may_leave_it_open_but_give_no_other_period() {
    let mut decided = 0;
    for seed in 0..60 {
        let mut rng = SplitMix64::new(seed);
        let mut spoilt = times(&CYCLES, 0.2725, 0.002, seed);
        for _ in 0..2 {
            spoilt[rng.below(9)].ns *= 1.1 + 0.4 * unit(&mut rng);
        }
        if let Some(found) = clock(&spoilt) {
            assert!((found / 0.2725 - 1.0).abs() < 0.01, "{seed}: {found}");
            decided += 1;
        }
    }
    assert!(decided > 20, "{decided} of 60");
}

#[test]
fn times_of_no_period_decide_nothing() {
    let mut rng = SplitMix64::new(11);
    let decided = (0..500)
        .filter(|_| {
            let mut time = |_| {
                let ns = 1.0 + 13.0 * unit(&mut rng);
                Timing { ns, error: ns * 0.002 }
            };
            clock(&(0..9).map(&mut time).collect::<Vec<_>>()).is_some()
        })
        .count();
    assert!(decided <= 5, "{decided} of 500 random sets");
}

#[test]
fn wide_errors_decide_nothing() {
    assert_eq!(clock(&times(&CYCLES, 0.2725, 0.15, 12)), None);
    assert_eq!(clock(&[]), None);
    let none = Timing { ns: f64::NAN, error: 0.0 };
    assert_eq!(clock(&[none; 9]), None);
    assert_eq!(clock(&[Timing { ns: 0.0, error: f64::INFINITY }; 9]), None);
}

#[test]
fn an_emulator_that_counts_instructions_has_the_time_of_one() {
    // QEMU with -icount: each instruction takes as long, and pairs twice as long.
    let found = clock(&times(&[1.0, 2.0, 2.0, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0], 8.0, 0.0, 1));
    assert!((found.expect("a period") / 8.0 - 1.0).abs() < 1e-6);
}

proptest! {
    /// Whatever the cycles, the period times their greatest common divisor is found, or nothing is decided.
    #[test]
    fn what_is_decided_is_the_divisor(
        cycles in proptest::collection::vec(1u32..20, 5..12),
        period in 0.1f64..20.0,
    ) {
        fn gcd(a: u32, b: u32) -> u32 {
            if b == 0 { a } else { gcd(b, a % b) }
        }
        let common = cycles.iter().copied().fold(0, gcd);
        let cycles: Vec<f64> = cycles.iter().map(|&c| f64::from(c)).collect();
        if let Some(found) = clock(&times(&cycles, period, 0.0, 0)) {
            prop_assert!((found / period / f64::from(common) - 1.0).abs() < 0.01, "{found} {period} {common}");
        }
    }
}

fn row(name: &str, op: &str, median: f64) -> BenchRow {
    let (low, high) = (median * 0.998, median * 1.002);
    let estimate = Estimate { median, low, high, interval_is_95: true, ..Estimate::default() };
    let unit = if op.is_empty() { Unit::Hz } else { Unit::Ns };
    let params = if op.is_empty() { vec![] } else { vec![("op".to_owned(), op.to_owned())] };
    let params = params.into_iter().collect();
    BenchRow { name: name.into(), params, unit, estimate, ..BenchRow::default() }
}

fn detail(chain: f64) -> BenchDetail {
    let rows = CYCLES.iter().enumerate().map(|(i, c)| row(OPERATION, &format!("op{i}"), c * 0.25));
    BenchDetail {
        rows: std::iter::once(row("cpu.clock", "", chain)).chain(rows).collect(),
        ..BenchDetail::default()
    }
}

#[test]
fn operations_have_cycles_and_the_chain_stands_beside() {
    let mut all = detail(4e9);
    all.reported_hz = Some(2.6e9);
    let found = findings(&mut all);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].id, "bench.clock-period");
    assert_eq!(found[0].values["reported"], Quantity::Hz(2.6e9).into());
    let Value::Quantity(Quantity::Hz(hz)) = found[0].values["hz"] else { panic!("{found:?}") };
    assert!((hz / 4e9 - 1.0).abs() < 1e-6);
    let cycles: Vec<f64> = all.rows.iter().filter_map(|r| r.cycles).collect();
    assert!(cycles.iter().zip(&CYCLES).all(|(a, b)| (a - b).abs() < 1e-6), "{cycles:?}");
    // A chain whose additions take two cycles each.
    let found = findings(&mut detail(2e9));
    assert_eq!(found[1].id, "bench.clock-differs");
    let Value::Quantity(Quantity::Number(ratio)) = found[1].values["ratio"] else { panic!() };
    assert!((ratio - 2.0).abs() < 1e-6);
}

#[test]
fn a_machine_with_two_states_has_two_clocks() {
    let mut all = detail(4e9);
    for row in &mut all.rows {
        let state = |factor: f64| StateMedian {
            median: Some(row.estimate.median * factor),
            batches: 20,
            processes: 3,
        };
        row.states = vec![state(1.0), state(1.25)];
    }
    let found = findings(&mut all);
    let Value::Quantity(Quantity::Hz(slow)) = found[0].values["slow_hz"] else { panic!() };
    assert!((slow / 3.2e9 - 1.0).abs() < 1e-6, "{slow}");
}

#[test]
fn fewer_than_two_operations_say_nothing_and_few_are_inconclusive() {
    let mut one = detail(4e9);
    one.rows.truncate(2);
    assert!(findings(&mut one).is_empty());
    let mut three = detail(4e9);
    three.rows.retain(|r| r.params.get("op").is_none_or(|op| op == "op1" || op == "op6"));
    three.rows[1].estimate.median *= 1.013;
    let found = findings(&mut three);
    assert_eq!(found[0].id, "bench.clock-undecided", "{found:?}");
    assert!(three.rows.iter().all(|r| r.cycles.is_none()));
}
