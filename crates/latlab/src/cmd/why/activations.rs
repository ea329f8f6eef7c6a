//! Captures of any program: its activations, and why some of them are late.

use super::analyse::{add_counters, names};
use crate::cli::why::Args;
use crate::outcome::HintExt;
use crate::trace_input;
use anyhow::{Context, anyhow};
use latlab_analysis::latency::activations::Late;
use latlab_analysis::latency::activations::from_capture::{Chosen, Thread, threads};
use latlab_analysis::latency::activations::summary::{Gathered, known, rank};
use latlab_analysis::latency::capture::Capture;
use latlab_analysis::latency::from_trace;
use latlab_analysis::latency::summary::{Digest, Examples, conclude, digest_found};
use latlab_analysis::latency::wakeups;
use latlab_model::finding::Note;
use latlab_model::latency::{CaptureCounters, SystemContext, WhyResult};
use latlab_sys::mmap::Mapped;
use std::path::{Path, PathBuf};

/// A file as a capture.
fn read(path: &Path) -> anyhow::Result<Capture> {
    let bytes = Mapped::open_all(path).with_context(|| path.display().to_string())?;
    let file = trace_input::open(&bytes, path)?;
    let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    Ok(from_trace::capture(&file, &name))
}

/// Adds the threads of a capture to those of the captures before. A thread of another capture is the same by
/// its number, or by its name where that is the only one of it in each.
pub(super) fn gather(found: Vec<Thread>, by_name: bool, all: &mut Vec<Gathered>) {
    let alone = by_name && found.len() == 1;
    for thread in found {
        let same = |g: &&mut Gathered| g.tid == thread.tid || alone && g.task == thread.name;
        match all.iter_mut().find(same) {
            Some(known) => known.add_as(thread.release, thread.jobs),
            None => {
                let mut new = Gathered {
                    task: thread.name,
                    tid: thread.tid,
                    release: thread.release,
                    ..Gathered::default()
                };
                new.add(thread.jobs);
                all.push(new);
            }
        }
    }
}

/// Explains the activations of a task in files. `None`: a limit, or the marker of a program in a file, judges
/// wake-ups and not activations.
///
/// # Errors
/// When a file cannot be read as a trace, or none has an activation of the task.
pub(super) fn of_files(
    files: &[PathBuf],
    task: &str,
    args: &Args,
    context: SystemContext,
    counters: &[CaptureCounters],
) -> anyhow::Result<Option<WhyResult>> {
    if !args.has_deadline() && args.file_limit()?.0 > 0 {
        return Ok(None);
    }
    let late = args.task_limit()?;
    let chosen = Chosen::parse(task);
    let by_name = matches!(chosen, Chosen::Name(_));
    let mut all = Vec::new();
    for file in files {
        let capture = read(file)?;
        if late.is_none() && wakeups::has_marker(&capture) {
            return Ok(None);
        }
        gather(threads(&capture, &chosen, &known(&all)), by_name, &mut all);
    }
    if all.is_empty() {
        return Err(anyhow!("no activation of {task} in {}", names(files))).hint(
            "it takes sched_switch and sched_waking events of the task, and hrtimer_start and \
             hrtimer_expire_entry for its intended times",
        );
    }
    explain(files, &chosen, all, late, context, counters).map(Some)
}

/// Explains the late activations of the first of the threads by the captures in files.
///
/// # Errors
/// When a file cannot be read as a trace.
pub(super) fn explain(
    files: &[PathBuf],
    chosen: &Chosen,
    mut all: Vec<Gathered>,
    late: Option<Late>,
    mut context: SystemContext,
    counters: &[CaptureCounters],
) -> anyhow::Result<WhyResult> {
    rank(&mut all, late.unwrap_or_default());
    let Some(first) = all.first() else { return Ok(WhyResult::default()) };
    let (late, reason) = match late {
        Some(late) => (late, Note::new("why.limit-given")),
        None => first.propose(),
    };
    context.limit_ns = late.limit().0;
    let mut digests = Vec::new();
    for file in files {
        let mut digest = digest(file, chosen, first, late)?;
        add_counters(&mut digest, counters);
        digests.push(digest);
    }
    let mut result = conclude(digests, context);
    result.limit_reason = Some(reason);
    let numbers = |g: &Gathered| g.summarize(if g.tid == first.tid { late } else { Late::Never });
    result.activations = all.iter().map(numbers).collect();
    Ok(result)
}

/// The activations of one thread in a file, each with its latency breakdown where it is looked at.
fn digest(path: &Path, chosen: &Chosen, of: &Gathered, late: Late) -> anyhow::Result<Digest> {
    let mut capture = read(path)?;
    let known = known(std::slice::from_ref(of));
    let found = threads(&capture, chosen, &known);
    let own = |t: &&Thread| t.tid == of.tid || found.len() == 1 && t.name == of.task;
    if let Some(thread) = found.iter().find(own) {
        let jobs = thread.jobs.iter().filter(|job| !job.unsure);
        capture.activations = jobs.map(|job| job.activation(thread.tid, late)).collect();
    }
    Ok(digest_found(&capture, Examples::Typical))
}
