//! Errors of recording.

use crate::tracefs::TracefsError;
use latlab_trace::write::WriteError;
use std::io;
use std::path::PathBuf;

/// Why a recording failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// tracefs refused.
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    /// The output could not be made or written.
    #[error("{action} {path}")]
    Output {
        /// `creating`, `writing`.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file system holds no sparse file of the size that the CPUs need.
    #[error(
        "{path} is on a file system that cannot hold a sparse file of {gib} GiB, which recording {cpus} CPUs needs while it runs"
    )]
    NoSparseFile {
        /// Which file.
        path: PathBuf,
        /// How large it would have to be.
        gib: u64,
        /// Number of CPUs.
        cpus: usize,
    },
    /// The output is a device, a pipe…
    #[error("{path} is not an ordinary file; a trace can only be recorded into one")]
    NotAFile {
        /// Which file.
        path: PathBuf,
    },
    /// The file has a part of the recording, or is larger than it should be.
    #[error("{path}: {reasons}; what was written before is kept ({bytes} bytes of events)")]
    Incomplete {
        /// Which file.
        path: PathBuf,
        /// What happened.
        reasons: String,
        /// Bytes of ring-buffer pages that are in it: the kernel counts events that were read, written or not.
        bytes: u64,
    },
    /// Not what a killed recorder leaves behind.
    #[error("{path} is not a recording that was cut short: {reason}")]
    NotLive {
        /// Which file.
        path: PathBuf,
        /// What it is instead.
        reason: &'static str,
    },
    /// A thread could not be started.
    #[error("starting a reader thread")]
    Thread(#[source] io::Error),
    /// The trace could not be put into its format.
    #[error("writing {path}")]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: WriteError,
    },
}

impl RecordError {
    /// What a user can do about it, where that is not obvious.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Tracefs(e) => e.hint(),
            Self::NoSparseFile { .. } => {
                Some("record to /tmp or /dev/shm with -o and copy the finished file".into())
            }
            _ => None,
        }
    }
}

/// Result of everything here.
pub type Result<T> = std::result::Result<T, RecordError>;
