//! `latlab export`: its options.

use anyhow::bail;
use std::path::PathBuf;

/// Convert a trace to Perfetto, Parquet, JSON lines or CSV.
///
/// With --json (one object a line) or --csv the events go to stdout.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = super::examples::EXPORT)]
pub struct Args {
    /// The trace.dat.
    pub file: PathBuf,
    /// Write a Perfetto trace, for ui.perfetto.dev and trace_processor.
    #[arg(long, value_name = "OUT")]
    perfetto: Option<PathBuf>,
    /// Print CSV.
    #[arg(long)]
    csv: bool,
    /// Write one Parquet table for each event into this directory (event=NAME/data.parquet).
    #[arg(long, value_name = "DIR")]
    parquet: Option<PathBuf>,
}

/// Output format and destination.
#[derive(Clone, Debug)]
pub enum To {
    /// A Perfetto trace.
    Perfetto(PathBuf),
    /// Parquet tables.
    Parquet(PathBuf),
    /// JSON lines on stdout.
    Json,
    /// CSV on stdout.
    Csv,
}

impl Args {
    /// The one format that was asked for.
    pub fn to(&self, json: bool) -> anyhow::Result<To> {
        let mut all = Vec::new();
        all.extend(self.perfetto.clone().map(To::Perfetto));
        all.extend(self.parquet.clone().map(To::Parquet));
        all.extend(json.then_some(To::Json));
        all.extend(self.csv.then_some(To::Csv));
        match (all.pop(), all.is_empty()) {
            (Some(to), true) => Ok(to),
            (None, _) => bail!("no output format: --perfetto OUT, --parquet DIR, --json or --csv"),
            (Some(_), false) => bail!("--perfetto, --parquet, --json and --csv exclude each other"),
        }
    }
}
