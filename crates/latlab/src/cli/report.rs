//! `latlab report`: its options.

use std::path::PathBuf;

/// Show a run again.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// A run's directory (runs/…) or its run.json.
    pub path: PathBuf,
}
