//! Findings: what was concluded, from what, and how certain it is.
//!
//! A finding is data: an identifier, a severity, a confidence, typed values with units, evidence and
//! remedies. `latlab-report` has exactly one wording for each identifier (`messages/`); no English
//! is composed here or in analysis, so JSON has numbers where the report has sentences.
//!
//! ```json
//! {"id": "noise.interruption", "severity": "problem", "confidence": "high",
//!  "values": {"longest": {"ns": 6050000}, "share": {"ratio": 0.056}},
//!  "evidence": [{"id": "samples", "value": {"count": 1200}}],
//!  "remedies": [{"id": "remedy.isolate-cpu", "values": {"cpu": {"cpu": 1}}}]}
//! ```
//!
//! Runs of schema version 1 have sentences instead of values. They are read into the same types: the
//! sentence is in [`Finding::claim`], a remedy is a [`Note::Recorded`], an evidence value a
//! [`Value::Text`].

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a finding means for the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Checked, nothing to do.
    #[serde(alias = "good")]
    Ok,
    /// Context; nothing to do.
    #[serde(alias = "note")]
    Info,
    /// Affects results or latency under some conditions.
    Warning,
    /// Prevents a good measurement or causes latency.
    #[serde(alias = "in_the_way")]
    Problem,
    /// The data do not decide.
    #[serde(alias = "cannot_tell")]
    Inconclusive,
}

/// How certain a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// The evidence does not decide.
    #[serde(alias = "cannot_tell")]
    Low,
    /// More likely than not; other readings remain.
    #[serde(alias = "likely")]
    Medium,
    /// Read from the kernel, or decided by a test with little room for another reading.
    #[serde(alias = "sure")]
    High,
}

/// A number with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// A duration in nanoseconds.
    Ns(f64),
    /// A duration in seconds.
    S(f64),
    /// A size in bytes.
    Bytes(u64),
    /// A number of things.
    Count(u64),
    /// A signed whole number without a unit (a nice value, a difference).
    Integer(i64),
    /// A number without a unit.
    Number(f64),
    /// A share, 0 to 1, or a relative change, −1 and up.
    Ratio(f64),
    /// A probability, 0 to 1.
    Probability(f64),
    /// A frequency in hertz.
    Hz(f64),
    /// Electrical power in watts.
    Watts(f64),
    /// Events per second.
    PerSecond(f64),
    /// A rate in bytes per second.
    BytesPerSecond(f64),
    /// A logical CPU.
    Cpu(u32),
    /// A thread id.
    Tid(i32),
    /// A real-time priority, 1 to 99.
    Priority(i32),
    /// A temperature in degrees Celsius.
    Celsius(f64),
}

/// A value of a finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Value {
    /// Yes or no.
    Flag(bool),
    /// A number with its unit.
    Quantity(Quantity),
    /// A name of the kernel, a file, a setting or a program, and as `error` the text of an error: no
    /// sentence of our own. Of runs of schema version 1 also a formatted value.
    Text(String),
    /// Several.
    List(Vec<Value>),
}

impl From<bool> for Value {
    fn from(v: bool) -> Self {
        Self::Flag(v)
    }
}
impl From<&str> for Value {
    fn from(v: &str) -> Self {
        Self::Text(v.to_owned())
    }
}
impl From<&String> for Value {
    fn from(v: &String) -> Self {
        Self::Text(v.clone())
    }
}
impl From<String> for Value {
    fn from(v: String) -> Self {
        Self::Text(v)
    }
}
impl From<Quantity> for Value {
    fn from(v: Quantity) -> Self {
        Self::Quantity(v)
    }
}
impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(v: Vec<T>) -> Self {
        Self::List(v.into_iter().map(Into::into).collect())
    }
}

/// Values by name (`snake_case`).
pub type Values = BTreeMap<String, Value>;

/// An identifier with values: a remark, a reason or a remedy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Statement {
    /// Stable identifier, `area.kebab-case`; `latlab-report` has its wording.
    pub id: String,
    /// What the wording needs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: Values,
}

/// A [`Statement`], or a sentence of a run of schema version 1 or of another program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Note {
    /// With an identifier.
    Typed(Statement),
    /// A sentence as it was recorded.
    Recorded(String),
}

impl Note {
    /// A statement without values; add them with [`Note::value`].
    #[inline(never)]
    pub fn new(id: &str) -> Self {
        Self::Typed(Statement { id: id.to_owned(), values: Values::new() })
    }
    /// The same with a value; without effect on a recorded sentence.
    #[must_use]
    pub fn value(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.put(name, value.into());
        self
    }
    /// The same with a value, if there is one.
    #[must_use]
    pub fn value_if(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.value(name, value),
            None => self,
        }
    }
    // Not inlined: hundreds of calls would each carry the insertion, and the board build is small.
    #[inline(never)]
    fn put(&mut self, name: &str, value: Value) {
        if let Self::Typed(s) = self {
            s.values.insert(name.to_owned(), value);
        }
    }
    /// The identifier; `None` for a recorded sentence.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Typed(s) => Some(&s.id),
            Self::Recorded(_) => None,
        }
    }
}

