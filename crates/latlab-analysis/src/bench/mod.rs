//! Micro-benchmarks as data: what a slice measured, what follows from many slices.
//!
//! ```text
//! SliceSpec ──(a fresh process)──▶ Slice ─┐
//! SliceSpec ──(a fresh process)──▶ Slice ─┼─▶ Estimate ─▶ verdicts
//! SliceSpec ──(a fresh process)──▶ Slice ─┘
//! ```
//!
//! A slice is one process that times a handful of batches of one probe. The
//! processes of all probes are interleaved in random order, so that whatever
//! disturbs the machine for a while disturbs all of them a little.

#[cfg(feature = "host")]
pub mod clock_period;
pub mod control_workload;
pub mod each;
pub mod findings;
pub mod kernel_switch;
pub mod measured;
pub mod size_effect;
pub mod summary;
