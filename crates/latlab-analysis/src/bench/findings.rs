//! Conditions that limit a result: drift, two modes, interference, a missed target, an impossible
//! value.

use super::control_workload;
use super::measured::Measured;
use latlab_model::bench::{BenchDetail, BenchRow, Selection, label};
use latlab_model::finding::{Confidence, Evidence, Finding, Note, Quantity, Severity, Value};
use latlab_model::record::Unit;
use latlab_stats::estimate::Estimate;
use latlab_stats::modes::two_modes;
use latlab_stats::trend::trend;

/// Smallest drift that is a finding, as a share of the median.
const DRIFT: f64 = 0.02;
/// Largest share of steal time without a finding.
const STEAL: f64 = 0.005;

/// Smallest share of disturbed batches that is a finding: a tick in the control workload looks the same.
const DISTURBED: f64 = 0.05;

/// Largest share of CPU time of others without a finding: kernel housekeeping and accounting granularity.
const SHARED: f64 = 0.05;

/// Fewest batches that two modes within processes are looked for in.
const WITHIN_LEAST: usize = 50;

/// The findings of a suite, impossible results first.
pub fn findings(measured: &[Measured], detail: &BenchDetail) -> Vec<Finding> {
    let mut found = impossible(detail);
    found.extend(contradictions(detail));
    for m in measured {
        let row = detail.rows.iter().find(|r| r.name == m.name && r.params == m.params);
        if let Some(row) = row {
            found.extend(bimodal(m, row, detail.control_ns));
            found.extend(drifting(row));
            found.extend(stolen(m));
            found.extend(frequency(m));
            found.extend(not_resolved(row));
            found.extend(not_alone(row));
            found.extend(cut_short(m));
        }
    }
    found.extend(switch_methods(detail));
    found.extend(disturbed(detail));
    found.extend(two_states(detail));
    found.extend(unsure(detail));
    found
}

/// A measurement that ended before its time.
const CUT_SHORT: &str = "bench.cut-short";

/// Whether a finding reports an impossible result: the suite has then failed.
pub fn is_failure(finding: &Finding) -> bool {
    finding.id == "bench.impossible"
}

/// Whether a finding reports that a measurement ended before its time.
pub fn is_cut_short(finding: &Finding) -> bool {
    finding.id == CUT_SHORT
}

fn name(row: &BenchRow) -> String {
    label(&row.name, &row.params)
}

/// A value with its unit.
fn quantity(value: f64, unit: Unit) -> Quantity {
    match unit {
        Unit::Ns => Quantity::Ns(value),
        Unit::BytesPerSecond => Quantity::BytesPerSecond(value),
        Unit::PerSecond => Quantity::PerSecond(value),
        Unit::Hz => Quantity::Hz(value),
        Unit::Watt => Quantity::Watts(value),
        Unit::Ratio => Quantity::Ratio(value),
        Unit::Bytes | Unit::Count => Quantity::Number(value),
    }
}

/// A list of the label of a result and a value.
fn labelled(row: &BenchRow, value: Quantity) -> Value {
    Value::List(vec![name(row).into(), value.into()])
}

fn estimate_of<'a>(detail: &'a BenchDetail, name: &str) -> Option<&'a Estimate> {
    detail.rows.iter().find(|r| r.name == name).map(|r| &r.estimate)
}

/// Figures that no machine can have: nothing takes no time, and an addition takes a cycle.
fn impossible(detail: &BenchDetail) -> Vec<Finding> {
    let failure = |cycles: Option<f64>, row: &BenchRow| {
        let value = quantity(row.estimate.median, row.unit);
        Finding::typed("bench.impossible", Severity::Problem, Confidence::High)
            .value("benchmark", name(row))
            .value_if("cycles", cycles.map(Quantity::Number))
            .with(Evidence::new(name(row), value).of(row.estimate.batches))
    };
    let mut found: Vec<Finding> = (detail.rows.iter())
        // A difference of two nearly equal times may lie below zero within its interval: `not_resolved`.
        .filter(|r| {
            let sure = r.estimate.interval_is_95 && r.estimate.high < 0.0;
            r.estimate.median <= 0.0 && (r.overhead_ns.is_none() || sure)
        })
        .map(|r| failure(None, r))
        .collect();
    let Some(clock) = estimate_of(detail, "cpu.clock") else { return found };
    let cycle_ns = 1e9 / clock.median;
    for row in detail.rows.iter().filter(|r| r.name.starts_with("arith.")) {
        // No processor yet has more than eight units for one kind of instruction.
        let throughput = row.params.get("mode").is_some_and(|m| m == "throughput");
        let least = if throughput { cycle_ns / 8.0 } else { cycle_ns * 0.9 };
        if row.estimate.median > 0.0 && row.estimate.median < least {
            found.push(failure(Some(row.estimate.median / cycle_ns), row));
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
            // Overlapping intervals are no contradiction.
            (l.high < s.low).then(|| {
                Finding::typed("bench.contradiction", Severity::Problem, Confidence::Medium)
                    .value("whole", large)
                    .value("part", small)
                    .with(Evidence::new(large, Quantity::Ns(l.median)))
                    .with(Evidence::new(small, Quantity::Ns(s.median)))
                    .remedy(Note::new("bench.remedy-idle-machine"))
            })
        })
        .collect()
}

