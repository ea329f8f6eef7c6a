//! Decisions on a proportion by the exact binomial test (C. J. Clopper and E. S. Pearson, *Biometrika* 26,
//! 1934), for counts that clustering divides: n values with an inflation φ count for n/φ.

use super::quantile::normal_quantile;
use super::rank::normal_tail;

/// Counts up to here are added up; above, the distribution is normal with continuity correction.
const EXACT_MAX: f64 = 20_000.0;

/// P(X ≤ k) of X ~ B(n, p); n need not be whole, k is rounded down.
pub fn at_most(n: f64, k: f64, p: f64) -> f64 {
    let k = k.floor();
    if k < 0.0 {
        return 0.0;
    }
    if k >= n || p <= 0.0 {
        return 1.0;
    }
    if p >= 1.0 {
        return 0.0;
    }
    if k > EXACT_MAX {
        let (mean, deviation) = (n * p, (n * p * (1.0 - p)).sqrt());
        return normal_tail((mean - k - 0.5) / deviation);
    }
    let ratio = (p / (1.0 - p)).ln();
    let mut log = n * (-p).ln_1p();
    let mut sum = log.exp();
    let mut i = 0.0;
    while i < k {
        log += ratio + ((n - i) / (i + 1.0)).ln();
        sum += log.exp();
        i += 1.0;
    }
    sum.min(1.0)
}

/// Whether a proportion is below a bound: 1 if it is shown to be, −1 if it is shown not to be, each with a probability of
/// error of at most `error`, 0 if `cases` of `n` do not decide.
pub fn below(n: f64, cases: f64, bound: f64, error: f64) -> i32 {
    if at_most(n, cases.ceil(), bound) <= error {
        1
    } else if 1.0 - at_most(n, cases.floor() - 1.0, bound) <= error {
        -1
    } else {
        0
    }
}

/// How many times as many values decide [`below`] with that power, if the proportion of cases stays as it is;
/// `None` above 10,000 times.
pub fn times_to_decide(n: f64, cases: f64, bound: f64, error: f64, power: f64) -> Option<f64> {
    let z = normal_quantile(power);
    let decides = |times: f64| {
        let (many, expected) = (n * times, cases * times);
        let spread = z * expected.sqrt();
        if cases < n * bound {
            below(many, expected + spread, bound, error) > 0
        } else {
            below(many, (expected - spread).max(0.0), bound, error) < 0
        }
    };
    let mut high = 1.0;
    while !decides(high) {
        high *= 1.25;
        if high > 1e4 {
            return None;
        }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix64;

    #[test]
    fn sums_are_those_of_the_distribution() {
        // B(10, 0.3): tables.
        assert!((at_most(10.0, 3.0, 0.3) - 0.6496).abs() < 1e-4);
        assert!((at_most(2_995.0, 0.0, 0.001) - 0.05).abs() < 2e-4, "the rule of three");
        // The normal end joins the exact one.
        let exact = at_most(40_000.0, 19_990.0, 0.5);
        let z = (20_000.0 - 19_990.5) / 100.0;
        assert!((exact - normal_tail(z)).abs() < 1e-3);
        assert_eq!((at_most(5.0, 5.0, 0.5), at_most(5.0, -1.0, 0.5)), (1.0, 0.0));
    }

    /// At the bound itself neither answer is right: each is given with at most the stated error.
    #[test]
    fn errors_are_as_stated_at_the_bound() {
        let mut rng = SplitMix64::new(7);
        for (n, p) in [(1_000u64, 0.01), (4_000, 0.001), (200, 0.5)] {
            let (mut passed, mut failed) = (0, 0);
            for _ in 0..2_000 {
                let mut uniform = || rng.next_u64() as f64 / u64::MAX as f64;
                let cases = (0..n).filter(|_| uniform() < p).count();
                match below(n as f64, cases as f64, p, 0.05) {
                    1 => passed += 1,
                    -1 => failed += 1,
                    _ => {}
                }
            }
            // 5 % of 2,000 is 100, its deviation 9.7.
            assert!(passed <= 130 && failed <= 130, "{n} {p}: {passed} {failed}");
            assert!(passed + failed > 40, "{n} {p}: it decides as often as the error permits");
        }
    }

    #[test]
    fn the_time_to_decide_is_the_rule_of_three_without_cases() {
        let times = times_to_decide(1_000.0, 0.0, 0.001, 0.05, 0.8).unwrap();
        assert!((2.9..3.8).contains(&times), "{times}");
        assert_eq!(times_to_decide(1_000.0, 1.0, 0.001, 0.05, 0.8), None, "exactly at the bound");
        // What is far above the bound is decided at once.
        assert_eq!(times_to_decide(1_000.0, 20.0, 0.001, 0.05, 0.8), Some(1.0));
    }
}
