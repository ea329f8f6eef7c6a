//! Sizes from the knees of a curve: all levels at once, T(N) = T0 + Σ Dᵢ·μᵢ(N).
//!
//! μᵢ is a miss-ratio model of level i ([`super::miss_ratio`]); T0 and the steps Dᵢ follow by weighted least squares.
//! Each level in turn takes the model that leaves least, the others held, until none changes. All sizes whose models
//! leave hardly more than the best make the interval.

use super::miss_ratio::{Model, Placement, Replacement};
use super::plateau::crossing;
use latlab_model::cache::detail::{CurvePoint, Pages};

/// Relative standard deviation of a timing: batches of a pointer chase on an idle machine, and the half percent of the
/// models.
const TIMING: f64 = 0.01;
/// Shares of the step where a knee begins and where it ends.
pub const ONSET: f64 = 0.05;
const END: f64 = 0.9;
/// Sizes are looked for from this share of the knee's begin to this multiple of its end: a cache whose pages collide
/// begins to miss early, one that replaces at random ends late.
const SEARCH: (f64, f64) = (0.9, 1.3);
/// Models that leave up to 1 + this times what the best leaves are as likely; calibrated on the training set so that
/// intervals hold the truth in 95 of 100 cases.
const ALIKE: f64 = 0.25;
/// What a size with an odd factor is held back, for each e-fold of the factor: caches of 3·2ⁿ and 5·2ⁿ are common,
/// larger odd factors rare.
const ODD: f64 = 0.2;
/// Largest odd factor of a size (15: 30 MiB in 15 slices).
const ODD_MOST: u64 = 15;
/// Rounds of the descent; three levels settle in two or three.
const ROUNDS: usize = 4;
/// Ways that caches of known processors have.
const WAYS: [u32; 13] = [2, 3, 4, 6, 7, 8, 10, 11, 12, 16, 20, 24, 32];
/// Ways of models of hashed caches, whose knees hardly depend on them.
const WAYS_HASHED: [u32; 4] = [4, 8, 12, 16];

/// One level of a [`Fit`].
#[derive(Clone, Debug)]
pub struct Knee {
    /// Model that fits best.
    pub model: Model,
    /// Cost of a miss, ns.
    pub step: f64,
    /// Models that fit about as well, the best among them.
    pub alike: Vec<Model>,
    /// Sizes between which the curve climbs from [`ONSET`] to the end of the knee, bytes.
    pub bracket: (u64, u64),
}

/// All levels of a curve.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Latency of a hit in the first level, ns.
    pub t0: f64,
    /// Levels, from the processor outwards.
    pub knees: Vec<Knee>,
    /// Root mean square of the relative residual.
    pub rms: f64,
    /// Weighted residual a point; about 1 when the models are those of the caches.
    pub misfit: f64,
}

/// What is known before the fit.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Page size of the curve.
    pub pages: Pages,
    /// Base page, bytes.
    pub page_bytes: u32,
    /// Associativity of each level, where counted.
    pub ways: &'a [Option<u32>],
}

/// `n / 2^k` with `n` odd.
fn odd_factor(n: u64) -> u64 {
    if n == 0 { 1 } else { n >> n.trailing_zeros() }
}

/// Sizes of caches between two bounds.
fn sizes(low: f64, high: f64) -> impl Iterator<Item = u64> {
    let odd = (1..=ODD_MOST).step_by(2);
    odd.flat_map(move |odd| (0..40).map(move |k| odd << k))
        .filter(move |s| (low..=high).contains(&(*s as f64)))
}

