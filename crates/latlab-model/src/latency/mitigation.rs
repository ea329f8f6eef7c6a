//! Alternating blocks: the overhead of tracing, and the effect of a mitigation.

use crate::finding::Note;
use serde::{Deserialize, Serialize};

/// How far tracing moved the distribution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TracingOverhead {
    /// Blocks a side.
    pub blocks: usize,
    /// Wake-ups a side.
    pub wakeups: u64,
    /// One a quantile.
    pub shifts: Vec<Shift>,
    /// What it comes to.
    pub effect: Effect,
}

/// How far one quantile moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shift {
    /// Which.
    pub q: f64,
    /// Untraced, ns.
    pub untraced_ns: f64,
    /// Traced, ns.
    pub traced_ns: f64,
    /// Traced less untraced, ns: median of the block pairs.
    pub shift_ns: f64,
    /// Lower end of its 95% interval, ns.
    pub low_ns: f64,
    /// Upper end, ns.
    pub high_ns: f64,
}

/// What the observer effect comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// No quantile moved by more than a tenth of the limit.
    #[default]
    Small,
    /// All moved by about as much: the same shape, shifted.
    Shifted,
    /// The shape itself changed: a cause found under tracing need not be the one without.
    Changed,
    /// Tracing alone makes tasks late.
    MakesLate,
    /// Too few blocks or samples.
    CannotTell,
}

/// A mitigation that was measured, or could not be applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MitigationTest {
    /// Identifier of the finding that it addresses, and who acts.
    pub against: String,
    /// The mitigation.
    pub remedy: Option<Note>,
    /// Settings that were changed and restored.
    pub changes: Vec<Note>,
    /// Its effect; `None` when it could not be applied.
    pub effect: Option<Removed>,
    /// Why it could not be applied.
    pub note: Option<Note>,
}

/// The effect of a mitigation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Removed {
    /// Pairs of blocks.
    pub pairs: usize,
    /// Wake-ups without and with the remedy.
    pub wakeups: (u64, u64),
    /// Late ones without and with it.
    pub late: (u64, u64),
    /// Excess per wake-up without and with it, ns.
    pub excess_ns: (f64, f64),
    /// Share of the excess that is gone; negative when it grew. `None`: there was no excess.
    pub gone: Option<f64>,
    /// 95% interval of that share.
    pub interval: (f64, f64),
    /// Chance that blocks differ so much without a reason (rank test).
    pub p: f64,
}
