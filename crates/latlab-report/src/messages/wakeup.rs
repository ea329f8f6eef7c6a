//! Wording: wake-up latency.

use super::args::Args;
use super::message::{Message, Text, fixed, message};
use latlab_model::units::CpuId;
use latlab_model::wakeup::mechanism::Woken;

/// What woke a thread on `cpu`: `timerfd`, `futex, same CPU`, `futex, from CPU 0`.
pub fn woken(woken: Woken, cpu: Option<CpuId>) -> String {
    match woken.from {
        None => woken.by.id().to_owned(),
        from if from == cpu => format!("{}, same CPU", woken.by),
        Some(from) => format!("{}, from CPU {from}", woken.by),
    }
}

/// One wording for each identifier.
pub(super) const MESSAGES: &[Message] = &[
    message("wakeup.break-value", |a| {
        Text::claim(format!(
            "Break value exceeded: wake-up {} of {} was {} late, limit {}",
            a.get("wakeup"),
            a.find("mechanism").unwrap_or_else(|| format!("thread {}", a.get("thread"))),
            a.get("latency"),
            a.get("limit")
        ))
        .why("The measurement stopped there, as configured.")
    }),
    message("wakeup.runaway", |a| {
        Text::claim(format!(
            "Thread {} stopped: it used {} of its CPU",
            a.get("thread"),
            a.get("cpu_share")
        ))
        .why("A real-time thread that uses a whole CPU makes a single-CPU machine inaccessible.")
    }),
    fixed!("wakeup.samples-unwritable", "Measurement stopped: the samples could not be written"),
    message("wakeup.low-resolution", |a| {
        Text::claim(format!("No high-resolution timers: timer step {}", a.get("step"))).why(
            "Each sleep ends at a tick, so latencies are rounded up to ticks and shorter intervals miss periods; the results do not describe the scheduler.",
        )
    }),
    message("wakeup.missed-periods", missed_periods),
    message("wakeup.page-faults", |a| {
        Text::claim(format!(
            "Page faults of the measuring threads: {} major, {} minor",
            a.get("major"),
            a.get("minor")
        ))
        .why("A page fault in the measuring loop is part of the measured latency.")
    }),
    message("wakeup.steal", |a| {
        Text::claim(format!("Steal time of the measured CPUs: {}", a.get("steal")))
            .why("Late wake-ups can be caused by the host.")
    }),
    message("wakeup.preempted", |a| {
        Text::claim(format!("Measuring threads preempted {}", a.count("switches", "time", "times")))
            .why("Possible reasons: a task of higher or equal priority, or real-time throttling.")
    }),
    message("wakeup.timer-slack", |a| {
        Text::claim(format!(
            "Timer slack applies to SCHED_{} (50 µs by default) and is part of the latency",
            a.get("policy").to_uppercase()
        ))
        .why("The kernel may delay timers of non-real-time tasks to reduce the number of wake-ups.")
    }),
    message("wakeup.no-rt-throttling", |_| {
        Text::claim("Real-time throttling disabled")
            .why("A real-time task that never sleeps keeps its CPU.")
    }),
    message("wakeup.samples-lost", |a| {
        Text::claim(format!(
            "{} missing from the samples file",
            a.count("lost", "sample", "samples")
        ))
        .why("The file could not be written fast enough; histograms and quantiles include all samples.")
    }),
    message("wakeup.held", |a| {
        Text::claim(format!("Settings changed for the measurement: {}", a.get("settings")))
            .why("Without latlab the latency of this machine can be higher.")
    }),
    message("wakeup.level-missing", |a| {
        let reason = match (a.find("levels"), a.find("error")) {
            (Some(levels), _) => format!("Level {levels} not measured: no timerlat tracer"),
            (None, Some(error)) => format!("Levels not measured: {error}"),
            (None, None) => "Levels not measured".to_owned(),
        };
        Text::claim(format!("{reason}; level user measured with clock_nanosleep"))
            .why("The shares of interrupt and scheduler in the latency are unknown.")
    }),
    message("wakeup.dma-latency-held", |a| {
        Text::claim(format!(
            "{} held at {}: idle states with a longer exit latency not used",
            a.get("path"),
            a.get("latency")
        ))
    }),
    message("wakeup.dma-latency-not-held", |a| {
        Text::claim(format!(
            "Idle states not excluded: {} cannot be set ({})",
            a.get("path"),
            a.get("error")
        ))
    }),
    message("wakeup.no-watchdog", |a| {
        let error = a.find("error").map_or(String::new(), |e| format!(": {e}"));
        Text::claim(format!("No watchdog for runaway threads{error}"))
    }),
    message("wakeup.watchdog-same-priority", |a| {
        Text::claim(format!(
            "Watchdog priority equal to, not above, that of the measuring threads: {}",
            a.get("error")
        ))
    }),
    message("wakeup.watchdog-not-real-time", |a| {
        Text::claim(format!("Watchdog without real-time priority: {}", a.get("error")))
    }),
    message("wakeup.samples-write-failed", |a| {
        Text::claim(format!("Samples not written: {}", a.get("error")))
    }),
    message("wakeup.core", |a| {
        Text::claim(format!(
            "Measured by {} of the real-time core {}, in buckets of {}: over time, and of each wake-up, nothing is known",
            a.get("program"),
            a.get("core"),
            a.get("width")
        ))
    }),
    message("wakeup.core-switches", |a| {
        Text::claim(format!(
            "The task left the real-time core {}: there its latency is that of Linux",
            a.count("switches", "time", "times")
        ))
    }),
    message("wakeup.core-early", |a| {
        Text::claim(format!(
            "Wake-ups up to {} before their time count as on time: the core's timer is calibrated too early",
            a.get("early")
        ))
    }),
    message("wakeup.mechanism-missing", |a| {
        Text::claim(format!("{} not measured: {}", a.get("mechanism"), a.get("error")))
    }),
    message("wakeup.mechanism-lost", |a| {
        let from = a.find("cpu").map_or(String::new(), |cpu| format!(" from CPU {cpu}"));
        Text::claim(format!(
            "{}{from} not measured to the end: a call did not wake the thread",
            a.get("mechanism")
        ))
    }),
    message("wakeup.replies-lost", |a| {
        let from = a.find("cpu").map_or(String::new(), |cpu| format!(" from CPU {cpu}"));
        Text::claim(format!(
            "{}{from}: {} without a reply within 250 ms, in no histogram",
            a.get("mechanism"),
            a.count("lost", "datagram", "datagrams")
        ))
    }),
    message("wakeup.trace-buffer-overrun", |a| {
        Text::claim(format!(
            "Trace buffer overrun: at least {} lost and not in the results",
            a.count("lost", "sample", "samples")
        ))
    }),
    fixed!(
        "wakeup.no-power",
        "Electrical power not measured: no counter and no sensor can be read here"
    ),
    fixed!("remedy.analyse-latency", "Analyse the cause with latlab why"),
    fixed!("remedy.longer-interval", "Use a longer interval (-i)"),
    fixed!("remedy.sample-space", "Free space on the file system of the samples file"),
    fixed!(
        "remedy.one-shot-timers",
        "Remove highres=off from the kernel command line; use a clock event device with one-shot mode"
    ),
    fixed!("remedy.fifo-policy", "Measure a real-time task with --policy fifo"),
    fixed!(
        "remedy.faster-sample-file",
        "Write the samples to a faster file system, or use a longer interval"
    ),
    fixed!(
        "remedy.emulated-timerlat",
        "latlab --on vm:armv7-rt wakeup --level irq,kernel,user measures all levels on a kernel with the tracer"
    ),
];

