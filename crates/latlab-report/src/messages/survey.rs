//! Wording: the survey.

use super::args::Args;
use super::message::{Message, Text};

/// One wording for each identifier.
pub(super) const MESSAGES: &[Message] = &[
    Message { id: "survey.load-effect", text: load_effect },
    Message { id: "survey.ordinary-task", text: ordinary_task },
];

/// Labels of evidence that differ from the identifier with spaces.
pub(super) const LABELS: &[(&str, &str)] =
    &[("p99-load", "p99 under load"), ("worst-load", "worst under load")];

fn load_effect(a: &Args<'_>) -> Text {
    let (p99_idle, p99) = (a.get("p99_idle"), a.get("p99_load"));
    let (worst_idle, worst) = (a.get("worst_idle"), a.get("worst_load"));
    let claim = match a.text("raised") {
        "p99" => {
            format!("This load raises the p99 of the wake-up latency from {p99_idle} to {p99}")
        }
        "worst" => format!(
            "This load raises the worst wake-up latency from {worst_idle} to {worst}, the p99 little"
        ),
        _ => format!(
            "This load raises the wake-up latency little: p99 from {p99_idle} to {p99}, worst from \
             {worst_idle} to {worst}"
        ),
    };
    Text::claim(claim).why(
        "One short run each is weak evidence; a longer `latlab wakeup` under the relevant load decides.",
    )
}

fn ordinary_task(a: &Args<'_>) -> Text {
    Text::claim(format!("Wake-ups measured without a real-time policy: {}", a.get("error"))).why(
        "A task without a real-time policy waits for its turn, and its timers have 50 µs of slack.",
    )
}

/// Examples of every identifier, for the snapshots.
#[cfg(test)]
pub(super) fn examples() -> Vec<latlab_model::finding::Statement> {
    use super::examples::example;
    use latlab_model::finding::{Quantity, Value};
    let ns = |v: f64| Value::from(Quantity::Ns(v));
    let effect = |raised: &str| {
        let values = [
            ("raised", Value::from(raised)),
            ("p99_idle", ns(10_000.0)),
            ("p99_load", ns(40_000.0)),
            ("worst_idle", ns(50_000.0)),
            ("worst_load", ns(900_000.0)),
        ];
        example("survey.load-effect", &values)
    };
    let error = ("error", Value::from("SCHED_FIFO is not permitted"));
    vec![effect("p99"), effect("worst"), effect("none"), example("survey.ordinary-task", &[error])]
}