impl From<&str> for Note {
    fn from(sentence: &str) -> Self {
        Self::Recorded(sentence.to_owned())
    }
}
impl From<String> for Note {
    fn from(sentence: String) -> Self {
        Self::Recorded(sentence)
    }
}

/// One value that supports a finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// What was measured or read: a name of the kernel (`sched_rt_runtime_us`), or an identifier in
    /// kebab-case (`steal-time`).
    #[serde(alias = "what")]
    pub id: String,
    /// Its value.
    pub value: Value,
    /// Number of samples behind the value, where it is a statistic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// Where it was read (a file, an event, a part of this run).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl Evidence {
    /// Evidence without sample count or source.
    pub fn new(id: impl Into<String>, value: impl Into<Value>) -> Self {
        Self { id: id.into(), value: value.into(), samples: None, source: None }
    }
    /// The same with the place where it was read.
    #[must_use]
    pub fn from(mut self, source: impl Into<String>) -> Self {
        self.source = Some(source.into());
        self
    }
    /// The same with the number of samples behind it.
    #[must_use]
    pub fn of(mut self, samples: u64) -> Self {
        self.samples = Some(samples);
        self
    }
}

/// A conclusion with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Stable identifier for scripts, `area.kebab-case` (`rt.throttling`, `why.interrupts-off`).
    pub id: String,
    /// What it means for the reader.
    #[serde(alias = "verdict")]
    pub severity: Severity,
    /// How certain it is.
    pub confidence: Confidence,
    /// What was found, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: Values,
    /// What supports it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// Reasons and limitations of the finding.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// What to do, each a command or a setting.
    #[serde(default, alias = "try", skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<Note>,
    /// The sentence of a run of schema version 1; empty otherwise.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub claim: String,
    /// The explanation of a run of schema version 1; empty otherwise.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl Finding {
    /// A finding with nothing but its identifier; add to it with the methods below.
    #[inline(never)]
    pub fn typed(id: &str, severity: Severity, confidence: Confidence) -> Self {
        Self {
            id: id.to_owned(),
            severity,
            confidence,
            values: Values::new(),
            evidence: Vec::new(),
            notes: Vec::new(),
            remedies: Vec::new(),
            claim: String::new(),
            why: String::new(),
        }
    }
    /// Adds a value; a value of that name is replaced.
    #[must_use]
    pub fn value(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.put(name, value.into());
        self
    }
    #[inline(never)]
    fn put(&mut self, name: &str, value: Value) {
        self.values.insert(name.to_owned(), value);
    }
    /// Adds a value where there is one.
    #[must_use]
    pub fn value_if(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.value(name, value),
            None => self,
        }
    }
    /// Adds a piece of evidence.
    #[must_use]
    #[inline(never)]
    pub fn with(mut self, evidence: Evidence) -> Self {
        self.evidence.push(evidence);
        self
    }
    /// Adds a reason or a limitation.
    #[must_use]
    pub fn note(mut self, note: impl Into<Note>) -> Self {
        self.push_note(note.into());
        self
    }
    #[inline(never)]
    fn push_note(&mut self, note: Note) {
        self.notes.push(note);
    }
    /// Adds a remedy.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<Note>) -> Self {
        self.push_remedy(remedy.into());
        self
    }
    #[inline(never)]
    fn push_remedy(&mut self, remedy: Note) {
        self.remedies.push(remedy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_of_version_1_is_read() {
        let text = r#"{"id": "rt.throttling", "verdict": "in_the_way", "confidence": "sure",
            "claim": "It is throttled.", "why": "Because.", "try": ["do this"],
            "evidence": [{"what": "sched_rt_runtime_us", "value": "950 ms"}]}"#;
        let finding: Finding = serde_json::from_str(text).unwrap();
        assert_eq!(finding.severity, Severity::Problem);
        assert_eq!(finding.confidence, Confidence::High);
        assert_eq!(finding.claim, "It is throttled.");
        assert_eq!(finding.remedies, [Note::Recorded("do this".into())]);
        assert_eq!(finding.evidence[0].value, Value::Text("950 ms".into()));
    }

    #[test]
    fn values_keep_their_units_through_json() {
        let finding = Finding::typed("noise.interruption", Severity::Warning, Confidence::Medium)
            .value("longest", Quantity::Ns(6_050_000.0))
            .value("share", Quantity::Ratio(0.056))
            .value("cpus", vec![Quantity::Cpu(0), Quantity::Cpu(3)])
            .value("task", "ksoftirqd/0")
            .value("isolated", false)
            .with(Evidence::new("interruptions", Quantity::Count(12)).of(12))
            .remedy(Note::new("remedy.isolate-cpu").value("cpu", Quantity::Cpu(1)));
        let json = serde_json::to_value(&finding).unwrap();
        assert_eq!(json["values"]["longest"], serde_json::json!({"ns": 6_050_000.0}));
        assert_eq!(json["values"]["cpus"], serde_json::json!([{"cpu": 0}, {"cpu": 3}]));
        assert_eq!(json["remedies"][0]["id"], "remedy.isolate-cpu");
        assert!(json.get("claim").is_none());
        assert_eq!(serde_json::from_value::<Finding>(json).unwrap(), finding);
    }
}
