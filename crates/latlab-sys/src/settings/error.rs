//! Errors of changing a setting.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a setting was not set.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SettingError {
    /// Not below `/proc/sys`, `/proc/irq`, `/sys` or `/dev/cpuset`, and no thread of an interrupt.
    #[error("{}: is not a setting of the kernel", .0.display())]
    NotASetting(PathBuf),
    /// The old value cannot be read, so it could not be put back.
    #[error("{}: cannot be read", .path.display())]
    Unreadable {
        /// The setting.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel did not take the value.
    #[error("{}: refuses '{value}'", .path.display())]
    Refused {
        /// The setting.
        path: PathBuf,
        /// What was to be written.
        value: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// Another latlab that is running has changed it.
    #[error("{}: is held by the latlab that runs as process {pid}", .path.display())]
    Busy {
        /// The setting.
        path: PathBuf,
        /// Its process.
        pid: u32,
    },
    /// The journal cannot be written; the setting was not touched.
    #[error("{}: the settings journal cannot be written", .path.display())]
    Journal {
        /// The journal or its directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The journal's directory belongs to somebody else, or others may write to it.
    #[error("{}: not safe for the settings journal: {reason}", .path.display())]
    Unsafe {
        /// The directory or file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}
