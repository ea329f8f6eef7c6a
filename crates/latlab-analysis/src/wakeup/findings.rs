//! Findings of a wake-up latency measurement.

use latlab_model::finding::{Confidence, Evidence, Finding, Note, Quantity, Severity, Value};
use latlab_model::record::Window;
use latlab_model::wakeup::config::Policy;
use latlab_model::wakeup::result::{StopReason, ThreadResult, WakeupResult};

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

/// Power was not read.
pub fn no_power() -> Finding {
    finding("wakeup.no-power", Severity::Warning)
}

fn finding(id: &str, severity: Severity) -> Finding {
    Finding::typed(id, severity, Confidence::High)
}

fn ns(value: u64) -> Quantity {
    Quantity::Ns(value as f64)
}

fn thread_number(index: usize) -> Quantity {
    Quantity::Count(index as u64)
}

fn wakeups(result: &WakeupResult) -> u64 {
    result.threads.iter().map(|t| t.wakeups).sum()
}

/// What woke the thread, where mechanisms are measured in turns.
fn mechanism_of(result: &WakeupResult, thread: usize) -> Option<&'static str> {
    result.threads.get(thread)?.woken.map(|w| w.by.id())
}

fn stopped(result: &WakeupResult) -> Option<Finding> {
    match result.stopped_by.as_ref()? {
        StopReason::BreakValue { thread, cycle, latency_ns, .. } => Some(
            finding("wakeup.break-value", Severity::Problem)
                .value("thread", thread_number(*thread))
                .value_if("mechanism", mechanism_of(result, *thread))
                .value("wakeup", Quantity::Count(*cycle))
                .value("latency", ns(*latency_ns))
                .value("limit", ns(result.config.break_ns.unwrap_or(0)))
                .remedy(Note::new("remedy.analyse-latency")),
        ),
        StopReason::Runaway { thread, percent } => Some(
            finding("wakeup.runaway", Severity::Problem)
                .value("thread", thread_number(*thread))
                .value("cpu_share", Quantity::Ratio(f64::from(*percent) / 100.0))
                .remedy(Note::new("remedy.longer-interval")),
        ),
        StopReason::Samples => Some(
            finding("wakeup.samples-unwritable", Severity::Problem)
                .remedy(Note::new("remedy.sample-space")),
        ),
        StopReason::Signal { .. } | StopReason::Hook => None,
    }
}

/// Without high-resolution timers each sleep ends at a tick.
fn low_resolution(result: &WakeupResult) -> Option<Finding> {
    /// No high-resolution timer counts in steps of more than this.
    const COARSE_NS: u64 = 100_000;
    let step = result.timer_step_ns.filter(|&ns| ns >= COARSE_NS)?;
    let option = Note::new("remedy.kernel-option")
        .value("option", "CONFIG_HIGH_RES_TIMERS")
        .value("line", "CONFIG_HIGH_RES_TIMERS=y");
    Some(
        finding("wakeup.low-resolution", Severity::Problem)
            .value("step", ns(step))
            .with(Evidence::new("timer-resolution", ns(step)).from("clock_getres"))
            .remedy(option)
            .remedy(Note::new("remedy.one-shot-timers")),
    )
}

/// Sum of the latencies of the wake-ups that missed periods, ns; of the 32 worst of each thread only.
fn lateness_of_missing(result: &WakeupResult) -> u64 {
    let late = |t: &ThreadResult| -> u64 {
        t.worst.iter().map(|w| w.latency_ns).filter(|&ns| ns >= t.interval_ns).sum()
    };
    result.threads.iter().map(late).sum()
}

