//! `latlab fleet`: its options.

use std::path::PathBuf;

/// Measure on many boards, keep their runs as Parquet tables and answer questions about all of them.
///
/// A campaign is a file: boards, experiments and repetitions. `submit` measures what has no result yet.
/// A lake is a directory of tables that DuckDB, Spark, pandas and others read; latlab adds to it, makes
/// its files fewer, and has a text of SQL for each question.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = super::examples::FLEET)]
pub struct Args {
    /// Action.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Command {
    /// Print what a campaign measures, in its order.
    Plan {
        /// The campaign (TOML).
        #[arg(value_name = "FILE")]
        campaign: PathBuf,
    },
    /// Measure what has no result yet; boards side by side, one experiment at a time on each.
    Submit {
        /// The campaign (TOML).
        #[arg(value_name = "FILE")]
        campaign: PathBuf,
        /// Where results are kept. With slurm: a directory that all nodes share.
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
        /// Boards that measure at the same time, at most (local); virtual machines of one board (slurm).
        #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
        jobs: u16,
        /// What runs the experiments: this host, Slurm by one job array for each board, or LAVA by one job
        /// for each board and repetition. Boards that labgrid lends are targets (labgrid:PLACE) of this host
        /// or of Slurm.
        #[arg(long, value_enum, default_value_t = Engine::Local)]
        engine: Engine,
        /// Print the commands that submit (slurm, lava); with lava, write the jobs to DIR/lava.
        #[arg(long)]
        dry_run: bool,
        /// Wait until none of the campaign's jobs is in the queue (slurm, lava).
        #[arg(long, conflicts_with = "dry_run")]
        wait: bool,
    },
    /// Run one experiment of a job array (started by Slurm).
    #[command(hide = true)]
    Task {
        /// Experiments of a board, as submit wrote them.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Which one, from 1.
        #[arg(value_name = "N")]
        number: usize,
    },
    /// Take the runs out of the logs of LAVA jobs: of the server's jobs that are finished, or saved logs.
    Collect {
        /// The campaign (TOML).
        #[arg(value_name = "FILE")]
        campaign: PathBuf,
        /// Where results are kept.
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
        /// Logs of jobs (lavacli jobs logs, or the page of the job).
        #[arg(value_name = "LOG")]
        logs: Vec<PathBuf>,
    },
    /// Print how far a campaign is.
    Status {
        /// The campaign (TOML).
        #[arg(value_name = "FILE")]
        campaign: PathBuf,
        /// Where results are kept.
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
    },
    /// Add every run below directories to a lake; one that is there already is left as it is.
    Import {
        /// The lake; it is made if it is missing.
        #[arg(long, value_name = "DIR")]
        lake: PathBuf,
        /// Directories with runs below them.
        #[arg(value_name = "DIR", required = true)]
        runs: Vec<PathBuf>,
    },
    /// Join the files that imports of one day left.
    Compact {
        /// The lake.
        #[arg(long, value_name = "DIR")]
        lake: PathBuf,
    },
    /// Report what became worse, one alarm for each class of boards or device and family of results.
    Regressions {
        /// The lake.
        #[arg(long, value_name = "DIR")]
        lake: PathBuf,
        /// Only alarms of the last N nights.
        #[arg(long, value_name = "N", default_value_t = 7)]
        nights: usize,
        /// Exit with 2 if there is an alarm.
        #[arg(long)]
        fail_if_any: bool,
    },
    /// Write pages about all runs that open in a browser from files, without a server.
    Report {
        /// The lake.
        #[arg(long, value_name = "DIR")]
        lake: PathBuf,
        /// Where the pages go: a new directory, or one that this command made.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Answer a question about all runs by DuckDB, or print its SQL.
    Ask {
        /// Question.
        #[arg(value_parser = ["slower", "tail", "causes", "outliers", "ill", "setting"])]
        question: String,
        /// The lake.
        #[arg(long, value_name = "DIR")]
        lake: PathBuf,
        /// Name of the result that the question is about.
        #[arg(long, value_name = "NAME", default_value = "wakeup.user")]
        name: String,
        /// Quantile of `tail`.
        #[arg(long, value_name = "Q", default_value_t = 0.9999, value_parser = quantile)]
        quantile: f64,
        /// Kernel release of `tail`; `*` stands for any characters.
        #[arg(long, value_name = "RELEASE", default_value = "*")]
        kernel: String,
        /// Property of the machine that `setting` compares (`thp`, `kernel.preemption`).
        #[arg(long, value_name = "NAME", default_value = "kernel.preemption")]
        setting: String,
        /// Print the SQL instead of running it.
        #[arg(long)]
        sql: bool,
    },
}

/// What runs experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// This host.
    Local,
    /// A cluster.
    Slurm,
    /// A laboratory.
    Lava,
}

fn quantile(text: &str) -> anyhow::Result<f64> {
    text.parse()
        .ok()
        .filter(|q| (0.5..1.0).contains(q))
        .ok_or_else(|| anyhow::anyhow!("expected a quantile from 0.5 to below 1, such as 0.9999"))
}
