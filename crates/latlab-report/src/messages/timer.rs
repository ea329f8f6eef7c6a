//! Wording: ticks, timers and interrupts.

use super::args::Args;
use super::message::{Message, Text, fixed, message};
use latlab_model::timer::TickMode;

/// One wording for each identifier.
pub(super) const MESSAGES: &[Message] = &[
    message("timer.hz", tick_rate),
    message("timer.nohz", nohz),
    message("timer.tick-cost", |a| {
        Text::claim(format!(
            "Timer interrupts and their softirqs use {} of {}",
            a.get("share"),
            a.get("cpu")
        ))
        .why("The times include the overhead of tracing; without tracing they are shorter.")
    }),
    message("timer.long-function", |a| {
        Text::claim(format!("Timer function {} ran for {}", a.get("function"), a.get("longest")))
            .why("Tasks on that CPU wait until the function returns.")
    }),
    fixed!("timer.tick-rate-unknown", "The tick rate is unknown"),
    message("timer.busy-cpu-with-few-ticks", |a| {
        Text::claim(format!(
            "{} was busy; its timer interrupt rate was {}",
            a.get("cpu"),
            a.get("rate")
        ))
    }),
    message("timer.tick-stops", |a| {
        Text::claim(format!(
            "The tick was stopped {} (idle_sleeps in /proc/timer_list)",
            a.count("stops", "time", "times")
        ))
    }),
    fixed!(
        "timer.nohz-inactive",
        "/proc/timer_list reports NO_HZ inactive on every CPU, and no tick stopped"
    ),
    message("timer.idle-cpu-with-few-ticks", |a| {
        Text::claim(format!(
            "{} was idle for {} of the time; its timer interrupt rate was {} at a tick rate of {}",
            a.get("cpu"),
            a.get("idle"),
            a.get("rate"),
            a.get("tick_rate")
        ))
    }),
    message("timer.idle-cpus-with-all-ticks", |a| {
        Text::claim(format!("{} took every tick", a.count("cpus", "idle CPU", "idle CPUs")))
    }),
    message("timer.tick-stops-since-boot", |a| {
        Text::claim(format!(
            "No CPU was idle during the measurement; since boot the tick was stopped {}",
            a.count("stops", "time", "times")
        ))
    }),
    fixed!("timer.no-idle-cpu", "No CPU was idle, so a stopped tick could not be observed"),
    fixed!("timer.interrupts-unreadable", "/proc/interrupts not readable: no interrupt rates"),
    fixed!(
        "timer.timer-list-unreadable",
        "/proc/timer_list not readable (requires root): state of the ticks unknown"
    ),
    message("timer.not-recorded", |a| Text::claim(format!("No recording: {}", a.get("error")))),
    message("timer.lost-events", |a| {
        Text::claim(format!(
            "Events lost in {}: timers and handlers open there are not counted",
            a.count("gaps", "place", "places")
        ))
    }),
    fixed!(
        "timer.no-interrupts-recorded",
        "No interrupts recorded (irq:irq_handler_entry, or irq_vectors:local_timer_entry on x86): cost of the tick and first steps of the timer life cycles unknown"
    ),
    message("timer.recording-unusable", |a| {
        Text::claim(format!("Recording not usable: {}", a.get("error")))
    }),
];

/// Labels of evidence that differ from the identifier with spaces.
pub(super) const LABELS: &[(&str, &str)] = &[
    ("tick-of-busy-cpu", "tick of a busy CPU"),
    ("timer-interrupts", "time in timer interrupts"),
    ("interrupts-with-tick", "time in interrupts with the tick"),
    ("timer-softirqs", "time in softirqs TIMER and HRTIMER"),
];

/// A tick mode in words.
pub fn tick_mode(mode: TickMode) -> &'static str {
    match mode {
        TickMode::Unknown => "unknown",
        TickMode::Periodic => "periodic",
        TickMode::StopsWhenIdle => "stops on idle CPUs",
        TickMode::StopsWhenBusy => "stops on idle CPUs and on CPUs with a single task",
    }
}

