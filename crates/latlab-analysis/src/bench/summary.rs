//! From slices to a part of a run: records, rows, findings.

pub use super::measured::Measured;
use super::{control_workload, findings, size_effect};
use latlab_model::bench::trial::Slice;
use latlab_model::bench::{BenchDetail, BenchRow, Meter, Missing};
use latlab_model::finding::{Note, Quantity};
use latlab_model::record::{Param, Record, Window};
use latlab_model::run::{Detail, Part};
use latlab_stats::estimate::{Estimate, estimate};
use latlab_stats::histogram::{Quantile, Summary};
use latlab_stats::quantile::median;

/// The part of a run: records, rows, findings.
pub fn part(measured: Vec<Measured>, target: f64, length_ns: u64, seed: u64) -> Part {
    let mut detail = BenchDetail { target, budget_ns: length_ns, seed, ..BenchDetail::default() };
    let mut records = Vec::new();
    let of = |f: fn(&Slice) -> f64| {
        let all: Vec<f64> = measured.iter().flat_map(|m| m.slices.iter().map(f)).collect();
        median(&all).unwrap_or(0.0)
    };
    detail.meter = Meter {
        step_ns: of(|s| s.step_ns),
        read_ns: of(|s| s.read_ns),
        loop_ns: of(|s| s.loop_ns),
    };
    detail.control_ns = {
        let slices: Vec<&Slice> = measured.iter().flat_map(|m| &m.slices).collect();
        let level = control_workload::level(&slices);
        detail.states = control_workload::states(&slices, level);
        level
    };
    for m in &measured {
        match row(m, detail.control_ns, detail.states.is_some()) {
            Some(row) => {
                records.push(record(m, &row));
                detail.rows.push(row);
            }
            None => detail.missing.push(missing(m)),
        }
    }
    let mut findings = findings::findings(&measured, &detail);
    findings.extend(size_effect::findings(&detail.rows));
    let clocks = measured.iter().filter(|m| m.name.starts_with("cpu."));
    let khz: Vec<f64> = clocks
        .flat_map(|m| m.slices.iter().filter_map(|s| s.khz))
        .flat_map(|(before, after)| [before as f64, after as f64])
        .collect();
    detail.reported_hz = median(&khz).map(|khz| khz * 1e3);
    // What a board measured is judged where it is read (`upgrade`): the board build is small.
    #[cfg(feature = "host")]
    findings.extend(super::clock_period::findings(&mut detail));
    Part {
        name: "bench".into(),
        title: "Micro-benchmarks".into(),
        complete: true,
        duration_ns: length_ns,
        results: records,
        findings,
        detail: Some(Detail::Bench(Box::new(detail))),
    }
}

fn missing(m: &Measured) -> Missing {
    let rejected: u64 = m.slices.iter().map(|s| s.rejected).sum();
    let (reason, unavailable) = match (&m.given_up, rejected) {
        (Some((reason, unavailable)), _) => (reason.clone(), *unavailable),
        (None, 0) => (Note::new("bench.no-time"), false),
        (None, n) => {
            (Note::new("bench.wrong-switches").value("batches", Quantity::Count(n)), false)
        }
    };
    let (name, params) = (m.name.clone(), m.params.clone());
    Missing { name, params, reason: Some(reason), unavailable }
}

fn row(m: &Measured, level: Option<f64>, two_states: bool) -> Option<BenchRow> {
    let choice = control_workload::choose(&m.slices, level);
    let processes = choice.of(&m.slices, |s| &s.values);
    let estimate = estimate(&in_time(&processes))?;
    let all = |f: fn(&Slice) -> &[f64]| {
        let chosen = choice.of(&m.slices, f);
        median(&chosen.iter().flat_map(|(_, v)| v.iter().copied()).collect::<Vec<_>>())
    };
    let switches: Vec<f64> = m.slices.iter().filter_map(|s| s.switches).collect();
    let every: Vec<f64> = m.slices.iter().filter_map(|s| median(&s.values)).collect();
    Some(BenchRow {
        name: m.name.clone(),
        params: m.params.clone(),
        unit: m.unit,
        what: m.what.clone(),
        estimate,
        target_met: m.target_met,
        batch: m.slices.first().map_or(0, |s| s.batch),
        raw_ns: all(|s| &s.raw_ns),
        overhead_ns: all(|s| &s.overhead_ns),
        cycles: None,
        switches: median(&switches),
        switches_expected: m.slices.iter().find_map(|s| s.switches_expected),
        rejected: m.slices.iter().map(|s| s.rejected).sum(),
        preempted: m.slices.iter().map(|s| s.preempted).sum(),
        disturbed: choice.disturbed,
        selection: choice.selection,
        median_of_all: median(&every).filter(|_| choice.disturbed > 0),
        states: (level.filter(|_| two_states))
            .map(|level| control_workload::state_medians(&m.slices, level))
            .unwrap_or_default(),
        alternation: m.slices.iter().find_map(|s| s.alternation.clone()),
        slices: (processes.iter()).map(|(t, v)| (*t, median(v).unwrap_or(0.0))).collect(),
    })
}

