//! A schedule: run segments, tasks, CPUs, inversions, throttling.

use crate::event::Task;
use crate::finding::Note;
use crate::sched::expectation::Expectation;
use crate::sched::experiment::Cell;
use crate::units::{Nanos, TraceNs};
use latlab_stats::histogram::Histogram;
use serde::{Deserialize, Serialize};

/// Why a slice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It was still runnable, and another task got the CPU.
    Preempted,
    /// It went to sleep.
    Slept,
    /// It waits uninterruptibly (IO, a lock).
    Blocked,
    /// It called `sched_yield`.
    Yielded,
    /// It was runnable and of higher priority than what ran next: throttled (real-time throttling,
    /// the fair server, a used-up deadline budget, a group's quota).
    Throttled,
    /// It ended.
    Exited,
    /// It was stopped or is traced.
    Stopped,
    /// Its end was not seen: events were lost, or were not recorded for what came between.
    Lost,
    /// The trace ended first.
    Open,
}

impl End {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Preempted => "preempted",
            Self::Slept => "slept",
            Self::Blocked => "blocked",
            Self::Yielded => "yielded",
            Self::Throttled => "throttled",
            Self::Exited => "exited",
            Self::Stopped => "stopped",
            Self::Lost => "lost",
            Self::Open => "open",
        }
    }
}

/// A slice, the moment that it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Whose.
    pub task: Task,
    /// On which CPU.
    pub cpu: u32,
    /// Switch-in.
    pub start: TraceNs,
    /// Switch-out.
    pub end: TraceNs,
    /// Off a CPU before it: from the last switch-out; `None` where that was not seen.
    pub off: Option<Nanos>,
    /// Ready to run before it: from the wake-up, or from the switch-out of a task that was still
    /// runnable; `None` where that was not seen or is doubtful.
    pub delay: Option<Nanos>,
    /// Whether `delay` began with a wake-up.
    pub woken: bool,
    /// Why it ended.
    pub why: End,
    /// Who came next.
    pub next: Task,
    /// Whether events were lost in it, so that its ends need not be the true ones.
    pub doubtful: bool,
}

impl Slice {
    /// Its length.
    pub fn run(&self) -> Nanos {
        self.end.since(self.start)
    }
}

/// A slice as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeptSlice {
    /// Thread id.
    pub tid: i32,
    /// CPU.
    pub cpu: u32,
    /// Switch-in, from the first event.
    pub at_ns: u64,
    /// Length.
    pub run_ns: u64,
    /// Ready to run before it, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ns: Option<u64>,
    /// Why it ended.
    pub why: End,
    /// Thread id of who came next; 0 is idle.
    pub next: i32,
    /// Whether events were lost in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub doubtful: bool,
}

/// Durations of one kind: of a task, of a timer function, of an interrupt handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Durations {
    /// How many.
    pub count: u64,
    /// Together, ns.
    pub sum_ns: u64,
    /// Median, ns.
    pub median_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
    /// Longest, ns.
    pub max_ns: u64,
    /// When the longest began.
    pub max_at_ns: u64,
}

impl Durations {
    /// Arithmetic mean, ns; 0 for none.
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 }
    }
}

/// Number, sum and longest of some durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Totals {
    /// How many.
    pub count: u64,
    /// Together, ns.
    pub sum_ns: u64,
    /// Longest, ns.
    pub max_ns: u64,
    /// When the longest began, ns from the first event.
    pub max_at_ns: u64,
}

impl Totals {
    /// Counts one that began then.
    #[inline]
    pub fn add(&mut self, length: Nanos, at_ns: u64) {
        if self.count == 0 || length.0 > self.max_ns {
            (self.max_ns, self.max_at_ns) = (length.0, at_ns);
        }
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(length.0);
    }

    /// Arithmetic mean, ns; 0 for none.
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 }
    }
}

/// How often slices ended for each reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[expect(missing_docs, reason = "the names of `End`")]
pub struct Ends {
    pub preempted: u64,
    pub slept: u64,
    pub blocked: u64,
    pub yielded: u64,
    pub throttled: u64,
    pub exited: u64,
    pub stopped: u64,
    pub lost: u64,
    pub open: u64,
}

