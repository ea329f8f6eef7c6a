//! What follows from a measurement of wake-up latency.

use super::config::Policy;
use super::result::{StopReason, ThreadResult, WakeupResult};
use crate::finding::{Confidence, Evidence, Finding, Verdict};
use crate::run::Window;
use crate::units::format_ns;

/// Conclusions, most important first.
pub fn findings(result: &WakeupResult) -> Vec<Finding> {
    [
        stopped(result),
        low_resolution(result),
        missed(result),
        faults(result),
        steal(result),
        preempted(result),
        slack(result),
        throttling(result),
        lost_samples(result),
        held(result),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn stopped(result: &WakeupResult) -> Option<Finding> {
    match result.stopped_by.as_ref()? {
        StopReason::BreakValue { thread, cycle, latency_ns, .. } => Some(
            Finding::new(
                "wakeup.break-value",
                Verdict::InTheWay,
                Confidence::Sure,
                format!(
                    "wake-up {cycle} of thread {thread} was {} late, over the break value of {}",
                    format_ns(*latency_ns as f64),
                    format_ns(result.config.break_ns.unwrap_or(0) as f64)
                ),
            )
            .because("the measurement was stopped there, as asked")
            .attempt("latlab why, to find what made it late"),
        ),
        StopReason::Runaway { thread, percent } => Some(
            Finding::new(
                "wakeup.runaway",
                Verdict::InTheWay,
                Confidence::Sure,
                format!("thread {thread} took {percent}% of its CPU and was stopped"),
            )
            .because(
                "a real-time thread that takes all of a CPU makes a one-core board unreachable",
            )
            .attempt("a longer interval (-i)"),
        ),
        StopReason::Samples => Some(
            Finding::new(
                "wakeup.samples-unwritable",
                Verdict::InTheWay,
                Confidence::Sure,
                "the measurement was stopped because the samples could not be written",
            )
            .attempt("free space where the samples go"),
        ),
        StopReason::Signal { .. } | StopReason::Hook => None,
    }
}

/// Without high-resolution timers each sleep ends at a tick.
fn low_resolution(result: &WakeupResult) -> Option<Finding> {
    /// No high-resolution timer counts in steps of more than this.
    const COARSE_NS: u64 = 100_000;
    let step = result.timer_step_ns.filter(|&ns| ns >= COARSE_NS)?;
    Some(
        Finding::new(
            "wakeup.low-resolution",
            Verdict::InTheWay,
            Confidence::Sure,
            format!(
                "this kernel's timers have a step of {}: every sleep ends at a tick",
                format_ns(step as f64)
            ),
        )
        .because("latencies are rounded up to ticks, and shorter intervals miss periods; they say nothing of the scheduler")
        .with(Evidence::new("step of the timers", format_ns(step as f64)).from("clock_getres"))
        .attempt("CONFIG_HIGH_RES_TIMERS=y, no highres=off on the kernel's command line, and a clock event device with one-shot mode"),
    )
}

/// How late the wake-ups that missed periods were in all, ns: no more than the latest 32 of each thread.
fn lateness_of_missing(result: &WakeupResult) -> u64 {
    let late = |t: &ThreadResult| -> u64 {
        t.worst.iter().map(|w| w.latency_ns).filter(|&ns| ns >= t.interval_ns).sum()
    };
    result.threads.iter().map(late).sum()
}

/// Whose fault missed periods can be, as far as steal time tells.
fn blame(result: &WakeupResult) -> String {
    let late = lateness_of_missing(result);
    let (late_text, of) = (format_ns(late as f64), |ns: u64| format_ns(ns as f64));
    match result.steal_ns {
        None => format!(
            "these wake-ups were {late_text} late in all; whether a hypervisor took the CPU, this kernel does not tell"
        ),
        Some(0) => format!(
            "these wake-ups were {late_text} late in all, and the kernel was told of no time that a hypervisor took: look at this machine first"
        ),
        Some(steal) if steal >= late => format!(
            "these wake-ups were {late_text} late in all, and the hypervisor took {} meanwhile: enough to explain every one",
            of(steal)
        ),
        Some(steal) => format!(
            "these wake-ups were {late_text} late in all, and the hypervisor took {} meanwhile: it explains part of them at most",
            of(steal)
        ),
    }
}

fn missed(result: &WakeupResult) -> Option<Finding> {
    let missed = result.missed_periods();
    let wakeups: u64 = result.threads.iter().map(|t| t.wakeups).sum();
    if missed == 0 {
        return (wakeups > 0).then(|| {
            Finding::new(
                "wakeup.missed-periods",
                Verdict::Good,
                Confidence::Sure,
                "every period was kept: no wake-up was later than its period",
            )
            .with(Evidence::new("missed periods", "0").of(wakeups))
        });
    }
    let stalls: u64 = result.threads.iter().map(|t| t.wakeups_with_misses).sum();
    Some(
        Finding::new(
            "wakeup.missed-periods",
            Verdict::InTheWay,
            Confidence::Sure,
            format!("{missed} periods were missed, in {stalls} late wake-ups"),
        )
        .because(format!(
            "a task with this period would have skipped that many activations; {}",
            blame(result)
        ))
        .with(Evidence::new("missed periods", missed.to_string()).of(wakeups + missed))
        .with(
            Evidence::new("wake-ups that missed further periods", stalls.to_string()).of(wakeups),
        ),
    )
}

fn total(result: &WakeupResult, of: fn(&Window) -> Option<u64>) -> Option<u64> {
    result.threads.iter().map(|t| of(&t.window)).sum()
}

fn faults(result: &WakeupResult) -> Option<Finding> {
    let major = total(result, |w| w.major_faults).unwrap_or(0);
    let minor = total(result, |w| w.minor_faults).unwrap_or(0);
    if major + minor == 0 {
        return None;
    }
    let finding = Finding::new(
        "wakeup.page-faults",
        if major > 0 { Verdict::InTheWay } else { Verdict::Note },
        Confidence::Sure,
        format!("the measuring threads took {major} major and {minor} minor page faults"),
    )
    .because("a fault in the loop is part of the latency that was measured")
    .with(Evidence::new("major faults", major.to_string()).from("getrusage"))
    .with(Evidence::new("minor faults", minor.to_string()).from("getrusage"));
    Some(if result.config.lock_memory { finding } else { finding.attempt("-m, to lock memory") })
}

fn steal(result: &WakeupResult) -> Option<Finding> {
    let steal = result.steal_ns.filter(|&ns| ns > 0)?;
    Some(
        Finding::new(
            "wakeup.steal",
            Verdict::InTheWay,
            Confidence::Sure,
            format!("the hypervisor took {} from the CPUs measured", format_ns(steal as f64)),
        )
        .because("late wake-ups can be the host's doing, not this kernel's")
        .with(Evidence::new("steal time", format_ns(steal as f64)).from("/proc/stat")),
    )
}

fn preempted(result: &WakeupResult) -> Option<Finding> {
    let n = total(result, |w| w.involuntary_switches).filter(|&n| n > 0)?;
    let wakeups: u64 = result.threads.iter().map(|t| t.wakeups).sum();
    Some(
        Finding::new(
            "wakeup.preempted",
            Verdict::Note,
            Confidence::Sure,
            format!("the measuring threads were preempted {n} times while they ran"),
        )
        .because("something of higher or equal priority, or throttling, ran in their stead")
        .with(Evidence::new("involuntary switches", n.to_string()).of(wakeups).from("getrusage")),
    )
}

fn slack(result: &WakeupResult) -> Option<Finding> {
    (!result.config.policy.is_real_time() && result.method == "clock_nanosleep").then(|| {
        Finding::new(
            "wakeup.timer-slack",
            Verdict::Note,
            Confidence::Sure,
            format!(
                "SCHED_{} timers carry slack, 50 µs unless changed: most of the latency is that",
                result.config.policy.to_string().to_uppercase()
            ),
        )
        .because("the kernel may delay the timers of ordinary tasks so as to wake less often")
        .attempt("--policy fifo, to measure a real-time task")
    })
}

fn throttling(result: &WakeupResult) -> Option<Finding> {
    let (runtime, period) = result.rt_throttling_us?;
    if runtime >= 0 || !matches!(result.config.policy, Policy::Fifo | Policy::Rr) {
        return None;
    }
    Some(
        Finding::new(
            "wakeup.no-rt-throttling",
            Verdict::Note,
            Confidence::Sure,
            "real-time throttling is off: a runaway real-time task would take this machine whole",
        )
        .with(
            Evidence::new("sched_rt_runtime_us", runtime.to_string())
                .from("/proc/sys/kernel/sched_rt_runtime_us"),
        )
        .with(
            Evidence::new("sched_rt_period_us", period.to_string())
                .from("/proc/sys/kernel/sched_rt_period_us"),
        ),
    )
}

fn lost_samples(result: &WakeupResult) -> Option<Finding> {
    let lost: u64 = result.threads.iter().map(|t| t.samples_lost).sum();
    (lost > 0).then(|| {
        Finding::new(
            "wakeup.samples-lost",
            Verdict::InTheWay,
            Confidence::Sure,
            format!(
                "{lost} samples are not in the samples file: it could not be written fast enough"
            ),
        )
        .because("histograms and quantiles have them all; the file has gaps")
        .attempt("write the samples to a faster file system, or a longer interval")
    })
}

fn held(result: &WakeupResult) -> Option<Finding> {
    (!result.held.is_empty()).then(|| {
        let mut finding = Finding::new(
            "wakeup.held",
            Verdict::Note,
            Confidence::Sure,
            format!("the machine was changed for the measurement: {}", result.held.join("; ")),
        )
        .because("the figures are those of a machine that is better than it is without this tool");
        finding.evidence = result.held.iter().map(|h| Evidence::new("held", h.clone())).collect();
        finding
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wakeup::{WakeupConfig, Worst};

    fn with(thread: ThreadResult) -> WakeupResult {
        WakeupResult {
            threads: vec![thread],
            method: "clock_nanosleep".into(),
            ..WakeupResult::default()
        }
    }

    fn ids(result: &WakeupResult) -> Vec<String> {
        findings(result).into_iter().map(|f| f.id).collect()
    }

    #[test]
    fn a_clean_measurement_says_only_that_every_period_was_kept() {
        let result = with(ThreadResult { wakeups: 100, ..ThreadResult::default() });
        assert_eq!(ids(&result), ["wakeup.missed-periods"]);
        assert_eq!(findings(&result)[0].verdict, Verdict::Good);
    }

    #[test]
    fn what_disturbed_the_measurement_is_said() {
        let window = Window {
            major_faults: Some(1),
            minor_faults: Some(0),
            involuntary_switches: Some(3),
            ..Window::default()
        };
        let mut result = with(ThreadResult {
            wakeups: 100,
            missed_periods: 12,
            wakeups_with_misses: 1,
            window,
            ..ThreadResult::default()
        });
        result.steal_ns = Some(20_000_000);
        result.held = vec!["/dev/cpu_dma_latency is held at 0 µs".into()];
        assert_eq!(
            ids(&result),
            [
                "wakeup.missed-periods",
                "wakeup.page-faults",
                "wakeup.steal",
                "wakeup.preempted",
                "wakeup.held"
            ]
        );
    }

    #[test]
    fn a_hypervisor_is_named_only_as_far_as_it_took_time() {
        let late = Worst { latency_ns: 5_000_000, ..Worst::default() };
        let in_time = Worst { latency_ns: 900_000, ..Worst::default() };
        let mut result = with(ThreadResult {
            wakeups: 100,
            interval_ns: 1_000_000,
            missed_periods: 5,
            wakeups_with_misses: 1,
            worst: vec![late, in_time],
            ..ThreadResult::default()
        });
        let why = |steal: Option<u64>, result: &mut WakeupResult| {
            result.steal_ns = steal;
            findings(result)[0].why.clone()
        };
        assert!(why(Some(10_000_000), &mut result).contains("enough to explain every one"));
        assert!(why(Some(1_000_000), &mut result).contains("part of them at most"));
        assert!(why(Some(0), &mut result).contains("look at this machine first"));
        assert!(why(None, &mut result).contains("does not tell"));
        assert!(why(None, &mut result).contains("5.00 ms late in all"));
    }

    #[test]
    fn timers_that_only_tick_are_a_finding_before_the_figures() {
        let mut result = with(ThreadResult { wakeups: 100, ..ThreadResult::default() });
        result.timer_step_ns = Some(1);
        assert!(!ids(&result).contains(&"wakeup.low-resolution".to_owned()));
        result.timer_step_ns = Some(4_000_000);
        assert_eq!(ids(&result)[0], "wakeup.low-resolution");
        assert!(findings(&result)[0].claim.contains("4.00 ms"));
    }

    #[test]
    fn ordinary_tasks_are_told_of_their_slack() {
        let mut result = with(ThreadResult { wakeups: 1, ..ThreadResult::default() });
        result.config =
            WakeupConfig { policy: Policy::Other, priority: 0, ..WakeupConfig::default() };
        assert!(ids(&result).contains(&"wakeup.timer-slack".to_owned()));
    }
}
