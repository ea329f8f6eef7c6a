//! Wording: sweeps.

use super::args::Args;
use super::message::{Message, Text, fixed};
use crate::values::quantile_name;
use latlab_model::sweep::axis::size;

/// One wording for each identifier.
pub(super) const MESSAGES: &[Message] = &[
    Message { id: "sweep.allocation", text: allocation },
    Message { id: "sweep.knee", text: knee },
    Message {
        id: "sweep.effect",
        text: |a| {
            let (axis, factor, worst) = (a.get("axis"), factor(a, "factor"), a.get("worst"));
            Text::claim(format!(
                "{axis} affects latency: {factor} from its best to its worst value ({worst})"
            ))
        },
    },
    Message {
        id: "sweep.drift",
        text: |a| {
            Text::claim(format!(
                "Latency without load drifted by {} from the first to the last measurement",
                factor(a, "factor")
            ))
            .why("The points are in random order: drift adds noise, not effects.")
        },
    },
    Message {
        id: "sweep.too-short",
        text: |a| {
            Text::claim(format!(
                "{} for each point; {} needs {}",
                a.count("wakeups", "wake-up", "wake-ups"),
                quantile_name(a.number("quantile").unwrap_or(0.0)),
                a.get("needed")
            ))
        },
    },
    Message { id: "sweep.point-failed", text: point_failed },
    Message {
        id: "sweep.unfinished",
        text: |a| Text::claim(format!("{} not measured", a.count("points", "point", "points"))),
    },
    Message {
        id: "sweep.ordinary-task",
        text: |a| {
            Text::claim(format!("Measured as a SCHED_OTHER task: {}", a.get("error"))).why(
                "A SCHED_OTHER task competes with all other tasks, and its timers have 50 µs of \
                 slack.",
            )
        },
    },
    // Reasons of a point.
    Message { id: "sweep.load-failed", text: |a| Text::claim(a.get("error")) },
    fixed!("sweep.no-wakeups", "the measured task never woke up"),
    fixed!("sweep.no-cause", "no cause found"),
    Message {
        id: "sweep.cause-not-searched",
        text: |a| Text::claim(format!("not analysed: {}", a.get("error"))),
    },
    // Remedies.
    fixed!("sweep.remedy.longer-points", "Use a longer -D, a shorter -i or a lower --quantile"),
    fixed!("sweep.remedy.resume", "Continue with `latlab sweep --resume DIRECTORY`"),
];

/// Labels of evidence that differ from the identifier with spaces.
pub(super) const LABELS: &[(&str, &str)] = &[
    ("alloc-p", "alloc/free, p of no difference from no load"),
    ("hang-p", "hang, p of no difference from no load"),
    ("keep-p", "keep, p of no difference from no load"),
    ("p-no-drift", "p of no drift"),
    ("p-no-effect", "p of no effect"),
    ("p-no-knee", "p of no knee"),
    ("share-of-variance", "share of the variance"),
];

/// `×2.01`.
fn factor(a: &Args<'_>, name: &str) -> String {
    a.number(name).map_or_else(|| "?".to_owned(), |f| format!("×{f:.2}"))
}

/// `64K`.
fn bound(a: &Args<'_>, name: &str) -> String {
    a.number(name).map_or_else(|| "?".to_owned(), size)
}

fn allocation(a: &Args<'_>) -> Text {
    // Runs of earlier versions have no margin: they concluded from a test that was not significant.
    let within = |of: &str| match a.find("margin") {
        Some(margin) => format!("within {margin} of {of}"),
        None => format!("not significantly above {of}"),
    };
    let claim = match a.text("verdict") {
        "allocation-path" => format!(
            "alloc/free raises latency, keep is {}: allocation path, not memory access",
            within("no load")
        ),
        "both" => "keep raises latency, alloc/free more: memory access and allocation path".into(),
        "access" => format!(
            "keep raises latency, alloc/free is {}: memory access, not allocation path",
            within("keep")
        ),
        "neither" => format!("alloc/free and keep are both {}", within("no load")),
        "too-few-anchors" => "Too few points without load to compare the allocation modes".into(),
        _ => "The data do not decide whether allocation or memory access raises latency".into(),
    };
    let mode = |name: &str| {
        let interval =
            match (a.number(&[name, "_low"].concat()), a.number(&[name, "_high"].concat())) {
                (Some(low), Some(high)) => format!(" [{low:.2}–{high:.2}]"),
                _ => String::new(),
            };
        format!("{}{interval}", factor(a, &[name, "_factor"].concat()))
    };
    let mut text =
        format!("{claim} (alloc/free {}, keep {} of no load", mode("alloc"), mode("keep"));
    if a.has("knee_from") {
        text += &format!("; knee between {} and {}", bound(a, "knee_from"), bound(a, "knee_to"));
    }
    Text::claim(text + ")")
}

