//! A program while it is recorded, in intervals, each of which is analysed at once; those with late activations are kept
//! as captures.
//!
//! The kernel's buffer is read while it records, and an interval is as long as the buffer holds at the rate of events
//! seen so far. An interval is analysed with the end of the one before: an activation that begins in one and ends in
//! another is seen as a whole. Only what the window cannot hold is cut.

use super::activations::{add, explain};
use super::counting::Counting;
use super::ends::Finder;
use super::target::Target;
use super::user_stacks;
use super::window::Window;
use crate::outcome::{HintExt, OwnHintExt};
use crate::progress::Progress;
use crate::trace_input;
use anyhow::{Context, anyhow};
use latlab_analysis::latency::activations::Late;
use latlab_analysis::latency::activations::from_capture::{Chosen, Thread};
use latlab_analysis::latency::activations::spans::{Ending, Found};
use latlab_analysis::latency::activations::summary::{Gathered, known, rank};
use latlab_analysis::latency::capture::Capture;
use latlab_analysis::latency::captures::{finish, gather, longest};
use latlab_analysis::latency::from_trace;
use latlab_model::event::Event;
use latlab_model::latency::{CaptureSession, SystemContext, WhyResult};
use latlab_model::units::{Nanos, TraceNs, format_ns};
use latlab_sys::recorder::{FlightRecorder, Format, INCOMPLETE, Snapshot};
use latlab_sys::{clock, signal};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The first interval, and the limits of later ones.
const FIRST: Duration = Duration::from_millis(300);
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(5);
/// Between two looks at a signal or the end of the program.
const LOOK: Duration = Duration::from_millis(20);
/// Between two times that rings are emptied during an analysis.
const DRAIN: Duration = Duration::from_millis(5);
/// Between two looks for new threads, at least.
const NEW_THREADS: Duration = Duration::from_millis(100);
/// Captures that are kept while no deadline is known.
const WORST: usize = 12;

/// A program while it is recorded.
pub(super) struct Recording<'a> {
    late: Option<Late>,
    /// The period, where it is given.
    pub(super) period: Option<Nanos>,
    pub(super) most: usize,
    /// For captures; `None`: none are kept.
    pub(super) folder: Option<PathBuf>,
    length: Duration,
    /// Captures with the longest time of an activation in each, ns.
    kept: Vec<(u64, PathBuf)>,
    pub(super) threads: Vec<Gathered>,
    pub(super) session: CaptureSession,
    progress: Progress,
    /// The threads of all intervals.
    chosen: Chosen,
    /// When it was last looked whether the program is there.
    looked: Instant,
    /// When its threads were looked for.
    followed: Instant,
    finder: &'a Finder,
    /// Counters of the program's threads.
    pub(super) counting: Counting,
    /// User stacks of them.
    pub(super) stacks: user_stacks::Recording,
    /// Events of both ends of spans.
    seen: Found,
    /// Spans that end until then are found.
    told: TraceNs,
    /// What is kept of the intervals before.
    window: Window,
}

/// What ends an interval.
struct Interval {
    number: u32,
    /// Bytes of a CPU that are kept at most for the next one.
    most: u64,
    /// Activations that end after this may not be complete.
    horizon: TraceNs,
    is_last: bool,
}

/// How an interval ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Full,
    Gone,
    Stopped,
}

impl<'a> Recording<'a> {
    /// Of activations alone.
    pub(super) fn new(finder: &'a Finder, late: Option<Late>, length: Duration) -> Self {
        Self {
            late,
            period: None,
            most: 0,
            folder: None,
            length,
            kept: Vec::new(),
            threads: Vec::new(),
            session: CaptureSession::default(),
            progress: Progress::new("why"),
            chosen: Chosen::Tids(Vec::new()),
            looked: Instant::now(),
            followed: Instant::now(),
            counting: Counting::new(false),
            stacks: user_stacks::Recording::new(false),
            finder,
            seen: Found::default(),
            told: TraceNs(0),
            window: Window::default(),
        }
    }

    /// Records what `begin` starts when the recording has begun.
    ///
    /// # Errors
    /// When it cannot be recorded or started.
    pub(super) fn run(
        mut self,
        flight: &mut FlightRecorder,
        begin: impl FnOnce() -> anyhow::Result<Target>,
    ) -> anyhow::Result<(Self, Target)> {
        let capacity = flight.session().buffer_kb().max(1) * 1024;
        let mut target = begin()?;
        self.follow(&target);
        let started = Instant::now();
        let (mut interval, mut number) = (FIRST, 0);
        loop {
            let left = self.length.saturating_sub(started.elapsed());
            let chosen = target.chosen();
            let ended = self.wait(interval.min(left), &mut target, started);
            let is_last = ended != Ended::Full || left <= interval;
            let now = clock::now().0;
            let snapshot = if is_last { flight.snapshot() } else { flight.read() }.with_hint()?;
            let fullest = snapshot.pages.iter().map(|p| p.1.len() as u64).max().unwrap_or(0);
            interval = next_length(interval, fullest, capacity);
            number += 1;
            let horizon = if is_last { u64::MAX } else { now.saturating_sub(INCOMPLETE.0) };
            let horizon = TraceNs(horizon);
            let of = Interval { number, most: capacity, horizon, is_last };
            // Threads that were there at the beginning of the interval or at its end.
            self.take(snapshot, merged(chosen, target.chosen()), &of)?;
            if is_last || self.is_enough() {
                self.session.duration_ns = started.elapsed().as_nanos() as u64;
                return Ok((self, target));
            }
        }
    }

