//! Wording: functions of a trace.

use super::args::Args;
use super::message::{Message, Text, message};

/// One wording for each identifier.
pub(super) const MESSAGES: &[Message] = &[
    message("profile.long-call", long_call),
    message("profile.long-step", |a| {
        let caller = a.find("caller").map_or(String::new(), |c| format!(", called by {c}(),"));
        Text::claim(format!(
            "{} of the longest latency, {} of {}, pass between {}{caller} and {}",
            a.get("share"),
            a.get("length"),
            a.get("latency"),
            a.get("from"),
            a.get("to"),
        ))
        .why("No function that the kernel traces was called meanwhile; its code, an interrupt with functions that are not traced, the tracer itself or the hypervisor took the time.".to_owned())
    }),
    message("profile.many-calls", |a| {
        let caller = a.find("caller").map_or(String::new(), |c| format!(", most by {c}()"));
        Text::claim(format!(
            "Many calls: {}() was called {}, {} each{caller}",
            a.get("function"),
            a.count("count", "time", "times"),
            a.get("mean"),
        ))
        .why(format!(
            "Together they take {} of the traced time; no single call is long.",
            a.get("share")
        ))
    }),
    message("profile.more-calls", |a| changed(a, "More calls")),
    message("profile.longer-calls", |a| changed(a, "Longer calls")),
];

fn long_call(a: &Args<'_>) -> Text {
    let inside = match a.find("inside") {
        Some(inside) => {
            format!("; nine tenths of it in {inside}(), {} there itself", a.get("self"))
        }
        None => format!("; {} in the function itself", a.get("self")),
    };
    let usual = match a.find("median") {
        Some(median) => {
            format!("The median of its {} is {median}.", a.count("count", "call", "calls"))
        }
        None => format!("It has {} of the own time of all functions.", a.get("share")),
    };
    Text::claim(format!("Long call: {}() took {}{inside}", a.get("function"), a.get("length")))
        .why(usual)
}

fn changed(a: &Args<'_>, what: &str) -> Text {
    let median = match (a.find("median_before"), a.find("median_after")) {
        (Some(before), Some(after)) => format!(", median {before} before and {after} after"),
        (None, Some(after)) => format!(", median {after}"),
        _ => String::new(),
    };
    Text::claim(format!(
        "{what} of {}(): {} of the time before, {} after",
        a.get("function"),
        a.get("before"),
        a.get("after"),
    ))
    .why(format!(
        "Calls: {} before and {} after{median}.",
        a.get("calls_before"),
        a.get("calls_after")
    ))
}

/// Examples of every identifier, for the snapshots.
#[cfg(test)]
pub(super) fn examples() -> Vec<latlab_model::finding::Statement> {
    use super::examples::{statements, with_fixed};
    use latlab_model::finding::{Note, Quantity};
    let long = || {
        Note::new("profile.long-call")
            .value("function", "activate_task")
            .value("length", Quantity::Ns(28_117_000.0))
            .value("self", Quantity::Ns(28_110_000.0))
    };
    let changed = |id| {
        Note::new(id)
            .value("function", "qh_completions")
            .value("before", Quantity::Ratio(0.01))
            .value("after", Quantity::Ratio(0.2))
            .value("calls_before", Quantity::PerSecond(4_000.0))
            .value("calls_after", Quantity::PerSecond(80_000.0))
    };
    let valued = [
        long().value("count", Quantity::Count(1)).value("share", Quantity::Ratio(0.98)),
        long()
            .value("count", Quantity::Count(120))
            .value("median", Quantity::Ns(3_100.0))
            .value("inside", "update_curr_rt"),
        Note::new("profile.long-step")
            .value("from", "psi_flags_change")
            .value("caller", "psi_task_switch")
            .value("to", "psi_group_change")
            .value("length", Quantity::Ns(1_093_000.0))
            .value("latency", Quantity::Ns(1_330_000.0))
            .value("share", Quantity::Ratio(0.822))
            .value("tracer", "wakeup_rt"),
        Note::new("profile.many-calls")
            .value("function", "qh_completions")
            .value("count", Quantity::Count(3_700))
            .value("mean", Quantity::Ns(2_510.0))
            .value("share", Quantity::Ratio(0.37))
            .value("caller", "scan_async"),
        changed("profile.more-calls")
            .value("median_before", Quantity::Ns(2_500.0))
            .value("median_after", Quantity::Ns(2_510.0)),
        changed("profile.longer-calls").value("median_after", Quantity::Ns(2_510.0)),
    ];
    with_fixed(MESSAGES, statements(valued))
}
