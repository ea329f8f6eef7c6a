//! Two rates compared: the test, its power, and how much longer to measure.
//!
//! The score test of two proportions (J. L. Fleiss, *Statistical Methods for Rates and
//! Proportions*, §2.3 and ch. 4), its variance multiplied by the inflation φ of counts that cluster
//! (see [`crate::extremal_index`]).

use super::rank::normal_tail;
use super::student::{student_tail, student_upper};

/// What is compared: how often something happened, out of how many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Events of a, number of a.
    pub a: (u64, u64),
    /// Events of b, number of b.
    pub b: (u64, u64),
    /// Inflation of the variance.
    pub inflation: f64,
    /// Degrees of freedom of the inflation.
    pub dof: f64,
}

impl Rates {
    fn pooled(&self) -> f64 {
        (self.a.0 + self.b.0) as f64 / (self.a.1 + self.b.1).max(1) as f64
    }

    /// Events of both, as many as independent ones would be.
    pub fn effective(&self) -> f64 {
        (self.a.0 + self.b.0) as f64 / self.inflation.max(1.0)
    }

    /// Two-sided p value of equal rates.
    pub fn p_value(&self) -> f64 {
        let p = self.pooled();
        let (na, nb) = (self.a.1.max(1) as f64, self.b.1.max(1) as f64);
        let variance = self.inflation.max(1.0) * p * (1.0 - p) * (1.0 / na + 1.0 / nb);
        if variance <= 0.0 {
            return 1.0;
        }
        let difference = (self.b.0 as f64 / nb - self.a.0 as f64 / na).abs();
        // Half an event, as it counts, towards equality.
        let step = self.inflation.max(1.0) * 0.25 * (1.0 / na + 1.0 / nb);
        (2.0 * student_tail((difference - step).max(0.0) / variance.sqrt(), self.dof)).min(1.0)
    }

    /// Interval of the ratio of rates b/a at `confidence` (logarithms, half an event added to both).
    pub fn ratio_interval(&self, confidence: f64) -> (f64, f64, f64) {
        let of = |(x, n): (u64, u64)| ((x as f64 + 0.5) / (n as f64 + 1.0), x as f64 + 0.5);
        let ((pa, xa), (pb, xb)) = (of(self.a), of(self.b));
        let spread = (self.inflation.max(1.0) * (1.0 / xa + 1.0 / xb)).sqrt();
        let half = student_upper((1.0 - confidence) / 2.0, self.dof) * spread;
        let ratio = pb / pa;
        (ratio, ratio * (-half).exp(), (ratio * half.exp()).min(1e12))
    }
}

/// An experiment as planned: sizes, the rate in a, clustering, level of the test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Number of values of a.
    pub a: f64,
    /// Number of values of b.
    pub b: f64,
    /// Rate in a.
    pub rate: f64,
    /// Inflation of the variance.
    pub inflation: f64,
    /// Degrees of freedom of the inflation.
    pub dof: f64,
    /// Level of the two-sided test.
    pub level: f64,
}

/// The chance that the test sees it when b's rate is `ratio` times that of a.
pub fn power(plan: &Plan, ratio: f64) -> f64 {
    let (pa, pb) = (plan.rate, (plan.rate * ratio).min(1.0));
    let pooled = (plan.a * pa + plan.b * pb) / (plan.a + plan.b);
    let phi = plan.inflation.max(1.0);
    let under_none = (phi * pooled * (1.0 - pooled) * (1.0 / plan.a + 1.0 / plan.b)).sqrt();
    let under_this = (phi * (pa * (1.0 - pa) / plan.a + pb * (1.0 - pb) / plan.b)).sqrt();
    if under_this <= 0.0 {
        return 0.0;
    }
    let critical = student_upper(plan.level / 2.0, plan.dof) * under_none
        + phi * 0.25 * (1.0 / plan.a + 1.0 / plan.b);
    1.0 - normal_tail(((pb - pa).abs() - critical) / under_this)
}

/// By what factor both have to be longer for a power of `wanted`; 1 when they are long enough,
/// `None` when no factor up to a million does.
pub fn longer(plan: &Plan, ratio: f64, wanted: f64) -> Option<f64> {
    let of = |factor: f64| power(&Plan { a: plan.a * factor, b: plan.b * factor, ..*plan }, ratio);
    if of(1.0) >= wanted {
        return Some(1.0);
    }
    let (mut low, mut high) = (1.0, 1e6);
    if of(high) < wanted {
        return None;
    }
    while high / low > 1.01 {
        let middle = f64::sqrt(low * high);
        if of(middle) >= wanted { high = middle } else { low = middle }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_is_that_of_the_textbook() {
        // Fleiss, table A.3 (without correction): 0.25 against 0.40 at 5 % needs about 152 a group for 80 %.
        let plan = Plan { a: 160.0, b: 160.0, rate: 0.25, inflation: 1.0, dof: 1e6, level: 0.05 };
        let p = power(&plan, 1.6);
        assert!((0.78..0.84).contains(&p), "{p}");
        assert!(longer(&plan, 1.6, 0.95).is_some_and(|f| (1.5..1.8).contains(&f)));
        assert_eq!(longer(&plan, 1.0, 0.8), None, "no difference is never seen");
    }

    #[test]
    fn clusters_weaken_the_test() {
        let rates = Rates { a: (100, 10_000), b: (140, 10_000), inflation: 1.0, dof: 1e6 };
        assert!(rates.p_value() < 0.02);
        let clustered = Rates { inflation: 7.0, ..rates };
        assert!(clustered.p_value() > 0.2);
        let (ratio, low, high) = rates.ratio_interval(0.95);
        assert!(low > 1.0 && ratio < high && (1.39..1.41).contains(&ratio), "{ratio} {low} {high}");
        assert_eq!(Rates { a: (0, 100), b: (0, 100), ..rates }.p_value(), 1.0);
    }
}
