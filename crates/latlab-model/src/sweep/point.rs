//! One measured point of a sweep.

use super::axis::Value;
use crate::finding::Note;
use latlab_stats::histogram::{Histogram, Summary};
use latlab_stats::stretches;
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
    /// Its figures, with intervals that contain the clustering of late wake-ups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
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

    /// Its figures; without those of the measurement, late wake-ups are taken for clusters of four.
    pub fn figures(&self) -> Summary {
        let assumed = || stretches::summary(&self.latency, &|_| None);
        self.summary.clone().unwrap_or_else(assumed)
    }

    /// Whether it counts.
    pub fn is_good(&self) -> bool {
        self.failed.is_none() && self.latency.count > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_point_is_for_clustered_wake_ups() {
        let latency = Histogram::of((0..60_000u64).map(|i| 15_000 + i * 7_919 % 60_000));
        let point = Point { latency, ..Point::default() };
        let width = |s: &Summary| s.quantile(0.99).map(|q| q.high - q.low).unwrap();
        let (assumed, independent) = (width(&point.figures()), width(&point.latency.summary()));
        assert!((2.0..3.5).contains(&(assumed / independent)), "{assumed} {independent}");
        let summary = point.latency.summary();
        let measured = Point { summary: Some(summary.clone()), ..point };
        assert_eq!(measured.figures(), summary);
    }
}
