//! Why a task was late: from captured events to a time budget, a contrast and verdicts.
//!
//! ```text
//! Capture ──lanes──▶ Span* per CPU ──budget──▶ Piece* that tile [intended, actual]
//!                                                 │
//!        late and on-time wake-ups ──contrast──▶ Contrast ──verdict──▶ Finding*
//! ```
//!
//! Everything here is a pure function of plain data: a capture may come from our
//! own recorder, from trace-cmd with cyclictest's markers, or from a mailed text.
//!
//! The words are those of the kernel's timerlat auto-analysis: *blocking* is delay
//! by something of lower priority (interrupts off, preemption off, a lock),
//! *interference* delay by something of higher priority (NMI, irq, softirq, task).

pub mod activations;
mod bandwidth;
pub mod breakdown;
pub mod capture;
pub mod captures;
pub mod case_control;
pub mod causes;
mod class;
mod clock_steps;
pub mod cpu_timeline;
pub mod critical_path;
pub mod execution;
mod execution_findings;
mod family;
pub mod features;
pub mod findings;
pub mod from_trace;
mod handler_lengths;
mod ipi;
mod locks;
pub mod mitigation;
pub mod part;
#[cfg(test)]
mod scenario;
mod sent;
mod silence;
pub mod source_location;
pub mod summary;
pub mod tracing_overhead;
pub mod untraced;
#[cfg(feature = "host")]
pub mod user_stacks;
pub mod wakeups;
