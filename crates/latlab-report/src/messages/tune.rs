//! Wording: settings that were tried.

use super::args::Args;
use super::message::{Message, Text, message};

/// One wording for each identifier.
pub(super) const MESSAGES: &[Message] = &[
    message("tune.improves", |a| effect(a, "shortens")),
    message("tune.worsens", |a| effect(a, "lengthens")),
    message("tune.no-effect", |a| within(a, "has no effect above the margin")),
    message("tune.undecided", |a| {
        claim(a, "95 %", format!("The effect of {} is not decided", a.get("setting")))
    }),
    message("tune.too-few", |a| {
        let setting = a.get("setting");
        Text::claim(format!("{setting}: nothing is decided with fewer than two whole rounds"))
    }),
    message("tune.side-worse", |a| side(a, "worse")),
    message("tune.side-better", |a| side(a, "better")),
    message("tune.interaction", |a| {
        let (setting, change) = (a.get("setting"), a.get("change"));
        let text = format!(
            "{setting} together: the response is {change} against what the single effects give"
        );
        claim(a, "95 % for all", text)
    }),
    message("tune.no-interaction", |a| {
        within(a, "together: as the single effects give, within the margin")
    }),
    message("tune.interaction-undecided", |a| {
        within(a, "together: whether the effect is that of each alone is not decided")
    }),
    message("tune.not-tried", |a| Text::claim(format!("{} could not be set", a.get("setting")))),
    message("tune.error", |a| Text::claim(a.get("error"))),
];

/// A sentence with its interval, of which `level` says for what it holds.
fn claim(a: &Args<'_>, level: &str, text: String) -> Text {
    Text::claim(format!("{text} ({level}: {} to {})", a.get("low"), a.get("high")))
}

fn within(a: &Args<'_>, predicate: &str) -> Text {
    claim(a, "95 %", format!("{} {predicate}", a.get("setting")))
}

fn effect(a: &Args<'_>, verb: &str) -> Text {
    let (setting, change) = (a.get("setting"), a.get("change"));
    claim(a, "95 % for all settings", format!("{setting} {verb} the response: {change}"))
}

fn side(a: &Args<'_>, direction: &str) -> Text {
    let (setting, metric, change) = (a.get("setting"), a.get("metric"), a.get("change"));
    claim(a, "95 % for all", format!("{setting} makes {metric} {direction}: {change}"))
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
        Note::new("tune.too-few").value("setting", "vm.stat_interval=10"),
        Note::new("tune.not-tried").value("setting", "kernel.nmi_watchdog=0"),
        Note::new("tune.error").value("error", "/proc/sys/kernel/nmi_watchdog: permission denied"),
    ];
    with_fixed(MESSAGES, statements(valued))
}
