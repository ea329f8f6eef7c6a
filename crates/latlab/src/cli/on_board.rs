//! `latlab on-board`: the part of `--on ssh://` that runs on a board. Hidden.
//!
//! Ordinary comments: documentation comments become help texts in the program; those of hidden options are
//! never shown, and the board build is limited in size.

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
