//! Knees: where a curve changes its law.
//!
//! The model is two plateaus and what is between them: low up to `a`, high from `b` on,
//! straight between (a step where b follows a). All pairs (a, b) are fitted by least squares to
//! the logarithm of the response; what the best one saves over a constant is compared with what it
//! saves when the responses are dealt out anew among the values of the axis, within each curve (a
//! permutation test: exact whatever the noise; P. Good, *Permutation, Parametric and Bootstrap
//! Tests*, ch. 3). Searching all pairs is part of what is permuted, so that it costs nothing extra.
//!
//! Where the knee is, noise leaves open by some steps, and a long ramp bends to it more easily than
//! a short one: of the pairs that is taken whose fit, less one nat for each step of its ramp beyond
//! the first, is best (what H. Akaike's criterion asks of a parameter, 1974).

use latlab_stats::rng::SplitMix64;

/// Permutations, at least, and at most where a small level needs more.
const DEALS: usize = 999;
const DEALS_MOST: usize = 49_999;

/// A knee of some curves over one axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Index of the last value of the old law.
    pub from: usize,
    /// Index of the first value of the new law.
    pub to: usize,
    /// Level before.
    pub before: f64,
    /// Level after.
    pub after: f64,
    /// p value of no knee.
    pub p: f64,
}

/// Looks for a knee in curves over the same axis: `curves[k][i]` is curve k at value i, or `None`.
/// `None` when there are fewer than four values or no knee at `level`; a change below `least` (in
/// the unit of the curves) is none.
pub fn find(curves: &[Vec<Option<f64>>], level: f64, least: f64, seed: u64) -> Option<Found> {
    let n = curves.first()?.len();
    let centred: Vec<Vec<Option<f64>>> = curves.iter().map(|c| centre(c)).collect();
    let points = centred.iter().flatten().flatten().count();
    if n < 4 || points < 5 {
        return None;
    }
    let shapes = shapes(n);
    let total: f64 = centred.iter().flatten().flatten().map(|v| v * v).sum();
    if total <= 0.0 {
        return None;
    }
    let (saved, best) = best(&sums(&centred, n), &shapes)?;
    let mut rng = SplitMix64::new(seed);
    let (mut dealt, mut as_good) = (centred.clone(), 0);
    // The smallest p value is one over the number of permutations: it has to be below the level.
    let deals = DEALS.max((1.0 / level) as usize).min(DEALS_MOST);
    for _ in 0..deals {
        dealt.iter_mut().for_each(|c| deal(c, &mut rng));
        let (s, _) = crate::sweep::knee::best(&sums(&dealt, n), &shapes)?;
        as_good += usize::from(s >= saved * (1.0 - 1e-12));
        if as_good as f64 > level * (deals + 1) as f64 {
            return None;
        }
    }
    let p = (as_good + 1) as f64 / (deals + 1) as f64;
    let values = points.saturating_sub(curves.len() + 3).max(1);
    let shape = &shapes
        [simplest(&sums(&centred, n), &shapes, (total - saved) / values as f64).unwrap_or(best)];
    let level_of = |range: std::ops::RangeInclusive<usize>| {
        let v: Vec<f64> =
            curves.iter().flat_map(|c| c[range.clone()].iter().flatten().copied()).collect();
        latlab_stats::quantile::median(&v)
    };
    let (before, after) = (level_of(0..=shape.from)?, level_of(shape.to..=n - 1)?);
    let found = Found { from: shape.from, to: shape.to, before, after, p };
    (p <= level && (after - before).abs() >= least).then_some(found)
}

/// A curve less its mean: what differs from curve to curve is no knee.
fn centre(curve: &[Option<f64>]) -> Vec<Option<f64>> {
    let known: Vec<f64> = curve.iter().flatten().copied().collect();
    let mean = known.iter().sum::<f64>() / known.len().max(1) as f64;
    curve.iter().map(|v| v.map(|v| v - mean)).collect()
}

/// Deals the known values of a curve out anew among their places.
fn deal(curve: &mut [Option<f64>], rng: &mut SplitMix64) {
    let mut known: Vec<f64> = curve.iter().flatten().copied().collect();
    rng.shuffle(&mut known);
    let mut next = known.into_iter();
    for v in curve.iter_mut().filter(|v| v.is_some()) {
        *v = next.next();
    }
}

/// Sum and number of the values at each place.
fn sums(curves: &[Vec<Option<f64>>], n: usize) -> Vec<(f64, f64)> {
    (0..n)
        .map(|i| curves.iter().filter_map(|c| c[i]).fold((0.0, 0.0), |(s, k), v| (s + v, k + 1.0)))
        .collect()
}

