//! `latlab why`: hunts late wake-ups, or takes captures made elsewhere, and explains them.

mod analyse;
mod hunt;
mod levels;

use crate::cli::Global;
use crate::cli::why::Args;
use crate::outcome::Outcome;
use crate::session::Session;
use latlab_core::explain::cluster::Surroundings;
use latlab_core::explain::result::WhyResult;
use latlab_core::explain::verdict::findings;
use latlab_core::run::{Detail, Part};
use std::path::PathBuf;

/// Runs the command.
///
/// # Errors
/// When nothing can be measured or read, or the result can be neither kept nor printed.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    if args.files.is_empty() { hunt::run(global, args) } else { from_files(global, args) }
}

fn from_files(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    let limit = args.file_limit()?;
    let files = analyse::captures_of(&args.files)?;
    let mut session = Session::begin_unkept(global, "why", &files)?;
    let machine = surroundings_of(args.files.as_slice(), limit.0);
    let result = analyse::explain(&files, limit, args.task.as_deref(), machine)?;
    session.run.parts.push(part(result, true, 0));
    session.finish(None)
}

/// What is known of the machine, where all captures are of one `latlab why` run.
fn surroundings_of(paths: &[PathBuf], limit_ns: u64) -> Surroundings {
    let known = match paths {
        [run] if run.is_dir() => crate::rundir::load(run).ok().and_then(|run| {
            run.parts.into_iter().find_map(|part| match part.detail {
                Some(Detail::Why(result)) => Some(result.surroundings),
                _ => None,
            })
        }),
        _ => None,
    };
    known.unwrap_or(Surroundings { limit_ns, ..Surroundings::default() })
}

/// The part of a run that a result makes.
fn part(result: WhyResult, complete: bool, duration_ns: u64) -> Part {
    Part {
        name: "why".into(),
        title: "What made it late".into(),
        complete,
        duration_ns,
        findings: findings(&result.explanation, &result.surroundings),
        results: Vec::new(),
        detail: Some(Detail::Why(Box::new(result))),
    }
}
