//! Levels of a curve: plateaus, the joint fit of their knees, sizes with intervals.

use super::knee;
use super::knee::{Fit, Knee, Known};
use super::plateau::{LEVELS_APART, Plateau, plateaus};
use latlab_model::cache::detail::{
    AccessPattern, Curve, CurvePoint, Grade, Level, Limitation, Pages,
};
use latlab_model::cache::request::grid;
use latlab_model::finding::Confidence;

/// Memory takes at least this many times what the last cache does; a stretch nearer to it is the last cache, partly
/// used by others, or memory with less load. The smallest ratio of a published machine is 1.6 (memory-side caches).
const MEMORY_APART: f64 = 1.5;
/// Relative residual from which on no model explains a curve.
const UNEXPLAINED: f64 = 0.04;
/// Residual a point from which on one level more is tried, and the share of it that this may leave.
const MISFIT: f64 = 3.0;
const ONE_MORE: f64 = 0.4;
/// Points in each doubling of the first grid.
pub const PER_OCTAVE: u32 = 4;
/// Smallest array, bytes.
pub const SMALLEST: u32 = 2048;

/// Levels of a curve.
#[derive(Clone, Debug, Default)]
pub struct Inferred {
    /// Caches.
    pub levels: Vec<Level>,
    /// Size ranges of the knees, bytes: from [`knee::ONSET`] to their end.
    pub brackets: Vec<(u64, u64)>,
    /// Latency of each level and of what is behind the last, ns.
    pub latencies: Vec<f64>,
    /// Latency of memory, ns, when the curve is level at its end.
    pub memory_ns: Option<f64>,
}

/// Points of the first grid: plateaus are looked for among evenly spaced points.
fn coarse(curve: &Curve) -> Vec<CurvePoint> {
    let end = curve.points.last().map_or(0, |p| u32::try_from(p.x).unwrap_or(u32::MAX));
    let sizes = grid(SMALLEST, end, PER_OCTAVE);
    let of_grid = |p: &&CurvePoint| sizes.binary_search(&(p.x as u32)).is_ok();
    let points: Vec<CurvePoint> = curve.points.iter().filter(of_grid).copied().collect();
    let own = curve.source.is_none() && points.len() * 4 >= sizes.len() * 3;
    if own { points } else { curve.points.clone() }
}

/// Plateaus of caches and, last, of memory.
pub fn stairs(curve: &Curve) -> (Vec<Plateau>, bool) {
    let points = coarse(curve);
    let mut found = plateaus(&points);
    let whole = found.last().is_some_and(|p| p.last + 1 == points.len());
    while let [.., before, last] = &found[..]
        && whole
        && found.len() > 2
        && last.ns < before.ns * MEMORY_APART
    {
        found.remove(found.len() - 2);
    }
    (found, whole)
}

/// Infers the levels of a curve over sizes. `ways`: associativity of each level, where counted.
pub fn infer(curve: &Curve, page_bytes: u32, ways: &[Option<u32>]) -> Inferred {
    let (found, whole) = stairs(curve);
    let mut latencies: Vec<f64> = found.iter().map(|p| p.ns).collect();
    let memory_ns = latencies.last().copied().filter(|_| whole);
    if found.len() < 2 {
        return Inferred { latencies, memory_ns, ..Inferred::default() };
    }
    let mut ways: Vec<Option<u32>> = ways.to_vec();
    fn known<'a>(curve: &Curve, page_bytes: u32, ways: &'a [Option<u32>]) -> Known<'a> {
        Known { pages: curve.pages, page_bytes, ways }
    }
    let first: Vec<Option<u32>> = ways.iter().take(1).copied().collect();
    let one = known(curve, page_bytes, &first);
    let fit = knee::fit(&curve.points, &latencies, &one);
    let Some(mut fit) = fit.or_else(|| knee::fit_together(&curve.points, &latencies, &one)) else {
        return Inferred { latencies, memory_ns, ..Inferred::default() };
    };
    // A count that no model of about the same fit has is that of another set.
    for (ways, knee) in ways.iter_mut().zip(&fit.knees).skip(1) {
        *ways = ways.filter(|w| knee.alike.iter().any(|m| m.ways == *w));
    }
    if ways.iter().skip(1).any(Option::is_some)
        && let Some(better) = knee::fit(&curve.points, &latencies, &known(curve, page_bytes, &ways))
    {
        fit = better;
    }
    let known = known(curve, page_bytes, &ways);
    let mut hidden = None;
    if fit.misfit > MISFIT
        && let Some((at, better)) = one_more(curve, &latencies, &fit, &known)
    {
        latencies.insert(at, better.0);
        (fit, hidden) = (better.1, Some(at));
    }
    let mut levels = Vec::new();
    let mut ns = fit.t0;
    let explained = fit.rms < UNEXPLAINED;
    for (i, knee) in fit.knees.iter().enumerate() {
        let plateau = (hidden.is_none()).then(|| found.get(i)).flatten();
        let latency = if explained { ns } else { latencies[i] };
        let mut level = level_of(curve, knee, explained, latency, latencies[i + 1]);
        level.level = i as u32 + 1;
        level.ns_interval = plateau.map_or((latency, latency), |p| (p.low_ns, p.high_ns));
        level.residual = Some(fit.rms);
        if hidden == Some(i) {
            level.grade = Grade::limited(Confidence::Medium, Limitation::NoPlateau);
        }
        let counted = ways.get(i).copied().flatten();
        let agreed = Some(knee.model.ways).filter(|w| knee.alike.iter().all(|m| m.ways == *w));
        level.ways = counted.or(agreed.filter(|_| explained));
        level.ways_by = match (counted, level.ways) {
            (Some(_), _) => "conflict sets".into(),
            (None, Some(_)) => "knee".into(),
            (None, None) => String::new(),
        };
        levels.push(level);
        ns += knee.step;
    }
    Inferred {
        levels,
        brackets: fit.knees.iter().map(|k| k.bracket).collect(),
        latencies,
        memory_ns,
    }
}

