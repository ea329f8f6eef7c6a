//! The state of `latlab watch`: as metrics for Prometheus, and as text.

pub mod open_metrics;
pub mod status;
