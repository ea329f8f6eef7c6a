//! `latlab sched`: how the scheduler shares the CPU, in an experiment or in a trace.

mod cgroup;
mod experiment;
pub mod file;
pub mod task;
mod views;

pub use experiment::survey;

use crate::cli::Global;
use crate::cli::sched::Args;
use crate::outcome::Outcome;

/// Runs the command.
///
/// # Errors
/// When nothing can be measured or read, or the result can be neither kept nor printed.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    match &args.file {
        Some(path) => file::run(global, args, path),
        None => experiment::run(global, args),
    }
}
