//! `latlab noise`: a busy loop in windows; between them the events of each window are read and joined to its
//! interruptions, so that reading disturbs no measurement. With `--by` a tracer of the kernel measures instead ([`kernel`]).

mod kernel;

use crate::cli::Global;
use crate::cli::noise::{Args, Config, Format};
use crate::outcome::{HintExt, Outcome, OwnHintExt};
use crate::progress::Progress;
use crate::session::Session;
use crate::{term, trace_input};
use anyhow::{Context, anyhow};
use kernel::Kernel;
use latlab_analysis::noise::attribute::Pieces;
use latlab_analysis::noise::{Sum, Window, part, queue};
use latlab_analysis::timeline::from_trace;
use latlab_model::finding::{Note, Quantity};
use latlab_model::noise::{CpuWindow, NoiseDetail};
use latlab_model::run::Run;
use latlab_model::units::{CpuId, format_ns};
use latlab_report::dialect::noise as dialect;
use latlab_sys::noise::{LoopConfig, window};
use latlab_sys::platform_counters::{CounterSample, PlatformCounters};
use latlab_sys::recorder::{
    EventSpec, FlightRecorder, Format as TraceFormat, RecordConfig, Snapshot,
};
use latlab_sys::tracefs::Tracefs;
use latlab_sys::wakeup::Counters;
use latlab_sys::{policy, signal};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::{Duration, Instant};

/// What tells who ran, as far as the kernel has it.
const EVENTS: &[&str] = &[
    "sched:sched_switch",
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
    "irq:softirq_entry",
    "irq:softirq_exit",
    "ipi:ipi_entry",
    "ipi:ipi_exit",
    "nmi:nmi_handler",
];
/// Interrupts without a number on x86, a pair of events each.
const VECTORS: &str = "irq_vectors";
/// Memory of the ring buffer of each CPU, KiB.
const BUFFER_KB: u64 = 4_096;
/// Interruptions of one window and CPU of which the source is looked for.
const LISTED_MAX: usize = 1 << 15;

/// Runs the command.
///
/// # Errors
/// When no CPU can be measured, or the result can be neither kept nor printed.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    let config = args.config(&policy::allowed()?)?;
    if global.json && args.format != Format::Latlab {
        return Err(anyhow!("--json: not available with this --format")).hint("use --json alone");
    }
    if args.top {
        return top(args, &config);
    }
    let mut session = Session::begin(global, "noise", &config)?;
    let load = match crate::cmd::load::start(&args.load) {
        Ok(load) => load,
        Err(error) => {
            return session.abandon(error);
        }
    };
    let mut progress = Progress::new("noise");
    let mut violation = None;
    let measured = Measurement::new(&config).and_then(|mut m| {
        m.run(Duration::from_nanos(config.duration_ns), &mut |done, m| {
            let longest = m
                .longest
                .map_or_else(String::new, |ns| format!("longest {}", format_ns(ns as f64)));
            progress.set(Some(done), &longest);
            Ok(())
        })?;
        violation = m.violation.take();
        m.detail()
    });
    drop(progress);
    let lasted = crate::cmd::load::finish(load);
    let detail = match measured {
        Ok(detail) if !detail.cpus.is_empty() => detail,
        Ok(_) => {
            return session.abandon(anyhow!("no CPU was measured"));
        }
        Err(error) => {
            return session.abandon(error);
        }
    };
    let exceeded = detail.limit_exceeded();
    if let Some((bytes, dir)) = violation.as_deref().zip(session.dir()) {
        let path = dir.captures()?.join("limit.dat");
        std::fs::write(&path, bytes).with_context(|| path.display().to_string())?;
    }
    let cut = signal::stop_requested().map(signal::Signal::name);
    let cut = cut.or_else(|| exceeded.then(|| "limit exceeded".to_owned()));
    let part = part(detail.clone(), &session.run.machine, cut.is_none());
    session.run.parts.push(part);
    let json = global.json;
    let outcome = session.finish_with(cut, |run, out| {
        print(args.format, json, run, &detail, config.duration_ns, out)
    })?;
    lasted?;
    Ok(outcome.exceeded_if(exceeded))
}

fn print(
    format: Format,
    json: bool,
    run: &Run,
    detail: &NoiseDetail,
    duration_ns: u64,
    mut out: &mut dyn Write,
) -> anyhow::Result<()> {
    let seconds = duration_ns / 1_000_000_000;
    match format {
        Format::Latlab if json => crate::output::json(run, out)?,
        Format::Latlab => crate::output::text(run, out)?,
        Format::Rtla => dialect::rtla(detail, seconds, &mut out)?,
        Format::Oslat => dialect::oslat(detail, &mut out)?,
        Format::Hwlatdetect => dialect::hwlatdetect(detail, seconds, &mut out)?,
    }
    Ok(())
}

