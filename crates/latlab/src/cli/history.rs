//! `latlab history`: its options.

use std::path::PathBuf;

/// Results over time: which build made which board slower, and since when?
///
/// The store has one row a run and one row a result; what else a run has stays in its
/// directory. It is a file (SQLite), or a database that many share: --store postgres://user@host/name.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The store: a file, or postgres://….
    #[arg(long, global = true, value_name = "STORE", default_value = "runs/history.sqlite")]
    pub store: String,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do with a store.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Command {
    /// Add runs (directories or run.json files); one that is there already is left as it is.
    Add {
        /// The runs.
        #[arg(value_name = "RUN", required = true)]
        runs: Vec<PathBuf>,
    },
    /// Add every run below a directory; what cannot be read is said and left out.
    Import {
        /// The directory.
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// List runs, the latest first.
    List {
        /// Only runs of this board, or of this host.
        #[arg(long, value_name = "NAME")]
        board: Option<String>,
        /// This many at most.
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u32,
    },
    /// Show the results of a run.
    Show {
        /// Its number, as `list` prints it (or any four and more digits that it begins with), or its directory.
        #[arg(value_name = "RUN")]
        run: String,
    },
    /// Show a result over time, and where its level changed.
    Trend {
        /// Its name (`wakeup.user`); without one, the names that there are.
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// Only with these parameters (`cpu=0`); may be repeated.
        #[arg(long, value_name = "KEY=VALUE")]
        param: Vec<String>,
        /// Only of this board, or of this host.
        #[arg(long, value_name = "NAME")]
        board: Option<String>,
        /// Which figure.
        #[arg(long, value_name = "FIGURE", default_value = "median", value_parser = ["min", "median", "p99", "p999", "max"])]
        figure: String,
        /// Exit with 2 when the latest change was for the worse.
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
