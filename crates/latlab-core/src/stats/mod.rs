//! Statistics: one idea a file, each with its source.

pub mod bootstrap;
pub mod changepoint;
pub mod cluster;
pub mod modes;
pub mod period;
pub mod power;
pub mod quantile;
pub mod rank;
pub mod rng;
pub mod student;
pub mod tail;
pub mod trend;
