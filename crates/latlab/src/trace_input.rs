//! Opens the traces that a user names, within the memory that they may take.

use crate::cli::time::timestamp_ns;
use crate::cli::trace_choice::Choice;
use crate::outcome::HintExt;
use crate::term;
use anyhow::{Context, anyhow};
use latlab_model::cpulist;
use latlab_trace::filter::events_named;
use latlab_trace::{Diagnostics, Filter, KnownFormats, Select, TraceFile};
use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;

static MAX_MEMORY: OnceLock<u64> = OnceLock::new();

/// Sets `--max-memory`, bytes, before anything is opened.
pub fn limit_memory(bytes: Option<u64>) {
    if let Some(bytes) = bytes {
        let _ = MAX_MEMORY.set(bytes);
    }
}

/// Bytes that a file may inflate to: `--max-memory`, or a quarter of what is free.
pub fn memory() -> u64 {
    let share = || latlab_sys::machine::share_of_free_memory();
    *MAX_MEMORY.get_or_init(|| share().unwrap_or(latlab_trace::DEFAULT_MEMORY))
}

/// A `trace.dat`, or ftrace's text.
///
/// # Errors
/// One sentence with the file, when nothing can be read.
pub fn open<'d>(data: &'d [u8], path: &Path) -> anyhow::Result<TraceFile<'d>> {
    open_after(data, path, None)
}

/// As [`open`], sharing the formats of the file before, where they are the same.
///
/// # Errors
/// As [`open`].
pub fn open_after<'d>(
    data: &'d [u8],
    path: &Path,
    known: Option<&mut KnownFormats>,
) -> anyhow::Result<TraceFile<'d>> {
    let hint = match cfg!(feature = "host") {
        true => {
            "latlab reads trace.dat version 6 and 7, and the text of `trace` and `trace-cmd report`"
        }
        false => "this build reads trace.dat version 6 and 7; ftrace's text is read on a host",
    };
    latlab_trace::open_after(data, memory(), known)
        .with_context(|| path.display().to_string())
        .hint(hint)
}

/// Whether times can be told from the trace: its clock counts nanoseconds.
///
/// # Errors
/// One sentence with the file and its clock, when that counts something else.
pub fn in_nanoseconds(file: &TraceFile<'_>, path: &Path) -> anyhow::Result<()> {
    if file.counts_ns() {
        return Ok(());
    }
    let (path, clock) = (path.display(), file.clock());
    Err(anyhow!("{path}: the trace's clock is {clock}, which does not count nanoseconds"))
        .hint("record with a clock that does: latlab record -C mono, trace-cmd record -C mono")
}

/// The events that the options choose.
///
/// # Errors
/// When an option names none, or cannot be read.
pub fn choose(file: &TraceFile<'_>, choice: &Choice) -> anyhow::Result<(Select, Filter)> {
    let cpus = choice.cpu.as_deref().map(cpu_list).transpose().hint("write CPUs as 0,2-3")?;
    let time = |text: &Option<String>| {
        text.as_deref().map(seconds).transpose().hint("write times as they are printed: 923.632241")
    };
    let (from, to) = (time(&choice.from)?, time(&choice.to)?);
    let mut filter = Filter::compile(file, &choice.filter).hint(
        "`latlab report --stat FILE` lists the events; a filter reads EVENT : FIELD < NUMBER",
    )?;
    for name in &choice.event {
        let ids = events_named(file, name).hint("`latlab report --stat FILE` lists the events")?;
        filter.allow(&ids);
    }
    Ok((Select { cpus, buffers: None, from, to }, filter))
}

/// CPUs as `0,2-3`, at least one.
fn cpu_list(text: &str) -> anyhow::Result<Vec<u32>> {
    let cpus = cpulist::parse(text)?;
    if cpus.is_empty() {
        return Err(cpulist::BadCpuList(text.to_owned()).into());
    }
    Ok(cpus)
}

/// A time stamp, ns.
fn seconds(text: &str) -> anyhow::Result<u64> {
    timestamp_ns(text).ok_or_else(|| anyhow!("{text:?} is not a time"))
}

/// Says on stderr what of a trace is damaged, in its head and among its events.
pub fn tell_damage(path: &Path, head: &Diagnostics, events: &Diagnostics) {
    let mut err = term::stderr();
    let path = path.display();
    for d in head.list().iter().chain(events.list()) {
        // A diagnostic: a failed write to stderr loses no result.
        let _ = writeln!(err, "latlab: {path}: {d}");
    }
    let more = head.suppressed() + events.suppressed();
    if more > 0 {
        let _ = writeln!(err, "latlab: {path}: {more} more damaged parts");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_read_as_a_list() {
        assert_eq!(cpu_list("0,2-3").unwrap(), [0, 2, 3]);
        assert!(
            cpu_list("3-1").is_err()
                && cpu_list("a").is_err()
                && cpu_list("").is_err()
                && cpu_list("0-99999999").is_err()
        );
    }
}
