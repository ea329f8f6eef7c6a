//! Two sides of several runs each: one value a run, so that what varies from run to run is in the interval.
//!
//! Welch's t on the logarithms of the runs' values (B. L. Welch, 1947; F. E. Satterthwaite's degrees of
//! freedom, 1946): a run is the unit of repetition (T. Kalibera and R. Jones, 2013). A value of a run has
//! the error within it, so both parts of the variance are in the interval.

use latlab_model::compare::UNBOUNDED;
use latlab_stats::student::{student_tail, student_upper};

/// Runs a side from which on the variance between runs is estimated.
pub const RUNS: usize = 3;

/// The difference of two sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Geometric mean of the base's runs.
    pub a: f64,
    /// Geometric mean of the other's runs.
    pub b: f64,
    /// b/a − 1.
    pub change: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
    /// Two-sided p value of no difference.
    pub p: f64,
}

/// Compares positive values of runs, one each. `step` is the resolution of a value as a share of it:
/// whole steps that all runs of a side share are no agreement, so the interval reaches half a step
/// further for each side, and values of a side vary at least as those within one step do (step²/12).
/// Without a step, values that agree say nothing of how runs vary, and the interval has no ends.
/// `None` with fewer than [`RUNS`] runs a side or a value that is not above zero.
pub fn difference(a: &[f64], b: &[f64], step: f64, confidence: f64) -> Option<Difference> {
    let enough = a.len() >= RUNS && b.len() >= RUNS;
    if !enough || a.iter().chain(b).any(|v| !v.is_finite() || *v <= 0.0) {
        return None;
    }
    let of = |v: &[f64]| {
        let n = v.len() as f64;
        let mean = v.iter().map(|x| x.ln()).sum::<f64>() / n;
        let squares: f64 = v.iter().map(|x| (x.ln() - mean).powi(2)).sum();
        (mean, (squares / (n - 1.0)).max(step * step / 12.0) / n, n)
    };
    let ((ma, va, na), (mb, vb, nb)) = (of(a), of(b));
    let (d, variance) = (mb - ma, va + vb);
    // Rounding of equal logarithms is no variance.
    let (half, p) = if variance > 1e-24 {
        let dof = variance * variance / (va * va / (na - 1.0) + vb * vb / (nb - 1.0));
        let error = variance.sqrt();
        let t = (d.abs() - step).max(0.0) / error;
        let half = student_upper((1.0 - confidence) / 2.0, dof) * error;
        (half + step, (2.0 * student_tail(t, dof)).min(1.0))
    } else {
        (f64::INFINITY, 1.0)
    };
    Some(Difference {
        a: ma.exp(),
        b: mb.exp(),
        change: d.exp_m1(),
        low: (d - half).exp_m1(),
        high: (d + half).exp_m1().min(UNBOUNDED),
        p,
    })
}

/// How much the rates of runs vary over what independent values would: the inflation of the variance of
/// a side's count that repetition of runs shows, and its degrees of freedom.
pub fn inflation(sides: [&[(u64, u64)]; 2]) -> (f64, f64) {
    let (mut squares, mut expected, mut dof) = (0.0, 0.0, 0.0);
    for runs in sides {
        let (over, all) = runs.iter().fold((0, 0), |(x, n), r| (x + r.0, n + r.1));
        let p = over as f64 / all.max(1) as f64;
        squares += runs.iter().map(|&(x, n)| (x as f64 - p * n as f64).powi(2)).sum::<f64>();
        let k = runs.len() as f64;
        expected += p * (1.0 - p) * all as f64 * (k - 1.0) / k;
        dof += k - 1.0;
    }
    (if expected > 0.0 { squares / expected } else { 1.0 }, dof)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_the_textbook() {
        // Logarithms 0, 0.1, 0.2 and 0.5, 0.6, 0.7: d = 0.5, s² = 0.01 each, 4 degrees, t = 2.776.
        let of = |x: &[f64]| x.iter().map(|v| v.exp()).collect::<Vec<f64>>();
        let (a, b) = (of(&[0.0, 0.1, 0.2]), of(&[0.5, 0.6, 0.7]));
        let d = difference(&a, &b, 0.0, 0.95).unwrap();
        let half = 2.776 * (0.02f64 / 3.0).sqrt();
        assert!(((d.high + 1.0).ln() - 0.5 - half).abs() < 1e-3, "{d:?}");
        assert!(((d.low + 1.0).ln() - 0.5 + half).abs() < 1e-3, "{d:?}");
        assert!((0.003..0.004).contains(&d.p), "{d:?}");
        assert!((d.a - 0.1f64.exp()).abs() < 1e-12);
    }

    #[test]
    fn runs_that_agree_in_whole_steps_are_no_evidence() {
        // A histogram in whole µs: five, five, five against six, six, six.
        let d = difference(&[5.0; 3], &[6.0; 3], 0.2, 0.95).unwrap();
        assert!(d.p > 0.9 && d.low < 0.0 && d.high > 0.4, "{d:?}");
        let d = difference(&[5.0, 5.0, 5.001], &[6.0; 3], 0.2, 0.95).unwrap();
        assert!(d.p > 0.9, "{d:?}");
        // Without a resolution, equal values have no variance to judge by.
        let d = difference(&[5.0; 3], &[6.0; 3], 0.0, 0.95).unwrap();
        assert_eq!((d.p, d.low, d.high), (1.0, -1.0, UNBOUNDED));
        assert!(difference(&[5.0; 2], &[6.0; 3], 0.0, 0.95).is_none());
        assert!(difference(&[5.0, 5.1, 0.0], &[6.0; 3], 0.0, 0.95).is_none());
    }

    #[test]
    fn runs_that_agree_in_whole_steps_differ_from_runs_many_steps_away() {
        // Five against fifty: a step is at most a fifth of each value.
        let d = difference(&[5.0; 3], &[50.0; 3], 0.2, 0.95).unwrap();
        assert!(d.p < 1e-4, "{d:?}");
        // Half a step each side, and t(4) = 2.776 of √(2 · 0.2²/12/3).
        let half = 0.2 + 2.776 * (2.0 * 0.04 / 36.0f64).sqrt();
        assert!(((d.low + 1.0).ln() - 10.0f64.ln() + half).abs() < 1e-3, "{d:?}");
        assert!(((d.high + 1.0).ln() - 10.0f64.ln() - half).abs() < 1e-3, "{d:?}");
    }

    #[test]
    fn rates_that_differ_from_run_to_run_inflate_the_variance() {
        let equal: &[(u64, u64)] = &[(50, 10_000), (50, 10_000), (50, 10_000)];
        assert_eq!(inflation([equal, equal]).0, 0.0);
        let wide: &[(u64, u64)] = &[(20, 10_000), (50, 10_000), (80, 10_000)];
        let (factor, dof) = inflation([wide, wide]);
        // The variance of the runs' counts is 900, of independent ones 50.
        assert!((17.0..19.0).contains(&factor) && dof == 4.0, "{factor}");
    }
}
