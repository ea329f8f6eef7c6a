//! The context switch, by handing something over in several ways.
//!
//! Which to believe: `ctx.yield` has neither a wake-up nor a message in it and
//! is the lower bound; `ctx.futex` and `ctx.eventfd` are what a program pays that
//! waits for another; `ctx.pipe` is what lmbench's users know; `ctx.ring` shows
//! what the caches add; `ctx.nanosleep` is here because people measure with it,
//! and is wrong: it has a timer interrupt in every turn.

use super::peer::{BOTH_CLASSES, PLACE};
use super::{Spec, ipc_channels, pair, sync_channels};

/// The probes of this file.
pub const SPECS: &[Spec] = &[
    Spec::new("ctx.pipe", "one switch: a byte through a pipe, less its calls", "", |s| {
        pair::switch(s, ipc_channels::pipe)
    })
    .with(&[PLACE, BOTH_CLASSES]),
    Spec::new("ctx.futex", "one switch: a futex in shared memory, less its calls", "", |s| {
        pair::switch(s, sync_channels::futexes)
    })
    .with(&[PLACE, BOTH_CLASSES]),
    Spec::new("ctx.eventfd", "one switch: an event counter, less its calls", "", |s| {
        pair::switch(s, ipc_channels::eventfd)
    })
    .with(&[PLACE, BOTH_CLASSES]),
];
