//! `latlab watch`: the state of a running one, its counts as tables, or a watch until it is asked to stop.

mod alarm;
mod events;
#[cfg(feature = "host")]
mod export;
mod history;
mod query;
mod recording;
mod server;
mod service;
mod spans;
mod store;
mod tasks;

use crate::cli::Global;
use crate::cli::watch::{Args, Query};
use crate::outcome::{Outcome, reader_may_leave};
use crate::{output, term};
use anyhow::Context;
use latlab_model::control::JsonEscaped;
use latlab_model::watch::Status;
use latlab_sys::bounded_file;
use std::io::Write;
use std::path::Path;

/// A configuration file is at most so long, bytes.
const FILE_MAX: u64 = 1 << 20;

/// Runs the command.
///
/// # Errors
/// When nothing can be watched, or a running watch does not answer.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    match &args.query {
        Some(Query::Status { dir }) => {
            print(global, &query::status(dir)?)?;
            return Ok(Outcome::Done);
        }
        #[cfg(feature = "host")]
        Some(Query::Export { out, dir }) => {
            export::run(dir, out)?;
            return Ok(Outcome::Done);
        }
        // Without it the word would name a task.
        #[cfg(not(feature = "host"))]
        Some(Query::Export { .. }) => {
            use crate::outcome::HintExt;
            return Err(anyhow::anyhow!("watch export: not in this build"))
                .hint("copy the folder of the watch to a host, and name it there with --dir");
        }
        None => {}
    }
    let text = args.file().map(read).transpose()?;
    let config = args.config(text.as_deref())?;
    let (status, outcome) = service::run(config)?;
    print(global, &status)?;
    Ok(outcome)
}

fn read(path: &Path) -> anyhow::Result<String> {
    bounded_file::read_text(path, FILE_MAX).with_context(|| path.display().to_string())
}

fn print(global: &Global, status: &Status) -> anyhow::Result<()> {
    let mut out = term::raw_stdout();
    let printed = if global.json {
        serde_json::to_writer(JsonEscaped(&mut out), status)
            .map_err(anyhow::Error::from)
            .and_then(|()| writeln!(out).map_err(Into::into))
    } else {
        let doc = latlab_report::watch::status::doc(status, term::details());
        output::document(&doc, &mut out).map_err(Into::into)
    };
    reader_may_leave(printed.and_then(|()| out.flush().map_err(Into::into)))
}