/// Sources, again and again, until somebody stops it.
fn top(args: &Args, config: &Config) -> anyhow::Result<Outcome> {
    let terminal = term::stdout_is_terminal();
    let length = if terminal { Duration::MAX } else { args.duration };
    let mut measurement = Measurement::new(config)?;
    let load = crate::cmd::load::start(&args.load)?;
    let shown = measurement.run(length, &mut |_, m| {
        let mut out = term::raw_stdout();
        if terminal {
            // Home, and wipe what is below: no flicker.
            write!(out, "\x1b[H\x1b[J")?;
        }
        let doc = latlab_report::sections::noise::top(&m.detail()?);
        crate::output::document(&doc, &mut out)?;
        Ok(out.flush()?)
    });
    crate::cmd::load::finish(load)?;
    shown?;
    Ok(Outcome::Done.exceeded_if(measurement.detail()?.limit_exceeded()))
}

/// A measurement under way.
pub struct Measurement<'a> {
    config: &'a Config,
    /// The kernel's tracer that measures instead of the loop.
    kernel: Option<Kernel>,
    flight: Option<FlightRecorder>,
    sum: Sum,
    notes: Vec<Note>,
    before: Counters,
    counters: PlatformCounters,
    smi_before: CounterSample,
    /// The trace of the window in which a limit was exceeded.
    violation: Option<Vec<u8>>,
    longest: Option<u64>,
}

impl<'a> Measurement<'a> {
    /// Prepares tracing, where it is possible.
    ///
    /// # Errors
    /// When a tracer of the kernel was asked for that does not start. Without events the sources are unknown, which a
    /// note says.
    pub fn new(config: &'a Config) -> anyhow::Result<Self> {
        let mut notes = Vec::new();
        let kernel = config.tracer.map(|tracer| Kernel::start(config, tracer)).transpose()?;
        let events = config.trace && kernel.is_none();
        let flight = match events.then(|| prepare(&config.cpus)) {
            Some(Ok(flight)) => Some(flight),
            Some(Err(error)) => {
                let error = crate::outcome::format_error_chain(&error);
                notes.push(Note::new("noise.not-traced").value("error", error));
                None
            }
            None => None,
        };
        let counters = PlatformCounters::open();
        let smi_before = counters.sample_all();
        let (before, sum) = (Counters::read(), Sum::with_queue(config.queue));
        Ok(Self {
            config,
            kernel,
            flight,
            sum,
            notes,
            before,
            counters,
            smi_before,
            violation: None,
            longest: None,
        })
    }

