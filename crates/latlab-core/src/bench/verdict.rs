//! What a reader must know before believing a figure: drift, two modes,
//! disturbance, a missed target, an impossible value.

use super::estimate::Estimate;
use super::summary::Measured;
use super::{BenchDetail, BenchRow, label, sentinel};
use crate::finding::{Confidence, Evidence, Finding, Verdict};
use crate::run::Unit;
use crate::stats::modes::two_modes;
use crate::stats::trend::trend;

/// A drift smaller than this share of the median is not worth a word.
const DRIFT: f64 = 0.02;
/// Steal above this share of a probe's time pollutes it.
const STEAL: f64 = 0.005;

/// Fewer slowed batches than this share are not worth a word: a tick in the sentinel looks the same.
const DISTURBED: f64 = 0.05;

/// Less of a CPU's time than this is the kernel's own housekeeping, and the coarseness of its accounts.
const SHARED: f64 = 0.05;

/// Fewest batches that two modes within processes are looked for in.
const WITHIN_LEAST: usize = 50;

/// Everything worth saying of a suite, the impossible first.
pub fn findings(measured: &[Measured], detail: &BenchDetail) -> Vec<Finding> {
    let mut found = impossible(detail);
    found.extend(contradictions(detail));
    for m in measured {
        let row = detail.rows.iter().find(|r| r.name == m.name && r.params == m.params);
        if let Some(row) = row {
            found.extend(bimodal(m, row, detail.sentinel_ns));
            found.extend(drifting(row));
            found.extend(stolen(m));
            found.extend(frequency(m));
            found.extend(not_resolved(row));
            found.extend(not_alone(row));
        }
    }
    found.extend(switch_methods(detail));
    found.extend(disturbed(detail));
    found.extend(unsure(detail));
    found
}

/// Whether a finding says that a figure is impossible: the suite has then failed.
pub fn is_failure(finding: &Finding) -> bool {
    finding.id == "bench.impossible"
}

fn name(row: &BenchRow) -> String {
    label(&row.name, &row.params)
}

fn estimate_of<'a>(detail: &'a BenchDetail, name: &str) -> Option<&'a Estimate> {
    detail.rows.iter().find(|r| r.name == name).map(|r| &r.estimate)
}

/// Figures that no machine can have: nothing takes no time, and an addition takes a cycle.
fn impossible(detail: &BenchDetail) -> Vec<Finding> {
    let failure = |claim: String, row: &BenchRow| {
        let value = format!("{} {:?}", row.estimate.median, row.unit);
        Finding::new("bench.impossible", Verdict::InTheWay, Confidence::Sure, claim)
            .because("A figure that cannot be says that the measurement is wrong, not that the machine is fast.")
            .with(Evidence::new(name(row), value).of(row.estimate.batches))
    };
    let mut found: Vec<Finding> = (detail.rows.iter())
        // The difference of two nearly equal times may lie below zero within its interval; that is said elsewhere.
        .filter(|r| {
            let sure = r.estimate.interval_is_95 && r.estimate.high < 0.0;
            r.estimate.median <= 0.0 && (r.overhead_ns.is_none() || sure)
        })
        .map(|r| failure(format!("{} took no time", name(r)), r))
        .collect();
    let Some(clock) = estimate_of(detail, "cpu.clock") else { return found };
    let cycle_ns = 1e9 / clock.median;
    for row in detail.rows.iter().filter(|r| r.name.starts_with("arith.")) {
        // No processor yet has more than eight units for one kind of instruction.
        let throughput = row.params.get("mode").is_some_and(|m| m == "throughput");
        let least = if throughput { cycle_ns / 8.0 } else { cycle_ns * 0.9 };
        if row.estimate.median > 0.0 && row.estimate.median < least {
            let claim = format!(
                "{} took {:.2} of a cycle, less than any processor can",
                name(row),
                row.estimate.median / cycle_ns
            );
            found.push(failure(claim, row));
        }
    }
    found
}