/// The best fit with one level more, when it explains the curve far better: its place, its latency and the fit.
fn one_more(
    curve: &Curve,
    latencies: &[f64],
    fit: &Fit,
    known: &Known<'_>,
) -> Option<(usize, (f64, Fit))> {
    let mut best: Option<(usize, (f64, Fit))> = None;
    for at in 1..latencies.len() {
        let (a, b) = (latencies[at - 1], latencies[at]);
        if b < a * LEVELS_APART * LEVELS_APART {
            continue;
        }
        for share in [0.3, 0.5, 0.7] {
            let between = a * (b / a).powf(share);
            let mut more = latencies.to_vec();
            more.insert(at, between);
            let mut ways = known.ways.to_vec();
            if ways.len() >= at {
                ways.insert(at, None);
            }
            let Some(found) = knee::fit(&curve.points, &more, &Known { ways: &ways, ..*known })
            else {
                continue;
            };
            let rising = found.knees.windows(2).all(|k| k[0].model.bytes * 2 <= k[1].model.bytes);
            let mut ns = found.t0;
            let apart = found.knees.iter().all(|k| {
                let before = ns;
                ns += k.step;
                ns > before * LEVELS_APART
            });
            // An imported curve has no variance between placements to judge its residual by.
            let needed = curve.source.is_none() || fit.rms > 2.5 * UNEXPLAINED;
            let least = best.as_ref().map_or(fit.misfit * ONE_MORE, |b| b.1.1.misfit);
            if rising && apart && needed && found.misfit < least {
                best = Some((at, (between, found)));
            }
        }
    }
    best
}

fn level_of(curve: &Curve, knee: &Knee, explained: bool, ns: f64, next_ns: f64) -> Level {
    let fast = ns + (next_ns - ns) / 10.0;
    let slow = |w: &[CurvePoint]| w.iter().all(|p| p.ns > fast);
    let past = curve.points.windows(2).position(slow).unwrap_or(curve.points.len());
    let effective_bytes = curve.points.get(past.saturating_sub(1)).map_or(0, |p| p.x);
    let sizes = || knee.alike.iter().map(|m| m.bytes).chain([knee.model.bytes]);
    let (mut low, mut high) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
    let mut grade = match (explained, low == high) {
        (true, true) => Grade::default(),
        (true, false) => Grade::limited(Confidence::Medium, Limitation::SeveralSizes),
        (false, _) => Grade::limited(Confidence::Medium, Limitation::NoModel),
    };
    if !explained {
        (low, high) = (low.min(knee.bracket.0), high.max(knee.bracket.1));
    }
    if low == high {
        // A single size is known as closely as the points lie.
        let next = curve.points.iter().map(|p| p.x).find(|x| *x > high);
        high = next.map_or(high, |x| high.max(x.min(high + high / 8) - 1));
    }
    if high > low.saturating_mul(4) {
        grade.confidence = Confidence::Low;
    }
    Level {
        bytes: knee.model.bytes,
        bytes_interval: (low, high),
        effective_bytes,
        ns,
        model: knee.model.name(),
        grade,
        ..Level::default()
    }
}

/// Access pattern in which translation and prefetchers disturb least.
pub fn low_interference(pages: Pages) -> AccessPattern {
    match pages {
        Pages::Base => AccessPattern::PageLocal,
        Pages::Huge => AccessPattern::Random,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model of the third level that begins to miss early takes the knee of the second: together they fit.
    #[test]
    fn levels_whose_models_take_each_others_knees_are_found() {
        let recorded = include_str!("../../../../fixtures/memory/l2-2m-base-pages.curve");
        let point = |line: &str| {
            let columns: Vec<f64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
            let [x, ns, low_ns, high_ns, repeats] = columns[..] else { panic!("{line}") };
            CurvePoint { x: x as u64, ns, low_ns, high_ns, repeats: repeats as u32 }
        };
        let points = recorded.lines().map(point).collect();
        let curve = Curve { points, pages: Pages::Base, ..Curve::default() };
        let found = infer(&curve, 4096, &[Some(12)]);
        let sizes: Vec<u64> = found.levels.iter().map(|l| l.bytes).collect();
        assert_eq!(sizes[..2], [48 << 10, 2 << 20], "{:#?}", found.levels);
        assert_eq!(found.levels[0].ways, Some(12));
        let holds =
            |l: &Level, bytes: u64| l.bytes_interval.0 <= bytes && bytes <= l.bytes_interval.1;
        assert!(holds(&found.levels[0], 48 << 10) && holds(&found.levels[1], 2 << 20));
    }
}
