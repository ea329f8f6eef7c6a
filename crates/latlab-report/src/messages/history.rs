//! Wording: the history of runs.

use super::message::Message;

/// One wording for each identifier.
pub(super) const MESSAGES: &[Message] = &[];

/// Labels of evidence that differ from the identifier with spaces.
pub(super) const LABELS: &[(&str, &str)] = &[];

/// Examples of every identifier, for the snapshots.
#[cfg(test)]
pub(super) fn examples() -> Vec<latlab_model::finding::Statement> {
    Vec::new()
}
