//! How much less a sample says when its large values come in clusters.
//!
//! The *inflation* φ is the variance of a count of exceedances, over what it would be
//! if they were independent: n values that cluster say as much as n/φ independent ones.
//!
//! * From consecutive blocks of values: the variance of the blocks' counts (blocks that are
//!   long against a cluster are independent; E. Carlstein, 1986).
//! * From stretches of time of which only number and maximum are known: the blocks
//!   estimator of the extremal index (R. L. Smith and I. Weissman, 1994), in its logarithmic form, gives the mean size m
//!   of a cluster; with geometric sizes the inflation is 2m − 1. The stretches' own clustering is
//!   added from the variance of their occupation.

use crate::total::Total;

/// An inflation, and the degrees of freedom with which it was estimated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inflation {
    /// φ, at least 1.
    pub factor: f64,
    /// Degrees of freedom of the estimate.
    pub dof: f64,
}

/// From `(exceedances, values)` of consecutive blocks; `None` below eight blocks.
pub fn of_blocks(blocks: &[(u64, u64)]) -> Option<Inflation> {
    let k = blocks.len();
    let over: u64 = blocks.iter().map(|b| b.0).total();
    let all: u64 = blocks.iter().map(|b| b.1).total();
    if k < 8 || all == 0 {
        return None;
    }
    let p = over as f64 / all as f64;
    if over == 0 || p >= 1.0 {
        return Some(Inflation { factor: 1.0, dof: (k - 1) as f64 });
    }
    let squares: f64 = blocks.iter().map(|&(x, n)| (x as f64 - p * n as f64).powi(2)).sum();
    let factor = squares * k as f64 / (k - 1) as f64 / (all as f64 * p * (1.0 - p));
    Some(Inflation { factor: factor.max(1.0), dof: (k - 1) as f64 })
}

/// From `(values, maximum)` of consecutive stretches, and how many of all values are over `limit`.
/// Stretches are gathered in `blocks` blocks, which are independent where they are long against what wanders.
/// `None` where the stretches cannot say (too few, or most of them have an exceedance).
pub fn of_maxima(
    stretches: &[(u64, u64)],
    limit: u64,
    over: u64,
    blocks: usize,
) -> Option<Inflation> {
    let filled: Vec<bool> =
        stretches.iter().filter(|s| s.0 > 0).map(|&(_, max)| max > limit).collect();
    let (k, with) = (filled.len(), filled.iter().filter(|&&b| b).count());
    if k < 16 || with == 0 || with as f64 > 0.6 * k as f64 {
        return None;
    }
    let all: u64 = stretches.iter().map(|s| s.0).total();
    let p = over as f64 / all.max(1) as f64;
    let mean = cluster_size(p * all as f64 / k as f64, with as f64 / k as f64);
    let group = k.div_ceil(blocks.max(1)).max(1);
    let blocks: Vec<(u64, u64)> = filled
        .chunks(group)
        .map(|c| (c.iter().filter(|&&b| b).count() as u64, c.len() as u64))
        .collect();
    let between = of_blocks(&blocks)?;
    // What is estimated from few stretches is known less well than the number of blocks says: the
    // variance of small counts, whose excess kurtosis is one over their mean, and the mean of
    // geometric sizes. A variance of 2/dof is that of an estimate with so many degrees.
    let few = 1.0 / with as f64;
    let sizes = few * (1.0 - 1.0 / mean) * (2.0 * mean / (2.0 * mean - 1.0)).powi(2);
    let dof = 2.0 / (2.0 / between.dof + few + sizes);
    Some(Inflation { factor: mean * between.factor + mean - 1.0, dof })
}

