//! Wake-ups as executed instructions: which kernel functions ran between a timer's expiry and the
//! clock reading in user space, and sections with interrupts or preemption off.

use latlab_stats::histogram::Histogram;
use serde::{Deserialize, Serialize};

/// What `latlab vm path` measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PathDetail {
    /// The machine, and the one it is compared with.
    pub machines: Vec<MachinePaths>,
    /// Functions whose instructions on the median path differ between both, largest difference first.
    pub changes: Vec<FunctionChange>,
}

/// The wake-ups of one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MachinePaths {
    /// As the user named it: machine or kernel.
    pub name: String,
    /// Release of its kernel.
    pub release: String,
    /// Virtual time of one instruction, ns.
    pub insn_ns: u64,
    /// Wake-ups that were counted.
    pub wakeups: u64,
    /// Wake-ups whose path was not kept, for want of room.
    pub dropped: u64,
    /// Different paths.
    pub different_paths: u64,
    /// The most frequent paths, most frequent first.
    pub paths: Vec<PathCount>,
    /// Latency less instructions of wake-ups from idle, ns: smallest, median, largest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remainder_ns: Option<[i64; 3]>,
    /// The wake-up in the middle by instructions.
    pub median: WakePath,
    /// The wake-up of the largest latency.
    pub worst: WakePath,
}

/// How often one path was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PathCount {
    /// Its instructions.
    pub instructions: u64,
    /// Wake-ups that took it.
    pub count: u64,
}

/// One wake-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WakePath {
    /// Measured latency, ns.
    pub latency_ns: u64,
    /// Executed instructions from the expiry, or from the end of idle, to the clock reading.
    pub instructions: u64,
    /// Whether the CPU was idle at the expiry.
    pub idle: bool,
    /// Calls, a caller before its callees, equal calls of one caller added up.
    pub tree: Vec<Call>,
}

/// A function below its callers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Call {
    /// Name, with the module in brackets.
    pub name: String,
    /// Callers above it.
    pub depth: u32,
    /// Times that it was entered.
    pub calls: u64,
    /// Instructions of its own.
    pub own: u64,
    /// The same with those of its callees.
    pub total: u64,
}

/// The difference of a function between two median paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct FunctionChange {
    /// The function.
    pub name: String,
    /// The caller below which it differs most; empty where it has none.
    pub caller: String,
    /// Own instructions before and after.
    pub own: [u64; 2],
    /// Calls before and after.
    pub calls: [u64; 2],
}

impl FunctionChange {
    /// Instructions that were added; negative: removed.
    pub fn added(&self) -> i64 {
        self.own[1] as i64 - self.own[0] as i64
    }
}

/// What `latlab vm sections` measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SectionsDetail {
    /// Machine as the user named it.
    pub machine: String,
    /// Release of its kernel.
    pub release: String,
    /// Instructions executed while sections were counted.
    pub instructions: u64,
    /// Times that user code was seen, when preemption cannot be off, and of those how often it seemed to be.
    pub user_checks: u64,
    /// See [`Self::user_checks`].
    pub user_wrong: u64,
    /// Sections with interrupts off, and with preemption off.
    pub kinds: Vec<SectionKind>,
}

/// The sections of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SectionKind {
    /// `irqs-off` or `preempt-off`.
    pub kind: String,
    /// Sections.
    pub count: u64,
    /// Instructions in them.
    pub instructions: u64,
    /// Sections that are counted but in no pair of places, for want of room.
    pub dropped: u64,
    /// Lengths in instructions, to an eighth of a power of two.
    pub lengths: Histogram,
    /// The longest one of each pair of places, longest first.
    pub longest: Vec<Section>,
}

/// Sections that begin and end at the same two places.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Section {
    /// Function in which it begins.
    pub begins: String,
    /// Function in which it ends.
    pub ends: String,
    /// Instructions of the longest one.
    pub longest: u64,
    /// Such sections.
    pub count: u64,
    /// Instructions of all of them.
    pub sum: u64,
    /// Calls of the longest one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tree: Vec<Call>,
}

