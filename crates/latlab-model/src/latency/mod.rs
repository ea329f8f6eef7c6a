//! The causes of latency: captures, wake-ups in numbers, causes with evidence.

use crate::finding::{Confidence, Note};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All that was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WhyResult {
    /// A wake-up later than this is late, ns.
    pub limit_ns: u64,
    /// How the limit was chosen.
    pub limit_reason: Option<Note>,
    /// Counters and properties of the machine during the measurement.
    pub surroundings: SystemContext,
    /// The captures that were looked at.
    pub captures: Vec<CaptureNote>,
    /// Every wake-up that was looked at, in numbers.
    pub windows: Vec<Window>,
    /// Causes and the late-against-on-time comparison.
    pub explanation: Explanation,
    /// For each cause a typical late wake-up beside an on-time one.
    pub sketches: Vec<Pair>,
    /// Source locations of the named functions, from debug information or module files.
    pub places: Vec<FunctionPlace>,
    /// Mitigations that were measured (`--prove`).
    pub proofs: Vec<MitigationTest>,
    /// How the captures were taken; `None` for captures of files.
    pub hunt: Option<CaptureSession>,
}

/// How captures were taken, and the overhead of tracing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CaptureSession {
    /// Wake-ups measured while tracing was armed.
    pub wakeups: u64,
    /// Late ones among them.
    pub late: u64,
    /// Late ones that fell into the time in which a capture was being saved.
    pub late_not_captured: u64,
    /// Time in which late wake-ups could not be captured, ns.
    pub dead_ns: u64,
    /// Duration of the capture phase, ns.
    pub hunted_ns: u64,
    /// The trace preset in use.
    pub traced: Option<Note>,
    /// The overhead of tracing, where it was measured.
    pub observer: Option<TracingOverhead>,
    /// Trace presets that were rejected, each with the reason.
    pub steps: Vec<RejectedPreset>,
}

/// A trace preset that was not used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CaptureNote {
    /// File.
    pub source: String,
    /// Kernel release, where the file says.
    pub kernel: Option<String>,
    /// Events.
    pub events: u64,
    /// From the first to the last event, ns.
    pub length_ns: u64,
    /// Late wake-ups in it.
    pub late: u32,
    /// On-time wake-ups in it that were looked at.
    pub on_time: u32,
    /// Intervals with lost events.
    pub holes: u32,
    /// Damage and limits of the capture.
    pub notes: Vec<Note>,
}

/// A typical late wake-up of a cause, and an on-time one of the same capture where there is one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Pair {
    /// Index of the cause.
    pub cluster: usize,
    /// The late one.
    pub late: BreakdownExample,
    /// The on-time one.
    pub on_time: Option<BreakdownExample>,
}

/// The latency breakdown of one wake-up; times are relative to the intended time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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

/// Counters and properties of the machine during a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// The shortest wake-up that counts as late, ns.
    pub limit_ns: u64,
    /// Lowest and highest CPU frequency seen meanwhile, kHz, where it is told.
    pub khz: Option<(u64, u64)>,
    /// Share of the CPUs' nominal frequency that they ran at (APERF/MPERF), where it is readable.
    pub speed: Option<f64>,
    /// Largest step between the wall clock and CLOCK_MONOTONIC meanwhile, ns.
    pub clock_step_ns: Option<u64>,
    /// Clock sources, when the kernel changed it meanwhile: before and after.
    pub clock_source: Option<(String, String)>,
    /// Counters that are not readable on this machine, and why.
    pub missing: Vec<Note>,
}

/// The mechanism that late wake-ups of one cause have in common. Stable identifiers.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// Interrupts were off.
    InterruptsOff,
    /// Preemption was off.
    PreemptionOff,
    /// An interrupt handler.
    InterruptHandler,
    /// Interrupts from another CPU: function calls, TLB shootdowns.
    Ipi,
    /// A high-resolution timer's function in interrupt context.
    HrtimerHandler,
    /// A timer-wheel callback.
    TimerCallback,
    /// A softirq.
    Softirq,
    /// A work item.
    Workqueue,
    /// A task of higher priority.
    HigherPriority,
    /// A task of the same priority.
    EqualPriority,
    /// Real-time throttling.
    Throttling,
    /// A lock held by somebody.
    Lock,
    /// A lock's holder was kept from running by a task between the two priorities.
    PriorityInversion,
    /// A page fault.
    PageFault,
    /// An NMI.
    Nmi,
    /// Coming back from an idle state.
    IdleExit,
    /// The timer was programmed for later.
    TimerSlack,
    /// The task's own previous activation.
    Overrun,
    /// No code of this kernel ran.
    Stall,
    /// The ordinary path took longer; no event shows the reason.
    SlowPath,
    /// No event accounts for it.
    Unexplained,
}