/// Pairs of which the first cannot be the smaller one.
fn contradictions(detail: &BenchDetail) -> Vec<Finding> {
    const LARGER: [(&str, &str); 3] = [
        ("process.fork-exec", "process.fork-exit"),
        ("process.shell", "process.fork-exec"),
        ("syscall.open-close", "syscall.getppid"),
    ];
    (LARGER.iter())
        .filter_map(|&(large, small)| {
            let (l, s) = (estimate_of(detail, large)?, estimate_of(detail, small)?);
            // Where their intervals meet, chance may have turned them round.
            (l.high < s.low).then(|| {
                Finding::new(
                    "bench.contradiction",
                    Verdict::InTheWay,
                    Confidence::Likely,
                    format!("{large} came out below {small}, which is a part of it"),
                )
                .with(Evidence::new(large, format!("{:.0} ns", l.median)))
                .with(Evidence::new(small, format!("{:.0} ns", s.median)))
                .attempt("measure again on an idle machine")
            })
        })
        .collect()
}

/// Two groups of values with a gap: the median lies in the one or the other by luck.
fn bimodal(m: &Measured, row: &BenchRow, level: Option<f64>) -> Option<Finding> {
    let medians: Vec<f64> = row.slices.iter().map(|&(_, v)| v).collect();
    let chosen = sentinel::choose(&m.slices, level).of(&m.slices, |s| &s.values);
    let all: Vec<f64> = chosen.into_iter().flat_map(|(_, v)| v).collect();
    let (modes, between) = match two_modes(&medians) {
        Some(modes) => (modes, true),
        // Of a few batches a busy moment makes a mode; of many it does not.
        None if all.len() >= WITHIN_LEAST => (two_modes(&all)?, false),
        None => return None,
    };
    let (where_, hint) = match between {
        true => (
            "from process to process",
            "each process has one of them: pages, addresses or the host's placement decide",
        ),
        false => ("within a process", "something switches on and off while it is measured"),
    };
    Some(
        Finding::new(
            "bench.two-modes",
            Verdict::Note,
            Confidence::Likely,
            format!(
                "{} has two values {where_}: {} ({:.0} %) and {} ({:.0} %)",
                name(row),
                super::figure(modes.low, row.unit),
                modes.low_share * 100.0,
                super::figure(modes.high, row.unit),
                (1.0 - modes.low_share) * 100.0
            ),
        )
        .because(hint)
        .with(
            Evidence::new("separation", format!("{:.1} spreads", modes.separation))
                .of(if between { medians.len() } else { all.len() } as u64),
        ),
    )
}

fn drifting(row: &BenchRow) -> Option<Finding> {
    let points: Vec<(f64, f64)> = row.slices.iter().map(|&(t, v)| (t as f64, v)).collect();
    let t = trend(&points)?;
    let share = t.change / row.estimate.median;
    (t.p < 0.001 && share.abs() > DRIFT).then(|| {
        Finding::new(
            "bench.drift",
            Verdict::InTheWay,
            Confidence::Likely,
            format!("{} drifted by {:+.1} % while it was measured", name(row), share * 100.0),
        )
        .because("A median of something that moves depends on when it was taken.")
        .with(
            Evidence::new("Mann–Kendall p", format!("{:.2e}", t.p))
                .of(points.len() as u64)
                .from("medians of the processes, in order of time"),
        )
        .attempt("look for a clock that changes with heat or load: latlab doctor")
    })
}

fn stolen(m: &Measured) -> Option<Finding> {
    let steal: u64 = m.slices.iter().filter_map(|s| s.steal_ns).sum();
    let length: u64 = m.slices.iter().map(|s| s.length_ns).sum();
    (length > 0 && steal as f64 > STEAL * length as f64).then(|| {
        Finding::new(
            "bench.steal",
            Verdict::Note,
            Confidence::Sure,
            format!(
                "{}: the host took {:.1} % of the CPU's time while it was measured",
                label(&m.name, &m.params),
                steal as f64 * 100.0 / length as f64
            ),
        )
        .with(Evidence::new("steal", format!("{:.1} ms", steal as f64 / 1e6)).from("/proc/stat"))
    })
}

fn frequency(m: &Measured) -> Option<Finding> {
    let all = || m.slices.iter().filter_map(|s| s.khz).flat_map(|(a, b)| [a, b]);
    let (low, high) = (all().min()?, all().max()?);
    (high as f64 > low as f64 * 1.02).then(|| {
        Finding::new(
            "bench.frequency",
            Verdict::InTheWay,
            Confidence::Sure,
            format!("{}: the CPU's frequency changed", label(&m.name, &m.params)),
        )
        .with(Evidence::new("scaling_cur_freq", format!("{low} to {high} kHz")))
        .attempt("set the governor to performance while measuring")
    })
}

