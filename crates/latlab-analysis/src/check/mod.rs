//! Requirements, decided on measurements ([`decide()`]).
//!
//! ```text
//! p99.9 < 80 us, max < 150 us, missed = 0, under vm:128M, interval 500 us, 1 h
//! └─ condition ┘ └─ condition ┘ └ condition ┘ └──────── circumstances ────────┘
//! ```
//!
//! A condition on a quantile is decided by the exact binomial test of the share of values at the limit or
//! above, with a probability of a wrong decision of at most 5 %; late values cluster, and count for as many
//! independent ones as their order in time shows. What is observed (a maximum, missed periods) is decided as observed,
//! for the duration that the requirement names.

pub mod decide;
mod part;
#[cfg(test)]
mod tests;

pub use decide::decide;
pub use part::part;