/// Missed periods against steal time. The lateness covers the listed worst wake-ups.
fn missed_periods(a: &Args<'_>) -> Text {
    let missed = a.number("missed").unwrap_or(0.0);
    if missed == 0.0 {
        return Text::claim("No missed periods");
    }
    if a.find("wakeups").is_none() {
        return Text::claim(a.count("missed", "missed period", "missed periods"));
    }
    let late = a.get("late");
    let cause = match (a.number("steal"), a.number("late")) {
        (None, _) => "steal time is not readable".to_owned(),
        (Some(0.0), _) => "no steal time was reported".to_owned(),
        (Some(steal), Some(ns)) if steal >= ns => {
            format!("steal time was {}, enough to account for it", a.get("steal"))
        }
        (Some(_), _) => {
            format!("steal time was {} and accounts for part of it at most", a.get("steal"))
        }
    };
    Text::claim(format!(
        "{} in {}",
        a.count("missed", "missed period", "missed periods"),
        a.count("wakeups", "late wake-up", "late wake-ups")
    ))
    .why(format!(
        "A periodic task would have skipped these activations. Total lateness of the listed late wake-ups: {late}; {cause}."
    ))
}

/// Labels of evidence that differ from the identifier with spaces.
pub(super) const LABELS: &[(&str, &str)] =
    &[("wake-ups-with-missed-periods", "wake-ups with missed periods")];

