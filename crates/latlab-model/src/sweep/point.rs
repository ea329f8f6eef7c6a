//! One measured point of a sweep.

use super::axis::Value;
use crate::finding::Note;
use latlab_stats::histogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a point lies: axis → value.
pub type Place = BTreeMap<String, Value>;

/// One measured point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Point {
    /// Number of its job in the plan.
    pub job: usize,
    /// Where it lies; empty for an anchor.
    pub place: Place,
    /// The loads, as `latlab load` takes them.
    pub load: Vec<String>,
    /// Whether it was added round a knee.
    pub refined: bool,
    /// Start, ns of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Length, ns.
    pub length_ns: u64,
    /// Latencies of all wake-ups and missed periods, ns.
    pub latency: Histogram,
    /// Periods without a wake-up of their own, because the task was later than its next period.
    pub missed: u64,
    /// Steal time meanwhile, ns, where readable.
    pub steal_ns: Option<u64>,
    /// Why it is excluded (the load ended early).
    pub failed: Option<Note>,
    /// The first cause that `latlab why` found under this load, or why it found none.
    pub why: Option<Note>,
}

impl Point {
    /// Whether it is one without load.
    pub fn is_anchor(&self) -> bool {
        self.place.is_empty()
    }

    /// Whether it counts.
    pub fn is_good(&self) -> bool {
        self.failed.is_none() && self.latency.count > 0
    }
}
