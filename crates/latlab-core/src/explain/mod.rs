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
pub mod blind;
pub mod budget;
pub mod capture;
pub mod cluster;
pub mod contrast;
pub mod lanes;
pub mod observer;
pub mod place;
pub mod prove;
pub mod result;
#[cfg(test)]
mod scenario;
pub mod verdict;
pub mod window;
