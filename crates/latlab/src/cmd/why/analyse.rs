//! From capture files to an explanation: each file on its own, several at a time.

use crate::outcome::HintExt;
use crate::trace_input;
use anyhow::{Context, anyhow};
use latlab_analysis::latency::capture::Capture;
use latlab_analysis::latency::from_trace;
use latlab_analysis::latency::summary::{Digest, Examples, conclude, digest_found};
use latlab_analysis::latency::wakeups;
use latlab_model::event::{Event, EventKind, Symbol};
use latlab_model::finding::{Note, Quantity};
use latlab_model::latency::WhyResult;
use latlab_model::latency::{CaptureCounters, SystemContext};
use latlab_model::units::{Nanos, Tid};
use latlab_report::messages;
use latlab_sys::mmap::{Mapped, with_huge_pages};
use latlab_trace::KnownFormats;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
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

/// Explains capture files.
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
    let (mut digests, others) = digest_all(files, limit, task)?;
    digests.iter_mut().for_each(|digest| add_counters(digest, counters));
    if digests.iter().all(|d| d.windows.is_empty()) {
        let of = task.map_or(String::new(), |t| format!(" of {t}"));
        let hint = if others.is_empty() {
            "it takes sched_waking, sched_switch, hrtimer_start and hrtimer_expire_entry events, \
             or a marker of cyclictest --tracemark or latlab why"
                .to_owned()
        } else {
            format!("tasks that wake up in it: {}", others.join(", "))
        };
        let mut notes = digests.iter().flat_map(|d| &d.note.notes);
        let damage = notes.find(|n| n.id() == Some(DAMAGED));
        let damage = damage.map_or(String::new(), |n| format!(" ({})", messages::note(n)));
        return Err(anyhow!("no wake-up{of} in {}{damage}", names(files))).hint(hint);
    }
    Ok(conclude(digests, context))
}

/// Adds what was counted round the capture of a digest.
pub(super) fn add_counters(digest: &mut Digest, counters: &[CaptureCounters]) {
    let Some(own) = &mut digest.note.counters else { return };
    if let Some(counted) = counters.iter().find(|c| c.capture == own.capture) {
        *own = *counted;
        for window in &mut digest.windows {
            (window.steal_ns, window.smi) = (counted.steal_ns, counted.smi);
        }
    }
}

pub(super) fn names(files: &[PathBuf]) -> String {
    match files {
        [one] => one.display().to_string(),
        [first, rest @ ..] => format!("{} and {} other files", first.display(), rest.len()),
        [] => "no file".into(),
    }
}

/// The note of a damaged file.
const DAMAGED: &str = "why.capture-damaged";

/// A file's digest, and the tasks that wake up in it where the named one does not.
type Digested = (Digest, Vec<String>);

/// Digests files on as many threads as there are CPUs; memory is bounded by the files in work.
/// With them the names of other tasks that wake up, where the named one does not.
fn digest_all(
    files: &[PathBuf],
    limit: Nanos,
    task: Option<&str>,
) -> anyhow::Result<(Vec<Digest>, Vec<String>)> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(files.len()).min(8);
    let next = AtomicUsize::new(0);
    let work = || {
        let (mut done, mut reused) = (Vec::new(), Reused::default());
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(file) = files.get(i) else { return done };
            done.push((i, digest_one(file, limit, task, &mut reused)));
        }
    };
    let mut all: Vec<(usize, anyhow::Result<Digested>)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|t| t.join().unwrap_or_default()).collect()
    });
    all.sort_by_key(|(i, _)| *i);
    let done = all.into_iter().map(|(_, done)| done).collect::<anyhow::Result<Vec<_>>>()?;
    let (digests, others): (Vec<Digest>, Vec<Vec<String>>) = done.into_iter().unzip();
    let mut others = others.concat();
    others.sort();
    others.dedup();
    others.truncate(10);
    Ok((digests, others))
}

/// What a thread keeps from one file for the next.
#[derive(Default)]
struct Reused {
    formats: KnownFormats,
    events: Vec<Event>,
}

fn digest_one(
    path: &Path,
    limit: Nanos,
    task: Option<&str>,
    reused: &mut Reused,
) -> anyhow::Result<Digested> {
    let bytes = Mapped::open_all(path).with_context(|| path.display().to_string())?;
    let file = trace_input::open_after(&bytes, path, Some(&mut reused.formats))?;
    let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let expected = from_trace::expected_events(&file);
    let events = with_huge_pages(std::mem::take(&mut reused.events), expected);
    let mut capture = from_trace::capture_in(&file, &name, events);
    wakeups::find(&mut capture, limit);
    let others = task.map_or_else(Vec::new, |task| keep(&mut capture, task));
    let mut digest = digest_found(&capture, Examples::Typical);
    reused.events = capture.events;
    let damage = file.diagnostics.list();
    if let Some(first) = damage.first() {
        let more = damage.len() as u64 - 1 + file.diagnostics.suppressed();
        let mut note = Note::new(DAMAGED).value("what", first.what.to_string());
        if more > 0 {
            note = note.value("more", Quantity::Count(more));
        }
        digest.note.notes.push(note);
    }
    if digest.note.late == 0 && limit.0 == 0 {
        digest.note.notes.push(Note::new("why.capture-no-marker"));
    }
    Ok((digest, others))
}

/// Keeps the wake-ups of one task, by thread id or name. Where there are none: whose there are.
fn keep(capture: &mut Capture, task: &str) -> Vec<String> {
    let mut tids: Vec<Tid> = task.parse().map(Tid).into_iter().collect();
    let mut names: HashMap<Tid, Symbol> = HashMap::new();
    for e in &capture.events {
        if let EventKind::Switch { next, .. } = e.kind
            && names.insert(next.tid, next.name) != Some(next.name)
            && capture.names.get(next.name) == task
        {
            tids.push(next.tid);
        }
    }
    let all = std::mem::take(&mut capture.activations);
    let (own, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|a| tids.contains(&a.tid));
    capture.activations = own;
    if !capture.activations.is_empty() {
        return Vec::new();
    }
    let mut woken: Vec<Tid> = others.iter().map(|a| a.tid).collect();
    woken.sort_unstable();
    woken.dedup();
    let name = |tid: &Tid| Some(capture.names.get(*names.get(tid)?).to_owned());
    woken.iter().filter_map(name).collect()
}
