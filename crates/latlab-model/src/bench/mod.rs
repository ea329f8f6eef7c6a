//! Micro-benchmarks: results and what the measurement itself cost.

pub mod trial;

use crate::finding::Note;
use crate::record::Unit;
use latlab_stats::estimate::Estimate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which part of a context switch is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchPart {
    /// From the system call of one task to the return of the next.
    Whole,
    /// From the system call to `sched_switch`.
    Choose,
    /// From `sched_switch` to the return of the next task.
    Switch,
    /// `schedule()` by the tracer function_graph.
    Graph,
    /// `context_switch()`: from `sched_switch`, just before it, to the return of `finish_task_switch()`, its last
    /// call, by function_graph.
    Context,
}

/// What a benchmark run has beyond its records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Time of the control workload on this machine without interference, ns a call.
    #[serde(alias = "sentinel_ns", skip_serializing_if = "Option::is_none")]
    pub control_ns: Option<f64>,
    /// Two states of the machine, where the readings of the control workload fall into two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub states: Option<States>,
    /// Clock that the kernel reported meanwhile, Hz, where probes of the clock were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported_hz: Option<f64>,
    /// The machine at the beginning of each round of processes, thinned to some hundred.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<crate::machine::Moment>,
    /// Published machines that the figures were compared with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub against: Vec<crate::reference::Against>,
}

/// What the meter itself costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Cycles of the processor's clock an operation, where its period is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles: Option<f64>,
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
    /// Which batches the estimate is from.
    pub selection: Selection,
    /// Median with the disturbed batches, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_of_all: Option<f64>,
    /// The medians in the two states of the machine, where it has two.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<StateMedian>,
    /// Who really had the CPU during a batch of one process, by a trace; only where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alternation: Option<Alternation>,
    /// Start of each slice (ns of CLOCK_MONOTONIC) and its median, in order of time.
    pub slices: Vec<(u64, f64)>,
}

/// Which batches an estimate is from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Selection {
    /// All: none was disturbed.
    #[default]
    All,
    /// The undisturbed ones, at least half of all.
    Undisturbed,
    /// The undisturbed ones, fewer than half of all.
    FewUndisturbed,
    /// All, disturbed ones included: too few others were left.
    AllDisturbed,
}

impl Selection {
    /// Whether the row is marked: the estimate is from a minority of the batches, or from disturbed ones.
    pub fn is_marked(self) -> bool {
        matches!(self, Self::FewUndisturbed | Self::AllDisturbed)
    }
}

/// Two states of the machine: a boosted clock and its base, or a core that is shared at times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct States {
    /// Median of the control workload in the fast state, ns.
    pub fast_ns: f64,
    /// Median of the control workload in the slow state, ns.
    pub slow_ns: f64,
    /// Share of the batches in the fast state.
    pub fast_share: f64,
}

/// A median in one of two states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct StateMedian {
    /// Median of the trials' medians, in the unit of the row; `None` without batches in this state.
    pub median: Option<f64>,
    /// Batches in this state.
    pub batches: u64,
    /// Trials with batches in this state.
    pub processes: u64,
}

/// A benchmark without a result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Missing {
    /// Name of the probe.
    pub name: String,
    /// Its parameters, as text.
    pub params: BTreeMap<String, String>,
    /// Why; the message of the measuring process where it is a system's error.
    pub reason: Option<Note>,
    /// True when this machine does not have what is measured, false when the measurement failed.
    pub unavailable: bool,
}

/// `name key=value …`, as tables have it.
pub fn words(name: &str, params: &BTreeMap<String, String>) -> String {
    let params = params.iter().map(|(key, value)| [" ", key, "=", value].concat());
    std::iter::once(name.to_owned()).chain(params).collect()
}

/// `name:key=value,…`, as on the command line.
pub fn label(name: &str, params: &BTreeMap<String, String>) -> String {
    let mut label = name.to_owned();
    for (i, (key, value)) in params.iter().enumerate() {
        label.push(if i == 0 { ':' } else { ',' });
        label.push_str(&format!("{key}={value}"));
    }
    label
}

/// A thread that had the CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Ran {
    /// `measuring`, `partner`, or the thread's own name.
    pub name: String,
    /// How often it got the CPU.
    pub turns: u64,
    /// For how long in all, ns.
    pub ns: u64,
}

/// Who really had the CPU while a pair was supposed to alternate on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Alternation {
    /// Operations that were done meanwhile.
    pub operations: u64,
    /// Switches that happened.
    pub switches: u64,
    /// Those of them that went from one of the pair straight to the other.
    pub direct: u64,
    /// Events that the trace lost; the counts are then too small.
    pub lost: u64,
    /// The threads, by the time that they had.
    pub threads: Vec<Ran>,
}
