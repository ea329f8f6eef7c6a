//! A trace file as a capture that `crate::latency` can work on.

use crate::latency::capture::{Capture, Lost};
use crate::timeline::from_trace::scan;
use latlab_model::event::{Event, EventKind};
use latlab_model::units::{CpuId, TraceNs};
use latlab_trace::decode::Groups;
use latlab_trace::{Select, TraceFile};
use std::ops::ControlFlow;

/// Largest number of events of one capture: a capture is a window, not a day.
pub const EVENTS_MAX: usize = 20_000_000;

/// Reads a whole file as one capture. Wake-ups are found afterwards, by
/// [`crate::latency::wakeups::find`].
pub fn capture(file: &TraceFile<'_>, source: &str) -> Capture {
    let mut capture = Capture {
        source: source.to_owned(),
        kernel: kernel(file),
        clock_is_monotonic: file.clock() == "mono",
        ..Capture::default()
    };
    // A record with its payload takes some 40 bytes at least.
    let bytes: u64 = file.buffers.iter().flat_map(|b| &b.cpus).map(|c| c.size).sum();
    capture.events.reserve((bytes / 64).min(EVENTS_MAX as u64 / 4) as usize);
    // First and last event of each CPU.
    let mut ends: Vec<(CpuId, TraceNs, TraceNs)> = Vec::new();
    let (names, _) = scan(file, &Select::default(), 1, Groups::ALL, |event, _| {
        if capture.events.len() == EVENTS_MAX {
            return ControlFlow::Break(());
        }
        take(&mut capture, &mut ends, event);
        ControlFlow::Continue(())
    });
    ends.sort_by_key(|e| e.0);
    capture.cpus = ends.iter().map(|e| e.0).collect();
    capture.covered_from = ends.iter().map(|e| e.1).max().unwrap_or(TraceNs(0));
    capture.names = names;
    capture
}

fn take(capture: &mut Capture, ends: &mut Vec<(CpuId, TraceNs, TraceNs)>, event: &Event) {
    let at = ends.iter().position(|e| e.0 == event.cpu).unwrap_or_else(|| {
        ends.push((event.cpu, event.time, event.time));
        ends.len() - 1
    });
    if let EventKind::Lost { count } = event.kind {
        let (from, to) = (ends[at].2, event.time);
        capture.lost.push(Lost { cpu: event.cpu, from, to, count });
        return;
    }
    ends[at].2 = event.time;
    capture.events.push(*event);
}

/// `uname -r` as trace-cmd's `uname` option keeps it (`uname -a`'s third word).
fn kernel(file: &TraceFile<'_>) -> Option<String> {
    let release = file.options.uname.split_whitespace().nth(2)?;
    Some(release.to_owned())
}
