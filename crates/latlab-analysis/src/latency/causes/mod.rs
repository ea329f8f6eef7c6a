//! Which cause made which late wake-up, and how much of the lateness each explains.
//!
//! The *excess* of a group in a late window is its time there less its median
//! time in on-time windows. A window's main cause is the group with the largest
//! excess; a second group with a quarter of the window's excess counts too, so
//! that two causes at once are both named.
//!
//! A stretch without any event may be code that kept interrupts off, or a stall
//! in which no code of this kernel ran (SMI, secure world, hypervisor). A stall
//! hits whoever happens to run: its victims follow the occupancy of the CPU that
//! the on-time windows show. If one actor is hit far more often than that, it is
//! no victim (beta-binomial test: few on-time windows do not tell the occupancy
//! well); if the victims follow it, nobody is guilty.

mod classify;
mod members;
#[cfg(test)]
mod tests;

use super::case_control::{baseline, contrast, is_blameless};
use classify::Judge;
use latlab_model::latency::Cause;
use latlab_model::latency::{Explanation, Mechanism, RootCause, SystemContext};
use latlab_model::latency::{Group, Window};
use members::{Members, could_be_stall, is_bracketed, is_silent};
use std::collections::BTreeMap;

/// A second cause counts from this share of a window's excess.
const SECOND: f64 = 0.25;
/// A cause counts from this share of the whole.
const LEAST: f64 = 0.03;
/// A delay below this share of the limit does not make anybody late: nobody is named for it.
const MATERIAL: f64 = 0.1;

/// Fewer on-time windows do not show how the CPU's time is spread.
const CONTROLS: usize = 5;

/// Explains late windows by contrast with on-time ones.
pub fn explain(windows: &[Window], around: &SystemContext) -> Explanation {
    let contrast = contrast(windows);
    let base = baseline(windows);
    let late: Vec<usize> = (0..windows.len()).filter(|&i| windows[i].late).collect();
    let excess: BTreeMap<usize, f64> = late
        .iter()
        .map(|&i| (i, (windows[i].latency_ns as f64 - contrast.baseline_ns).max(1.0)))
        .collect();
    let total: f64 = excess.iter().map(|(&i, e)| e * windows[i].weight()).sum();
    let reference = if around.limit_ns > 0 { around.limit_ns as f64 } else { contrast.baseline_ns };
    let mut members: BTreeMap<Group, Members> = BTreeMap::new();
    for &i in &late {
        assign(i, &windows[i], excess[&i], MATERIAL * reference, &base, &mut members);
    }
    let weight = late.iter().map(|&i| windows[i].weight()).sum();
    let mut judge = Judge { windows, around, contrast: &contrast, late: weight, total, silent: 0 };
    judge.silent = merge_stalls(&mut members, &judge);
    let mut causes: Vec<RootCause> = members
        .into_iter()
        .map(|(group, m)| judge.cluster(&group, &m))
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

fn assign(
    i: usize,
    window: &Window,
    total: f64,
    material: f64,
    base: &BTreeMap<Group, f64>,
    members: &mut BTreeMap<Group, Members>,
) {
    let mut by_excess: Vec<(&Group, f64)> = window
        .shares
        .iter()
        .map(|(g, s)| (g, s.ns as f64 - base.get(g).copied().unwrap_or(0.0)))
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

/// Merges the silent groups whose actors are hit no more often than chance into one stall.
/// Returns how many silent stretches there were in all, guilty or not.
fn merge_stalls(members: &mut BTreeMap<Group, Members>, judge: &Judge<'_>) -> usize {
    let silent: Vec<(Group, usize)> = members
        .iter()
        .filter(|(g, _)| could_be_stall(g.cause))
        .map(|(g, m)| {
            // An idle CPU runs no code, whatever events it left in between.
            let idle = g.cause == Cause::IdleExit;
            let silent = |i: usize, e| idle || is_silent(&judge.windows[i].share(g), e);
            (g.clone(), m.excess.iter().filter(|&(&i, &e)| silent(i, e)).count())
        })
        .filter(|(_, n)| *n > 0)
        .collect();
    let of: usize = silent.iter().map(|(_, n)| n).sum();
    // A handler that mostly had events in it ran: no stall, whatever the chances.
    let mostly = |g: &Group, hits| !is_bracketed(g.cause) || 2 * hits > members[g].excess.len();
    let victims: Vec<Group> = silent
        .into_iter()
        .filter(|(g, hits)| mostly(g, *hits) && judge.is_victim(g, *hits, of, &members[g]))
        .map(|(g, _)| g)
        .collect();
    if victims.is_empty() {
        return of;
    }
    let mut stall = Members { stall: true, ..Members::default() };
    for group in victims {
        if let Some(m) = members.remove(&group) {
            stall.main.extend(m.main);
            for (i, e) in m.excess {
                *stall.excess.entry(i).or_default() += e;
            }
            stall.merged.push(group);
        }
    }
    stall.main.sort_unstable();
    stall.main.dedup();
    // One or two silent stretches are no pattern, and with hardly anything to compare with many are
    // none: what had the CPU may be guilty or a victim.
    let in_user = stall.excess.keys().any(|&i| judge.windows[i].silent_in_user);
    let few = stall.excess.len() < 3 || judge.contrast.on_time < CONTROLS;
    if few && !in_user {
        stall.stall = false;
        let unknown = Group { cause: Cause::Unexplained, who: String::new() };
        let known = members.entry(unknown).or_default();
        known.main.extend(stall.main);
        known.main.sort_unstable();
        known.main.dedup();
        for (i, e) in stall.excess {
            *known.excess.entry(i).or_default() += e;
        }
        return of;
    }
    members.insert(Group { cause: Cause::Unexplained, who: "\u{0}stall".into() }, stall);
    of
}
