//! What counts activations: the few events of the watched threads, filtered in the kernel, read without a stop.
//!
//! | event | filter |
//! |---|---|
//! | `timer:hrtimer_start`, `lock:contention_*` | by a watched thread |
//! | `sched:sched_switch`, `sched:sched_waking` | from, to, of a watched thread |
//! | `timer:hrtimer_expire_*`, `irq:irq_handler_*` | none: they tell whether a timer or an interrupt woke it |

use crate::outcome::OwnHintExt;
use crate::trace_input;
use anyhow::anyhow;
use latlab_analysis::latency::activations::from_capture::{Chosen, Known};
use latlab_analysis::latency::capture::Capture;
use latlab_analysis::latency::from_trace;
use latlab_analysis::watch::follow::{Follow, Fresh};
use latlab_model::units::{Nanos, Tid, TraceNs};
use latlab_sys::recorder::{EventSpec, FlightRecorder, Format, Kallsyms, RecordConfig};
use latlab_sys::tracefs::{Selection, Tracefs};
use latlab_sys::{clock, machine};
use latlab_trace::KnownFormats;
use std::collections::VecDeque;
use std::path::Path;

/// Threads at most that are filtered in the kernel; more are selected when they are read.
const FILTERED: usize = 60;
/// A window begins at least so long before the last look, and at most.
const OVERLAP: Nanos = Nanos(100_000_000);
const LONGEST: Nanos = Nanos(20_000_000_000);
/// So long while a thread is there of which no activation is known, if that has few events.
const UNRESOLVED: Nanos = Nanos(6_000_000_000);
const UNRESOLVED_BYTES: usize = 1 << 20;
/// Pages of a window at most, bytes.
const BYTES: usize = 16 << 20;
/// An event whose record is not complete yet is at most so old.
const INCOMPLETE: u64 = 2_000_000;
/// Ring buffer of each CPU at first at least, KiB: a second of a very busy thread.
const BUFFER_KB: u64 = 1_024;
/// And at most.
const FIRST_KB: u64 = 4_096;
/// Share of the available memory up to which ring buffers grow, where that is more than they may have anyway.
const MEMORY_SHARE: u64 = 256;
/// Looks after which the kernel's symbols are chosen again, and once more soon after the threads changed.
const SYMBOLS_EVERY: u64 = 7_200;
const SYMBOLS_SOON: u64 = 20;

/// Each event with the fields that name a thread; without one it is not filtered.
const EVENTS: &[(&str, &[&str])] = &[
    ("sched:sched_switch", &["prev_pid", "next_pid"]),
    ("sched:sched_waking", &["pid"]),
    ("timer:hrtimer_start", &["common_pid"]),
    ("timer:hrtimer_expire_entry", &[]),
    ("timer:hrtimer_expire_exit", &[]),
    ("irq:irq_handler_entry", &[]),
    ("irq:irq_handler_exit", &[]),
    ("lock:contention_begin", &["common_pid"]),
    ("lock:contention_end", &["common_pid"]),
];

type Pages = Vec<(u32, Vec<u8>)>;

/// Reads the activations of the watched threads.
#[derive(Debug)]
pub(super) struct Detector {
    flight: FlightRecorder,
    tids: Vec<Tid>,
    follow: Follow,
    /// The pages of each look with its time.
    window: VecDeque<(TraceNs, Pages)>,
    overlap: Nanos,
    formats: KnownFormats,
    looks: u64,
    seen: (u64, u64),
    /// Ring buffer of each CPU, and at most, KiB.
    buffer_kb: (u64, u64),
}

/// What a look at the buffer brought.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// The activations.
    pub(super) fresh: Fresh,
    /// Events that were recorded since the last look.
    pub(super) events: u64,
    /// Events that were lost.
    pub(super) lost: u64,
}

impl Detector {
    /// Begins to record. Its ring buffers grow up to `most` bytes of all CPUs together or a small share
    /// of the available memory.
    ///
    /// # Errors
    /// When the kernel lacks the events of the scheduler, or refuses.
    pub(super) fn start(tracefs: &Tracefs, tids: &[Tid], most: u64) -> anyhow::Result<Self> {
        let available = machine::condition().available_bytes.unwrap_or(0) / MEMORY_SHARE;
        let cpus = machine::online_cpus().len().max(1) as u64;
        let most_kb = (most.max(available) / cpus / 1_024).max(BUFFER_KB);
        let first_kb = (most_kb / 4).clamp(BUFFER_KB, FIRST_KB);
        Self::with_buffer(tracefs, tids, (first_kb, most_kb))
    }

    /// Another one with ring buffers of the same size, where somebody removed those of this one.
    ///
    /// # Errors
    /// As [`Detector::start`].
    pub(super) fn again(&self, tracefs: &Tracefs, tids: &[Tid]) -> anyhow::Result<Self> {
        Self::with_buffer(tracefs, tids, self.buffer_kb)
    }

