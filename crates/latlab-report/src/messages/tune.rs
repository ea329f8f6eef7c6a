//! Wording: settings that were tried.

use super::args::Args;
use super::message::{Message, Text, message};

/// One wording for each identifier.
pub(super) const MESSAGES: &[Message] = &[
    message("tune.improves", |a| effect(a, "shortens")),
    message("tune.worsens", |a| effect(a, "lengthens")),
    message("tune.no-effect", |a| {
        Text::claim(format!(
            "{} has no effect above the margin (95 %: {} to {})",
            a.get("setting"),
            a.get("low"),
            a.get("high")
        ))
    }),
    message("tune.undecided", |a| {
        Text::claim(format!(
            "The effect of {} is not decided (95 %: {} to {})",
            a.get("setting"),
            a.get("low"),
            a.get("high")
        ))
    }),
    message("tune.side-worse", |a| side(a, "worse")),
    message("tune.side-better", |a| side(a, "better")),
    message("tune.interaction", |a| {
        Text::claim(format!(
            "{} together: the response is {} against what the single effects give (95 % for all: {} to {})",
            a.get("setting"),
            a.get("change"),
            a.get("low"),
            a.get("high")
        ))
    }),
    message("tune.no-interaction", |a| {
        Text::claim(format!(
            "{} together: as the single effects give, within the margin (95 %: {} to {})",
            a.get("setting"),
            a.get("low"),
            a.get("high")
        ))
    }),
    message("tune.interaction-undecided", |a| {
        Text::claim(format!(
            "{} together: whether the effect is that of each alone is not decided (95 %: {} to {})",
            a.get("setting"),
            a.get("low"),
            a.get("high")
        ))
    }),
    message("tune.not-tried", |a| Text::claim(format!("{} could not be set", a.get("setting")))),
    message("tune.error", |a| Text::claim(a.get("error"))),
];

fn effect(a: &Args<'_>, verb: &str) -> Text {
    Text::claim(format!(
        "{} {verb} the response: {} (95 % for all settings: {} to {})",
        a.get("setting"),
        a.get("change"),
        a.get("low"),
        a.get("high")
    ))
}

fn side(a: &Args<'_>, direction: &str) -> Text {
    Text::claim(format!(
        "{} makes {} {direction}: {} (95 % for all: {} to {})",
        a.get("setting"),
        a.get("metric"),
        a.get("change"),
        a.get("low"),
        a.get("high")
    ))
}

/// Examples of every identifier, for the snapshots.
#[cfg(test)]
pub(super) fn examples() -> Vec<latlab_model::finding::Statement> {
    use super::examples::{statements, with_fixed};
    use latlab_model::finding::{Note, Quantity};
    let of = |id, change: f64| {
        Note::new(id)
            .value("setting", "governor=performance")
            .value("change", Quantity::Ratio(change))
            .value("low", Quantity::Ratio(change - 0.04))
            .value("high", Quantity::Ratio(change + 0.04))
    };
    let valued = [
        of("tune.improves", -0.31),
        of("tune.worsens", 0.2),
        of("tune.no-effect", 0.01),
        of("tune.undecided", -0.03),
        of("tune.side-worse", 0.12).value("metric", "syscall.getppid"),
        of("tune.side-better", -0.12).value("metric", "syscall.getppid"),
        of("tune.interaction", 0.4),
        of("tune.no-interaction", 0.01),
        of("tune.interaction-undecided", 0.1),
        Note::new("tune.not-tried").value("setting", "kernel.nmi_watchdog=0"),
        Note::new("tune.error").value("error", "/proc/sys/kernel/nmi_watchdog: permission denied"),
    ];
    with_fixed(MESSAGES, statements(valued))
}
