//! What a task did while its own code took longer: counters of instructions, cycles, cache misses and page faults.

use serde::{Deserialize, Serialize};

/// Counters of one thread: since they began to count, or of one activation. Those of the processor count only
/// while the thread has a CPU, interrupts that it takes meanwhile included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WorkCounts {
    /// Time with a CPU, ns.
    pub time_ns: u64,
    /// Of it the time in which the counters counted, ns: less where others use them too.
    pub counted_ns: u64,
    /// Instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<u64>,
    /// Instructions in user mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_instructions: Option<u64>,
    /// Cycles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles: Option<u64>,
    /// Cycles of a clock whose frequency is fixed, while the CPU is not halted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_cycles: Option<u64>,
    /// Misses of the last cache that the processor counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_misses: Option<u64>,
    /// Page faults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_faults: Option<u64>,
}

impl WorkCounts {
    /// What was counted since `before`; `None` where a counter went back, or is missing in one of them.
    pub fn since(&self, before: &Self) -> Option<Self> {
        let of = |now: Option<u64>, then: Option<u64>| match (now, then) {
            (Some(now), Some(then)) => now.checked_sub(then).map(Some),
            (None, None) => Some(None),
            _ => None,
        };
        Some(Self {
            time_ns: self.time_ns.checked_sub(before.time_ns)?,
            counted_ns: self.counted_ns.checked_sub(before.counted_ns)?,
            instructions: of(self.instructions, before.instructions)?,
            user_instructions: of(self.user_instructions, before.user_instructions)?,
            cycles: of(self.cycles, before.cycles)?,
            reference_cycles: of(self.reference_cycles, before.reference_cycles)?,
            cache_misses: of(self.cache_misses, before.cache_misses)?,
            page_faults: of(self.page_faults, before.page_faults)?,
        })
    }
}

/// The counters of a thread when it left its CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkReading {
    /// When, ns of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Since the counters began.
    pub counts: WorkCounts,
}

/// An activation with its counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ActivationWork {
    /// Intended time, ns of the trace's clock.
    pub intended_ns: u64,
    /// From the intended time to the first switch to the task, ns.
    pub start_ns: u64,
    /// From the intended time to the end, ns.
    pub response_ns: u64,
    /// What was counted in it.
    pub counts: WorkCounts,
}

/// The counters of the explained task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CountedWork {
    /// The thread.
    pub tid: i32,
    /// The slowest activations, and a part of the others at equal distances, in order of time.
    pub activations: Vec<ActivationWork>,
    /// Activations to which counters could be assigned.
    pub counted: u64,
    /// Activations to which none could be assigned: a reading is missing, or its time is not that of the trace.
    pub not_counted: u64,
    /// Why the kernel lets no counter of a thread be opened, where that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Why an execution took longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ExecutionKind {
    /// More instructions of the task's own code.
    MoreWork,
    /// More instructions in the kernel, for page faults.
    PageFaults,
    /// More instructions in the kernel, without page faults: system calls or interrupts.
    KernelWork,
    /// Fewer cycles per second at the same number of instructions and cycles per instruction.
    SlowerClock,
    /// The CPU executed nothing for a part of the time: hypervisor or firmware.
    NotExecuted,
    /// More cycles per instruction, with more cache misses.
    CacheMisses,
    /// Several of these, none of which is most of it.
    Mixed,
    /// The counters do not decide it.
    Inconclusive,
}

/// Why the counters do not decide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ExecutionDoubt {
    /// The machine has no counter of instructions and cycles.
    NoCounters,
    /// It has no counter of instructions, and cycles grew.
    NoInstructions,
    /// It has no counter of cycles, and instructions did not grow in proportion.
    NoCycles,
    /// Each instruction took more cycles, and cache misses are not counted.
    NoCacheMisses,
    /// Each instruction took more cycles, without more cache misses.
    OtherStalls,
    /// Fewer cycles per second without a counter of reference cycles, and no change of the frequency was seen: a slower
    /// clock, or a CPU that a hypervisor or the firmware had.
    ClockOrStopped,
    /// Too few activations have counters.
    TooFew,
    /// What differs in late activations differs in others as well.
    NotSeparated,
}

/// What the counters say of an execution that took longer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Execution {
    /// The reason.
    pub kind: ExecutionKind,
    /// Why it is not decided, where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<ExecutionDoubt>,
    /// Shares of the additional time: more instructions, more cycles per instruction, fewer cycles per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<ExecutionShares>,
    /// Medians of the late activations.
    pub late: WorkCounts,
    /// Medians of the others.
    pub on_time: WorkCounts,
    /// Late activations with counters.
    pub late_counted: usize,
    /// Others with counters.
    pub on_time_counted: usize,
}

/// Shares of the additional time, which add up to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExecutionShares {
    /// More instructions.
    pub instructions: f64,
    /// More cycles per instruction.
    pub cycles_per_instruction: f64,
    /// Fewer cycles per second.
    pub clock: f64,
}

impl ExecutionKind {
    /// Stable identifier.
    pub fn id(self) -> &'static str {
        match self {
            Self::MoreWork => "more-work",
            Self::PageFaults => "page-faults",
            Self::KernelWork => "kernel-work",
            Self::SlowerClock => "slower-clock",
            Self::NotExecuted => "not-executed",
            Self::CacheMisses => "cache-misses",
            Self::Mixed => "mixed",
            Self::Inconclusive => "inconclusive",
        }
    }
}

impl ExecutionDoubt {
    /// Stable identifier.
    pub fn id(self) -> &'static str {
        match self {
            Self::NoCounters => "no-counters",
            Self::NoInstructions => "no-instructions",
            Self::NoCycles => "no-cycles",
            Self::NoCacheMisses => "no-cache-misses",
            Self::OtherStalls => "other-stalls",
            Self::ClockOrStopped => "clock-or-stopped",
            Self::TooFew => "too-few",
            Self::NotSeparated => "not-separated",
        }
    }
}
