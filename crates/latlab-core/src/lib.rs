//! Plain data, statistics and analysis.
//!
//! **Invariant:** this crate is pure. It opens no file, reads no clock and no
//! environment, prints nothing and contains no `unsafe`; `clippy.toml` beside
//! `Cargo.toml` has the compiler see to it. Whatever is measured elsewhere
//! arrives here as data, and leaves as data: a finding is never formatted here.

#![forbid(unsafe_code)]

pub mod bench;
pub mod compare;
pub mod cpulist;
pub mod doctor;
pub mod explain;
pub mod finding;
pub mod gaps;
pub mod histogram;
pub mod history;
pub mod kconfig;
pub mod machine;
pub mod memory;
pub mod modules;
pub mod reference;
pub mod run;
pub mod sched;
pub mod stats;
pub mod survey;
pub mod sweep;
pub mod timer;
pub mod trace_stat;
pub mod units;
pub mod wakeup;
pub mod wire;
pub mod wire_log;
