//! Opens a trace of either kind: `trace.dat` or ftrace's text.

use crate::{TraceError, TraceFile, text};

/// Reads a `trace.dat`, or the text of ftrace's `trace` file or of `trace-cmd report`.
///
/// # Errors
/// As [`TraceFile::parse`] for a `trace.dat`, [`text::parse`] for anything else.
pub fn open(data: &[u8]) -> Result<TraceFile<'_>, TraceError> {
    match TraceFile::parse(data) {
        Err(TraceError::NotATrace) => text::parse(data),
        other => other,
    }
}
