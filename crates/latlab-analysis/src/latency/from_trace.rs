//! A trace file as a capture that `crate::latency` can work on.

use crate::latency::capture::{Capture, Kinds, Lost};
use crate::timeline::cpu::PerCpu;
use crate::timeline::from_trace::{Analysis, scan};
use latlab_model::event::{Event, EventKind, Names};
use latlab_model::units::{CpuId, TraceNs};
use latlab_trace::decode::Groups;
use latlab_trace::{Select, TraceFile};
use std::ops::ControlFlow;

/// Largest number of events of one capture: a capture is a window, not a day.
pub const EVENTS_MAX: usize = 20_000_000;

/// Reads a whole file as one capture. Wake-ups are found afterwards, by
/// [`crate::latency::wakeups::find`].
pub fn capture(file: &TraceFile<'_>, source: &str) -> Capture {
    capture_in(file, source, Vec::new())
}

/// As [`capture`], in memory that the caller has: for [`expected_events`], or of an earlier capture.
/// Each page that the kernel need not give and zero again saves more time than the analysis of the
/// events on it takes.
pub fn capture_in(file: &TraceFile<'_>, source: &str, mut events: Vec<Event>) -> Capture {
    events.clear();
    events.reserve(expected_events(file));
    let mut reader = Reader::new(file, source);
    reader.capture.events = events;
    read(reader, file, &Select::default())
}

/// About so many events are in a file: a record with its payload takes some 40 bytes. Compressed files
/// have more. At most a quarter of [`EVENTS_MAX`], because memory for all of them is more than a board
/// may have.
pub fn expected_events(file: &TraceFile<'_>) -> usize {
    let bytes: u64 = file.buffers.iter().flat_map(|b| &b.cpus).map(|c| c.size).sum();
    (bytes / 40).min(EVENTS_MAX as u64 / 4) as usize
}

/// Reads a part of a file as one capture.
pub fn part(file: &TraceFile<'_>, source: &str, select: &Select) -> Capture {
    read(Reader::new(file, source), file, select)
}

fn read(mut reader: Reader, file: &TraceFile<'_>, select: &Select) -> Capture {
    let groups = reader.groups();
    let (names, _) = scan(file, select, 1, groups, |event, names| {
        reader.take(event, names);
        if reader.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    reader.finish(names)
}

/// Makes a capture of the events that go by.
#[derive(Debug)]
pub struct Reader {
    capture: Capture,
    kinds: Kinds,
    /// First and last event of each CPU.
    ends: PerCpu<(CpuId, TraceNs, TraceNs)>,
}

impl Reader {
    /// Nothing read yet of this file.
    pub fn new(file: &TraceFile<'_>, source: &str) -> Self {
        let capture = Capture {
            source: source.to_owned(),
            kernel: kernel(file),
            preempt_rt: (!file.options.uname.is_empty())
                .then(|| file.options.uname.contains("PREEMPT_RT")),
            clock_is_monotonic: file.clock() == "mono",
            ..Capture::default()
        };
        Self { capture, kinds: Kinds::default(), ends: PerCpu::default() }
    }

    /// No more events are taken.
    pub fn is_full(&self) -> bool {
        self.capture.events.len() >= EVENTS_MAX
    }

    /// The capture, with the names that its events refer to.
    pub fn finish(self, names: Names) -> Capture {
        let Self { mut capture, kinds, ends } = self;
        capture.kinds = Some(kinds);
        let mut ends = ends.to_vec();
        ends.sort_by_key(|e| e.0);
        capture.cpus = ends.iter().map(|e| e.0).collect();
        capture.covered_from = ends.iter().map(|e| e.1).max().unwrap_or(TraceNs(0));
        capture.names = names;
        // In a damaged file the time of a CPU goes back.
        if !capture.events.is_sorted_by_key(|e| e.time) {
            capture.events.sort_by_key(|e| e.time);
        }
        capture
    }
}

impl Analysis for Reader {
    fn groups(&self) -> Groups {
        Groups::ALL
    }

    #[inline]
    fn take(&mut self, event: &Event, _: &Names) {
        if self.is_full() {
            return;
        }
        let at = self.ends.place(event.cpu, || (event.cpu, event.time, event.time));
        if let EventKind::Lost { count } = event.kind {
            let (from, to) = (self.ends[at].2, event.time);
            self.capture.lost.push(Lost { cpu: event.cpu, from, to, count });
            return;
        }
        self.ends[at].2 = event.time;
        self.kinds.add(&event.kind);
        self.capture.events.push(*event);
    }
}

/// `uname -r` as trace-cmd's `uname` option keeps it (`uname -a`'s third word).
fn kernel(file: &TraceFile<'_>) -> Option<String> {
    let release = file.options.uname.split_whitespace().nth(2)?;
    Some(release.to_owned())
}
