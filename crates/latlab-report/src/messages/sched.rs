//! Wording: scheduling.
//!
//! An expectation `x` has the statement of theory `sched.x`, and `sched.x.expected`,
//! `sched.x.measured`, `sched.x.deviation`.

use super::args::Args;
use super::message::{Message, Text, fixed, message};

/// One wording for each identifier.
pub(super) const MESSAGES: &[Message] = &[
    // Round robin.
    fixed!(
        "sched.rr-slice",
        "SCHED_RR tasks of equal priority alternate every sched_rr_timeslice_ms"
    ),
    Message {
        id: "sched.rr-slice.expected",
        text: |a| Text::claim(format!("{} ± {}", a.get("turn"), a.get("tolerance"))),
    },
    Message {
        id: "sched.rr-slice.measured",
        text: |a| Text::claim(median_of(a, "turns", "turn", "turns")),
    },
    Message {
        id: "sched.rr-slice.deviation",
        text: |a| Text::claim(format!("turns differ by {}", a.get("difference"))),
    },
    fixed!("sched.timeslice-unreadable", "sched_rr_timeslice_ms cannot be read"),
    // FIFO and round robin of unequal priority.
    fixed!(
        "sched.unequal-priorities",
        "Of two real-time priorities the lower one runs only while the higher one is not ready"
    ),
    fixed!(
        "sched.unequal-priorities.expected",
        "no run time of the lower-priority task while the higher-priority task is ready"
    ),
    Message { id: "sched.unequal-priorities.measured", text: unequal_measured },
    fixed!(
        "sched.unequal-priorities.deviation",
        "the lower-priority task ran while the higher-priority task was ready, or preempted it"
    ),
    // Equals under FIFO.
    fixed!(
        "sched.fifo-equals",
        "SCHED_FIFO tasks of equal priority do not alternate unless one of them gives up the CPU"
    ),
    fixed!("sched.fifo-equals.expected", "no preemptions by equals"),
    Message { id: "sched.fifo-equals.measured", text: fifo_measured },
    fixed!("sched.fifo-equals.deviation", "preempted by a task of equal priority"),
    fixed!("sched.slices-dropped", "too many slices to keep: shorten the experiment (-D)"),
    message("sched.slices-with-holes", |a| {
        Text::claim(format!("events were lost in {}", a.count("count", "place", "places")))
    }),
    // Throttling and fair server.
    fixed!(
        "sched.rt-reserve",
        "Real-time tasks that never sleep leave the reserve of each period to other tasks"
    ),
    Message { id: "sched.rt-reserve.expected", text: reserve_expected },
    Message { id: "sched.rt-reserve.measured", text: reserve_measured },
    fixed!("sched.rt-reserve.deviation", "run time or reserve differs from the configuration"),
    fixed!("sched.rt-reserve.unexpected", "throttled although no reserve is configured"),
    fixed!("sched.rt-reserve.absent", "real-time tasks used the whole CPU"),
    // Fair tasks.
    fixed!("sched.fair-shares", "Fair tasks share the CPU by weight"),
    Message {
        id: "sched.fair-shares.expected",
        text: |a| Text::claim(format!("{} ± {}", shares(a), a.get("tolerance"))),
    },
    Message {
        id: "sched.fair-shares.measured",
        text: |a| Text::claim(format!("{}; Jain's index {}", shares(a), a.get("jain"))),
    },
    Message {
        id: "sched.fair-shares.deviation",
        text: |a| Text::claim(format!("largest difference {} of the CPU", a.get("difference"))),
    },
    fixed!("sched.fair-lag", "The lag of a fair task is bounded by a few slices"),
    Message {
        id: "sched.fair-lag.expected",
        text: |a| Text::claim(format!("lag up to {}", a.get("bound"))),
    },
    Message {
        id: "sched.fair-lag.measured",
        text: |a| Text::claim(format!("maximum lag {}", a.get("lag"))),
    },
    fixed!("sched.fair-lag.deviation", "the lag exceeds the bound"),
    fixed!(
        "sched.custom-slice",
        "A fair task with a custom slice runs for that time, rounded up to the next tick, among its equals"
    ),
    Message {
        id: "sched.custom-slice.expected",
        text: |a| Text::claim(format!("{} to {}", a.get("least"), a.get("most"))),
    },
    Message {
        id: "sched.custom-slice.measured",
        text: |a| Text::claim(median_of(a, "slices", "slice", "slices")),
    },
    fixed!("sched.custom-slice.longer", "slices are longer than expected"),
    fixed!(
        "sched.custom-slice.shorter",
        "slices are shorter than expected: another task that is eligible and has an earlier deadline preempts at a tick"
    ),
    // Deadline.
    fixed!(
        "sched.deadline",
        "A SCHED_DEADLINE task that never sleeps receives its runtime in each period, and no more"
    ),
    Message {
        id: "sched.deadline.expected",
        text: |a| Text::claim(format!("{} ± {}", a.get("share"), a.get("tolerance"))),
    },
    Message {
        id: "sched.deadline.measured",
        text: |a| {
            Text::claim(format!("{} of a CPU; longest slice {}", a.get("share"), a.get("longest")))
        },
    },
    Message {
        id: "sched.deadline.deviation",
        text: |a| Text::claim(format!("received {} of its reservation", a.get("received"))),
    },
    // I/O.
    fixed!("sched.voluntary-switches", "IO-bound tasks end most of their slices by blocking"),
    fixed!("sched.voluntary-switches.expected", "more than half of the slices"),
    Message {
        id: "sched.voluntary-switches.measured",
        text: |a| Text::claim(format!("{} of {} slices", a.get("voluntary"), a.get("slices"))),
    },
    fixed!(
        "sched.voluntary-switches.deviation",
        "most I/O did not block (file system in memory, or requests served by the page cache): the load is CPU-bound"
    ),
    // Inconclusive.
    Message {
        id: "sched.too-short",
        text: |a| {
            let (needed, unit) = (a.get("needed"), a.get("unit"));
            Text::claim(format!("at least {needed} {unit} are needed: extend the experiment (-D)"))
        },
    },
    fixed!("sched.no-run-time", "the tasks did not run"),
    // Notes of a schedule and of an experiment.
    fixed!("sched.no-wakeup-events", "No wake-up events recorded: delays after preemptions only"),
    fixed!(
        "sched.waking-only",
        "sched_wakeup not recorded: delays count from sched_waking, and priority inversions of ready tasks are not detected"
    ),
    Message { id: "sched.holes", text: holes },
    Message {
        id: "sched.missing-switches",
        text: |a| {
            Text::claim(format!(
                "{} missing without a reported loss (tasks excluded from the trace): the slices before are marked doubtful",
                a.count("switches", "switch", "switches")
            ))
        },
    },
    Message {
        id: "sched.reused-tids",
        text: |a| {
            let tids = a.count("tids", "thread id", "thread ids");
            Text::claim(format!("{tids} reused by a second task; each task is counted separately"))
        },
    },
    fixed!(
        "sched.deadline-unbound",
        "A SCHED_DEADLINE task cannot be bound to a subset of its root domain: the tasks ran on any CPU"
    ),
    Message {
        id: "sched.missing-events",
        text: |a| Text::claim(format!("Events not available in this kernel: {}", a.get("events"))),
    },
    // Findings.
    Message {
        id: "sched.not-made",
        text: |a| {
            Text::claim(format!("Experiment {} failed: {}", a.get("experiment"), a.get("error")))
        },
    },
    Message { id: "sched.throttled", text: throttled },
    Message { id: "sched.inversion", text: inversion },
    Message {
        id: "sched.lost-events",
        text: |a| {
            let slices = a.count("slices", "slice", "slices");
            Text::claim(format!("Lost events make {slices} doubtful"))
        },
    },
    // Remedies.
    fixed!(
        "sched.remedy.throttling",
        "Let the task sleep in each period, or adjust /proc/sys/kernel/sched_rt_runtime_us"
    ),
    fixed!("sched.remedy.buffer", "Record with a larger buffer (-b) or fewer events"),
];

