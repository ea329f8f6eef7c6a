//! `latlab export`: its options.

use super::trace_choice::Choice;
use anyhow::bail;
use latlab_trace::write::Compression;
use std::path::PathBuf;

/// Convert a trace to Perfetto, Parquet, JSON lines or CSV, or a part of it to a trace.dat.
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
    /// Write a trace.dat, of all events or of those that --cpu, -e, -F, --from and --to choose.
    #[arg(long, value_name = "OUT")]
    trace_dat: Option<PathBuf>,
    /// Compression of that trace.dat: zstd, zlib or none.
    #[arg(long, value_name = "METHOD", default_value_t = Compression::Zstd, requires = "trace_dat")]
    pub compression: Compression,
    /// Write version 6 of the format (for trace-cmd before 3.0); not compressed.
    #[arg(long, requires = "trace_dat", conflicts_with = "compression")]
    pub v6: bool,
    #[command(flatten)]
    pub choice: Choice,
}

/// Output format and destination.
#[derive(Clone, Debug)]
pub enum To {
    /// A Perfetto trace.
    Perfetto(PathBuf),
    /// Parquet tables.
    Parquet(PathBuf),
    /// A trace.dat.
    TraceDat(PathBuf),
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
        all.extend(self.trace_dat.clone().map(To::TraceDat));
        all.extend(json.then_some(To::Json));
        all.extend(self.csv.then_some(To::Csv));
        let to = match (all.pop(), all.is_empty()) {
            (Some(to), true) => to,
            (None, _) => bail!(
                "no output format: --perfetto OUT, --parquet DIR, --trace-dat OUT, --json or --csv"
            ),
            (Some(_), false) => {
                bail!("--perfetto, --parquet, --trace-dat, --json and --csv exclude each other")
            }
        };
        if self.choice.is_part() && !matches!(to, To::TraceDat(_)) {
            bail!(
                "--cpu, -e, -F, --from and --to choose events of --trace-dat, which others then convert"
            );
        }
        Ok(to)
    }
}
