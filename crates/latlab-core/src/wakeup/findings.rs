//! What follows from a measurement of wake-up latency.

use super::config::Policy;
use super::result::{StopReason, WakeupResult};
use crate::finding::{Confidence, Evidence, Finding, Verdict};
use crate::run::Window;
use crate::units::format_ns;

/// Conclusions, most important first.
pub fn findings(result: &WakeupResult) -> Vec<Finding> {
    [
        stopped(result),
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
        .because("a task with this period would have skipped that many activations; figures per wake-up alone hide them")
        .with(Evidence::new("missed periods", missed.to_string()).of(wakeups + missed))
        .with(Evidence::new("wake-ups that missed further periods", stalls.to_string()).of(wakeups)),
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
    use crate::wakeup::{ThreadResult, WakeupConfig};

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
    fn ordinary_tasks_are_told_of_their_slack() {
        let mut result = with(ThreadResult { wakeups: 1, ..ThreadResult::default() });
        result.config =
            WakeupConfig { policy: Policy::Other, priority: 0, ..WakeupConfig::default() };
        assert!(ids(&result).contains(&"wakeup.timer-slack".to_owned()));
    }
}