/// A difference that its own interval does not keep away from nothing.
fn not_resolved(row: &BenchRow) -> Option<Finding> {
    let overhead = row.overhead_ns?;
    (row.unit == Unit::Ns && row.estimate.low <= 0.0).then(|| {
        Finding::new(
            "bench.below-resolution",
            Verdict::CannotTell,
            Confidence::Sure,
            format!("{} cannot be told from its own overhead", name(row)),
        )
        .with(Evidence::new("overhead", format!("{overhead:.1} ns")))
        .with(Evidence::new(
            if row.estimate.interval_is_95 { "95% interval" } else { "seen" },
            format!("{:.1} to {:.1} ns", row.estimate.low, row.estimate.high),
        ))
    })
}

/// Somebody else's tracing: every event of a wake-up or a call is paid for by whoever makes it.
pub fn traced(buffers: &[String]) -> Option<Finding> {
    if buffers.is_empty() {
        return None;
    }
    Some(
        Finding::new(
            "bench.traced",
            Verdict::InTheWay,
            Confidence::Sure,
            format!("somebody else traced this kernel meanwhile: {}", buffers.join(", ")),
        )
        .because(
            "Recording an event costs some hundred ns, in every wake-up, switch or call that has one.",
        )
        .attempt("end that tracing and measure again"),
    )
}

/// Other processes on the CPU that was measured on. Even one that only waits for its turn makes the
/// scheduler's choices longer: switches of ordinary tasks have been seen to cost a third more.
pub fn shared(cpu: Option<u32>, others: Option<f64>) -> Option<Finding> {
    let (cpu, others) = (cpu?, others?);
    (others > SHARED).then(|| {
        Finding::new(
            "bench.shared",
            Verdict::InTheWay,
            Confidence::Likely,
            format!("other processes had {:.0} % of CPU {cpu} meanwhile", others * 100.0),
        )
        .because("They lengthen the scheduler's queue and empty the caches; switches suffer most.")
        .with(
            Evidence::new("busy, less our own processes", format!("{:.1} %", others * 100.0))
                .from("/proc/stat, getrusage"),
        )
        .attempt("end them, or measure on another CPU: -a CPU")
    })
}

/// A pair that was to alternate on a CPU, and did not by itself.
fn not_alone(row: &BenchRow) -> Option<Finding> {
    let seen = row.alternation.as_ref()?;
    let between = seen.switches.checked_sub(seen.direct)?;
    let others = || seen.threads.iter().filter(|t| t.name != "measuring" && t.name != "partner");
    let all: u64 = seen.threads.iter().map(|t| t.ns).sum();
    let ns: u64 = others().map(|t| t.ns).sum();
    // A tick's worker now and then is no matter.
    if seen.switches == 0 || between * 10 < seen.switches {
        return None;
    }
    let names: Vec<&str> = others().map(|t| t.name.as_str()).take(3).collect();
    let finding = Finding::new(
        "bench.not-alone",
        Verdict::Note,
        Confidence::Sure,
        format!(
            "{}: the two did not alternate by themselves: {} of {} switches were from or to {}",
            name(row),
            between,
            seen.switches,
            names.join(", ")
        ),
    )
    .because("What others did between the two is in the figure: it is no context switch.");
    let share = format!("{:.0} %", ns as f64 * 100.0 / all.max(1) as f64);
    Some(
        finding
            .with(Evidence::new("of the CPU's time with others", share).from("sched_switch events"))
            .attempt("believe ctx.yield, ctx.futex or ctx.eventfd"),
    )
}

