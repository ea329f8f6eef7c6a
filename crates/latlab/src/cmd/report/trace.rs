//! `latlab report FILE.dat`: a trace as text or JSON, like `trace-cmd report`.

use crate::cli::{Global, report::Args};
use crate::outcome::{HintExt, Outcome};
use crate::term;
use crate::trace_input;
use anyhow::Context;
use latlab_model::control::clean_bytes;
use latlab_report::sections::trace;
use latlab_sys::mmap::Mapped;
use latlab_trace::print::{Dialect, LineStyle, ReportOptions, report};
use latlab_trace::{Diagnostics, TraceFile};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

/// More threads than this do not make a report faster: the merge is sequential.
const THREADS_MAX: usize = 8;

pub(super) fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    let data = map(args)?;
    let file = trace_input::open(&data, &args.path)?;
    #[cfg(feature = "host")]
    if args.dump {
        dump(global, &file, args)?;
        trace_input::tell_damage(&args.path, &file.diagnostics, &Diagnostics::default());
        return Ok(Outcome::Done);
    }
    let options = options(&file, args)?;
    let damage = if args.stat {
        stat(global, &file, &options)?
    } else {
        print(global, &file, options, true)?
    };
    trace_input::tell_damage(&args.path, &file.diagnostics, &damage);
    Ok(Outcome::Done)
}

pub(super) fn map(args: &Args) -> anyhow::Result<Mapped> {
    Mapped::open(&args.path)
        .with_context(|| format!("{} cannot be opened", args.path.display()))
        .hint("name a run (directory or run.json), a trace.dat, or ftrace's text")
}

pub(super) fn options(file: &TraceFile<'_>, args: &Args) -> anyhow::Result<ReportOptions> {
    let (select, filter) = trace_input::choose(file, &args.choice)?;
    let dialect = match (args.raw, args.no_plugins) {
        (true, _) => Dialect::Fields,
        (_, true) => Dialect::Kernel,
        _ => Dialect::TraceCmd,
    };
    let here = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(ReportOptions {
        select,
        pids: (!args.pid.is_empty()).then(|| args.pid.clone()),
        filter,
        style: LineStyle {
            dialect,
            latency: args.latency,
            nanoseconds: args.nanoseconds,
            ..LineStyle::default()
        },
        threads: args.threads.unwrap_or(here.min(THREADS_MAX)).clamp(1, 256),
    })
}

/// Prints the lines, `with_head` the number of CPUs before them.
pub(super) fn print(
    global: &Global,
    file: &TraceFile<'_>,
    options: ReportOptions,
    with_head: bool,
) -> anyhow::Result<Diagnostics> {
    // Batches are written as they are: a buffer in between would copy them once more.
    let mut out = term::Stdout(File::from(io::stdout().as_fd().try_clone_to_owned()?));
    if let Some(text) = &file.latency_text {
        out.write_all(&clean_bytes(text))?;
        return Ok(Diagnostics::default());
    }
    let end = if global.json {
        let style = LineStyle { json: true, ..options.style.clone() };
        report(file, &ReportOptions { style, ..options }, &mut out)?
    } else {
        if with_head {
            writeln!(out, "cpus={}", file.cpu_count)?;
        }
        report(file, &options, &mut out)?
    };
    out.flush()?;
    Ok(end.diagnostics)
}

fn stat(
    global: &Global,
    file: &TraceFile<'_>,
    options: &ReportOptions,
) -> anyhow::Result<Diagnostics> {
    let (stat, damage) = latlab_trace::stat::stat(file, options);
    let mut out = term::raw_stdout();
    if global.json {
        crate::output::json(&stat, &mut out)?;
    } else {
        // The board build, which is limited in size, prints all of it.
        let all = term::details() || !cfg!(feature = "host");
        let doc = if all { trace::stat(&stat) } else { trace::screen(&stat) };
        crate::output::document(&doc, &mut out)?;
    }
    out.flush()?;
    Ok(damage)
}

#[cfg(feature = "host")]
fn dump(global: &Global, file: &TraceFile<'_>, args: &Args) -> anyhow::Result<()> {
    let layout = file
        .layout()
        .with_context(|| format!("{}: has no sections, it is text", args.path.display()))
        .hint("--stat counts the events of a text")?;
    let mut out = term::raw_stdout();
    if global.json {
        crate::output::json(&layout, &mut out)?;
    } else {
        crate::output::document(&latlab_report::sections::trace_layout::dump(&layout), &mut out)?;
    }
    Ok(out.flush()?)
}
