//! Wording: comparisons of runs.

use super::args::Args;
use super::message::{Message, Text, fixed};
use crate::values::change;
use crate::values::quantile_name;

/// One wording for each identifier.
pub(super) const MESSAGES: &[Message] = &[
    Message { id: "compare.worse", text: worse },
    Message { id: "compare.runs-differ", text: runs_differ },
    // What a comparison could have detected.
    Message {
        id: "compare.tail-unfitted",
        text: |a| {
            let asked = asked(a);
            Text::claim(format!(
                "power to detect {asked} unknown: the tail of the base is not fitted there"
            ))
        },
    },
    Message {
        id: "compare.detectable",
        text: |a| Text::claim(format!("{} is detectable (power {})", asked(a), a.get("power"))),
    },
    Message {
        id: "compare.too-short",
        text: |a| {
            let (asked, power, more) = (asked(a), a.get("power"), more(a));
            Text::claim(format!("too short to detect {asked} (power {power}): {more}"))
        },
    },
    Message {
        id: "compare.double-detectable",
        text: |a| {
            let (rate, power) = (rate(a), a.get("power"));
            Text::claim(format!("a doubled rate over {rate} is detectable (power {power})"))
        },
    },
    Message {
        id: "compare.double-too-short",
        text: |a| {
            let (rate, power, more) = (rate(a), a.get("power"), more(a));
            Text::claim(format!(
                "too short to detect a doubled rate over {rate} (power {power}): {more}"
            ))
        },
    },
    // Limitations of the data.
    Message {
        id: "compare.assumed-clusters",
        text: |a| {
            Text::claim(format!(
                "order of values unknown: clusters of {} assumed (--cluster)",
                a.get("cluster")
            ))
        },
    },
    Message {
        id: "compare.few-runs",
        text: |_| {
            Text::claim(
                "fewer than three runs on a side: the variation between runs is unknown and in no interval",
            )
        },
    },
    Message {
        id: "compare.interrupted",
        text: |a| Text::claim(format!("{}: interrupted run", a.get("file"))),
    },
    Message {
        id: "compare.reference",
        text: |a| {
            let (machine, source) = (a.get("machine"), a.get("source"));
            Text::claim(format!("{machine}; {source}: published values without a spread"))
        },
    },
    Message {
        id: "compare.imported-histogram",
        text: |a| {
            let (tool, step) = (a.get("tool"), a.get("step"));
            Text::claim(format!("from {tool}: resolution {step}, order of values unknown"))
        },
    },
    Message {
        id: "compare.imported-lines",
        text: |a| {
            let of = if a.is("each_second") { "each second" } else { "the whole run" };
            Text::claim(format!(
                "from {}: mean and maximum of {of}, no distribution",
                a.get("tool")
            ))
        },
    },
    Message {
        id: "compare.imported-single",
        text: |a| Text::claim(format!("from {}: single values without a spread", a.get("tool"))),
    },
    Message {
        id: "compare.over-range",
        text: |a| {
            let values = a.count("values", "value", "values");
            Text::claim(format!("{values} beyond the end of the histogram"))
        },
    },
    Message {
        id: "compare.cut-off",
        text: |a| {
            Text::claim(format!(
                "cut off at offset {}; the values before are used",
                a.get("offset")
            ))
        },
    },
    // Reasons for which a metric is not compared.
    Message {
        id: "compare.units-of-runs",
        text: |a| {
            let (unit, other) = (a.get("unit"), a.get("other"));
            Text::claim(format!("its runs have different units: {unit} and {other}"))
        },
    },
    Message {
        id: "compare.units",
        text: |a| Text::claim(format!("different units: {} and {}", a.get("unit"), a.get("other"))),
    },
    fixed!("compare.no-values", "no values (empty histogram)"),
    Message {
        id: "compare.parameters",
        text: |a| Text::claim(format!("different parameters: {}", a.get("other"))),
    },
];

/// Labels of evidence that differ from the identifier with spaces.
pub(super) const LABELS: &[(&str, &str)] = &[
    ("cpus-online", "CPUs online"),
    ("isolated-cpus", "isolated CPUs"),
    ("rt-throttling", "real-time throttling"),
];

/// `p99.9`, or the limit of a rate.
fn rate(a: &Args<'_>) -> String {
    match a.number("quantile") {
        Some(q) => quantile_name(q),
        None => a.get("limit"),
    }
}

fn asked(a: &Args<'_>) -> String {
    let beyond = match a.is("beyond_sample") {
        true => ", extrapolated beyond ten times the sample,",
        false => "",
    };
    format!("{} at {}{beyond}", a.get("difference"), a.get("probability"))
}

