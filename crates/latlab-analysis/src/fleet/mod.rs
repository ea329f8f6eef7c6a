//! Many machines: campaigns, runs as rows of a lake, and regressions night by night.

pub mod campaign;
pub mod environment;
pub mod lake_rows;
mod names;
pub mod overview;
mod pairs;
pub mod regressions;
pub mod tails;