/// Two groups of values with a gap: in which one the median lies is chance.
fn bimodal(m: &Measured, row: &BenchRow, level: Option<f64>) -> Option<Finding> {
    let medians: Vec<f64> = row.slices.iter().map(|&(_, v)| v).collect();
    let chosen = control_workload::choose(&m.slices, level).of(&m.slices, |s| &s.values);
    let all: Vec<f64> = chosen.into_iter().flat_map(|(_, v)| v).collect();
    let (modes, between) = match two_modes(&medians) {
        Some(modes) => (modes, true),
        // Of a few batches a busy moment makes a mode; of many it does not.
        None if all.len() >= WITHIN_LEAST => (two_modes(&all)?, false),
        None => return None,
    };
    let samples = if between { medians.len() } else { all.len() } as u64;
    Some(
        Finding::typed("bench.two-modes", Severity::Info, Confidence::Medium)
            .value("benchmark", name(row))
            .value("scope", if between { "processes" } else { "batches" })
            .value("low", quantity(modes.low, row.unit))
            .value("low_share", Quantity::Ratio(modes.low_share))
            .value("high", quantity(modes.high, row.unit))
            .value("high_share", Quantity::Ratio(1.0 - modes.low_share))
            .with(Evidence::new("separation", Quantity::Number(modes.separation)).of(samples)),
    )
}

fn drifting(row: &BenchRow) -> Option<Finding> {
    let points: Vec<(f64, f64)> = row.slices.iter().map(|&(t, v)| (t as f64, v)).collect();
    let t = trend(&points)?;
    let share = t.change / row.estimate.median;
    (t.p < 0.001 && share.abs() > DRIFT).then(|| {
        let p = Evidence::new("mann-kendall-p", Quantity::Probability(t.p));
        Finding::typed("bench.drift", Severity::Warning, Confidence::Medium)
            .value("benchmark", name(row))
            .value("change", Quantity::Ratio(share))
            .with(p.of(points.len() as u64))
            .remedy(Note::new("bench.remedy-clock"))
    })
}

fn stolen(m: &Measured) -> Option<Finding> {
    let steal: u64 = m.slices.iter().filter_map(|s| s.steal_ns).sum();
    let length: u64 = m.slices.iter().map(|s| s.length_ns).sum();
    (length > 0 && steal as f64 > STEAL * length as f64).then(|| {
        let time = Evidence::new("steal", Quantity::Ns(steal as f64)).from("/proc/stat");
        Finding::typed("bench.steal", Severity::Info, Confidence::High)
            .value("benchmark", label(&m.name, &m.params))
            .value("share", Quantity::Ratio(steal as f64 / length as f64))
            .with(time)
    })
}

fn frequency(m: &Measured) -> Option<Finding> {
    let all = || m.slices.iter().filter_map(|s| s.khz).flat_map(|(a, b)| [a, b]);
    let (low, high) = (all().min()?, all().max()?);
    (high as f64 > low as f64 * 1.02).then(|| {
        let hz = |khz: u64| Quantity::Hz(khz as f64 * 1e3);
        Finding::typed("bench.frequency", Severity::Warning, Confidence::High)
            .value("benchmark", label(&m.name, &m.params))
            .value("low", hz(low))
            .value("high", hz(high))
            .with(Evidence::new("scaling_cur_freq", vec![hz(low), hz(high)]))
            .remedy(Note::new("bench.remedy-governor"))
    })
}

/// A server on another machine was lost; what was measured before stays.
fn cut_short(m: &Measured) -> Option<Finding> {
    let (reason, _) = m.given_up.as_ref()?;
    let Note::Typed(reason) = reason else { return None };
    let mut finding = Finding::typed(CUT_SHORT, Severity::Problem, Confidence::High)
        .value("benchmark", label(&m.name, &m.params))
        .value("processes", Quantity::Count(m.slices.len() as u64))
        .value("reason", &*reason.id);
    for (name, value) in &reason.values {
        finding = finding.value(name, value.clone());
    }
    Some(finding)
}

