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
    /// What is made of it can take more memory than is allowed: objects, lists and values, and MiB.
    #[error(
        "has {elements} objects, lists and values, which can take {need} MiB, more than --max-memory allows ({most} MiB)"
    )]
    TooLarge {
        /// Objects, lists and values.
        elements: u64,
        /// What they can take, MiB.
        need: u64,
        /// What is allowed, MiB.
        most: u64,
    },
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
            Self::TooLarge { .. } => {
                "raise --max-memory SIZE if you trust it; runs of latlab take far less"
            }
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
    read_within(bytes, u64::MAX)
}

/// As [`read`], for what whoever wrote it may have made to take memory: a run of which more than `memory` bytes could
/// be made is not.
///
/// # Errors
/// As of [`read`]; `TooLarge`.
pub fn read_within(bytes: &[u8], memory: u64) -> Result<Run, RunError> {
    let head: Head = serde_json::from_slice(bytes).map_err(|e| {
        let cut = e.is_eof() && bytes.first() == Some(&b'{');
        if cut { RunError::Truncated(bytes.len()) } else { RunError::NoRun(e.to_string()) }
    })?;
    if head.schema_version > SCHEMA_VERSION {
        return Err(RunError::Newer(head.schema_version));
    }
    let elements = Elements::of(bytes);
    if elements.need() > memory {
        let (need, most) = (elements.need() >> 20, memory >> 20);
        return Err(RunError::TooLarge { elements: elements.count(), need, most });
    }
    let mut run = Run::from_json(bytes).map_err(|e| RunError::Damaged(e.to_string()))?;
    upgrade(&mut run);
    Ok(run)
}

/// What a JSON text consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Elements {
    bytes: u64,
    objects: u64,
    lists: u64,
    texts: u64,
    /// Numbers, `true`, `false`, `null`, and the names in objects.
    scalars: u64,
}

impl Elements {
    /// Counts those of a text that was read as JSON before.
    fn of(json: &[u8]) -> Self {
        let mut found = Self { bytes: json.len() as u64, ..Self::default() };
        let mut rest = json.iter();
        let mut in_scalar = false;
        while let Some(byte) = rest.next() {
            let is_scalar = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
            found.scalars += u64::from(is_scalar && !in_scalar);
            in_scalar = is_scalar;
            match byte {
                b'{' => found.objects += 1,
                b'[' => found.lists += 1,
                // What was a text is a name.
                b':' => {
                    found.texts = found.texts.saturating_sub(1);
                    found.scalars += 1;
                }
                b'"' => {
                    found.texts += 1;
                    while let Some(byte) = rest.next().filter(|byte| **byte != b'"') {
                        if *byte == b'\\' {
                            rest.next();
                        }
                    }
                }
                _ => {}
            }
        }
        found
    }

    fn count(&self) -> u64 {
        self.objects + self.lists + self.texts + self.scalars
    }

    /// The most that any command makes of it, bytes: measured with the kinds of object and list that take most.
    fn need(&self) -> u64 {
        4096 * self.objects
            + 256 * self.lists
            + 512 * self.texts
            + 128 * self.scalars
            + 4 * self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_counted_outside_of_texts() {
        let json = br#" { "a" : [ 1,-2.5e+3 , null ], "b{[,":"x\\\"{[1,:" , "c":[[],{}], "d":["y","z"] } "#;
        let (objects, lists, texts, scalars) = (2, 4, 3, 7);
        let bytes = json.len() as u64;
        assert_eq!(Elements::of(json), Elements { bytes, objects, lists, texts, scalars });
        assert_eq!(Elements::of(b""), Elements::default());
        assert_eq!(Elements::of(br#""\"#).texts, 1);
    }

    #[test]
    fn a_small_text_of_many_records_is_not_read() {
        let records = vec![r#"{"name":""}"#; 20_000].join(",");
        let json =
            format!(r#"{{"schema_version":2,"parts":[{{"name":"x","results":[{records}]}}]}}"#);
        let error = read_within(json.as_bytes(), 64 << 20).unwrap_err();
        let expected = "has 60010 objects, lists and values, which can take 91 MiB, more than --max-memory allows (64 MiB)";
        assert_eq!(error.to_string(), expected);
        assert_eq!(read_within(json.as_bytes(), 128 << 20).unwrap().parts[0].results.len(), 20_000);
    }

    #[test]
    fn samples_take_little() {
        let samples = vec!["12345"; 300_000].join(",");
        let json = format!(r#"{{"schema_version":2,"config":{{"samples":[{samples}]}}}}"#);
        assert!(read_within(json.as_bytes(), 64 << 20).is_ok());
    }
}
