//! Labels of evidence and of values without a wording of their own.

use super::{
    bench, cache, compare, doctor, history, latency, osnoise, run, sched, survey, sweep, timer,
    wakeup,
};

/// Labels of all areas.
const LABELS: &[&[(&str, &str)]] = &[
    bench::LABELS,
    cache::LABELS,
    compare::LABELS,
    doctor::LABELS,
    history::LABELS,
    latency::LABELS,
    osnoise::LABELS,
    run::LABELS,
    sched::LABELS,
    survey::LABELS,
    sweep::LABELS,
    timer::LABELS,
    wakeup::LABELS,
];

/// The label of an evidence identifier. Our own identifiers are in kebab-case and get spaces
/// (`steal-time`); names of the kernel, files and commands are shown as they are
/// (`sched_rt_runtime_us`).
pub(super) fn label(id: &str) -> String {
    if let Some((_, label)) = LABELS.iter().copied().flatten().find(|(known, _)| *known == id) {
        return (*label).to_owned();
    }
    let is_ours = id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if is_ours { id.replace('-', " ") } else { id.to_owned() }
}

/// Identifiers that have a label of their own.
pub(super) fn ids() -> impl Iterator<Item = &'static str> {
    LABELS.iter().copied().flatten().map(|(id, _)| *id)
}