/// Mean size of a cluster, from the exceedances in a stretch on average and the share of stretches with one: clusters that
/// begin at random leave exp(−e/m) of the stretches empty for e exceedances a stretch and a size of m. Exceedances that
/// meet in a stretch by chance alone are no cluster, and several clusters in one are several.
fn cluster_size(exceedances: f64, with: f64) -> f64 {
    (exceedances / -(-with).ln_1p()).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix64;

    /// Exceedances in runs of `size`, begun at rate `rate`.
    fn clustered(n: usize, rate: f64, size: usize, seed: u64) -> Vec<bool> {
        let mut rng = SplitMix64::new(seed);
        let mut left = 0;
        (0..n)
            .map(|_| {
                if left == 0 && (rng.below(1 << 30) as f64) < rate * f64::from(1 << 30) {
                    left = size;
                }
                left = left.saturating_sub(1);
                left > 0
            })
            .collect()
    }

    #[test]
    fn clusters_of_five_weigh_five_times() {
        let (mut blocks, mut maxima) = (0.0, 0.0);
        for seed in 0..20 {
            let v = clustered(100_000, 0.001, 6, seed);
            let b: Vec<(u64, u64)> = v
                .chunks(1_600)
                .map(|c| (c.iter().filter(|&&x| x).count() as u64, c.len() as u64))
                .collect();
            blocks += of_blocks(&b).unwrap().factor / 20.0;
            let s: Vec<(u64, u64)> =
                v.chunks(100).map(|c| (c.len() as u64, u64::from(c.iter().any(|&x| x)))).collect();
            let over = v.iter().filter(|&&x| x).count() as u64;
            maxima += of_maxima(&s, 0, over, 48).unwrap().factor / 20.0;
        }
        assert!((4.0..6.5).contains(&blocks), "{blocks}");
        // Sizes are taken for geometric: 2·5 − 1 is the upper end.
        assert!((4.0..11.0).contains(&maxima), "{maxima}");
    }

    /// Half a cluster a stretch on average, so that a stretch has up to fifty exceedances. A cluster that reaches from one
    /// stretch into the next is two: 1,000 values in a stretch make 10 % less of clusters of 100.
    #[test]
    fn a_cluster_is_as_large_as_it_is_where_stretches_have_many_exceedances() {
        for size in [1usize, 5, 20, 100] {
            let (stretches, length) = (1_000usize, 1_000usize);
            // `left` counts down to zero, which is on time.
            let late = clustered(stretches * length, 0.5 / length as f64, size + 1, 11);
            let over = late.iter().filter(|&&l| l).count() as f64;
            let with = late.chunks(length).filter(|c| c.contains(&true)).count() as f64;
            let found = cluster_size(over / stretches as f64, with / stretches as f64);
            let split = size as f64 / (1.0 + (size - 1) as f64 / length as f64);
            assert!((found / split - 1.0).abs() < 0.1, "{size}: {found}, not {split}");
        }
        // The most stretches with an exceedance that are permitted, and only one of many.
        assert!((cluster_size(0.6, 0.6) - 1.0).abs() < 1e-12);
        assert!((cluster_size(9.1629, 0.6) - 10.0).abs() < 1e-3);
        assert!((cluster_size(1.0, 1e-3) - 999.5).abs() < 0.1);
        assert_eq!(of_maxima(&[(10, 1); 40], 3, 0, 48), None, "none has one");
    }

    #[test]
    fn independent_values_weigh_once() {
        let v = clustered(100_000, 0.001, 2, 3);
        let b: Vec<(u64, u64)> = v
            .chunks(1_600)
            .map(|c| (c.iter().filter(|&&x| x).count() as u64, c.len() as u64))
            .collect();
        assert!(of_blocks(&b).unwrap().factor < 1.6);
        assert_eq!(of_blocks(&b[..7]), None);
        assert_eq!(of_maxima(&[(10, 5); 40], 3, 400, 48), None, "every stretch has one");
    }

    /// A file may claim any number of values.
    #[test]
    fn counts_that_nobody_measured_are_no_overflow() {
        let mut stretches = vec![(u64::MAX, 1); 40];
        stretches[7].1 = 9;
        assert!(of_maxima(&stretches, 5, 1, 8).is_none_or(|i| i.factor >= 1.0));
        assert!(of_blocks(&[(u64::MAX, u64::MAX); 10]).is_none_or(|i| i.factor >= 1.0));
    }
}
