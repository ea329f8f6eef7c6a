//! Outcome of putting one setting back.

use std::path::PathBuf;

/// What became of one entry when it was undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restoration {
    /// It has its old value again.
    Restored {
        /// The setting.
        path: PathBuf,
        /// The value that it has again.
        value: String,
    },
    /// A directory that was made is gone again.
    Removed {
        /// The directory.
        path: PathBuf,
    },
    /// It had its old value already: it was never set, or somebody put it back.
    AlreadyRight {
        /// The setting or directory.
        path: PathBuf,
    },
    /// Somebody else has changed it since; theirs is kept.
    ChangedSince {
        /// The setting.
        path: PathBuf,
        /// What latlab had set.
        ours: String,
        /// What it is.
        now: String,
    },
    /// It could not be undone, and stays in the journal.
    Failed {
        /// The setting or directory.
        path: PathBuf,
        /// The value that it should have again.
        value: String,
        /// Why not.
        reason: String,
    },
}

impl Restoration {
    /// Whether there is something left to do.
    pub fn failed(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }
}
