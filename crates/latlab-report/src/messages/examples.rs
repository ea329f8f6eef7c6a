//! Examples of messages, for the snapshots of their wording.

use super::message::Message;
use latlab_model::finding::{Note, Statement, Value};

/// A statement with values.
pub(super) fn example(id: &str, values: &[(&str, Value)]) -> Statement {
    let values = values.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    Statement { id: id.to_owned(), values: values.collect() }
}

/// The statements of typed notes.
///
/// # Panics
/// If a note is a recorded sentence.
pub(super) fn statements(notes: impl IntoIterator<Item = Note>) -> Vec<Statement> {
    let typed = |note| match note {
        Note::Typed(statement) => statement,
        Note::Recorded(text) => panic!("not typed: {text}"),
    };
    notes.into_iter().map(typed).collect()
}

/// All these, and the messages of an area that none of them is an example of: they have no values.
pub(super) fn with_fixed(messages: &[Message], mut all: Vec<Statement>) -> Vec<Statement> {
    let fixed = messages.iter().filter(|m| !all.iter().any(|s| s.id == m.id));
    let fixed: Vec<Statement> = fixed.map(|m| example(m.id, &[])).collect();
    all.extend(fixed);
    all
}
