//! Which sleeps of a task separate its activations, and which lie inside of one.
//!
//! A task that works periodically sleeps in one place until its next period, and may sleep elsewhere for a
//! lock, for I/O, for another task, or for a short time. The place is recognized by the regular distance of its
//! times: of the sleeps that one kind of timer or one task ended those in which the task sleeps longest.
//! Without a regular distance the most frequent kind of timer counts where it ended half of the sleeps or more,
//! else each interruptible sleep that no event shows to be a wait inside.

use super::resumed::joined;
use super::sleeps::{Expiry, Sleep};
use latlab_model::event::{Names, OffCpu, Symbol};
use latlab_model::latency::{PeriodEstimate, Release};
use std::collections::BTreeMap;

/// Distances at least, to call times regular.
const DISTANCES: usize = 4;
/// This share of the distances is near a multiple of the median.
const REGULAR: f64 = 0.8;
/// Near: relative to the median.
const NEAR: f64 = 0.05;
/// A kind of timer that ended this share of the sleeps separates activations, regular or not.
const MOST: f64 = 0.5;
/// Two groups of sleep lengths are apart by this factor at least.
const APART: f64 = 1.3;
/// Lengths at most at which short and long sleeps are told apart.
const CUTS: usize = 8;
/// Kinds of timers, and names of tasks, at most that are tried: those that ended the most sleeps. Each is
/// tried on all sleeps.
const KINDS: usize = 16;

/// The sleeps that separate activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// Ended by a timer with this function that was started for a time from `low` to `high`, ns.
    Timer {
        /// The timer's function.
        function: Symbol,
        /// Only timers that were set to a time from then on, or to a time of the clock.
        relative: Option<bool>,
        /// The shortest time.
        low: i64,
        /// The longest time.
        high: i64,
    },
    /// Ended by tasks of this name, not before `low` ns.
    Task {
        /// The name.
        name: Symbol,
        /// The shortest sleep.
        low: u64,
    },
    /// Every interruptible sleep that no event shows to be a wait inside.
    Any,
}

/// Whether a sleep separates two activations.
pub fn is_boundary(sleep: &Sleep, boundary: &Boundary) -> bool {
    match *boundary {
        Boundary::Timer { function, relative, low, high } => sleep.timer.is_some_and(|t| {
            let is_asked =
                || relative.is_none_or(|r| r == t.relative) && (low..=high).contains(&t.asked);
            t.function == function && (t.intended.is_none() || is_asked())
        }),
        Boundary::Task { name, low } => {
            sleep.waker.is_some_and(|w| w.name == name) && sleep.length().0 >= low
        }
        Boundary::Any => sleep.left == OffCpu::Sleeping && !sleep.inside,
    }
}

/// Chooses the sleeps that separate activations; `None` without a sleep. What was known from an earlier part of the
/// same recording is kept where it still occurs.
pub fn choose(sleeps: &[Sleep], names: &Names, known: Option<&Release>) -> Option<Boundary> {
    let sleeps = joined(sleeps);
    let sleeps = sleeps.as_slice();
    let by_timer = timers(sleeps).into_iter().flat_map(|(function, own)| kinds(function, &own));
    let all: Vec<Boundary> = by_timer.chain(tasks(sleeps)).collect();
    let best = |of: &[Boundary]| {
        let regular = of.iter().filter_map(|b| Some((score(sleeps, b)?, *b)));
        regular.max_by(|a, b| a.0.total_cmp(&b.0)).map(|b| b.1)
    };
    if let Some(known) = known {
        let fit: Vec<Boundary> =
            all.iter().copied().filter(|b| describe(b, names) == *known).collect();
        let kept = best(&fit).or_else(|| fit.first().copied());
        if kept.is_some() {
            return kept;
        }
    }
    best(&all).or_else(|| by_frequent_timer(sleeps)).or_else(|| {
        let any = sleeps.iter().any(|s| is_boundary(s, &Boundary::Any));
        any.then_some(Boundary::Any)
    })
}