/// Examples of every identifier, for the snapshots.
#[cfg(test)]
pub(super) fn examples() -> Vec<latlab_model::finding::Statement> {
    use super::examples::{statements, with_fixed};
    use latlab_model::finding::{Note, Quantity};
    let n = Note::new;
    let missed = || {
        n("wakeup.missed-periods")
            .value("missed", Quantity::Count(12))
            .value("wakeups", Quantity::Count(1))
            .value("late", Quantity::Ns(5e6))
    };
    let valued = [
        n("wakeup.break-value")
            .value("wakeup", Quantity::Count(1500))
            .value("thread", Quantity::Count(0))
            .value("latency", Quantity::Ns(3.25e6))
            .value("limit", Quantity::Ns(1e6)),
        n("wakeup.break-value")
            .value("wakeup", Quantity::Count(1500))
            .value("thread", Quantity::Count(2))
            .value("mechanism", "futex")
            .value("latency", Quantity::Ns(3.25e6))
            .value("limit", Quantity::Ns(1e6)),
        n("wakeup.mechanism-missing")
            .value("mechanism", "mqueue")
            .value("error", "Function not implemented"),
        n("wakeup.mechanism-lost").value("mechanism", "udp").value("cpu", "1"),
        n("wakeup.mechanism-lost").value("mechanism", "timerfd"),
        n("wakeup.replies-lost")
            .value("mechanism", "udp-host")
            .value("cpu", "1")
            .value("lost", Quantity::Count(3)),
        n("wakeup.runaway")
            .value("thread", Quantity::Count(0))
            .value("cpu_share", Quantity::Ratio(0.97)),
        n("wakeup.low-resolution").value("step", Quantity::Ns(4e6)),
        n("wakeup.missed-periods").value("missed", Quantity::Count(0)),
        missed(),
        n("wakeup.missed-periods").value("missed", Quantity::Count(12)),
        n("wakeup.core")
            .value("core", "cobalt")
            .value("program", "latency")
            .value("width", Quantity::Ns(1000.0)),
        n("wakeup.core-switches").value("switches", Quantity::Count(3)),
        n("wakeup.core-early").value("early", Quantity::Ns(250.0)),
        missed().value("steal", Quantity::Ns(0.0)),
        missed().value("steal", Quantity::Ns(1e6)),
        missed().value("steal", Quantity::Ns(10e6)),
        n("wakeup.page-faults")
            .value("major", Quantity::Count(1))
            .value("minor", Quantity::Count(12)),
        n("wakeup.steal").value("steal", Quantity::Ns(20e6)),
        n("wakeup.preempted").value("switches", Quantity::Count(3)),
        n("wakeup.timer-slack").value("policy", "other"),
        n("wakeup.samples-lost").value("lost", Quantity::Count(512)),
        n("wakeup.held").value("settings", vec!["/dev/cpu_dma_latency"]),
        n("wakeup.level-missing").value("levels", "irq,kernel"),
        n("wakeup.level-missing").value("error", "tracefs cannot be mounted"),
        n("wakeup.dma-latency-held")
            .value("path", "/dev/cpu_dma_latency")
            .value("latency", Quantity::Ns(0.0)),
        n("wakeup.dma-latency-not-held")
            .value("path", "/dev/cpu_dma_latency")
            .value("error", "Permission denied"),
        n("wakeup.no-watchdog"),
        n("wakeup.no-watchdog").value("error", "Resource temporarily unavailable"),
        n("wakeup.watchdog-same-priority").value("error", "Operation not permitted"),
        n("wakeup.watchdog-not-real-time").value("error", "Operation not permitted"),
        n("wakeup.samples-write-failed").value("error", "No space left on device"),
        n("wakeup.trace-buffer-overrun").value("lost", Quantity::Count(40)),
    ];
    with_fixed(MESSAGES, statements(valued))
}
