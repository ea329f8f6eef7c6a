//! A trace file as one pass of events.

use latlab_model::event::{Event, Names};
use latlab_trace::decode::{self, EventDecoder, Groups};
use latlab_trace::{Diagnostics, Select, TraceFile};
use std::ops::ControlFlow;

/// Calls `each` with every chosen event in order of time, until it breaks. Events outside of
/// `groups` come undecoded, as [`latlab_model::event::EventKind::Other`].
pub fn scan(
    file: &TraceFile<'_>,
    select: &Select,
    threads: usize,
    groups: Groups,
    each: impl FnMut(&Event, &Names) -> ControlFlow<()>,
) -> (Names, Diagnostics) {
    let mut decoder = EventDecoder::new(file, groups);
    let damage = decode::scan(file, select, threads, &mut decoder, each);
    (decoder.into_names(), damage)
}