/// Low, ramp, high: 0 up to `from`, 1 from `to` on.
struct Shape {
    from: usize,
    to: usize,
    height: Vec<f64>,
}

fn shapes(n: usize) -> Vec<Shape> {
    let mut out = Vec::new();
    for from in 0..n - 1 {
        for to in from + 1..n {
            let ramp = |i: usize| ((i as f64 - from as f64) / (to - from) as f64).clamp(0.0, 1.0);
            // One value alone on a side may be a wild one: with a ramp to it it is none.
            out.push(Shape { from, to, height: (0..n).map(ramp).collect() });
        }
    }
    out
}

/// The shape that saves most of the squared error over a constant, and how much.
fn best(sums: &[(f64, f64)], shapes: &[Shape]) -> Option<(f64, usize)> {
    savings(sums, shapes).zip(0..).max_by(|a, b| a.0.total_cmp(&b.0))
}

/// The shape that fits best for its length; `None` without noise, where the fit alone decides.
fn simplest(sums: &[(f64, f64)], shapes: &[Shape], variance: f64) -> Option<usize> {
    let nats = |(saved, shape): (f64, &Shape)| {
        saved / (2.0 * variance) - (shape.to - shape.from - 1) as f64
    };
    let all = savings(sums, shapes).zip(shapes).map(nats).zip(0..);
    all.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(nats, _)| nats.is_finite()).map(|(_, i)| i)
}

/// What each shape saves of the squared error over a constant.
fn savings<'s>(sums: &'s [(f64, f64)], shapes: &'s [Shape]) -> impl Iterator<Item = f64> + 's {
    let count: f64 = sums.iter().map(|s| s.1).sum();
    let mean = sums.iter().map(|s| s.0).sum::<f64>() / count;
    shapes.iter().map(move |shape| {
        let middle = sums.iter().zip(&shape.height).map(|(s, h)| s.1 * h).sum::<f64>() / count;
        let (mut xy, mut xx) = (0.0, 0.0);
        for (s, h) in sums.iter().zip(&shape.height) {
            xy += (h - middle) * (s.0 - s.1 * mean);
            xx += s.1 * (h - middle).powi(2);
        }
        if xx > 0.0 { xy * xy / xx } else { 0.0 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_testkit::latency_sim::gauss;

    fn curves(
        n: usize,
        k: usize,
        step: Option<(usize, usize, f64)>,
        noise: f64,
        seed: u64,
    ) -> Vec<Vec<Option<f64>>> {
        let mut rng = SplitMix64::new(seed);
        (0..k)
            .map(|c| {
                (0..n)
                    .map(|i| {
                        let rise = step.map_or(0.0, |(a, b, h)| {
                            h * ((i as f64 - a as f64) / (b - a) as f64).clamp(0.0, 1.0)
                        });
                        Some(9.0 + 0.3 * c as f64 + rise + noise * gauss(&mut rng))
                    })
                    .collect()
            })
            .collect()
    }

    #[test]
    fn known_knees_are_found_within_a_step_and_none_on_flat_curves() {
        let (mut right, mut wrong) = (0, 0);
        for seed in 0..30 {
            let c = curves(12, 3, Some((5, 7, 0.7)), 0.12, seed);
            let near = |f: &Found| f.from.abs_diff(5) <= 1 && f.to.abs_diff(7) <= 1;
            right += usize::from(find(&c, 0.01, 0.14, seed).is_some_and(|f| near(&f)));
            wrong += usize::from(
                find(&curves(12, 3, None, 0.12, 1000 + seed), 0.01, 0.0, seed).is_some(),
            );
        }
        assert!(right >= 28, "{right} of 30");
        assert!(wrong <= 2, "{wrong} of 30");
    }

    #[test]
    fn gaps_and_little_are_no_panic() {
        let mut c = curves(10, 1, Some((4, 5, 1.0)), 0.01, 1);
        c[0][1] = None;
        assert!(find(&c, 0.05, 0.1, 1).is_some());
        assert!(find(&[], 0.05, 0.1, 1).is_none());
        assert!(find(&[vec![Some(1.0); 3]], 0.05, 0.0, 1).is_none());
        assert!(find(&[vec![Some(1.0); 8]], 0.05, 0.0, 1).is_none(), "no variance, no knee");
        assert!(find(&[vec![None; 8]], 0.05, 0.0, 1).is_none());
    }
}
