//! Batches during which something else slowed the machine down.
//!
//! A processor that shares its core with another thread, a clock that throttles, a neighbour
//! that empties the caches: each makes everything slower by a third for a tenth of a second or a
//! minute, and no counter of a guest shows it. So the same short work, the *control workload*, is
//! timed on either side of every batch. Its level is the first percentile of all its readings in the
//! run; a batch with a reading well above the level is *disturbed*. The estimate is conditional: from
//! the undisturbed batches, as long as there are enough of them. It is that of the machine in its
//! fastest state, whatever share of the time it has; the row states that share, and the median of all batches.
//!
//! The control workload is another measurement than the batch: conditioning on it prefers no value of a
//! batch but through the state that both share (a mean over a subpopulation; W. G. Cochran,
//! *Sampling Techniques*, 3rd ed., ch. 2).
//!
//! A machine with two states of its own (a boosted clock, a sibling thread that is busy at times) has
//! readings in two tight groups: [`states`].

use latlab_model::bench::trial::Slice;
use latlab_model::bench::{Selection, StateMedian, States};
use latlab_stats::quantile::median;

/// The quantile of all readings that is called the undisturbed level: a machine that is left alone for
/// one moment in a hundred is enough, and a hundred readings make it more than an accident.
const LEVEL: f64 = 0.01;
/// A reading this much above the level is a disturbance. Readings of a quiet machine are within
/// 2 or 3 %; a shared core shows as 15 % and more.
const TOLERANCE: f64 = 1.06;
/// Fewest readings that a level is taken from.
const READINGS_MIN: usize = 20;
/// Fewest processes with undisturbed batches behind a figure; below that, all batches are used. Two
/// support no interval, but are within some per cent, while slowed ones are a third off.
const PROCESSES_MIN: usize = 2;

/// Up to which reading a batch is undisturbed, ns.
pub fn control_limit_ns(level: f64) -> f64 {
    level * TOLERANCE
}

/// The sentinel's undisturbed level, ns; `None` with too few readings to know one.
pub fn level(slices: &[&Slice]) -> Option<f64> {
    let mut all: Vec<f64> = slices.iter().flat_map(|s| s.control_ns.iter().copied()).collect();
    all.retain(|v| *v > 0.0);
    if all.len() < READINGS_MIN {
        return None;
    }
    let at = (all.len() as f64 * LEVEL) as usize;
    let (_, level, _) = all.select_nth_unstable_by(at, f64::total_cmp);
    Some(*level)
}

/// Fewest readings in each of two states, and the smallest share of all readings.
const STATE_MIN: usize = 10;
const STATE_SHARE: f64 = 0.01;
/// The states' levels are at least this factor apart.
const STATES_APART: f64 = 1.08;
/// Share of the slow readings that is within `TOLERANCE` of their median: a state has a level, interference
/// of changing strength has none.
const STATE_TIGHT: f64 = 0.75;

/// Two states, where the readings above the level have a level of their own.
pub fn states(slices: &[&Slice], level: Option<f64>) -> Option<States> {
    let limit = control_limit_ns(level?);
    let all = slices.iter().flat_map(|s| s.control_ns.iter().copied()).filter(|v| *v > 0.0);
    let (fast, slow): (Vec<f64>, Vec<f64>) = all.partition(|v| *v <= limit);
    let (fast_ns, slow_ns) = (median(&fast)?, median(&slow)?);
    let count = fast.len() + slow.len();
    let least = STATE_MIN.max((count as f64 * STATE_SHARE) as usize);
    let near = |v: &&f64| **v <= slow_ns * TOLERANCE && **v >= slow_ns / TOLERANCE;
    let tight = slow.iter().filter(near).count() as f64 >= slow.len() as f64 * STATE_TIGHT;
    let two = fast.len().min(slow.len()) >= least && slow_ns >= fast_ns * STATES_APART && tight;
    two.then(|| States { fast_ns, slow_ns, fast_share: fast.len() as f64 / count as f64 })
}

/// The medians of one probe in the fast and in the slow state.
pub fn state_medians(slices: &[Slice], level: f64) -> Vec<StateMedian> {
    let limit = control_limit_ns(level);
    let of = |fast: bool| {
        let values = |s: &Slice| -> Vec<f64> {
            let pairs = s.values.iter().zip(&s.control_ns);
            pairs.filter(|(_, r)| (**r <= limit) == fast).map(|(v, _)| *v).collect()
        };
        let each: Vec<Vec<f64>> = slices.iter().map(values).filter(|v| !v.is_empty()).collect();
        StateMedian {
            median: median(&each.iter().filter_map(|v| median(v)).collect::<Vec<_>>()),
            batches: each.iter().map(Vec::len).sum::<usize>() as u64,
            processes: each.len() as u64,
        }
    };
    vec![of(true), of(false)]
}

/// Which batches of one probe count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    /// For each slice, which of its batches.
    pub batches: Vec<Vec<bool>>,
    /// Batches that were disturbed.
    pub disturbed: u64,
    /// Which of them the estimate is from.
    pub selection: Selection,
}

