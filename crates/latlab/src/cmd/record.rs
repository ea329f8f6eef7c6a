//! `latlab record`: what the kernel did, into a trace.dat.

use crate::cli::Global;
use crate::cli::record::{Args, Config, Latency, List};
use crate::outcome::{HintExt, Outcome, OwnHintExt};
use crate::progress::Progress;
use crate::rundir;
use crate::term;
use anyhow::Context;
use latlab_model::control::JsonEscaped;
use latlab_sys::recorder::child::{self, Held};
use latlab_sys::recorder::{
    FlightRecorder, LatencyRecorder, Longest, RecordError, Recorder, Session, Snapshot, Summary,
    dump_request,
};
use latlab_sys::signal;
use latlab_sys::tracefs::Tracefs;
use serde_json::json;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

/// How often it is looked whether it is time to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs it.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    if let Some((what, regex)) = args.list()? {
        return list(what, regex, global.json);
    }
    if args.check_events {
        return super::check_events::run(global, &open()?);
    }
    if let Some(path) = &args.recover {
        return recover(path);
    }
    let config = args.config()?;
    let tracefs = open()?;
    let mut record = config.record.clone();
    for &pid in &config.pids {
        record.add_process(pid).with_hint()?;
    }
    let held = match &config.command[..] {
        [] => None,
        command => Some(child::hold(command).context("starting the command")?),
    };
    if let Some(held) = held.as_ref().filter(|_| config.only_command) {
        record.pids.push(held.pid());
    }
    let config = Config { record, ..config };
    if let Some(latency) = config.latency {
        longest(global, &tracefs, &config, latency, held)
    } else if config.flight.is_some() {
        fly(global, &tracefs, &config, held)
    } else {
        stream(global, &tracefs, &config, held)
    }
}

/// Finds tracefs and says when it had to be mounted.
fn open() -> anyhow::Result<Tracefs> {
    let found = Tracefs::find().with_hint()?;
    if found.mounted {
        say(format_args!(
            "tracefs was not mounted; mounted it on {}",
            found.tracefs.root().display()
        ));
    }
    Ok(found.tracefs)
}

fn say(words: std::fmt::Arguments<'_>) {
    let _ = writeln!(term::stderr(), "latlab: {words}");
}

/// Says that the buffer is not our own, and what was put back there first.
fn say_top_level(session: &Session) {
    if !session.is_top_level() {
        return;
    }
    for put_back in session.put_back() {
        say(format_args!(
            "restored after a latlab process was killed: {}",
            crate::restoration::line(put_back)
        ));
    }
    say(format_args!(
        "this tracer needs the kernel's top-level buffer here: it is used during the recording and then restored"
    ));
}

/// Records until the end and writes one file.
fn stream(
    global: &Global,
    tracefs: &Tracefs,
    config: &Config,
    held: Option<Held>,
) -> anyhow::Result<Outcome> {
    let prepared = Recorder::prepare(tracefs, &config.record, &config.output, config.format)
        .and_then(|mut recorder| recorder.begin().map(|()| recorder));
    let (recorder, held) = or_cancel(prepared, held)?;
    say_top_level(recorder.session());
    let mut running = Running::start(held, config)?;
    let reason = running.until_the_end(|| recorder.is_running(), String::new);
    let reported = recorder.stop().with_hint().and_then(|s| report(global, &s, reason));
    // The command decides when it ends, whatever became of the recording.
    let outcome = running.outcome(reason);
    reported.and(outcome)
}

