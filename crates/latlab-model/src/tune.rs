//! Settings that were tried, and their effect.

use crate::finding::Note;
use serde::{Deserialize, Serialize};

/// What a setting does to the response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TuneEffect {
    /// The response is shorter with it.
    Improves,
    /// The response is longer with it.
    Worsens,
    /// The interval is within the margin: it does nothing of that size.
    NoEffect,
    /// The blocks do not decide.
    #[default]
    Undecided,
    /// It could not be set.
    NotTried,
}

/// A file and its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileValue {
    /// The file.
    pub path: String,
    /// The value while it was tried.
    pub value: String,
    /// The value before.
    pub before: String,
}

/// A setting that was tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Tried {
    /// As on the command line: `governor=performance`.
    pub name: String,
    /// Files that it sets; none for a latency that is held.
    pub files: Vec<FileValue>,
    /// Median response without and with it, ns.
    pub response_ns: (f64, f64),
    /// Response with it as a share of the response without, minus one: −0.2 is a fifth shorter.
    pub change: f64,
    /// Interval of the change, 95 % for all settings together.
    pub interval: (f64, f64),
    /// p value, adjusted for all settings (S. Holm, 1979).
    pub p: f64,
    /// What it does.
    pub effect: TuneEffect,
    /// Whether it stays set (`--apply`).
    pub applied: bool,
    /// Why it could not be set.
    pub note: Option<Note>,
}

/// What `latlab tune` found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TuneDetail {
    /// Machine that was booted for each block, where boot parameters were tried.
    pub boot: Option<String>,
    /// Quantile of a block's wake-up latencies that is the response.
    pub quantile: f64,
    /// Rounds: one block of each setting and one without any.
    pub rounds: usize,
    /// Length of a block, ns.
    pub block_ns: u64,
    /// A change below this share counts as none.
    pub margin: f64,
    /// Settings in the order in which they were given.
    pub tried: Vec<Tried>,
}
