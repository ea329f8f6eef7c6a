//! `latlab report RUN`: an existing run as text, JSON, HTML or plots.

use crate::cli::{Global, report::Args};
use crate::outcome::Outcome;
use crate::{rundir, term};
use std::io::Write;

pub(super) fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    let run = rundir::load(&args.path)?;
    let mut out = term::stdout();
    if global.json {
        serde_json::to_writer_pretty(&mut out, &run)?;
        writeln!(out)?;
    } else {
        crate::output::text(&run, &mut out)?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}
