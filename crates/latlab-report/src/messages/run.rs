//! Wording: runs as a whole: steps that were not made, limits, interruptions.

use super::args::Args;
use super::message::{Message, Text};

/// One wording for each identifier.
pub(super) const MESSAGES: &[Message] =
    &[Message { id: "run.step-not-measured", text: step_not_measured }];

/// Labels of evidence that differ from the identifier with spaces.
pub(super) const LABELS: &[(&str, &str)] = &[];

fn step_not_measured(a: &Args<'_>) -> Text {
    Text::claim(format!("Step {} not measured: {}", a.get("step"), a.get("error")))
}

/// Examples of every identifier, for the snapshots.
#[cfg(test)]
pub(super) fn examples() -> Vec<latlab_model::finding::Statement> {
    use super::examples::example;
    use latlab_model::finding::Value;
    let values = [("step", Value::from("memory")), ("error", Value::from("no memory"))];
    vec![example("run.step-not-measured", &values)]
}
