//! The ratio of two means of paired values, and a count that varies more than a Poisson count.
//!
//! Fieller's theorem (E. C. Fieller, *Some problems in interval estimation*, 1954) with Student's t over
//! the pairs: the ratios r for which mean(b) − r·mean(a) does not differ from 0.

use super::student::student_upper;

/// 95 % interval of mean(b)/mean(a) over pairs; `None` where mean(a) is not known well enough for any
/// bound, or for fewer than two pairs.
pub fn ratio_interval(a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
    let n = a.len().min(b.len());
    if n < 2 {
        return None;
    }
    let (a, b, n) = (&a[..n], &b[..n], n as f64);
    let mean = |v: &[f64]| v.iter().sum::<f64>() / n;
    let (ma, mb) = (mean(a), mean(b));
    let covariance = |x: &[f64], mx: f64, y: &[f64], my: f64| {
        let sum: f64 = x.iter().zip(y).map(|(x, y)| (x - mx) * (y - my)).sum();
        sum / (n - 1.0) / n
    };
    let t2 = student_upper(0.025, n - 1.0).powi(2);
    let square = ma * ma - t2 * covariance(a, ma, a, ma);
    let linear = ma * mb - t2 * covariance(a, ma, b, mb);
    let constant = mb * mb - t2 * covariance(b, mb, b, mb);
    let root = linear * linear - square * constant;
    if square <= 0.0 || root < 0.0 {
        return None;
    }
    Some(((linear - root.sqrt()) / square, (linear + root.sqrt()) / square))
}

/// Variance of counts over their mean, at least 1, pooled over arms; 1 where it is not known.
pub fn dispersion(arms: &[&[f64]]) -> f64 {
    let (mut sum, mut freedom) = (0.0, 0.0);
    for arm in arms.iter().filter(|a| a.len() > 1) {
        let mean = arm.iter().sum::<f64>() / arm.len() as f64;
        if mean > 0.0 {
            sum += arm.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / mean;
            freedom += arm.len() as f64 - 1.0;
        }
    }
    if freedom > 0.0 { (sum / freedom).max(1.0) } else { 1.0 }
}

/// Upper end of the 95 % interval of a count whose variance is `dispersion` times its mean
/// (quasi-Poisson): `dispersion·χ²(0.975; 2(k + 1))/2` with k = count/dispersion, the quantile by
/// E. B. Wilson and M. M. Hilferty (1931). Of no case it is 3.7 for a dispersion of 1; the one-sided 95 %
/// bound is the rule of three.
pub fn count_upper(count: f64, dispersion: f64) -> f64 {
    let freedom = 2.0 * (count / dispersion + 1.0);
    let h = 2.0 / (9.0 * freedom);
    let quantile = freedom * (1.0 - h + 1.959_964 * h.sqrt()).powi(3);
    dispersion * quantile / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_of_exact_values_is_known_exactly() {
        let (low, high) = ratio_interval(&[18.0, 20.0, 22.0], &[9.0, 10.0, 11.0]).unwrap();
        assert!((low - 0.5).abs() < 1e-9 && (high - 0.5).abs() < 1e-9, "{low} {high}");
        // A mean that may as well be 0 bounds nothing.
        assert_eq!(ratio_interval(&[0.0, 0.0, 9.0], &[1.0, 1.0, 1.0]), None);
        assert_eq!(ratio_interval(&[1.0], &[1.0]), None);
    }

    #[test]
    fn upper_ends_of_counts() {
        // Poisson, 97.5 %: tables of Pearson and Hartley, 3.69 for 0 and 18.39 for 10.
        assert!((count_upper(0.0, 1.0) - 3.69).abs() < 0.03);
        assert!((count_upper(10.0, 1.0) - 18.39).abs() < 0.03);
        assert!((count_upper(0.0, 3.0) - 3.0 * count_upper(0.0, 1.0)).abs() < 1e-9);
        assert_eq!(dispersion(&[&[4.0, 4.0, 4.0], &[0.0, 0.0]]), 1.0);
        assert!(dispersion(&[&[0.0, 0.0, 12.0]]) > 10.0);
    }
}
