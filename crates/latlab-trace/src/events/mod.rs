//! The fields of records of known events, as recorded. Analyses read [`crate::decode`]'s events.
//!
//! A [`Decoder`] finds each known event and the places of its fields once, by
//! name, in the trace's own formats; decoding one event is then a table look-up
//! and a few loads. A field that a kernel does not have reads as zero or as an
//! empty string. Everything else is [`Typed::Other`].
//!
//! ```no_run
//! # fn f(file: &latlab_trace::TraceFile<'_>) {
//! use latlab_trace::events::{Decoder, Typed};
//! let decoder = Decoder::new(file);
//! let mut events = file.events();
//! while let Some(event) = events.next() {
//!     let task = decoder.common(&event).pid;
//!     match decoder.decode(&event) {
//!         Typed::SchedSwitch(s) => { let _ = (event.time, task, s.next_pid); }
//!         _ => {}
//!     }
//! }
//! # }
//! ```

#[macro_use]
mod table;
mod decoder;
mod typed;
mod values;

pub use decoder::Decoder;
pub use typed::*;
pub use values::{Common, Get, Stack, SysEnter, SysExit, Vector};
