//! Proportions of which no case was observed.

/// Upper 95 % bound of a proportion of which `n` trials show no case: `1 − 0.05^(1/n)`, about `3/n`
/// (J. A. Hanley and A. Lippman-Hand, *If nothing goes wrong, is everything all right?*, 1983);
/// `None` without trials.
pub fn zero_cases_bound(n: u64) -> Option<f64> {
    (n > 0).then(|| 1.0 - 0.05f64.powf(1.0 / n as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_case_in_a_million_bounds_the_rate_by_three_in_a_million() {
        let bound = zero_cases_bound(1_000_000).unwrap();
        assert!((bound * 1e6 - 2.9957).abs() < 1e-3);
        assert_eq!(zero_cases_bound(0), None);
    }
}
