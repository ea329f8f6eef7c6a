//! The steps of a survey: one line each, and one function each.

use super::{Context, Step};
use crate::cli::survey::Level;
use latlab_core::run::Part;
use latlab_sys::signal;
use std::time::Duration;

/// In the order in which they run: what the machine is, then the cheap, then the long.
pub(super) const STEPS: &[Step] = &[Step {
    name: "gaps",
    title: "What takes the CPU away from a busy program",
    from: Level::Quick,
    seconds: [3, 30, 600],
    run: gaps,
}];

fn gaps(context: &Context) -> anyhow::Result<Vec<Part>> {
    let seen = latlab_sys::gaps::measure(Duration::from_secs(context.seconds));
    let complete = signal::stop_requested().is_none();
    Ok(vec![latlab_core::gaps::part(context.title, &seen, complete)])
}
