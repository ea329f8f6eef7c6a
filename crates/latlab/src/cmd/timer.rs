//! `latlab timer`: ticks, timers and interrupts, by counters and by a recording.

use crate::cli::Global;
use crate::cli::timer::Args;
use crate::cmd::sched::file;
use crate::outcome::{HintExt, Outcome, OwnHintExt};
use crate::progress::Progress;
use crate::session::Session;
use crate::term;
use anyhow::anyhow;
use latlab_analysis::timer::live::{busy_tick, by_cpu, conclude, rates};
use latlab_analysis::timer::part;
use latlab_model::finding::Note;
use latlab_model::machine::Machine;
use latlab_model::run::Part;
use latlab_model::timer::Counters;
use latlab_model::timer::{BusyTick, Live, Moment, TimerDetail, TimerTrace};
use latlab_report::sections::timer::Rates;
use latlab_sys::files::Root;
use latlab_sys::recorder::{EventSpec, Format, RecordConfig, Recorder};
use latlab_sys::tracefs::Tracefs;
use latlab_sys::{policy, signal, ticks};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

const TITLE: &str = "Ticks, timers and interrupts";
/// What is recorded, as far as the kernel has it.
const EVENTS: &[&str] = &[
    "timer:timer_start",
    "timer:timer_cancel",
    "timer:timer_expire_entry",
    "timer:timer_expire_exit",
    "timer:hrtimer_start",
    "timer:hrtimer_expire_entry",
    "timer:hrtimer_expire_exit",
    "timer:tick_stop",
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
    "irq:softirq_raise",
    "irq:softirq_entry",
    "irq:softirq_exit",
    "irq_vectors:local_timer_entry",
    "irq_vectors:local_timer_exit",
    "sched:sched_switch",
];
/// Busy CPUs whose tick is measured, and for how long each.
const BUSY_CPUS: usize = 4;
const BUSY: Duration = Duration::from_millis(400);
/// Looks that are kept.
const MOMENTS_MAX: usize = 3_600;

/// Runs the command.
///
/// # Errors
/// When nothing can be counted or read, or the result can be neither kept nor printed.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    if let Some(path) = &args.file {
        return from_file(global, args, path);
    }
    if args.top {
        return top(args);
    }
    let config = serde_json::json!({
        "duration_ns": args.duration.as_nanos() as u64,
        "interval_ns": args.interval.as_nanos() as u64,
        "trace": !args.no_trace,
    });
    let mut session = Session::begin(global, "timer", &config)?;
    let capture = match (args.no_trace, session.dir()) {
        (false, Some(dir)) => Some(dir.captures()?.join("timer.dat")),
        _ => None,
    };
    let machine = &session.run.machine;
    let part = measure("timer", TITLE, machine, args.duration, args.interval, capture.as_deref())?;
    session.run.parts.push(part);
    session.finish(signal::stop_requested().map(signal::Signal::name))
}

/// Counts, and records where there is a place for the recording; for `timer` itself and for `survey`.
///
/// # Errors
/// When a recording cannot be read back.
pub fn measure(
    name: &str,
    title: &str,
    machine: &Machine,
    length: Duration,
    interval: Duration,
    capture: Option<&Path>,
) -> anyhow::Result<Part> {
    let root = Root::here();
    let mut live = stated(machine, &root);
    let mut busy: Vec<BusyTick> = Vec::new();
    for cpu in policy::allowed()?.iter().rev().take(BUSY_CPUS) {
        busy.extend(ticks::busy(cpu.0, BUSY).as_ref().map(busy_tick));
    }
    let recording = capture.map(record);
    let recorder = match recording {
        Some(Ok(recorder)) => Some(recorder),
        Some(Err(error)) => {
            let error = crate::outcome::format_error_chain(&error);
            live.notes.push(Note::new("timer.not-recorded").value("error", error));
            None
        }
        None => None,
    };
    let mut progress = Progress::new("timer");
    let first = ticks::counters(&root);
    let begun = Instant::now();
    let mut last = first.clone();
    while begun.elapsed() < length && signal::stop_requested().is_none() {
        signal::sleep(interval.min(length.saturating_sub(begun.elapsed())));
        let now = ticks::counters(&root);
        live.moments.extend(moment(&first, &last, &now));
        last = now;
        progress.set(Some(begun.elapsed().as_secs_f64() / length.as_secs_f64()), "");
    }
    live.moments.truncate(MOMENTS_MAX);
    drop(progress);
    let mut trace = None;
    if let (Some(recorder), Some(path)) = (recorder, capture) {
        recorder.stop().and_then(|recorded| recorded.check()).with_hint()?;
        match analyse(path, &latlab_trace::Select::default()) {
            Ok(found) => trace = Some(found),
            Err(error) => {
                let error = crate::outcome::format_error_chain(&error);
                live.notes.push(Note::new("timer.recording-unusable").value("error", error));
            }
        }
    }
    let live = conclude(live, &first, &last, busy);
    let detail = TimerDetail { live: Some(live), trace };
    Ok(part::part(name, title, detail, signal::stop_requested().is_none()))
}

