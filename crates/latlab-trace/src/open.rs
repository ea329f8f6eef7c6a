//! Opens a trace of either kind: `trace.dat` or ftrace's text.

use crate::file::DEFAULT_MEMORY;
use crate::format::KnownFormats;
#[cfg(feature = "text")]
use crate::text;
use crate::{TraceError, TraceFile};

/// Reads a `trace.dat`, or the text of ftrace's `trace` file or of `trace-cmd report`.
///
/// # Errors
/// As [`TraceFile::parse`] for a `trace.dat`, `text::parse` for anything else (feature `text`).
pub fn open(data: &[u8]) -> Result<TraceFile<'_>, TraceError> {
    open_within(data, DEFAULT_MEMORY)
}

/// As [`open`], with at most `memory` bytes for what is inflated, or made of text, at any time.
///
/// # Errors
/// As [`open`].
pub fn open_within(data: &[u8], memory: u64) -> Result<TraceFile<'_>, TraceError> {
    open_after(data, memory, None)
}

/// As [`open_within`], sharing the formats of the file before, where they are the same.
///
/// # Errors
/// As [`open`].
pub fn open_after<'a>(
    data: &'a [u8],
    memory: u64,
    known: Option<&mut KnownFormats>,
) -> Result<TraceFile<'a>, TraceError> {
    match TraceFile::parse_after(data, memory, known) {
        #[cfg(feature = "text")]
        Err(TraceError::NotATrace) => text::parse_within(data, memory),
        other => other,
    }
}
