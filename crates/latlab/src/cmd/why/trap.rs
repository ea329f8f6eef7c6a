//! The trap in the measuring loop, and the collector that empties it.

use super::limit::Range;
use crate::outcome::OwnHintExt;
use latlab_analysis::latency::wakeups::LATE_MARK;
use latlab_model::latency::CaptureCounters;
use latlab_model::wakeup::result::LateWake;
use latlab_sys::platform_counters::{CounterSample, PlatformCounters};
use latlab_sys::recorder::{FlightRecorder, Format, Snapshot};
use latlab_sys::tracefs::{Marker, TraceStopper};
use latlab_sys::wakeup::Next;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What the measuring threads share with the collector. Used inside the loop: no allocation, no lock.
pub struct Trap {
    trace_stopper: TraceStopper,
    marker: Marker,
    /// Over this is late, ns; may be lowered.
    low: AtomicU64,
    /// Up to this, ns.
    high: u64,
    /// For the loop: later than this springs it.
    pub late_ns: AtomicU64,
    sprung: AtomicBool,
    /// Number of the capture that it makes next, from 1.
    capture: AtomicU32,
}

impl Trap {
    /// A trap that is not set yet.
    pub fn new(flight: &FlightRecorder, range: Range) -> anyhow::Result<Self> {
        Ok(Self {
            trace_stopper: flight.trace_stopper()?,
            marker: flight.marker()?,
            low: AtomicU64::new(range.0),
            high: range.1,
            late_ns: AtomicU64::new(u64::MAX),
            sprung: AtomicBool::new(false),
            capture: AtomicU32::new(1),
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

    /// Called by the loop for a late wake-up.
    pub fn spring(&self, late: &LateWake) -> Next {
        if late.latency_ns > self.high || self.sprung.swap(true, Ordering::AcqRel) {
            return Next::Continue;
        }
        let mut line = [0u8; 128];
        let mut rest = &mut line[..];
        let (tid, intended, latency) = (late.tid, late.intended_ns, late.latency_ns);
        let capture = self.capture.load(Ordering::Relaxed);
        let _ = write!(
            rest,
            "{LATE_MARK} capture={capture} tid={tid} intended={intended} latency={latency}"
        );
        let used = 128 - rest.len();
        let _ = self.marker.write(&line[..used]);
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
    last_sample: CounterSample,
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
    /// What was counted between them.
    pub counters: Vec<CaptureCounters>,
    /// Time in which the trap was not set.
    pub dead: Duration,
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
            last_sample: counters.sample(),
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
    pub fn finish(mut self) -> anyhow::Result<Caught> {
        if self.filling.is_none() {
            self.tick();
        }
        if let Some(error) = self.error {
            return Err(error);
        }
        Ok(Caught { saved: self.saved, counters: self.capture_counters, dead: self.dead })
    }

    /// Takes the buffer out, arms the recorder, and only then writes the file.
    fn collect(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        let snapshot = self.flight.snapshot().with_hint()?;
        let sample = self.counters.sample();
        let (steal_ns, smi) = sample.delta(&self.last_sample);
        self.last_sample = sample;
        if self.saved.len() + 1 < self.most {
            self.flight.rearm().with_hint()?;
            self.filling = Some(Instant::now());
        }
        self.dead += begun.elapsed();
        self.save(&snapshot, steal_ns, smi)
    }

    fn save(
        &mut self,
        snapshot: &Snapshot,
        steal_ns: Option<u64>,
        smi: Option<u64>,
    ) -> anyhow::Result<()> {
        let name = format!("{:03}.dat", self.saved.len() + 1);
        let path = self.folder.join(&name);
        snapshot.save(&path, Format::default()).with_hint()?;
        self.saved.push(path);
        let capture = self.saved.len() as u32;
        self.capture_counters.push(CaptureCounters { capture, steal_ns, smi });
        Ok(())
    }
}
