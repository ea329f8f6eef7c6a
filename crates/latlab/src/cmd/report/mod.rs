//! `latlab report PATH`: what a file or directory has to say.
//!
//! A run directory or its `run.json` is a run; anything else is a trace.

mod follow;
mod run;
mod trace;

use crate::cli::{Global, report::Args};
use crate::outcome::Outcome;

/// Reports on whatever the path is.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    let is_json = args.path.extension().is_some_and(|e| e == "json");
    let is_trace = args.path.is_file() && !is_json;
    match (is_trace, args.follow) {
        (true, true) => follow::run(global, args),
        (true, false) => {
            // Nothing is written but stdout: a signal ends the process, also while nobody reads.
            latlab_sys::signal::forget();
            trace::run(global, args)
        }
        (false, _) => run::run(global, args),
    }
}
