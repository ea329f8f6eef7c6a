//! `latlab fleet`: campaigns on many boards, their runs in a lake, and questions about them.

mod ask;
mod campaign;
mod environment;
mod lake;
mod lava;
mod lava_job;
mod local;
mod nights;
mod queue;
mod regressions;
mod report;
mod requirements;
mod slurm;

use crate::cli::Global;
use crate::cli::fleet::{Args, Command, Engine};
use crate::outcome::{HintExt, Outcome};
use anyhow::anyhow;

/// Runs the command.
///
/// # Errors
/// When the lake or a run cannot be read or written.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    match &args.command {
        Command::Plan { campaign } => campaign::show(global, campaign),
        Command::Submit { campaign, dir, jobs, engine, dry_run, wait } => {
            let file = campaign;
            let planned = campaign::load(file)?;
            let jobs = usize::from(*jobs);
            if *engine != Engine::Lava {
                campaign::check_targets(file, &planned.0)?;
            }
            match engine {
                Engine::Local if *dry_run || *wait => {
                    Err(anyhow!("--dry-run and --wait are of --engine slurm and lava"))
                        .hint("latlab fleet plan prints what this host would measure")
                }
                Engine::Local => local::submit(global, dir, &planned, jobs),
                Engine::Slurm => {
                    let options = slurm::Options { jobs, dry_run: *dry_run, wait: *wait };
                    slurm::submit(global, dir, &planned, options)
                }
                Engine::Lava => {
                    let options = lava::Options { dry_run: *dry_run, wait: *wait };
                    lava::submit(global, file, dir, &planned, options)
                }
            }
        }
        Command::Task { file, number } => slurm::task(file, *number),
        Command::Collect { campaign, dir, logs } => {
            lava::collect(global, dir, &campaign::load(campaign)?, logs)
        }
        Command::Status { campaign, dir } => campaign::status(global, campaign, dir),
        Command::Import { lake, runs } => lake::import(global, lake, runs),
        Command::Compact { lake } => lake::compact(global, lake),
        Command::Regressions { lake, nights, fail_if_any } => {
            regressions::run(global, lake, *nights, *fail_if_any)
        }
        Command::Report { lake, out } => report::run(global, lake, out),
        Command::Ask { question, lake, name, quantile, kernel, setting, sql } => {
            let asked = ask::Asked { question, name, quantile: *quantile, kernel, setting };
            ask::run(global, lake, &asked, *sql)
        }
    }
}