/// Which context-switch figure to believe, where there are several on one CPU.
fn switch_methods(detail: &BenchDetail) -> Option<Finding> {
    let same = |r: &&BenchRow| {
        r.name.starts_with("ctx.")
            && r.name != "ctx.nanosleep"
            && r.params.get("place").is_none_or(|p| p == "same")
            && r.params.get("class").is_none_or(|c| c == "other")
            && r.params.get("size").is_none_or(|s| s == "0")
            && r.params.get("procs").is_none_or(|p| p == "2")
            && r.params.get("part").is_none_or(|p| p == "whole")
    };
    let rows: Vec<&BenchRow> = detail.rows.iter().filter(same).collect();
    let smallest = rows.iter().map(|r| r.estimate.median).fold(f64::INFINITY, f64::min);
    let largest = rows.iter().map(|r| r.estimate.median).fold(0.0, f64::max);
    (rows.len() >= 2).then(|| {
        let claim = format!(
            "a context switch on one CPU costs {} to {} here, by {} methods",
            super::figure(smallest, Unit::Ns),
            super::figure(largest, Unit::Ns),
            rows.len()
        );
        let finding = Finding::new("bench.switch-methods", Verdict::Note, Confidence::Sure, claim)
            .because(
                "ctx.yield has no wake-up in it and is the lower bound; ctx.kernel is the same by the \
                 kernel's own events; ctx.futex and ctx.eventfd are \
                 what a program pays that waits for another; ctx.pipe and ctx.ring are what lmbench's \
                 users know. Each is net of its own calls, which were timed beside it.",
            );
        rows.iter().fold(finding, |f, r| {
            let switches = r.switches.map_or_else(String::new, |s| format!(", {s:.2} switches each"));
            let value = format!("{}{switches}", super::figure(r.estimate.median, r.unit));
            f.with(Evidence::new(name(r), value).of(r.estimate.batches))
        })
    })
}

/// Batches that something else slowed: left out of the figures, but not in silence.
fn disturbed(detail: &BenchDetail) -> Option<Finding> {
    let left_out = |r: &&BenchRow| r.median_of_all.is_some();
    let all: u64 = (detail.rows.iter())
        .map(|r| r.estimate.batches + if left_out(&r) { r.disturbed } else { 0 })
        .sum();
    let slowed: u64 = detail.rows.iter().map(|r| r.disturbed).sum();
    let share = slowed as f64 / all.max(1) as f64;
    if share < DISTURBED {
        return None;
    }
    let kept = detail.rows.iter().filter(|r| r.disturbed > 0 && !left_out(r)).count();
    let mut finding = Finding::new(
        "bench.disturbed",
        Verdict::InTheWay,
        Confidence::Likely,
        format!("something else slowed the machine during {:.0} % of the batches", share * 100.0),
    )
    .because(
        "The same short work, timed beside every batch, took longer than at its best: somebody else used \
         the core (a neighbour on the host, a sibling thread), or the clock changed. Figures come from the \
         other batches, where at least two processes have any.",
    )
    .attempt("measure when the host is quiet: the figures then need less time");
    if let Some(ns) = detail.sentinel_ns {
        let level = format!("{ns:.0} ns a call");
        finding = finding.with(Evidence::new("the sentinel at its best", level).of(all));
    }
    let worst = (detail.rows.iter().filter(left_out))
        .filter_map(|r| Some((r, r.median_of_all? / r.estimate.median - 1.0)))
        .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    if let Some((row, more)) = worst {
        let value = format!("{:+.1} % with the slowed batches", more * 100.0);
        finding = finding.with(Evidence::new(name(row), value));
    }
    if kept > 0 {
        let few = format!("{kept}, with too few others: slowed batches are in them");
        finding = finding.with(Evidence::new("figures that are not clean", few));
    }
    Some(finding)
}

