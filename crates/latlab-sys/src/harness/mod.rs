//! The harness of the micro-benchmarks: who measures, how often, in which order.
//!
//! ```text
//! runner (this process)                  trial (a fresh process each)
//!   shuffle the probes of a round ──▶      pin, set up, warm up
//!   wait, kill when late          ◀──      batches: run, baseline, run, baseline…
//!   enough, or out of time?                one line of JSON
//! ```

mod account;
#[cfg(feature = "host")]
mod copies;
pub mod each;
pub mod meter;
pub mod runner;
pub mod trial;
mod worker;
