//! The hunt: calibrate, choose what to trace, capture late wake-ups, explain them.
//!
//! The measuring loop itself writes the marker and freezes the ring buffer, at its own
//! priority; the main thread, below all of them, saves the capture and arms the recorder
//! again. What is late meanwhile is counted as not captured.

use super::levels::{Level, levels};
use super::places::Places;
use super::trap::{Collector, Trap};
use super::{analyse, blind, part, prove};
use crate::cli::Global;
use crate::cli::why::{Args, Asked, Late, Trace};
use crate::outcome::{HintExt, Outcome, OwnHintExt};
use crate::progress::Progress;
use crate::session::Session;
use anyhow::{Context, anyhow};
use latlab_core::explain::cluster::Surroundings;
use latlab_core::explain::observer::{Effect, Observer, map_window, observe};
use latlab_core::explain::result::{Hunt, WhyResult};
use latlab_core::histogram::Histogram;
use latlab_core::machine::Machine;
use latlab_core::units::{Nanos, format_ns};
use latlab_core::wakeup::{LateWake, WakeupConfig, WakeupResult};
use latlab_sys::load::Load;
use latlab_sys::recorder::FlightRecorder;
use latlab_sys::tracefs::Tracefs;
use latlab_sys::wakeup::{Hooks, LiveThread};
use latlab_sys::witness::{Registers, Witness};
use latlab_sys::{policy, process, signal, wakeup};
use std::fmt::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
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
    let places = Places::open(&args.vmlinux)?;
    let found = match Tracefs::find() {
        Ok(found) => found,
        // Who asks for a trace, or for what only a trace can name, is told that there is none.
        Err(error) if args.prove || asked.trace != Trace::Auto || !asked.functions.is_empty() => {
            return Err(error).hinted();
        }
        Err(error) => return blind::run(global, args, &asked, &error),
    };
    let mut session = Session::begin(global, "why", &asked)?;
    let folder = match session.dir() {
        Some(dir) => dir.captures()?,
        None => anyhow::bail!("a hunt needs a run directory"),
    };
    places.check_here(&session.run.machine.kernel.release)?;
    let mut hunter = Hunter::new(asked, found.tracefs, folder);
    let started = Instant::now();
    let load = start_load(args)?;
    let hunted = hunter.hunt();
    load.finish()?;
    let (hunt, limit, reason) = hunted?;
    let complete = signal::stop_requested().is_none();
    let surroundings = surroundings(&session.run.machine, &hunter, limit);
    let mut result = hunter.explain(hunt, limit, reason, surroundings)?;
    places.tell(&mut result)?;
    if args.prove {
        result.proofs = prove::run(&mut hunter, args, &result)?;
    }
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
    Ok(outcome.exceeded_if(exceeded))
}

/// What a hunt goes through.
pub(super) struct Hunter {
    pub(super) asked: Asked,
    tracefs: Tracefs,
    folder: PathBuf,
    saved: Vec<PathBuf>,
    measured: Option<WakeupResult>,
    untraced: Histogram,
    registers: Registers,
    witnesses: Option<(Witness, Witness)>,
    /// For each capture file: steal time and SMIs since the one before.
    spikes: Vec<analyse::Spike>,
    pub(super) progress: Progress,
}

/// Loads that end when this is dropped.
pub(super) struct Loads {
    built_in: Option<Load>,
    command: Option<Child>,
}

impl Loads {
    /// An error when a built-in load did not last until now.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        crate::cmd::load::finish(self.built_in.take())
    }
}

impl Drop for Loads {
    fn drop(&mut self) {
        if let Some(child) = &mut self.command {
            // With all that it started.
            let _ = process::kill_group(child.id());
            let _ = child.wait();
        }
    }
}

/// Starts the loads that were asked for.
pub(super) fn start_load(args: &Args) -> anyhow::Result<Loads> {
    let built_in = crate::cmd::load::start(&args.wakeup.load)?;
    let command = match args.command.as_slice() {
        [] => None,
        [program, rest @ ..] => {
            let mut command = Command::new(program);
            command.args(rest).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
            process::tie_to_us(&mut command);
            Some(command.spawn().with_context(|| format!("starting {program}"))?)
        }
    };
    Ok(Loads { built_in, command })
}

/// How to measure for so long, without captures.
pub(super) fn measure_for(asked: &Asked, length: Duration) -> WakeupConfig {
    WakeupConfig {
        duration_ns: Some(length.as_nanos() as u64),
        loops: None,
        break_ns: None,
        trace_mark: false,
        samples: false,
        ..asked.wakeup.measure.clone()
    }
}

