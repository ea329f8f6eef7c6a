//! Caches, lines, ways and TLBs, inferred from the latency of dependent loads.
//!
//! ```text
//! Meter (a machine, or sim::Simulated) ──explore──▶ MemoryDetail ──part──▶ Part
//!                                       curves ──plateau, setmodel──▶ levels
//! ```
//!
//! `explore` decides what is measured next and infers; it knows a machine only as
//! a [`Meter`] that times one cycle of dependent loads. The simulator is such a
//! Meter too, so that the whole of it, adaptive grid included, is scored
//! against hierarchies that are known.
//!
//! Sources: R. H. Saavedra and A. J. Smith, "Measuring cache and TLB performance
//! and their effect on benchmark run times", IEEE ToC 44, 1995 (the regimes);
//! K. Yotov, K. Pingali, P. Stodghill, "Automatic measurement of memory hierarchy
//! parameters", SIGMETRICS 2005 (conflict sets); J. González-Domínguez et al.,
//! "Servet", IPDPS 2010 (random placement of pages as a binomial).

pub mod clock;
mod conflict;
pub mod curve;
pub mod declared;
pub mod explore;
pub mod findings;
pub mod from;
mod joint;
pub mod levels;
pub mod part;
pub mod pattern;
pub mod plateau;
pub mod probes;
mod quiet;
pub mod regimes;
pub mod setmodel;
pub mod sim;
pub mod switching;
mod together;

use crate::finding::Confidence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use curve::{Curve, CurvePoint, Order, Pages};

/// What times a cycle of dependent loads.
pub trait Meter {
    /// What this machine offers.
    fn limits(&self) -> Limits;

    /// Time of one load, ns, when the loads go round the `cycle` of byte offsets into an area of
    /// `pages`: warmed up, a low quantile of several batches.
    ///
    /// # Errors
    /// When the time is over, or the memory is not to be had.
    fn chase(&mut self, pages: Pages, cycle: &[u32]) -> Result<f64, MeterError>;

    /// Time of one load, ns, when the loads of several cycles are under way at once (1, 2, 4, 8 or 16).
    /// `None` where the machine knows no overlap.
    ///
    /// # Errors
    /// As [`Meter::chase`].
    fn chains(&mut self, _pages: Pages, _cycles: &[Vec<u32>]) -> Result<Option<f64>, MeterError> {
        Ok(None)
    }

    /// Tells whoever watches what is measured now.
    fn stage(&mut self, _words: &str) {}

    /// Share of the time that is over, 0 where there is no limit.
    fn over(&self) -> f64 {
        0.0
    }
}

/// What a machine offers for measuring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of an ordinary page.
    pub page_bytes: u32,
    /// Area of ordinary pages, bytes.
    pub base_bytes: u32,
    /// Area of huge pages, bytes; 0 where there are none.
    pub huge_bytes: u32,
    /// Bytes of a huge page; 0 where there are none.
    pub huge_page_bytes: u32,
}

/// Why there is no time of a cycle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MeterError {
    /// The time that was allowed is over.
    #[error("the time that was allowed is over")]
    OutOfTime,
    /// A signal asked to stop.
    #[error("stopped by a signal")]
    Stopped,
    /// The machine refuses.
    #[error("{0}")]
    Machine(String),
}

/// All that was measured and inferred.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MemoryDetail {
    /// Curves, as measured or read.
    pub curves: Vec<Curve>,
    /// Caches, from the processor outwards.
    pub levels: Vec<Level>,
    /// Bytes a second that one CPU reads from memory in order, where it was measured.
    pub memory_bytes_per_s: Option<f64>,
    /// Latency of a load from memory, ns; `None` when no array was large enough to see it.
    pub memory_ns: Option<f64>,
    /// The line, and what it was concluded from.
    pub line: Option<LineSize>,
    /// TLBs, from the processor outwards.
    pub tlbs: Vec<TlbLevel>,
    /// Time of a page walk in the largest array, over a hit in the first TLB, ns.
    pub walk_ns: Option<f64>,
    /// Loads that are under way at once: latency of one chain over that of k, per load.
    pub parallelism: Vec<Parallelism>,
    /// Loop `a[i] *= a[i]` by stride, where it was run.
    pub strides: Vec<StridePoint>,
    /// T0, D and line fitted to a family of curves by stride.
    pub regimes: Option<regimes::Regimes>,
    /// Context switches in rings of processes with working sets, where they were measured.
    pub switches: Vec<switching::SwitchPoint>,
    /// Knees of what refilling a working set costs, over processes × working set.
    pub switch_knees: Vec<switching::SwitchKnee>,
    /// What the machine says of its caches, source by source.
    pub declared: Vec<declared::Declared>,
    /// Seed of the orders.
    pub seed: u64,
    /// Largest array that was measured, bytes.
    pub largest_bytes: u64,
    /// Bytes of an ordinary page.
    pub page_bytes: u64,
    /// Why nothing can be told here (an emulated processor); everything above is then only shown.
    pub cannot_tell: Option<String>,
    /// What was left out and why.
    pub missing: Vec<String>,
}

/// One cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Level {
    /// 1, 2, 3…
    pub level: u32,
    /// Size in bytes.
    pub bytes: u64,
    /// Between these it must be.
    pub bytes_interval: (u64, u64),
    /// Largest array that stays within a tenth of the step above the plateau: what a program really gets.
    pub effective_bytes: u64,
    /// Latency of a hit, ns.
    pub ns: f64,
    /// Bytes a second that one CPU reads from here in order, where it was measured.
    pub bytes_per_s: Option<f64>,
    /// Smallest and largest value on the plateau, ns.
    pub ns_interval: (f64, f64),
    /// Ways, where they could be found.
    pub ways: Option<u32>,
    /// Where the ways come from.
    pub ways_by: String,
    /// Root mean square distance of the fitted transition from the points, share of the step.
    pub residual: Option<f64>,
    /// The law that fits the transition best.
    pub law: String,
    /// How sure the size is.
    pub grade: Grade,
}

/// How sure something is, and why not more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Grade {
    /// How sure.
    pub confidence: Confidence,
    /// What stands in the way of more.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

impl Default for Grade {
    fn default() -> Self {
        Self { confidence: Confidence::Sure, reason: String::new() }
    }
}

impl Grade {
    /// Less than sure, for a reason.
    pub fn less(confidence: Confidence, reason: impl Into<String>) -> Self {
        Self { confidence, reason: reason.into() }
    }
}

/// The line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LineSize {
    /// Bytes.
    pub bytes: u32,
    /// Distance of two loads, bytes, and the time of a load, ns.
    pub pairs: Vec<(u32, f64)>,
    /// How sure.
    pub grade: Grade,
}

/// One translation buffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TlbLevel {
    /// 1, 2…
    pub level: u32,
    /// Pages of the ordinary size that it holds.
    pub entries: u32,
    /// Between these it must be.
    pub entries_interval: (u32, u32),
    /// What a miss in it costs, ns.
    pub penalty_ns: f64,
    /// How sure.
    pub grade: Grade,
}

/// `k` independent chains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Parallelism {
    /// Chains at once.
    pub chains: u32,
    /// Time of a load, ns.
    pub ns: f64,
}

/// One stride of the loop `a[i] *= a[i]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StridePoint {
    /// Bytes from one element to the next.
    pub stride_bytes: u32,
    /// Time of one element, ns.
    pub ns: f64,
}