impl Ends {
    /// Counts one end.
    pub fn count(&mut self, why: End) {
        *match why {
            End::Preempted => &mut self.preempted,
            End::Slept => &mut self.slept,
            End::Blocked => &mut self.blocked,
            End::Yielded => &mut self.yielded,
            End::Throttled => &mut self.throttled,
            End::Exited => &mut self.exited,
            End::Stopped => &mut self.stopped,
            End::Lost => &mut self.lost,
            End::Open => &mut self.open,
        } += 1;
    }
    /// All of them.
    pub fn total(&self) -> u64 {
        self.gave_up()
            + self.preempted
            + self.throttled
            + self.exited
            + self.stopped
            + self.lost
            + self.open
    }
    /// Those that the task ended itself.
    pub fn gave_up(&self) -> u64 {
        self.slept + self.blocked + self.yielded
    }
}

/// Virtual run time of a fair task: run time times 1024 / weight (Linux, `Documentation/scheduler/sched-design-CFS.rst`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VruntimeLine {
    /// Weight of its nice value; 1024 for 0.
    pub weight: u64,
    /// How much it grew between updates without a sleep or a migration between them, ns.
    pub gained_ns: u64,
    /// Run time charged in these updates, ns.
    pub charged_ns: u64,
}

/// Which of the fair tasks that wait runs next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VruntimeChoices {
    /// Switches to a preempted fair task while another one waited on the CPU, and the virtual run time of both is known.
    pub choices: u64,
    /// Of these, to the task with the smallest virtual run time.
    pub smallest: u64,
}

/// One task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TaskLine {
    /// Thread id.
    pub tid: i32,
    /// Last name.
    pub name: String,
    /// First name, where it changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub was: Option<String>,
    /// Which of several tasks that had this thread id one after the other, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<u32>,
    /// The kernel's priority, as last seen.
    pub prio: i32,
    /// On a CPU, ns.
    pub run_ns: u64,
    /// What the kernel charged it, where `sched_stat_runtime` was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charged_ns: Option<u64>,
    /// Its virtual run time, where the kernel tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vruntime: Option<VruntimeLine>,
    /// Slices; without doubtful ones and the one that the trace's end cut.
    pub slices: Durations,
    /// Ready to run, after wake-ups and preemptions (the scheduler's delay).
    pub delay: Durations,
    /// Of these, after wake-ups: wake-up latency.
    pub wakeup: Durations,
    /// Off the CPU between two slices, whatever for.
    pub off_ns: u64,
    /// CPU bursts: run time from a wake-up to the sleep after it, over all slices between.
    pub bursts: Totals,
    /// Sleeps between them: from the switch-out to the wake-up.
    pub sleeps: Totals,
    /// Of these, uninterruptible ones (IO, a lock).
    pub blocked: Totals,
    /// How often it got a CPU without it being known since when it was ready.
    pub unknown_delays: u64,
    /// Why slices ended.
    pub ends: Ends,
    /// To another CPU.
    pub migrations: u64,
    /// What ideal sharing among fair tasks would have given it, ns; 0 for other classes.
    pub ideal_ns: u64,
    /// What it had of it, ns.
    pub fair_ns: u64,
    /// Furthest behind the ideal, ns.
    pub lag_max_ns: i64,
    /// Furthest ahead of it (negative), ns.
    pub lag_min_ns: i64,
    /// Slices in which events were lost.
    pub doubtful: u64,
    /// Whether its end was seen.
    pub ended: bool,
    /// Slices by length, where this task's distribution was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Histogram>,
    /// Delays by length, where kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delays: Option<Histogram>,
}

impl TaskLine {
    /// `name:tid`, as reports name it.
    pub fn label(&self) -> String {
        let name = if self.name.is_empty() { "?" } else { &self.name };
        match self.incarnation {
            Some(n) => format!("{name}:{} #{n}", self.tid),
            None => format!("{name}:{}", self.tid),
        }
    }
}

/// One CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuLine {
    /// Which.
    pub cpu: u32,
    /// Some task ran, ns.
    pub busy_ns: u64,
    /// The idle task ran, ns.
    pub idle_ns: u64,
    /// It is not known who ran, ns: before the first switch, and where events were lost.
    pub unknown_ns: u64,
    /// Switches.
    pub switches: u64,
    /// Places where events were lost.
    pub holes: u64,
    /// Events lost there, where the kernel counted.
    pub lost: u64,
}

/// Who preempted whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pair {
    /// Got the CPU.
    pub by: i32,
    /// Its name.
    pub by_name: String,
    /// Lost it.
    pub of: i32,
    /// Its name.
    pub of_name: String,
    /// How often.
    pub times: u64,
}