/// A tick mode of a finding in words.
fn mode(name: &str) -> &'static str {
    tick_mode(match name {
        "periodic" => TickMode::Periodic,
        "stops-when-idle" => TickMode::StopsWhenIdle,
        "stops-when-busy" => TickMode::StopsWhenBusy,
        _ => TickMode::Unknown,
    })
}

fn tick_rate(a: &Args<'_>) -> Text {
    Text::claim(match (a.find("measured"), a.find("configured")) {
        (Some(hz), Some(config)) if hz == config => format!("Tick rate: {hz}, as configured"),
        (Some(hz), Some(config)) => format!("Tick rate: {hz}, configured {config}"),
        (Some(hz), None) => format!("Tick rate: {hz}; kernel configuration not readable"),
        (None, _) => "Tick rate not measured".to_owned(),
    })
}

/// The observation is a note of its own, with its values in the finding.
fn nohz(a: &Args<'_>) -> Text {
    let measured = a.text("mode");
    let text = Text::claim(match (measured, a.text("configured")) {
        ("unknown" | "", _) => "Tick mode unknown".to_owned(),
        (measured, "") => format!("Tick mode: {}", mode(measured)),
        // nohz_full stops ticks only on the CPUs of its list.
        (measured, config) if measured == config || config == "stops-when-busy" => {
            format!("Tick mode: {}, consistent with the configuration", mode(measured))
        }
        (measured, config) => {
            format!("Tick mode: {}; by configuration: {}", mode(measured), mode(config))
        }
    });
    match a.nested("observation") {
        Some(observation) => text.why(format!("{observation}.")),
        None => text,
    }
}

/// Examples of every identifier, for the snapshots.
#[cfg(test)]
pub(super) fn examples() -> Vec<latlab_model::finding::Statement> {
    use super::examples::{statements, with_fixed};
    use latlab_model::finding::{Note, Quantity};
    let n = Note::new;
    let valued = [
        n("timer.hz"),
        n("timer.hz").value("measured", Quantity::Hz(250.0)),
        n("timer.hz")
            .value("measured", Quantity::Hz(250.0))
            .value("configured", Quantity::Hz(250.0)),
        n("timer.hz")
            .value("measured", Quantity::Hz(100.0))
            .value("configured", Quantity::Hz(250.0)),
        n("timer.nohz").value("mode", "unknown").value("observation", "timer.no-idle-cpu"),
        n("timer.nohz")
            .value("mode", "stops-when-idle")
            .value("observation", "timer.tick-stops")
            .value("stops", Quantity::Count(7)),
        n("timer.nohz").value("mode", "periodic").value("configured", "periodic"),
        n("timer.nohz").value("mode", "periodic").value("configured", "stops-when-idle"),
        n("timer.nohz").value("mode", "stops-when-idle").value("configured", "stops-when-busy"),
        n("timer.tick-cost").value("share", Quantity::Ratio(0.021)).value("cpu", Quantity::Cpu(1)),
        n("timer.long-function")
            .value("function", "delayed_work_timer_fn")
            .value("longest", Quantity::Ns(1.2e5)),
        n("timer.busy-cpu-with-few-ticks")
            .value("cpu", Quantity::Cpu(3))
            .value("rate", Quantity::PerSecond(2.0)),
        n("timer.tick-stops").value("stops", Quantity::Count(120)),
        n("timer.idle-cpu-with-few-ticks")
            .value("cpu", Quantity::Cpu(1))
            .value("idle", Quantity::Ratio(0.9))
            .value("rate", Quantity::PerSecond(30.0))
            .value("tick_rate", Quantity::Hz(250.0)),
        n("timer.idle-cpus-with-all-ticks").value("cpus", Quantity::Count(2)),
        n("timer.tick-stops-since-boot").value("stops", Quantity::Count(7)),
        n("timer.not-recorded").value("error", "tracefs is not mounted"),
        n("timer.lost-events").value("gaps", Quantity::Count(2)),
        n("timer.recording-unusable").value("error", "timer.dat: no events"),
    ];
    with_fixed(MESSAGES, statements(valued))
}
