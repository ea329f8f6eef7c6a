//! The far tail: the generalised Pareto distribution of what is over a threshold.
//!
//! Over a high threshold u, excesses follow P(X − u > x) = (1 + ξx/σ)^(−1/ξ)
//! (J. Pickands, 1975; S. Coles, *An Introduction to Statistical Modeling of Extreme
//! Values*, ch. 4). The fit is by maximum likelihood along the profile of τ = ξ/σ
//! (A. C. Davison; S. D. Grimshaw, *Technometrics* 35, 1993). Whether it fits is checked
//! with Cramér and von Mises' W² against fits of simulated samples (V. Choulakian and
//! M. A. Stephens, *Technometrics* 43, 2001). The threshold is checked, too: over a sufficient one the shape does
//! not change with a higher threshold (Coles, §4.3.1), so the shape of the upper half of the exceedances is
//! compared with that of all.
//!
//! Exceedances cluster. All of them are fitted, and count for as many as there are clusters, the extremal index times
//! their number (L. Fawcett and D. Walshaw, *Environmetrics* 18, 2007): the maxima of clusters alone would give
//! another distribution than that of one value. The rate of exceedance is as uncertain as the number of clusters.

use super::bootstrap::bias_corrected_interval;
use super::rng::SplitMix64;
use crate::histogram::Histogram;
use serde::{Deserialize, Serialize};

/// Exceedances that a fit needs.
const LEAST: u64 = 40;
/// Exceedances that a fit is made of, at most: more would be body, not tail.
const MOST: u64 = 250;
/// Simulated samples behind the check and the interval.
const REPLICATES: usize = 199;

/// A fitted tail.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Tail {
    /// The threshold, in the unit of the values.
    pub threshold: f64,
    /// Share of the values that are over it.
    pub rate: f64,
    /// Number of values over it.
    pub exceedances: u64,
    /// What they count for, as they cluster.
    pub effective: f64,
    /// Shape ξ: above zero the tail is heavier than exponential, below it has an end.
    pub shape: f64,
    /// Scale σ, in the unit of the values.
    pub scale: f64,
    /// Values in the sample.
    pub sample: u64,
    /// p value of equal shapes over the threshold and over a higher one with half the exceedances; below 0.05 the
    /// threshold is too low. `None` in runs of earlier versions.
    pub stability_p: Option<f64>,
    /// p value of the check (0 where the shape alone rules a fit out); below 0.05 the fit is not to be used.
    pub check_p: f64,
    /// Levels that a value exceeds with a given probability.
    pub levels: Vec<Level>,
}

/// A return level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Level {
    /// Probability that one value is over the level.
    pub probability: f64,
    /// The level.
    pub value: f64,
    /// Lower end of its 95% interval.
    pub low: f64,
    /// Upper end of its 95% interval.
    pub high: f64,
    /// Whether it is extrapolated beyond ten times the sample: fewer than one value in ten such samples is over it.
    pub beyond_sample: bool,
}

impl Tail {
    /// Whether both checks let the fit be used.
    pub fn fits(&self) -> bool {
        self.check_p >= 0.05 && self.stability_p.is_none_or(|p| p >= 0.05)
    }

    /// Whether a level of probability `p` is extrapolated beyond ten times the sample.
    pub fn is_beyond(&self, p: f64) -> bool {
        p * 10.0 * (self.sample as f64) < 1.0
    }

    /// P(X > x) for an x over the threshold.
    pub fn survival(&self, x: f64) -> f64 {
        self.rate * survival(x - self.threshold, self.shape, self.scale)
    }

    /// The level that a value exceeds with probability `p`, below the threshold's rate.
    pub fn level(&self, p: f64) -> f64 {
        self.threshold + excess(p / self.rate, self.shape, self.scale)
    }
}

fn survival(x: f64, shape: f64, scale: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    if shape.abs() < 1e-6 {
        return (-x / scale).exp();
    }
    let base = 1.0 + shape * x / scale;
    if base <= 0.0 { 0.0 } else { base.powf(-1.0 / shape) }
}

