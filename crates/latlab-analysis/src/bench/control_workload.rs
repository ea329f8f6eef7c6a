//! Batches during which something else slowed the machine down.
//!
//! A processor that shares its core with somebody else's thread, a clock that throttles, a neighbour
//! that empties the caches: each makes everything slower by a third for a tenth of a second or a
//! minute, and no counter of a guest shows it. So the same short work, the *sentinel*, is timed on
//! either side of every batch. Its level when nothing disturbs it is the first percentile of all its
//! readings in the run; a batch with a reading well above the level is *disturbed*. A figure comes
//! from the undisturbed batches, as long as there are enough of them, and says how many were not.
//!
//! The sentinel is another measurement than the batch: choosing batches by it prefers no value of
//! theirs but through the state that both share (stratification by a covariate; W. G. Cochran,
//! *Sampling Techniques*, 3rd ed., ch. 5).

use latlab_model::bench::trial::Slice;

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
pub fn quiet_ns(level: f64) -> f64 {
    level * TOLERANCE
}

/// The sentinel's undisturbed level, ns; `None` with too few readings to know one.
pub fn level(slices: &[&Slice]) -> Option<f64> {
    let mut all: Vec<f64> = slices.iter().flat_map(|s| s.sentinel_ns.iter().copied()).collect();
    all.retain(|v| *v > 0.0);
    if all.len() < READINGS_MIN {
        return None;
    }
    let at = (all.len() as f64 * LEVEL) as usize;
    let (_, level, _) = all.select_nth_unstable_by(at, f64::total_cmp);
    Some(*level)
}

/// Which batches of one probe count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    /// For each slice, which of its batches.
    pub batches: Vec<Vec<bool>>,
    /// Batches that were disturbed.
    pub disturbed: u64,
    /// Whether the disturbed ones are left out; false where too few others are left.
    pub left_out: bool,
}

/// Judges every batch of a probe by the level.
pub fn choose(slices: &[Slice], level: Option<f64>) -> Choice {
    let quiet = |s: &Slice, i: usize| match (level, s.sentinel_ns.get(i)) {
        (Some(level), Some(reading)) => *reading <= quiet_ns(level),
        _ => true,
    };
    let batches: Vec<Vec<bool>> =
        slices.iter().map(|s| (0..s.values.len()).map(|i| quiet(s, i)).collect()).collect();
    let disturbed = batches.iter().flatten().filter(|q| !**q).count() as u64;
    let with = |b: &&Vec<bool>| !b.is_empty();
    let undisturbed = batches.iter().filter(|b| b.contains(&true)).count();
    let enough = undisturbed >= PROCESSES_MIN.min(batches.iter().filter(with).count());
    if enough || disturbed == 0 {
        return Choice { batches, disturbed, left_out: disturbed > 0 };
    }
    let all = batches.iter().map(|b| vec![true; b.len()]).collect();
    Choice { batches: all, disturbed, left_out: false }
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
                    sentinel_ns: (0..11).map(|k| 170.0 * factor * jitter(k + 5)).collect(),
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
            assert!(choice.left_out);
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
        assert!(choice.left_out && choice.disturbed == 28 * 11);
        assert_eq!(choice.of(&s, |s| &s.values).len(), 2);
        // One alone may have been an accident of its pages; all count then, which is said.
        let choice = choose(&s[1..], level(&s.iter().collect::<Vec<_>>()));
        assert!(!choice.left_out && choice.disturbed == 28 * 11);
        assert_eq!(choice.of(&s[1..], |s| &s.values).len(), 29);
    }

    #[test]
    fn runs_without_a_sentinel_are_read_as_they_are() {
        let mut s = slices(|_| false);
        s.iter_mut().for_each(|s| s.sentinel_ns.clear());
        assert_eq!(level(&s.iter().collect::<Vec<_>>()), None);
        assert_eq!(choose(&s, None).disturbed, 0);
    }
}
