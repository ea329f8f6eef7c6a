//! The recording of a watch: one tracing instance that is read without a stop.
//!
//! Each look takes what was recorded since the one before: the events of the watched threads go into a window in which
//! activations are found, the pages into a history of bounded size from which captures are made.

use super::events::{self, NEEDED, NO_FILTER};
use super::history::History;
use super::spans::{Spans, of_capture};
use super::tasks::Threads;
use crate::outcome::OwnHintExt;
use crate::trace_input;
use anyhow::anyhow;
use latlab_analysis::latency::activations::from_capture::{Chosen, Known, Thread};
use latlab_analysis::latency::activations::spans::Ends;
use latlab_analysis::latency::from_trace;
use latlab_analysis::watch::choice::Incident;
use latlab_analysis::watch::follow::{Follow, Fresh};
use latlab_analysis::watch::lead::{Lead, lead, lead_of_span};
use latlab_analysis::watch::recent::Recent;
use latlab_model::units::{Nanos, TraceNs};
use latlab_model::watch::Level;
use latlab_sys::recorder::{
    EventSpec, FlightRecorder, Format, INCOMPLETE, Kallsyms, Pages, RecordConfig, RecordError,
    Snapshot,
};
use latlab_sys::tracefs::{Selection, Tracefs};
use latlab_sys::{clock, machine};
use latlab_trace::{KnownFormats, Select};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// The window of activations begins at least so long before the last look, and at most.
const OVERLAP: Nanos = Nanos(100_000_000);
const LONGEST: Nanos = Nanos(20_000_000_000);
/// So long while a thread is there of which no activation is known, if that has few events.
const UNRESOLVED: Nanos = Nanos(6_000_000_000);
const UNRESOLVED_EVENTS: usize = 1 << 14;
/// A capture begins so long before the late activation, and at least as many periods.
const BEFORE: Nanos = Nanos(2_000_000_000);
const PERIODS_BEFORE: u64 = 100;
/// Ring buffer of each CPU at first at least, KiB, and at most.
const BUFFER_KB: u64 = 1_024;
const FIRST_KB: u64 = 4_096;
/// Share of the available memory up to which ring buffers grow, where that is more than they may have anyway.
const MEMORY_SHARE: u64 = 256;
/// Looks after which the kernel's symbols are chosen again: soon after the first time, and for new threads, at least.
const SYMBOLS_EVERY: u64 = 7_200;
const SYMBOLS_SOON: u64 = 20;
const SYMBOLS_AGAIN: u64 = 600;
/// Markers that are written to learn the cost of an event, in each of some rounds.
const MARK: &[u8] = b"latlab watch: cost of an event\n";
const MARKERS: u32 = 100;
const ROUNDS: u32 = 20;
/// That cost where it cannot be learned, and at least, ns.
const UNKNOWN_NS: f64 = 500.0;
const LEAST_NS: f64 = 20.0;

/// Records, counts activations, and keeps what captures need.
#[derive(Debug)]
pub(super) struct Recording {
    flight: FlightRecorder,
    /// Of each event the filter that is set; `None`: it is not enabled.
    set: Vec<Option<String>>,
    level: Level,
    threads: Threads,
    follow: Follow,
    recent: Recent,
    /// Its probes are removed after the instance.
    spans: Spans,
    /// The begin of the last look, and how long before it the window begins.
    looked: TraceNs,
    overlap: Nanos,
    history: History,
    /// Bytes of the history.
    most: usize,
    formats: KnownFormats,
    symbols: Symbols,
    seen: (u64, u64),
    /// Ring buffer of each CPU, and at most, KiB.
    buffer_kb: (u64, u64),
}

/// What a look brought.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// The activations.
    pub(super) fresh: Fresh,
    /// The spans, by the number of their entry.
    pub(super) spans: Vec<(usize, Thread)>,
    /// Events that were recorded since the last look.
    pub(super) events: u64,
    /// Events that were lost, in the ring buffer or because the window has no place for them.
    pub(super) lost: u64,
}

