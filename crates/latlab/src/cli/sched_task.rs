//! `latlab sched-task` (hidden): one task of an experiment, as its own process.

/// One task of an experiment; runs until the time that it reads from standard input.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Description of the task as JSON.
    #[arg(value_name = "ORDER")]
    pub order: String,
}