    /// Measures windows for that time, or until a signal or a limit ends it. `each` sees the state after every
    /// window with the share of the time that has passed.
    ///
    /// # Errors
    /// When the loops cannot run, or events cannot be read.
    pub fn run(
        &mut self,
        length: Duration,
        each: &mut dyn FnMut(f64, &Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let begun = Instant::now();
        let period = Duration::from_nanos(self.config.period_ns);
        if self.kernel.is_some() {
            return self.run_kernel(length, each);
        }
        let mut number = 0;
        while signal::stop_requested().is_none() && begun.elapsed() < length {
            let left = length.saturating_sub(begun.elapsed());
            let over = self.one(Duration::from_nanos(self.config.runtime_ns).min(left))?;
            let done = begun.elapsed().as_secs_f64() / length.as_secs_f64().max(1e-9);
            each(done, self)?;
            if over {
                break;
            }
            number += 1;
            let next = begun + period.saturating_mul(number);
            // The pause is never left out, however long reading took.
            let least = Duration::from_nanos(self.config.period_ns - self.config.runtime_ns);
            signal::sleep(
                next.saturating_duration_since(Instant::now())
                    .max(least)
                    .min(length.saturating_sub(begun.elapsed())),
            );
        }
        Ok(())
    }

    /// The same with a tracer of the kernel, whose windows are its own.
    fn run_kernel(
        &mut self,
        length: Duration,
        each: &mut dyn FnMut(f64, &Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let begun = Instant::now();
        let mut over = false;
        while signal::stop_requested().is_none() && begun.elapsed() < length && !over {
            signal::sleep(kernel::PORTION.min(length.saturating_sub(begun.elapsed())));
            let Some(kernel) = &mut self.kernel else { break };
            let portion = kernel.portion(&self.config.cpus, &mut self.sum)?;
            self.longest = self.longest.max(portion.longest);
            over = portion.exceeded;
            each(begun.elapsed().as_secs_f64() / length.as_secs_f64().max(1e-9), self)?;
        }
        Ok(())
    }

    /// One window; whether it exceeded a limit.
    fn one(&mut self, length: Duration) -> anyhow::Result<bool> {
        let c = self.config;
        if let Some(flight) = &mut self.flight {
            flight.rearm().with_hint()?;
        }
        let config = LoopConfig {
            threshold_ns: c.threshold_ns,
            priority: c.priority,
            stop_ns: c.stop_ns,
            listed_max: LISTED_MAX,
        };
        let loops = window(&c.cpus, config, length)
            .context("starting the loops")
            .hint("-P needs permission for real-time policies: run it as root")?;
        let over = |w: &CpuWindow| {
            let queue = c.queue.filter(|q| q.limit.is_some());
            c.stop_ns.is_some_and(|l| w.distances.max > l)
                || queue.is_some_and(|q| queue::longest(&q, w) as u64 > q.limit.unwrap_or(u64::MAX))
                || c.stop_total_ns.is_some_and(|l| w.lost_ns > l)
        };
        let exceeded = loops.iter().any(over);
        let longest = loops.iter().filter(|w| w.count > 0).map(|w| w.distances.max).max();
        self.longest = self.longest.max(longest);
        let snapshot = self.flight.as_mut().map(|f| f.snapshot().with_hint()).transpose()?;
        if let Some(snapshot) = snapshot.as_ref().filter(|_| exceeded) {
            self.violation = Some(snapshot.to_bytes(TraceFormat::default()).with_hint()?);
        }
        let pieces = snapshot.as_ref().map(|s| pieces(s, &loops)).transpose()?;
        let overrun = snapshot.iter().flat_map(|s| &s.cpus).map(|c| (CpuId(c.cpu), c.lost()));
        let overrun: BTreeMap<CpuId, u64> = overrun.collect();
        self.sum.add(&Window { loops: &loops, pieces: pieces.as_ref(), overrun });
        Ok(exceeded)
    }

    /// What was measured so far.
    ///
    /// # Errors
    /// None so far.
    pub fn detail(&self) -> anyhow::Result<NoiseDetail> {
        let now = Counters::read();
        let mut cpus = self.sum.so_far();
        for cpu in &mut cpus {
            cpu.steal_ns = now.steal_ns_since(&self.before, &[cpu.cpu]);
        }
        let mut notes = self.notes.clone();
        let missing = self.config.cpus.iter().filter(|&&c| cpus.iter().all(|m| m.cpu != c));
        notes.extend(
            missing
                .filter(|_| !cpus.is_empty())
                .map(|c| Note::new("noise.cpu-missing").value("cpu", Quantity::Cpu(c.0))),
        );
        Ok(NoiseDetail {
            tracer: self.config.tracer,
            threshold_ns: self.config.threshold_ns,
            period_ns: self.config.period_ns,
            runtime_ns: self.config.runtime_ns,
            priority: self.config.priority,
            stop_ns: self.config.stop_ns,
            stop_total_ns: self.config.stop_total_ns,
            queue: self.config.queue,
            traced: self.flight.is_some() || self.kernel.is_some(),
            smi: self.counters.sample_all().delta(&self.smi_before).1,
            cpus,
            notes,
        })
    }
}

/// A ring buffer for the events of these CPUs; it records from the first window on.
fn prepare(cpus: &[CpuId]) -> anyhow::Result<FlightRecorder> {
    let tracefs = Tracefs::find().with_hint()?.tracefs;
    let has: Vec<String> = tracefs.events().with_hint()?.iter().map(ToString::to_string).collect();
    let mut events: Vec<EventSpec> = (EVENTS.iter())
        .filter(|e| has.iter().any(|h| h == *e))
        .map(|e| EventSpec::new((*e).to_owned()))
        .collect();
    if has.iter().any(|h| h.split(':').next() == Some(VECTORS)) {
        events.push(EventSpec::new(VECTORS));
    }
    if !events.iter().any(|e| e.pattern == "sched:sched_switch") {
        return Err(anyhow!("this kernel has no scheduler events"));
    }
    let cpus: BTreeSet<u32> = cpus.iter().map(|c| c.0).collect();
    let config = RecordConfig {
        events,
        cpus: Some(cpus),
        clock: Some("mono".into()),
        buffer_kb: Some(BUFFER_KB),
        ..RecordConfig::default()
    };
    FlightRecorder::prepare(&tracefs, &config).with_hint()
}

fn pieces(snapshot: &Snapshot, loops: &[CpuWindow]) -> anyhow::Result<Pieces> {
    let bytes = snapshot.to_bytes(TraceFormat::uncompressed()).with_hint()?;
    let file = trace_input::open(&bytes, "window.dat".as_ref())?;
    let mut pieces = Pieces::new(loops.iter().map(|w| (w.cpu, w.tid)));
    from_trace::analyse(&file, &latlab_trace::Select::default(), 1, &mut pieces);
    Ok(pieces)
}
