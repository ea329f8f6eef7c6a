//! The bytes of a `run.json` as a run: of this schema or an earlier one, whole or cut short.

use crate::upgrade::upgrade;
use latlab_model::run::{Run, SCHEMA_VERSION};
use serde::Deserialize;

/// Bytes that are no run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The end is missing: bytes that are there.
    #[error("truncated after {0} bytes")]
    Truncated(usize),
    /// Something else, and what the JSON reader says of it.
    #[error("not a run of latlab: {0}")]
    NoRun(String),
    /// Of a schema that this version does not know.
    #[error(
        "has schema version {0}, and this latlab ({version}) reads up to {SCHEMA_VERSION}",
        version = env!("CARGO_PKG_VERSION")
    )]
    Newer(u32),
    /// A run with a part that is none.
    #[error("damaged run: {0}")]
    Damaged(String),
}

impl RunError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Truncated(_) => "copy it again: latlab replaces run.json only as a whole",
            Self::NoRun(_) => "name a run directory (runs/…) or its run.json",
            Self::Newer(_) => "use the version that wrote it, or a newer one",
            Self::Damaged(_) => "the schema is docs/run.schema.json",
        })
    }
}

/// What every run has, whatever its schema.
#[derive(Deserialize)]
struct Head {
    schema_version: u32,
}

/// Reads a run, and derives what its version did not store.
///
/// # Errors
/// When it is damaged, or of a newer schema.
pub fn read(bytes: &[u8]) -> Result<Run, RunError> {
    let head: Head = serde_json::from_slice(bytes).map_err(|e| {
        let cut = e.is_eof() && bytes.first() == Some(&b'{');
        if cut { RunError::Truncated(bytes.len()) } else { RunError::NoRun(e.to_string()) }
    })?;
    if head.schema_version > SCHEMA_VERSION {
        return Err(RunError::Newer(head.schema_version));
    }
    let mut run = Run::from_json(bytes).map_err(|e| RunError::Damaged(e.to_string()))?;
    upgrade(&mut run);
    Ok(run)
}