fn missed(result: &WakeupResult) -> Option<Finding> {
    let id = "wakeup.missed-periods";
    let missed = result.missed_periods();
    let wakeups = wakeups(result);
    let count = Quantity::Count(missed);
    if missed == 0 {
        return (wakeups > 0).then(|| {
            finding(id, Severity::Ok)
                .value("missed", count)
                .with(Evidence::new("missed-periods", count).of(wakeups))
        });
    }
    if result.config.core.is_some() {
        // The program counts them and does not tell of which wake-up.
        let evidence = Evidence::new("missed-periods", count).of(wakeups + missed);
        return Some(finding(id, Severity::Problem).value("missed", count).with(evidence));
    }
    let stalls = Quantity::Count(result.threads.iter().map(|t| t.wakeups_with_misses).sum());
    Some(
        finding(id, Severity::Problem)
            .value("missed", count)
            .value("wakeups", stalls)
            .value("late", ns(lateness_of_missing(result)))
            .value_if("steal", result.steal_ns.map(ns))
            .with(Evidence::new("missed-periods", count).of(wakeups + missed))
            .with(Evidence::new("wake-ups-with-missed-periods", stalls).of(wakeups)),
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
    let severity = if major > 0 { Severity::Problem } else { Severity::Info };
    let (major, minor) = (Quantity::Count(major), Quantity::Count(minor));
    let finding = finding("wakeup.page-faults", severity)
        .value("major", major)
        .value("minor", minor)
        .with(Evidence::new("major-faults", major).from("getrusage"))
        .with(Evidence::new("minor-faults", minor).from("getrusage"));
    Some(match result.config.lock_memory {
        true => finding,
        false => finding.remedy(Note::new("remedy.lock-memory")),
    })
}

fn steal(result: &WakeupResult) -> Option<Finding> {
    let steal = result.steal_ns.filter(|&ns| ns > 0)?;
    Some(
        finding("wakeup.steal", Severity::Warning)
            .value("steal", ns(steal))
            .with(Evidence::new("steal-time", ns(steal)).from("/proc/stat")),
    )
}

fn preempted(result: &WakeupResult) -> Option<Finding> {
    let n = Quantity::Count(total(result, |w| w.involuntary_switches).filter(|&n| n > 0)?);
    let evidence = Evidence::new("involuntary-switches", n).of(wakeups(result));
    Some(
        finding("wakeup.preempted", Severity::Info)
            .value("switches", n)
            .with(evidence.from("getrusage")),
    )
}

fn slack(result: &WakeupResult) -> Option<Finding> {
    // Timers of a task's sleep have slack, those of timerfd and timer_create have not.
    let sleeps = ["clock_nanosleep", "nanosleep"].contains(&result.method.as_str());
    (!result.config.policy.is_real_time() && sleeps).then(|| {
        finding("wakeup.timer-slack", Severity::Info)
            .value("policy", result.config.policy.to_string())
            .remedy(Note::new("remedy.fifo-policy"))
    })
}

fn throttling(result: &WakeupResult) -> Option<Finding> {
    let (runtime, period) = result.rt_throttling_us?;
    if runtime >= 0 || !matches!(result.config.policy, Policy::Fifo | Policy::Rr) {
        return None;
    }
    let period = i64::try_from(period).unwrap_or(i64::MAX);
    let evidence = |name: &str, us: i64| {
        Evidence::new(name, Quantity::Integer(us)).from(["/proc/sys/kernel/", name].concat())
    };
    Some(
        finding("wakeup.no-rt-throttling", Severity::Info)
            .with(evidence("sched_rt_runtime_us", runtime))
            .with(evidence("sched_rt_period_us", period)),
    )
}

fn lost_samples(result: &WakeupResult) -> Option<Finding> {
    let lost: u64 = result.threads.iter().map(|t| t.samples_lost).sum();
    (lost > 0).then(|| {
        finding("wakeup.samples-lost", Severity::Warning)
            .value("lost", Quantity::Count(lost))
            .remedy(Note::new("remedy.faster-sample-file"))
    })
}

fn held(result: &WakeupResult) -> Option<Finding> {
    if result.held.is_empty() {
        return None;
    }
    let value_of = |note: &Note, name: &str| match note {
        Note::Typed(s) => s.values.get(name).cloned(),
        Note::Recorded(text) => Some(text.into()),
    };
    let settings: Vec<Value> =
        result.held.iter().filter_map(|note| value_of(note, "path")).collect();
    let mut finding = finding("wakeup.held", Severity::Info).value("settings", settings.clone());
    for (note, setting) in result.held.iter().zip(settings) {
        if let (Value::Text(path), Some(value), Some(_)) =
            (setting, value_of(note, "latency"), note.id())
        {
            finding = finding.with(Evidence::new(path, value));
        }
    }
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::wakeup::config::WakeupConfig;
    use latlab_model::wakeup::result::Worst;

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
    fn a_clean_measurement_has_only_the_finding_of_no_missed_periods() {
        let result = with(ThreadResult { wakeups: 100, ..ThreadResult::default() });
        assert_eq!(ids(&result), ["wakeup.missed-periods"]);
        assert_eq!(findings(&result)[0].severity, Severity::Ok);
    }

    #[test]
    fn interference_with_the_measurement_is_found() {
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
        let path = "/dev/cpu_dma_latency";
        result.held =
            vec![Note::new("wakeup.dma-latency-held").value("path", path).value("latency", ns(0))];
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
        let held = findings(&result).pop().unwrap();
        assert_eq!(held.values["settings"], Value::from(vec![path]));
        assert_eq!(held.evidence, [Evidence::new(path, ns(0))]);
    }

    #[test]
    fn missed_periods_are_set_against_steal_time() {
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
        let values = |result: &WakeupResult| findings(result)[0].values.clone();
        assert_eq!(values(&result)["late"], ns(5_000_000).into());
        assert!(!values(&result).contains_key("steal"), "unknown is not zero");
        result.steal_ns = Some(0);
        assert_eq!(values(&result)["steal"], ns(0).into());
    }

    #[test]
    fn low_timer_resolution_is_the_first_finding() {
        let mut result = with(ThreadResult { wakeups: 100, ..ThreadResult::default() });
        result.timer_step_ns = Some(1);
        assert!(!ids(&result).contains(&"wakeup.low-resolution".to_owned()));
        result.timer_step_ns = Some(4_000_000);
        assert_eq!(ids(&result)[0], "wakeup.low-resolution");
        assert_eq!(findings(&result)[0].values["step"], ns(4_000_000).into());
    }

    #[test]
    fn tasks_without_real_time_policy_have_slack() {
        let mut result = with(ThreadResult { wakeups: 1, ..ThreadResult::default() });
        result.config =
            WakeupConfig { policy: Policy::Other, priority: 0, ..WakeupConfig::default() };
        assert!(ids(&result).contains(&"wakeup.timer-slack".to_owned()));
    }
}