/// The excess that is exceeded with probability `p`.
fn excess(p: f64, shape: f64, scale: f64) -> f64 {
    let p = p.clamp(1e-300, 1.0);
    if shape.abs() < 1e-6 { -scale * p.ln() } else { scale / shape * (p.powf(-shape) - 1.0) }
}

/// Fits the tail of a histogram. `inflation` says how the values cluster (see [`crate::extremal_index`]).
/// `None` when there are too few values.
pub fn fit_tail(h: &Histogram, inflation: f64, probabilities: &[f64], seed: u64) -> Option<Tail> {
    let wanted = (h.count / 20).min(MOST);
    if wanted < LEAST {
        return None;
    }
    // The threshold is a bucket's end, so that no bucket is cut in two.
    let (mut over, mut excesses, mut threshold) = (0, Vec::new(), 0.0);
    for &(low, n) in h.buckets.iter().rev() {
        if over >= wanted {
            threshold = crate::histogram::bucket_high(low) as f64;
            break;
        }
        over += n;
        let high = crate::histogram::bucket_high(low).min(h.max);
        excesses.push((low.max(h.min) as f64 + high.saturating_sub(low) as f64 / 2.0, n));
    }
    // One bucket with half the values is body: discrete data without a tail to fit.
    if !(LEAST..=MOST * 4).contains(&over) || threshold <= 0.0 || excesses.len() < 12 {
        return None;
    }
    for e in &mut excesses {
        e.0 = (e.0 - threshold).max(0.5);
    }
    let (shape, scale) = fit(&excesses)?;
    let mut tail = Tail {
        threshold,
        rate: over as f64 / h.count as f64,
        exceedances: over,
        effective: (over as f64 / inflation.max(1.0)).max(1.0),
        shape,
        scale,
        sample: h.count,
        ..Tail::default()
    };
    // From a shape of 1 on not even the mean is finite: what looks so is no one tail, but a clump far out.
    if shape < 1.0 {
        simulate(&mut tail, &excesses, probabilities, seed);
    }
    Some(tail)
}

/// The check and the intervals, by fits of simulated samples.
fn simulate(tail: &mut Tail, excesses: &[(f64, u64)], probabilities: &[f64], seed: u64) {
    let mut rng = SplitMix64::new(seed);
    let size = (tail.effective.round() as usize).clamp(10, MOST as usize);
    // A clustered sample strays further: its distance is scaled to what it counts for.
    let shrink = size as f64 / tail.exceedances as f64;
    let seen = distance(excesses, tail.shape, tail.scale) * shrink.min(1.0);
    let seen_change = upper_half(excesses).map(|shape| (shape - tail.shape).abs());
    let (mut further, mut changed, mut compared) = (0, 0, 0);
    let mut levels = vec![Vec::with_capacity(REPLICATES); probabilities.len()];
    for _ in 0..REPLICATES {
        let mut sample: Vec<(f64, u64)> = (0..size)
            .map(|_| {
                let u = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
                (excess(1.0 - u, tail.shape, tail.scale).max(1e-9), 1)
            })
            .collect();
        sample.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        let Some((shape, scale)) = fit(&sample) else { continue };
        further += usize::from(distance(&sample, shape, scale) >= seen);
        if let (Some(seen), Some(upper)) = (seen_change, upper_half(&sample)) {
            compared += 1;
            changed += usize::from((upper - shape).abs() >= seen);
        }
        // The number of clusters is counted, not known.
        let rate = tail.rate * (1.0 + gauss(&mut rng) / (size as f64).sqrt()).max(0.1);
        for (values, &p) in levels.iter_mut().zip(probabilities) {
            values.push(tail.threshold + excess(p / rate, shape, scale));
        }
    }
    tail.stability_p = (compared > 0).then(|| (changed + 1) as f64 / (compared + 1) as f64);
    tail.check_p = (further + 1) as f64 / (REPLICATES + 1) as f64;
    tail.levels = (probabilities.iter().zip(&mut levels))
        .filter(|&(&p, _)| p < tail.rate)
        .map(|(&p, values)| {
            let value = tail.level(p);
            let (low, high) = bias_corrected_interval(values, value, 0.95);
            let beyond_sample = tail.is_beyond(p);
            Level {
                probability: p,
                value,
                low: low.min(value),
                high: high.max(value),
                beyond_sample,
            }
        })
        .filter(|l| l.value.is_finite() && l.high.is_finite())
        .collect();
}

