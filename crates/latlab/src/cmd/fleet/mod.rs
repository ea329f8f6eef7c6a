//! `latlab fleet`: campaigns on many boards, their runs in a lake, and questions about them.

mod ask;
mod campaign;
mod lake;
mod local;
mod regressions;

use crate::cli::Global;
use crate::cli::fleet::{Args, Command};
use crate::outcome::Outcome;

/// Runs the command.
///
/// # Errors
/// When the lake or a run cannot be read or written.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    match &args.command {
        Command::Plan { campaign } => campaign::show(global, campaign),
        Command::Submit { campaign, dir, jobs } => {
            local::submit(global, dir, &campaign::load(campaign)?, usize::from(*jobs))
        }
        Command::Status { campaign, dir } => campaign::status(global, campaign, dir),
        Command::Import { lake, runs } => lake::import(global, lake, runs),
        Command::Compact { lake } => lake::compact(global, lake),
        Command::Regressions { lake, nights, fail_if_any } => {
            regressions::run(global, lake, *nights, *fail_if_any)
        }
        Command::Ask { question, lake, name, quantile, setting, sql } => {
            let asked = ask::Asked { question, name, quantile: *quantile, setting };
            ask::run(global, lake, &asked, *sql)
        }
    }
}
