//! How the scheduler really behaves: slices, waits, fairness, and what theory says of them.
//!
//! ```text
//! Event ──Analyzer──▶ Slice (one at a time, to whoever listens)
//!             └─────▶ Schedule: tasks, CPUs, who preempted whom, inversions, windows of fairness
//! Cell + Schedule ──check──▶ Check: expected, measured, verdict
//! ```
//!
//! A *slice* is the time from a task's switch-in to the switch-out of that same task on that
//! CPU. The distance between two switch-outs, which is sometimes plotted in its place, is the
//! period of an alternation. Everything is computed in one pass; what is kept is bounded by the
//! number of tasks and CPUs, not by the length of the trace.

pub mod analyse;
pub mod check;
pub mod event;
pub mod experiment;
pub mod fair;
mod finish;
pub mod matrix;
pub mod part;
#[cfg(test)]
mod pattern;
pub mod result;
pub(crate) mod tally;
mod task;
#[cfg(test)]
mod tests;

pub use analyse::{Analyzer, Options};
pub use event::{Comm, Event, Left, Task, What};
pub use result::{End, SchedDetail, Schedule, Slice};
