//! Opens the traces that a user names, within the memory that they may take.

use crate::outcome::HintExt;
use anyhow::Context;
use latlab_trace::{KnownFormats, TraceFile};
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
    latlab_trace::open_after(data, memory(), known).with_context(|| path.display().to_string()).hint(
        "latlab reads trace.dat version 6 and 7, and the text of `trace` and `trace-cmd report`",
    )
}
