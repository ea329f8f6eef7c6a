//! Runs as rows, and their development over time.

use crate::record::Unit;
use serde::{Deserialize, Serialize};

/// A run as a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    /// Number made from the run's UUID (in runs of earlier versions from host, start and command): the
    /// same run has the same number in every store.
    pub id: i64,
    /// Where its directory is.
    pub path: String,
    /// UTC, RFC 3339.
    pub started: String,
    /// Host.
    pub host: String,
    /// Board, or processor where there is none.
    pub board: String,
    /// Serial number of the unit; empty where there is none.
    pub unit: String,
    /// Kernel release.
    pub kernel: String,
    /// Architecture.
    pub arch: String,
    /// Command line.
    pub command: String,
    /// Whether it was not cut short.
    pub complete: bool,
}

/// A record as a row. `None`: not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResultRow {
    /// Part of the run.
    pub part: String,
    /// Name of the record.
    pub name: String,
    /// Parameters, `key=value,…` in order of keys.
    pub params: String,
    /// Unit (`ns`, `bytes_per_second`…).
    pub unit: String,
    /// Number of samples.
    pub count: i64,
    /// Smallest.
    pub min: Option<f64>,
    /// Median.
    pub median: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
}

/// One value of a series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Value {
    /// When, UTC, RFC 3339.
    pub started: String,
    /// Under which kernel.
    pub kernel: String,
    /// The run's directory.
    pub path: String,
    /// The figure.
    pub value: f64,
}

/// A change of level.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Change {
    /// Index of the first value at the new level.
    pub at: usize,
    /// Level before.
    pub before: f64,
    /// Level after.
    pub after: f64,
    /// Whether it became worse.
    pub worse: bool,
    /// Start of the first run at the new level, UTC, RFC 3339.
    pub since: String,
    /// Kernel of that run.
    pub kernel: String,
    /// Whether the run before had another kernel.
    pub kernel_changed: bool,
}

/// A series and its changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Trend {
    /// Name and parameters.
    pub label: String,
    /// Which statistic (`median`, `p99`, `p999`, `max`, `min`).
    #[serde(alias = "figure")]
    pub statistic: String,
    /// Unit of the values.
    pub unit: Unit,
    /// The values, in order of time.
    pub values: Vec<Value>,
    /// Where the level changed.
    pub changes: Vec<Change>,
}
