//! Decoding of what ftrace wrote: `trace.dat` files, ring-buffer pages, event formats.
//!
//! ```text
//! bytes ─ file ─ TraceFile ── formats     what each event id means (compiled on first use)
//!                   │      └─ names       symbols, command lines, printk strings
//!                   └─ ring ─ Events      every event of every CPU in order of time
//!                                └─ fields, events (raw fields), decode (model::Event), print (text), filter
//! ```
//!
//! Nothing is copied that need not be: an [`Event`] borrows its payload from
//! the file's bytes, and a [`format::Field`] reads one number out of it.
//!
//! **Invariant:** this crate is pure over bytes. It opens no file and reads no
//! clock, and no input makes it panic, hang or allocate more than a bound that
//! the input's own size gives. Damage is reported ([`Diagnostic`]) and what is
//! left is read.
//!

#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod bytes;
mod compress;
pub mod decode;
mod error;
pub mod events;
pub mod file;
pub mod filter;
pub mod format;
pub mod names;
mod open;
pub mod print;
pub mod ring;
pub mod stat;
#[cfg(feature = "text")]
pub mod text;
pub mod write;

pub use bytes::Endian;
pub use error::{Diagnostic, Diagnostics, TraceError};
pub use file::{DEFAULT_MEMORY, TraceFile};
pub use filter::{Filter, FilterError};
pub use format::{EventFormat, Field, Formats, KnownFormats};
pub use open::{open, open_after, open_within};
pub use ring::{Event, Events, Missed, Select};