/// The limit, ns, over which as many of the wake-ups are to be expected as make a cause sure, and how it
/// came about.
pub(super) fn auto_limit(asked: &Asked, untraced: &Histogram) -> (u64, String) {
    let measure = &asked.wakeup.measure;
    let per_thread = asked.duration_ns as f64 / measure.interval_ns.max(1) as f64;
    let expected = per_thread * measure.threads.len().max(1) as f64;
    let q = (1.0 - EXPECTED / expected.max(EXPECTED * 4.0)).clamp(0.9, 0.999_99);
    let median = untraced.quantile(0.5).unwrap_or(0);
    let tail = untraced.quantile(q).unwrap_or(0);
    let limit = tail.max(2 * median).max(1_000);
    let reason = format!(
        "the larger of p{} of {} untraced wake-ups and twice their median",
        trim(q * 100.0),
        untraced.count
    );
    (limit, reason)
}

/// A captured latency range, ns: over the first, up to the second.
pub(super) type Range = (u64, u64);

impl Hunter {
    fn new(asked: Asked, tracefs: Tracefs, folder: PathBuf) -> Self {
        Self {
            asked,
            tracefs,
            folder,
            saved: Vec::new(),
            measured: None,
            untraced: Histogram::default(),
            registers: Registers::open(),
            witnesses: None,
            spikes: Vec::new(),
            progress: Progress::new("why"),
        }
    }

    /// Calibrates, chooses, captures. The result: the hunt, the limit in force, and why that limit.
    fn hunt(&mut self) -> anyhow::Result<(Hunt, u64, String)> {
        let begun = Instant::now();
        let mut hunt = Hunt::default();
        let level = self.choose(&mut hunt)?;
        let (range, mut limit, mut reason) = self.range(hunt.observer.as_ref())?;
        hunt.traced = level.name.clone();
        if signal::stop_requested().is_none() {
            let total = Duration::from_nanos(self.asked.duration_ns);
            let left = total.saturating_sub(begun.elapsed()).max(total / 2);
            let low = self.capture(&level, range, left, &mut hunt)?;
            if low < limit {
                let _ = write!(
                    reason,
                    "; lowered from {}, over which nothing came",
                    format_ns(limit as f64)
                );
                limit = low;
            }
        }
        Ok((hunt, limit, reason))
    }

