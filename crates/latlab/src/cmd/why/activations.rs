//! Captures of any program: its activations, and why some of them are late.

use super::analyse::names;
use super::ends::Finder;
use crate::cli::why::Args;
use crate::outcome::HintExt;
use crate::trace_input;
use anyhow::{Context, anyhow};
use latlab_analysis::latency::activations::Late;
use latlab_analysis::latency::activations::from_capture::{Chosen, Known, Thread};
use latlab_analysis::latency::activations::spans::{Ending, Found};
use latlab_analysis::latency::activations::summary::Gathered;
use latlab_analysis::latency::capture::Capture;
use latlab_analysis::latency::captures;
use latlab_analysis::latency::from_trace;
use latlab_model::latency::{CaptureCounters, CountedWork, SystemContext, WhyResult};
use latlab_model::units::Tid;
use latlab_sys::mmap::Mapped;
use latlab_trace::Diagnostics;
use std::path::{Path, PathBuf};

/// A file as a capture, with the activations or spans in it, and its damage.
fn read(
    path: &Path,
    finder: &Finder,
    chosen: &Chosen,
    known: &Known,
) -> anyhow::Result<(Capture, Vec<Thread>, Found, Diagnostics)> {
    let bytes = Mapped::open_all(path).with_context(|| path.display().to_string())?;
    let file = trace_input::open(&bytes, path)?;
    trace_input::in_nanoseconds(&file, path)?;
    let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let capture = from_trace::capture(&file, &name);
    #[cfg(feature = "host")]
    let capture = with_user_stacks(capture, path)?;
    let (threads, found) = finder.find(&file, &capture, chosen, known, Ending::default())?;
    Ok((capture, threads, found, file.diagnostics))
}

/// The capture with the user stacks that were recorded beside it.
#[cfg(feature = "host")]
fn with_user_stacks(mut capture: Capture, path: &Path) -> anyhow::Result<Capture> {
    let stacks = super::user_stacks::load(path)?;
    latlab_analysis::latency::user_stacks::attach(&mut capture, &stacks);
    Ok(capture)
}

/// Explains the activations of a task in files; `work` are the counters that were recorded with them. `None`: a limit, or
/// the marker of a program in a file, judges wake-ups and not activations.
///
/// # Errors
/// When a file cannot be read as a trace, or none has an activation of the task.
pub(super) fn of_files(
    files: &[PathBuf],
    task: Option<&str>,
    args: &Args,
    context: SystemContext,
    counters: &[CaptureCounters],
    work: Option<CountedWork>,
) -> anyhow::Result<Option<WhyResult>> {
    let finder = Finder::new(args.ends(), &args.key)?;
    let of_spans = finder.names().is_some();
    if !of_spans && !args.has_deadline() && args.file_limit()?.0 > 0 {
        return Ok(None);
    }
    let late = args.task_limit()?;
    let chosen = task.map_or_else(|| Chosen::Tids(Vec::new()), Chosen::parse);
    let mut seen = Found::default();
    let mut damaged = Vec::new();
    let find = |i: usize, known: &Known| {
        let (capture, threads, found, damage) = read(&files[i], &finder, &chosen, known)?;
        add(&mut seen, &found);
        damaged.push((&files[i], damage));
        anyhow::Ok((capture, threads))
    };
    let marker_judges = !of_spans && late.is_none();
    let by_name = matches!(chosen, Chosen::Name(_));
    let Some(mut all) = captures::gather_all(files.len(), find, by_name, late, marker_judges)?
    else {
        return Ok(None);
    };
    for (path, damage) in damaged {
        trace_input::tell_damage(path, &damage, &Diagnostics::default());
    }
    if all.is_empty() {
        finder.nothing(task, &seen)?;
        let task = task.unwrap_or_default();
        return Err(anyhow!("no activation of {task} in {}", names(files))).hint(
            "it takes sched_switch and sched_waking events of the task, and hrtimer_start and \
             hrtimer_expire_entry for its intended times",
        );
    }
    let period = args.task_period()?;
    all.iter_mut().for_each(|thread| thread.given_period = period);
    let work = |tid: Tid| work.filter(|w| w.tid == tid.0);
    explain(files, (&finder, &chosen), all, late, (context, counters), work).map(Some)
}

/// Adds up the events of both ends.
pub(super) fn add(all: &mut Found, found: &Found) {
    all.events.0 += found.events.0;
    all.events.1 += found.events.1;
    all.again += found.again;
    all.unmatched += found.unmatched;
}

/// Explains the late activations of the first of the threads by the captures in files.
///
/// # Errors
/// When a file cannot be read as a trace.
pub(super) fn explain(
    files: &[PathBuf],
    (finder, chosen): (&Finder, &Chosen),
    all: Vec<Gathered>,
    late: Option<Late>,
    (context, counters): (SystemContext, &[CaptureCounters]),
    work: impl FnOnce(Tid) -> Option<CountedWork>,
) -> anyhow::Result<WhyResult> {
    let find = |i: usize, known: &Known| {
        let (capture, threads, ..) = read(&files[i], finder, chosen, known)?;
        anyhow::Ok((capture, threads))
    };
    captures::explain_activations(files.len(), find, all, late, context, counters, work)
}
