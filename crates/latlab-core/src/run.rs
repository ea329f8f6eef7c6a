//! The run: what a measuring command leaves behind in `run.json`.
//!
//! ```text
//! Run ── machine, command line, configuration, complete?
//!  └─ Part*      one experiment (a survey has several)
//!      ├─ Record*   a name, parameters, a unit, a histogram or samples, a summary
//!      ├─ Finding*  conclusions with evidence
//!      └─ Detail    what only this kind of experiment has
//! ```
//!
//! Records are what all experiments have in common: `compare`, `history` and
//! exports read nothing else. Unknown fields are ignored and missing ones have
//! defaults, so that older and newer runs, and runs cut short, can be read.

use crate::finding::Finding;
use crate::histogram::{Histogram, Summary};
use crate::machine::Machine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The schema that this version writes. A reader accepts every smaller number.
pub const SCHEMA_VERSION: u32 = 1;

/// One invocation of a measuring command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Version of this layout; see [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Version of the latlab that wrote it.
    #[serde(default)]
    pub latlab_version: String,
    /// The command, as typed.
    #[serde(default)]
    pub command_line: Vec<String>,
    /// The resolved configuration: what the options and defaults came to.
    #[serde(default)]
    pub config: serde_json::Value,
    /// UTC, RFC 3339.
    #[serde(default)]
    pub started: String,
    /// UTC, RFC 3339.
    #[serde(default)]
    pub ended: Option<String>,
    /// False when it was cut short; what was measured until then is here.
    #[serde(default)]
    pub complete: bool,
    /// What cut it short (`SIGINT`, `no space left`, `break value exceeded`…).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
    /// Where it was measured.
    #[serde(default)]
    pub machine: Machine,
    /// What was measured.
    #[serde(default)]
    pub parts: Vec<Part>,
}

impl Run {
    /// All records of all parts.
    pub fn records(&self) -> impl Iterator<Item = (&Part, &Record)> {
        self.parts.iter().flat_map(|p| p.results.iter().map(move |r| (p, r)))
    }
}

/// One experiment of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// Stable name (`wakeup`, `wakeup-loaded`, `bench`).
    pub name: String,
    /// For people.
    #[serde(default)]
    pub title: String,
    /// False when this part was cut short.
    #[serde(default)]
    pub complete: bool,
    /// Duration of the measurement in ns.
    #[serde(default)]
    pub duration_ns: u64,
    /// What was measured.
    #[serde(default)]
    pub results: Vec<Record>,
    /// What follows from it.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// What only this kind of experiment has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
}

/// The extras of each kind of experiment. One variant a command; each names a type in that command's room.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Detail {
    /// Cyclic wake-up latency. Boxed: it carries histograms.
    Wakeup(Box<crate::wakeup::WakeupResult>),
    /// Micro-benchmarks.
    Bench(Box<crate::bench::BenchDetail>),
    /// What a doctor looked at.
    Doctor(Box<crate::doctor::Facts>),
    /// What made tasks late. Boxed: it carries every window.
    Why(Box<crate::explain::result::WhyResult>),
    /// Runs compared. Boxed: it carries every metric.
    Compare(Box<crate::compare::CompareDetail>),
    /// Latency under loads over a grid. Boxed: it carries a histogram a point.
    Sweep(Box<crate::sweep::SweepDetail>),
    /// Caches and TLBs.
    Memory(Box<crate::memory::MemoryDetail>),
    /// Who ran, and what theory says of it.
    Sched(Box<crate::sched::SchedDetail>),
    /// Ticks, timers and interrupts.
    Timer(Box<crate::timer::TimerDetail>),
    /// Something that this version does not know (written by a newer one).
    #[serde(other)]
    Unknown,
}

/// A parameter of a measurement.
#[derive(Clone, Debug, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Param {
    /// A count, size or priority.
    Int(i64),
    /// Anything with a fraction.
    Float(f64),
    /// A word.
    Text(String),
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
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
}

impl Unit {
    /// Whether a larger figure is the better one.
    pub fn larger_is_better(self) -> bool {
        matches!(self, Self::BytesPerSecond | Self::PerSecond | Self::Hz)
    }
}

/// One measured quantity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// The figures to quote.
    #[serde(default)]
    pub summary: Summary,
    /// What else was going on while it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// Anything a reader must know of this figure, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What else was going on while a record was measured. `None`: could not be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
