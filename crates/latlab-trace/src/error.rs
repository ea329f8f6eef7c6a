//! What can be wrong with a trace: errors that end the reading, and damage that does not.

use std::fmt;

/// Why nothing of a trace can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A file without a byte.
    #[error("the file is empty")]
    Empty,
    /// No trace.dat, and no ftrace text either.
    #[error(
        "not a trace: it begins neither with the magic bytes of trace.dat (17 08 44 \"tracing\") nor with ftrace's text"
    )]
    NotATrace,
    /// A version that is not known.
    #[error("version {0:?} of trace.dat is not known (6 and 7 are)")]
    Version(String),
    /// The file ends inside something without which nothing can be read.
    #[error("the file ends at offset {offset} inside {what} ({missing} bytes are missing)")]
    Truncated {
        /// Offset in the file at which the reading of it began.
        offset: u64,
        /// What was being read.
        what: &'static str,
        /// How many bytes more it would have needed.
        missing: u64,
    },
    /// A value without which nothing can be read makes no sense.
    #[error("{what} at offset {offset}: {reason}")]
    Malformed {
        /// Offset in the file.
        offset: u64,
        /// What was being read.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

/// A damaged part; everything else is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The CPU whose data are concerned; `None` for the file's head and its sections.
    pub cpu: Option<u32>,
    /// Offset in the file (of the enclosing compressed chunk, where the data are compressed).
    pub offset: u64,
    /// What is the case, as one clause.
    pub what: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(cpu) = self.cpu {
            write!(f, "CPU {cpu}, ")?;
        }
        write!(f, "offset {}: {}", self.offset, self.what)
    }
}

/// A list of damage that stays short, however damaged the file is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    more: u64,
}

impl Diagnostics {
    /// At most this many are kept; the rest is counted.
    pub const LIMIT: usize = 200;

    /// Notes a damaged part.
    pub fn push(&mut self, cpu: Option<u32>, offset: u64, what: impl Into<String>) {
        if self.list.len() < Self::LIMIT {
            self.list.push(Diagnostic { cpu, offset, what: what.into() });
        } else {
            self.more += 1;
        }
    }
    /// What was noted, in the order in which it was found.
    pub fn list(&self) -> &[Diagnostic] {
        &self.list
    }
    /// How many more there were than are listed.
    pub fn suppressed(&self) -> u64 {
        self.more
    }
    /// Whether nothing is damaged.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
    /// Appends another list.
    pub fn extend(&mut self, other: &Self) {
        for d in &other.list {
            self.push(d.cpu, d.offset, d.what.clone());
        }
        self.more += other.more;
    }
}
