//! Statistics: one idea a file, each with its source.

pub mod changepoint;
pub mod modes;
pub mod period;
pub mod quantile;
pub mod rank;
pub mod rng;
pub mod trend;