/// How much longer the runs have to be.
fn more(a: &Args<'_>) -> String {
    if let Some(runs) = a.number("runs") {
        return format!("needs {runs:.0} runs on each side");
    }
    match (a.number("needed"), a.number("factor")) {
        (Some(s), _) if s < 90.0 => format!("needs {s:.0} s more of each"),
        (Some(s), _) if s < 7_200.0 => format!("needs {:.0} minutes more of each", s / 60.0),
        (Some(s), _) => format!("needs {:.0} hours more of each", s / 3_600.0),
        (None, Some(factor)) => format!("needs {factor:.1} times as many values of each"),
        (None, None) => "a million times as many values are not enough".into(),
    }
}

fn worse(a: &Args<'_>) -> Text {
    let name = match a.number("quantile") {
        Some(q) => quantile_name(q),
        None => format!("rate over {}", a.get("limit")),
    };
    let share = |name: &str| change(a.number(name).unwrap_or(0.0));
    let others = a.number("aspects").map_or(0.0, |n| n - 1.0);
    let others = if others > 0.0 { format!("; {others:.0} more") } else { String::new() };
    Text::claim(format!(
        "{} in {}: {name} {} → {} ({}, {} to {}){others}",
        a.get("metric"),
        a.get("subject"),
        a.get("before"),
        a.get("after"),
        share("change"),
        share("low"),
        share("high")
    ))
}

fn runs_differ(a: &Args<'_>) -> Text {
    let one = worse(a);
    Text::claim(format!("These runs differ: {}", one.claim)).why(
        "Fewer than three runs on a side: two runs of one build can differ as much. Three runs on each side \
         decide whether it is better or worse.",
    )
}

/// Examples of every identifier, for the snapshots.
#[cfg(test)]
pub(super) fn examples() -> Vec<latlab_model::finding::Statement> {
    use latlab_model::finding::{Note, Quantity as Q};
    let told = |id: &str| {
        Note::new(id)
            .value("difference", Q::Ns(10_000.0))
            .value("probability", Q::Probability(1e-6))
            .value("power", Q::Ratio(0.31))
    };
    let double = |id: &str| Note::new(id).value("power", Q::Ratio(0.92));
    let worse = || {
        Note::new("compare.worse")
            .value("metric", "wakeup.user")
            .value("subject", "B")
            .value("change", Q::Ratio(0.25))
            .value("low", Q::Ratio(0.2))
            .value("high", Q::Ratio(1.31))
    };
    let all = [
        worse()
            .value("aspects", Q::Count(3))
            .value("quantile", Q::Number(0.999))
            .value("before", Q::Ns(12_000.0))
            .value("after", Q::Ns(15_000.0)),
        worse()
            .value("aspects", Q::Count(1))
            .value("limit", Q::Ns(45_000.0))
            .value("before", Q::Ratio(0.0012))
            .value("after", Q::Ratio(0.0015)),
        Note::new("compare.runs-differ")
            .value("metric", "wakeup.user")
            .value("subject", "B")
            .value("aspects", Q::Count(1))
            .value("quantile", Q::Number(0.5))
            .value("before", Q::Ns(12_000.0))
            .value("after", Q::Ns(9_500.0))
            .value("change", Q::Ratio(-0.21))
            .value("low", Q::Ratio(-0.22))
            .value("high", Q::Ratio(-0.2)),
        told("compare.tail-unfitted"),
        told("compare.detectable"),
        told("compare.detectable").value("beyond_sample", true),
        told("compare.too-short").value("needed", Q::S(40.0)),
        told("compare.too-short").value("needed", Q::S(4_000.0)),
        told("compare.too-short").value("needed", Q::S(40_000.0)),
        told("compare.too-short"),
        double("compare.double-detectable").value("quantile", Q::Number(0.9999)),
        double("compare.double-too-short")
            .value("limit", Q::Ns(45_000.0))
            .value("factor", Q::Number(3.21)),
        told("compare.too-short").value("runs", Q::Count(9)),
        Note::new("compare.assumed-clusters").value("cluster", Q::Number(4.0)),
        Note::new("compare.few-runs"),
        Note::new("compare.interrupted").value("file", "runs/a"),
        Note::new("compare.reference")
            .value("machine", "Cortex-A8, Linux 3.2")
            .value("source", "a 2015 study"),
        Note::new("compare.imported-histogram")
            .value("tool", "cyclictest")
            .value("step", Q::Ns(1_000.0)),
        Note::new("compare.imported-lines").value("tool", "Xenomai").value("each_second", true),
        Note::new("compare.imported-lines").value("tool", "Xenomai").value("each_second", false),
        Note::new("compare.imported-single").value("tool", "lmbench"),
        Note::new("compare.over-range").value("values", Q::Count(3)),
        Note::new("compare.cut-off").value("offset", Q::Count(4096)),
        Note::new("compare.units-of-runs").value("unit", "ns").value("other", "count"),
        Note::new("compare.units").value("unit", "ns").value("other", "count"),
        Note::new("compare.no-values"),
        Note::new("compare.parameters").value("other", "ctx.ring size=64"),
    ];
    super::examples::statements(all)
}
