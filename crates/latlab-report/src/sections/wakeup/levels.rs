//! Timer interrupt, kernel thread and user space beside each other.

use super::{first, latency_table};
use crate::doc::{Block, Section};
use latlab_model::run::{Detail, Run};
use latlab_model::wakeup::config::Level;
use latlab_model::wakeup::result::WakeupResult;
use latlab_stats::histogram::Summary;
use std::collections::BTreeMap;

/// Several levels of one run beside each other, from the interrupt outwards; nothing for one level.
pub fn side_by_side(run: &Run) -> Option<Section> {
    let levels: Vec<(String, Summary, u64)> = run
        .parts
        .iter()
        .filter_map(|part| match &part.detail {
            Some(Detail::Wakeup(r)) if part.name.starts_with("wakeup") => Some((
                r.config.level,
                (level_name(r).to_owned(), first(r.summaries()), r.missed_periods()),
            )),
            _ => None,
        })
        .collect::<BTreeMap<_, _>>()
        .into_values()
        .collect();
    let caption = "Latency of each wake-up, all CPUs combined, with the 95 % confidence interval in brackets. \
        Interrupt and kernel thread are measured together, user space afterwards.";
    (levels.len() > 1).then(|| Section {
        id: "wakeup-levels".into(),
        title: "Latency by level".into(),
        blocks: vec![Block::Table(latency_table(caption, "wake-ups", &levels))],
    })
}

fn level_name(result: &WakeupResult) -> &'static str {
    match result.config.level {
        Level::Irq => "timer interrupt (irq)",
        Level::Kernel => "kernel thread (kernel)",
        Level::User => "user space (user)",
    }
}
