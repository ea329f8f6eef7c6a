//! All levels in one model, so that where the knee of one reaches into the knee of the next each
//! is told what the other explains:
//!
//! T(n) = T0 + D₁·μ₁(n) + D₂·μ₂(n) + …
//!
//! with one law μ (see [`super::setmodel`]) and one step D for each level. For given laws T0 and
//! the steps are linear: least squares of the relative error. The laws are chosen in turn, each
//! with the others held (backfitting: J. H. Friedman, W. Stuetzle, "Projection pursuit
//! regression", JASA 76, 1981). T0 + D₁ + … + Dₖ is the latency of level k + 1.

use super::curve::CurvePoint;
use super::setmodel::{Fit, Law, Laws, best_first};

/// Relative error that a timing is allowed.
const TIMING: f64 = 0.02;

/// Standard error of a point: of its timings, and of the mean over its allocations where chance
/// makes them differ (from their range, as control charts have it: W. A. Shewhart, 1931).
fn sigma(p: &CurvePoint) -> f64 {
    let n = f64::from(p.repeats.max(1));
    let range = if p.repeats > 1 { p.high_ns - p.low_ns } else { 0.0 };
    let deviation = range / (0.45 + 1.05 * n.ln()).max(1.13);
    (TIMING * p.ns).hypot(deviation / n.sqrt()).max(1e-6)
}

/// A law, and the share of the loads that miss by it at each point.
pub(super) struct Column {
    pub(super) law: Law,
    misses: Vec<f64>,
}

/// Points of a curve and what laws say of them.
pub(super) struct Joint<'a> {
    points: &'a [CurvePoint],
    laws: Laws,
}

/// T0 and steps for given laws.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Solution {
    /// T0, then a step for each level, ns.
    pub(super) terms: Vec<f64>,
    /// Root mean square of the error in units of what is expected, times the error of a timing:
    /// the relative error, where chance has no part.
    pub(super) residual: f64,
}

impl Solution {
    /// Latency of a hit in level `i`, ns.
    pub(super) fn hit(&self, i: usize) -> f64 {
        self.terms.iter().take(i + 1).sum()
    }
}

impl<'a> Joint<'a> {
    /// Of points that rise in `x`.
    pub(super) fn new(points: &'a [CurvePoint]) -> Self {
        Self { points, laws: Laws::default() }
    }

    /// What laws say of the points.
    pub(super) fn columns(&mut self, laws: Vec<Law>) -> Vec<Column> {
        laws.into_iter()
            .map(|law| {
                let of = |p: &CurvePoint| self.laws.misses(&law, p.x as f64);
                Column { misses: self.points.iter().map(of).collect(), law }
            })
            .collect()
    }

    /// T0 and steps by least squares; `None` unless all are positive.
    pub(super) fn solve(&self, columns: &[&Column]) -> Option<Solution> {
        let n = columns.len() + 1;
        let mut rows = vec![vec![0.0; n + 1]; n];
        let value = |k: usize, i: usize| if k == 0 { 1.0 } else { columns[k - 1].misses[i] };
        for (i, p) in self.points.iter().enumerate() {
            let w = sigma(p).powi(-2);
            for (r, row) in rows.iter_mut().enumerate() {
                let wr = w * value(r, i);
                for (c, cell) in row[..n].iter_mut().enumerate() {
                    *cell += wr * value(c, i);
                }
                row[n] += wr * p.ns;
            }
        }
        let terms = eliminate(rows)?;
        if terms.iter().any(|t| *t <= 0.0 || !t.is_finite()) {
            return None;
        }
        let error = |(i, p): (usize, &CurvePoint)| {
            let model: f64 = terms.iter().enumerate().map(|(k, t)| t * value(k, i)).sum();
            (TIMING * (p.ns - model) / sigma(p)).powi(2)
        };
        let sum: f64 = self.points.iter().enumerate().map(error).sum();
        Some(Solution { terms, residual: (sum / self.points.len().max(1) as f64).sqrt() })
    }

    /// Root mean square of what is left at the points of `window`: share of step `i`, and relative.
    pub(super) fn left(
        &self,
        columns: &[&Column],
        solution: &Solution,
        i: usize,
        window: (u64, u64),
    ) -> (f64, f64) {
        let (mut of_step, mut relative, mut count) = (0.0, 0.0, 0.0);
        for (at, p) in self.points.iter().enumerate() {
            if p.x < window.0 || p.x > window.1 {
                continue;
            }
            let steps: f64 =
                columns.iter().zip(&solution.terms[1..]).map(|(c, d)| c.misses[at] * d).sum();
            let left = p.ns - solution.terms[0] - steps;
            of_step += (left / solution.terms[i + 1]).powi(2);
            relative += (TIMING * left / sigma(p)).powi(2);
            count += 1.0;
        }
        let count = f64::max(count, 1.0);
        ((of_step / count).sqrt(), (relative / count).sqrt())
    }

