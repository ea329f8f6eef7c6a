//! What theory expects of a scheduling experiment, and what was measured.
//!
//! ```json
//! {"id": "rr-slice", "decision": "deviates",
//!  "expected": {"id": "sched.rr-slice.expected", "values": {"turn": {"ns": 1e8}, "tolerance": {"ratio": 0.02}}},
//!  "measured": {"id": "sched.rr-slice.measured", "values": {"turns": {"count": 9}, "median": {"ns": 1.1e8}}},
//!  "deviation": {"id": "sched.rr-slice.deviation", "values": {"difference": {"ratio": 0.1}}}}
//! ```

use crate::finding::{Note, Value};
use serde::{Deserialize, Serialize};

/// Whether the measurement is as expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// As expected.
    Met,
    /// Not as expected; [`Expectation::deviation`] has the difference.
    Deviates,
    /// The data do not decide; [`Expectation::deviation`] has the reason.
    #[default]
    #[serde(alias = "cannot_tell")]
    Inconclusive,
}

/// One expectation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Expectation {
    /// Stable identifier, kebab-case (`rr-slice`); `latlab-report` has the statement of theory.
    pub id: String,
    /// The task, where the expectation is of a single one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// What follows from theory for this experiment; `None` where it cannot be computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Note>,
    /// What was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Note>,
    /// Whether they agree.
    pub decision: Decision,
    /// In what they differ, or why it is inconclusive.
    #[serde(default, alias = "how", skip_serializing_if = "Option::is_none")]
    pub deviation: Option<Note>,
    /// The statement of theory of a run of schema version 1; empty otherwise.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub statement: String,
}

impl Expectation {
    /// An expectation that is not decided yet.
    pub fn new(id: &str) -> Self {
        Self { id: id.into(), ..Self::default() }
    }
    /// The same for a single task.
    #[must_use]
    pub fn of_task(mut self, name: &str) -> Self {
        self.task = Some(name.to_owned());
        self
    }
    /// A note of this expectation: `sched.rr-slice.expected`.
    fn note(&self, kind: &str) -> Note {
        Note::new(&["sched.", &self.id, ".", kind].concat())
    }
    /// Adds an expectation without values.
    #[must_use]
    pub fn expect(mut self) -> Self {
        self.expected = Some(self.note("expected"));
        self
    }
    /// Adds an expected value.
    #[must_use]
    pub fn expected(mut self, name: &str, value: impl Into<Value>) -> Self {
        let note = self.expected.take().unwrap_or_else(|| self.note("expected"));
        self.expected = Some(note.value(name, value));
        self
    }
    /// Adds a measured value.
    #[must_use]
    pub fn measured(mut self, name: &str, value: impl Into<Value>) -> Self {
        let note = self.measured.take().unwrap_or_else(|| self.note("measured"));
        self.measured = Some(note.value(name, value));
        self
    }
    /// The same, decided without further values of the deviation.
    #[must_use]
    pub fn decide(self, met: bool) -> Self {
        let deviation = self.note("deviation");
        self.decide_with(met, deviation)
    }
    /// The same, decided; `deviation` is dropped where the expectation is met.
    #[must_use]
    pub fn decide_with(mut self, met: bool, deviation: Note) -> Self {
        self.decision = if met { Decision::Met } else { Decision::Deviates };
        self.deviation = (!met).then_some(deviation);
        self
    }
    /// The same, inconclusive for a reason.
    #[must_use]
    pub fn inconclusive(mut self, reason: Note) -> Self {
        self.decision = Decision::Inconclusive;
        self.deviation = Some(reason);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Quantity;

    #[test]
    fn an_expectation_of_version_1_is_read() {
        let text = r#"{"id": "rr-slice", "statement": "they take turns", "expected": "100 ms",
            "measured": "2 turns", "decision": "cannot_tell", "how": "it takes three"}"#;
        let old: Expectation = serde_json::from_str(text).unwrap();
        assert_eq!(old.decision, Decision::Inconclusive);
        assert_eq!(old.expected, Some(Note::Recorded("100 ms".into())));
        assert_eq!(old.deviation, Some(Note::Recorded("it takes three".into())));
    }

    #[test]
    fn a_deviation_is_kept_only_where_there_is_one() {
        let new = || Expectation::new("rr-slice").expected("turn", Quantity::Ns(1e8));
        assert_eq!(new().decide(true).deviation, None);
        let off = new().decide(false);
        assert_eq!(off.deviation.unwrap().id(), Some("sched.rr-slice.deviation"));
        assert_eq!(off.expected.unwrap().id(), Some("sched.rr-slice.expected"));
    }
}