/// Runs a latency tracer until the end and writes the trace of the longest latency.
fn longest(
    global: &Global,
    tracefs: &Tracefs,
    config: &Config,
    latency: Latency,
    held: Option<Held>,
) -> anyhow::Result<Outcome> {
    let writable = rundir::check_writable(&config.output)
        .with_context(|| format!("-o {}", config.output.display()))
        .hint(rundir::WRITABLE);
    if let Err(error) = writable {
        held.into_iter().for_each(Held::cancel);
        return Err(error);
    }
    let prepared = LatencyRecorder::prepare(tracefs, &config.record, latency.threshold_us)
        .and_then(|recorder| recorder.begin().map(|()| recorder));
    let (recorder, held) = or_cancel(prepared, held)?;
    say_top_level(recorder.session());
    let mut running = Running::start(held, config)?;
    let so_far = || {
        let longest = recorder.longest_us().ok().flatten();
        longest.map_or_else(String::new, |us| format!("longest latency {us} µs"))
    };
    let reason = running.until_the_end(|| recorder.session().is_on(), so_far);
    let found = recorder.finish().with_hint();
    let reported = found.and_then(|found| {
        if let Some(found) = &found {
            rundir::write_asked(&config.output, "-o", |out| out.write_all(found.text.as_bytes()))?;
        }
        report_longest(global, config, latency, found.as_ref())?;
        Ok(found.is_some())
    });
    let outcome = running.outcome(reason);
    match (reported?, outcome?) {
        (true, Outcome::Done | Outcome::Code(0)) if latency.is_limit => Ok(Outcome::LimitExceeded),
        (_, outcome) => Ok(outcome),
    }
}

/// Says how long the longest latency was, and whose.
fn report_longest(
    global: &Global,
    config: &Config,
    latency: Latency,
    found: Option<&Longest>,
) -> anyhow::Result<()> {
    let tracer = config.record.tracer.as_deref().unwrap_or_default();
    // `#    | task: ktimers/0-15 (uid:0 nice:0 policy:1 rt_prio:1)`
    let task = found.and_then(|f| {
        let line = f.text.lines().find_map(|l| l.split_once("| task: "))?.1;
        Some(line.split(" (").next()?.trim().to_owned())
    });
    if global.json {
        let value = json!({
            "tracer": tracer, "threshold_us": latency.threshold_us,
            "longest_us": found.map(|f| f.us), "task": task,
            "file": found.map(|_| config.output.to_string_lossy()),
        });
        let mut out = term::stdout();
        serde_json::to_writer(JsonEscaped(&mut out), &value)?;
        writeln!(out)?;
        return Ok(out.flush()?);
    }
    match found {
        None => say(format_args!(
            "{tracer}: no latency over {} µs; nothing is written",
            latency.threshold_us
        )),
        Some(found) => say(format_args!(
            "{}: {tracer}, longest latency {} µs, task {}",
            config.output.display(),
            found.us,
            task.as_deref().unwrap_or("unknown")
        )),
    }
    Ok(())
}

/// A flight recorder: writes a file whenever it is asked to or frozen.
fn fly(
    global: &Global,
    tracefs: &Tracefs,
    config: &Config,
    held: Option<Held>,
) -> anyhow::Result<Outcome> {
    dump_request::install();
    let (mut flight, held) = or_cancel(FlightRecorder::start(tracefs, &config.record), held)?;
    say_top_level(flight.session());
    let mut running = Running::start(held, config)?;
    let dumped = dump_until_the_end(global, &mut flight, config, &mut running);
    drop(flight);
    if matches!(dumped, Ok(Reason::TracingOff)) {
        say(format_args!("stopped: tracing was switched off"));
    }
    let outcome = running.outcome(*dumped.as_ref().unwrap_or(&Reason::TracingOff));
    dumped.and(outcome)
}

