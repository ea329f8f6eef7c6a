//! Two samples compared by ranks: the Mann–Whitney test and Cliff's delta.
//!
//! H. B. Mann and D. R. Whitney (1947); N. Cliff, *Dominance statistics* (1993).
//! The p value is the normal approximation with correction for ties and
//! continuity (E. L. Lehmann, *Nonparametrics*, §1.4), adequate from about
//! eight values a side; for fewer it is conservative.

use super::quantile::normal_quantile;

/// Result of comparing sample `a` with sample `b`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankTest {
    /// P(a > b) − P(a < b), −1 to 1: Cliff's delta.
    pub delta: f64,
    /// 95% interval of delta (normal, clipped to ±1).
    pub delta_interval: (f64, f64),
    /// Two-sided p value of "neither tends to be larger".
    pub p: f64,
}

/// Compares two samples; `None` when either is empty.
pub fn rank_test(a: &[f64], b: &[f64]) -> Option<RankTest> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let (n, m) = (a.len() as f64, b.len() as f64);
    let mut all: Vec<(f64, bool)> =
        a.iter().map(|&v| (v, true)).chain(b.iter().map(|&v| (v, false))).collect();
    all.sort_unstable_by(|x, y| x.0.total_cmp(&y.0));
    let (mut rank_sum, mut ties, mut i) = (0.0, 0.0, 0);
    while i < all.len() {
        let end = i + all[i..].iter().take_while(|v| v.0 == all[i].0).count();
        let size = (end - i) as f64;
        let rank = (i + 1 + end) as f64 / 2.0;
        rank_sum += rank * all[i..end].iter().filter(|v| v.1).count() as f64;
        ties += size * (size * size - 1.0);
        i = end;
    }
    let u = rank_sum - n * (n + 1.0) / 2.0;
    let delta = 2.0 * u / (n * m) - 1.0;
    let total = n + m;
    let variance = n * m / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)).max(1.0));
    let p = if variance > 0.0 {
        let z = ((u - n * m / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
        (2.0 * normal_tail(z)).min(1.0)
    } else {
        1.0
    };
    // Variance of delta under no assumption of equality, bounded by its largest possible value.
    let spread = ((1.0 - delta * delta).max(1.0 / (n * m)) / n.min(m)).sqrt();
    let half = normal_quantile(0.975) * spread;
    Some(RankTest { delta, delta_interval: ((delta - half).max(-1.0), (delta + half).min(1.0)), p })
}

/// The shift between two samples, and its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// Median of all differences a − b (J. L. Hodges and E. L. Lehmann, 1963).
    pub estimate: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Shift of `a` against `b` with the interval of the rank test (M. Hollander and D. A. Wolfe, *Nonparametric
/// Statistical Methods*, §4.3): order statistics of the differences, by the exact distribution of
/// Mann and Whitney's U up to 4,000 differences, else its normal approximation. `None` where the samples are
/// too small for the confidence.
pub fn shift(a: &[f64], b: &[f64], confidence: f64) -> Option<Shift> {
    let (n, m) = (a.len(), b.len());
    let alpha = (1.0 - confidence) / 2.0;
    let k = if n * m <= 4_000 {
        let mut below = 0.0;
        let shares = mann_whitney(n, m);
        shares
            .iter()
            .take_while(|share| {
                below += **share;
                below <= alpha + 1e-9
            })
            .count()
    } else {
        let (nf, mf) = (n as f64, m as f64);
        let sd = (nf * mf * (nf + mf + 1.0) / 12.0).sqrt();
        (nf * mf / 2.0 - normal_quantile(1.0 - alpha) * sd).max(0.0) as usize
    };
    let mut differences: Vec<f64> = a.iter().flat_map(|x| b.iter().map(move |y| x - y)).collect();
    if k == 0 || differences.is_empty() {
        return None;
    }
    differences.sort_unstable_by(f64::total_cmp);
    Some(Shift {
        estimate: super::quantile::median(&differences)?,
        low: differences[k - 1],
        high: differences[differences.len() - k],
    })
}

/// P(U = u) for u from 0 to n·m where both samples are of one distribution: the coefficients of
/// ∏ (1 − x^(m+i)) / (1 − x^i), i from 1 to n.
fn mann_whitney(n: usize, m: usize) -> Vec<f64> {
    let mut share = vec![0.0; n * m + 1];
    share[0] = 1.0;
    for i in 1..=n {
        for u in (m + i..=n * m).rev() {
            share[u] -= share[u - m - i];
        }
        for u in i..=n * m {
            share[u] += share[u - i];
        }
        // Divided at once by the growth of the number of orders, so that nothing overflows.
        let scale = i as f64 / (m + i) as f64;
        share.iter_mut().for_each(|s| *s *= scale);
    }
    share
}

/// P(Z > z) of the standard normal distribution, relative error below 1e-7
/// (W. J. Cody's bound on the Chebyshev fit of erfc in *Numerical Recipes*, §6.2).
pub fn normal_tail(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.5 * x);
    const C: [f64; 10] = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let series = C.iter().rev().fold(0.0, |sum, c| sum * t + c);
    let tail = 0.5 * t * (-x * x + series).exp();
    if z >= 0.0 { tail } else { 1.0 - tail }
}

/// Holm's step-down adjustment of p values for all of them being tried
/// (S. Holm, 1979): controls the chance of even one false claim. In the order given.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let m = p_values.len();
    let mut order: Vec<usize> = (0..m).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![1.0; m];
    let mut largest: f64 = 0.0;
    for (rank, &i) in order.iter().enumerate() {
        largest = largest.max((p_values[i] * (m - rank) as f64).min(1.0));
        adjusted[i] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_separation_is_delta_one() {
        let a: Vec<f64> = (100..120).map(f64::from).collect();
        let b: Vec<f64> = (0..20).map(f64::from).collect();
        let t = rank_test(&a, &b).unwrap();
        assert_eq!(t.delta, 1.0);
        assert!(t.p < 1e-6);
        assert_eq!(rank_test(&b, &a).unwrap().delta, -1.0);
    }

    #[test]
    fn equal_samples_differ_in_nothing() {
        let t = rank_test(&[1.0; 10], &[1.0; 30]).unwrap();
        assert_eq!((t.delta, t.p), (0.0, 1.0));
        assert!(rank_test(&[], &[1.0]).is_none());
    }

    #[test]
    fn p_matches_a_published_example() {
        // Lehmann's convention, checked against R: wilcox.test(1:10, 5:14, correct=TRUE, exact=FALSE)
        let a: Vec<f64> = (1..=10).map(f64::from).collect();
        let b: Vec<f64> = (5..=14).map(f64::from).collect();
        let t = rank_test(&a, &b).unwrap();
        assert!((t.delta + 0.64).abs() < 1e-12);
        assert!((t.p - 0.0168).abs() < 5e-4, "{}", t.p);
    }

    #[test]
    fn shifts_have_the_interval_of_the_rank_test() {
        // Exact distribution: 20 orders of three and three, U = 0 in one of them.
        assert!((mann_whitney(3, 3)[0] - 0.05).abs() < 1e-12);
        assert!((mann_whitney(3, 3).iter().sum::<f64>() - 1.0).abs() < 1e-12);
        // wilcox.test(1:4, 2.5 + 1:4 …) of R keeps D(1) and D(16) at 95 %: P(U = 0) = 1/70.
        let a = [10.0, 11.0, 12.0, 13.0];
        let b = [1.0, 2.1, 3.2, 4.3];
        let s = shift(&a, &b, 0.95).unwrap();
        assert!((s.low - 5.7).abs() < 1e-9 && (s.high - 12.0).abs() < 1e-9, "{s:?}");
        assert!((8.8..8.9).contains(&s.estimate), "{s:?}");
        assert_eq!(shift(&a[..3], &b[..3], 0.95), None, "no order is rare enough");
        assert!(shift(&a[..3], &b[..3], 0.90).is_some());
    }

    #[test]
    fn tails_and_adjustment() {
        assert!((normal_tail(1.959_964) - 0.025).abs() < 1e-7);
        assert!((normal_tail(-1.0) - 0.841_344_7).abs() < 1e-6);
        assert_eq!(holm(&[0.01, 0.04, 0.03]), vec![0.03, 0.06, 0.06]);
    }
}
