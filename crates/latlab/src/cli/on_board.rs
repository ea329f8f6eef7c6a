//! `latlab on-board`: what a desk calls on a board. Hidden.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// What a desk calls on a board.
#[derive(Debug, Args)]
pub struct OnBoardArgs {
    /// Which half.
    #[command(subcommand)]
    pub action: OnBoard,
}

/// The halves.
#[derive(Debug, Subcommand)]
pub enum OnBoard {
    /// Start the job on stdin and leave a keeper with it.
    Start {
        /// The run's folder.
        dir: PathBuf,
    },
    /// The keeper.
    Keep {
        /// The run's folder.
        dir: PathBuf,
    },
    /// Send what the run prints and leaves.
    Follow {
        /// The run's folder.
        dir: PathBuf,
        /// As it comes.
        #[arg(long)]
        live: bool,
    },
}
