//! Change points of a series: where its mean changes, and into which segments it falls.
//!
//! Optimal partitioning with pruning (PELT: R. Killick, P. Fearnhead, I. A. Eckley,
//! "Optimal detection of changepoints with a linear computational cost", JASA 107,
//! 2012) of the squared error round each segment's mean. A change must lower the
//! error by more than the penalty. Outliers are clipped first against a running
//! median of five (J. W. Tukey, *Exploratory Data Analysis*, 1977, ch. 7), so that one
//! wild value makes no segment of its own.

use super::quantile::{mad, median};
use std::ops::Range;

/// Standard deviation of the noise from first differences, which a few steps hardly change:
/// MAD × 1.4826 / √2.
pub fn noise(values: &[f64]) -> f64 {
    let steps: Vec<f64> = values.windows(2).map(|w| w[1] - w[0]).collect();
    mad(&steps).map_or(0.0, |m| m * 1.4826 / std::f64::consts::SQRT_2)
}

/// The same for values of few levels, whose first differences are mostly zero or mostly small: not below what the
/// 90th percentile of the differences says of normal noise (1.645 √2 σ), and not below that of rounding to the
/// smallest difference of two values (1/√12 of it; W. R. Bennett, 1948).
pub fn cautious_noise(values: &[f64]) -> f64 {
    let mut steps: Vec<f64> = values.windows(2).map(|w| (w[1] - w[0]).abs()).collect();
    steps.sort_unstable_by(f64::total_cmp);
    // Rounded down: a single step of a short series is above it.
    let rank = (steps.len() as f64 * 0.9) as usize;
    let large = rank.checked_sub(1).and_then(|r| steps.get(r)).copied().unwrap_or(0.0);
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    // Less is the rounding of a logarithm.
    let gaps = sorted.windows(2).map(|w| w[1] - w[0]).filter(|g| *g > 1e-9);
    let resolution = gaps.reduce(f64::min).unwrap_or(0.0);
    let normal = large / (1.645 * std::f64::consts::SQRT_2);
    noise(values).max(normal).max(resolution / 12f64.sqrt())
}

/// Lag-1 correlation of the noise, from the spread of second to that of first differences, which a few steps
/// hardly change: MAD(xₜ₊₂ − xₜ)² / MAD(xₜ₊₁ − xₜ)² − 1, which is ρ for noise whose correlation falls as ρᵏ.
/// `None` for fewer than six values, or without noise.
pub fn lag_1_correlation(values: &[f64]) -> Option<f64> {
    let spread = |lag: usize| {
        let steps: Vec<f64> = values.windows(lag + 1).map(|w| w[lag] - w[0]).collect();
        mad(&steps).filter(|m| *m > 0.0 && values.len() >= 6)
    };
    Some((spread(2)? / spread(1)?).powi(2) - 1.0)
}

/// Values with outliers replaced: further than `limit` from the median of themselves and two
/// neighbours on each side. The first and last are judged by the five nearest.
pub fn clip_outliers(values: &[f64], limit: f64) -> Vec<f64> {
    let n = values.len();
    let near = |i: usize| {
        let first = i.saturating_sub(2).min(n.saturating_sub(5));
        median(&values[first..n.min(first + 5)]).unwrap_or(values[i])
    };
    (0..n).map(|i| if (values[i] - near(i)).abs() > limit { near(i) } else { values[i] }).collect()
}

