//! From capture files to an explanation: each file on its own, several at a time.

use crate::outcome::HintExt;
use crate::trace_input;
use anyhow::{Context, anyhow};
use latlab_analysis::latency::captures::{self, Digested};
use latlab_analysis::latency::from_trace;
use latlab_model::event::Event;
use latlab_model::latency::WhyResult;
use latlab_model::latency::{CaptureCounters, SystemContext};
use latlab_model::units::Nanos;
use latlab_report::messages;
use latlab_sys::mmap::{Mapped, with_huge_pages};
use latlab_trace::KnownFormats;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

/// The capture files that paths name: files as they are, the captures of run directories.
///
/// # Errors
/// When a directory holds no capture.
pub fn captures_of(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let folder = path.join("captures");
        let mut found: Vec<PathBuf> = fs::read_dir(&folder)
            .with_context(|| format!("{}: no captures", path.display()))
            .hint("name trace.dat files, or the directory of a `latlab why` run")?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|p| p.extension().is_some_and(|e| e == "dat"))
            .collect();
        if found.is_empty() {
            return Err(anyhow!("{}: no captures", folder.display()))
                .hint("no wake-up of that run was late");
        }
        found.sort();
        files.extend(found);
    }
    Ok(files)
}

/// Explains capture files, as many at once as there are CPUs; memory is bounded by the files in work.
///
/// # Errors
/// When a file cannot be read as a trace at all, or none has a wake-up of the task.
pub fn explain(
    files: &[PathBuf],
    limit: Nanos,
    task: Option<&str>,
    context: SystemContext,
    counters: &[CaptureCounters],
) -> anyhow::Result<WhyResult> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(8);
    let digest = |i: usize, reused: &mut Reused| digest_one(&files[i], limit, task, reused);
    let digested = captures::each(files.len(), workers, digest)?;
    captures::explain(digested, context, counters).or_else(|none| {
        let of = task.map_or(String::new(), |t| format!(" of {t}"));
        let hint = if none.others.is_empty() {
            "it takes sched_waking, sched_switch, hrtimer_start and hrtimer_expire_entry events, \
             or a marker of cyclictest --tracemark or latlab why"
                .to_owned()
        } else {
            format!("tasks that wake up in it: {}", none.others.join(", "))
        };
        let damage = none.damage.map_or(String::new(), |n| format!(" ({})", messages::note(&n)));
        Err(anyhow!("no wake-up{of} in {}{damage}", names(files))).hint(hint)
    })
}

pub(super) fn names(files: &[PathBuf]) -> String {
    match files {
        [one] => one.display().to_string(),
        [first, rest @ ..] => format!("{} and {} other files", first.display(), rest.len()),
        [] => "no file".into(),
    }
}

/// What a thread keeps from one file for the next.
#[derive(Default)]
pub(super) struct Reused {
    formats: KnownFormats,
    events: Vec<Event>,
}

pub(super) fn digest_one(
    path: &Path,
    limit: Nanos,
    task: Option<&str>,
    reused: &mut Reused,
) -> anyhow::Result<Digested> {
    let bytes = Mapped::open_all(path).with_context(|| path.display().to_string())?;
    let file = trace_input::open_after(&bytes, path, Some(&mut reused.formats))?;
    trace_input::in_nanoseconds(&file, path)?;
    let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let expected = from_trace::expected_events(&file);
    let events = with_huge_pages(std::mem::take(&mut reused.events), expected);
    let mut capture = from_trace::capture_in(&file, &name, events);
    let digested = captures::digest(&mut capture, limit, task, &file.diagnostics);
    reused.events = capture.events;
    Ok(digested)
}
