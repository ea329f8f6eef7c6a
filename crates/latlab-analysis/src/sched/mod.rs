//! How the scheduler really behaves: slices, waits, fairness, and what theory says of them.
//!
//! ```text
//! Event ──Analyzer──▶ Slice (one at a time, to whoever listens)
//!             └─────▶ Schedule: tasks, CPUs, who preempted whom, inversions, windows of fairness
//! Cell + Schedule ──check──▶ Expectation: expected, measured, decision
//! ```
//!
//! A *slice* is the time from a task's switch-in to the switch-out of that same task on that
//! CPU. The distance between two switch-outs, which is sometimes plotted in its place, is the
//! period of an alternation. Everything is computed in one pass; what is kept is bounded by the
//! number of tasks and CPUs, not by the length of the trace.

pub mod analyse;
pub mod expectations;
pub mod fair;
mod finish;
pub mod from_trace;
pub mod part;
#[cfg(test)]
mod pattern;
pub mod scenarios;
pub(crate) mod tally;
mod task;
#[cfg(test)]
mod tests;
mod vruntime;

pub use crate::sched::analyse::{Analyzer, Options};

use latlab_trace::TraceFile;
use latlab_trace::decode::Groups;

/// The groups of events that [`Analyzer`] takes.
pub fn groups() -> Groups {
    Groups::SWITCH | Groups::WAKE | Groups::RENAME | Groups::SCHED
}

/// Kinds of events that the analysis of scheduling needs and the trace does not know, the
/// indispensable first.
pub fn missing(file: &TraceFile<'_>) -> Vec<&'static str> {
    let wanted = ["sched_switch", "sched_wakeup", "sched_waking"];
    wanted.into_iter().filter(|name| file.formats.find(name).is_none()).collect()
}
