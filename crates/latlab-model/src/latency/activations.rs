//! The activations of a task: how late each began, and how long it took until its end.

use latlab_stats::histogram::Histogram;
use serde::{Deserialize, Serialize};

/// What begins the activations of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "by")]
pub enum Release {
    /// A high-resolution timer with this function: `hrtimer_wakeup` (`clock_nanosleep`, a futex or `poll`
    /// with a timeout), `timerfd_tmrproc`, `posix_timer_fn`.
    Timer {
        /// The kernel's name of the function.
        function: String,
    },
    /// Another task wakes it.
    Task {
        /// Name of that task.
        waker: String,
    },
    /// An event, and another one ends it: they are spans.
    Span {
        /// The first event, as it was asked for.
        from: String,
        /// The last one.
        to: String,
    },
    /// Whatever ends an interruptible sleep.
    #[default]
    Wakeup,
}

/// Distance of intended times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeriodEstimate {
    /// Median, ns.
    pub median_ns: u64,
    /// Median absolute deviation from it, ns.
    pub mad_ns: u64,
}

/// Which part of late activations was longest against the median of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LateBy {
    /// From the intended time to the first switch to the task.
    pub started_late: u64,
    /// The task had the CPU, interrupts included.
    pub ran_long: u64,
    /// It was runnable without a CPU after its start.
    pub preempted: u64,
    /// It waited after its start.
    pub waited: u64,
}

/// The activations of one task. The parts of each add up to its response time exactly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TaskActivations {
    /// Name of the task.
    pub task: String,
    /// Thread id.
    pub tid: i32,
    /// Kernel priority of most activations (below 0 deadline, 0 to 99 real-time, from 100 fair).
    pub prio: Option<i32>,
    /// What begins an activation.
    pub release: Release,
    /// Distance of the intended times, where they are regular.
    pub period: Option<PeriodEstimate>,
    /// Those of them that were counted and not kept one by one: there were too many.
    #[serde(skip_serializing_if = "is_zero")]
    pub beyond: u64,
    /// Activations that had not ended when the recording, or a part of it, ended.
    #[serde(skip_serializing_if = "is_zero")]
    pub cut: u64,
    /// Those of them that are counted as late ones: they were older than the limit by then, which is their response time.
    #[serde(skip_serializing_if = "is_zero")]
    pub late_cut: u64,
    /// An activation that takes longer than this is late, ns; 0: none is called late.
    pub deadline_ns: u64,
    /// An activation that starts later than this after its intended time is late, ns; 0: the deadline decides.
    pub start_limit_ns: u64,
    /// The activations in numbers.
    #[serde(flatten)]
    pub counts: ActivationCounts,
}

/// Activations in numbers, of one recording, a second or an hour. All of them merge exactly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ActivationCounts {
    /// Activations that were seen from beginning to end, and late ones of which only the begin was recorded.
    pub activations: u64,
    /// Those in which the kernel did not record a switch to the task: of them only the response time counts.
    pub unsure: u64,
    /// Those whose intended time was before the end of the activation before.
    pub overruns: u64,
    /// Multiples of the period in which none began.
    pub skipped: u64,
    /// Late activations.
    pub late: u64,
    /// Which part made them late: the one that is longest against its median.
    pub late_by: LateBy,
    /// From the intended time (without a timer: from the wake-up) to the first switch to the task, ns.
    pub start: Histogram,
    /// From the intended time to the end of the activation, ns.
    pub response: Histogram,
    /// Time with a CPU, interrupts included, ns.
    pub running: Histogram,
    /// Time runnable without a CPU after the start, ns.
    pub preempted: Histogram,
    /// Time waiting after the start, ns.
    pub waiting: Histogram,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}
