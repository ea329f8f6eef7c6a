//! Stretches without an event: code of this kernel, a stall, or one of both.
//!
//! | positive evidence of a stall, in the same capture | |
//! |---|---|
//! | user code was running | it cannot hold off interrupts |
//! | interrupts (and preemption) were recorded as enabled | the timer's interrupt would have come |
//! | the hwlat tracer reported a gap | |
//! | a timer of another CPU, due in the interval, expired at its end, and both CPUs were idle | in three windows, if no declared exit from idle covers it |
//! | steal time or SMIs rose between the readings round the capture | more often than between other readings (binomial test, 1 %) |
//!
//! The function of an interrupt, softirq, timer or work item that runs no longer without an event than it usually
//! does in that capture was not stopped.
//!
//! Otherwise, without evidence, the share of the CPU's time that the actor has decides whether it is named, and nothing
//! decides that it was a stall: a task that has most of the CPU is hit most often in either case. Where
//! stacks were traced, a function that it is rarely interrupted in decides as well: the interrupt comes
//! where the code enables interrupts, and after a stall wherever that hit it. Where it came in user code, no
//! section of that task with interrupts off was ended by it: what comes there mostly is not named by a share of
//! the CPU's time, which on a guest tells what is paused most often too. An exit from idle is named if the
//! delays begin with the interrupt.
//!
//! A guest whose hypervisor counts no steal time may have been stopped at any time, also in a handler or
//! while another task had the CPU: one or two silent windows name nobody there, unless most windows of the same
//! actor have events in them.

use super::classify::Judge;
use super::counters::{BY_CHANCE, Counted};
use super::members::{CONTROLS, Members, Verdict, could_be_stall, is_bracketed, is_silent};
use latlab_model::latency::{Cause, Group, Kind, Window};
use std::collections::{BTreeMap, BTreeSet};

/// Fewer late wake-ups do not name an actor by its share of the CPU while a counter of stalls rose, or where
/// none would; nor a task by the events in its time; and no stall by a timer of another CPU.
const CERTAIN: usize = 3;

/// Whether the events of a window itself show that no code of this kernel ran.
pub(super) fn is_seen(w: &Window) -> bool {
    let enabled = w.silent_interrupts_on == Some(true) && w.silent_preemption_on != Some(false);
    w.silent_in_user || enabled || w.silent_hwlat
}

/// Whether two idle CPUs were silent together in some windows of a group, and their idle state does not
/// explain it.
fn is_together(group: &Group, windows: &[usize], m: &Members, judge: &Judge<'_>) -> bool {
    group.cause == Cause::IdleExit
        && windows.iter().any(|&i| judge.windows[i].silent_other_timer)
        && !judge.is_declared_exit(group, m)
}

/// Whether a section of code was recorded in a group's stretch.
fn is_section(cause: Cause, w: &Window) -> bool {
    matches!(cause, Cause::InterruptsOff | Cause::PreemptionOff)
        && (w.silent_interrupts_on == Some(false) || w.silent_preemption_on == Some(false))
}

/// Moves windows that were stalls, or may have been, out of their groups. The second value: how many
/// silent stretches without evidence of a stall there were in all.
pub(super) fn tell_apart(
    mut members: BTreeMap<Group, Members>,
    judge: &Judge<'_>,
) -> (BTreeMap<Group, Members>, usize) {
    let mut stall = Members { kind: Verdict::Stall, ..Members::default() };
    let silent = silent_windows(&members, judge);
    let all: BTreeSet<usize> = silent.values().flatten().copied().collect();
    let counted = Counted::of(all.iter().map(|&i| &judge.windows[i]), judge.around.readings);
    let other_timer = all.iter().filter(|&&i| judge.windows[i].silent_other_timer).count();
    let mut left: Vec<(Group, Vec<usize>)> = Vec::new();
    for (group, windows) in silent {
        let own = members.get(&group);
        let together =
            other_timer >= CERTAIN && own.is_some_and(|m| is_together(&group, &windows, m, judge));
        let is_stall = |i: &usize| {
            let w = &judge.windows[*i];
            let seen = is_seen(w) || together && w.silent_other_timer && !w.silent_ipi;
            !is_section(group.cause, w) && (seen || counted.tells(w))
        };
        let (stalled, other): (Vec<usize>, Vec<usize>) = windows.into_iter().partition(is_stall);
        if let Some(m) = members.get_mut(&group) {
            move_windows(m, &group, &stalled, &mut stall);
        }
        if !other.is_empty() {
            left.push((group, other));
        }
    }
    let of = left.iter().map(|(_, w)| w.len()).sum();
    let mut unclear = Members { kind: Verdict::Alternatives, ..Members::default() };
    // An actor that ran before the interrupt in one window and after it in another is one actor.
    let mut hits: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for (group, windows) in &left {
        hits.entry(group.who.clone()).or_default().extend(windows);
    }
    for (group, windows) in left {
        let either = is_either(&group, &windows, &members, judge);
        let Some(m) = members.get_mut(&group) else { continue };
        let of_actor = if group.who.is_empty() { windows.len() } else { hits[&group.who].len() };
        if either || !is_named(&group, (&windows, of_actor), of, m, judge) {
            let all: Vec<usize> = m.excess.keys().copied().collect();
            move_windows(m, &group, &all, &mut unclear);
        }
        let other = Group { cause: Cause::InterruptsOff, ..group };
        if either && !unclear.merged.contains(&other) {
            unclear.merged.push(other);
        }
    }
    members.retain(|_, m| !m.excess.is_empty());
    for (name, m) in [("\u{0}stall", stall), ("\u{0}unclear", unclear)] {
        if !m.excess.is_empty() {
            members.insert(Group { cause: Cause::Unexplained, who: name.into() }, m);
        }
    }
    (members, of)
}

