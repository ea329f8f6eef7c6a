//! The causes of latency: captures, wake-ups in numbers, causes with evidence.

mod activations;
mod cause;
mod comparison;
mod execution;
mod mitigation;
mod user_stacks;
mod window;

pub use activations::{ActivationCounts, LateBy, PeriodEstimate, Release, TaskActivations};
pub use cause::{Alternative, CauseEvidence, Explanation, FunctionShare, Mechanism, RootCause};
pub use comparison::{Contrast, Difference, Row};
pub use execution::{
    ActivationWork, CountedWork, Execution, ExecutionDoubt, ExecutionKind, ExecutionShares,
    WorkCounts, WorkReading,
};
pub use mitigation::{Effect, MitigationTest, Removed, Shift, TracingOverhead};
pub use user_stacks::{LeftCpu, UserFrame, UserStacks, WaitSite, WaitSites, Waits};
pub use window::{Calls, Cause, Group, IpiSender, Kind, Others, Share, Stage, Window};

use crate::finding::Note;
use serde::{Deserialize, Serialize};

/// All that was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WhyResult {
    /// A wake-up later than this is late, ns.
    pub limit_ns: u64,
    /// How the limit was chosen.
    pub limit_reason: Option<Note>,
    /// Counters and properties of the machine during the measurement.
    #[serde(alias = "surroundings")]
    pub system_context: SystemContext,
    /// The captures that were looked at.
    pub captures: Vec<CaptureNote>,
    /// The activations of the named tasks, the explained one first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub activations: Vec<TaskActivations>,
    /// Counters of the explained task, where its activations were recorded with them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<CountedWork>,
    /// Where its activations waited, where user stacks were recorded; boards record none.
    #[cfg(feature = "read")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<WaitSites>,
    /// Every wake-up that was looked at, in numbers.
    pub windows: Vec<Window>,
    /// Causes and the late-against-on-time comparison.
    pub explanation: Explanation,
    /// For each cause a typical late wake-up beside an on-time one.
    #[serde(alias = "sketches")]
    pub examples: Vec<Pair>,
    /// Source locations of the named functions, from debug information or module files.
    pub places: Vec<FunctionPlace>,
    /// Mitigations that were measured (`--prove`).
    #[serde(alias = "proofs")]
    pub mitigation_tests: Vec<MitigationTest>,
    /// How the captures were taken; `None` for captures of files.
    #[serde(alias = "hunt")]
    pub session: Option<CaptureSession>,
}

impl WhyResult {
    /// Late wake-ups in all captures.
    pub fn late_in_captures(&self) -> u64 {
        self.captures.iter().map(|c| u64::from(c.late)).sum()
    }
}

/// How captures were taken, and the overhead of tracing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CaptureSession {
    /// Wake-ups measured while tracing was armed.
    pub wakeups: u64,
    /// Late ones among them.
    pub late: u64,
    /// Late ones that are in no capture: most came while one was being saved.
    pub late_not_captured: u64,
    /// The longest latency of all, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst_ns: Option<u64>,
    /// Time in which late wake-ups could not be captured, ns.
    pub dead_ns: u64,
    /// Duration of the capture phase, ns.
    #[serde(alias = "hunted_ns")]
    pub duration_ns: u64,
    /// The trace preset in use.
    pub traced: Option<Note>,
    /// The overhead of tracing, where it was measured.
    #[serde(alias = "observer")]
    pub tracing_overhead: Option<TracingOverhead>,
    /// Trace presets that were rejected, each with the reason.
    #[serde(alias = "steps")]
    pub rejected_presets: Vec<RejectedPreset>,
}

/// A trace preset that was not used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum RejectedPreset {
    /// The preset and the reason.
    Typed {
        /// What it traces.
        preset: Note,
        /// Why it was rejected.
        reason: Note,
    },
    /// A sentence of a run of schema version 1.
    Recorded(String),
}

/// A capture in a few numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CaptureNote {
    /// File.
    pub source: String,
    /// Kernel release, where the file says.
    pub kernel: Option<String>,
    /// Whether it is PREEMPT_RT, where the file says.
    pub preempt_rt: Option<bool>,
    /// Events.
    pub events: u64,
    /// From the first to the last event, ns.
    pub length_ns: u64,
    /// Late wake-ups in it.
    pub late: u32,
    /// On-time wake-ups in it that were looked at.
    pub on_time: u32,
    /// Wake-ups of the measured tasks in it, looked at or not.
    pub wakeups: u64,
    /// Late ones among them.
    pub late_wakeups: u64,
    /// Typical distance of two intended times of one task, ns.
    pub interval_ns: Option<u64>,
    /// Intervals with lost events.
    pub holes: u32,
    /// What was counted before it was saved, where it is of a capture session.
    pub counters: Option<CaptureCounters>,
    /// Damage and limits of the capture.
    pub notes: Vec<Note>,
}