/// Late wake-ups with one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RootCause {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Who: task, interrupt, softirq or function; empty where nobody acts.
    pub who: String,
    /// Stage of the wake-up that it delayed.
    pub stage: Option<Stage>,
    /// Kernel priority of the acting task.
    pub prio: Option<i32>,
    /// Indices into the windows: those that it is the main cause of.
    pub main_of: Vec<usize>,
    /// Indices of all windows that it contributed to.
    pub part_of: Vec<usize>,
    /// Share of late wake-ups that it is the main cause of, 0 to 1.
    pub share_of_late: f64,
    /// Share of the total excess that it explains, 0 to 1.
    pub share_of_lateness: f64,
    /// Median excess in the windows that it contributed to, ns.
    pub excess_ns: f64,
    /// Median length of the cause itself, also before the intended time, ns.
    pub size_ns: f64,
    /// How often it began in such a window, median.
    pub times: f64,
    /// How often in an on-time one, median.
    pub times_on_time: f64,
    /// Functions with the largest excess self time inside it: name, late ns, calls late, calls on time.
    pub functions: Vec<FunctionShare>,
    /// Most frequent kernel stack inside it, innermost first.
    pub stack: Vec<String>,
    /// Tasks that ran instead of a lock's owner.
    pub instead: Vec<String>,
    /// Period and jitter in ns, where the delays are periodic.
    pub period_ns: Option<(f64, f64)>,
    /// Confidence.
    pub confidence: Confidence,
    /// Facts for and against.
    pub grounds: Vec<CauseEvidence>,
    /// A typical window: the one with the median excess.
    pub example: Option<usize>,
}

/// A function's contribution to a cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionShare {
    /// Name.
    pub function: String,
    /// Median self time in the cause's windows, ns.
    pub late_ns: f64,
    /// Median self time in on-time windows, ns.
    pub on_time_ns: f64,
    /// Median calls in the cause's windows.
    pub late_calls: f64,
    /// Median calls in on-time windows.
    pub on_time_calls: f64,
    /// Median self time of a call in the cause's windows that have it, ns.
    #[serde(default)]
    pub late_each_ns: f64,
    /// The same in on-time windows that have it, ns.
    #[serde(default)]
    pub on_time_each_ns: f64,
    /// So many on-time windows have it.
    #[serde(default)]
    pub on_time_windows: usize,
}

/// A fact that a verdict rests on. Each variant's own line says what its fields are.
#[allow(missing_docs, reason = "each variant's line names its fields")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum CauseEvidence {
    /// The main group covers this share of the windows' excess.
    Covers { share: f64 },
    /// Rank test of its time in late against on-time windows.
    Separates { delta: f64, p: f64 },
    /// There was no on-time window to compare with.
    NoControls,
    /// Fewer than three late windows show it.
    Few { windows: usize },
    /// Event-free intervals of this actor among all; its CPU occupancy; probability of that many by coincidence.
    Victim { hits: usize, of: usize, occupancy: f64, p: f64 },
    /// The silent stretch began in user code, which cannot hold off interrupts.
    InUser { windows: usize },
    /// No other CPU did anything during the stretch either.
    AllSilent { windows: usize, of: usize },
    /// Wake-ups on other CPUs were late at the same moment.
    Simultaneous { windows: usize, of: usize },
    /// Lengths are alike: median and median deviation.
    AlikeLengths { median_ns: f64, mad_ns: f64 },
    /// The machine is virtual.
    Hypervisor { name: String },
    /// Steal time passed.
    Steal { ns: u64 },
    /// SMIs were counted.
    Smi { count: u64 },
    /// Declared idle exit latency.
    DeclaredExit { ns: u64 },
    /// Events were lost in this many of its windows.
    Lost { windows: usize },
    /// In so many of its windows the buffer begins too late.
    Uncovered { windows: usize },
    /// Steal time was counted just before so many of its captures were saved.
    StealThen { windows: usize, of: usize },
    /// System-management interrupts were counted just before so many of its captures were saved.
    SmiThen { windows: usize, of: usize },
    /// A counter that is not readable on this machine.
    Missing { what: Note },
}

/// What a set of windows says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// Group by group.
    pub contrast: Contrast,
    /// Causes, the one that explains most first.
    pub clusters: Vec<RootCause>,
    /// Share of the total excess that no cause explains.
    pub unexplained_share: f64,
    /// Total excess of all late windows, ns.
    pub excess_ns: f64,
}

/// What parts are grouped by: the mechanism and who.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct Group {
    /// Mechanism.
    pub cause: Cause,
    /// Task, interrupt, softirq or function; empty where nobody acts (idle, unexplained).
    pub who: String,
}

