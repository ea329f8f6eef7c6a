//! Calibrates, chooses what to trace, captures late wake-ups.

use super::analyse;
use super::levels::{Level, levels};
use super::limit::{Lowering, Range, auto_limit};
use super::trap::{Collector, Trap};
use crate::cli::why::{Config, Late, Trace};
use crate::outcome::{HintExt, OwnHintExt};
use crate::progress::Progress;
use anyhow::anyhow;
use latlab_analysis::latency::tracing_overhead::{map_window, observe};
use latlab_model::finding::{Note, Quantity};
use latlab_model::latency::{CaptureCounters, CounterReadings, SystemContext};
use latlab_model::latency::{CaptureSession, Effect, RejectedPreset, TracingOverhead, WhyResult};
use latlab_model::machine::Machine;
use latlab_model::units::{Nanos, format_ns};
use latlab_model::wakeup::config::WakeupConfig;
use latlab_model::wakeup::mechanism::Mechanisms;
use latlab_model::wakeup::result::{LateWake, WakeupResult};
use latlab_report::messages;
use latlab_stats::histogram::Histogram;
use latlab_sys::platform_counters::{CounterSample, PlatformCounters};
use latlab_sys::recorder::FlightRecorder;
use latlab_sys::tracefs::Tracefs;
use latlab_sys::wakeup::{Hooks, LiveThread};
use latlab_sys::{signal, wakeup};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// Traced and untraced blocks, one of each a pair.
const PAIRS: usize = 4;

/// A measurement that captures late wake-ups: its settings, calibration and results.
pub(super) struct CaptureRunner {
    pub(super) asked: Config,
    tracefs: Tracefs,
    folder: PathBuf,
    saved: Vec<PathBuf>,
    pub(super) measured: Option<WakeupResult>,
    untraced: Histogram,
    counters: PlatformCounters,
    counter_samples: Option<(CounterSample, CounterSample)>,
    /// For each capture: steal time and SMIs between the readings round it.
    capture_counters: Vec<CaptureCounters>,
    readings: CounterReadings,
    /// Why no more could be captured (a full disk): what there is, is explained.
    pub(super) failed: Option<anyhow::Error>,
    pub(super) progress: Progress,
}

impl CaptureRunner {
    pub(super) fn new(asked: Config, tracefs: Tracefs, folder: PathBuf) -> Self {
        Self {
            asked,
            tracefs,
            folder,
            saved: Vec::new(),
            measured: None,
            untraced: Histogram::default(),
            counters: PlatformCounters::open(),
            counter_samples: None,
            capture_counters: Vec::new(),
            readings: CounterReadings::default(),
            failed: None,
            progress: Progress::new("why"),
        }
    }

    /// Calibrates, chooses, captures. The result: the session, the limit in force, and why that limit.
    pub(super) fn hunt(&mut self) -> anyhow::Result<(CaptureSession, u64, Note)> {
        let begun = Instant::now();
        let mut session = CaptureSession::default();
        let level = self.choose(&mut session)?;
        let (range, mut limit, mut reason) = self.range(session.tracing_overhead.as_ref())?;
        session.traced = Some(level.name.clone());
        if signal::stop_requested().is_none() {
            let total = Duration::from_nanos(self.asked.duration_ns);
            let left = total.saturating_sub(begun.elapsed()).max(total / 2);
            let low = self.capture(&level, range, left, &mut session)?;
            if low < limit {
                reason = reason.value("lowered_from", Quantity::Ns(limit as f64));
                limit = low;
            }
        }
        Ok((session, limit, reason))
    }