fn in_time(processes: &[(u64, Vec<f64>)]) -> Vec<&[f64]> {
    processes.iter().map(|(_, v)| v.as_slice()).collect()
}

/// The estimate of one probe as things stand, for whoever decides whether to go on.
pub fn so_far(slices: &[Slice], level: Option<f64>) -> Option<Estimate> {
    let processes = control_workload::choose(slices, level).of(slices, |s| &s.values);
    estimate(&in_time(&processes))
}

fn record(m: &Measured, row: &BenchRow) -> Record {
    let e = &row.estimate;
    let samples: Vec<f64> =
        m.slices.iter().flat_map(|s| s.values.iter().map(|&v| five_digits(v))).collect();
    let mean = samples.iter().sum::<f64>() / samples.len().max(1) as f64;
    let mut notes: Vec<Note> = Vec::new();
    for note in m.slices.iter().flat_map(|s| &s.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    Record {
        name: m.name.clone(),
        params: m.params.iter().map(|(k, v)| (k.clone(), param(v))).collect(),
        unit: m.unit,
        histogram: None,
        sequence: None,
        summary: Summary {
            count: samples.len() as u64,
            min: Some(e.min),
            mean: Some(mean),
            // Batches vary less than operations.
            sd: None,
            median: Some(e.median),
            max: Some(e.max),
            mad: Some(e.mad),
            quantiles: match e.interval_is_95 {
                true => vec![Quantile { q: 0.5, value: e.median, low: e.low, high: e.high }],
                false => Vec::new(),
            },
        },
        samples,
        window: Some(window(m)),
        notes,
    }
}

/// The parameter as a number where it is one.
fn param(value: &str) -> Param {
    value.parse::<i64>().map_or_else(|_| Param::from(value), Param::Int)
}

/// A batch value is not known to more than five digits; more would only fill the file.
fn five_digits(v: f64) -> f64 {
    if v == 0.0 || !v.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powi(4 - v.abs().log10().floor() as i32);
    (v * scale).round() / scale
}

/// All slices together: sums, from the start of the first to the end of the last.
fn window(m: &Measured) -> Window {
    let sum = |f: fn(&Slice) -> u64| m.slices.iter().map(f).sum::<u64>();
    let all = |f: fn(&Slice) -> Option<u64>| m.slices.iter().map(f).sum::<Option<u64>>();
    let start_ns = m.slices.first().map_or(0, |s| s.start_ns);
    let end_ns = m.slices.last().map_or(0, |s| s.start_ns + s.length_ns);
    Window {
        start_ns,
        length_ns: end_ns.saturating_sub(start_ns),
        steal_ns: all(|s| s.steal_ns),
        interrupts: all(|s| s.interrupts),
        migrations: None,
        major_faults: Some(sum(|s| s.major_faults)),
        minor_faults: Some(sum(|s| s.minor_faults)),
        involuntary_switches: Some(sum(|s| s.involuntary)),
        voluntary_switches: Some(sum(|s| s.voluntary)),
        khz: (m.slices.first().and_then(|s| s.khz))
            .zip(m.slices.last().and_then(|s| s.khz))
            .map(|(first, last)| (first.0, last.1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_five_digits() {
        assert_eq!(five_digits(123_456_789.0), 123_460_000.0);
        assert_eq!(five_digits(0.001_234_567), 0.001_234_6);
        assert_eq!(five_digits(f64::NAN), 0.0);
    }

    #[test]
    fn an_unavailable_benchmark_is_missing() {
        let refused = Measured {
            name: "syscall.uring-nop".into(),
            given_up: Some((Note::new("probe.call-failed"), true)),
            ..Measured::default()
        };
        let part = part(vec![refused], 0.01, 1, 1);
        assert!(part.results.is_empty());
        let Some(Detail::Bench(detail)) = part.detail else { panic!("a bench detail") };
        assert!(detail.missing[0].unavailable);
        let reason = detail.missing[0].reason.as_ref().and_then(Note::id);
        assert_eq!(reason, Some("probe.call-failed"));
    }
}
