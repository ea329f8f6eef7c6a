//! OS noise by source: interruptions of a busy loop, and what ran in them.
//!
//! ```text
//! loop    ─────┤ interruption ├──────   two readings of the clock
//! events         ├ irq ┤├ softirq ┤      pieces of an interruption, each with its innermost actor
//!              ╎╎ entry and exit     ╎   charged to the actor with the most time, up to what is usual there
//! ```
//!
//! An interruption in which no event was recorded passed outside of this kernel: firmware (SMI), hypervisor or
//! hardware. This is the rule of the kernel's osnoise tracer, which counts as hardware noise what
//! no NMI, interrupt, softirq or thread interfered with (Documentation/trace/osnoise-tracer.rst).

pub mod attribute;
pub mod kernel;
mod part;
pub mod queue;
mod sum;
#[cfg(test)]
mod tests;

pub use part::part;
pub use sum::{Sum, Window};