/// Judges every batch of a probe by the level.
pub fn choose(slices: &[Slice], level: Option<f64>) -> Choice {
    let quiet = |s: &Slice, i: usize| match (level, s.control_ns.get(i)) {
        (Some(level), Some(reading)) => *reading <= control_limit_ns(level),
        _ => true,
    };
    let batches: Vec<Vec<bool>> =
        slices.iter().map(|s| (0..s.values.len()).map(|i| quiet(s, i)).collect()).collect();
    let disturbed = batches.iter().flatten().filter(|q| !**q).count() as u64;
    let with = |b: &&Vec<bool>| !b.is_empty();
    let undisturbed = batches.iter().filter(|b| b.contains(&true)).count();
    let enough = undisturbed >= PROCESSES_MIN.min(batches.iter().filter(with).count());
    let count: usize = batches.iter().map(Vec::len).sum();
    let selection = match disturbed {
        0 => Selection::All,
        _ if !enough => Selection::AllDisturbed,
        n if n * 2 > count as u64 => Selection::FewUndisturbed,
        _ => Selection::Undisturbed,
    };
    if selection == Selection::AllDisturbed {
        let all = batches.iter().map(|b| vec![true; b.len()]).collect();
        return Choice { batches: all, disturbed, selection };
    }
    Choice { batches, disturbed, selection }
}

impl Choice {
    /// The chosen ones of some values, one vector a slice; slices with none are left out.
    pub fn of(&self, slices: &[Slice], values: fn(&Slice) -> &[f64]) -> Vec<(u64, Vec<f64>)> {
        (slices.iter().zip(&self.batches))
            .map(|(slice, chosen)| {
                let pairs = values(slice).iter().zip(chosen);
                (slice.start_ns, pairs.filter(|(_, c)| **c).map(|(v, _)| *v).collect())
            })
            .filter(|(_, v): &(u64, Vec<f64>)| !v.is_empty())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of which every second third of a run is slowed by 30 %.
    fn slices(slow: impl Fn(usize) -> bool) -> Vec<Slice> {
        (0..30)
            .map(|i| {
                let factor = if slow(i) { 1.3 } else { 1.0 };
                let jitter = |k: usize| 1.0 + ((i * 7 + k * 3) % 10) as f64 * 1e-3;
                Slice {
                    start_ns: i as u64,
                    values: (0..11).map(|k| 200.0 * factor * jitter(k)).collect(),
                    control_ns: (0..11).map(|k| 170.0 * factor * jitter(k + 5)).collect(),
                    ..Slice::default()
                }
            })
            .collect()
    }

    #[test]
    fn a_figure_does_not_depend_on_how_long_the_machine_was_slowed() {
        for slow in [5, 15, 24] {
            let s = slices(|i| i % 30 < slow);
            let choice = choose(&s, level(&s.iter().collect::<Vec<_>>()));
            let most = if slow > 15 { Selection::FewUndisturbed } else { Selection::Undisturbed };
            assert_eq!(choice.selection, most);
            assert_eq!(choice.disturbed, slow as u64 * 11);
            let kept = choice.of(&s, |s| &s.values);
            assert_eq!(kept.len(), 30 - slow);
            assert!(kept.iter().flat_map(|(_, v)| v).all(|v| *v < 203.0));
        }
    }

    #[test]
    fn two_undisturbed_processes_are_worth_more_than_thirty_slowed_ones() {
        let s = slices(|i| i > 1);
        let choice = choose(&s, level(&s.iter().collect::<Vec<_>>()));
        assert_eq!((choice.selection, choice.disturbed), (Selection::FewUndisturbed, 28 * 11));
        assert_eq!(choice.of(&s, |s| &s.values).len(), 2);
        // One alone may have been an accident of its pages; all count then, which is said.
        let choice = choose(&s[1..], level(&s.iter().collect::<Vec<_>>()));
        assert_eq!((choice.selection, choice.disturbed), (Selection::AllDisturbed, 28 * 11));
        assert_eq!(choice.of(&s[1..], |s| &s.values).len(), 29);
    }

    #[test]
    fn runs_without_a_sentinel_are_read_as_they_are() {
        let mut s = slices(|_| false);
        s.iter_mut().for_each(|s| s.control_ns.clear());
        assert_eq!(level(&s.iter().collect::<Vec<_>>()), None);
        assert_eq!(choose(&s, None).disturbed, 0);
    }

    /// A clock that is boosted by 20 % for two batches in a hundred.
    #[test]
    fn a_boosted_clock_is_two_states_with_a_median_each() {
        let mut s: Vec<Slice> = slices(|_| true).into_iter().cycle().take(60).collect();
        for i in [7, 40] {
            for k in 0..7 {
                s[i].values[k] /= 1.3;
                s[i].control_ns[k] /= 1.3;
            }
        }
        let all: Vec<&Slice> = s.iter().collect();
        let level = level(&all);
        let found = states(&all, level).expect("two states");
        assert!((0.02..0.022).contains(&found.fast_share), "{found:?}");
        assert!((1.28..1.32).contains(&(found.slow_ns / found.fast_ns)), "{found:?}");
        let medians = state_medians(&s, level.unwrap());
        assert_eq!((medians[0].batches, medians[0].processes), (14, 2));
        assert!((199.0..203.0).contains(&medians[0].median.unwrap()), "{medians:?}");
        assert!((258.0..264.0).contains(&medians[1].median.unwrap()), "{medians:?}");
        // The estimate is from those 14 batches of 660, and is marked.
        assert_eq!(choose(&s, level).selection, Selection::FewUndisturbed);
    }

    #[test]
    fn interference_of_changing_strength_is_no_state() {
        let mut s = slices(|i| i % 3 == 0);
        for (i, slice) in s.iter_mut().enumerate().filter(|(i, _)| i % 3 == 0) {
            slice.control_ns.iter_mut().for_each(|v| *v *= 1.0 + (i % 10) as f64 * 0.1);
        }
        let all: Vec<&Slice> = s.iter().collect();
        assert_eq!(states(&all, level(&all)), None);
        let quiet = slices(|_| false);
        let all: Vec<&Slice> = quiet.iter().collect();
        assert_eq!(states(&all, level(&all)), None);
    }
}