    /// Blocks of untraced and traced measurement in turn, from the richest level down to one that bears it.
    fn choose(&mut self, hunt: &mut Hunt) -> anyhow::Result<Level> {
        let functions = &self.asked.functions;
        let levels = levels(&self.tracefs, self.asked.trace, functions).hinted()?;
        let last = levels.len();
        if last == 0 {
            return Err(anyhow!(
                "--trace graph: this kernel has no function_graph tracer that can be used"
            ))
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
                    hunt.steps.push(format!("{}: {}", level.name, crate::outcome::told(&error)));
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
                let histogram = self.block(block, &mut |_| {})?;
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

    /// Measures for a while without captures; `change` may change how.
    pub(super) fn block(
        &self,
        length: Duration,
        change: &mut dyn FnMut(&mut WakeupConfig),
    ) -> anyhow::Result<Histogram> {
        let mut config = self.config(length);
        change(&mut config);
        let result = wakeup::run(&config, Hooks::default()).hinted()?;
        Ok(result.all_wakeups())
    }

    fn config(&self, length: Duration) -> WakeupConfig {
        measure_for(&self.asked, length)
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
        auto_limit(&self.asked, &self.untraced)
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

    /// The hunt proper. Returns what was late in the end, ns.
    fn capture(
        &mut self,
        level: &Level,
        range: Range,
        length: Duration,
        hunt: &mut Hunt,
    ) -> anyhow::Result<u64> {
        let mut flight = self.recorder(level)?;
        if flight.session().is_top_level() {
            hunt.traced += " (in the kernel's top-level buffer)";
        }
        let trap = Trap::new(&flight, range)?;
        let config = self.config(length);
        // Enough on-time wake-ups in front of a late one, and never less than some ticks.
        let history = Duration::from_nanos(10 * config.interval_ns)
            .max(Duration::from_millis(10))
            .min(length / 10);
        let (most, folder) = (self.asked.captures, self.folder.clone());
        let mut collector =
            Collector::new(&trap, &mut flight, folder, most, history, &self.registers);
        let begun = Instant::now();
        let progress = &mut self.progress;
        let mut lowering = matches!(self.asked.late, Late::Auto)
            .then(|| Lowering::new(2 * self.untraced.quantile(0.5).unwrap_or(0)));
        let mut on_tick = |threads: &[LiveThread]| {
            let done = begun.elapsed().as_secs_f64() / length.as_secs_f64();
            let max = threads.iter().map(|t| t.max_ns).max().unwrap_or(0);
            let saved = collector.saved.len();
            if let Some(lowering) = lowering.as_mut().filter(|_| saved == 0) {
                let recent = threads.iter().map(|t| t.recent_max_ns).max().unwrap_or(0);
                if let Some(ns) = lowering.look(done, recent).filter(|ns| *ns < trap.low()) {
                    trap.lower(ns);
                }
            }
            progress.set(Some(done), &format!("{saved} captures, max {}", format_ns(max as f64)));
            collector.tick()
        };
        let on_late = |late: &LateWake| trap.spring(late);
        let before = self.registers.look();
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
        let caught = collector.finish()?;
        self.witnesses = Some((before, self.registers.look()));
        let all = result.all_wakeups();
        hunt.wakeups = all.count;
        let low = trap.low();
        hunt.late = all.count_between(low, range.1);
        hunt.dead_ns = caught.dead.as_nanos() as u64;
        hunt.hunted_ns = begun.elapsed().as_nanos() as u64;
        (self.saved, self.spikes) = (caught.saved, caught.spikes);
        self.measured = Some(result);
        Ok(low)
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
            analyse::explain(&self.saved, Nanos(limit), None, surroundings, &self.spikes)?
        };
        hunt.late_not_captured = hunt.late.saturating_sub(self.saved.len() as u64);
        (result.limit_ns, result.limit_reason, result.hunt) = (limit, limit_reason, Some(hunt));
        Ok(result)
    }
}

/// A limit that was found before the hunt and is never reached in it, on a machine that was busier
/// then (it had just been started): at each quarter of the hunt it is set to what was seen.
#[derive(Debug)]
struct Lowering {
    /// Largest latency of each look, ns.
    seen: Vec<u64>,
    /// Below this nothing is late, ns.
    least: u64,
    quarter: u32,
}

impl Lowering {
    fn new(least: u64) -> Self {
        Self { seen: Vec::new(), least: least.max(1_000), quarter: 1 }
    }

    /// A new limit, ns, once a quarter: what as many looks of the rest will be over as are expected.
    fn look(&mut self, done: f64, recent_max_ns: u64) -> Option<u64> {
        self.seen.push(recent_max_ns);
        if done * 4.0 < f64::from(self.quarter) || self.quarter > 3 {
            return None;
        }
        let wanted = EXPECTED * done / (1.0 - done).max(0.25);
        self.quarter = (done * 4.0) as u32 + 1;
        self.seen.sort_unstable_by(|a, b| b.cmp(a));
        let at = (wanted as usize).min(self.seen.len() / 2);
        self.seen.get(at).map(|&ns| ns.saturating_sub(1).max(self.least))
    }
}

/// What is known of the machine beside the traces.
fn surroundings(machine: &Machine, hunter: &Hunter, limit: u64) -> Surroundings {
    let exits = machine.cpu.idle_states.iter().filter(|s| !s.disabled);
    let mut around = Surroundings {
        hypervisor: machine.virtualization.clone(),
        idle_exit_ns: exits.map(|s| s.exit_us * 1_000).max(),
        limit_ns: limit,
        ..Surroundings::default()
    };
    if let Some((before, after)) = &hunter.witnesses {
        Witness::tell(before, after, &mut around);
    }
    around
}

/// A number without trailing zeros.
fn trim(x: f64) -> String {
    let text = format!("{x:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_nothing_reaches_is_lowered_to_what_is_seen() {
        let mut lowering = Lowering::new(20_000);
        let mut lowered = Vec::new();
        for tick in 0..100_u32 {
            // One look in ten sees 70 to 79 µs, the others 30.
            let seen = if tick % 10 == 0 { 70_000 + u64::from(tick) } else { 30_000 };
            lowered.extend(lowering.look(f64::from(tick) / 100.0, seen).map(|ns| (tick, ns)));
        }
        assert_eq!(lowered.len(), 3, "{lowered:?}");
        assert_eq!(lowered[0].0, 25);
        // A quarter of the time saw few: the next of the rest are to be expected below.
        assert!(lowered.iter().all(|l| (29_999..70_100).contains(&l.1)), "{lowered:?}");
        let mut idle = Lowering::new(20_000);
        assert_eq!(idle.look(0.5, 9_000), Some(20_000), "never below what is usual");
    }
}