/// When the kernel's symbols are chosen: that takes as much CPU time as some seconds of the budget.
#[derive(Debug, Default)]
struct Symbols {
    /// Looks so far.
    looks: u64,
    /// At which look they were chosen, and are to be again at the latest.
    chosen: Option<u64>,
    next: u64,
}

impl Symbols {
    fn are_due(&self) -> bool {
        self.looks >= self.next
    }

    fn chosen(&mut self) {
        let after = if self.chosen.is_none() { SYMBOLS_SOON } else { SYMBOLS_EVERY };
        self.next = self.looks + after;
        self.chosen = Some(self.looks);
    }

    /// Others may be met by the new ones.
    fn threads_came(&mut self) {
        self.next = self.next.min(self.chosen.map_or(0, |at| at + SYMBOLS_AGAIN));
    }
}

impl Recording {
    /// Begins to record everything of threads and spans. A history of `most` bytes is kept. The ring buffers grow up to half of it for all CPUs
    /// together, or a small share of the available memory.
    ///
    /// # Errors
    /// When the kernel lacks the events of the scheduler, or refuses.
    pub(super) fn start(
        tracefs: &Tracefs,
        (threads, mut spans): (Threads, Spans),
        most: u64,
    ) -> anyhow::Result<Self> {
        let available = machine::condition().available_bytes.unwrap_or(0) / MEMORY_SHARE;
        let cpus = machine::online_cpus().len().max(1) as u64;
        let most_kb = ((most / 2).max(available) / cpus / 1_024).max(BUFFER_KB);
        let first_kb = (most_kb / 4).clamp(BUFFER_KB, FIRST_KB);
        let mut recording = Self {
            flight: prepare(tracefs, first_kb, &mut spans)?,
            set: Vec::new(),
            level: Level::All,
            threads,
            follow: Follow::default(),
            recent: Recent::default(),
            spans,
            looked: TraceNs(0),
            overlap: OVERLAP,
            history: History::default(),
            most: usize::try_from(most).unwrap_or(usize::MAX),
            formats: KnownFormats::default(),
            symbols: Symbols::default(),
            seen: (0, 0),
            buffer_kb: (first_kb, most_kb),
        };
        recording.begin()?;
        Ok(recording)
    }

    /// Makes the instance anew, where somebody removed, stopped or changed it.
    ///
    /// # Errors
    /// As [`Recording::start`].
    pub(super) fn begin_again(
        &mut self,
        tracefs: &Tracefs,
        threads: Threads,
    ) -> anyhow::Result<()> {
        // Probes are removed only where nobody records them. Where the instance is gone, its events are too.
        let session = self.flight.session();
        let is_end = |s: &&Selection| self.spans.filter(&s.name(), &self.threads).is_some();
        for selection in session.selections().iter().filter(is_end) {
            let _ = session.control().disable(selection);
        }
        self.flight = prepare(tracefs, self.buffer_kb.0, &mut self.spans)?;
        self.threads = threads;
        (self.symbols, self.seen) = (Symbols::default(), (0, 0));
        self.begin()?;
        self.recent.clear(self.looked, TraceNs(clock::now().0));
        Ok(())
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        // What is prepared is enabled, without a filter.
        self.set = vec![Some(NO_FILTER.into()); self.flight.session().selections().len()];
        self.select()?;
        self.flight.rearm().with_hint()?;
        self.history = History::since_now(TraceNs(clock::now().0));
        Ok(())
    }

