//! Whether values rise or fall over time.
//!
//! Mann and Kendall's test (H. B. Mann, 1945; M. G. Kendall, 1975), with its
//! normal approximation and correction for ties, and the slope of P. K. Sen
//! (1968): the median of all pairwise slopes. Neither cares about the
//! distribution or about single outliers.

use super::quantile::median;
use super::rank::normal_tail;

/// Fewest points for the normal approximation.
const LEAST: usize = 10;

/// A trend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Change from the first to the last point along Sen's slope.
    pub change: f64,
    /// Two-sided p-value of no trend.
    pub p: f64,
}

/// The trend of `(time, value)` in order of time; `None` below ten points.
pub fn trend(points: &[(f64, f64)]) -> Option<Trend> {
    let n = points.len();
    if n < LEAST {
        return None;
    }
    let mut score = 0i64;
    let mut slopes = Vec::with_capacity(n * (n - 1) / 2);
    for (i, &(t0, v0)) in points.iter().enumerate() {
        for &(t1, v1) in &points[i + 1..] {
            score += i64::from(v1 > v0) - i64::from(v1 < v0);
            if t1 > t0 {
                slopes.push((v1 - v0) / (t1 - t0));
            }
        }
    }
    let variance = variance(points);
    // One step towards zero: the score is a whole number of even or odd kind.
    let z = (score.abs() - 1).max(0) as f64 / variance.sqrt().max(f64::MIN_POSITIVE);
    let span = points[n - 1].0 - points[0].0;
    Some(Trend { change: median(&slopes)? * span, p: (2.0 * normal_tail(z)).min(1.0) })
}

fn variance(points: &[(f64, f64)]) -> f64 {
    let term = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let mut values: Vec<f64> = points.iter().map(|p| p.1).collect();
    values.sort_unstable_by(f64::total_cmp);
    let ties: f64 = values.chunk_by(|a, b| a == b).map(|group| term(group.len() as f64)).sum();
    (term(points.len() as f64) - ties) / 18.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_trend() {
        let points: Vec<_> = (0..20).map(|i| (f64::from(i), 2.0 * f64::from(i))).collect();
        let t = trend(&points).unwrap();
        assert!((t.change - 38.0).abs() < 1e-9 && t.p < 1e-6, "{t:?}");
    }

    #[test]
    fn one_straggler_is_none() {
        let mut points: Vec<_> = (0..20).map(|i| (f64::from(i), f64::from(i * 7 % 5))).collect();
        points[19].1 = 1e6;
        assert!(trend(&points).unwrap().p > 0.05);
        assert_eq!(trend(&points[..9]), None);
        let flat: Vec<_> = (0..20).map(|i| (f64::from(i), 1.0)).collect();
        assert_eq!(trend(&flat).unwrap().p, 1.0);
    }
}