/// A difference whose interval includes zero.
fn not_resolved(row: &BenchRow) -> Option<Finding> {
    let overhead = row.overhead_ns?;
    (row.unit == Unit::Ns && row.estimate.low <= 0.0).then(|| {
        let e = &row.estimate;
        let range = if e.interval_is_95 { "interval-95" } else { "range" };
        let id = "bench.below-resolution";
        Finding::typed(id, Severity::Inconclusive, Confidence::High)
            .value("benchmark", name(row))
            .with(Evidence::new("overhead", Quantity::Ns(overhead)))
            .with(Evidence::new(range, vec![Quantity::Ns(e.low), Quantity::Ns(e.high)]))
    })
}

/// Tracing by other programs: each event adds to the wake-up or call that it is recorded in.
pub fn traced(buffers: &[String]) -> Option<Finding> {
    let names: Vec<&str> = buffers.iter().map(String::as_str).collect();
    (!names.is_empty()).then(|| {
        Finding::typed("bench.traced", Severity::Warning, Confidence::High)
            .value("buffers", names)
            .remedy(Note::new("bench.remedy-end-tracing"))
    })
}

/// Other processes on the CPU of the measurement. Even a waiting one lengthens the scheduler's choices:
/// switches of ordinary tasks have been seen to cost a third more.
pub fn shared(cpu: Option<u32>, others: Option<f64>) -> Option<Finding> {
    let (cpu, others) = (cpu?, others?);
    (others > SHARED).then(|| {
        let busy = Evidence::new("busy-by-others", Quantity::Ratio(others));
        Finding::typed("bench.shared", Severity::Warning, Confidence::Medium)
            .value("cpu", Quantity::Cpu(cpu))
            .value("share", Quantity::Ratio(others))
            .with(busy.from("/proc/stat, getrusage"))
            .remedy(Note::new("bench.remedy-free-cpu"))
    })
}

/// A pair whose alternation on a CPU includes other threads.
fn not_alone(row: &BenchRow) -> Option<Finding> {
    let seen = row.alternation.as_ref()?;
    let between = seen.switches.checked_sub(seen.direct)?;
    let others = || seen.threads.iter().filter(|t| t.name != "measuring" && t.name != "partner");
    let all: u64 = seen.threads.iter().map(|t| t.ns).sum();
    let ns: u64 = others().map(|t| t.ns).sum();
    // Less than a tenth is occasional kernel work.
    if seen.switches == 0 || between * 10 < seen.switches {
        return None;
    }
    let names: Vec<&str> = others().map(|t| t.name.as_str()).take(3).collect();
    let share = Quantity::Ratio(ns as f64 / all.max(1) as f64);
    Some(
        Finding::typed("bench.not-alone", Severity::Info, Confidence::High)
            .value("benchmark", name(row))
            .value("between", Quantity::Count(between))
            .value("switches", Quantity::Count(seen.switches))
            .value("threads", names)
            .with(Evidence::new("cpu-time-of-others", share).from("sched_switch"))
            .remedy(Note::new("bench.remedy-other-methods")),
    )
}

/// The context-switch results of several methods on one CPU.
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
        let id = "bench.switch-methods";
        let finding = Finding::typed(id, Severity::Info, Confidence::High)
            .value("low", Quantity::Ns(smallest))
            .value("high", Quantity::Ns(largest))
            .value("methods", Quantity::Count(rows.len() as u64));
        rows.iter().fold(finding, |f, r| {
            let value = quantity(r.estimate.median, r.unit);
            f.with(Evidence::new(name(r), value).of(r.estimate.batches))
        })
    })
}

/// Batches with interference: excluded from the results where enough others remain.
fn disturbed(detail: &BenchDetail) -> Option<Finding> {
    let left_out =
        |r: &&BenchRow| matches!(r.selection, Selection::Undisturbed | Selection::FewUndisturbed);
    let all: u64 = (detail.rows.iter())
        .map(|r| r.estimate.batches + if left_out(&r) { r.disturbed } else { 0 })
        .sum();
    let slowed: u64 = detail.rows.iter().map(|r| r.disturbed).sum();
    let share = slowed as f64 / all.max(1) as f64;
    if share < DISTURBED {
        return None;
    }
    let of = |s: Selection| detail.rows.iter().filter(|r| r.selection == s).count();
    let (kept, few) = (of(Selection::AllDisturbed), of(Selection::FewUndisturbed));
    let mut finding = Finding::typed("bench.disturbed", Severity::Warning, Confidence::Medium)
        .value("share", Quantity::Ratio(share))
        .remedy(Note::new("bench.remedy-quiet-host"));
    if let Some(ns) = detail.control_ns {
        finding = finding.with(Evidence::new("control-workload-best", Quantity::Ns(ns)).of(all));
    }
    let worst = (detail.rows.iter().filter(left_out))
        .filter_map(|r| Some((r, r.median_of_all? / r.estimate.median - 1.0)))
        .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    if let Some((row, more)) = worst {
        let change = labelled(row, Quantity::Ratio(more));
        finding = finding.with(Evidence::new("change-with-disturbed-batches", change));
    }
    for (id, rows) in
        [("results-with-disturbed-batches", kept), ("results-from-a-minority-of-batches", few)]
    {
        if rows > 0 {
            finding = finding.with(Evidence::new(id, Quantity::Count(rows as u64)));
        }
    }
    Some(finding)
}

