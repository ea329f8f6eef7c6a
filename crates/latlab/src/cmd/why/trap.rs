//! The trap in the measuring loop, and the collector that empties it.

use super::limit::Range;
use super::on_time::OnTime;
use crate::outcome::OwnHintExt;
use latlab_analysis::latency::wakeups::LATE_MARK;
use latlab_model::latency::{CaptureCounters, CounterReadings};
use latlab_model::wakeup::mechanism::Mechanism;
use latlab_model::wakeup::result::LateWake;
use latlab_sys::platform_counters::{CounterSample, PlatformCounters};
use latlab_sys::recorder::{FlightRecorder, Format, Snapshot};
use latlab_sys::tracefs::{Marker, TraceStopper};
use latlab_sys::wakeup::Next;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Room for the marker's text: numbers of full length and the threads.
const LINE: usize = 256;
/// Measuring threads that the marker names, beside the late one.
const MEASURING: usize = 8;
/// Between two readings of the counters while nothing is captured.
const READ_EVERY: Duration = Duration::from_millis(250);

/// What the measuring threads share with the collector. Used inside the loop: no allocation, no lock.
pub struct Trap {
    trace_stopper: TraceStopper,
    marker: Marker,
    /// Over this is late, ns; may be lowered.
    low: AtomicU64,
    /// Up to this, ns.
    high: u64,
    /// Over this it springs, ns: `u64::MAX` where it is not set.
    late_ns: AtomicU64,
    /// The last wake-ups of each thread.
    recent: OnTime,
    sprung: AtomicBool,
    /// Number of the capture that it makes next, from 1.
    capture: AtomicU32,
    /// Thread id of latlab's main thread.
    main: u32,
    /// What wakes the measured threads.
    by: Mechanism,
}

impl Trap {
    /// A trap that is not set yet.
    pub fn new(
        flight: &FlightRecorder,
        range: Range,
        threads: usize,
        by: Mechanism,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            trace_stopper: flight.trace_stopper()?,
            marker: flight.marker()?,
            low: AtomicU64::new(range.0),
            high: range.1,
            late_ns: AtomicU64::new(u64::MAX),
            recent: OnTime::new(threads),
            sprung: AtomicBool::new(false),
            capture: AtomicU32::new(1),
            main: std::process::id(),
            by,
        })
    }

    fn set(&self, capture: u32) {
        self.capture.store(capture, Ordering::Relaxed);
        self.sprung.store(false, Ordering::Release);
        self.late_ns.store(self.low.load(Ordering::Relaxed), Ordering::Release);
    }

    /// From now on this is late, also where the trap is set already.
    pub fn lower(&self, ns: u64) {
        let before = self.low.swap(ns, Ordering::Relaxed);
        // Where it has sprung meanwhile, or is not set, there is something else in it.
        let (set, unset) = (Ordering::AcqRel, Ordering::Relaxed);
        let _ = self.late_ns.compare_exchange(before, ns, set, unset);
    }

    /// What is late now, ns.
    pub fn low(&self) -> u64 {
        self.low.load(Ordering::Relaxed)
    }

    /// Called by the loop for each wake-up.
    pub fn spring(&self, late: &LateWake) -> Next {
        if late.latency_ns <= self.late_ns.load(Ordering::Acquire)
            || late.latency_ns > self.high
            || self.sprung.swap(true, Ordering::AcqRel)
        {
            self.recent.add(late);
            return Next::Continue;
        }
        let mut line = [0u8; LINE];
        let mut rest = &mut line[..];
        let (tid, intended, latency) = (late.tid, late.intended_ns, late.latency_ns);
        let capture = self.capture.load(Ordering::Relaxed);
        let _ = write!(
            rest,
            "{LATE_MARK} capture={capture} tid={tid} intended={intended} latency={latency}"
        );
        let _ = write!(rest, " by={} threads={}", self.by.id(), self.main);
        // Measuring threads that have woken before, as many as there is room for.
        for tid in self.recent.threads().filter(|&t| t != tid).take(MEASURING) {
            let _ = write!(rest, ",{tid}");
        }
        let used = LINE - rest.len();
        let _ = self.marker.write(&line[..used]);
        let mut text = [0u8; super::on_time::TEXT];
        let used = self.recent.text(late, &mut text);
        let _ = self.marker.write(&text[..used]);
        let _ = self.trace_stopper.stop();
        self.late_ns.store(u64::MAX, Ordering::Release);
        Next::Continue
    }
}

