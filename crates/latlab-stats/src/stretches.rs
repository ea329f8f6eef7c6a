//! Values of which the order is known by stretches of time: how much they cluster, and intervals of their
//! quantiles.
//!
//! A run keeps number, maximum and sum of the values of some hundred consecutive stretches. Maxima tell how the
//! tail clusters, means how the body does ([`crate::extremal_index`]). n values with an inflation φ count for n/φ
//! independent ones; the interval of a quantile is from the order statistics of so many, with Student's t in place of
//! the normal distribution for the uncertainty of φ.

use crate::extremal_index::{Inflation, of_maxima};
use crate::histogram::{Histogram, Quantile, Summary};
use crate::quantile::{mad, median, quantile_interval_ranks};
use crate::rank::normal_tail;
use crate::student::student_upper;
use crate::total::Total;

/// A stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stretch {
    /// Values in it.
    pub count: u64,
    /// The largest.
    pub max: u64,
    /// Their sum.
    pub sum: f64,
}

/// Of stretches: at the limit and at levels above it, of which their maxima speak; below the tail, never less
/// than what their means show.
pub fn inflation(stretches: &[Stretch], h: &Histogram, limit: u64) -> Option<Inflation> {
    with_blocks(stretches, h, limit, BLOCKS)
}

/// Blocks of time into which stretches are gathered.
const BLOCKS: usize = 48;
/// Longer blocks, for what wanders more slowly.
const LONG_BLOCKS: usize = 16;

/// The same for an interval: the larger of two estimates, from short and from long blocks of time.
pub fn cautious_inflation(stretches: &[Stretch], h: &Histogram, limit: u64) -> Option<Inflation> {
    let each = [BLOCKS, LONG_BLOCKS].map(|blocks| with_blocks(stretches, h, limit, blocks));
    each.into_iter().flatten().reduce(|a, b| if b.factor > a.factor { b } else { a })
}

fn with_blocks(
    stretches: &[Stretch],
    h: &Histogram,
    limit: u64,
    blocks: usize,
) -> Option<Inflation> {
    let tail = of_tail(stretches, h, limit, blocks);
    let means = of_means(stretches, h, blocks);
    match (tail, means) {
        // Means say nothing of the far tail, maxima little of the body.
        (Some(t), _) if h.quantile(0.9)? <= limit => Some(t),
        (Some(t), Some(m)) => {
            Some(Inflation { factor: t.factor.max(m.factor), dof: t.dof.min(m.dof) })
        }
        (one, other) => one.or(other),
    }
}

/// Shares of the exceedances whose own clustering is looked at.
const HIGHER: [f64; 7] = [1.0, 0.95, 0.85, 0.7, 0.5, 0.35, 0.25];

/// Exceedances of two kinds, single ones and clusters, vary more than their mean cluster says. Those of a higher
/// level bring their own inflation along, and the rest at least that of independent ones:
/// φ ≥ (φ' n' + n − n') / n for n' of the n exceedances. The largest of these.
fn of_tail(stretches: &[Stretch], h: &Histogram, limit: u64, blocks: usize) -> Option<Inflation> {
    let maxima: Vec<(u64, u64)> = stretches.iter().map(|s| (s.count, s.max)).collect();
    let mut sorted: Vec<u64> = maxima.iter().filter(|s| s.0 > 0).map(|s| s.1).collect();
    sorted.sort_unstable();
    // The lowest level that maxima can speak of: below it most stretches have an exceedance.
    let level = limit.max(*sorted.get(sorted.len() / 2)?);
    let (n, there) = (h.count_above(limit), h.count_above(level));
    let of_share = |share: f64| {
        let rank = h.count - (there as f64 * share) as u64;
        let above = if share < 1.0 { h.at_rank(rank.max(1)).max(level) } else { level };
        let m = h.count_above(above);
        let own = of_maxima(&maxima, above, m, blocks)?;
        let factor = (own.factor * m as f64 + (n - m) as f64) / n.max(1) as f64;
        Some(Inflation { factor, dof: own.dof })
    };
    HIGHER
        .iter()
        .filter_map(|&share| of_share(share))
        .reduce(|a, b| if b.factor > a.factor { b } else { a })
}