    fn with_buffer(tracefs: &Tracefs, tids: &[Tid], buffer_kb: (u64, u64)) -> anyhow::Result<Self> {
        let known = tracefs.events().with_hint()?;
        let has = |name: &str| known.iter().any(|e| format!("{}:{}", e.system, e.name) == name);
        if let Some((missing, _)) = EVENTS[..2].iter().find(|e| !has(e.0)) {
            return Err(anyhow!("{missing}: this kernel does not have the event"));
        }
        if !tracefs.clocks().with_hint()?.0.iter().any(|c| c == "mono") {
            return Err(anyhow!("trace clock mono: this kernel does not have it"));
        }
        let spec = |(name, fields): &(&str, &[&str])| {
            let filter = (!fields.is_empty()).then(|| filter(fields, tids));
            EventSpec { filter, ..EventSpec::new(*name) }
        };
        let config = RecordConfig {
            events: EVENTS.iter().filter(|e| has(e.0)).map(spec).collect(),
            clock: Some("mono".into()),
            buffer_kb: Some(buffer_kb.0),
            ..RecordConfig::default()
        };
        let flight = FlightRecorder::start(tracefs, &config).with_hint()?;
        Ok(Self {
            flight,
            tids: tids.to_vec(),
            follow: Follow::default(),
            window: VecDeque::new(),
            overlap: OVERLAP,
            formats: KnownFormats::default(),
            looks: 0,
            seen: (0, 0),
            buffer_kb,
        })
    }

    /// The recorder, for the cost of an event.
    pub(super) fn flight(&self) -> &FlightRecorder {
        &self.flight
    }

    /// Watches these threads from now on.
    ///
    /// # Errors
    /// When the kernel refuses a filter.
    pub(super) fn watch(&mut self, tids: &[Tid]) -> anyhow::Result<()> {
        let session = self.flight.session();
        for selection in session.selections() {
            let Selection::Event(event) = selection else { continue };
            let is = |e: &&(&str, &[&str])| e.0 == format!("{}:{}", event.system, event.name);
            let fields = EVENTS.iter().find(is).map_or(&[][..], |e| e.1);
            if !fields.is_empty() {
                session.control().set_filter(selection, &filter(fields, tids)).with_hint()?;
            }
        }
        self.follow.keep(|tid| tids.contains(&tid));
        self.tids = tids.to_vec();
        self.looks = 0;
        Ok(())
    }

    /// What begins the activations of each thread.
    pub(super) fn known(&self) -> &Known {
        self.follow.known()
    }

    /// Whether it still records as it was set up: others may have stopped it, or removed its instance.
    pub(super) fn is_intact(&self) -> bool {
        let session = self.flight.session();
        let is_enabled = |s: &Selection| {
            let Selection::Event(e) = s else { return true };
            let file = Path::new("events").join(&e.system).join(&e.name).join("enable");
            session.control().get(file).is_ok_and(|text| text.starts_with('1'))
        };
        self.flight.is_on() && session.selections().iter().all(is_enabled)
    }

    /// Reads what was recorded since the last look.
    ///
    /// # Errors
    /// When the buffer cannot be read.
    pub(super) fn look(&mut self) -> anyhow::Result<Looked> {
        let now = clock::now().0;
        let pages = self.flight.take_pages().with_hint()?;
        let bytes: usize = pages.iter().map(|p| p.1.len()).sum();
        let is_due = self.looks.is_multiple_of(SYMBOLS_EVERY) || self.looks == SYMBOLS_SOON;
        if is_due && bytes > 0 {
            self.flight.keep_symbols_of(&pages).with_hint()?;
        }
        self.looks += u64::from(bytes > 0 || self.looks > 0);
        let counts = self.flight.counts();
        let looked = Looked {
            events: counts.0.saturating_sub(self.seen.0),
            lost: counts.1.saturating_sub(self.seen.1),
            ..Looked::default()
        };
        self.seen = counts;
        let fullest = pages.iter().map(|p| p.1.len() as u64 / 1_024).max().unwrap_or(0);
        self.enlarge(fullest, looked.lost);
        self.window.push_back((TraceNs(now), pages));
        self.forget();
        let horizon = TraceNs(now.saturating_sub(INCOMPLETE));
        let fresh = self.analyse(horizon)?;
        // So long that the longest activation, and a handful of periods, fit.
        let wanted = (fresh.longest.0.saturating_mul(2)).max(fresh.distance.0.saturating_mul(6));
        let mut overlap = wanted.clamp(OVERLAP.0, LONGEST.0);
        let size: usize = self.window.iter().flat_map(|w| &w.1).map(|p| p.1.len()).sum();
        if fresh.unresolved && size < UNRESOLVED_BYTES {
            overlap = overlap.max(UNRESOLVED.0);
        }
        self.overlap = Nanos(overlap);
        Ok(Looked { fresh, ..looked })
    }

