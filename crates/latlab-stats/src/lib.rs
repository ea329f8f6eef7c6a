#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod binomial;
pub mod bootstrap;
pub mod change_point;
pub mod clusters;
pub mod discrete;
pub mod estimate;
pub mod extremal_index;
pub mod fieller;
pub mod histogram;
pub mod least_squares;
pub mod modes;
pub mod pareto_tail;
pub mod period;
pub mod power;
pub mod proportion;
pub mod quantile;
pub mod rank;
pub mod rng;
pub mod steady;
pub mod stretches;
pub mod student;
pub mod total;
pub mod trend;
pub mod uniform_end;
