//! Functions of a trace: how often they were called, how long they took, by whom they were called.

use latlab_stats::histogram::Histogram;
use serde::{Deserialize, Serialize};

/// What a profile is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Calls with their lengths (tracer `function_graph`).
    #[default]
    FunctionGraph,
    /// Kernel stacks of events: a function's count is that of stacks that contain it.
    Stacks,
    /// Calls without lengths (tracer `function`).
    Function,
}

/// A calling function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Caller {
    /// Its name; empty where the call has no recorded caller.
    pub name: String,
    /// Calls, or stacks.
    pub count: u64,
    /// Time of these calls, ns, without time off the CPU; 0 where calls have no lengths.
    pub total_ns: u64,
}

/// One function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct FunctionProfile {
    /// Its name.
    pub name: String,
    /// Calls that were recorded from beginning to end, calls, or stacks that contain it.
    pub count: u64,
    /// Stacks whose innermost function it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub innermost: Option<u64>,
    /// Time of the calls without time off the CPU, ns; of recursive calls the outermost only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_ns: Option<u64>,
    /// The same without that of recorded functions which it called, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_ns: Option<u64>,
    /// Time within calls in which its task was off the CPU, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub off_cpu_ns: Option<u64>,
    /// Length of each call without time off the CPU, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Histogram>,
    /// Callers, most frequent first.
    pub callers: Vec<Caller>,
}

/// A function of a chain of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Length of the call without time off the CPU, ns.
    pub length_ns: u64,
}

/// A long call, with the calls in which nine tenths of its time passed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LongCall {
    /// The call, then the call in it that has its time, and so on.
    pub chain: Vec<Link>,
    /// Time of the innermost of the chain without recorded functions that it called, ns.
    pub self_ns: u64,
    /// The longest call in the innermost of the chain.
    pub longest_callee: Option<Link>,
    /// Time off the CPU within the call, ns.
    pub off_cpu_ns: u64,
    /// Its beginning, ns of the trace's clock.
    pub start_ns: u64,
    /// Its CPU.
    pub cpu: u32,
    /// Its thread id.
    pub tid: i32,
    /// Name of the task, where it is known.
    pub task: String,
    /// What called it, outermost first.
    pub callers: Vec<String>,
}

/// The time from a recorded function or event to the next one on its CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Step {
    /// The function, or the event.
    pub from: String,
    /// What called it; empty for an event.
    pub caller: String,
    /// The next one.
    pub to: String,
    /// Between them, ns.
    pub length_ns: u64,
    /// When it begins, ns of the trace's clock.
    pub start_ns: u64,
    /// The CPU.
    pub cpu: u32,
    /// The thread id.
    pub tid: i32,
    /// Name of the task, where it is known.
    pub task: String,
}

/// The latency that a latency tracer (`irqsoff`, `wakeup_rt`, …) kept the trace of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LongestLatency {
    /// The tracer.
    pub tracer: String,
    /// Its length, ns.
    pub length_ns: u64,
    /// The task that was woken, or in which interrupts or preemption were off.
    pub task: String,
    /// Its thread id.
    pub tid: i32,
    /// The function at which interrupts or preemption went off; empty for tracers of wake-ups.
    pub started_at: String,
    /// And on again.
    pub ended_at: String,
    /// The longest steps in it, longest first.
    pub steps: Vec<Step>,
}

/// The functions of one trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Profile {
    /// Name of the file.
    pub source: String,
    /// What it is made of.
    pub origin: Origin,
    /// From the first to the last event, ns.
    pub length_ns: u64,
    /// Calls, or stacks.
    pub count: u64,
    /// Sum of the functions' own times without those that wait on an idle CPU, ns.
    pub self_ns: u64,
    /// Calls that were recorded in part: their beginning or their end is missing.
    pub partial: u64,
    /// Functions, including those that are not listed.
    pub functions_seen: u64,
    /// Those with the longest own time, the longest total time and the most calls; the longest own time first.
    pub functions: Vec<FunctionProfile>,
    /// The longest calls, longest first.
    pub longest: Vec<LongCall>,
    /// The latency whose trace it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<LongestLatency>,
}

/// A function in two traces, in each second of either.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// Its name.
    pub name: String,
    /// Calls (or stacks, where it is innermost) a second.
    pub count: [f64; 2],
    /// Own time in ns a second; 0 where calls have no lengths.
    pub self_ns: [f64; 2],
    /// Median length of a call, ns.
    pub median_ns: [Option<u64>; 2],
    /// Of the difference of own times what follows from the number of calls, ns a second.
    pub by_count_ns: f64,
    /// And from the length of each.
    pub by_length_ns: f64,
}

/// What `latlab profile` found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ProfileDetail {
    /// The trace.
    pub profile: Profile,
    /// The trace that it is compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<Profile>,
    /// Functions whose time (or number) differs, largest difference first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}
