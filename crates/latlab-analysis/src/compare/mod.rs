//! Comparison of runs: is B better or worse than A, in the tail too?
//!
//! ```text
//! runs, foreign files ─▶ Subject ─▶ matched by name and parameters ─▶ aspects (median, quantiles, rates)
//!                          └ machine ─▶ differences, listed first        └ p values, adjusted together ─▶ verdicts
//! ```
//!
//! An *aspect* is one number that may differ: the median, a quantile, the rate of values over a
//! limit. All aspects of all metrics are tested together, so that a comparison of a hundred
//! figures claims no difference for having looked a hundred times (Holm, 1979).

pub mod between;
pub mod figures;
pub mod import;
pub mod loads;
pub mod machines;
pub mod metric;
pub mod sample;
pub mod subject;
pub mod verdict;

#[cfg(test)]
mod tests;

pub use subject::{Subject, compare};
