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
use crate::record::Record;

use crate::machine::Machine;
use serde::{Deserialize, Serialize};

/// The schema that this version writes. A reader accepts every smaller number.
pub const SCHEMA_VERSION: u32 = 2;

/// One invocation of a measuring command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Run {
    /// Version of this layout; see [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// UUID of this run (RFC 9562, version 4), made when it begins; empty in runs of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
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
    /// Reads `run.json`. Not generic: what reads every kind of result is large, and is compiled here, for
    /// size, once.
    ///
    /// # Errors
    /// What the JSON reader says.
    #[cfg(feature = "read")]
    pub fn from_json(bytes: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(bytes)
    }

    /// All records of all parts.
    pub fn records(&self) -> impl Iterator<Item = (&Part, &Record)> {
        self.parts.iter().flat_map(|p| p.results.iter().map(move |r| (p, r)))
    }
}

/// One experiment of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Detail {
    /// Cyclic wake-up latency. Boxed: it carries histograms.
    Wakeup(Box<crate::wakeup::result::WakeupResult>),
    /// Micro-benchmarks.
    Bench(Box<crate::bench::BenchDetail>),
    /// What a doctor looked at.
    Doctor(Box<crate::doctor::Facts>),
    /// What made tasks late. Boxed: it carries every window.
    Why(Box<crate::latency::WhyResult>),
    /// Runs compared. Boxed: it carries every metric.
    Compare(Box<crate::compare::CompareDetail>),
    /// Latency under loads over a grid. Boxed: it carries a histogram a point.
    Sweep(Box<crate::sweep::SweepDetail>),
    /// Caches and TLBs.
    Memory(Box<crate::cache::CacheDetail>),
    /// Who ran, and what theory says of it.
    Sched(Box<crate::sched::schedule::SchedDetail>),
    /// Ticks, timers and interrupts.
    Timer(Box<crate::timer::TimerDetail>),
    /// Functions of a trace, or of two. Boxed: it carries a histogram a function.
    Profile(Box<crate::profile::ProfileDetail>),
    /// Wake-ups as executed instructions. Boxed: it carries trees of calls.
    Path(Box<crate::path::PathDetail>),
    /// Sections with interrupts or preemption off as executed instructions.
    Sections(Box<crate::path::SectionsDetail>),
    /// An upper bound of the wake-up latency.
    Bound(Box<crate::path::BoundDetail>),
    /// The first kernel of a list with a longer path. Boxed: it carries trees of calls.
    Bisect(Box<crate::path::BisectDetail>),
    /// The worst wake-up that a search found.
    Worst(Box<crate::worst::WorstDetail>),
    /// Causes of a recording, repeated in a virtual machine.
    Twin(Box<crate::twin::TwinDetail>),
    /// OS noise by source. Boxed: it carries a histogram a source.
    Noise(Box<crate::noise::NoiseDetail>),
    /// Requirements with their decisions. Boxed: it carries every requirement.
    Check(Box<crate::check::CheckDetail>),
    /// Settings that were tried.
    Tune(Box<crate::tune::TuneDetail>),
    /// Something that this version does not know (written by a newer one).
    #[serde(other)]
    Unknown,
}