/// Labels of evidence that differ from the identifier with spaces.
pub(super) const LABELS: &[(&str, &str)] = &[("cpu", "CPU"), ("first-tid", "first thread id")];

fn median_of(a: &Args<'_>, name: &str, one: &str, many: &str) -> String {
    let count = a.count(name, one, many);
    match a.find("median") {
        Some(median) => format!("median {median} of {count}"),
        None => count,
    }
}

fn shares(a: &Args<'_>) -> String {
    a.list("shares").join(" : ")
}

fn unequal_measured(a: &Args<'_>) -> Text {
    Text::claim(format!(
        "{} of {} ready time; {}; CPU share of the lower-priority task {}",
        a.get("blocked"),
        a.get("ready"),
        a.count("preemptions", "preemption", "preemptions"),
        a.get("share")
    ))
}

fn fifo_measured(a: &Args<'_>) -> Text {
    let preemptions = a.count("preemptions", "preemption", "preemptions");
    Text::claim(format!("{preemptions}; CPU shares {}", shares(a)))
}

fn reserve_expected(a: &Args<'_>) -> Text {
    Text::claim(match a.find("run") {
        Some(run) => format!("{run} of run time, then {} for other tasks", a.get("reserve")),
        None => "no reserve (sched_rt_runtime_us is -1, or the fair server has no runtime)".into(),
    })
}