    /// Blocks of untraced and traced measurement in turn, from the richest level down to one that bears it.
    fn choose(&mut self, session: &mut CaptureSession) -> anyhow::Result<Level> {
        let functions = &self.asked.functions;
        let levels = levels(&self.tracefs, self.asked.trace, functions).with_hint()?;
        let last = levels.len();
        if last == 0 && self.asked.trace == Trace::Interrupted {
            return Err(anyhow!(
                "--trace interrupted: before Linux 5.18 the stacks of single events cannot be recorded"
            ))
            .hint("--trace stacks records the stack of every event");
        }
        if last == 0 {
            return Err(anyhow!(
                "--trace graph: this kernel has no function_graph tracer that can be used"
            ))
            .hint("--trace auto selects the most detailed preset available");
        }
        for (i, level) in levels.into_iter().enumerate() {
            match self.try_level(&level) {
                Ok((observer, limit)) => {
                    let bears = !matches!(observer.effect, Effect::MakesLate | Effect::Changed)
                        || self.asked.trace != Trace::Auto;
                    if bears || i + 1 == last || signal::stop_requested().is_some() {
                        session.tracing_overhead = Some(observer);
                        return Ok(level);
                    }
                    let reason = Note::new("why.preset-changed-distribution")
                        .value("limit", Quantity::Ns(limit as f64));
                    session
                        .rejected_presets
                        .push(RejectedPreset::Typed { preset: level.name, reason });
                }
                Err(error) if i + 1 < last => {
                    let reason = Note::new("why.preset-error")
                        .value("error", crate::outcome::format_error_chain(&error));
                    session
                        .rejected_presets
                        .push(RejectedPreset::Typed { preset: level.name, reason });
                }
                Err(error) => return Err(error),
            }
        }
        Err(anyhow!("no tracing is available"))
    }

    fn try_level(&mut self, level: &Level) -> anyhow::Result<(TracingOverhead, u64)> {
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
                self.progress
                    .set(Some(done), &format!("calibrating: {}", messages::note(&level.name)));
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
        FlightRecorder::start(&self.tracefs, &level.config).with_hint()
    }