/// Saves what the trap caught and sets it again. Runs on the main thread.
pub struct Collector<'a> {
    trap: &'a Trap,
    flight: &'a mut FlightRecorder,
    folder: PathBuf,
    most: usize,
    /// Captures on disk.
    pub saved: Vec<PathBuf>,
    capture_counters: Vec<CaptureCounters>,
    counters: &'a PlatformCounters,
    last_sample: (CounterSample, Instant),
    readings: CounterReadings,
    /// The buffer fills since then; the trap is not set yet.
    filling: Option<Instant>,
    history: Duration,
    dead: Duration,
    error: Option<anyhow::Error>,
}

/// What a collector brought home.
pub struct Caught {
    /// Captures on disk.
    pub saved: Vec<PathBuf>,
    /// What was counted round each of them.
    pub counters: Vec<CaptureCounters>,
    /// How often the counters rose while nothing was captured.
    pub readings: CounterReadings,
    /// Time in which the trap was not set.
    pub dead: Duration,
    /// What ended it before its time.
    pub error: Option<anyhow::Error>,
}

impl<'a> Collector<'a> {
    /// The trap is set once the buffer holds `history`: a capture that begins with the late
    /// wake-up itself explains nothing.
    pub fn new(
        trap: &'a Trap,
        flight: &'a mut FlightRecorder,
        folder: PathBuf,
        most: usize,
        history: Duration,
        counters: &'a PlatformCounters,
    ) -> Self {
        Self {
            trap,
            flight,
            folder,
            most,
            saved: Vec::new(),
            capture_counters: Vec::new(),
            counters,
            last_sample: (counters.sample_with_limits(), Instant::now()),
            readings: CounterReadings::default(),
            filling: Some(Instant::now()),
            history,
            dead: Duration::ZERO,
            error: None,
        }
    }

    /// Looks whether something was caught.
    pub fn tick(&mut self) -> Next {
        if self.error.is_some() || self.saved.len() >= self.most {
            return Next::Stop;
        }
        if let Some(since) = self.filling {
            if since.elapsed() >= self.history {
                self.filling = None;
                self.dead += since.elapsed();
                self.trap.set(self.saved.len() as u32 + 1);
            }
            return Next::Continue;
        }
        if !self.trap.sprung.load(Ordering::Acquire) {
            self.read_counters();
            return Next::Continue;
        }
        match self.collect() {
            Ok(()) if self.saved.len() >= self.most => Next::Stop,
            Ok(()) => Next::Continue,
            Err(error) => {
                self.error = Some(error);
                Next::Stop
            }
        }
    }

    /// Takes in what was caught last.
    pub fn finish(mut self) -> Caught {
        if self.filling.is_none() {
            self.tick();
        }
        let Self { saved, capture_counters: counters, readings, dead, error, .. } = self;
        Caught { saved, counters, readings, dead, error }
    }

    /// Takes the buffer out, writes the file, and only then arms the recorder: a kernel without preemption
    /// delays the measured threads while the file is written, and no capture may hold that.
    fn collect(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        let snapshot = self.flight.snapshot().with_hint()?;
        let counters = CaptureCounters { capture: self.saved.len() as u32 + 1, ..self.counted() };
        self.save(&snapshot, counters)?;
        if self.saved.len() < self.most {
            self.flight.rearm().with_hint()?;
            self.filling = Some(Instant::now());
        }
        self.dead += begun.elapsed();
        Ok(())
    }

    /// What was counted since the last reading, and how long ago that was.
    fn counted(&mut self) -> CaptureCounters {
        let (sample, now) = (self.counters.sample_with_limits(), Instant::now());
        let (steal_ns, smi) = sample.delta(&self.last_sample.0);
        let throttled = sample.throttled(&self.last_sample.0);
        let between = now.duration_since(self.last_sample.1);
        self.last_sample = (sample, now);
        let between_ns = Some(between.as_nanos() as u64);
        CaptureCounters { capture: 0, steal_ns, smi, between_ns, throttled }
    }

    /// A capture's counters are those of a short time, and how often they rise anyway has to be known.
    /// A register of another CPU is read by an interrupt to it: not more often than needed.
    fn read_counters(&mut self) {
        if self.last_sample.1.elapsed() < READ_EVERY {
            return;
        }
        let CaptureCounters { steal_ns, smi, .. } = self.counted();
        self.readings.intervals += 1;
        self.readings.steal += u64::from(steal_ns > Some(0));
        self.readings.smi += u64::from(smi > Some(0));
    }

    fn save(&mut self, snapshot: &Snapshot, counters: CaptureCounters) -> anyhow::Result<()> {
        let name = format!("{:03}.dat", self.saved.len() + 1);
        let path = self.folder.join(&name);
        snapshot.save(&path, Format::default()).with_hint()?;
        self.saved.push(path);
        self.capture_counters.push(counters);
        Ok(())
    }
}