/// The variance of stretches' means over that of independent values, both from quantiles, so that single
/// late wake-ups do not weigh.
fn of_means(stretches: &[Stretch], h: &Histogram, blocks: usize) -> Option<Inflation> {
    let group = stretches.len().div_ceil(blocks).max(1);
    let means: Vec<(f64, f64)> = stretches
        .chunks(group)
        .filter_map(|c| {
            let n: u64 = c.iter().map(|s| s.count).total();
            let each: Vec<f64> =
                c.iter().filter(|s| s.count > 0).map(|s| s.sum / s.count as f64).collect();
            // The median of means: a few stretches with late wake-ups do not shift it.
            Some((median(&each)?, n as f64))
        })
        .collect();
    let spread = (h.quantile(0.75)? - h.quantile(0.25)?) as f64 / 1.349;
    if means.len() < 8 || spread <= 0.0 {
        return None;
    }
    let size = means.iter().map(|m| m.1).sum::<f64>() / means.len() as f64;
    let values: Vec<f64> = means.iter().map(|m| m.0).collect();
    let between = mad(&values)? * 1.4826;
    // A median of many means varies π/2 times as much as their mean.
    let blur = if group > 2 { std::f64::consts::FRAC_PI_2 } else { 1.0 };
    let factor = (between / spread).powi(2) * size / blur;
    // The median deviation uses 37 % of what the values say (F. R. Hampel, 1974).
    Some(Inflation { factor: factor.max(1.0), dof: 0.37 * (means.len() - 1) as f64 })
}

/// Mean size of clusters where nothing is known of the order of values.
const ASSUMED_CLUSTER: f64 = 4.0;

/// Figures of values with the intervals of what they count for. `inflation` tells how exceedances of a level
/// cluster; without an answer clusters of four are assumed. A quantile that too few values are left for is not
/// quoted.
pub fn summary(h: &Histogram, inflation: &dyn Fn(u64) -> Option<Inflation>) -> Summary {
    let mut summary = h.summary();
    summary.quantiles.retain_mut(|quantile| {
        let assumed = Inflation { factor: 2.0 * ASSUMED_CLUSTER - 1.0, dof: 1e6 };
        let i = inflation(quantile.value as u64).unwrap_or(assumed);
        let Some((low, high)) = ranks(h.count, quantile.q, i) else { return false };
        *quantile =
            Quantile { low: h.at_rank(low) as f64, high: h.at_rank(high) as f64, ..*quantile };
        true
    });
    summary
}

/// Ranks that bound the `q` quantile of `n` values with an inflation, at 95 %.
fn ranks(n: u64, q: f64, i: Inflation) -> Option<(u64, u64)> {
    let factor = i.factor.max(1.0);
    let level = 2.0 * normal_tail(student_upper(0.025, i.dof));
    let (low, high) = quantile_interval_ranks((n as f64 / factor) as u64, q, 1.0 - level)?;
    let scaled = |rank: u64| (rank as f64 - 0.5) * factor;
    Some((scaled(low).ceil() as u64, (scaled(high).floor() as u64 + 1).min(n)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_widen_the_interval_and_independent_values_keep_it() {
        let one = Inflation { factor: 1.0, dof: 1e6 };
        for (n, q) in [(100, 0.5), (10_000, 0.99), (1_000, 0.9)] {
            assert_eq!(ranks(n, q, one), quantile_interval_ranks(n, q, 0.95), "{n} {q}");
        }
        let (low, high) = ranks(10_000, 0.9, Inflation { factor: 9.0, dof: 1e6 }).unwrap();
        // Three times as wide: ±1.96·√(9·900) round 9000.
        assert!((8_815..8_835).contains(&low) && (9_165..9_190).contains(&high), "{low} {high}");
        let few = ranks(10_000, 0.9, Inflation { factor: 9.0, dof: 4.0 }).unwrap();
        assert!(few.0 < low && few.1 > high, "{few:?}");
        assert_eq!(ranks(400, 0.99, Inflation { factor: 2.0, dof: 1e6 }), None);
    }
}
