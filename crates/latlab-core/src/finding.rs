//! A finding: what was concluded, from what, and how sure it is.
//!
//! Findings are data. Renderers turn them into text, JSON and HTML; nothing
//! formats one where it is made, so that each can be tested and re-rendered.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much a finding weighs for the reader.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As it should be.
    Good,
    /// Worth knowing; nothing to do.
    Note,
    /// Something stands in the way of a good measurement or of a deadline.
    InTheWay,
    /// It could not be decided, with the reason in the claim.
    CannotTell,
}

/// How sure a finding is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// The evidence does not decide.
    CannotTell,
    /// More likely than not; other readings are left.
    Likely,
    /// Read from the kernel or decided by a test with little room for another reading.
    Sure,
}

/// One number or fact that supports a finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// What was looked at, in the field's own terms (`sched_rt_runtime_us`, `p99 under load`).
    pub what: String,
    /// What it said, with its unit.
    pub value: String,
    /// Number of samples behind the value, where it is a statistic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// Where it was read (a file, an event, a part of this run), where that helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl Evidence {
    /// Evidence without sample count or source.
    pub fn new(what: impl Into<String>, value: impl Into<String>) -> Self {
        Self { what: what.into(), value: value.into(), samples: None, source: None }
    }
    /// The same, with the place where it was read.
    #[must_use]
    pub fn from(mut self, source: impl Into<String>) -> Self {
        self.source = Some(source.into());
        self
    }
    /// The same, with the number of samples behind it.
    #[must_use]
    pub fn of(mut self, samples: u64) -> Self {
        self.samples = Some(samples);
        self
    }
}

/// A conclusion with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Stable identifier for scripts, `area.kebab-case` (`rt.throttling`, `why.irqs-off`).
    pub id: String,
    /// What it means for the reader.
    pub verdict: Verdict,
    /// How sure it is.
    pub confidence: Confidence,
    /// One sentence: what is the case.
    pub claim: String,
    /// Why it matters for latency; empty where the claim says it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// What supports it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// What to try, each a command or a setting.
    #[serde(default, rename = "try", skip_serializing_if = "Vec::is_empty")]
    pub try_: Vec<String>,
}

impl Finding {
    /// A finding with nothing but its claim; add to it with the methods below.
    pub fn new(
        id: &str,
        verdict: Verdict,
        confidence: Confidence,
        claim: impl Into<String>,
    ) -> Self {
        Self {
            id: id.to_owned(),
            verdict,
            confidence,
            claim: claim.into(),
            why: String::new(),
            evidence: Vec::new(),
            try_: Vec::new(),
        }
    }
    /// Says why it matters.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }
    /// Adds a piece of evidence.
    #[must_use]
    pub fn with(mut self, evidence: Evidence) -> Self {
        self.evidence.push(evidence);
        self
    }
    /// Adds something to try.
    #[must_use]
    pub fn attempt(mut self, what: impl Into<String>) -> Self {
        self.try_.push(what.into());
        self
    }
}
