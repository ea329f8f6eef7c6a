//! `latlab on-board`: the board's side of `--on ssh://…`.

use crate::agent::board;
use crate::cli::on_board::{OnBoard, OnBoardArgs};
use crate::outcome::Outcome;

/// Runs one half.
pub fn run(args: &OnBoardArgs) -> anyhow::Result<Outcome> {
    match &args.action {
        OnBoard::Start { dir } => board::start(dir)?,
        OnBoard::Keep { dir } => board::keep(dir)?,
        OnBoard::Follow { dir, live } => board::follow(dir, *live)?,
    }
    Ok(Outcome::Done)
}
