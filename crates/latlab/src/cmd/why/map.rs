//! `latlab why --map`: one line of JSON for each capture, for many captures on many machines.
//!
//! A line depends on its capture and the options alone, so that files can be divided between processes
//! in any way (`xargs -P`, a job array, a Spark partition) and the lines concatenated. A capture that cannot
//! be read is a line with its error.

use super::analyse::{Reused, digest_one};
use crate::outcome::{HintExt, Outcome, format_error_chain};
use crate::term;
use anyhow::anyhow;
use latlab_analysis::latency::captures::Digested;
use latlab_analysis::latency::summary::conclude;
use latlab_model::control::JsonEscaped;
use latlab_model::finding::Note;
use latlab_model::latency::{SystemContext, WhyResult};
use latlab_model::units::Nanos;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A cause of a line.
#[derive(Serialize)]
struct Cause<'a> {
    id: &'static str,
    who: &'a str,
    /// Late wake-ups that it is the main cause of.
    main_of: usize,
    share_of_lateness: f64,
    excess_ns: f64,
    functions: Vec<&'a str>,
}

/// What is known of a capture.
#[derive(Serialize)]
struct Row<'a> {
    capture: String,
    kernel: Option<&'a str>,
    preempt_rt: Option<bool>,
    limit_ns: u64,
    wakeups: u64,
    late: u64,
    latency_ns_max: Option<u64>,
    events: u64,
    length_ns: u64,
    /// Intervals with lost events.
    holes: u32,
    unexplained_share: f64,
    causes: Vec<Cause<'a>>,
    /// Damage and limits of the capture.
    notes: &'a [Note],
}

/// A capture that could not be read.
#[derive(Serialize)]
struct Failed {
    capture: String,
    error: String,
}

/// Prints a line for each file, in the order in which they are done.
///
/// # Errors
/// When no file can be read, or stdout's.
pub fn run(files: &[PathBuf], limit: Nanos, task: Option<&str>) -> anyhow::Result<Outcome> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(files.len());
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let written: Mutex<anyhow::Result<()>> = Mutex::new(Ok(()));
    let work = || {
        let mut reused = Reused::default();
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (line, good) = line(file, limit, task, &mut reused);
            failed.fetch_add(usize::from(!good), Ordering::Relaxed);
            let mut written = written.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if written.is_err() {
                return;
            }
            *written = line.and_then(|line| print(&line));
        }
    };
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    written.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)?;
    match failed.into_inner() {
        n if n == files.len() => {
            Err(anyhow!("no capture could be read")).hint("each line has the error of its capture")
        }
        _ => Ok(Outcome::Done),
    }
}

/// One write a line: lines of several processes with one stdout do not mix.
fn print(line: &[u8]) -> anyhow::Result<()> {
    let mut out = term::raw_stdout();
    out.write_all(line)?;
    Ok(out.flush()?)
}

/// The line of a file, and whether it could be read.
fn line(
    file: &Path,
    limit: Nanos,
    task: Option<&str>,
    reused: &mut Reused,
) -> (anyhow::Result<Vec<u8>>, bool) {
    let capture = file.display().to_string();
    match digest_one(file, limit, task, reused) {
        Ok(Digested { digest, .. }) => {
            let context = SystemContext { limit_ns: limit.0, ..SystemContext::default() };
            (json(&row(capture, &conclude(vec![digest], context))), true)
        }
        Err(error) => (json(&Failed { capture, error: format_error_chain(&error) }), false),
    }
}

fn json(row: &impl Serialize) -> anyhow::Result<Vec<u8>> {
    let mut line = Vec::new();
    serde_json::to_writer(JsonEscaped(&mut line), row)?;
    line.push(b'\n');
    Ok(line)
}

fn row(capture: String, result: &WhyResult) -> Row<'_> {
    let note = result.captures.first();
    let count = |of: fn(&latlab_model::latency::CaptureNote) -> u64| note.map_or(0, of);
    Row {
        capture,
        kernel: note.and_then(|n| n.kernel.as_deref()),
        preempt_rt: note.and_then(|n| n.preempt_rt),
        limit_ns: result.limit_ns,
        wakeups: count(|n| n.wakeups),
        late: count(|n| n.late_wakeups),
        latency_ns_max: result.windows.iter().map(|w| w.latency_ns).max(),
        events: count(|n| n.events),
        length_ns: count(|n| n.length_ns),
        holes: note.map_or(0, |n| n.holes),
        unexplained_share: result.explanation.unexplained_share,
        causes: (result.explanation.causes.iter())
            .map(|c| Cause {
                id: c.mechanism.id(),
                who: &c.who,
                main_of: c.main_of.len(),
                share_of_lateness: c.share_of_lateness,
                excess_ns: c.excess_ns,
                functions: c.functions.iter().take(3).map(|f| f.function.as_str()).collect(),
            })
            .collect(),
        notes: note.map_or(&[], |n| &n.notes),
    }
}