    /// Enables and filters the events of the level. The kernel waits for all CPUs with each change: nothing is set twice.
    fn select(&mut self) -> anyhow::Result<()> {
        let session = self.flight.session();
        for (selection, set) in session.selections().iter().zip(&mut self.set) {
            let name = selection.name();
            let of_ends = self.spans.filter(&name, &self.threads);
            let of_level = events::filter(&name, self.level, &self.threads.all);
            let wanted = match (of_ends, of_level) {
                // What is recorded for both is recorded of all.
                (Some(ends), Some(level)) if ends != level => Some(NO_FILTER.into()),
                (ends, level) => ends.or(level),
            };
            if *set == wanted {
                continue;
            }
            match &wanted {
                Some(filter) => {
                    session.control().set_filter(selection, filter).with_hint()?;
                    session.control().enable(selection).with_hint()?;
                }
                None => session.control().disable(selection).with_hint()?,
            }
            *set = wanted;
        }
        Ok(())
    }

    /// Watches these threads from now on. Filters change only for new ones: the number of one that went does no harm in them.
    ///
    /// # Errors
    /// When the kernel refuses a filter.
    pub(super) fn watch(&mut self, threads: Threads) -> anyhow::Result<()> {
        let has_new = threads.all.iter().any(|tid| self.threads.all.binary_search(tid).is_err());
        self.threads = threads;
        let tasks = &self.threads.tasks;
        self.follow.keep(|tid| tasks.binary_search(&tid).is_ok());
        if has_new {
            self.select()?;
            self.symbols.threads_came();
        }
        Ok(())
    }