/// Two states of the machine, each with a level of its own.
fn two_states(detail: &BenchDetail) -> Option<Finding> {
    let s = detail.states?;
    Some(
        Finding::typed("bench.two-states", Severity::Warning, Confidence::Medium)
            .value("share", Quantity::Ratio(s.fast_share))
            .value("slower", Quantity::Ratio(s.slow_ns / s.fast_ns - 1.0))
            .with(Evidence::new("control-workload-fast", Quantity::Ns(s.fast_ns)))
            .with(Evidence::new("control-workload-slow", Quantity::Ns(s.slow_ns)))
            .remedy(Note::new("bench.remedy-fixed-clock")),
    )
}

fn unsure(detail: &BenchDetail) -> Option<Finding> {
    let missed: Vec<&BenchRow> = detail.rows.iter().filter(|r| !r.target_met).collect();
    if missed.is_empty() {
        return None;
    }
    let worst =
        missed.iter().max_by(|a, b| a.estimate.half_width().total_cmp(&b.estimate.half_width()))?;
    let width = worst.estimate.half_width();
    let widest = match width.is_finite() {
        true => Evidence::new("widest-interval", labelled(worst, Quantity::Ratio(width))),
        false => Evidence::new("no-interval", name(worst)),
    };
    let count = |n: usize| Quantity::Count(n as u64);
    Some(
        Finding::typed("bench.unsure", Severity::Info, Confidence::High)
            .value("missed", count(missed.len()))
            .value("results", count(detail.rows.len()))
            .value("target", Quantity::Ratio(detail.target))
            .with(widest)
            .remedy(Note::new("bench.remedy-more-time")),
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
    fn a_shared_cpu_and_a_traced_kernel_are_findings() {
        let found = shared(Some(1), Some(0.3)).expect("a finding");
        assert_eq!(found.values["share"], Quantity::Ratio(0.3).into());
        assert_eq!(found.values["cpu"], Quantity::Cpu(1).into());
        assert!(shared(Some(1), Some(0.01)).is_none() && shared(None, Some(0.5)).is_none());
        let found = traced(&["latlab-7".into()]).expect("a finding");
        assert_eq!(found.values["buffers"], vec!["latlab-7"].into());
        assert!(traced(&[]).is_none());
    }

    #[test]
    fn interference_is_a_finding() {
        let mut r = row("syscall.read", 200.0);
        (r.estimate.batches, r.disturbed) = (50, 50);
        r.median_of_all = Some(230.0);
        r.selection = Selection::Undisturbed;
        let found = disturbed(&detail(vec![r.clone()])).expect("a finding");
        assert_eq!(found.values["share"], Quantity::Ratio(0.5).into());
        let change = found.evidence.iter().find(|e| e.id == "change-with-disturbed-batches");
        let Some(Value::List(change)) = change.map(|e| &e.value) else { panic!("{found:?}") };
        let Value::Quantity(Quantity::Ratio(more)) = change[1] else { panic!("{found:?}") };
        assert!((more - 0.15).abs() < 1e-9, "{found:?}");
        r.disturbed = 2;
        assert!(disturbed(&detail(vec![r])).is_none());
    }

    #[test]
    fn sleepers_that_alternate_with_the_idle_task_are_found() {
        use latlab_model::bench::{Alternation, Ran};
        let ran = |name: &str, ns| Ran { name: name.into(), turns: 10, ns };
        let mut r = row("ctx.nanosleep", 3000.0);
        let threads = vec![ran("idle", 900), ran("measuring", 60), ran("partner", 40)];
        let seen = Alternation { operations: 10, switches: 40, direct: 4, lost: 0, threads };
        r.alternation = Some(seen);
        let found = not_alone(&r).expect("a finding");
        assert_eq!(found.values["between"], Quantity::Count(36).into());
        assert_eq!(found.values["switches"], Quantity::Count(40).into());
        assert_eq!(found.values["threads"], vec!["idle"].into());
        r.alternation.as_mut().unwrap().direct = 39;
        assert!(not_alone(&r).is_none(), "once is nothing");
    }

    #[test]
    fn a_trend_of_the_medians_is_drift() {
        let mut r = row("syscall.read", 100.0);
        r.slices = (0..20).map(|i| (i * 1000, 95.0 + i as f64 * 0.5)).collect();
        assert!(drifting(&r).is_some());
        r.slices = (0..20).map(|i| (i * 1000, 100.0 + (i % 3) as f64)).collect();
        assert!(drifting(&r).is_none());
    }
}
