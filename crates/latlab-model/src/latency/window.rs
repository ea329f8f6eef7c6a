//! A wake-up in numbers: how long each cause and actor took in it.

use latlab_stats::total::Total;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What parts are grouped by: the mechanism and who.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Group {
    /// Mechanism.
    pub cause: Cause,
    /// Task, interrupt, softirq or function; empty where nobody acts (idle, unexplained).
    pub who: String,
}

/// How much of a wake-up one group was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Share {
    /// Time within the latency, ns.
    pub ns: u64,
    /// How often it began.
    pub times: u32,
    /// Length since its actors began, also before the intended time, ns.
    pub whole_ns: u64,
    /// Of that, behind the event at which on-time windows end: there is nothing to compare it with, ns.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_compared_ns: u64,
    /// Longest stretch in it without any event on its CPU, ns.
    pub silent_ns: u64,
    /// In the function of an interrupt, softirq, timer or work item: the longest such interval of its usual
    /// execution in the whole capture (the median of at least three), ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual_silent_ns: Option<u64>,
    /// Whether other CPUs did something during that stretch.
    pub others: Option<Others>,
    /// Name of the thread in the longest of its parts, with its numbers.
    #[serde(default)]
    pub thread: Option<String>,
    /// The idle state that was left, as the kernel counts them.
    #[serde(default)]
    pub idle_state: Option<u32>,
    /// The longest of its parts lies in this stage.
    pub stage: Option<Stage>,
    /// Priority of the task that acted, as the kernel counts (smaller runs first).
    pub prio: Option<i32>,
    /// What kind of actor it was in the longest part.
    pub kind: Option<Kind>,
    /// While the task was blocked: an event shows that it waited for a lock.
    #[serde(default)]
    pub contended: bool,
    /// The task that the measured one waited for meanwhile, where another one acted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_for: Option<String>,
    /// Who sent the interrupts between CPUs of which it consists, where the kernel recorded that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub senders: Vec<IpiSender>,
    /// While a lock was waited for and its owner was runnable and did not run: tasks of priority between
    /// the two that ran on the owner's CPU, with their time.
    pub instead_ns: BTreeMap<String, u64>,
}

/// Who sent interrupts from one CPU to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IpiSender {
    /// On this CPU.
    pub cpu: u32,
    /// The task that had it; empty for the idle task.
    pub task: String,
    /// The function that the interrupt calls; empty for a reschedule interrupt, and where the kernel records the
    /// reason alone.
    pub function: String,
}

/// The kind of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Calls {
    /// Self time, ns: callees taken off.
    pub ns: u64,
    /// Calls that began in the window.
    pub calls: u32,
}

/// A wake-up in numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Window {
    /// The capture it is from.
    pub source: String,
    /// Intended time, ns of the trace's clock.
    pub intended_ns: u64,
    /// Latency, ns. Equals the sum of all shares.
    pub latency_ns: u64,
    /// The CPU that the task ran on.
    pub cpu: u32,
    /// Kernel priority of the measured task when it was woken.
    #[serde(default)]
    pub prio: Option<i32>,
    /// Of a loop that only measures: its task has no work of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_work: bool,
    /// Over the limit.
    pub late: bool,
    /// Events were lost within it: it weighs less.
    pub lost: bool,
    /// The buffer begins after its intended time: it weighs less.
    #[serde(default)]
    pub uncovered: bool,
    /// Steal time that the kernel counted between the two readings round its capture, ns.
    #[serde(default)]
    pub steal_ns: Option<u64>,
    /// System-management interrupts counted between them, where the counter is readable.
    #[serde(default)]
    pub smi: Option<u64>,
    /// The parts.
    pub shares: Vec<(Group, Share)>,
    /// Functions inside each group, where functions or stacks were traced.
    pub functions: Vec<(Group, String, Calls)>,
    /// Kernel stacks seen inside a group, innermost first, with the group.
    pub stacks: Vec<(Group, Vec<String>)>,
    /// Whether the current code was known to be user code when its longest silent stretch began.
    pub silent_in_user: bool,
    /// Whether interrupts were enabled then, where `irq_disable` and `irq_enable` were recorded.
    #[serde(default)]
    pub silent_interrupts_on: Option<bool>,
    /// Whether preemption was enabled then, where `preempt_disable` and `preempt_enable` were recorded.
    #[serde(default)]
    pub silent_preemption_on: Option<bool>,
    /// A gap that the hardware-latency tracer reported lies in that stretch.
    #[serde(default)]
    pub silent_hwlat: bool,
    /// A timer of another CPU was due in that interval and expired only after it, and both CPUs were idle:
    /// neither held up the other.
    #[serde(default)]
    pub silent_other_timer: bool,
    /// The machine has other CPUs, and their interrupts to this one are not in the events: it may have
    /// handled one in that interval.
    #[serde(default)]
    pub silent_ipi: bool,
    /// Who had the CPU at the intended time: what a stall would have hit.
    pub at_intended: String,
    /// The function that the timer's interrupt interrupted, where stacks were traced; empty for user code.
    #[serde(default)]
    pub interrupted: Option<String>,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Window {
    /// Latency up to the event at which on-time windows end, with what a cause took behind it, ns.
    pub fn compared_ns(&self) -> u64 {
        let path = |(g, s): &&(Group, Share)| g.cause == Cause::Path && s.not_compared_ns > 0;
        let beyond: u64 = self.shares.iter().filter(path).map(|(_, s)| s.not_compared_ns).total();
        self.latency_ns.saturating_sub(beyond)
    }
    /// How much it counts among others: one, or less where it is known in part only.
    pub fn weight(&self) -> f64 {
        if self.lost || self.uncovered { 0.25 } else { 1.0 }
    }
    /// The share of a group; nothing where it did not occur.
    pub fn share(&self, group: &Group) -> &Share {
        static NOTHING: LazyLock<Share> = LazyLock::new(Share::default);
        self.shares.iter().find(|(g, _)| g == group).map_or(&NOTHING, |(_, s)| s)
    }
}

/// The stage of the way from the intended time to user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Until the activation ended.
    Activation,
}

/// Why the time of a part passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Another fair task ran until the control group of this one got runtime: the scheduler's choice, or `cpu.max`.
    FairOrBandwidth,
    /// A thread of latlab itself, beside the measured one: an effect of the measurement.
    Measurement,
    /// The scheduler chose a lower task or idle although this one could run: throttled.
    Throttled,
    /// Waiting for a lock, after it was switched in.
    Lock,
    /// A page fault on the way.
    PageFault,
    /// The task's own code, after its start.
    Execution,
    /// The task waited, after its start, for another task or an interrupt.
    Wait,
    /// The task slept, after its start, until a timer of its own expired.
    Sleep,
    /// The task did not sleep when its time came: its own previous activation.
    Overrun,
    /// Nothing ran: in the picture of a wake-up that a stall made late, its silent stretch.
    Stall,
    /// No event accounts for it.
    Unexplained,
}

impl Cause {
    /// Whether a task had the CPU in place of the measured one, which could run.
    pub fn is_in_place(self) -> bool {
        matches!(
            self,
            Self::HigherPriority | Self::EqualPriority | Self::FairOrBandwidth | Self::Measurement
        )
    }
}

/// Whether other CPUs did anything during a stretch without an event on this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Others {
    /// At least one did.
    Ran,
    /// None did, and at least one was recorded.
    Silent,
    /// There is no other recorded CPU.
    None,
}