    /// Measures for a while without captures; `change` may change how.
    pub(super) fn block(
        &self,
        length: Duration,
        change: &mut dyn FnMut(&mut WakeupConfig),
    ) -> anyhow::Result<Histogram> {
        let mut config = self.config(length);
        change(&mut config);
        let result = wakeup::run(&config, Hooks::default()).with_hint()?;
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

    fn auto_limit(&self) -> (u64, Note) {
        auto_limit(&self.asked, &self.untraced)
    }

    fn range(&self, observer: Option<&TracingOverhead>) -> anyhow::Result<(Range, u64, Note)> {
        Ok(match self.asked.late {
            Late::Over(ns) => ((ns, u64::MAX), ns, Note::new("why.limit-given")),
            Late::Auto => {
                let (ns, reason) = self.auto_limit();
                ((ns, u64::MAX), ns, reason)
            }
            Late::Within(low, high) => {
                let effect = observer.map_or(Effect::CannotTell, |o| o.effect);
                let traced = self.traced_like(observer);
                let mapped = map_window((low, high), &self.untraced, &traced, effect);
                let reason = match mapped {
                    Some((l, h)) => Note::new("why.limit-window")
                        .value("traced_low", Quantity::Ns(l as f64))
                        .value("traced_high", Quantity::Ns(h as f64)),
                    None => Note::new("why.limit-window-unmapped"),
                };
                let reason = reason
                    .value("low", Quantity::Ns(low as f64))
                    .value("high", Quantity::Ns(high as f64));
                let (low, high) = mapped.unwrap_or((low, high));
                ((low, high), low, reason)
            }
        })
    }

    /// The untraced distribution, each value moved as its quantile was.
    fn traced_like(&self, observer: Option<&TracingOverhead>) -> Histogram {
        let shift = observer.and_then(|o| o.shifts.first()).map_or(0.0, |s| s.shift_ns);
        Histogram::of(self.untraced.buckets.iter().flat_map(|&(low, n)| {
            let moved = low.saturating_add_signed(shift as i64);
            std::iter::repeat_n(moved, n.min(1_000_000) as usize)
        }))
    }

    /// The recording itself. Returns what was late in the end, ns.
    fn capture(
        &mut self,
        level: &Level,
        range: Range,
        length: Duration,
        session: &mut CaptureSession,
    ) -> anyhow::Result<u64> {
        let mut flight = self.recorder(level)?;
        if flight.session().is_top_level() {
            session.traced = session.traced.take().map(|preset| preset.value("top_level", true));
        }
        let measure = &self.asked.wakeup.measure;
        // A thread that others wake has a row for each CPU from which they do.
        let rows = measure.by.as_ref().map(Mechanisms::rows).unwrap_or_default();
        let by = rows.first().map_or(measure.timer, |row| row.by);
        let trap = Trap::new(&flight, range, measure.threads.len().max(rows.len()), by)?;
        let config = self.config(length);
        // Enough on-time wake-ups in front of a late one, and never less than some ticks.
        let history = Duration::from_nanos(10 * config.interval_ns)
            .max(Duration::from_millis(10))
            .min(length / 10);
        let (most, folder) = (self.asked.captures, self.folder.clone());
        let mut collector =
            Collector::new(&trap, &mut flight, folder, most, history, &self.counters);
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
        // The trap sees every wake-up: the last on-time ones are written beside a late one.
        let every = AtomicU64::new(0);
        let before = self.counters.sample_all();
        let result = wakeup::run(
            &config,
            Hooks {
                late_ns: Some(&every),
                on_late: Some(&on_late),
                on_tick: Some(&mut on_tick),
                on_samples: None,
            },
        )
        .with_hint()?;
        let caught = collector.finish();
        self.counter_samples = Some((before, self.counters.sample_all()));
        let all = result.all_wakeups();
        session.wakeups = all.count;
        session.worst_ns = (all.count > 0).then_some(all.max);
        let low = trap.low();
        session.late = all.count_between(low, range.1);
        session.dead_ns = caught.dead.as_nanos() as u64;
        session.duration_ns = begun.elapsed().as_nanos() as u64;
        (self.saved, self.capture_counters) = (caught.saved, caught.counters);
        (self.readings, self.failed) = (caught.readings, caught.error);
        self.measured = Some(result);
        Ok(low)
    }

    pub(super) fn explain(
        &mut self,
        mut session: CaptureSession,
        limit: u64,
        limit_reason: Note,
        context: SystemContext,
    ) -> anyhow::Result<WhyResult> {
        self.progress.set(None, "explaining");
        let mut result = if self.saved.is_empty() {
            WhyResult { system_context: context, ..WhyResult::default() }
        } else {
            analyse::explain(&self.saved, Nanos(limit), None, context, &self.capture_counters)?
        };
        // A capture holds late wake-ups before the one that it was taken for, too.
        session.late_not_captured = session.late.saturating_sub(result.late_in_captures());
        (result.limit_ns, result.limit_reason, result.session) =
            (limit, Some(limit_reason), Some(session));
        Ok(result)
    }
}

/// What is known of the machine beside the traces.
pub(super) fn machine_context(machine: &Machine) -> SystemContext {
    let exits = machine.cpu.idle_states.iter().filter(|s| !s.disabled);
    SystemContext {
        hypervisor: machine.virtualization.clone(),
        kernel: Some(machine.kernel.release.clone()),
        preempt_rt: Some(machine.kernel.version.contains("PREEMPT_RT")),
        idle_exit_ns: exits.map(|s| s.exit_us * 1_000).max(),
        idle_exits_ns: machine.cpu.idle_states.iter().map(|s| s.exit_us * 1_000).collect(),
        ..SystemContext::default()
    }
}

/// The same, with what was counted during a capture session.
pub(super) fn system_context(
    machine: &Machine,
    captures: &CaptureRunner,
    limit: u64,
) -> SystemContext {
    let mut around = SystemContext {
        interval_ns: Some(captures.asked.wakeup.measure.interval_ns),
        readings: Some(captures.readings).filter(|r| r.intervals > 0),
        limit_ns: limit,
        ..machine_context(machine)
    };
    if let Some((before, after)) = &captures.counter_samples {
        CounterSample::describe_change(before, after, &mut around);
    }
    around
}

/// How to measure for so long, without captures.
pub(super) fn measure_for(asked: &Config, length: Duration) -> WakeupConfig {
    WakeupConfig {
        duration_ns: Some(length.as_nanos() as u64),
        loops: None,
        break_ns: None,
        trace_mark: false,
        samples: false,
        ..asked.wakeup.measure.clone()
    }
}