    /// Counts and samples the program's threads from now on.
    fn follow(&mut self, target: &Target) {
        if !self.counting.is_on() && !self.stacks.is_on() {
            return;
        }
        let tids = target.tids();
        self.counting.follow(&tids);
        self.stacks.follow(&tids);
        self.followed = Instant::now();
    }

    /// As many captures as were asked for.
    fn is_enough(&self) -> bool {
        self.folder.is_some() && self.late.is_some() && self.kept.len() >= self.most
    }

    fn wait(&mut self, length: Duration, target: &mut Target, started: Instant) -> Ended {
        let begun = Instant::now();
        while begun.elapsed() < length {
            if signal::stop_requested().is_some() {
                return Ended::Stopped;
            }
            if self.looked.elapsed() >= target.every() {
                self.looked = Instant::now();
                if target.is_gone() {
                    return Ended::Gone;
                }
            }
            let done = started.elapsed().as_secs_f64() / self.length.as_secs_f64().max(1e-9);
            let most =
                self.threads.iter().flat_map(|t| t.jobs.last()).map(|j| j.response().0).max();
            let seen = self.threads.iter().map(|t| t.jobs.len()).sum::<usize>();
            let words = match most {
                Some(ns) => format!("{seen} activations, last {}", format_ns(ns as f64)),
                None => "no activation yet".to_owned(),
            };
            self.progress.set(Some(done), &words);
            self.counting.take();
            self.stacks.take();
            if self.followed.elapsed() >= target.every().max(NEW_THREADS) {
                self.follow(target);
            }
            std::thread::sleep(LOOK.min(length.saturating_sub(begun.elapsed())));
        }
        Ended::Full
    }

    /// Analyses an interval, and keeps it if it has a late activation, or one of the longest.
    fn take(&mut self, snapshot: Snapshot, chosen: Chosen, of: &Interval) -> anyhow::Result<()> {
        let since = self.window.since();
        let snapshot = self.window.with(snapshot);
        let before = std::mem::replace(&mut self.chosen, Chosen::Tids(Vec::new()));
        self.chosen = merged(before, chosen);
        let (capture, mut found, open) = self.analyse(&snapshot, since, of)?;
        if capture.clock_is_monotonic {
            found.iter_mut().for_each(|thread| thread.jobs.retain(|j| j.end <= of.horizon));
        }
        let needed: Vec<_> = found.iter().map(|t| (t.tid, t.needed_from())).collect();
        let by_name = matches!(self.chosen, Chosen::Name(_));
        let fresh = gather(found, by_name, self.late, &mut self.threads);
        self.threads.iter_mut().for_each(|thread| thread.given_period = self.period);
        rank(&mut self.threads, self.late.unwrap_or_default());
        let (begin, end) = ends(&capture);
        let can_keep = |from: &TraceNs| Window::fits(&snapshot, (*from, end), of.most);
        let from = if of.is_last {
            None
        } else if self.finder.names().is_some() {
            // From the earliest open span whose events fit: one that never ends is left out.
            let begins: Vec<TraceNs> = open.into_iter().chain([of.horizon]).collect();
            let first = begins.partition_point(|from| !can_keep(from));
            begins.get(first).copied().filter(|_| capture.clock_is_monotonic)
        } else {
            // Without an activation of the explained thread its period may be longer than the window.
            let first = self.threads.first();
            let own = first.and_then(|first| needed.iter().find(|n| n.0 == first.tid));
            Some(own.and_then(|own| own.1).unwrap_or(begin))
        };
        let fits = from.as_ref().is_some_and(can_keep);
        // Those of other threads are not explained.
        let first = self.threads.first();
        if let Some(ns) = first.and_then(|first| longest(first, &fresh, self.late, !fits)) {
            self.keep(ns.0, &snapshot, &capture)?;
        }
        let needed_from = from.filter(|_| fits);
        self.counting.assign(&fresh, &capture, needed_from.unwrap_or(end));
        self.stacks.forget_before(needed_from.unwrap_or(end));
        self.window.keep(snapshot, needed_from);
        Ok(())
    }

