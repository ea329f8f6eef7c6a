//! Results of other tools, read as if they were runs.
//!
//! Which tool wrote a file is told from its content, not from its name. What a file
//! cannot say (its order, values over the end of its histogram) stays unknown. Nothing is allocated
//! that the bytes do not hold, and no file can end the program.

mod cyclictest;
mod histogram;
mod json;
mod lmbench;
mod rtla;
mod samples;
mod xenomai;

use super::subject::Source;
use crate::run::Run;

/// Why a file is not a result of any tool that is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForeignError {
    /// No tool writes such a file.
    #[error(
        "no run of latlab, and no output of cyclictest, rtla, Xenomai's latency, jitterdebugger or lmbench"
    )]
    Unknown,
    /// A tool's file, but damaged.
    #[error("output of {tool}, but damaged at line {line}: {what}")]
    Damaged {
        /// The tool.
        tool: &'static str,
        /// Line, from 1.
        line: usize,
        /// What is wrong there.
        what: String,
    },
    /// A tool's JSON, but damaged.
    #[error("JSON of {tool}, but {what}")]
    Json {
        /// The tool.
        tool: &'static str,
        /// What is wrong.
        what: String,
    },
    /// A histogram without values.
    #[error("output of {tool}, but its histogram is empty: nothing was measured")]
    Empty {
        /// The tool.
        tool: &'static str,
    },
    /// A file of samples, but damaged.
    #[error("a file of samples, but {0}")]
    Samples(#[from] crate::wakeup::samples::SamplesError),
}

/// Reads a file; `name` is what sentences call it.
///
/// # Errors
/// When no tool that is known wrote it, or when it is damaged or empty.
pub fn read(name: &str, bytes: &[u8]) -> Result<Source, ForeignError> {
    let mut source = recognise(bytes)?;
    source.file = name.to_owned();
    source.run.complete = true;
    Ok(source)
}

fn recognise(bytes: &[u8]) -> Result<Source, ForeignError> {
    if bytes.starts_with(crate::wakeup::samples::MAGIC) {
        return samples::read(bytes);
    }
    let text = String::from_utf8_lossy(bytes);
    let start = text.trim_start();
    if start.starts_with('{') {
        return json::read(start);
    }
    let has = |what: &str| text.lines().take(4_000).any(|l| l.starts_with(what));
    if has("# RTLA timerlat histogram") {
        return rtla::read(&text);
    }
    if has("# Histogram") || has("# Min Latencies:") {
        return cyclictest::read(&text);
    }
    if has("RTD|") || has("RTS|") {
        return xenomai::read_lines(&text);
    }
    if let Some(source) = lmbench::read(&text) {
        return Ok(source);
    }
    if has("# ----lat min") || xenomai::looks_like(&text) {
        return xenomai::read(&text);
    }
    Err(ForeignError::Unknown)
}

/// A run of one part.
fn run_of(part: crate::run::Part) -> Run {
    Run {
        schema_version: crate::run::SCHEMA_VERSION,
        complete: true,
        parts: vec![part],
        ..Run::default()
    }
}

#[cfg(test)]
mod tests;
