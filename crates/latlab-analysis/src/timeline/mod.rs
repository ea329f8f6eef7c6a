//! Kernel events in order of time, decoded once for all analyses, and the one fold of them: who runs
//! on each CPU and what interrupts it ([`cpu`]), and what each task does ([`task`]).

pub mod actor;
pub mod cpu;
pub mod from_trace;
pub mod span;
pub mod stack;
pub mod task;
