//! Analysis: plain data and traces in, plain data and findings out.
//!
//! **Invariant:** this crate is pure. It opens no file, reads no clock and no
//! environment, prints nothing and contains no `unsafe`; `clippy.toml` beside
//! `Cargo.toml` has the compiler check it.

#![forbid(unsafe_code)]

pub mod bench;
pub mod cache;
#[cfg(feature = "host")]
pub mod check;
pub mod compare;
pub mod doctor;
#[cfg(feature = "host")]
pub mod fleet;
mod fnv;
pub mod history;
pub mod latency;
pub mod noise;
pub mod osnoise;
#[cfg(feature = "host")]
pub mod path;
#[cfg(feature = "host")]
pub mod profile;
pub mod reference;
#[cfg(feature = "host")]
pub mod run_file;
pub mod sched;
pub mod survey;
pub mod sweep;
pub mod timeline;
pub mod timer;
pub mod tune;
#[cfg(feature = "host")]
pub mod twin;
pub mod upgrade;
pub mod wakeup;
pub mod watch;
pub mod worst;