fn unsure(detail: &BenchDetail) -> Option<Finding> {
    let missed: Vec<&BenchRow> = detail.rows.iter().filter(|r| !r.target_met).collect();
    if missed.is_empty() {
        return None;
    }
    let worst =
        missed.iter().max_by(|a, b| a.estimate.half_width().total_cmp(&b.estimate.half_width()))?;
    let width = worst.estimate.half_width();
    let width = if width.is_finite() {
        format!("±{:.1} %", width * 100.0)
    } else {
        "no interval".to_owned()
    };
    Some(
        Finding::new(
            "bench.unsure",
            Verdict::Note,
            Confidence::Sure,
            format!(
                "{} of {} figures are less sure than ±{} %",
                missed.len(),
                detail.rows.len(),
                detail.target * 100.0
            ),
        )
        .with(Evidence::new(name(worst), width))
        .attempt("give it more time: -D 5m, or name fewer probes"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, median: f64) -> BenchRow {
        let estimate = Estimate { median, low: median, high: median, ..Estimate::default() };
        BenchRow { name: name.into(), estimate, target_met: true, ..BenchRow::default() }
    }

    fn detail(rows: Vec<BenchRow>) -> BenchDetail {
        BenchDetail { rows, ..BenchDetail::default() }
    }

    #[test]
    fn an_addition_in_no_time_fails_the_run() {
        let found = findings(&[], &detail(vec![row("arith.int-add", 0.0)]));
        assert!(found.iter().any(is_failure));
    }

    #[test]
    fn an_addition_in_a_fifth_of_a_cycle_fails_the_run() {
        // A dead-code-eliminated loop: 0.06 ns at 3.67 GHz.
        let mut clock = row("cpu.clock", 3.67e9);
        clock.unit = Unit::Hz;
        let found = findings(&[], &detail(vec![clock.clone(), row("arith.int-add", 0.06)]));
        assert!(found.iter().any(is_failure));
        let sound = findings(&[], &detail(vec![clock, row("arith.int-add", 0.2725)]));
        assert!(!sound.iter().any(is_failure), "{sound:?}");
    }

    #[test]
    fn one_batch_below_its_overhead_is_not_resolved_and_a_sure_one_is_impossible() {
        let mut r = row("ctx.pipe", -18.0);
        r.overhead_ns = Some(900.0);
        let all = |r: &BenchRow| findings(&[], &detail(vec![r.clone()]));
        assert!(!all(&r).iter().any(is_failure) && not_resolved(&r).is_some());
        r.estimate.interval_is_95 = true;
        assert!(all(&r).iter().any(is_failure));
    }

    #[test]
    fn a_part_is_not_larger_than_the_whole() {
        let rows = vec![row("process.fork-exec", 100.0), row("process.fork-exit", 200.0)];
        assert!(findings(&[], &detail(rows)).iter().any(|f| f.id == "bench.contradiction"));
    }

    #[test]
    fn a_shared_cpu_and_a_traced_kernel_are_said() {
        assert!(shared(Some(1), Some(0.3)).is_some_and(|f| f.claim.contains("30 % of CPU 1")));
        assert!(shared(Some(1), Some(0.01)).is_none() && shared(None, Some(0.5)).is_none());
        assert!(traced(&["latlab-7".into()]).is_some_and(|f| f.claim.contains("latlab-7")));
        assert!(traced(&[]).is_none());
    }

    #[test]
    fn a_slowed_machine_is_not_passed_over_in_silence() {
        let mut r = row("syscall.read", 200.0);
        (r.estimate.batches, r.disturbed) = (50, 50);
        r.median_of_all = Some(230.0);
        let found = disturbed(&detail(vec![r.clone()])).expect("a finding");
        assert!(found.claim.contains("50 % of the batches"), "{}", found.claim);
        assert!(found.evidence.iter().any(|e| e.value.contains("+15.0 %")), "{found:?}");
        r.disturbed = 2;
        assert!(disturbed(&detail(vec![r])).is_none());
    }

    #[test]
    fn sleepers_that_alternate_with_the_idle_task_are_found() {
        use crate::bench::kernel::{Alternation, Ran};
        let ran = |name: &str, ns| Ran { name: name.into(), turns: 10, ns };
        let mut r = row("ctx.nanosleep", 3000.0);
        let threads = vec![ran("idle", 900), ran("measuring", 60), ran("partner", 40)];
        let seen = Alternation { operations: 10, switches: 40, direct: 4, lost: 0, threads };
        r.alternation = Some(seen);
        let found = not_alone(&r).expect("a finding");
        assert!(found.claim.contains("36 of 40 switches were from or to idle"), "{}", found.claim);
        r.alternation.as_mut().unwrap().direct = 39;
        assert!(not_alone(&r).is_none(), "once is nothing");
    }

    #[test]
    fn a_machine_that_warms_up_is_said_to_drift() {
        let mut r = row("syscall.read", 100.0);
        r.slices = (0..20).map(|i| (i * 1000, 95.0 + i as f64 * 0.5)).collect();
        assert!(drifting(&r).is_some());
        r.slices = (0..20).map(|i| (i * 1000, 100.0 + (i % 3) as f64)).collect();
        assert!(drifting(&r).is_none());
    }
}
