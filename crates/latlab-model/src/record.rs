//! Records: what all experiments have in common. A name, parameters, a unit, and the values.

use crate::finding::Note;
use latlab_stats::histogram::{Histogram, Summary};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A parameter of a measurement.
#[derive(Clone, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Param {
    /// A count, size or priority.
    Int(i64),
    /// Anything with a fraction.
    Float(f64),
    /// A word.
    Text(String),
}

impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(i) => i.fmt(f),
            Self::Float(x) => x.fmt(f),
            Self::Text(t) => f.write_str(t),
        }
    }
}

impl From<i64> for Param {
    fn from(v: i64) -> Self {
        Self::Int(v)
    }
}

impl From<&str> for Param {
    fn from(v: &str) -> Self {
        Self::Text(v.to_owned())
    }
}

impl From<String> for Param {
    fn from(v: String) -> Self {
        Self::Text(v)
    }
}

/// What a figure counts. The unit of every number in a [`Record`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds.
    #[default]
    Ns,
    /// Bytes a second.
    BytesPerSecond,
    /// Events a second.
    PerSecond,
    /// A bare number.
    Count,
    /// A share, 0 to 1.
    Ratio,
    /// Hertz.
    Hz,
    /// Bytes.
    Bytes,
    /// Watts.
    Watt,
}

impl Unit {
    /// Whether a larger figure is the better one.
    pub fn larger_is_better(self) -> bool {
        matches!(self, Self::BytesPerSecond | Self::PerSecond | Self::Hz)
    }
}

/// One measured quantity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Record {
    /// What was measured (`wakeup.user`, `syscall.getppid`), stable across versions.
    pub name: String,
    /// Under which parameters; together with the name they identify the record.
    #[serde(default)]
    pub params: BTreeMap<String, Param>,
    /// Unit of every number below.
    #[serde(default)]
    pub unit: Unit,
    /// The distribution, where every sample was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Histogram>,
    /// The samples themselves (batch values of a benchmark), where they are few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<f64>,
    /// The values in order, where they were counted one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<Sequence>,
    /// The figures to quote.
    #[serde(default)]
    pub summary: Summary,
    /// What else was going on while it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// Limits of these values; sentences in runs of schema version 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

/// Values in the order of their measurement: the extremes of consecutive ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Sequence {
    /// Values of an interval; the last may have fewer.
    pub width: u64,
    /// Smallest and largest value of each interval.
    pub extremes: Vec<(u64, u64)>,
}

impl Sequence {
    /// Intervals of a sequence, at most.
    pub const INTERVALS: u64 = 500;

    /// Values of an interval where `values` are expected.
    pub fn width_of(values: u64) -> u64 {
        values.div_ceil(Self::INTERVALS).max(1)
    }
}

/// What else was going on while a record was measured. `None`: could not be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Window {
    /// Start, ns of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Length in ns.
    pub length_ns: u64,
    /// Steal time of the CPUs concerned, ns (resolution: a clock tick).
    pub steal_ns: Option<u64>,
    /// Interrupts taken by the CPUs concerned.
    pub interrupts: Option<u64>,
    /// Migrations of the measuring thread.
    pub migrations: Option<u64>,
    /// Major page faults of the measuring thread.
    pub major_faults: Option<u64>,
    /// Minor page faults of the measuring thread.
    pub minor_faults: Option<u64>,
    /// Involuntary context switches of the measuring thread.
    pub involuntary_switches: Option<u64>,
    /// Voluntary context switches of the measuring thread.
    pub voluntary_switches: Option<u64>,
    /// Frequency of the CPU at start and end in kHz, where readable.
    pub khz: Option<(u64, u64)>,
}
