//! Tails of discrete distributions, for counts of few cases.
//!
//! N. L. Johnson, A. W. Kemp and S. Kotz, *Univariate Discrete Distributions*: §6.2.2 for the
//! beta-binomial (negative hypergeometric), §6.2 for the hypergeometric, §3.4 for the binomial
//! distribution. Each term follows from the one before by the ratio of their probabilities.

/// P(X ≥ k) where X ~ Binomial(n, p).
pub fn binomial_tail(n: usize, k: usize, p: f64) -> f64 {
    if k == 0 || p >= 1.0 {
        return if k <= n { 1.0 } else { 0.0 };
    }
    if k > n || p <= 0.0 {
        return 0.0;
    }
    let mut log_pmf = n as f64 * (1.0 - p).ln();
    let mut tail = 0.0;
    for i in 0..=n {
        if i >= k {
            tail += log_pmf.exp();
        }
        log_pmf += ((n - i) as f64 / (i + 1) as f64 * p / (1.0 - p)).ln();
    }
    tail.clamp(0.0, 1.0)
}

/// P(X ≥ k) where X ~ Binomial(n, p) and p ~ Beta(a, b): the beta-binomial distribution.
pub fn beta_binomial_tail(n: usize, k: usize, a: f64, b: f64) -> f64 {
    let n_f = n as f64;
    let mut log_pmf: f64 = (0..n).map(|j| ((b + j as f64) / (a + b + j as f64)).ln()).sum();
    let mut tail = 0.0;
    for i in 0..=n {
        if i >= k {
            tail += log_pmf.exp();
        }
        let i = i as f64;
        log_pmf += ((n_f - i) / (i + 1.0) * (i + a) / (n_f - i - 1.0 + b)).ln();
    }
    tail.clamp(0.0, 1.0)
}

/// P(X ≥ k) where `drawn` of `all` are drawn, of which `marked` are marked: the one-sided p value of
/// Fisher's exact test (R. A. Fisher, *The Design of Experiments*, 1935).
pub fn hypergeometric_tail(all: usize, marked: usize, drawn: usize, k: usize) -> f64 {
    let ln_choose = |n: usize, k: usize| -> f64 {
        (0..k).map(|i| ((n - i) as f64).ln() - ((i + 1) as f64).ln()).sum()
    };
    let first = k.max((marked + drawn).saturating_sub(all));
    let most = marked.min(drawn);
    if first > most {
        return 0.0;
    }
    let mut log_pmf =
        ln_choose(marked, first) + ln_choose(all - marked, drawn - first) - ln_choose(all, drawn);
    let mut tail = 0.0;
    for x in first..=most {
        tail += log_pmf.exp();
        let more = (marked - x) as f64 * (drawn - x) as f64;
        let fewer = (x + 1) as f64 * (all + x + 1 - marked - drawn) as f64;
        log_pmf += (more / fewer).ln();
    }
    tail.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binomial_tails() {
        assert!((binomial_tail(10, 8, 0.5) - 0.054_687_5).abs() < 1e-12);
        assert_eq!(binomial_tail(10, 0, 0.1), 1.0);
        assert_eq!(binomial_tail(3, 4, 0.1), 0.0);
        assert_eq!((binomial_tail(3, 1, 0.0), binomial_tail(3, 3, 1.0)), (0.0, 1.0));
        assert!((binomial_tail(5, 5, 0.2) - 0.000_32).abs() < 1e-12);
    }

    #[test]
    fn beta_binomial_tails() {
        // A share that is known well: Binomial(10, ½).
        assert!((beta_binomial_tail(10, 8, 5e6, 5e6) - 0.054_687_5).abs() < 1e-5);
        // One of which nothing is known: every count is as likely.
        assert!((beta_binomial_tail(9, 8, 1.0, 1.0) - 0.2).abs() < 1e-12);
        assert_eq!(beta_binomial_tail(5, 0, 1.0, 3.0), 1.0);
        assert!(beta_binomial_tail(3000, 3000, 1.0, 600.0) < 1e-100);
    }

    #[test]
    fn fishers_tea_taster() {
        assert!((hypergeometric_tail(8, 4, 4, 3) - 17.0 / 70.0).abs() < 1e-12);
        assert!((hypergeometric_tail(8, 4, 4, 0) - 1.0).abs() < 1e-12);
        assert!((hypergeometric_tail(5, 4, 3, 0) - 1.0).abs() < 1e-12);
        assert_eq!(hypergeometric_tail(8, 4, 4, 5), 0.0);
    }
}
