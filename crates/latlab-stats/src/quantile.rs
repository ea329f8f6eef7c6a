//! Distribution-free confidence intervals of quantiles from order statistics.
//!
//! The number of samples at or below the true `q` quantile is binomial
//! `B(n, q)`; ranks `l` and `u` with `P(l ≤ B < u) ≥ c` therefore bound it
//! whatever the distribution (W. J. Conover, *Practical Nonparametric
//! Statistics*, 3rd ed., §3.2; J.-Y. Le Boudec, *Performance Evaluation of
//! Computer and Communication Systems*, §2.2.2). Samples must be independent:
//! for spikes that cluster use a block bootstrap instead.

/// 1-based ranks `(low, high)` of the order statistics that bound the `q`
/// quantile of `n` samples with confidence `confidence`; `None` when `n`
/// is too small for both ends to exist.
///
/// Small samples use the exact binomial distribution, large ones its normal
/// approximation with continuity correction.
pub fn quantile_interval_ranks(n: u64, q: f64, confidence: f64) -> Option<(u64, u64)> {
    if n == 0 || !(0.0..=1.0).contains(&q) {
        return None;
    }
    let alpha = (1.0 - confidence) / 2.0;
    let (low, high) = if n <= 2_000 {
        exact_ranks(n, q, alpha)
    } else {
        let mean = n as f64 * q;
        let half = normal_quantile(1.0 - alpha) * (mean * (1.0 - q)).sqrt();
        // The binomial with few expected exceedances is skewed: fall back to it there.
        if mean.min(n as f64 - mean) < 20.0 {
            exact_ranks(n, q, alpha)
        } else {
            ((mean - half).floor() as i64, ((mean + half).ceil() as i64).saturating_add(1))
        }
    };
    (low >= 1 && high <= n as i64).then_some((low as u64, high as u64))
}

/// Largest `low` with P(B < low) ≤ alpha and smallest `high` with P(B ≥ high) ≤ alpha, B ~ Bin(n, q).
/// `low` is 0 and `high` is n + 1 where no such rank exists.
fn exact_ranks(n: u64, q: f64, alpha: f64) -> (i64, i64) {
    if q <= 0.0 || q >= 1.0 {
        return (0, n as i64 + 1);
    }
    // Walk the distribution from its thin end, in logarithms so that nothing underflows.
    let flip = q > 0.5;
    let p = if flip { 1.0 - q } else { q };
    let ratio = p / (1.0 - p);
    let mut log_pmf = n as f64 * (1.0 - p).ln();
    let (mut cdf, mut k) = (0.0f64, 0u64);
    // `below`: largest r with P(X < r) ≤ alpha; `above`: smallest r with P(X ≥ r) ≤ alpha.
    let (mut below, mut above) = (0u64, None);
    while k <= n {
        if cdf <= alpha {
            below = k;
        }
        if 1.0 - cdf <= alpha {
            above = Some(k);
            break;
        }
        cdf += log_pmf.exp();
        log_pmf += (ratio * (n - k) as f64 / (k + 1) as f64).ln();
        k += 1;
    }
    let above = above.unwrap_or(n + 1);
    if flip {
        // X counts samples above the quantile: B = n - X.
        (n as i64 - above as i64 + 1, n as i64 - below as i64 + 1)
    } else {
        (below as i64, above as i64)
    }
}

/// Quantile of the standard normal distribution, absolute error below 1.2e-9
/// (P. J. Acklam's rational approximation, 2003).
pub fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
    ];
    let tail = |q: f64| {
        (((((C[0] * q + C[1]) * q + C[2]) * q + C[3]) * q + C[4]) * q + C[5])
            / ((((D[0] * q + D[1]) * q + D[2]) * q + D[3]) * q + 1.0)
    };
    match p {
        p if p <= 0.0 => f64::NEG_INFINITY,
        p if p >= 1.0 => f64::INFINITY,
        p if p < 0.024_25 => tail((-2.0 * p.ln()).sqrt()),
        p if p > 1.0 - 0.024_25 => -tail((-2.0 * (1.0 - p).ln()).sqrt()),
        p => {
            let q = p - 0.5;
            let r = q * q;
            (((((A[0] * r + A[1]) * r + A[2]) * r + A[3]) * r + A[4]) * r + A[5]) * q
                / (((((B[0] * r + B[1]) * r + B[2]) * r + B[3]) * r + B[4]) * r + 1.0)
        }
    }
}

/// Median of values in any order; `None` when empty. The mean of the middle two for an even count.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut v: Vec<f64> = values.to_vec();
    v.sort_unstable_by(f64::total_cmp);
    let n = v.len();
    match n {
        0 => None,
        _ if n % 2 == 1 => Some(v[n / 2]),
        _ => Some((v[n / 2 - 1] + v[n / 2]) / 2.0),
    }
}

/// Median absolute deviation from the median, not scaled (F. R. Hampel, 1974); `None` when empty.
pub fn mad(values: &[f64]) -> Option<f64> {
    let m = median(values)?;
    median(&values.iter().map(|v| (v - m).abs()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_ranks_match_the_published_table() {
        // Le Boudec, table A.1: 95% intervals of the median.
        assert_eq!(quantile_interval_ranks(5, 0.5, 0.95), None, "6 samples are the least");
        assert_eq!(quantile_interval_ranks(6, 0.5, 0.95), Some((1, 6)));
        assert_eq!(quantile_interval_ranks(10, 0.5, 0.95), Some((2, 9)));
        assert_eq!(quantile_interval_ranks(30, 0.5, 0.95), Some((10, 21)));
        assert_eq!(quantile_interval_ranks(70, 0.5, 0.95), Some((27, 44)));
    }

    #[test]
    fn tails_need_samples() {
        // 0.99^n ≤ 0.025 first at n = 368: below that no order statistic bounds p99 from above.
        assert_eq!(quantile_interval_ranks(367, 0.99, 0.95), None);
        assert!(quantile_interval_ranks(368, 0.99, 0.95).is_some());
    }

    #[test]
    fn a_confidence_that_no_rank_has_gives_no_interval() {
        assert_eq!(quantile_interval_ranks(10_000, 0.5, 1.0), None);
        assert_eq!(quantile_interval_ranks(1_000, 0.5, 1.0), None);
    }

    #[test]
    fn approximation_joins_the_exact_ranks() {
        let exact = exact_ranks(2_000, 0.9, 0.025);
        let (low, high) = quantile_interval_ranks(2_001, 0.9, 0.95).unwrap();
        assert!((exact.0 - low as i64).abs() <= 2 && (exact.1 - high as i64).abs() <= 2);
    }

    #[test]
    fn intervals_cover_as_stated() {
        // A deterministic generator: coverage of the true p90 of a uniform distribution.
        let mut state = 0x9E37_79B9_7F4A_7C15u64;
        let mut uniform = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let (low, high) = quantile_interval_ranks(200, 0.9, 0.95).unwrap();
        let covered = (0..2_000)
            .filter(|_| {
                let mut v: Vec<f64> = (0..200).map(|_| uniform()).collect();
                v.sort_unstable_by(f64::total_cmp);
                v[low as usize - 1] <= 0.9 && 0.9 <= v[high as usize - 1]
            })
            .count();
        assert!((1_880..=1_990).contains(&covered), "{covered} of 2000 at a stated 95%");
    }

    #[test]
    fn middle_values() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(mad(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0]), Some(1.0));
    }
}
