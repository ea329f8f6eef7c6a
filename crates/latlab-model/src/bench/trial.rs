//! One process' share of a benchmark: what it is asked, and what it answers.

use crate::finding::Note;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a measuring process is asked to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SliceSpec {
    /// Name of the probe.
    pub probe: String,
    /// Its parameters.
    pub params: BTreeMap<String, String>,
    /// Operations in a batch; `None`: find out.
    pub batch: Option<u64>,
    /// Length of a batch to aim at when finding out, ns.
    pub batch_ns: u64,
    /// Batches to measure.
    pub batches: u32,
    /// Stop after this time even with fewer batches (but at least one), ns.
    pub limit_ns: u64,
    /// Time of the control workload up to which there is no interference, ns; a batch waits for such a moment for a
    /// while. `None`: not known yet.
    #[serde(default)]
    pub control_limit_ns: Option<f64>,
    /// CPU to run on; `None`: wherever the scheduler likes.
    pub cpu: Option<u32>,
    /// Directory for files, made and removed by whoever asks.
    pub dir: String,
    /// Whether to look, after the batches, who really had the CPU.
    #[serde(default)]
    pub watch: bool,
    /// Operations that are timed one by one, in place of batches; 0: none.
    #[serde(default)]
    pub each: u64,
    /// Address and port of the server at the other end, where that is another machine.
    #[serde(default)]
    pub peer: Option<String>,
    /// Whether others measure the same on other CPUs, and begin at the same time.
    #[serde(default)]
    pub together: bool,
}

/// What it answers, as one line of JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SliceReply {
    /// It was measured.
    Measured(Box<Slice>),
    /// This machine does not have it (no such system call, no permission, no second CPU).
    Unavailable {
        /// What is missing.
        reason: Note,
    },
    /// It went wrong.
    Failed {
        /// What went wrong.
        reason: Note,
    },
}

/// What one process measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Slice {
    /// Operations in a batch.
    pub batch: u64,
    /// One value a batch, in the probe's unit, overhead taken off.
    pub values: Vec<f64>,
    /// ns an operation before the overhead was taken off; empty where none is measured.
    pub raw_ns: Vec<f64>,
    /// ns an operation of overhead, measured beside each batch; empty where none is measured.
    pub overhead_ns: Vec<f64>,
    /// Time of the control workload beside each batch (the slower of before and after), ns a call.
    pub control_ns: Vec<f64>,
    /// Context switches per operation, all participants, over all batches.
    pub switches: Option<f64>,
    /// Context switches that one operation should have.
    pub switches_expected: Option<f64>,
    /// Batches thrown away because they had the wrong number of switches.
    pub rejected: u64,
    /// Batches during which this process was preempted.
    pub preempted: u64,
    /// Start, ns of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Length, ns.
    pub length_ns: u64,
    /// Steal time of this CPU during the slice, ns.
    pub steal_ns: Option<u64>,
    /// Interrupts on this machine during the slice.
    pub interrupts: Option<u64>,
    /// Minor faults during the batches.
    pub minor_faults: u64,
    /// Major faults during the batches.
    pub major_faults: u64,
    /// Involuntary switches during the batches.
    pub involuntary: u64,
    /// Voluntary switches during the batches.
    pub voluntary: u64,
    /// Frequency in kHz at start and end, where readable.
    pub khz: Option<(u64, u64)>,
    /// Smallest clock step seen, ns.
    pub step_ns: f64,
    /// Cost of one clock read, ns.
    pub read_ns: f64,
    /// Cost of one turn of the empty timing loop, ns.
    pub loop_ns: f64,
    /// Who really had the CPU during one more batch, where a trace could be had.
    pub alternation: Option<crate::bench::Alternation>,
    /// Times of single operations, both clock readings included, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub each: Option<latlab_stats::histogram::Histogram>,
    /// Smallest and largest of consecutive ones, in intervals as [`crate::record::Sequence`] has them, ns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extremes: Vec<(u64, u64)>,
    /// Limits of these values.
    pub notes: Vec<Note>,
}