/// The time of the sleeps, less the more periods are without an activation: between two activations a task sleeps
/// longer than inside of one. `None`: they are not regular.
fn score(sleeps: &[Sleep], boundary: &Boundary) -> Option<f64> {
    let own = || sleeps.iter().filter(|s| is_boundary(s, boundary));
    let times: Vec<u64> = own().map(|s| s.due().0).collect();
    let (share, _) = regularity(&times)?;
    let all: f64 = own().map(|s| s.length().0 as f64).sum();
    Some(all * share.min(1.0).powi(4))
}

/// Sleeps that timers of one function ended, the most frequent first, [`KINDS`] at most.
fn timers(sleeps: &[Sleep]) -> Vec<(Symbol, Vec<(&Sleep, Expiry)>)> {
    let mut of: BTreeMap<u32, Vec<(&Sleep, Expiry)>> = BTreeMap::new();
    for sleep in sleeps {
        if let Some(expiry) = sleep.timer {
            of.entry(expiry.function.0).or_default().push((sleep, expiry));
        }
    }
    let mut all: Vec<_> = of.into_iter().map(|(f, s)| (Symbol(f), s)).collect();
    all.sort_by_key(|(_, s)| std::cmp::Reverse(s.len()));
    all.truncate(KINDS);
    all
}

/// Several sleeps in one loop may end by one kind of timer. The one to the next period differs by its mode (the
/// others are relative) or by its length.
fn kinds(function: Symbol, own: &[(&Sleep, Expiry)]) -> Vec<Boundary> {
    let mut asked: Vec<i64> = own.iter().map(|(_, t)| t.asked).filter(|a| *a > 0).collect();
    asked.sort_unstable();
    let of = |relative, low, high| Boundary::Timer { function, relative, low, high };
    let (low, high) = (i64::MIN, i64::MAX);
    let apart = asked.windows(2).filter(|w| w[1] as f64 >= APART * w[0] as f64);
    let cuts = apart.rev().take(CUTS).flat_map(|w| [of(None, w[1], high), of(None, low, w[0])]);
    let modes = [None, Some(false), Some(true)].map(|relative| of(relative, low, high));
    modes.into_iter().chain(cuts).collect()
}

/// Sleeps that tasks of one name ended, all or the long ones, for the [`KINDS`] most frequent names.
fn tasks(sleeps: &[Sleep]) -> Vec<Boundary> {
    let wakers = sleeps.iter().filter_map(|s| s.waker).filter(|w| w.name != Symbol(0));
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    wakers.for_each(|w| *counts.entry(w.name.0).or_default() += 1);
    let mut names: Vec<u32> = counts.keys().copied().collect();
    names.sort_by_key(|name| std::cmp::Reverse(counts[name]));
    names.truncate(KINDS);
    names.sort_unstable();
    let of = |name: u32| {
        let name = Symbol(name);
        let all = Boundary::Task { name, low: 0 };
        let mut lengths: Vec<u64> = sleeps
            .iter()
            .filter(|s| is_boundary(s, &all))
            .map(|s| s.length().0)
            .filter(|n| *n > 0)
            .collect();
        lengths.sort_unstable();
        let apart = lengths.windows(2).filter(|w| w[1] as f64 >= APART * w[0] as f64);
        let long: Vec<Boundary> =
            apart.rev().take(CUTS).map(|w| Boundary::Task { name, low: w[1] }).collect();
        std::iter::once(all).chain(long)
    };
    names.into_iter().flat_map(of).collect()
}

fn by_frequent_timer(sleeps: &[Sleep]) -> Option<Boundary> {
    let (function, own) = timers(sleeps).into_iter().next()?;
    let most = own.len() as f64 >= MOST * sleeps.len() as f64;
    most.then_some(Boundary::Timer { function, relative: None, low: i64::MIN, high: i64::MAX })
}