fn reserve_measured(a: &Args<'_>) -> Text {
    let Some(reserve) = a.find("reserve") else { return Text::claim("not throttled") };
    let mechanism = match a.text("mechanism") {
        "fair-server" => "fair server",
        _ => "real-time throttling",
    };
    let times = a.count("times", "time", "times");
    Text::claim(match a.find("run") {
        Some(run) => {
            format!("{mechanism}: {run} of run time, then {reserve} for other tasks, {times}")
        }
        None => format!("{mechanism}: {reserve} for other tasks, {times}"),
    })
}

fn holes(a: &Args<'_>) -> Text {
    Text::claim(format!(
        "Lost events in {} ({} reported): {} and {} are doubtful and excluded from the distributions; the running task is unknown for {}",
        a.count("holes", "place", "places"),
        a.get("events"),
        a.count("slices", "slice", "slices"),
        a.count("delays", "delay", "delays"),
        a.get("unknown")
    ))
}

fn throttled(a: &Args<'_>) -> Text {
    Text::claim(format!(
        "Real-time tasks throttled {}, up to {}",
        a.count("times", "time", "times"),
        a.get("longest")
    ))
    .why(
        "Real-time throttling, or since Linux 6.12 the fair server, reserves CPU time for other \
         tasks: a real-time task that does not sleep exceeds its share.",
    )
}

fn inversion(a: &Args<'_>) -> Text {
    Text::claim(format!(
        "Priority inversion: {}:{} waited {} for {}:{} of lower priority ({})",
        a.get("task"),
        a.get("tid"),
        a.get("wait"),
        a.get("lower_task"),
        a.get("lower_tid"),
        a.count("inversions", "inversion", "inversions")
    ))
}

