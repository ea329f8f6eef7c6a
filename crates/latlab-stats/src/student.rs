//! Student's t distribution, for variances that few blocks or runs estimate.
//!
//! The tail is the regularised incomplete beta function I(ν/2, 1/2) at
//! ν/(ν + t²) (M. Abramowitz and I. A. Stegun, 26.7.1), whose continued fraction is
//! evaluated by Lentz's method (*Numerical Recipes*, §6.4). Log gamma is Lanczos' series.

use super::quantile::normal_quantile;
use super::rank::normal_tail;

/// P(T > t) with `dof` degrees of freedom; the normal distribution from 1,000 on.
pub fn student_tail(t: f64, dof: f64) -> f64 {
    if !t.is_finite() {
        return if t > 0.0 { 0.0 } else { 1.0 };
    }
    if dof >= 1_000.0 {
        return normal_tail(t);
    }
    let dof = dof.max(0.5);
    let half = 0.5 * beta(dof / 2.0, 0.5, dof / (dof + t * t));
    if t >= 0.0 { half } else { 1.0 - half }
}

/// The value that a T of `dof` degrees of freedom exceeds with probability `tail` (below one half).
pub fn student_upper(tail: f64, dof: f64) -> f64 {
    if dof >= 1_000.0 {
        return normal_quantile(1.0 - tail);
    }
    let (mut low, mut high) = (0.0, 4.0);
    while student_tail(high, dof) > tail && high < 1e12 {
        high *= 4.0;
    }
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if student_tail(middle, dof) > tail {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// Regularised incomplete beta function.
fn beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return if x >= 1.0 { 1.0 } else { 0.0 };
    }
    let front =
        (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(a, b, x) / a
    } else {
        1.0 - front * fraction(b, a, 1.0 - x) / b
    }
}

fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let solid = |v: f64| if v.abs() < 1e-300 { 1e-300 } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / solid(1.0 - (a + b) * x / (a + 1.0));
    let mut sum = d;
    for i in 1..300 {
        let m = f64::from(i);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / solid(1.0 + even * d);
        c = solid(1.0 + even / c);
        sum *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / solid(1.0 + odd * d);
        c = solid(1.0 + odd / c);
        sum *= d * c;
        if (d * c - 1.0).abs() < 1e-13 {
            break;
        }
    }
    sum
}

/// Logarithm of the gamma function for positive arguments, relative error below 1e-10.
fn ln_gamma(x: f64) -> f64 {
    const C: [f64; 6] = [
        76.180_091_729_471_46,
        -86.505_320_329_416_77,
        24.014_098_240_830_91,
        -1.231_739_572_450_155,
        0.120_865_097_386_617_9e-2,
        -0.539_523_938_495_3e-5,
    ];
    let t = x + 5.5;
    let series: f64 = C.iter().enumerate().map(|(i, c)| c / (x + 1.0 + i as f64)).sum();
    (x + 0.5) * t.ln() - t
        + (std::f64::consts::TAU.sqrt() * (1.000_000_000_190_015 + series) / x).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_those_of_the_tables() {
        // Abramowitz and Stegun, table 26.10.
        for (dof, t) in [(1.0, 12.706), (4.0, 2.776), (10.0, 2.228), (30.0, 2.042)] {
            assert!((student_tail(t, dof) - 0.025).abs() < 2e-5, "{dof}");
            assert!((student_upper(0.025, dof) - t).abs() < 1e-3, "{dof}");
        }
        assert!((student_tail(-1.0, 5.0) + student_tail(1.0, 5.0) - 1.0).abs() < 1e-12);
        assert!((student_upper(0.025, 1e6) - 1.959_964).abs() < 1e-5);
    }
}