/// Models of caches between two sizes.
fn models(low: f64, high: f64, counted: Option<u32>, first: bool, known: &Known<'_>) -> Vec<Model> {
    let mut out = Vec::new();
    let page = known.page_bytes.max(1);
    for bytes in sizes(low, high) {
        let policies = [Replacement::Lru, Replacement::TreePlru, Replacement::Random];
        let mut add = |placement, ways: u32| {
            let one = |replacement| Model { placement, replacement, bytes, ways, page };
            let possible = |r: &Replacement| *r != Replacement::TreePlru || ways.is_power_of_two();
            out.extend(policies.into_iter().filter(possible).map(one));
        };
        let plain = |w: u32| odd_factor(u64::from(w)) == odd_factor(bytes);
        for ways in WAYS.into_iter().filter(|w| plain(*w) && counted.is_none_or(|c| c == *w)) {
            let colours = bytes / u64::from(ways) / u64::from(page);
            if known.pages == Pages::Huge || colours <= 1 || first {
                add(Placement::Contiguous, ways);
            }
            if known.pages == Pages::Base && colours > 1 {
                add(Placement::RandomPages, ways);
            }
        }
        if !first && counted.is_none() {
            WAYS_HASHED.into_iter().for_each(|ways| add(Placement::Hashed, ways));
        }
    }
    out
}

/// One model with its weighted miss ratios.
struct Candidate {
    model: Model,
    shares: Vec<f64>,
}

/// Inner product.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// Takes the parts along an orthonormal basis off a vector.
fn project(v: &mut [f64], basis: &[Vec<f64>]) {
    for q in basis {
        let along = dot(v, q);
        v.iter_mut().zip(q).for_each(|(v, q)| *v -= along * q);
    }
}

/// Orthonormal basis of some vectors (modified Gram–Schmidt).
fn basis<'a>(vectors: impl Iterator<Item = &'a Vec<f64>>) -> Vec<Vec<f64>> {
    let mut out: Vec<Vec<f64>> = Vec::new();
    for v in vectors {
        let mut v = v.clone();
        project(&mut v, &out);
        let norm = dot(&v, &v).sqrt();
        if norm > 1e-9 {
            v.iter_mut().for_each(|x| *x /= norm);
            out.push(v);
        }
    }
    out
}

/// Weighted data of the least squares.
struct Data {
    /// 1/σ of each point.
    weights: Vec<f64>,
    /// Latency over σ.
    values: Vec<f64>,
}

impl Data {
    fn of(points: &[CurvePoint], pages: Pages) -> Self {
        // Variance between placements, from their range: the mean range of n normal values is 0.55 + 1.07·ln n standard
        // deviations, within 5 % for n from 3 to 20.
        let variance = |p: &CurvePoint| {
            let n = f64::from(p.repeats);
            ((p.high_ns - p.low_ns) / (0.55 + 1.07 * n.max(2.0).ln())).powi(2)
        };
        let sigma = |p: &CurvePoint| {
            // Placements without any collision would seem certain: neighbouring sizes have the same chance of one.
            let near = |q: &&CurvePoint| q.repeats > 1 && q.x * 4 < p.x * 5 && p.x * 4 < q.x * 5;
            let (mut sum, mut count) = (0.0, 0.0);
            points
                .iter()
                .filter(near)
                .for_each(|q| (sum, count) = (sum + variance(q), count + 1.0));
            let chance = if pages == Pages::Base && count > 0.0 { sum / count } else { 0.0 };
            ((TIMING * p.ns).powi(2) + chance / f64::from(p.repeats.max(1))).sqrt().max(1e-6)
        };
        let weights: Vec<f64> = points.iter().map(|p| 1.0 / sigma(p)).collect();
        let values = points.iter().zip(&weights).map(|(p, w)| p.ns * w).collect();
        Self { weights, values }
    }

    /// The step and the residual of each candidate, the other levels held; `None` for those with no positive step.
    fn judge(
        &self,
        fixed: &[&Vec<f64>],
        candidates: &[Candidate],
        from: usize,
        to: usize,
    ) -> Vec<Option<(f64, f64)>> {
        let part = |v: &Vec<f64>| v[from..to].to_vec();
        let all: Vec<Vec<f64>> =
            std::iter::once(&self.weights).chain(fixed.iter().copied()).map(part).collect();
        let others = basis(all.iter());
        let mut rest = part(&self.values);
        project(&mut rest, &others);
        let whole = dot(&rest, &rest);
        let one = |c: &Candidate| {
            let mut shares = part(&c.shares);
            let before = dot(&shares, &shares);
            project(&mut shares, &others);
            let norm = dot(&shares, &shares);
            let step = dot(&shares, &rest) / norm;
            (norm > 1e-6 * before && step > 0.0).then_some((step, whole - step * step * norm))
        };
        candidates.iter().map(one).collect()
    }
}

