//! Results of other tools, read as if they were runs.
//!
//! Which tool wrote a file is told from its content, not from its name. What a file
//! cannot say (its order, values over the end of its histogram) stays unknown. Nothing is allocated
//! that the bytes do not hold, and no file can end the program.

mod cyclictest;
mod error;
mod histogram;
mod imported_run;
mod json;
mod lmbench;
mod rtla;
mod samples;
pub(crate) mod xenomai;

pub use error::{Damage, ForeignError, JsonDamage};

use super::subject::Source;

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
    if bytes.starts_with(latlab_model::samples::MAGIC) {
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
    if let Some(source) = lmbench::read(&text)? {
        return Ok(source);
    }
    if has("# ----lat min") || xenomai::looks_like(&text) {
        return xenomai::read(&text);
    }
    Err(ForeignError::Unknown)
}

#[cfg(test)]
mod tests;