/// What the kernel says of itself.
fn stated(machine: &Machine, root: &Root) -> Live {
    let mut live = ticks::stated(root, machine.kernel.hz);
    let set = |name: &str| {
        machine
            .kernel
            .config
            .get(name)
            .or_else(|| machine.kernel.config.get(&format!("CONFIG_{name}")))
    };
    let kinds = [("HZ_PERIODIC", "periodic"), ("NO_HZ_IDLE", "idle"), ("NO_HZ_FULL", "full")];
    live.config_nohz = kinds
        .iter()
        .find(|(name, _)| set(name).is_some_and(|v| v == "y"))
        .map(|(_, word)| (*word).to_owned());
    live
}

/// Ticks a second of this machine, measured on a busy CPU: for who cannot read the configuration.
pub fn measured_hz() -> Option<u32> {
    let cpu = policy::allowed().ok()?.last()?.0;
    let busy = ticks::busy(cpu, BUSY)?;
    (busy.step_ns > 0)
        .then(|| latlab_analysis::timer::live::nearest_hz(1e9 / busy.step_ns as f64))?
}

fn moment(first: &Counters, before: &Counters, now: &Counters) -> Option<Moment> {
    let ns = now.time_ns.saturating_sub(before.time_ns);
    if ns == 0 {
        return None;
    }
    let rates = rates(&before.interrupts, &now.interrupts, ns as f64 / 1e9);
    let cpus = now.interrupts.cpus.len();
    Some(Moment {
        at_ns: now.time_ns - first.time_ns,
        timer: by_cpu(&rates, cpus, true),
        all: by_cpu(&rates, cpus, false),
    })
}

/// Records what the kernel has of the events.
fn record(path: &Path) -> anyhow::Result<Recorder> {
    let tracefs = Tracefs::find().with_hint()?.tracefs;
    let has: Vec<String> = tracefs.events().with_hint()?.iter().map(ToString::to_string).collect();
    let events: Vec<EventSpec> = (EVENTS.iter())
        .filter(|e| has.iter().any(|h| h == *e))
        .map(|e| EventSpec::new((*e).to_owned()))
        .collect();
    if events.is_empty() {
        return Err(anyhow!("this kernel has no events of timers and interrupts"));
    }
    let config = RecordConfig { events, clock: Some("mono".into()), ..RecordConfig::default() };
    Recorder::start(&tracefs, &config, path, Format::default()).with_hint()
}

fn analyse(path: &Path, select: &latlab_trace::Select) -> anyhow::Result<TimerTrace> {
    let data = file::open(path)?;
    let trace = file::parse(path, &data)?;
    let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let (found, damage) =
        latlab_analysis::timer::from_trace::analyse(&trace, &name, select, threads);
    crate::trace_input::tell_damage(path, &trace.diagnostics, &damage);
    found.ok_or_else(|| anyhow!("{}: no events of timers or interrupts", path.display())).hint(
        "record with `latlab record -e timer -e irq -e irq_vectors`; or widen --from and --to",
    )
}

fn from_file(global: &Global, args: &Args, path: &Path) -> anyhow::Result<Outcome> {
    let found = analyse(path, &args.select()?)?;
    let config = serde_json::json!({ "file": path.to_string_lossy() });
    let mut session = Session::begin_ephemeral(global, "timer", &config)?;
    let detail = TimerDetail { live: None, trace: Some(found) };
    session.run.parts.push(part::part("timer", TITLE, detail, true));
    session.finish(None)
}

/// Rates, again and again, until somebody stops it.
fn top(args: &Args) -> anyhow::Result<Outcome> {
    let root = Root::here();
    let terminal = term::stdout_is_terminal();
    let mut out = term::raw_stdout();
    let begun = Instant::now();
    let mut before = ticks::counters(&root);
    if before.interrupts.lines.is_empty() {
        return Err(anyhow!("/proc/interrupts cannot be read")).hint("is /proc mounted?");
    }
    // On a terminal it goes on until Ctrl-C, as top does; into a pipe for -D.
    while signal::stop_requested().is_none() && (terminal || begun.elapsed() < args.duration) {
        signal::sleep(args.interval);
        let now = ticks::counters(&root);
        let seconds = now.time_ns.saturating_sub(before.time_ns) as f64 / 1e9;
        if terminal {
            // Home, and wipe what is below: no flicker.
            write!(out, "\x1b[H\x1b[J")?;
        }
        let interrupts = rates(&before.interrupts, &now.interrupts, seconds);
        let softirqs = rates(&before.softirqs, &now.softirqs, seconds);
        let doc = latlab_report::sections::timer::top(
            Rates { rates: &interrupts, cpus: &now.interrupts.cpus },
            Rates { rates: &softirqs, cpus: &now.softirqs.cpus },
        );
        crate::output::document(&doc, &mut out)?;
        out.flush()?;
        before = now;
    }
    Ok(Outcome::Done)
}