fn knee(a: &Args<'_>) -> Text {
    let setting = a.find("setting").map_or_else(String::new, |s| format!(" ({s})"));
    let matches = a.find("matches").map_or_else(String::new, |m| format!("; coincides with {m}"));
    Text::claim(format!(
        "Knee along {}{setting} between {} and {}: {} before, {} after{matches}",
        a.get("axis"),
        bound(a, "from"),
        bound(a, "to"),
        a.get("before"),
        a.get("after")
    ))
}

fn point_failed(a: &Args<'_>) -> Text {
    let error = match a.text("reason") {
        "sweep.no-wakeups" => "the measured task never woke up".to_owned(),
        _ => a.get("error"),
    };
    Text::claim(format!("{}: {error}; point excluded", a.get("load")))
}

/// Examples of every identifier, for the snapshots.
#[cfg(test)]
pub(super) fn examples() -> Vec<latlab_model::finding::Statement> {
    use latlab_model::finding::{Note, Quantity as Q};
    let allocation = |verdict: &str| {
        Note::new("sweep.allocation")
            .value("verdict", verdict)
            .value("alloc_factor", Q::Number(2.014))
            .value("keep_factor", Q::Number(1.02))
            .value("margin", Q::Ratio(0.25))
            .value("keep_low", Q::Number(0.96))
            .value("keep_high", Q::Number(1.09))
    };
    let earlier = Note::new("sweep.allocation")
        .value("verdict", "neither")
        .value("alloc_factor", Q::Number(1.1))
        .value("keep_factor", Q::Number(1.02));
    let all = [
        allocation("allocation-path")
            .value("knee_from", Q::Number(65536.0))
            .value("knee_to", Q::Number(131_072.0)),
        allocation("both"),
        allocation("access"),
        allocation("neither"),
        allocation("too-few-anchors"),
        allocation("inconclusive"),
        earlier,
        Note::new("sweep.knee")
            .value("axis", "vm-bytes")
            .value("setting", vec!["mode alloc"])
            .value("from", Q::Number(262_144.0))
            .value("to", Q::Number(1_048_576.0))
            .value("before", Q::Ns(16_000.0))
            .value("after", Q::Ns(32_500.0))
            .value("matches", vec!["L2 1M"]),
        Note::new("sweep.knee")
            .value("axis", "rate")
            .value("from", Q::Number(100.0))
            .value("to", Q::Number(200.0))
            .value("before", Q::Ns(16_000.0))
            .value("after", Q::Ns(32_500.0)),
        Note::new("sweep.effect")
            .value("axis", "vm-stride")
            .value("factor", Q::Number(1.84))
            .value("worst", "4096"),
        Note::new("sweep.drift").value("factor", Q::Number(1.31)),
        Note::new("sweep.too-short")
            .value("wakeups", Q::Count(2000))
            .value("needed", Q::Count(4600))
            .value("quantile", Q::Number(0.999)),
        Note::new("sweep.point-failed")
            .value("load", "vm:512M:4096:keep")
            .value("reason", "sweep.load-failed")
            .value("error", "killed by SIGKILL"),
        Note::new("sweep.point-failed")
            .value("load", "vm:512M:4096:keep")
            .value("reason", "sweep.no-wakeups"),
        Note::new("sweep.unfinished").value("points", Q::Count(7)),
        Note::new("sweep.ordinary-task").value("error", "the kernel refuses SCHED_FIFO"),
        Note::new("sweep.load-failed").value("error", "killed by SIGKILL"),
        Note::new("sweep.no-wakeups"),
        Note::new("sweep.no-cause"),
        Note::new("sweep.cause-not-searched").value("error", "no tracefs"),
        Note::new("sweep.remedy.longer-points"),
        Note::new("sweep.remedy.resume"),
    ];
    super::examples::statements(all)
}