    /// What is in a window that has everything since a time, and when the spans began that have not ended.
    fn analyse(
        &mut self,
        snapshot: &Snapshot,
        since: Option<TraceNs>,
        of: &Interval,
    ) -> anyhow::Result<(Capture, Vec<Thread>, Vec<TraceNs>)> {
        let name = format!("{:04}.dat", of.number);
        let part = Ending { after: self.told, until: of.horizon };
        let known = known(&self.threads);
        let (finder, chosen) = (self.finder, &self.chosen);
        let analysis = || -> anyhow::Result<_> {
            let bytes = snapshot.to_bytes(Format::uncompressed()).with_hint()?;
            let file = trace_input::open(&bytes, name.as_ref())?;
            let mut capture = from_trace::capture(&file, &name);
            // Also of a CPU whose first event comes later.
            let covered = since.map_or(capture.covered_from, |t| t.min(capture.covered_from));
            capture.covered_from = covered;
            let part = if capture.clock_is_monotonic { part } else { Ending::default() };
            let (found, seen) = finder.find(&file, &capture, chosen, &known, part)?;
            Ok((capture, found, seen))
        };
        // It can take longer than the rings of counters and stacks hold.
        let (counting, stacks) = (&mut self.counting, &mut self.stacks);
        let (capture, found, seen) = std::thread::scope(|scope| {
            let analysis = scope.spawn(analysis);
            while !analysis.is_finished() {
                counting.take();
                stacks.take();
                std::thread::sleep(DRAIN);
            }
            analysis.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        add(&mut self.seen, &seen);
        self.told = of.horizon;
        Ok((capture, found, seen.open))
    }

    fn keep(&mut self, ns: u64, snapshot: &Snapshot, capture: &Capture) -> anyhow::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let most = if self.late.is_some() { self.most } else { self.most.min(WORST) };
        let least = self.kept.iter().enumerate().min_by_key(|(_, k)| k.0);
        let least = least.map(|(i, k)| (i, k.0)).filter(|_| self.kept.len() >= most);
        match least {
            Some((_, shortest)) if shortest >= ns => return Ok(()),
            Some((i, _)) => {
                let (_, path) = self.kept.swap_remove(i);
                std::fs::remove_file(&path).with_context(|| path.display().to_string())?;
                self.stacks.forget(&path);
            }
            None => {}
        }
        let path = folder.join(&capture.source);
        snapshot.save(&path, Format::default()).with_hint()?;
        self.stacks.keep(&path, capture);
        self.kept.push((ns, path));
        Ok(())
    }

    /// Explains what is late.
    ///
    /// # Errors
    /// When nothing was found, or a capture cannot be read.
    pub(super) fn explain(mut self, context: SystemContext) -> anyhow::Result<WhyResult> {
        self.progress.set(None, "explaining");
        finish(&mut self.threads);
        if self.threads.is_empty() {
            self.finder.nothing(None, &self.seen)?;
            return Err(anyhow!("the task had no activation in {}", format_ns(self.session.duration_ns as f64)))
                .hint("an activation ends when the task sleeps; --task names the thread that works, -D how long it is recorded");
        }
        self.kept.sort_by(|a, b| a.1.cmp(&b.1));
        let files: Vec<PathBuf> = self.kept.into_iter().map(|k| k.1).collect();
        self.stacks.save()?;
        let finding = (self.finder, &self.chosen);
        let work = |tid| self.counting.of(tid);
        let mut result = explain(&files, finding, self.threads, self.late, (context, &[]), work)?;
        if let Some(first) = result.activations.first() {
            (self.session.wakeups, self.session.late) =
                (first.counts.activations, first.counts.late);
        }
        self.session.late_not_captured =
            self.session.late.saturating_sub(result.late_in_captures());
        self.stacks.tell(&mut result);
        result.session = Some(self.session);
        Ok(result)
    }
}

/// The first and the last time of a capture.
fn ends(capture: &Capture) -> (TraceNs, TraceNs) {
    let time = |event: Option<&Event>| event.map_or(TraceNs(0), |e| e.time);
    (time(capture.events.first()), time(capture.events.last()))
}

/// The threads of both.
fn merged(one: Chosen, other: Chosen) -> Chosen {
    match (one, other) {
        (Chosen::Tids(mut one), Chosen::Tids(other)) => {
            one.extend(other);
            one.sort_unstable();
            one.dedup();
            Chosen::Tids(one)
        }
        (Chosen::Tids(_), name) | (name, _) => name,
    }
}

/// So long that the buffer of the busiest CPU is about half full.
fn next_length(now: Duration, fullest: u64, capacity: u64) -> Duration {
    let share = fullest as f64 / capacity as f64;
    let factor = (0.5 / share.max(0.01)).clamp(0.25, 2.0);
    now.mul_f64(factor).clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_fills_half_of_the_buffer() {
        let ms = Duration::from_millis;
        assert_eq!(next_length(ms(400), 1_000, 1_000), ms(200));
        assert_eq!(next_length(ms(400), 0, 1_000), ms(800), "at most twice as long");
        assert_eq!(next_length(ms(4_000), 10, 1_000), LONGEST);
        assert_eq!(next_length(ms(60), 1_000, 1_000), SHORTEST);
    }
}
