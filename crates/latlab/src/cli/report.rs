//! `latlab report`: its options.

use std::path::PathBuf;

/// Show a run again.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// A run's directory (runs/…) or its run.json.
    pub path: PathBuf,
    /// Write the report as one HTML file that needs nothing else.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write every plot as an SVG file into this directory.
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
    /// Write every plot as a PNG file into this directory.
    #[cfg(feature = "png")]
    #[arg(long, value_name = "DIR")]
    pub png: Option<PathBuf>,
}
