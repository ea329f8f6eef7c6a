//! Decoding of what ftrace wrote: `trace.dat` files, ring-buffer pages, event formats.
//!
//! **Invariant:** this crate is pure over bytes. It opens no file and reads no
//! clock, and no input makes it panic, hang or allocate more than a bound that
//! the input's own size gives.

#![forbid(unsafe_code)]

pub mod write;
