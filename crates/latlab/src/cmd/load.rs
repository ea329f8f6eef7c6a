//! `latlab load-worker`: see [`latlab_sys::load`].

use crate::cli::load::Args;
use crate::outcome::Outcome;

/// Works until standard input ends or a signal comes.
///
/// # Errors
/// When the worker cannot do its work (no memory).
pub fn run(args: &Args) -> anyhow::Result<Outcome> {
    latlab_sys::load::work_until_stdin_ends(args.worker)?;
    Ok(latlab_sys::signal::stop_requested().map_or(Outcome::Done, Outcome::Stopped))
}
