//! Functions of a trace: counts, total and own times, callers, and the longest calls.
//!
//! ```text
//! time    0        10        20        30
//! f()     ├─────────────────────────────┤   total 30 − 8 off the CPU = 22, own 22 − 9 = 13
//! g()         ├───────┤                     total 9, own 9
//! task    on the CPU    ├─ off ─┤ on
//! ```
//! `function_graph` gives lengths; a call's time is its length without the time that its task was
//! off the CPU (`sched_switch`, or events of another task on that CPU). The own time is what no recorded
//! callee took. Depths are those of the kernel, so that a call is complete also where other calls were
//! lost. `function` gives counts and callers, stacks of events a sample of what ran. Of a latency tracer's trace the
//! steps are listed in which the latency passed.

mod analyzer;
mod changes;
mod finish;
mod from_trace;
mod part;
mod stat;
mod steps;
#[cfg(test)]
mod tests;

pub use analyzer::Analyzer;
pub use from_trace::analyse;
pub use part::part;
