//! What tests of several crates share. Only `[dev-dependencies]` name this crate.

#![forbid(unsafe_code)]

pub mod architecture;
pub mod cache_sim;
pub mod fleet_sim;
pub mod latency_sim;
pub mod sweep_sim;
pub mod tail_sim;