    /// Records more or less for captures from now on.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn set_level(&mut self, level: Level) -> anyhow::Result<()> {
        let before = std::mem::replace(&mut self.level, level);
        self.select()?;
        if before == Level::Off || level == Level::Off {
            self.history = History::since_now(TraceNs(clock::now().0));
        }
        Ok(())
    }

    /// Bytes at most that are kept for captures.
    pub(super) fn most(&self) -> u64 {
        self.most as u64
    }

    /// From when on captures can be made; `None`: what they need is not recorded.
    pub(super) fn since(&self) -> Option<TraceNs> {
        (self.level != Level::Off).then(|| self.history.since())
    }

    /// What begins the activations of each thread.
    pub(super) fn known(&self) -> &Known {
        self.follow.known()
    }

    /// Whether a program with a probe was replaced.
    pub(super) fn is_replaced(&mut self) -> bool {
        self.spans.are_replaced()
    }

    /// Whether the buffer is being written to; others may have stopped it.
    pub(super) fn is_on(&self) -> bool {
        self.flight.is_on()
    }

    /// Whether its events are enabled as they were: others may have changed or removed them.
    pub(super) fn is_intact(&self) -> bool {
        let session = self.flight.session();
        let is_right = |(s, set): (&Selection, &Option<String>)| {
            let Selection::Event(e) = s else { return true };
            let file = Path::new("events").join(&e.system).join(&e.name).join("enable");
            session.control().get(file).is_ok_and(|text| text.starts_with('1') == set.is_some())
        };
        session.selections().iter().zip(&self.set).all(is_right)
    }

    /// Reads what was recorded since the last look.
    ///
    /// # Errors
    /// When the buffer cannot be read.
    pub(super) fn look(&mut self) -> anyhow::Result<Looked> {
        let now = clock::now().0;
        let pages = self.flight.take_pages().with_hint()?;
        let taken = TraceNs(clock::now().0);
        let is_empty = pages.iter().all(|p| p.1.is_empty());
        if !is_empty && self.symbols.are_due() {
            self.flight.keep_symbols_of(&pages).with_hint()?;
            self.symbols.chosen();
        }
        self.symbols.looks += 1;
        let counts = self.flight.counts();
        let events = counts.0.saturating_sub(self.seen.0);
        let lost = counts.1.saturating_sub(self.seen.1);
        self.seen = counts;
        let fullest = pages.iter().map(|p| p.1.len() as u64 / 1_024).max().unwrap_or(0);
        let begin = self.looked.0.saturating_sub(self.overlap.0);
        let held = self.spans.hold(self.follow.held(), self.looked);
        self.recent.forget(TraceNs(begin), &held);
        self.looked = TraceNs(now);
        let unseen = self.add(taken, pages)?;
        let horizon = TraceNs(now.saturating_sub(INCOMPLETE.0));
        let fresh = self.find(horizon);
        let spans = self.spans.take(self.recent.capture(), horizon, &self.threads);
        self.enlarge(fullest, lost)?;
        Ok(Looked { fresh, spans, events, lost: lost + unseen })
    }

    /// Adds pages that were taken until a time to window and history. How many of their events the window has no place for.
    fn add(&mut self, taken: TraceNs, pages: Pages) -> anyhow::Result<u64> {
        if pages.iter().all(|p| p.1.is_empty()) {
            return Ok(0);
        }
        let recording = self.flight.recording(pages);
        let format = Format { kallsyms: Kallsyms::All, ..Format::uncompressed() };
        let bytes = recording.to_bytes(format).with_hint()?;
        let file = trace_input::open_after(&bytes, "watch".as_ref(), Some(&mut self.formats))?;
        let unseen = self.recent.add(&file, &Select::default(), &self.threads.all);
        let unseen = unseen + self.spans.add(&file)?;
        let most = if self.level == Level::Off { 0 } else { self.most };
        self.history.push(taken, recording.pages, most);
        Ok(unseen)
    }

    /// The activations that ended since the last look and up to `horizon`.
    fn find(&mut self, horizon: TraceNs) -> Fresh {
        let window = self.recent.capture();
        let tasks = &self.threads.tasks;
        if tasks.is_empty() || window.events.is_empty() {
            return Fresh::default();
        }
        let fresh = self.follow.take(window, &Chosen::Tids(tasks.clone()), horizon);
        // So long that the longest activation, and a handful of periods, fit.
        let wanted = (fresh.longest.0.saturating_mul(2)).max(fresh.distance.0.saturating_mul(6));
        let mut overlap = wanted.clamp(OVERLAP.0, LONGEST.0);
        if fresh.unresolved && window.events.len() < UNRESOLVED_EVENTS {
            overlap = overlap.max(UNRESOLVED.0);
        }
        self.overlap = Nanos(overlap);
        fresh
    }

    /// Enlarges ring buffers that lost events, or of which the fullest was more than half full: the next time that this process
    /// does not get the CPU for so long, or for twice as long, they hold it.
    ///
    /// Meanwhile the kernel records nothing: activations and captures do not go beyond this time.
    fn enlarge(&mut self, fullest_kb: u64, lost: u64) -> anyhow::Result<()> {
        let (now, most) = self.buffer_kb;
        let next = wanted_kb(now, fullest_kb, lost).min(most);
        if next <= now {
            return Ok(());
        }
        let from = TraceNs(clock::now().0);
        let set = self.flight.session().control().set_buffer_kb(next);
        let to = TraceNs(clock::now().0);
        let pages = self.flight.take_pages().with_hint()?;
        self.add(to, pages)?;
        self.recent.lose(from, to);
        self.spans.lose();
        self.history = History::since_now(to);
        match set {
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
        Ok(())
    }

    /// What was recorded around a late activation until the last look.
    ///
    /// # Errors
    /// None that pages in memory can make.
    pub(super) fn capture(&self, incident: &Incident) -> Result<Taken, RecordError> {
        let before = BEFORE.0.max(incident.period.0.saturating_mul(PERIODS_BEFORE));
        let from = incident.job.intended.0.saturating_sub(before);
        let (since, pages) = self.history.pages(TraceNs(from));
        let ends = incident.span.and_then(|number| self.spans.ends(number)).cloned();
        Ok(Taken { snapshot: self.flight.complete_recording(pages)?, since, ends })
    }

    /// Time that an event takes, ns: by how much a marker written to this buffer takes longer than a write to `/dev/null`,
    /// which is a system call as well.
    pub(super) fn event_ns(&self) -> f64 {
        let (Ok(marker), Ok(null)) = (self.flight.marker(), File::create("/dev/null")) else {
            return UNKNOWN_NS;
        };
        let event = least_ns(|| marker.write(MARK).is_ok());
        let call = least_ns(|| (&null).write(MARK).is_ok());
        match event - call {
            ns if ns.is_finite() => ns.clamp(LEAST_NS, 1e6),
            _ => UNKNOWN_NS,
        }
    }
}