/// Why it ended; an error where a file could not be written.
fn dump_until_the_end(
    global: &Global,
    flight: &mut FlightRecorder,
    config: &Config,
    running: &mut Running,
) -> anyhow::Result<Reason> {
    let mut files = 0;
    let mut frozen = 0;
    let reason = loop {
        if let Some(reason) = running.ended() {
            break reason;
        }
        if !flight.is_on() {
            frozen += 1;
            if frozen >= config.flight.unwrap_or(1) {
                break Reason::TracingOff;
            }
            dump(global, flight, config, &mut files, running)?;
            flight.rearm().with_hint()?;
        } else if dump_request::take() {
            dump(global, flight, config, &mut files, running)?;
            flight.rearm().with_hint()?;
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    dump(global, flight, config, &mut files, running)?;
    Ok(reason)
}

/// Takes out what is in the buffer and writes it: `trace.dat`, `trace.2.dat`, …
fn dump(
    global: &Global,
    flight: &mut FlightRecorder,
    config: &Config,
    files: &mut u32,
    running: &Running,
) -> anyhow::Result<()> {
    *files += 1;
    let path = numbered(&config.output, *files);
    let snapshot: Snapshot = flight.snapshot().with_hint()?;
    snapshot.save(&path, config.format).with_hint()?;
    let summary = Summary {
        file_bytes: std::fs::metadata(&path).map_or(0, |m| m.len()),
        path,
        duration: running.started.elapsed(),
        cpus: snapshot.cpus,
        ..Summary::default()
    };
    if global.json {
        return print_json(&summary);
    }
    say(format_args!(
        "{}: the last {} events, {} bytes",
        summary.path.display(),
        summary.events(),
        summary.file_bytes
    ));
    Ok(())
}

fn numbered(path: &Path, n: u32) -> PathBuf {
    if n <= 1 {
        return path.to_owned();
    }
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{n}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// What was prepared with the held command, which is let go unstarted when that failed.
fn or_cancel<T>(
    result: Result<T, RecordError>,
    held: Option<Held>,
) -> anyhow::Result<(T, Option<Held>)> {
    match result.with_hint() {
        Ok(prepared) => Ok((prepared, held)),
        Err(error) => {
            if let Some(held) = held {
                held.cancel();
            }
            Err(error)
        }
    }
}

/// Why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// The command ended, with this exit code.
    Command(u8),
    /// The time is over.
    Duration,
    /// A signal.
    Signal(signal::Signal),
    /// Something switched tracing off, or the disk is full.
    TracingOff,
}

/// The command, if there is one, and the time.
struct Running {
    child: Option<Child>,
    started: Instant,
    duration: Option<Duration>,
    not_started: Option<u8>,
}

impl Running {
    /// Lets the command go. One that does not exist ends with a shell's 127, one that cannot be
    /// executed with 126.
    fn start(held: Option<Held>, config: &Config) -> anyhow::Result<Self> {
        let mut running = Self {
            child: None,
            started: Instant::now(),
            duration: config.duration,
            not_started: None,
        };
        match held.map(Held::release) {
            None => {}
            Some(Ok(child)) => running.child = Some(child),
            Some(Err(error)) => {
                let program = config.command.first().cloned().unwrap_or_default();
                let name = program.to_string_lossy();
                let (code, words) = match error.kind() {
                    io::ErrorKind::NotFound => (127, "command not found".to_owned()),
                    _ => (126, error.to_string()),
                };
                say(format_args!("{name}: {words}"));
                running.not_started = Some(code);
            }
        }
        Ok(running)
    }

    fn ended(&mut self) -> Option<Reason> {
        if let Some(code) = self.not_started {
            return Some(Reason::Command(code));
        }
        if let Some(signal) = signal::stop_requested() {
            return Some(Reason::Signal(signal));
        }
        if self.duration.is_some_and(|d| self.started.elapsed() >= d) {
            return Some(Reason::Duration);
        }
        let status = self.child.as_mut()?.try_wait().ok()??;
        Some(Reason::Command(child::exit_code(status)))
    }

    /// Shows how far it is until it ends, also when `is_on` says that tracing does.
    fn until_the_end(&mut self, is_on: impl Fn() -> bool, words: impl Fn() -> String) -> Reason {
        let mut progress = Progress::new("record");
        loop {
            if let Some(reason) = self.ended() {
                return reason;
            }
            if !is_on() {
                return Reason::TracingOff;
            }
            progress.set(self.done(), &words());
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// How far it is, 0 to 1.
    fn done(&self) -> Option<f64> {
        let duration = self.duration?.as_secs_f64();
        Some((self.started.elapsed().as_secs_f64() / duration).min(1.0))
    }

    /// The exit code. A command that still runs is told to end when we were, or has the time that
    /// it needs: its own end decides.
    fn outcome(mut self, reason: Reason) -> anyhow::Result<Outcome> {
        if let (Reason::Signal(signal), Some(child)) = (reason, &self.child) {
            child::signal(child, signal.0);
        }
        if let (Reason::Duration, Some(child)) = (reason, &self.child) {
            child::signal(child, 15);
        }
        let code = match &mut self.child {
            Some(child) => Some(child::exit_code(child.wait().context("waiting for the command")?)),
            None => None,
        };
        Ok(match (reason, code) {
            (Reason::Signal(signal), None) => Outcome::Stopped(signal),
            (Reason::Command(code), _) => Outcome::Code(code),
            // It was we who ended it.
            (Reason::Duration, Some(143)) | (_, None) => Outcome::Done,
            (_, Some(code)) => Outcome::Code(code),
        })
    }
}

/// Says what was recorded: a sentence, what was lost, what went wrong.
fn report(global: &Global, summary: &Summary, reason: Reason) -> anyhow::Result<()> {
    if global.json {
        print_json(summary)?;
        return summary.check().with_hint();
    }
    summary.check().with_hint()?;
    for removed in &summary.removed {
        say(format_args!("removed {}, an instance of a killed latlab process", removed.name));
    }
    if reason == Reason::TracingOff {
        say(format_args!("stopped: tracing was switched off"));
    }
    say(format_args!(
        "{}: {} events in {:.1} s, {} bytes",
        summary.path.display(),
        summary.events(),
        summary.duration.as_secs_f64(),
        summary.file_bytes
    ));
    for cpu in summary.cpus.iter().filter(|c| c.lost() > 0) {
        say(format_args!(
            "CPU {}: {} events lost ({} overwritten, {} in nested commits, {} dropped)",
            cpu.cpu,
            cpu.lost(),
            cpu.overrun,
            cpu.commit_overrun,
            cpu.dropped
        ));
    }
    if summary.lost() > 0 {
        say(format_args!("a larger buffer (-b), fewer events or a filter (-f) loses less"));
    }
    Ok(())
}

fn print_json(summary: &Summary) -> anyhow::Result<()> {
    let cpus: Vec<_> = summary
        .cpus
        .iter()
        .map(|c| {
            json!({
                "cpu": c.cpu, "events": c.events, "bytes": c.bytes, "overrun": c.overrun,
                "commit_overrun": c.commit_overrun, "dropped": c.dropped,
            })
        })
        .collect();
    let value = json!({
        "file": summary.path.to_string_lossy(), "file_bytes": summary.file_bytes,
        "duration_ns": u64::try_from(summary.duration.as_nanos()).unwrap_or(u64::MAX),
        "events": summary.events(), "lost": summary.lost(), "cpus": cpus,
        "warnings": summary.failures,
        "removed_instances": summary.removed.iter().map(|r| &r.name).collect::<Vec<_>>(),
    });
    let mut out = term::stdout();
    serde_json::to_writer(JsonEscaped(&mut out), &value)?;
    writeln!(out)?;
    out.flush()?;
    Ok(())
}

/// Makes what a killed recorder left behind compact.
fn recover(path: &Path) -> anyhow::Result<Outcome> {
    let bytes = latlab_sys::recorder::recover(path).with_hint()?;
    say(format_args!("{}: {bytes} bytes", path.display()));
    Ok(Outcome::Done)
}

/// Lists what the kernel offers.
fn list(what: List, regex: Option<&str>, as_json: bool) -> anyhow::Result<Outcome> {
    let regex = match regex {
        Some(text) => {
            Some(regex_lite::Regex::new(text).with_context(|| format!("--list: {text:?}"))?)
        }
        None => None,
    };
    let tracefs = open()?;
    let lines: Vec<String> = match what {
        List::Events => tracefs.events().with_hint()?.iter().map(ToString::to_string).collect(),
        List::Tracers => tracefs.tracers().with_hint()?,
        List::Functions => tracefs.functions().with_hint()?,
        List::Clocks => tracefs.clocks().with_hint()?.0,
        List::Options => tracefs
            .options()
            .with_hint()?
            .into_iter()
            .map(|(name, on)| if on { name } else { format!("no{name}") })
            .collect(),
    };
    let matches = |l: &&String| regex.as_ref().is_none_or(|r| r.is_match(l));
    let lines: Vec<&String> = lines.iter().filter(matches).collect();
    let mut out = term::stdout();
    if as_json {
        serde_json::to_writer(JsonEscaped(&mut out), &lines)?;
        writeln!(out)?;
    } else {
        for line in lines {
            writeln!(out, "{line}")?;
        }
    }
    out.flush()?;
    Ok(Outcome::Done)
}