/// How an inversion was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum InversionKind {
    /// The higher one was ready on that CPU while the lower one ran on.
    Ready,
    /// The higher one waited for a lock of the lower one, which inherited its priority.
    Boosted,
}

/// A task of higher priority waited for one of lower priority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Inversion {
    /// How it was seen.
    pub kind: InversionKind,
    /// Waited.
    pub high: i32,
    /// Its name.
    pub high_name: String,
    /// Its priority in the kernel's counting.
    pub high_prio: i32,
    /// Ran, or held the lock.
    pub low: i32,
    /// Its name.
    pub low_name: String,
    /// Its own priority in the kernel's counting.
    pub low_prio: i32,
    /// On which CPU.
    pub cpu: u32,
    /// When it began.
    pub at_ns: u64,
    /// How long.
    pub ns: u64,
}

/// A CPU was taken from real-time or deadline tasks that wanted to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Throttle {
    /// Who was switched out.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// Its priority in the kernel's counting.
    pub prio: i32,
    /// On which CPU.
    pub cpu: u32,
    /// When.
    pub at_ns: u64,
    /// Until a task of these classes got the CPU again, ns.
    pub ns: u64,
    /// How long such tasks had run since the end of the throttling before, ns.
    pub ran_ns: u64,
    /// Of `ns`, with nothing to run.
    pub idle_ns: u64,
}

/// How fair one stretch of time was on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FairWindow {
    /// When it began.
    pub at_ns: u64,
    /// Jain's index of received by ideal service of the fair tasks that were runnable.
    pub jain: f64,
    /// How many these were.
    pub tasks: u32,
}

/// Who ran, when, for how long, and what that says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Schedule {
    /// Where the events came from.
    pub source: String,
    /// Time stamp of the first event.
    pub first_ns: u64,
    /// To the last event, ns.
    pub length_ns: u64,
    /// Events that were looked at.
    pub events: u64,
    /// Switches among them.
    pub switches: u64,
    /// Whether wake-ups were recorded.
    pub saw_wakeups: bool,
    /// CPUs.
    pub cpus: Vec<CpuLine>,
    /// Tasks, the one that ran longest first.
    pub tasks: Vec<TaskLine>,
    /// How many more there were.
    pub more_tasks: u64,
    /// What those ran together, ns.
    pub more_run_ns: u64,
    /// Who preempted whom, most frequent first.
    pub pairs: Vec<Pair>,
    /// Inversions, longest first.
    pub inversions: Vec<Inversion>,
    /// How many there were in all.
    pub inversion_count: u64,
    /// Throttlings, in order of time.
    pub throttles: Vec<Throttle>,
    /// How many there were in all.
    pub throttle_count: u64,
    /// Length of the windows below, ns.
    pub window_ns: u64,
    /// Fairness over time.
    pub windows: Vec<FairWindow>,
    /// Jain's index over the whole trace, of all fair tasks that had to share.
    pub jain: Option<f64>,
    /// Choices between fair tasks, where the kernel tells virtual run times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vruntime: Option<VruntimeChoices>,
    /// Slices, in order of their ends, as many as were to be kept.
    pub slices: Vec<KeptSlice>,
    /// Slices that were not kept.
    pub more_slices: u64,
    /// Slices in which events were lost.
    pub doubtful_slices: u64,
    /// Switches that are missing although no loss was reported: a task that a filter leaves out.
    pub unseen: u64,
    /// Delays that lost events make unknown.
    pub doubtful_delays: u64,
    /// Thread ids that were given to a second task.
    pub reused: u64,
    /// Tasks that changed their name.
    pub renamed: u64,
    /// Limitations: missing events, losses.
    pub notes: Vec<Note>,
}

impl Schedule {
    /// A task by thread id: the last one that had it.
    pub fn task(&self, tid: i32) -> Option<&TaskLine> {
        self.tasks.iter().filter(|t| t.tid == tid).max_by_key(|t| t.incarnation)
    }
    /// A task's name for people.
    pub fn label(&self, tid: i32) -> String {
        match self.task(tid) {
            Some(t) => t.label(),
            None if tid == 0 => "idle".into(),
            None => tid.to_string(),
        }
    }
}

/// What `latlab sched` found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SchedDetail {
    /// The experiment, where it was one.
    #[serde(rename = "scenario", alias = "cell")]
    pub cell: Option<Cell>,
    /// What happened.
    pub schedule: Schedule,
    /// What theory expects, and what was measured.
    #[serde(alias = "checks")]
    pub expectations: Vec<Expectation>,
}
