//! `latlab report PATH`: what a file or directory has to say.
//!
//! A run directory or its `run.json` is a run; anything else would have to be a trace.

mod run;

use crate::cli::{Global, report::Args};
use crate::outcome::Outcome;

/// Reports on whatever the path is.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    run::run(global, args)
}