/// Median distance of rising times and its deviation, where they are regular.
pub fn regular(times: &[u64]) -> Option<PeriodEstimate> {
    regularity(times).map(|r| r.1)
}

/// The share of the periods that have an activation in their place, where four of five distances are near a multiple
/// of the median.
fn regularity(times: &[u64]) -> Option<(f64, PeriodEstimate)> {
    let apart: Vec<u64> = times.windows(2).map(|w| w[1].saturating_sub(w[0])).collect();
    if apart.len() < DISTANCES {
        return None;
    }
    let median = |mut values: Vec<u64>| {
        values.sort_unstable();
        values[values.len() / 2]
    };
    let middle = median(apart.clone());
    if middle == 0 {
        return None;
    }
    let is_near = |d: &&u64| {
        let periods = **d as f64 / middle as f64;
        periods >= 0.5 && (periods - periods.round()).abs() <= NEAR
    };
    if (apart.iter().filter(is_near).count() as f64) < REGULAR * apart.len() as f64 {
        return None;
    }
    let whole = times.last()?.saturating_sub(times[0]) as f64 / middle as f64;
    let in_place = |d: &&u64| is_near(d) && (**d as f64) < 1.5 * middle as f64;
    let share = apart.iter().filter(in_place).count() as f64 / whole.max(1.0);
    let mad_ns = median(apart.iter().map(|d| d.abs_diff(middle)).collect());
    Some((share, PeriodEstimate { median_ns: middle, mad_ns }))
}

/// For the result.
pub fn describe(boundary: &Boundary, names: &Names) -> Release {
    match *boundary {
        Boundary::Timer { function, .. } => {
            Release::Timer { function: names.get(function).to_owned() }
        }
        Boundary::Task { name, .. } => Release::Task { waker: names.get(name).to_owned() },
        Boundary::Any => Release::Wakeup,
    }
}

#[cfg(test)]
mod tests {
    use super::super::sleeps::Expiry;
    use super::*;
    use latlab_model::event::Task;
    use latlab_model::units::{CpuId, Nanos, Tid, TraceNs};

    fn sleep(at: u64, waker: u32, function: u32) -> Sleep {
        let timer = Expiry { function: Symbol(function), relative: true, intended: None, asked: 0 };
        Sleep {
            out: TraceNs(at),
            left: OffCpu::Sleeping,
            inside: false,
            woken: TraceNs(at + 50),
            until: None,
            timer: (function > 0).then_some(timer),
            waker: (waker > 0).then_some(Task { tid: Tid(1), name: Symbol(waker), prio: 120 }),
            start: TraceNs(at + 60),
            cpu: CpuId(0),
            prio: 120,
            ran: Nanos(10),
            preempted: Nanos(0),
            unsure: false,
            gap: false,
        }
    }

    #[test]
    fn few_of_many_kinds_are_tried_and_the_frequent_one_is_found() {
        // Each sleep by another task and another function, but for each second one.
        let of = |n: u64| if n.is_multiple_of(2) { 7 } else { 100 + n as u32 };
        let by_task: Vec<_> = (0..20_000).map(|n| sleep(n * 100, of(n), 0)).collect();
        assert!(tasks(&by_task).len() <= KINDS * (CUTS + 1));
        assert!(tasks(&by_task).contains(&Boundary::Task { name: Symbol(7), low: 0 }));
        let by_timer: Vec<_> = (0..20_000).map(|n| sleep(n * 100, 0, of(n))).collect();
        assert_eq!(timers(&by_timer).len(), KINDS);
        assert_eq!(timers(&by_timer)[0].0, Symbol(7));
        let chosen = choose(&by_timer, &Names::default(), None);
        assert!(matches!(chosen, Some(Boundary::Timer { function: Symbol(7), .. })), "{chosen:?}");
    }
}
