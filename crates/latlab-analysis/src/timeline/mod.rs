//! Kernel events in order of time, decoded once for all analyses, and the contexts that they fold into.

pub mod context;
pub mod from_trace;
