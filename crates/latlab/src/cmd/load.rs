//! `latlab load`: see [`latlab_sys::load`]; and how other commands start one.

use crate::cli::Global;
use crate::cli::load::{Args, WorkerArgs};
use crate::outcome::{HintExt, Outcome};
use crate::term;
use anyhow::Context;
use latlab_model::control::Cleaned;
use latlab_report::doc::{Column, Table};
use latlab_sys::load::{Load, LoadError, LoadSpec};
use latlab_sys::signal;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Kinds of load, and what they do.
const KINDS: &[(&str, &str)] = &[
    ("cpu[:PERCENT]", "square roots; with PERCENT, for this share of each 10 ms"),
    ("io", "sync(2)"),
    ("hdd[:BYTES]", "writes a file and removes it (1G)"),
    (
        "vm[:BYTES[:STRIDE[:keep][:hang=TIME]]]",
        "allocates memory, writes one byte each STRIDE, checks it and frees it (256M, 4096); alias: memory",
    ),
    (
        "bandwidth:read|write|copy|stream[:BYTES]",
        "reads, writes or copies memory without pause; stream: non-temporal writes (64M)",
    ),
    ("cache:L1|L2|L3|BYTES", "accesses every line of an area of the cache's size in random order"),
    ("tlb[:THREADS]", "threads that map, protect and unmap memory: TLB shootdowns on all CPUs (2)"),
    (
        "pagecache[:BYTES]",
        "writes a file, syncs it, drops it from the page cache, reads and checks it (64M)",
    ),
    ("fork", "creates processes that exit immediately"),
    ("net", "round trips of 16 KiB over TCP on loopback"),
    ("timers[:N]", "N timers that expire every millisecond (64)"),
    ("ipi", "two threads on two CPUs wake each other by futex: inter-processor interrupts"),
    ("COMMAND ARGUMENTS…", "any program; restarted when it exits with 0"),
];

/// Names of the kinds, for a shell.
#[cfg(feature = "host")]
pub fn kinds() -> impl Iterator<Item = &'static str> {
    let word = |kind: &'static str| kind.split([':', '[', ' ']).next();
    KINDS.iter().filter_map(move |(kind, _)| word(kind)).filter(|word| *word != "COMMAND")
}

/// Runs loads until a signal, a timeout, or one of them ends by itself.
///
/// # Errors
/// When a load cannot be started, or did not last.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    let (loads, timeout) = args.config()?;
    let mut out = term::raw_stdout();
    if args.list {
        let rows = KINDS.iter().map(|(kind, what)| vec![(*kind).into(), (*what).into()]);
        let columns = vec![Column::whole("load"), Column::left("what it does")];
        crate::output::table(
            Table { columns, rows: rows.collect(), ..Table::default() },
            &mut out,
        )?;
        out.flush()?;
        return Ok(Outcome::Done);
    }
    let mut load = begin(&loads, args.dir.as_deref())?;
    let begun = Instant::now();
    let over = || timeout.is_some_and(|t| begun.elapsed() >= t);
    while signal::stop_requested().is_none() && !over() {
        if let Some(error) = load.ended() {
            return Err(with_hint(error));
        }
        let left =
            timeout.map_or(Duration::from_millis(100), |t| t.saturating_sub(begun.elapsed()));
        std::thread::sleep(left.min(Duration::from_millis(100)));
    }
    let seconds = begun.elapsed().as_secs_f64();
    let done = load.stop();
    if global.json {
        let rows: Vec<serde_json::Value> = (done.iter())
            .map(|d| serde_json::json!({"load": d.worker, "rounds": d.rounds, "seconds": seconds}))
            .collect();
        crate::output::json(&rows, &mut out)?;
    } else {
        for d in &done {
            match d.rounds {
                Some(n) => writeln!(
                    Cleaned(&mut out),
                    "{}: {n} rounds in {seconds:.1} s, data verified",
                    d.worker
                )?,
                None => writeln!(Cleaned(&mut out), "{}: {seconds:.1} s", d.worker)?,
            }
        }
    }
    out.flush()?;
    Ok(signal::stop_requested().map_or(Outcome::Done, Outcome::Stopped))
}

fn begin(loads: &[LoadSpec], dir: Option<&Path>) -> anyhow::Result<Load> {
    let program = crate::program::own_program()?;
    Ok(Load::start_specs(&program, loads, dir)?)
}

/// A load beside a measurement; `None` where none was asked for.
///
/// # Errors
/// When it cannot be started.
pub fn start(loads: &[LoadSpec]) -> anyhow::Result<Option<Load>> {
    if loads.is_empty() { Ok(None) } else { begin(loads, None).map(Some) }
}

/// A load that is over: an error when it did not last until now.
///
/// # Errors
/// Which, and how it ended.
pub fn finish(load: Option<Load>) -> anyhow::Result<()> {
    let Some(mut load) = load else { return Ok(()) };
    // Ctrl-C ends the workers too: then the load was there until the end.
    match load.ended().filter(|_| signal::stop_requested().is_none()) {
        Some(error) => Err(with_hint(error)),
        None => Ok(()),
    }
}

fn with_hint(error: LoadError) -> anyhow::Error {
    let hint = "see its own message above, if any; try it alone with latlab load";
    match Err::<(), _>(anyhow::Error::new(error)).hint(hint) {
        Err(error) => error,
        Ok(()) => anyhow::anyhow!("a load ended"),
    }
}

/// One worker: works until standard input ends or a signal comes.
///
/// # Errors
/// When the worker cannot do its work (no space, no memory).
pub fn worker(args: &WorkerArgs) -> anyhow::Result<Outcome> {
    match &args.worker {
        LoadSpec::Built(_, worker) => latlab_sys::load::work_until_stdin_ends(*worker),
        LoadSpec::Command(line) => latlab_sys::load::keep_command_until_stdin_ends(line),
    }
    .with_context(|| format!("load {}", args.worker))?;
    Ok(signal::stop_requested().map_or(Outcome::Done, Outcome::Stopped))
}