/// How much of a wake-up one group was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// Time within the latency, ns.
    pub ns: u64,
    /// How often it began.
    pub times: u32,
    /// Length since its actors began, also before the intended time, ns.
    pub whole_ns: u64,
    /// Longest stretch in it without any event on its CPU, ns.
    pub silent_ns: u64,
    /// Whether other CPUs did something during that stretch.
    pub others: Option<Others>,
    /// The longest of its parts lies in this stage.
    pub stage: Option<Stage>,
    /// Priority of the task that acted, as the kernel counts (smaller runs first).
    pub prio: Option<i32>,
    /// What kind of actor it was in the longest part.
    pub kind: Option<Kind>,
    /// While a lock was waited for: tasks other than its owner that ran, with their time.
    pub instead_ns: BTreeMap<String, u64>,
}

/// The kind of an actor.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Idle.
    Idle,
    /// A task's own code.
    Task,
    /// An interrupt handler.
    Interrupt,
    /// A softirq.
    Softirq,
    /// A high-resolution timer's function.
    Hrtimer,
    /// A timer-wheel timer's function.
    Timer,
    /// A work item.
    Work,
    /// An NMI.
    Nmi,
}

/// Self time and calls of a traced function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calls {
    /// Self time, ns: callees taken off.
    pub ns: u64,
    /// Calls that began in the window.
    pub calls: u32,
}

/// A wake-up in numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// The capture it is from.
    pub source: String,
    /// Intended time, ns of the trace's clock.
    pub intended_ns: u64,
    /// Latency, ns. Equals the sum of all shares.
    pub latency_ns: u64,
    /// The CPU that the task ran on.
    pub cpu: u32,
    /// Over the limit.
    pub late: bool,
    /// Events were lost within it: it weighs less.
    pub lost: bool,
    /// The buffer begins after its intended time: it weighs less.
    #[serde(default)]
    pub uncovered: bool,
    /// Steal time that the kernel counted since the capture before, ns, where it was asked.
    #[serde(default)]
    pub steal_ns: Option<u64>,
    /// System-management interrupts counted since the capture before, where the counter is readable.
    #[serde(default)]
    pub smi: Option<u64>,
    /// The parts.
    pub shares: Vec<(Group, Share)>,
    /// Functions inside each group, where functions or stacks were traced.
    pub functions: Vec<(Group, String, Calls)>,
    /// Kernel stacks seen inside a group, innermost first, with the group.
    pub stacks: Vec<(Group, Vec<String>)>,
    /// Who became runnable, was switched in or raised inside it on its CPUs: event name → count.
    pub counts: BTreeMap<String, u32>,
    /// Whether the current code was known to be user code when its longest silent stretch began.
    pub silent_in_user: bool,
    /// Who had the CPU at the intended time: what a stall would have hit.
    pub at_intended: String,
}

impl Window {
    /// How much it counts among others: one, or less where it is known in part only.
    pub fn weight(&self) -> f64 {
        if self.lost || self.uncovered { 0.25 } else { 1.0 }
    }
    /// The share of a group; nothing where it did not occur.
    pub fn share(&self, group: &Group) -> Share {
        self.shares.iter().find(|(g, _)| g == group).map(|(_, s)| s.clone()).unwrap_or_default()
    }
}

/// The stage of the way from the intended time to user space.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Until the timer interrupt was taken.
    Interrupt,
    /// Until our timer's turn came in it.
    Handlers,
    /// Until the task was woken.
    Wake,
    /// Until the task was switched in.
    Schedule,
    /// Until it was in user space and had read its clock.
    Return,
}

/// Why the time of a part passed.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The ordinary code of this way: interrupt entry, expiry, wake-up, switch, return.
    Path,
    /// The timer was programmed for later than intended (timer slack).
    ProgrammedLate,
    /// The interrupt was due and a task or softirq ran on: interrupts were off.
    InterruptsOff,
    /// Another interrupt's handler.
    Interrupt,
    /// Another timer's function.
    TimerFunction,
    /// A non-maskable interrupt.
    Nmi,
    /// The CPU was idle and had to come back from it.
    IdleExit,
    /// A task of lower priority ran on after the task was woken: preemption was off.
    PreemptionOff,
    /// A softirq before the task.
    Softirq,
    /// A task of higher priority.
    HigherPriority,
    /// A task of the same priority.
    EqualPriority,
    /// The scheduler chose a lower task or idle although this one could run: throttled.
    Throttled,
    /// Waiting for a lock, after it was switched in.
    Lock,
    /// A page fault on the way.
    PageFault,
    /// The task did not sleep when its time came: its own previous activation.
    Overrun,
    /// Nothing ran: in the picture of a wake-up that a stall made late, its silent stretch.
    Stall,
    /// No event accounts for it.
    Unexplained,
}

/// Whether other CPUs did anything during a stretch without an event on this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Others {
    /// At least one did.
    Ran,
    /// None did, and at least one was recorded.
    Silent,
    /// There is no other recorded CPU.
    None,
}