    /// Enlarges ring buffers that lost events, or of which the fullest was more than half full: the next time that this process
    /// does not get the CPU for so long, or for twice as long, they hold it.
    fn enlarge(&mut self, fullest_kb: u64, lost: u64) {
        let (now, most) = self.buffer_kb;
        let next = wanted_kb(now, fullest_kb, lost).min(most);
        if next <= now {
            return;
        }
        match self.flight.session().control().set_buffer_kb(next) {
            Ok(()) => {
                self.buffer_kb.0 = next;
                let enlarged = format!("the ring buffer of each CPU is enlarged to {next} KiB");
                if lost > 0 {
                    log::warn!("{lost} events lost: {enlarged}");
                } else {
                    log::debug!("{fullest_kb} of {now} KiB full: {enlarged}");
                }
            }
            // What the kernel has no memory for it refuses, and leaves what there is.
            Err(error) => {
                log::warn!("the ring buffer of each CPU stays at {now} KiB: {error}");
                self.buffer_kb.1 = now;
            }
        }
    }

    /// Drops pages that lie before the window.
    fn forget(&mut self) {
        let size = |p: &Pages| p.iter().map(|c| c.1.len()).sum::<usize>();
        let mut bytes: usize = self.window.iter().map(|w| size(&w.1)).sum();
        let [.., before, _] = self.window.make_contiguous() else { return };
        let begin = before.0.0.saturating_sub(self.overlap.0);
        while let [first, _, ..] = self.window.make_contiguous() {
            // What the first has was recorded before its look.
            if first.0.0 >= begin && bytes <= BYTES {
                break;
            }
            bytes -= size(&first.1);
            self.window.pop_front();
        }
        if let [first, _, ..] = self.window.make_contiguous() {
            self.flight.drop_before(&mut first.1, begin);
        }
    }

    fn analyse(&mut self, horizon: TraceNs) -> anyhow::Result<Fresh> {
        let mut pages: Pages = Vec::new();
        for (_, part) in &self.window {
            for (cpu, bytes) in part {
                match pages.iter_mut().find(|p| p.0 == *cpu) {
                    Some(known) => known.1.extend_from_slice(bytes),
                    None => pages.push((*cpu, bytes.clone())),
                }
            }
        }
        if self.tids.is_empty() || pages.iter().all(|p| p.1.is_empty()) {
            return Ok(Fresh::default());
        }
        let window = read(&self.flight, pages, &mut self.formats)?;
        Ok(self.follow.take(&window, &Chosen::Tids(self.tids.clone()), horizon))
    }
}

/// Size of ring buffers of `now` KiB of which the fullest held `fullest` KiB since the look before: at least twice what it held,
/// and twice `now` after a loss.
fn wanted_kb(now: u64, fullest: u64, lost: u64) -> u64 {
    let mut wanted = if lost > 0 { 2 * now } else { now };
    while wanted < 2 * fullest {
        wanted *= 2;
    }
    wanted
}

/// Pages of the detector as a capture.
fn read(
    flight: &FlightRecorder,
    pages: Pages,
    formats: &mut KnownFormats,
) -> anyhow::Result<Capture> {
    let format = Format { kallsyms: Kallsyms::All, ..Format::uncompressed() };
    let bytes = flight.recording(pages).to_bytes(format).with_hint()?;
    let file = trace_input::open_after(&bytes, "watch".as_ref(), Some(formats))?;
    let mut capture = from_trace::capture(&file, "watch");
    // Each CPU's first event is the first that passed the filter, not the first that it recorded.
    capture.covered_from = capture.events.first().map_or(TraceNs(0), |e| e.time);
    Ok(capture)
}

/// A filter of the kernel (Documentation/trace/events.rst): one of the fields is one of the threads.
fn filter(fields: &[&str], tids: &[Tid]) -> String {
    if tids.len() > FILTERED {
        // "0" removes a filter.
        return "0".into();
    }
    if tids.is_empty() {
        // No thread has this number.
        return format!("{} == {}", fields[0], i32::MAX);
    }
    let each =
        fields.iter().flat_map(|field| tids.iter().map(move |tid| format!("{field} == {}", tid.0)));
    each.collect::<Vec<_>>().join(" || ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_buffers_hold_twice_what_came() {
        assert_eq!(wanted_kb(1_024, 512, 0), 1_024);
        assert_eq!(wanted_kb(1_024, 516, 0), 2_048);
        assert_eq!(wanted_kb(1_024, 1_024, 7), 2_048);
        // What was left by a buffer that could not grow before.
        assert_eq!(wanted_kb(1_024, 3_000, 1), 8_192);
    }

    #[test]
    fn filters_name_each_thread() {
        let tids = |n: i32| (1..=n).map(Tid).collect::<Vec<_>>();
        assert_eq!(filter(&["pid"], &tids(2)), "pid == 1 || pid == 2");
        let both = "prev_pid == 1 || next_pid == 1";
        assert_eq!(filter(&["prev_pid", "next_pid"], &tids(1)), both);
        assert_eq!(filter(&["pid"], &[]), "pid == 2147483647");
        assert_eq!(filter(&["pid"], &tids(61)), "0");
    }
}
