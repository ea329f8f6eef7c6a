//! What `latlab watch` counts: in a second, in an hour, and since its start.

use crate::latency::{ActivationCounts, PeriodEstimate, Release};
use serde::{Deserialize, Serialize};

/// Counts of one time span. Slices of several spans merge exactly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Slice {
    /// The hour in UTC in which it ends, `2026-11-24T23`.
    pub hour: String,
    /// Number of the last second in it. Numbers rise over restarts.
    pub seq: u64,
    /// By task, in order of name.
    pub tasks: Vec<TaskCounts>,
    /// Captures by task and cause, in order.
    pub causes: Vec<CauseCount>,
    /// Everything else.
    pub counters: Counters,
}

/// The activations of the tasks that one entry of the configuration names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskCounts {
    /// The entry: a name, a number, a control group.
    pub task: String,
    /// Its activations.
    #[serde(flatten)]
    pub counts: ActivationCounts,
}

/// Captures of a task with one main part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseCount {
    /// As in [`TaskCounts`].
    pub task: String,
    /// What took the time: the longest part against the on-time activations of the same capture.
    pub cause: String,
    /// Who; empty where nobody acts.
    pub who: String,
    /// Captures, kept or not.
    pub captures: u64,
}

/// What the watch itself does and meets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Time, ns of CLOCK_MONOTONIC.
    pub wall_ns: u64,
    /// CPU time of the watch, ns.
    pub own_cpu_ns: u64,
    /// Events that the kernel recorded for it.
    pub events: u64,
    /// CPU time of recording, estimated by the cost of an event that was measured at the start, ns.
    pub kernel_ns: u64,
    /// Events of the watched tasks that were lost.
    pub lost_events: u64,
    /// Time in which nothing was recorded for captures, ns.
    pub dead_ns: u64,
    /// Captures that are kept.
    pub captures: u64,
    /// Late activations of which no capture was taken.
    pub not_captured: u64,
    /// Captured incidents whose beginning is not in the capture.
    pub uncovered: u64,
    /// Captures that were removed to keep the limits.
    pub removed: u64,
    /// Writes that failed.
    pub write_errors: u64,
    /// Times that the machine was suspended.
    pub suspensions: u64,
    /// How long, ns.
    pub suspended_ns: u64,
    /// Steps of the wall clock above half a second.
    pub clock_steps: u64,
    /// Times that the buffer of the watch was stopped or removed by somebody else, and begun again.
    pub disturbed: u64,
    /// Starts of the watch.
    pub starts: u64,
}

/// What is recorded for captures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Scheduler, timers, interrupts, softirqs, work items, locks.
    #[default]
    All,
    /// Without locks and work items.
    Interrupts,
    /// Scheduler and high-resolution timers.
    Scheduler,
    /// Nothing: activations are counted, and no capture is taken.
    Off,
}

/// The state of a running watch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Its process.
    pub pid: u32,
    /// When it was started, `2026-11-24T23:05:17Z`.
    pub started: String,
    /// Where it keeps captures and histograms.
    pub dir: String,
    /// The watched tasks.
    pub tasks: Vec<TaskStatus>,
    /// Since its start.
    pub total: Slice,
    /// The current hour, earlier starts included.
    pub hour: Slice,
    /// What is recorded for captures.
    pub level: Level,
    /// Share of one CPU that it may take.
    pub budget: f64,
    /// What it took in the last seconds: its own CPU time.
    pub own_share: f64,
    /// And that of recording, estimated.
    pub kernel_share: f64,
    /// Cost of an event, ns.
    pub event_ns: f64,
    /// What is kept in memory for captures, bytes at most.
    pub ring_bytes: u64,
    /// Captures on disk, bytes.
    pub disk_bytes: u64,
    /// And at most.
    pub disk_limit: u64,
    /// The latest captures, newest first.
    pub captures: Vec<CaptureEntry>,
    /// The last failed write, while it fails.
    pub write_error: Option<String>,
}

/// A watched task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskStatus {
    /// The entry of the configuration.
    pub task: String,
    /// Threads that it names now.
    pub threads: u64,
    /// What begins an activation, of the thread with most of them.
    pub release: Option<Release>,
    /// Distance of intended times.
    pub period: Option<PeriodEstimate>,
    /// A longer activation is late, ns; 0: none is called late, or the start decides.
    pub deadline_ns: u64,
    /// The deadline is the period that was found.
    pub deadline_is_period: bool,
    /// A later start is late, ns; 0: the deadline decides.
    pub start_limit_ns: u64,
    /// From its intended time until now, of the oldest activation that is late, takes longer than a second and has not ended,
    /// ns; 0: there is none.
    pub overdue_ns: u64,
}

/// A capture on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureEntry {
    /// File name.
    pub file: String,
    /// The hour, `2026-11-24T23`.
    pub hour: String,
    /// As in [`TaskCounts`].
    pub task: String,
    /// The time that its limit judges, ns.
    pub judged_ns: u64,
    /// Its main part.
    pub cause: String,
    /// Who.
    pub who: String,
    /// Size, bytes.
    pub bytes: u64,
}
