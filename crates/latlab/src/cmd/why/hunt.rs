//! The hunt: calibrate, choose what to trace, capture late wake-ups, explain them.
//!
//! The measuring loop itself writes the marker and freezes the ring buffer, at its own
//! priority; the main thread, below all of them, saves the capture and arms the recorder
//! again. What is late meanwhile is counted as not captured.

use super::levels::{Level, levels};
use super::{analyse, part};
use crate::cli::Global;
use crate::cli::why::{Args, Asked, Late, Trace};
use crate::outcome::{HintExt, Outcome, OwnHintExt};
use crate::progress::Progress;
use crate::session::Session;
use anyhow::{Context, anyhow};
use latlab_core::explain::activations::LATE_MARK;
use latlab_core::explain::cluster::Surroundings;
use latlab_core::explain::observer::{Effect, Observer, map_window, observe};
use latlab_core::explain::result::{Hunt, WhyResult};
use latlab_core::histogram::Histogram;
use latlab_core::machine::Machine;
use latlab_core::units::{Nanos, format_ns};
use latlab_core::wakeup::{LateWake, WakeupConfig, WakeupResult};
use latlab_sys::load::Load;
use latlab_sys::recorder::{FlightRecorder, Format, Snapshot};
use latlab_sys::tracefs::{Freezer, Marker, Tracefs};
use latlab_sys::wakeup::{Hooks, LiveThread, Next};
use latlab_sys::{policy, signal, wakeup};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Traced and untraced blocks, one of each a pair.
const PAIRS: usize = 4;
/// Late wake-ups that `--limit auto` expects in the hunt.
const EXPECTED: f64 = 25.0;

/// Hunts, explains, keeps.
///
/// # Errors
/// When it cannot be measured or traced, or the result can be neither kept nor printed.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    let asked = args.config(&policy::allowed()?, &policy::online()?)?;
    let found = Tracefs::find().hinted()?;
    let mut session = Session::begin(global, "why", &asked)?;
    let folder = match session.dir() {
        Some(dir) => dir.captures()?,
        None => anyhow::bail!("a hunt needs a run directory"),
    };
    let mut hunter = Hunter::new(asked, found.tracefs, folder);
    let started = Instant::now();
    let load = hunter.start_load(args)?;
    let hunted = hunter.hunt();
    load.finish()?;
    let (hunt, limit, reason) = hunted?;
    let complete = signal::stop_requested().is_none();
    let surroundings = surroundings(&session.run.machine, &hunter, limit);
    let result = hunter.explain(hunt, limit, reason, surroundings)?;
    let duration_ns = started.elapsed().as_nanos() as u64;
    let exceeded = result.hunt.as_ref().is_some_and(|h| h.late > 0)
        && matches!(hunter.asked.late, Late::Over(_));
    session.run.parts.push(part(result, complete, duration_ns));
    if let Some(wakeup) = &hunter.measured {
        let part =
            latlab_core::wakeup::part("wakeup-traced", "Wake-up latency while traced", wakeup);
        session.run.parts.push(part);
    }
    let outcome = session.finish(signal::stop_requested().map(|s| s.name()))?;
    Ok(if exceeded && outcome == Outcome::Done { Outcome::LimitExceeded } else { outcome })
}

/// What a hunt goes through.
struct Hunter {
    asked: Asked,
    tracefs: Tracefs,
    folder: PathBuf,
    saved: Vec<PathBuf>,
    measured: Option<WakeupResult>,
    untraced: Histogram,
    steal_ns: u64,
    progress: Progress,
}

/// Loads that end when this is dropped.
struct Loads {
    built_in: Option<Load>,
    command: Option<Child>,
}

impl Loads {
    /// An error when a built-in load did not last until now.
    fn finish(mut self) -> anyhow::Result<()> {
        crate::cmd::load::finish(self.built_in.take())
    }
}