/// What a model is compared by: its residual beside that of the noise alone, and a little more for an odd size.
fn cost(model: &Model, residual: f64, points: usize) -> f64 {
    (residual + points as f64) * (1.0 + ODD * (odd_factor(model.bytes) as f64).ln())
}

/// Fits levels between the latencies of `plateaus` (one more than levels) to a curve. `None` when a level has no model.
pub fn fit(points: &[CurvePoint], plateaus: &[f64], known: &Known<'_>) -> Option<Fit> {
    fit_by(points, plateaus, known, false)
}

/// The same with models alone that leave all levels a positive step: one that begins to miss early can take the knee
/// of the level before it, which then has no model.
pub fn fit_together(points: &[CurvePoint], plateaus: &[f64], known: &Known<'_>) -> Option<Fit> {
    fit_by(points, plateaus, known, true)
}

fn fit_by(
    points: &[CurvePoint],
    plateaus: &[f64],
    known: &Known<'_>,
    together: bool,
) -> Option<Fit> {
    let data = Data::of(points, known.pages);
    let levels = plateaus.len().checked_sub(1).filter(|n| *n > 0)?;
    let weighted = |m: Model| {
        let shares =
            points.iter().zip(&data.weights).map(|(p, w)| w * m.miss_ratio(p.x as f64)).collect();
        Candidate { model: m, shares }
    };
    let mut brackets = Vec::new();
    let mut candidates: Vec<Vec<Candidate>> = Vec::new();
    for i in 0..levels {
        let bracket = crossing(points, plateaus[i], plateaus[i + 1], ONSET, END);
        let (low, high) = (bracket.0 as f64 * SEARCH.0, bracket.1 as f64 * SEARCH.1);
        let counted = known.ways.get(i).copied().flatten();
        let mut all = models(low, high, counted, i == 0, known);
        if all.is_empty() {
            all = models(low, high, None, i == 0, known);
        }
        candidates.push(all.into_iter().map(weighted).collect());
        brackets.push(bracket);
    }
    let chosen = descend(points, &data, &brackets, &candidates, together)?;
    finish(points, &data, brackets, &candidates, &chosen)
}

/// Index of the best candidate of each level; with `together`, of those that leave the others a positive step.
fn descend(
    points: &[CurvePoint],
    data: &Data,
    brackets: &[(u64, u64)],
    candidates: &[Vec<Candidate>],
    together: bool,
) -> Option<Vec<usize>> {
    let at = |x: u64| points.partition_point(|p| p.x < x);
    let best =
        |i: usize, fixed: &[&Vec<f64>], from: usize, to: usize, fits: &dyn Fn(usize) -> bool| {
            let judged = data.judge(fixed, &candidates[i], from, to);
            let costs = judged.iter().zip(&candidates[i]).enumerate();
            let costs =
                costs.filter_map(|(k, (j, c))| Some((k, cost(&c.model, (*j)?.1, to - from))));
            let costs = costs.filter(|(k, _)| fits(*k));
            costs.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(k, _)| k)
        };
    // Whether all other levels keep a positive step when level `i` has its candidate `k`.
    let leaves_all = |chosen: &[usize], i: usize, k: usize| {
        let of = |j: usize| if j == i { k } else { chosen[j] };
        (0..chosen.len()).filter(|j| *j != i).all(|j| {
            let others = (0..chosen.len()).filter(|o| *o != j);
            let others: Vec<&Vec<f64>> = others.map(|o| &candidates[o][of(o)].shares).collect();
            let own = &candidates[j][chosen[j]..=chosen[j]];
            data.judge(&others, own, 0, points.len())[0].is_some()
        })
    };
    let mut chosen = Vec::new();
    for i in 0..candidates.len() {
        // Each alone to begin with, from the end of the knee before it to the begin of the next.
        let from = if i == 0 { 0 } else { at(brackets[i - 1].1) };
        let to = brackets.get(i + 1).map_or(points.len(), |next| at(next.0 + 1));
        let (from, to) = if to < from + 6 { (0, points.len()) } else { (from, to) };
        chosen.push(best(i, &[], from, to, &|_| true)?);
    }
    for _ in 0..ROUNDS {
        let before = chosen.clone();
        for i in 0..chosen.len() {
            let others: Vec<&Vec<f64>> = (0..chosen.len())
                .filter(|j| *j != i)
                .map(|j| &candidates[j][chosen[j]].shares)
                .collect();
            let fits = |k| !together || leaves_all(&chosen, i, k);
            chosen[i] = best(i, &others, 0, points.len(), &fits)?;
        }
        if chosen == before {
            break;
        }
    }
    Some(chosen)
}

