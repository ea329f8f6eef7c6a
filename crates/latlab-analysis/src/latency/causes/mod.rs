//! Which cause made which late wake-up, and how much of the lateness each explains.
//!
//! The *excess* of a group in a late window is its time there less its median
//! time in on-time windows. A window's main cause is the group with the largest
//! excess; a second group with a quarter of the window's excess counts too, so
//! that two causes at once are both named.
//!
//! A stretch without any event may be code that kept interrupts or preemption off, or a stall in which no
//! code of this kernel ran (SMI, secure world, hypervisor). It is a stall only with positive evidence of
//! that capture (`stalls.rs`). Otherwise an actor is named if it is hit far more often than its share of
//! the CPU's time in on-time windows predicts (beta-binomial test: few on-time windows do not tell that
//! share well); if not, what remains is listed as alternatives.

mod against_stall;
mod classify;
mod confidence;
mod counters;
mod mechanism;
mod members;
mod senders;
mod shares;
mod stalls;
#[cfg(test)]
mod tests;

use super::case_control::{Usual, contrast, is_blameless};
use classify::{Judge, Occupants};
use latlab_model::latency::Cause;
use latlab_model::latency::{Explanation, Mechanism, RootCause, SystemContext};
use latlab_model::latency::{Group, Share, Window};
use members::Members;
use std::collections::BTreeMap;

/// A second cause counts from this share of a window's excess.
const SECOND: f64 = 0.25;
/// A cause counts from this share of the whole.
const LEAST: f64 = 0.03;
/// A delay below this share of the limit does not make anybody late: nobody is named for it.
const MATERIAL: f64 = 0.1;

/// Explains late windows by contrast with on-time ones.
pub fn explain(windows: &[Window], around: &SystemContext) -> Explanation {
    let (contrast, usual) = contrast(windows);
    let late: Vec<usize> = (0..windows.len()).filter(|&i| windows[i].late).collect();
    let excess: BTreeMap<usize, f64> = late
        .iter()
        .map(|&i| (i, (windows[i].compared_ns() as f64 - contrast.baseline_ns).max(1.0)))
        .collect();
    let total: f64 = excess.iter().map(|(&i, e)| e * windows[i].weight()).sum();
    let reference = if around.limit_ns > 0 { around.limit_ns as f64 } else { contrast.baseline_ns };
    let mut members: BTreeMap<Group, Members> = BTreeMap::new();
    for &i in &late {
        assign(i, &windows[i], excess[&i], MATERIAL * reference, &usual, &mut members);
    }
    let weight = late.iter().map(|&i| windows[i].weight()).sum();
    let mut judge = Judge {
        windows,
        around,
        contrast: &contrast,
        usual: &usual,
        occupants: Occupants::of(windows),
        late: weight,
        total,
        silent: 0,
    };
    let (members, silent) = stalls::tell_apart(members, &judge);
    judge.silent = silent;
    let mut causes: Vec<RootCause> = members
        .iter()
        .map(|(group, m)| judge.cause(group, m))
        .filter(|c| c.share_of_lateness >= LEAST || c.share_of_late >= LEAST)
        .collect();
    causes.sort_by(|a, b| b.share_of_lateness.total_cmp(&a.share_of_lateness));
    let explained: f64 = causes
        .iter()
        .filter(|c| !matches!(c.mechanism, Mechanism::Unexplained | Mechanism::SlowPath))
        .map(|c| c.share_of_lateness)
        .sum();
    let unexplained_share = if late.is_empty() { 0.0 } else { (1.0 - explained).max(0.0) };
    Explanation { contrast, causes, unexplained_share, excess_ns: total }
}

/// The time of a part beyond its on-time median, ns. Behind the event at which on-time windows end there is
/// nothing to subtract, and what the ordinary path takes there is usual.
fn excess(group: &Group, share: &Share, usual: f64) -> f64 {
    let beyond = if group.cause == Cause::Path { 0 } else { share.not_compared_ns };
    share.ns.saturating_sub(share.not_compared_ns) as f64 - usual + beyond as f64
}

fn assign(
    i: usize,
    window: &Window,
    total: f64,
    material: f64,
    usual: &BTreeMap<Group, Usual>,
    members: &mut BTreeMap<Group, Members>,
) {
    let mut by_excess: Vec<(&Group, f64)> = window
        .shares
        .iter()
        .map(|(g, s)| (g, excess(g, s, usual.get(g).map_or(0.0, |u| u.ns))))
        .filter(|(_, e)| *e > 0.0)
        .collect();
    // Parts that were shorter than usual make the others add up to more than the excess.
    let sum: f64 = by_excess.iter().map(|x| x.1).sum();
    let scale = (total / sum.max(1.0)).min(1.0);
    by_excess.iter_mut().for_each(|x| x.1 *= scale);
    // An actor with a real part in it comes before the way itself, which is then its echo.
    by_excess.sort_by(|a, b| {
        let actor = |x: &(&Group, f64)| !is_blameless(x.0.cause) && x.1 >= SECOND * total;
        actor(b).cmp(&actor(a)).then(b.1.total_cmp(&a.1))
    });
    for (rank, (group, e)) in by_excess.iter().enumerate() {
        if *e < material || rank > 0 && *e < SECOND * total {
            continue;
        }
        let m = members.entry((*group).clone()).or_default();
        if rank == 0 {
            m.main.push(i);
        }
        m.excess.insert(i, *e);
    }
}
