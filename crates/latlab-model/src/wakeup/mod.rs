//! Cyclic wake-up latency: what is to be measured, and what was.

pub mod config;
pub mod mechanism;
pub mod result;

pub use config::{Level, Policy, WakeupConfig};
pub use mechanism::{Mechanism, Mechanisms, Woken};
pub use result::{
    LateWake, Slot, StopReason, ThreadResult, Timeline, UsHistogram, WakeupResult, Worst,
};