/// Segments of constant mean. `penalty` is the squared error that one more segment must save;
/// for noise of standard deviation σ and `n` values, `3 σ² ln n` is usual.
pub fn segments(values: &[f64], penalty: f64) -> Vec<Range<usize>> {
    let n = values.len();
    if n == 0 {
        return Vec::new();
    }
    let mut sum = vec![0.0; n + 1];
    let mut square = vec![0.0; n + 1];
    for (i, v) in values.iter().enumerate() {
        sum[i + 1] = sum[i] + v;
        square[i + 1] = square[i] + v * v;
    }
    let cost = |a: usize, b: usize| {
        let total: f64 = sum[b] - sum[a];
        (square[b] - square[a] - total * total / (b - a) as f64).max(0.0)
    };
    let mut best = vec![-penalty; n + 1];
    let mut from = vec![0; n + 1];
    let mut candidates = vec![0];
    for end in 1..=n {
        let of = |&start: &usize| best[start] + cost(start, end) + penalty;
        let Some(start) = candidates.iter().min_by(|a, b| of(a).total_cmp(&of(b))).copied() else {
            break;
        };
        (best[end], from[end]) = (of(&start), start);
        // Whatever is worse even without the penalty can never be the best start again.
        let limit = best[end];
        let kept: Vec<usize> =
            candidates.iter().copied().filter(|&s| best[s] + cost(s, end) <= limit).collect();
        candidates = kept;
        candidates.push(end);
    }
    let mut out = Vec::new();
    let mut end = n;
    while end > 0 {
        out.push(from[end]..end);
        end = from[end];
    }
    out.reverse();
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix64;

    fn noisy(levels: &[(f64, usize)], sd: f64, seed: u64) -> Vec<f64> {
        let mut rng = SplitMix64::new(seed);
        let mut gauss =
            || (0..12).map(|_| rng.below(1 << 20) as f64 / f64::from(1 << 20)).sum::<f64>() - 6.0;
        levels
            .iter()
            .flat_map(|&(v, n)| std::iter::repeat_n(v, n))
            .map(|v| v + sd * gauss())
            .collect()
    }

    #[test]
    fn steps_are_found_where_they_are() {
        let v = noisy(&[(1.0, 20), (3.0, 10), (2.0, 30)], 0.1, 7);
        assert_eq!(segments(&v, 3.0 * 0.01 * 60f64.ln()), [0..20, 20..30, 30..60]);
        assert!((noise(&v) - 0.1).abs() < 0.04, "{}", noise(&v));
    }

    #[test]
    fn noise_of_few_levels_is_that_of_their_differences() {
        // A step in 23 values, and none in the 90 % of smallest differences.
        let step = [[1.0; 12].as_slice(), &[2.0; 11]].concat();
        assert_eq!((noise(&step), cautious_noise(&step)), (0.0, 1.0 / 12f64.sqrt()));
        // Two levels in turns: half of the differences are zero.
        let pairs: Vec<f64> = (0..40).map(|i| f64::from(i / 2 % 2)).collect();
        let sd = cautious_noise(&pairs);
        assert!((0.4..0.6).contains(&sd), "{sd}");
        let normal = noisy(&[(1.0, 400)], 0.1, 3);
        let ratio = cautious_noise(&normal) / noise(&normal);
        assert!((1.0..1.2).contains(&ratio), "{ratio}");
        assert_eq!((cautious_noise(&[]), cautious_noise(&[4.0])), (0.0, 0.0));
    }

    #[test]
    fn noise_alone_is_one_segment() {
        let one = (0..200)
            .filter(|&seed| {
                let v = noisy(&[(5.0, 80)], 0.3, seed);
                segments(&v, 3.0 * 0.09 * 80f64.ln()).len() == 1
            })
            .count();
        assert!(one >= 195, "{one} of 200");
    }

    #[test]
    fn one_wild_value_is_no_segment() {
        let mut v = noisy(&[(1.0, 20), (2.0, 20)], 0.02, 3);
        v[7] = 9.0;
        v[39] = 0.0;
        let v = clip_outliers(&v, 0.2);
        assert_eq!(segments(&v, 3.0 * 0.0004 * 40f64.ln()), [0..20, 20..40]);
    }

    #[test]
    fn nothing_and_one_value() {
        assert!(segments(&[], 1.0).is_empty());
        assert_eq!(segments(&[4.0], 1.0).first(), Some(&(0..1)));
        assert_eq!(clip_outliers(&[4.0], 1.0), [4.0]);
    }
}
