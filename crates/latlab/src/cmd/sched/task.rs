//! `latlab sched-task`: see [`latlab_sys::schedload`].

use crate::cli::sched_task::Args;
use crate::outcome::Outcome;
use anyhow::Context;
use latlab_sys::schedload::{Order, work};

/// The whole life of a task.
///
/// # Errors
/// When the order cannot be read or its work fails.
pub fn run(args: &Args) -> anyhow::Result<Outcome> {
    // It has nothing to put back: a signal ends it at once.
    latlab_sys::signal::forget();
    let order: Order = serde_json::from_str(&args.order).context("sched-task: no order")?;
    work(&order)?;
    Ok(Outcome::Done)
}