    /// Laws of level `i` with those of all others held, best first, judged by the points of `window`.
    pub(super) fn fit(
        &self,
        held: &[&Column],
        i: usize,
        candidates: &[Column],
        window: (u64, u64),
    ) -> Vec<Fit> {
        let mut all = held.to_vec();
        let mut fits = Vec::new();
        for candidate in candidates {
            all[i] = candidate;
            let Some(solution) = self.solve(&all) else { continue };
            let (residual, error) = self.left(&all, &solution, i, window);
            let (t0, step) = (solution.hit(i), solution.terms[i + 1]);
            fits.push(Fit { error, ..candidate.law.fitted(t0, step, residual) });
        }
        best_first(&mut fits);
        fits
    }
}

/// Solves a system of linear equations, its right side in the last column, by elimination with pivots.
fn eliminate(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let n = rows.len();
    for k in 0..n {
        let pivot = (k..n).max_by(|&a, &b| rows[a][k].abs().total_cmp(&rows[b][k].abs()))?;
        rows.swap(k, pivot);
        let lead = rows[k].clone();
        if lead[k].abs() < 1e-12 {
            return None;
        }
        for row in &mut rows[k + 1..] {
            let factor = row[k] / lead[k];
            for (cell, l) in row.iter_mut().zip(&lead).skip(k) {
                *cell -= factor * l;
            }
        }
    }
    let mut out = vec![0.0; n];
    for k in (0..n).rev() {
        let known: f64 = (k + 1..n).map(|c| rows[k][c] * out[c]).sum();
        out[k] = (rows[k][n] - known) / rows[k][k];
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::setmodel::{Placement, laws_of, plausible_sizes};
    use crate::memory::sim::cache::Policy;

    /// 32 KiB of 4 ways and 128 KiB of 4 ways, pages at random: the second has hardly a plateau.
    #[test]
    fn two_knees_that_overlap_are_told_apart() {
        let law = |placement, bytes, ways| Law {
            placement,
            policy: Policy::Lru,
            bytes,
            extra: 0,
            ways,
            page: 4096.0,
        };
        let truth =
            [law(Placement::Contiguous, 32 << 10, 4), law(Placement::Scattered, 128 << 10, 4)];
        let mut laws = Laws::default();
        let points: Vec<CurvePoint> = (1..100)
            .filter_map(|n| {
                let x = n * 4096;
                let miss = truth.map(|l| laws.misses(&l, x as f64));
                CurvePoint::of(x, &[1.5 + 8.5 * miss[0] + 90.0 * miss[1]])
            })
            .collect();
        let mut joint = Joint::new(&points);
        let of = |sizes: &[u64], placement| laws_of(sizes, &[], 4096, &[placement]);
        let first = joint.columns(of(&[24 << 10, 32 << 10, 48 << 10], Placement::Contiguous));
        let second = joint.columns(of(&plausible_sizes(64 << 10, 512 << 10), Placement::Scattered));
        let held = [&first[0], &second[0]];
        let outer = joint.fit(&held, 1, &second, (0, u64::MAX));
        let best = second.iter().find(|c| c.law.is(&outer[0])).unwrap();
        let inner = joint.fit(&[&first[0], best], 0, &first, (0, u64::MAX));
        let best_inner = first.iter().find(|c| c.law.is(&inner[0])).unwrap();
        let outer = joint.fit(&[best_inner, best], 1, &second, (0, u64::MAX));
        assert_eq!((inner[0].bytes, inner[0].ways), (32 << 10, 4), "{:?}", inner[0]);
        assert_eq!((outer[0].bytes, outer[0].ways), (128 << 10, 4), "{:?}", outer[0]);
        assert!((outer[0].t0 - 10.0).abs() < 0.1 && (outer[0].step - 90.0).abs() < 1.0);
    }

    #[test]
    fn equations_are_solved() {
        let rows = vec![vec![0.0, 2.0, 4.0], vec![1.0, 1.0, 5.0]];
        assert_eq!(eliminate(rows), Some(vec![3.0, 2.0]));
        assert_eq!(eliminate(vec![vec![1.0, 1.0, 1.0], vec![1.0, 1.0, 1.0]]), None);
    }
}
