//! `latlab on-board`: the part of `--on ssh://` that runs on a board. Hidden.
//!
//! Ordinary comments: of documentation comments the parser makes help, which is not shown of hidden
//! options and which the board build has no room for.

use clap::{Args, Subcommand};
use std::path::PathBuf;

// The part of `--on ssh://` that runs on a board.
#[derive(Debug, Args)]
pub struct OnBoardArgs {
    // Action.
    #[command(subcommand)]
    pub action: OnBoard,
}

// Actions.
#[derive(Debug, Subcommand)]
pub enum OnBoard {
    // Start the job on stdin under a supervisor.
    Start {
        // The run's folder.
        dir: PathBuf,
    },
    // The supervisor.
    Keep {
        // The run's folder.
        dir: PathBuf,
    },
    // Send output and files of the run.
    Follow {
        // The run's folder.
        dir: PathBuf,
        // Send output as it is written.
        #[arg(long)]
        live: bool,
    },
}