/// How a group differs between late and on-time windows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The group.
    pub group: Group,
    /// A function inside it, or `None` for the whole group.
    pub function: Option<String>,
    /// Median time in late windows, ns.
    pub late_ns: f64,
    /// Median time in on-time windows, ns.
    pub on_time_ns: f64,
    /// Median number of beginnings or calls in late windows.
    pub late_times: f64,
    /// The same in on-time windows.
    pub on_time_times: f64,
    /// Cliff's delta of the times, −1 to 1, with its 95% interval.
    pub delta: f64,
    /// Lower and upper end.
    pub delta_interval: (f64, f64),
    /// p value after Holm's correction for all rows.
    pub p: f64,
    /// What the difference consists of.
    pub kind: Difference,
}

/// What a difference consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// It occurs only in late windows.
    OnlyLate,
    /// It occurs more often, each about as long.
    MoreOften,
    /// It takes longer each time, about as often.
    Longer,
    /// Both.
    Both,
    /// No difference worth naming.
    Neither,
}

/// Late windows against on-time windows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Contrast {
    /// Late windows.
    pub late: usize,
    /// On-time windows.
    pub on_time: usize,
    /// Median latency of the on-time windows, ns: what the way costs when nothing is wrong.
    pub baseline_ns: f64,
    /// Groups and functions, largest excess first.
    pub rows: Vec<Row>,
}

/// How far tracing moved the distribution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TracingOverhead {
    /// Blocks a side.
    pub blocks: usize,
    /// Wake-ups a side.
    pub wakeups: u64,
    /// One a quantile.
    pub shifts: Vec<Shift>,
    /// What it comes to.
    pub effect: Effect,
}

/// How far one quantile moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Shift {
    /// Which.
    pub q: f64,
    /// Untraced, ns.
    pub untraced_ns: f64,
    /// Traced, ns.
    pub traced_ns: f64,
    /// Traced less untraced, ns: median of the block pairs.
    pub shift_ns: f64,
    /// Lower end of its 95% interval, ns.
    pub low_ns: f64,
    /// Upper end, ns.
    pub high_ns: f64,
}

/// What the observer effect comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// No quantile moved by more than a tenth of the limit.
    #[default]
    Small,
    /// All moved by about as much: the same shape, shifted.
    Shifted,
    /// The shape itself changed: a cause found under tracing need not be the one without.
    Changed,
    /// Tracing alone makes tasks late.
    MakesLate,
    /// Too few blocks or samples.
    CannotTell,
}

/// A mitigation that was measured, or could not be applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MitigationTest {
    /// Identifier of the finding that it addresses, and who acts.
    pub against: String,
    /// The mitigation.
    pub remedy: Option<Note>,
    /// Settings that were changed and restored.
    pub changes: Vec<Note>,
    /// Its effect; `None` when it could not be applied.
    pub effect: Option<Removed>,
    /// Why it could not be applied.
    pub note: Option<Note>,
}

/// The effect of a mitigation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Removed {
    /// Pairs of blocks.
    pub pairs: usize,
    /// Wake-ups without and with the remedy.
    pub wakeups: (u64, u64),
    /// Late ones without and with it.
    pub late: (u64, u64),
    /// Excess per wake-up without and with it, ns.
    pub excess_ns: (f64, f64),
    /// Share of the excess that is gone; negative when it grew. `None`: there was no excess.
    pub gone: Option<f64>,
    /// 95% interval of that share.
    pub interval: (f64, f64),
    /// Chance that blocks differ so much without a reason (rank test).
    pub p: f64,
}

/// What is known of a function's place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

impl Mechanism {
    /// Stable identifier of the finding.
    pub fn id(self) -> &'static str {
        match self {
            Self::InterruptsOff => "why.interrupts-off",
            Self::PreemptionOff => "why.preemption-off",
            Self::InterruptHandler => "why.interrupt-handler",
            Self::Ipi => "why.ipi",
            Self::HrtimerHandler => "why.hrtimer-handler",
            Self::TimerCallback => "why.timer-callback",
            Self::Softirq => "why.softirq",
            Self::Workqueue => "why.workqueue",
            Self::HigherPriority => "why.higher-priority",
            Self::EqualPriority => "why.equal-priority",
            Self::Throttling => "why.throttling",
            Self::Lock => "why.lock",
            Self::PriorityInversion => "why.priority-inversion",
            Self::PageFault => "why.page-fault",
            Self::Nmi => "why.nmi",
            Self::IdleExit => "why.idle-exit",
            Self::TimerSlack => "why.timer-slack",
            Self::Overrun => "why.overrun",
            Self::Stall => "why.stall",
            Self::SlowPath => "why.slow-path",
            Self::Unexplained => "why.unexplained",
        }
    }
}