/// The least time of a call in several rounds, ns.
fn least_ns(mut call: impl FnMut() -> bool) -> f64 {
    let mut round = |_| {
        let since = Instant::now();
        let done = (0..MARKERS).filter(|_| call()).count();
        since.elapsed().as_nanos() as f64 / done as f64
    };
    (0..ROUNDS).map(&mut round).fold(f64::INFINITY, f64::min)
}

/// A capture in memory.
#[derive(Debug)]
pub(super) struct Taken {
    snapshot: Snapshot,
    /// From when on it has everything.
    since: TraceNs,
    /// Those of the spans that it is about.
    ends: Option<Ends>,
}

impl Taken {
    /// The main part of an activation; `None`: it is not in the capture.
    ///
    /// # Errors
    /// When the recording cannot be read.
    pub(super) fn lead(&self, incident: &Incident, known: &Known) -> anyhow::Result<Option<Lead>> {
        let format = Format { kallsyms: Kallsyms::All, ..Format::uncompressed() };
        let bytes = self.snapshot.to_bytes(format).with_hint()?;
        let file = trace_input::open(&bytes, "capture".as_ref())?;
        let mut capture = from_trace::capture(&file, "capture");
        // A CPU without events is idle, not missing.
        capture.covered_from = self.since;
        let Incident { tid, job, late, .. } = *incident;
        Ok(match &self.ends {
            Some(ends) => {
                let threads = of_capture(&file, &capture, ends)?;
                lead_of_span(capture, &threads, tid, job, late)
            }
            None => lead(capture, tid, job, late, known),
        })
    }

    /// Writes it as a trace.dat.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn save(&self, path: &Path) -> Result<(), RecordError> {
        self.snapshot.save(path, Format { kallsyms: Kallsyms::All, ..Format::default() })
    }
}

/// The instance, with tracing off.
fn prepare(tracefs: &Tracefs, buffer_kb: u64, spans: &mut Spans) -> anyhow::Result<FlightRecorder> {
    let known = tracefs.events().with_hint()?;
    let has = |name: &str| known.iter().any(|e| format!("{}:{}", e.system, e.name) == name);
    if let Some(missing) = NEEDED.iter().find(|name| !has(name)) {
        return Err(anyhow!("{missing}: this kernel does not have the event"));
    }
    if !tracefs.clocks().with_hint()?.0.iter().any(|c| c == "mono") {
        return Err(anyhow!("trace clock mono: this kernel does not have it"));
    }
    let mut config = RecordConfig {
        events: events::names().filter(|name| has(name)).map(EventSpec::new).collect(),
        clock: Some("mono".into()),
        buffer_kb: Some(buffer_kb),
        ..RecordConfig::default()
    };
    spans.prepare(tracefs, &mut config)?;
    FlightRecorder::prepare(tracefs, &config).with_hint()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool whose threads come and go takes no more time for them.
    #[test]
    fn symbols_are_not_chosen_with_each_new_thread() {
        let mut symbols = Symbols::default();
        let mut chosen = Vec::new();
        for look in 0..3_000 {
            if symbols.are_due() {
                symbols.chosen();
                chosen.push(look);
            }
            symbols.looks += 1;
            symbols.threads_came();
        }
        assert_eq!(chosen, [0, 20, 620, 1_220, 1_820, 2_420]);
    }

    #[test]
    fn ring_buffers_hold_twice_what_came() {
        assert_eq!(wanted_kb(1_024, 512, 0), 1_024);
        assert_eq!(wanted_kb(1_024, 516, 0), 2_048);
        assert_eq!(wanted_kb(1_024, 1_024, 7), 2_048);
        // What was left by a buffer that could not grow before.
        assert_eq!(wanted_kb(1_024, 3_000, 1), 8_192);
    }
}
