//! What the windows of one cause have in common: who acted, how long, and the typical one.

use super::members::CONTROLS;
use latlab_model::latency::{Cause, Group, Kind, Share, Window};
use latlab_stats::uniform_end::uniform_end;
use std::collections::BTreeMap;

/// The share of the longest of some groups in a window.
pub(super) fn longest<'a>(window: &'a Window, groups: &[Group]) -> Option<&'a Share> {
    groups.iter().map(|g| window.share(g)).max_by_key(|s| s.silent_ns)
}

/// Who had the CPU for more than a quarter of the time, the longest first.
pub(super) fn top_instead(shares: &[(usize, &Share, f64)]) -> Vec<String> {
    let mut sum: BTreeMap<&str, u64> = BTreeMap::new();
    let mut waited = 0u64;
    for (_, share, _) in shares {
        waited = waited.saturating_add(share.ns);
        for (who, ns) in &share.instead_ns {
            let own = sum.entry(who).or_default();
            *own = own.saturating_add(*ns);
        }
    }
    let mut top: Vec<(&str, u64)> = sum.into_iter().filter(|(_, ns)| *ns > waited / 4).collect();
    top.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    top.into_iter().map(|(who, _)| who.to_owned()).collect()
}

/// How long the cause itself lasts. A task may have run long before it turned interrupts or preemption
/// off, and an idle CPU slept before it was woken: there the time since the last event is only a bound.
/// What such a section held the other up for is evenly spread up to its whole length, so that the largest
/// of n tells that. A task that has the CPU in no on-time window and was there equally long in
/// each late one (within 2 %) does nothing else: its section is as long as it was there. The second value: the 95 %
/// interval of a length that is estimated in this way.
pub(super) fn size(
    (cause, kind): (Cause, Option<Kind>),
    whole: f64,
    usual: f64,
    sized: &[&(usize, &Share, f64)],
    (on_time, occupied): (usize, usize),
) -> (f64, Option<(f64, f64)>) {
    let begins_without_event = match cause {
        Cause::PreemptionOff | Cause::IdleExit => true,
        Cause::InterruptsOff => kind == Some(Kind::Task),
        _ => false,
    };
    if !begins_without_event {
        return (whole, None);
    }
    let is_rare = cause != Cause::IdleExit && on_time >= CONTROLS && occupied == 0;
    let wholes = || sized.iter().map(|s| s.1.whole_ns as f64);
    let spread = wholes().fold(0.0, f64::max) - wholes().fold(f64::INFINITY, f64::min);
    if is_rare && sized.len() >= 3 && spread <= 0.02 * whole {
        return (whole, None);
    }
    let largest = sized.iter().map(|s| s.2).fold(0.0, f64::max);
    let Some((end, (least, most))) = uniform_end(largest, sized.len()) else {
        return (whole, None);
    };
    let size = whole.min(end).max(usual);
    (size, Some((least.min(size), most.min(whole.max(largest)).max(size))))
}

/// The thread that acted in most of the windows, by its whole name.
pub(super) fn thread(shares: &[(usize, &Share, f64)]) -> Option<String> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let names = shares.iter().filter_map(|s| s.1.thread.as_deref());
    names.for_each(|name| *seen.entry(name).or_default() += 1);
    seen.into_iter().max_by_key(|s| s.1).map(|(name, _)| name.to_owned())
}

/// The window with the median excess.
pub(super) fn typical(shares: &[(usize, &Share, f64)]) -> Option<usize> {
    let mut order: Vec<(usize, f64)> = shares.iter().map(|s| (s.0, s.2)).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    order.get(order.len() / 2).map(|s| s.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times of a damaged trace reach the end of their range.
    #[test]
    fn who_ran_longest_is_told_of_times_of_any_length() {
        let ran = |ns: u64| {
            let instead_ns = [("long".to_owned(), ns), ("short".to_owned(), ns / 5)].into();
            Share { ns, instead_ns, ..Share::default() }
        };
        for ns in [100, u64::MAX / 2] {
            let share = ran(ns);
            assert_eq!(top_instead(&[(0, &share, 1.0), (1, &share, 1.0)]), ["long"], "{ns}");
        }
    }
}
