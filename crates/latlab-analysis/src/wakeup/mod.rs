//! Cyclic wake-up latency: how late does a periodic task wake up?
//!
//! ```text
//! intended   |        |        |        |        |        |
//! actual      |        |         ------------------|        |
//!             └ latency          missed  missed    └ latency of the wake-up
//! ```
//!
//! A *wake-up* is one return from the sleep. A task that oversleeps whole
//! periods was late in each of them: those *missed periods* are counted, each
//! with the lateness that it had when the task came back, so that a stall of ten
//! periods weighs ten times (otherwise a long stall hides behind one sample:
//! "coordinated omission", G. Tene 2013).

pub mod core;
pub mod findings;
pub mod part;

pub use crate::wakeup::part::part;
