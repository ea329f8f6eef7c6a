//! Wording: OS noise.

use super::args::Args;
use super::message::{Message, Text};

/// One wording for each identifier.
pub(super) const MESSAGES: &[Message] =
    &[Message { id: "osnoise.interruption", text: interruption }];

/// Labels of evidence that differ from the identifier with spaces.
pub(super) const LABELS: &[(&str, &str)] =
    &[("interruptions-of-cpu", "interruptions (CPU, rate, longest, share of time lost)")];

fn interruption(a: &Args<'_>) -> Text {
    let (longest, lost) = (a.get("longest"), a.get("lost"));
    Text::claim(format!(
        "OS noise: longest interruption {longest}, up to {lost} of CPU time lost"
    ))
    .why(
        "A deadline shorter than the longest interruption cannot be guaranteed, unless the source of \
         the interruption has a lower priority than the task.",
    )
}

/// Examples of every identifier, for the snapshots.
#[cfg(test)]
pub(super) fn examples() -> Vec<latlab_model::finding::Statement> {
    use super::examples::example;
    use latlab_model::finding::Quantity;
    let values =
        [("longest", Quantity::Ns(6.05e6).into()), ("lost", Quantity::Ratio(0.0564).into())];
    vec![example("osnoise.interruption", &values)]
}