impl Drop for Loads {
    fn drop(&mut self) {
        if let Some(child) = &mut self.command {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A captured latency range, ns: over the first, up to the second.
type Range = (u64, u64);

impl Hunter {
    fn new(asked: Asked, tracefs: Tracefs, folder: PathBuf) -> Self {
        Self {
            asked,
            tracefs,
            folder,
            saved: Vec::new(),
            measured: None,
            untraced: Histogram::default(),
            steal_ns: 0,
            progress: Progress::new("why"),
        }
    }

    fn start_load(&self, args: &Args) -> anyhow::Result<Loads> {
        let built_in = crate::cmd::load::start(&args.wakeup.load)?;
        let command = match args.command.as_slice() {
            [] => None,
            [program, rest @ ..] => Some(
                Command::new(program)
                    .args(rest)
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .spawn()
                    .with_context(|| format!("starting {program}"))?,
            ),
        };
        Ok(Loads { built_in, command })
    }

    /// Calibrates, chooses, captures. The result: the hunt, the limit in force, and why that limit.
    fn hunt(&mut self) -> anyhow::Result<(Hunt, u64, String)> {
        let begun = Instant::now();
        let mut hunt = Hunt::default();
        let level = self.choose(&mut hunt)?;
        let (range, limit, reason) = self.range(hunt.observer.as_ref())?;
        hunt.traced = level.name.clone();
        if signal::stop_requested().is_none() {
            let total = Duration::from_nanos(self.asked.duration_ns);
            let left = total.saturating_sub(begun.elapsed()).max(total / 2);
            self.capture(&level, range, left, &mut hunt)?;
        }
        Ok((hunt, limit, reason))
    }

    /// Blocks of untraced and traced measurement in turn, from the richest level down to one that bears it.
    fn choose(&mut self, hunt: &mut Hunt) -> anyhow::Result<Level> {
        let levels = levels(&self.tracefs, self.asked.trace).hinted()?;
        let last = levels.len();
        if last == 0 {
            return Err(anyhow!("--trace graph: this kernel has no function_graph tracer"))
                .hint("--trace auto takes the most that there is");
        }
        for (i, level) in levels.into_iter().enumerate() {
            match self.try_level(&level) {
                Ok((observer, limit)) => {
                    let bears = !matches!(observer.effect, Effect::MakesLate | Effect::Changed)
                        || self.asked.trace != Trace::Auto;
                    if bears || i + 1 == last || signal::stop_requested().is_some() {
                        hunt.observer = Some(observer);
                        return Ok(level);
                    }
                    let why = format!(
                        "{}: it changed the distribution (limit {})",
                        level.name,
                        format_ns(limit as f64)
                    );
                    hunt.steps.push(why);
                }
                Err(error) if i + 1 < last => {
                    hunt.steps.push(format!("{}: {error:#}", level.name));
                }
                Err(error) => return Err(error),
            }
        }
        Err(anyhow!("nothing can be traced here"))
    }

    fn try_level(&mut self, level: &Level) -> anyhow::Result<(Observer, u64)> {
        let share = Duration::from_nanos(self.asked.duration_ns) / (10 * PAIRS as u32);
        let block = share.clamp(Duration::from_millis(250), Duration::from_secs(3));
        let (mut off, mut on) = (Vec::new(), Vec::new());
        for pair in 0..PAIRS {
            // In turn, so that drift and order hit both alike.
            for traced in [pair % 2 == 1, pair % 2 == 0] {
                if signal::stop_requested().is_some() {
                    break;
                }
                let done = (2 * pair) as f64 / (2 * PAIRS) as f64;
                self.progress.set(Some(done), &format!("calibrating: {}", level.name));
                let flight = traced.then(|| self.recorder(level)).transpose()?;
                let histogram = self.block(block)?;
                drop(flight);
                if traced { on.push(histogram) } else { off.push(histogram) }
            }
        }
        off.iter().for_each(|h| self.untraced.merge(h));
        let limit = self.limit_of_calibration();
        Ok((observe(&off, &on, limit), limit))
    }

    fn recorder(&self, level: &Level) -> anyhow::Result<FlightRecorder> {
        FlightRecorder::start(&self.tracefs, &level.config).hinted()
    }

    fn block(&self, length: Duration) -> anyhow::Result<Histogram> {
        let config = self.config(length);
        let result = wakeup::run(&config, Hooks::default()).hinted()?;
        Ok(result.all_wakeups())
    }

    fn config(&self, length: Duration) -> WakeupConfig {
        WakeupConfig {
            duration_ns: Some(length.as_nanos() as u64),
            loops: None,
            break_ns: None,
            trace_mark: false,
            samples: false,
            ..self.asked.wakeup.measure.clone()
        }
    }

    /// The limit that the user gave, or the one at which as many late wake-ups are to be expected
    /// as make a cause sure.
    fn limit_of_calibration(&self) -> u64 {
        match self.asked.late {
            Late::Over(ns) | Late::Within(ns, _) => ns,
            Late::Auto => self.auto_limit().0,
        }
    }

    fn auto_limit(&self) -> (u64, String) {
        let measure = &self.asked.wakeup.measure;
        let per_thread = self.asked.duration_ns as f64 / measure.interval_ns.max(1) as f64;
        let expected = per_thread * measure.threads.len().max(1) as f64;
        let q = (1.0 - EXPECTED / expected.max(EXPECTED * 4.0)).clamp(0.9, 0.999_99);
        let median = self.untraced.quantile(0.5).unwrap_or(0);
        let tail = self.untraced.quantile(q).unwrap_or(0);
        let limit = tail.max(2 * median).max(1_000);
        let reason = format!(
            "the larger of p{} of {} untraced wake-ups and twice their median",
            trim(q * 100.0),
            self.untraced.count
        );
        (limit, reason)
    }

    fn range(&self, observer: Option<&Observer>) -> anyhow::Result<(Range, u64, String)> {
        Ok(match self.asked.late {
            Late::Over(ns) => ((ns, u64::MAX), ns, "given".into()),
            Late::Auto => {
                let (ns, reason) = self.auto_limit();
                ((ns, u64::MAX), ns, reason)
            }
            Late::Within(low, high) => {
                let effect = observer.map_or(Effect::CannotTell, |o| o.effect);
                let traced = self.traced_like(observer);
                let mapped = map_window((low, high), &self.untraced, &traced, effect);
                let reason = match mapped {
                    Some((l, h)) => format!(
                        "given as {} to {} untraced, which is {} to {} while traced",
                        format_ns(low as f64),
                        format_ns(high as f64),
                        format_ns(l as f64),
                        format_ns(h as f64)
                    ),
                    None => "given; it could not be mapped onto the traced distribution".into(),
                };
                let (low, high) = mapped.unwrap_or((low, high));
                ((low, high), low, reason)
            }
        })
    }

    /// The untraced distribution, each value moved as its quantile was.
    fn traced_like(&self, observer: Option<&Observer>) -> Histogram {
        let shift = observer.and_then(|o| o.shifts.first()).map_or(0.0, |s| s.shift_ns);
        Histogram::of(self.untraced.buckets.iter().flat_map(|&(low, n)| {
            let moved = low.saturating_add_signed(shift as i64);
            std::iter::repeat_n(moved, n.min(1_000_000) as usize)
        }))
    }

    /// The hunt proper.
    fn capture(
        &mut self,
        level: &Level,
        range: Range,
        length: Duration,
        hunt: &mut Hunt,
    ) -> anyhow::Result<()> {
        let mut flight = self.recorder(level)?;
        let trap = Trap {
            freezer: flight.freezer()?,
            marker: flight.marker()?,
            range,
            late_ns: AtomicU64::new(range.0),
            sprung: AtomicBool::new(false),
        };
        let config = self.config(length);
        let (most, folder) = (self.asked.captures, self.folder.clone());
        let mut collector = Collector {
            trap: &trap,
            flight: &mut flight,
            folder,
            most,
            saved: Vec::new(),
            dead: Duration::ZERO,
            error: None,
        };
        let begun = Instant::now();
        let progress = &mut self.progress;
        let mut on_tick = |threads: &[LiveThread]| {
            let done = begun.elapsed().as_secs_f64() / length.as_secs_f64();
            let max = threads.iter().map(|t| t.max_ns).max().unwrap_or(0);
            let saved = collector.saved.len();
            progress.set(Some(done), &format!("{saved} captures, max {}", format_ns(max as f64)));
            collector.tick()
        };
        let on_late = |late: &LateWake| trap.spring(late);
        let steal_before = steal();
        let result = wakeup::run(
            &config,
            Hooks {
                late_ns: Some(&trap.late_ns),
                on_late: Some(&on_late),
                on_tick: Some(&mut on_tick),
                on_samples: None,
            },
        )
        .hinted()?;
        collector.tick();
        let (saved, dead, error) = (collector.saved, collector.dead, collector.error.take());
        if let Some(error) = error {
            return Err(error);
        }
        self.steal_ns = steal().saturating_sub(steal_before);
        let all = result.all_wakeups();
        hunt.wakeups = all.count;
        hunt.late = all.count_above(range.0).saturating_sub(all.count_above(range.1));
        hunt.dead_ns = dead.as_nanos() as u64;
        hunt.hunted_ns = begun.elapsed().as_nanos() as u64;
        self.saved = saved;
        self.measured = Some(result);
        Ok(())
    }

    fn explain(
        &mut self,
        mut hunt: Hunt,
        limit: u64,
        limit_reason: String,
        surroundings: Surroundings,
    ) -> anyhow::Result<WhyResult> {
        self.progress.set(None, "explaining");
        let mut result = if self.saved.is_empty() {
            WhyResult { surroundings, ..WhyResult::default() }
        } else {
            analyse::explain(&self.saved, Nanos(limit), None, surroundings)?
        };
        hunt.late_not_captured = hunt.late.saturating_sub(self.saved.len() as u64);
        (result.limit_ns, result.limit_reason, result.hunt) = (limit, limit_reason, Some(hunt));
        Ok(result)
    }
}

/// What the measuring threads share with the collector. Used inside the loop: no allocation, no lock.
struct Trap {
    freezer: Freezer,
    marker: Marker,
    range: Range,
    late_ns: AtomicU64,
    sprung: AtomicBool,
}

impl Trap {
    fn spring(&self, late: &LateWake) -> Next {
        if late.latency_ns > self.range.1 || self.sprung.swap(true, Ordering::AcqRel) {
            return Next::Continue;
        }
        let mut line = [0u8; 96];
        let mut rest = &mut line[..];
        let (tid, intended, latency) = (late.tid, late.intended_ns, late.latency_ns);
        let _ = write!(rest, "{LATE_MARK} tid={tid} intended={intended} latency={latency}");
        let used = 96 - rest.len();
        let _ = self.marker.write(&line[..used]);
        let _ = self.freezer.freeze();
        self.late_ns.store(u64::MAX, Ordering::Release);
        Next::Continue
    }
}

/// Saves what the trap caught and sets it again. Runs on the main thread.
struct Collector<'a> {
    trap: &'a Trap,
    flight: &'a mut FlightRecorder,
    folder: PathBuf,
    most: usize,
    saved: Vec<PathBuf>,
    dead: Duration,
    error: Option<anyhow::Error>,
}

impl Collector<'_> {
    fn tick(&mut self) -> Next {
        if self.error.is_some() {
            return Next::Stop;
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

    /// Takes the buffer out, arms the recorder, and only then writes the file.
    fn collect(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        let snapshot = self.flight.snapshot().hinted()?;
        let last = self.saved.len() + 1 >= self.most;
        if !last {
            self.flight.rearm().hinted()?;
            self.trap.sprung.store(false, Ordering::Release);
            self.trap.late_ns.store(self.trap.range.0, Ordering::Release);
        }
        self.dead += begun.elapsed();
        self.save(&snapshot)
    }

    fn save(&mut self, snapshot: &Snapshot) -> anyhow::Result<()> {
        let path = self.folder.join(format!("{:03}.dat", self.saved.len() + 1));
        snapshot.save(&path, Format::default()).hinted()?;
        self.saved.push(path);
        Ok(())
    }
}

fn steal() -> u64 {
    latlab_sys::machine::condition().steal_ns.unwrap_or(0)
}

fn surroundings(machine: &Machine, hunter: &Hunter, limit: u64) -> Surroundings {
    let exits = machine.cpu.idle_states.iter().filter(|s| !s.disabled);
    Surroundings {
        hypervisor: machine.virtualization.clone(),
        idle_exit_ns: exits.map(|s| s.exit_us * 1_000).max(),
        steal_ns: machine.start.steal_ns.map(|_| hunter.steal_ns),
        smi: None,
        limit_ns: limit,
    }
}

/// A number without trailing zeros.
fn trim(x: f64) -> String {
    let text = format!("{x:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