/// What `latlab vm bound` found: an upper bound of the latency of the thread of highest priority, in instructions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BoundDetail {
    /// Machine as the user named it.
    pub machine: String,
    /// Release of its kernel.
    pub release: String,
    /// Virtual time of one instruction, ns.
    pub insn_ns: u64,
    /// Wake-ups whose latency was measured meanwhile.
    pub wakeups: u64,
    /// Instructions executed while the components were measured.
    pub instructions: u64,
    /// Times that user code was seen, when the scheduler cannot be postponed, and of those how often it seemed to be.
    pub user_checks: u64,
    /// See [`Self::user_checks`].
    pub user_wrong: u64,
    /// The longest interval of each kind, without the time of interrupts.
    pub components: Vec<BoundComponent>,
    /// Interrupts by their source.
    pub interrupts: Vec<BoundInterrupt>,
    /// The bound; `None`: interrupts take all of any time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<u64>,
    /// The bound if each interrupt always comes at its least distance and takes its longest time; `None`: interrupts
    /// take all of any time then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_sporadic: Option<u64>,
    /// Largest latency of the measured wake-ups, ns.
    pub observed_ns: u64,
    /// Response times of a set of tasks, highest priority first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskResponse>,
}

/// One kind of interval of the model.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BoundKind {
    /// Preemption or interrupts off by a thread, which postpones the scheduler (D_POID).
    #[default]
    Postponed,
    /// Interrupts off in the scheduler before the switch, until preemption is on again (D_ST).
    Switch,
    /// Preemption and interrupts on although the scheduler is to run, until it is entered (D_PAIE).
    Pending,
    /// Preemption off to schedule (D_PSD).
    Scheduler,
    /// From the end of the scheduler to the clock reading in user space.
    ReturnToUser,
    /// From the intended time to the timer's interrupt: steps of the counter and of what is programmed.
    Timer,
}

/// The longest interval of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BoundComponent {
    /// Its kind.
    pub kind: BoundKind,
    /// Instructions of the longest one.
    pub longest: u64,
    /// Intervals of the kind.
    pub count: u64,
    /// Function in which the longest one begins.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub begins: String,
    /// Function in which it ends.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ends: String,
}

/// Interrupts of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BoundInterrupt {
    /// The interrupt controller's number (ARM) or the vector (x86), where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// Its name in `/proc/interrupts`, or the function that handles it; of earlier versions `timer` or `other`.
    pub source: String,
    /// Interrupts.
    pub count: u64,
    /// Instructions of the longest one.
    pub longest: u64,
    /// Least instructions from the beginning of one to that of the next, between which the CPU did not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_distance: Option<u64>,
    /// Most instructions in any interval as long as the bound.
    pub in_bound: u64,
}

/// The response time of a task with the bound's scheduling latency.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TaskResponse {
    /// Execution time, ns.
    pub execution_ns: u64,
    /// Period, and deadline, ns.
    pub period_ns: u64,
    /// Largest response time, ns; `None`: longer than the period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_ns: Option<u64>,
}

/// What `latlab vm bisect` found: which of an ordered list of kernels is the first with a longer median path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BisectDetail {
    /// Machine as the user named it.
    pub machine: String,
    /// The function whose own instructions on the median path decide; `None`: all instructions of the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Most per cent that a kernel may need more than the first one; `None`: those nearer to the last one than to the
    /// first are bad.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_percent: Option<f64>,
    /// Kernels in the list.
    pub total: usize,
    /// Those that were tried, in the order of the list.
    pub candidates: Vec<Candidate>,
    /// Positions of the last good and of the first bad one.
    pub found: [usize; 2],
    /// The last good and the first bad one, and the functions that differ.
    pub paths: PathDetail,
}

/// One kernel of the list that was tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Candidate {
    /// Position in the list, from 0.
    pub position: usize,
    /// The how-manieth of those that were tried, from 1.
    pub step: usize,
    /// File, package, or abbreviated commit.
    pub name: String,
    /// First line of the commit's message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subject: String,
    /// Release of the kernel.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub release: String,
    /// What was found.
    pub outcome: CandidateOutcome,
}

/// What a try of a kernel found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CandidateOutcome {
    /// It was measured.
    Measured {
        /// Instructions of the median path.
        instructions: u64,
        /// Those that decide: of the path, or of the function.
        deciding: u64,
        /// Whether it is on the side of the last one.
        bad: bool,
    },
    /// It could not be built or did not run, and says nothing.
    Skipped {
        /// Why.
        reason: String,
    },
}

impl Default for CandidateOutcome {
    fn default() -> Self {
        Self::Skipped { reason: String::new() }
    }
}