/// Whether the delays of a task behind the wake-up may be its sections with interrupts off as well: it has more
/// delays of those, no event shows interrupts enabled, and the kernel may not preempt its own code. There such a
/// section can begin between the interrupt and the switch.
fn is_either(
    group: &Group,
    silent: &[usize],
    members: &BTreeMap<Group, Members>,
    judge: &Judge<'_>,
) -> bool {
    if group.cause != Cause::PreemptionOff || judge.around.preempt_rt == Some(true) {
        return false;
    }
    let other = Group { cause: Cause::InterruptsOff, ..group.clone() };
    members.get(&other).is_some_and(|m| m.excess.len() > silent.len())
        && silent.iter().all(|&i| judge.windows[i].silent_interrupts_on.is_none())
}

/// The windows of each group that are mostly one stretch without events.
fn silent_windows(
    members: &BTreeMap<Group, Members>,
    judge: &Judge<'_>,
) -> BTreeMap<Group, Vec<usize>> {
    let of = |(g, m): (&Group, &Members)| {
        // An idle CPU runs no code, whatever events it left in between.
        let idle = g.cause == Cause::IdleExit;
        let silent = |&(i, e): &(&usize, &f64)| idle || is_silent(judge.windows[*i].share(g), *e);
        let windows: Vec<usize> = m.excess.iter().filter(silent).map(|(i, _)| *i).collect();
        (could_be_stall(g.cause, judge.is_guest()) && !windows.is_empty())
            .then(|| (g.clone(), windows))
    };
    members.iter().filter_map(of).collect()
}

fn move_windows(from: &mut Members, group: &Group, windows: &[usize], to: &mut Members) {
    let main: Vec<usize> = from.main.iter().copied().filter(|i| windows.contains(i)).collect();
    from.main.retain(|i| !windows.contains(i));
    for i in windows {
        if let Some(e) = from.excess.remove(i) {
            *to.excess.entry(*i).or_default() += e;
        }
    }
    to.main.extend(main);
    to.main.sort_unstable();
    to.main.dedup();
    if !windows.is_empty() && !to.merged.contains(group) {
        to.merged.push(group.clone());
    }
}

/// Whether a group's own mechanism is told although some of its windows are silent.
fn is_named(
    group: &Group,
    (silent, of_actor): (&[usize], usize),
    of: usize,
    m: &Members,
    judge: &Judge<'_>,
) -> bool {
    let windows = || silent.iter().map(|&i| &judge.windows[i]);
    // That no event shows a reason is what is said of it in any case.
    if group.cause == Cause::Path {
        return true;
    }
    if 2 * windows().filter(|w| is_section(group.cause, w)).count() > silent.len() {
        return true;
    }
    // A handler that mostly had events in it ran; one or two with events at both ends were seen to run,
    // unless the machine may have been stopped in it.
    let function =
        |w: &Window| matches!(w.share(group).kind, Some(Kind::Work | Kind::Timer | Kind::Hrtimer));
    let unsure = of < 3 || judge.contrast.on_time == 0;
    let mostly_seen = 2 * silent.len() <= m.excess.len();
    if (is_bracketed(group.cause) || windows().all(function))
        && (mostly_seen || unsure && !judge.is_guest())
    {
        return true;
    }
    // So did a task that had the CPU in place of the measured one.
    if mostly_seen && m.excess.len() - silent.len() >= CERTAIN && group.cause.is_in_place() {
        return true;
    }
    if group.cause == Cause::IdleExit
        && (judge.is_declared_exit(group, m) || judge.begins_with_the_interrupt(group, m))
    {
        return true;
    }
    let in_user = |w: &&Window| w.interrupted.as_deref() == Some("");
    if group.cause == Cause::InterruptsOff && 2 * windows().filter(in_user).count() >= silent.len()
    {
        return false;
    }
    // Two that fell to one task may be one stall, if steal time came with them or would not be counted.
    if of_actor < CERTAIN && (judge.is_guest() || windows().any(Counted::rose)) {
        return false;
    }
    judge.contrast.on_time >= CONTROLS
        && (judge.chance(group, of_actor, of.max(of_actor)) <= BY_CHANCE
            || judge.place(group, silent, of).is_some_and(|place| place.p <= BY_CHANCE))
}
