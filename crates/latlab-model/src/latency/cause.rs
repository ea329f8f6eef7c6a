//! Causes of late wake-ups, each with its evidence.

use super::comparison::Contrast;
use super::execution::Execution;
use super::window::{IpiSender, Stage};
use crate::finding::{Confidence, Note};
use serde::{Deserialize, Serialize};

/// The mechanism that late wake-ups of one cause have in common. Stable identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// A thread of latlab itself, beside the measured one.
    Measurement,
    /// Real-time throttling.
    Throttling,
    /// The fair server gave the CPU to a fair task (Linux 6.12 and later).
    FairServer,
    /// The task's group or its deadline reservation had no runtime left.
    Bandwidth,
    /// The task blocked after it was switched in; no event tells by what.
    Blocked,
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
    /// The task's own code took longer.
    Execution,
    /// The task waited for another task or an interrupt.
    Wait,
    /// The task slept for a time of its own choice.
    Sleep,
    /// The task's own previous activation.
    Overrun,
    /// No code of this kernel ran.
    Stall,
    /// One of several mechanisms that the events do not distinguish.
    Alternatives,
    /// The ordinary path took longer; no event shows the reason.
    SlowPath,
    /// No event accounts for it.
    Unexplained,
}

/// Late wake-ups with one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RootCause {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Who: task, interrupt, softirq or function; empty where nobody acts.
    pub who: String,
    /// Name of the thread that acted, with its numbers (`kworker/u8:1`), where one did.
    #[serde(default)]
    pub thread: Option<String>,
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
    /// No event marks its beginning: the length is estimated from the longest delay, with this 95 % interval, ns. It
    /// takes delays as evenly spread up to that length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_interval_ns: Option<(f64, f64)>,
    /// How often it began in such a window, median.
    pub times: f64,
    /// How often in an on-time one, median.
    pub times_on_time: f64,
    /// Functions with the largest excess self time inside it: name, late ns, calls late, calls on time.
    pub functions: Vec<FunctionShare>,
    /// Most frequent kernel stack inside it, innermost first.
    pub stack: Vec<String>,
    /// What the events do not distinguish, the most frequent first; a stall last.
    #[serde(default)]
    pub alternatives: Vec<Alternative>,
    /// The task that the measured one waited for meanwhile, where another one acted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_for: Option<String>,
    /// Why the task's own code took longer, where counters were looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<Execution>,
    /// Tasks that ran instead of a lock's owner.
    pub instead: Vec<String>,
    /// Period and jitter in ns, where the delays are periodic.
    pub period_ns: Option<(f64, f64)>,
    /// Confidence.
    pub confidence: Confidence,
    /// Facts for and against.
    #[serde(alias = "grounds")]
    pub evidence: Vec<CauseEvidence>,
    /// A typical window: the one with the median excess.
    pub example: Option<usize>,
}

/// One of several mechanisms that the events do not distinguish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Alternative {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Who: task, interrupt, softirq or function; empty where nobody acts.
    pub who: String,
    /// In so many of the windows.
    pub windows: usize,
}

/// A function's contribution to a cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum CauseEvidence {
    /// The main group covers this share of the windows' excess.
    Covers { share: f64 },
    /// Cliff's delta of its time in late against on-time windows.
    Separates { delta: f64 },
    /// This share of its excess lies behind the event at which on-time windows end.
    NotCompared { share: f64 },
    /// There was no on-time window to compare with.
    NoControls,
    /// Fewer than three late windows show it.
    Few { windows: usize },
    /// Event-free intervals of this actor among all; its CPU occupancy; probability of that many by coincidence.
    Victim { hits: usize, of: usize, occupancy: f64, p: f64 },
    /// The function that most of its interrupts interrupted; late and on-time wake-ups with an interrupt in
    /// it; the probability of that many by coincidence.
    Place { function: String, hits: usize, on_time: usize, p: f64 },
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
    /// In so many of its windows the function ran without an event for as long as it usually does, ns.
    UsualLength { windows: usize, usual_ns: u64 },
    /// Interrupts were recorded as enabled at the start of the event-free stretch.
    InterruptsOn { windows: usize },
    /// Interrupts or preemption were recorded as disabled during the event-free stretch.
    SectionRecorded { windows: usize },
    /// The kernel's hardware-latency tracer reported a gap within it.
    Hwlat { windows: usize },
    /// A timer of another CPU was due in the stretch and expired only after it.
    OtherTimerSilent { windows: usize, of: usize },
    /// Steal time was counted between the two readings round so many of its captures; the chance of
    /// that many, from readings at which nothing was late.
    StealThen {
        windows: usize,
        of: usize,
        #[serde(default)]
        p: Option<f64>,
    },
    /// The same of system-management interrupts.
    SmiThen {
        windows: usize,
        of: usize,
        #[serde(default)]
        p: Option<f64>,
    },
    /// Who sent the interrupts between CPUs in most of its windows, and what they called.
    IpiSender { sender: IpiSender, windows: usize },
    /// Exit latency of the idle state that was entered, ns; the longest exit from it on time.
    IdleState { state: u32, declared_ns: u64, on_time_ns: Option<u64> },
    /// Lowest and highest CPU frequency during the measurement, kHz.
    Frequency { low_khz: u64, high_khz: u64 },
    /// Share of the nominal frequency that the CPUs ran at.
    Speed { ratio: f64 },
    /// A counter that is not readable on this machine.
    Missing { what: Note },
}

/// What a set of windows says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// Group by group.
    pub contrast: Contrast,
    /// Causes, the one that explains most first.
    #[serde(alias = "clusters")]
    pub causes: Vec<RootCause>,
    /// Share of the total excess that no cause explains.
    pub unexplained_share: f64,
    /// Total excess of all late windows, ns.
    pub excess_ns: f64,
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
            Self::Measurement => "why.measurement",
            Self::Throttling => "why.throttling",
            Self::FairServer => "why.fair-server",
            Self::Bandwidth => "why.bandwidth",
            Self::Blocked => "why.blocked",
            Self::Lock => "why.lock",
            Self::PriorityInversion => "why.priority-inversion",
            Self::PageFault => "why.page-fault",
            Self::Nmi => "why.nmi",
            Self::IdleExit => "why.idle-exit",
            Self::TimerSlack => "why.timer-slack",
            Self::Execution => "why.execution",
            Self::Wait => "why.wait",
            Self::Sleep => "why.sleep",
            Self::Overrun => "why.overrun",
            Self::Stall => "why.stall",
            Self::Alternatives => "why.alternatives",
            Self::SlowPath => "why.slow-path",
            Self::Unexplained => "why.unexplained",
        }
    }
}
