//! `latlab sched-task` (hidden): one task of an experiment, as its own process.

/// One task of an experiment; works until the moment that it reads from standard input.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// What it is to be, as JSON.
    #[arg(value_name = "ORDER")]
    pub order: String,
}