/// Counters outside of the kernel, from one reading to the next one at which a capture was saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CaptureCounters {
    /// Number of the capture in its session, from 1, as its marker has it.
    pub capture: u32,
    /// Steal time of all CPUs, ns.
    pub steal_ns: Option<u64>,
    /// System-management interrupts of all CPUs.
    pub smi: Option<u64>,
    /// Time between the two readings, ns.
    pub between_ns: Option<u64>,
    /// Whether the control group of the measured tasks had no runtime left (`cpu.max`) at the end of each of its
    /// periods between the readings; `None` where it had some in a part of them, and where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled: Option<bool>,
}

/// How often counters outside of the kernel rose between two readings at which nothing was captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CounterReadings {
    /// Pairs of readings.
    pub intervals: u64,
    /// Those in which steal time rose.
    pub steal: u64,
    /// Those in which system-management interrupts were counted.
    pub smi: u64,
}

/// A typical late wake-up of a cause, and an on-time one of the same capture where there is one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Pair {
    /// Index of the cause.
    #[serde(alias = "cluster")]
    pub cause: usize,
    /// The late one.
    pub late: BreakdownExample,
    /// The on-time one.
    pub on_time: Option<BreakdownExample>,
}

/// The latency breakdown of one wake-up; times are relative to the intended time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BreakdownExample {
    /// Capture.
    pub source: String,
    /// Intended time, ns of the trace's clock.
    pub intended_ns: u64,
    /// CPU.
    pub cpu: u32,
    /// The parts, in order; they tile the latency.
    pub parts: Vec<Part>,
}

/// One part of a latency breakdown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Part {
    /// ns after the intended time.
    pub start_ns: u64,
    /// ns after the intended time.
    pub end_ns: u64,
    /// Stage.
    pub stage: Stage,
    /// Cause.
    pub cause: Cause,
    /// Who ran.
    pub who: String,
    /// The rest of the latency: parts beyond the drawable number, merged into one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub merged: bool,
}

impl Part {
    /// Its length, ns; 0 where a damaged run has the end before the start.
    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// Counters and properties of the machine during a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SystemContext {
    /// Hypervisor, where one was recognised.
    pub hypervisor: Option<String>,
    /// Longest declared exit latency of an enabled idle state, ns.
    pub idle_exit_ns: Option<u64>,
    /// Steal time that passed while it was measured, ns.
    pub steal_ns: Option<u64>,
    /// System-management interrupts counted meanwhile, where the counter is readable.
    pub smi: Option<u64>,
    /// How often these two rose while nothing was late.
    pub readings: Option<CounterReadings>,
    /// Declared exit latency of each idle state, ns, in the kernel's order.
    pub idle_exits_ns: Vec<u64>,
    /// Distance of the intended times of a measured task, ns: late wake-ups lie on this lattice.
    pub interval_ns: Option<u64>,
    /// The shortest wake-up that counts as late, ns.
    pub limit_ns: u64,
    /// Lowest and highest CPU frequency seen meanwhile, kHz, where it is told.
    pub khz: Option<(u64, u64)>,
    /// Share of the CPUs' nominal frequency that they ran at (APERF/MPERF), where it is readable.
    pub speed: Option<f64>,
    /// Release of the kernel that was measured, where it is known.
    pub kernel: Option<String>,
    /// Whether it is PREEMPT_RT.
    pub preempt_rt: Option<bool>,
    /// Clock sources, when the kernel changed it meanwhile: before and after.
    pub clock_source: Option<(String, String)>,
    /// Counters that are not readable on this machine, and why.
    pub missing: Vec<Note>,
}

/// What is known of a function's place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct FunctionPlace {
    /// The function as the findings name it.
    pub function: String,
    /// `drivers/usb/host/ehci-timer.c:123`. Several: so many functions have that name.
    pub lines: Vec<String>,
    /// The file of its module, in the kernel's folder of modules; empty where it is not known.
    pub module: String,
    /// The file that told the lines.
    pub source: String,
}
