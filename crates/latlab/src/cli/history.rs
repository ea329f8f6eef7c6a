//! `latlab history`: its options.

use std::path::PathBuf;

/// Store results and show trends with change points.
///
/// The store has one row for each run and for each result; all other data stays in the run's
/// directory. It is a file (SQLite) or a shared database: --store postgres://user@host/name?sslmode=verify-full.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = super::examples::HISTORY)]
pub struct Args {
    /// The store: a file, or postgres://….
    #[arg(long, global = true, value_name = "STORE", default_value = "runs/history.sqlite")]
    pub store: String,
    /// Action.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do with a store.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Command {
    /// Add runs (directories or run.json files); existing ones are not changed.
    Add {
        /// The runs.
        #[arg(value_name = "RUN", required = true)]
        runs: Vec<PathBuf>,
    },
    /// Add every run below a directory; unreadable ones are reported and skipped.
    Import {
        /// The directory.
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// List runs, most recent first.
    List {
        /// Only runs of this board, or of this host.
        #[arg(long, value_name = "NAME")]
        board: Option<String>,
        /// Maximum number of runs.
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u32,
    },
    /// Show the results of a run.
    Show {
        /// Its number, as `list` prints it (or any four and more digits that it begins with), or its directory.
        #[arg(value_name = "RUN")]
        run: String,
    },
    /// Show a result over time with its change points.
    Trend {
        /// Name of the result (`wakeup.user`); without one, the names are listed.
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// Only with these parameters (`cpu=0`); may be repeated.
        #[arg(long, value_name = "KEY=VALUE")]
        param: Vec<String>,
        /// Only of this board, or of this host.
        #[arg(long, value_name = "NAME")]
        board: Option<String>,
        /// Statistic.
        // words: allow the earlier spelling, a hidden alias
        #[arg(long, alias = "figure", value_name = "STATISTIC", default_value = "median", value_parser = ["min", "median", "p99", "p999", "max"])]
        statistic: String,
        /// Exit with 2 if the most recent change is an increase of latency.
        #[arg(long)]
        fail_if_worse: bool,
        /// Write the report as one HTML file.
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Write all results as Parquet, partitioned by board and date.
    Export {
        /// The directory.
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}