/// Examples of every identifier, for the snapshots.
#[cfg(test)]
pub(super) fn examples() -> Vec<latlab_model::finding::Statement> {
    use super::examples::{statements, with_fixed};
    use latlab_model::finding::{Note, Quantity as Q};
    let count = Q::Count;
    let ms = |v: f64| Q::Ns(v * 1e6);
    let shares = || vec![Q::Ratio(0.753), Q::Ratio(0.247)];
    let with_values = vec![
        Note::new("sched.rr-slice.expected")
            .value("turn", ms(100.0))
            .value("tolerance", Q::Ratio(0.02)),
        Note::new("sched.rr-slice.measured").value("turns", count(9)).value("median", ms(110.0)),
        Note::new("sched.rr-slice.measured").value("turns", count(1)),
        Note::new("sched.rr-slice.deviation").value("difference", Q::Ratio(0.1)),
        Note::new("sched.unequal-priorities.measured")
            .value("blocked", ms(0.0))
            .value("ready", ms(12.0))
            .value("preemptions", count(0))
            .value("share", Q::Ratio(0.012)),
        Note::new("sched.fifo-equals.measured")
            .value("preemptions", count(2))
            .value("shares", shares()),
        Note::new("sched.rt-reserve.expected").value("run", ms(950.0)).value("reserve", ms(50.0)),
        Note::new("sched.rt-reserve.expected"),
        Note::new("sched.rt-reserve.measured")
            .value("mechanism", "fair-server")
            .value("times", count(0)),
        Note::new("sched.rt-reserve.measured")
            .value("mechanism", "fair-server")
            .value("times", count(1))
            .value("reserve", ms(50.0)),
        Note::new("sched.rt-reserve.measured")
            .value("mechanism", "rt-throttling")
            .value("times", count(2))
            .value("run", ms(950.0))
            .value("reserve", ms(50.0)),
        Note::new("sched.fair-shares.expected")
            .value("shares", shares())
            .value("tolerance", Q::Ratio(0.02)),
        Note::new("sched.fair-shares.measured")
            .value("shares", shares())
            .value("jain", Q::Number(0.9987)),
        Note::new("sched.fair-shares.deviation").value("difference", Q::Ratio(0.034)),
        Note::new("sched.fair-lag.expected").value("bound", ms(28.0)),
        Note::new("sched.fair-lag.measured").value("lag", ms(31.2)),
        Note::new("sched.custom-slice.expected").value("least", ms(3.6)).value("most", ms(8.0)),
        Note::new("sched.custom-slice.measured")
            .value("slices", count(12))
            .value("median", ms(4.0)),
        Note::new("sched.custom-slice.measured").value("slices", count(3)),
        Note::new("sched.deadline.expected")
            .value("share", Q::Ratio(0.2))
            .value("tolerance", Q::Ratio(0.02)),
        Note::new("sched.deadline.measured")
            .value("share", Q::Ratio(0.15))
            .value("longest", ms(10.0)),
        Note::new("sched.deadline.deviation").value("received", Q::Ratio(0.75)),
        Note::new("sched.voluntary-switches.measured")
            .value("voluntary", count(3))
            .value("slices", count(40)),
        Note::new("sched.slices-with-holes").value("count", count(2)),
        Note::new("sched.too-short").value("needed", count(3)).value("unit", "turns"),
        Note::new("sched.holes")
            .value("holes", count(2))
            .value("events", count(1200))
            .value("slices", count(2))
            .value("delays", count(1))
            .value("unknown", ms(4.1)),
        Note::new("sched.missing-switches").value("switches", count(3)),
        Note::new("sched.reused-tids").value("tids", count(1)),
        Note::new("sched.missing-events").value("events", vec!["sched:sched_waking"]),
        Note::new("sched.not-made")
            .value("experiment", "cpu-rr-90-90")
            .value("error", "permission denied"),
        Note::new("sched.throttled").value("times", count(1)).value("longest", ms(50.0)),
        Note::new("sched.inversion")
            .value("task", "rt")
            .value("tid", Q::Tid(12))
            .value("lower_task", "low")
            .value("lower_tid", Q::Tid(13))
            .value("wait", ms(2.5))
            .value("inversions", count(3)),
        Note::new("sched.lost-events").value("slices", count(3)),
    ];
    with_fixed(MESSAGES, statements(with_values))
}
