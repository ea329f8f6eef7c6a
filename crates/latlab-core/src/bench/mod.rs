//! Micro-benchmarks as data: what a slice measured, what follows from many slices.
//!
//! ```text
//! SliceSpec ──(a fresh process)──▶ Slice ─┐
//! SliceSpec ──(a fresh process)──▶ Slice ─┼─▶ Estimate ─▶ verdicts
//! SliceSpec ──(a fresh process)──▶ Slice ─┘
//! ```
//!
//! A slice is one process that times a handful of batches of one probe. The
//! processes of all probes are interleaved in random order, so that whatever
//! disturbs the machine for a while disturbs all of them a little.

pub mod estimate;
pub mod kernel;
pub mod sentinel;
pub mod slice;
pub mod summary;
pub mod verdict;

use crate::run::Unit;
use estimate::Estimate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a benchmark run has beyond its records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BenchDetail {
    /// One row a measured figure, in the order of the record of the same index.
    pub rows: Vec<BenchRow>,
    /// What could not be measured, and why.
    pub missing: Vec<Missing>,
    /// The target: half the 95% interval, as a share of the median.
    pub target: f64,
    /// Time that was allowed, ns.
    pub budget_ns: u64,
    /// Seed of the order of the slices.
    pub seed: u64,
    /// The clock that timed the batches.
    pub meter: Meter,
    /// What the sentinel takes on this machine when nothing disturbs it, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sentinel_ns: Option<f64>,
    /// Published machines that the figures were compared with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub against: Vec<crate::reference::Against>,
}

/// What the meter itself costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Meter {
    /// Smallest step of CLOCK_MONOTONIC that was seen, ns.
    pub step_ns: f64,
    /// Median cost of one read of it, ns.
    pub read_ns: f64,
    /// Cost of one turn of an empty timing loop, ns.
    pub loop_ns: f64,
}

/// One measured figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BenchRow {
    /// Name of the probe.
    pub name: String,
    /// Its parameters, as text.
    pub params: BTreeMap<String, String>,
    /// Unit of the estimate.
    pub unit: Unit,
    /// What is counted, in words.
    pub what: String,
    /// The figure, its interval and its spread.
    pub estimate: Estimate,
    /// Whether the interval came within the target before the time was over.
    pub target_met: bool,
    /// Operations in a batch.
    pub batch: u64,
    /// Median before the overhead was taken off, ns an operation; only where one was measured.
    pub raw_ns: Option<f64>,
    /// Median of the overhead, ns an operation; measured beside each batch.
    pub overhead_ns: Option<f64>,
    /// Context switches that really happened, per operation.
    pub switches: Option<f64>,
    /// Context switches that one operation should have.
    pub switches_expected: Option<f64>,
    /// Batches thrown away by rule (wrong number of switches).
    pub rejected: u64,
    /// Batches in which the measuring process was preempted; kept.
    pub preempted: u64,
    /// Batches during which the sentinel says that something else slowed the machine.
    pub disturbed: u64,
    /// Median with the disturbed batches, where they were left out of the figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_of_all: Option<f64>,
    /// Who really had the CPU during a batch of one process, by a trace; only where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alternation: Option<kernel::Alternation>,
    /// Start of each slice (ns of CLOCK_MONOTONIC) and its median, in order of time.
    pub slices: Vec<(u64, f64)>,
}

/// A figure that there is not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Missing {
    /// Name of the probe.
    pub name: String,
    /// Its parameters, as text.
    pub params: BTreeMap<String, String>,
    /// Why.
    pub reason: String,
    /// True when this machine does not have what is measured, false when the measurement failed.
    pub unavailable: bool,
}

/// `name key=value …`, as people write it.
pub fn label(name: &str, params: &BTreeMap<String, String>) -> String {
    let mut label = name.to_owned();
    for (i, (key, value)) in params.iter().enumerate() {
        label.push(if i == 0 { ':' } else { ',' });
        label.push_str(&format!("{key}={value}"));
    }
    label
}

/// A figure for a sentence.
pub(crate) fn figure(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Ns => crate::units::format_ns(value),
        Unit::BytesPerSecond => format!("{:.2} GB/s", value / 1e9),
        Unit::Hz => format!("{:.0} MHz", value / 1e6),
        _ => format!("{value:.4}"),
    }
}
