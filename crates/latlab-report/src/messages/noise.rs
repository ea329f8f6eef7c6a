//! Wording: OS noise by source.

use super::args::Args;
use super::message::{Message, Text, fixed, message};

/// One wording for each identifier.
pub(super) const MESSAGES: &[Message] = &[
    message("noise.interruption", |a| {
        Text::claim(format!(
            "Longest interruption {} ({}); up to {} of the time lost ({}, {})",
            a.get("longest"),
            a.get("cpu"),
            a.get("lost"),
            a.get("lost_cpu"),
            a.get("rate"),
        ))
    }),
    message("noise.main-source", |a| {
        Text::claim(format!(
            "Main source: {} has {} of the noise, {}, at most {} in one interruption",
            a.get("source"),
            a.get("share"),
            a.count("count", "time", "times"),
            a.get("longest"),
        ))
    }),
    message("noise.outside-kernel", |a| {
        Text::claim(format!(
            "Outside of this kernel: {} of the time, {}, longest {}",
            a.get("share"),
            a.count("count", "interruption", "interruptions"),
            a.get("longest"),
        ))
        .why("No event of this kernel was recorded in these interruptions, or they are longer than what was recorded explains.")
    }),
    message("noise.none-outside", |a| {
        let from = a.find("threshold").map_or(String::new(), |t| format!(" of {t} or more"));
        Text::claim(format!("No noise{from} outside of this kernel"))
    }),
    message("noise.outside-unknown", |a| {
        let why = match a.find("unknown") {
            Some(_) => {
                let sources = a.count("unknown", "interruption", "interruptions");
                format!("the source of {sources} is not known")
            }
            None => "events were lost".to_owned(),
        };
        Text::claim(format!(
            "No noise of {} or more was found outside of this kernel, but {why}",
            a.get("threshold")
        ))
    }),
    message("noise.guest", |a| {
        Text::claim(format!(
            "This is a guest of {}: the hypervisor, and what it runs instead of this CPU, is not told from firmware and hardware",
            a.get("hypervisor")
        ))
    }),
    fixed!(
        "noise.no-smi",
        "The processor counted no system-management interrupt: other firmware, a hyper-thread sibling or the hardware remain"
    ),
    message("noise.smi", |a| {
        Text::claim(format!(
            "The processor counted {} on all CPUs",
            a.count("count", "system-management interrupt", "system-management interrupts")
        ))
    }),
    fixed!(
        "noise.smi-unknown",
        "System-management interrupts are not counted here: firmware and hardware are not told apart"
    ),
    message("noise.limit-exceeded", |a| exceeded(a, "an interruption of", "")),
    message("noise.window-limit-exceeded", |a| exceeded(a, "interruptions of", " in one window")),
    message("noise.queue", |a| queue(a, "Longest queue")),
    message("noise.queue-exceeded", |a| queue(a, "Limit exceeded: queue of")),
    message("noise.events-lost", |a| {
        Text::claim(format!(
            "{} overwritten before they were read",
            a.count("count", "event was", "events were")
        ))
        .why("Interruptions of that time have an unknown source; a shorter --period needs less buffer.")
    }),
    message("noise.not-traced", |a| {
        Text::claim(format!("Sources are unknown: {}", a.get("error")))
    }),
    message("noise.cpu-missing", |a| {
        Text::claim(format!("{} cannot be used by this process", a.get("cpu")))
    }),
];

fn queue(a: &Args<'_>, what: &str) -> Text {
    let limit = match a.has("limit") {
        true => format!(", limit {}", a.get("limit")),
        false => String::new(),
    };
    Text::claim(format!(
        "{what} {} on {} ({} arrive, {} each{limit})",
        a.count("longest", "packet", "packets"),
        a.get("cpu"),
        a.get("arrivals"),
        a.get("service"),
    ))
}

fn exceeded(a: &Args<'_>, what: &str, where_: &str) -> Text {
    Text::claim(format!(
        "Limit exceeded: {what} {} on {}{where_}, limit {}",
        a.get("longest"),
        a.get("cpu"),
        a.get("limit"),
    ))
}

/// Examples of every identifier, for the snapshots.
#[cfg(test)]
pub(super) fn examples() -> Vec<latlab_model::finding::Statement> {
    use super::examples::{statements, with_fixed};
    use latlab_model::finding::{Note, Quantity};
    let longest = |id| Note::new(id).value("longest", Quantity::Ns(26_100.0));
    let exceeded =
        |id| longest(id).value("limit", Quantity::Ns(20_000.0)).value("cpu", Quantity::Cpu(1));
    let queue = |id| {
        Note::new(id)
            .value("longest", Quantity::Count(740))
            .value("cpu", Quantity::Cpu(1))
            .value("arrivals", Quantity::PerSecond(1_000_000.0))
            .value("service", Quantity::Ns(500.0))
    };
    let valued = [
        longest("noise.interruption")
            .value("cpu", Quantity::Cpu(1))
            .value("lost", Quantity::Ratio(0.0123))
            .value("lost_cpu", Quantity::Cpu(0))
            .value("rate", Quantity::PerSecond(270.0)),
        longest("noise.main-source")
            .value("source", "interrupt local_timer")
            .value("share", Quantity::Ratio(0.72))
            .value("count", Quantity::Count(250)),
        longest("noise.outside-kernel")
            .value("share", Quantity::Ratio(0.0004))
            .value("count", Quantity::Count(1)),
        Note::new("noise.none-outside"),
        Note::new("noise.none-outside").value("threshold", Quantity::Ns(5e3)),
        Note::new("noise.outside-unknown").value("threshold", Quantity::Ns(5e3)),
        Note::new("noise.outside-unknown")
            .value("threshold", Quantity::Ns(5e3))
            .value("unknown", Quantity::Count(2)),
        Note::new("noise.guest").value("hypervisor", "kvm"),
        Note::new("noise.smi").value("count", Quantity::Count(2)),
        exceeded("noise.limit-exceeded"),
        exceeded("noise.window-limit-exceeded"),
        queue("noise.queue"),
        queue("noise.queue-exceeded").value("limit", Quantity::Count(512)),
        Note::new("noise.events-lost").value("count", Quantity::Count(12_000)),
        Note::new("noise.not-traced").value("error", "tracefs is not mounted"),
        Note::new("noise.cpu-missing").value("cpu", Quantity::Cpu(3)),
    ];
    with_fixed(MESSAGES, statements(valued))
}