fn finish(
    points: &[CurvePoint],
    data: &Data,
    brackets: Vec<(u64, u64)>,
    candidates: &[Vec<Candidate>],
    chosen: &[usize],
) -> Option<Fit> {
    let mut knees = Vec::new();
    let mut rest = data.values.clone();
    let n = points.len() as f64;
    let mut left = 0.0;
    for (i, bracket) in brackets.into_iter().enumerate() {
        let others: Vec<&Vec<f64>> = (0..chosen.len())
            .filter(|j| *j != i)
            .map(|j| &candidates[j][chosen[j]].shares)
            .collect();
        let judged = data.judge(&others, &candidates[i], 0, points.len());
        let best = &candidates[i][chosen[i]];
        let (step, residual) = judged[chosen[i]]?;
        left = residual;
        let most = cost(&best.model, residual, points.len()) * (1.0 + ALIKE);
        let alike = candidates[i].iter().zip(&judged);
        let alike =
            alike.filter(|(c, j)| j.is_some_and(|j| cost(&c.model, j.1, points.len()) <= most));
        let alike = alike.map(|(c, _)| c.model).collect();
        rest.iter_mut().zip(&best.shares).for_each(|(r, s)| *r -= step * s);
        knees.push(Knee { model: best.model, step, alike, bracket });
    }
    let t0 = dot(&rest, &data.weights) / dot(&data.weights, &data.weights);
    let relative = points.iter().zip(&data.weights).zip(&rest);
    let relative = relative.map(|((p, w), r)| ((r / w - t0) / p.ns).powi(2)).sum::<f64>();
    (t0 > 0.0).then(|| Fit { t0, knees, rms: (relative / n).sqrt(), misfit: left / n })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(t0: f64, levels: &[(Model, f64)]) -> Vec<CurvePoint> {
        let sizes = (0..120).map(|i| 4096 * (2f64.powf(f64::from(i) / 10.0).round() as u64));
        let mut points: Vec<CurvePoint> = sizes
            .filter_map(|x| {
                let more: f64 = levels.iter().map(|(m, d)| d * m.miss_ratio(x as f64)).sum();
                CurvePoint::of(x, &[t0 + more])
            })
            .collect();
        points.dedup_by_key(|p| p.x);
        points
    }

    #[test]
    fn two_levels_with_knees_that_overlap_are_found() {
        let model = |placement, replacement, bytes, ways| Model {
            placement,
            replacement,
            bytes,
            ways,
            page: 4096,
        };
        let first = model(Placement::RandomPages, Replacement::Random, 128 << 10, 4);
        let second = model(Placement::RandomPages, Replacement::Lru, 768 << 10, 6);
        let points = curve(3.0, &[(first, 9.0), (second, 90.0)]);
        let known = Known { pages: Pages::Base, page_bytes: 4096, ways: &[] };
        let found = fit(&points, &[3.0, 12.0, 102.0], &known).unwrap();
        assert_eq!((found.knees[0].model, found.knees[1].model), (first, second));
        assert!((found.t0 - 3.0).abs() < 0.05 && (found.knees[1].step - 90.0).abs() < 0.5);
        assert!(found.rms < 0.002 && found.misfit < 0.1);
    }
}