/// Shape over the threshold that half of the excesses (in falling order) are above.
fn upper_half(excesses: &[(f64, u64)]) -> Option<f64> {
    let all: u64 = excesses.iter().map(|e| e.1).sum();
    let (mut upper, mut count) = (Vec::new(), 0);
    for (i, &(x, n)) in excesses.iter().enumerate() {
        if count * 2 >= all {
            break;
        }
        count += n;
        let next = excesses.get(i + 1).map_or(0.0, |e| e.0);
        upper.push((x, n, next));
    }
    let threshold = upper.last()?.2;
    let upper: Vec<(f64, u64)> = upper.iter().map(|&(x, n, _)| (x - threshold, n)).collect();
    (upper.len() >= 5).then(|| fit(&upper)).flatten().map(|(shape, _)| shape)
}

/// A standard normal value (G. E. P. Box and M. E. Muller, 1958).
fn gauss(rng: &mut SplitMix64) -> f64 {
    let mut uniform = || ((rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let (u, v) = (uniform(), uniform());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// Cramér and von Mises' W² of excesses in falling order.
fn distance(excesses: &[(f64, u64)], shape: f64, scale: f64) -> f64 {
    let n: u64 = excesses.iter().map(|e| e.1).sum();
    let n = n as f64;
    let (mut w, mut above) = (1.0 / (12.0 * n), 0u64);
    for &(x, count) in excesses {
        let s = survival(x, shape, scale);
        for i in 0..count {
            let expected = ((above + i) as f64 + 0.5) / n;
            w += (s - expected).powi(2);
        }
        above += count;
    }
    w
}

/// Shape and scale by the profile likelihood of τ = ξ/σ; `None` without spread.
fn fit(excesses: &[(f64, u64)]) -> Option<(f64, f64)> {
    let n: f64 = excesses.iter().map(|e| e.1 as f64).sum();
    let largest = excesses.iter().map(|e| e.0).fold(0.0, f64::max);
    let mean = excesses.iter().map(|&(x, c)| x * c as f64).sum::<f64>() / n;
    if largest <= 0.0 || mean <= 0.0 {
        return None;
    }
    let shape_of =
        |tau: f64| excesses.iter().map(|&(x, c)| (tau * x).ln_1p() * c as f64).sum::<f64>() / n;
    let likelihood = |tau: f64| {
        if tau.abs() * mean < 1e-7 {
            return -mean.ln() - 1.0;
        }
        let shape = shape_of(tau);
        // Below −1/2 the likelihood has no proper maximum.
        if shape < -0.5 || shape / tau <= 0.0 {
            return f64::NEG_INFINITY;
        }
        -(shape / tau).ln() - shape - 1.0
    };
    let grid: Vec<f64> = (0..16)
        .map(|i| -(1.0 - 1e-6) / largest * (1.0 - f64::from(i) / 16.0).powi(2))
        .chain((-16..12).map(|i| 10f64.powf(f64::from(i) / 4.0) / mean))
        .collect();
    let best =
        (0..grid.len()).max_by(|&a, &b| likelihood(grid[a]).total_cmp(&likelihood(grid[b])))?;
    let (mut low, mut high) = (grid[best.saturating_sub(1)], grid[(best + 1).min(grid.len() - 1)]);
    for _ in 0..24 {
        let (a, b) = (low + (high - low) * 0.382, low + (high - low) * 0.618);
        if likelihood(a) > likelihood(b) { high = b } else { low = a }
    }
    let tau = (low + high) / 2.0;
    if tau.abs() * mean < 1e-7 {
        return Some((0.0, mean));
    }
    let shape = shape_of(tau);
    let scale = shape / tau;
    (scale > 0.0 && scale.is_finite()).then_some((shape, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(n: usize, seed: u64, of: impl Fn(f64) -> f64) -> Histogram {
        let mut rng = SplitMix64::new(seed);
        Histogram::of((0..n).map(|_| {
            let u = ((rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
            of(u) as u64
        }))
    }

    #[test]
    fn levels_of_known_tails_are_inside_their_intervals() {
        let (mut covered, mut shapes) = (0, 0.0);
        for seed in 0..200 {
            // Pareto with ξ = 0.25 over 10 µs: P(X > x) = (x / 10 µs)^−4.
            let h = values(20_000, seed, |u| 10_000.0 * u.powf(-0.25));
            let tail = fit_tail(&h, 1.0, &[1e-5], seed).unwrap();
            let truth = 10_000.0 * 1e-5f64.powf(-0.25);
            covered += u32::from((tail.levels[0].low..=tail.levels[0].high).contains(&truth));
            shapes += tail.shape / 200.0;
        }
        // At 95 % fewer than 180 of 200 have a probability of 0.1 %; at 88 % more than that have one of 16 %.
        assert!(covered >= 180, "{covered} of 200");
        assert!((shapes - 0.25).abs() < 0.06, "{shapes}");
    }

    #[test]
    fn the_check_refuses_what_is_no_such_tail() {
        let good = (0..100)
            .filter(|&seed| {
                fit_tail(&values(8_000, seed, |u| 20_000.0 - 3_000.0 * u.ln()), 1.0, &[], seed)
                    .unwrap()
                    .fits()
            })
            .count();
        // Two checks at 5 % each: 90 % and more are let through.
        assert!(good >= 82, "{good} of 100 exponential tails");
        // Two clumps far apart.
        let two =
            fit_tail(
                &values(8_000, 1, |u| {
                    if u < 0.02 { 900_000.0 + 1e6 * u } else { 10_000.0 + 20_000.0 * u }
                }),
                1.0,
                &[],
                1,
            );
        assert!(two.as_ref().is_some_and(|t| !t.fits()), "{two:?}");
    }

    #[test]
    fn levels_beyond_ten_times_the_sample_say_so() {
        let h = values(20_000, 3, |u| 10_000.0 * u.powf(-0.25));
        let tail = fit_tail(&h, 1.0, &[1e-5, 4e-6], 3).unwrap();
        let beyond: Vec<bool> = tail.levels.iter().map(|l| l.beyond_sample).collect();
        assert_eq!(beyond, [false, true], "one in 200,000 is the limit");
    }

    #[test]
    fn a_threshold_in_the_body_is_not_stable() {
        // The threshold is at the 98.75th percentile; light-tailed up to the 99th, heavy beyond.
        let refused = (0..20)
            .filter(|&seed| {
                let of = |u: f64| {
                    if u > 0.01 {
                        200_000.0 - 4_000_000.0 * (u - 0.01)
                    } else {
                        190_000.0 + 10_000.0 * (0.01 / u).powf(0.8)
                    }
                };
                fit_tail(&values(20_000, seed, of), 1.0, &[], seed)
                    .is_some_and(|t| t.stability_p.is_some_and(|p| p < 0.05))
            })
            .count();
        assert!(refused >= 15, "{refused} of 20");
    }

    #[test]
    fn few_values_have_no_tail() {
        assert!(fit_tail(&Histogram::of(0..100), 1.0, &[], 0).is_none());
        assert!(fit_tail(&Histogram::of(std::iter::repeat_n(7, 100_000)), 1.0, &[], 0).is_none());
    }
}
