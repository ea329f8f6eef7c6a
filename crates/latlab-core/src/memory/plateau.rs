//! Plateaus of a latency curve: stretches of sizes that all cost the same.
//!
//! The logarithm of the latency is cut into segments (see [`crate::stats::changepoint`]);
//! neighbours that hardly differ are joined; what is long enough is a plateau, what lies between
//! two of them is the transition from one level to the next.

use super::curve::CurvePoint;
use crate::stats::changepoint;
use crate::stats::quantile::median;

/// Neighbouring segments closer than this factor are one: the amortised cost of translation in a
/// page-local order makes such steps, caches do not.
const SAME: f64 = 1.15;
/// Plateaus of two levels differ at least by this factor.
pub(super) const LEVELS_APART: f64 = 1.3;
/// A plateau spans at least this factor in size, unless it is the last.
const LENGTH: f64 = 1.5;

/// A plateau climbs less than this, as a power of the size: the slow ramp of a cache of few ways
/// whose pages lie at random climbs more.
const SLOPE: f64 = 0.22;

/// With more points, of more places, a plateau climbs less than this: chance made none of it.
const CLIMB: f64 = 0.5;

/// With many points a plateau spans at least this factor, about half a doubling, and so many steps.
const LEAST: f64 = 1.36;
const CELLS: usize = 4;

/// Points in each doubling of the size in which a way between two plateaus is looked at again.
pub(super) const EVENLY: f64 = 8.0;

/// What is further than this from its neighbours is an outlier, as a natural logarithm.
const WILD: f64 = 0.25;

/// Noise that is allowed at most, as share.
const NOISIEST: f64 = 0.1;

/// Memory takes at least this many times what the last cache does. What lies nearer to it is no cache but the
/// last one, partly taken by others, or memory at a quieter moment: on one shared machine 78 to 88 ns before 115
/// to 126 ns of memory.
pub(super) const MEMORY_APART: f64 = 2.0;

/// A plateau.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plateau {
    /// Index of its first point.
    pub first: usize,
    /// Index of its last point.
    pub last: usize,
    /// Size at its first point.
    pub first_x: u64,
    /// Median latency, ns.
    pub ns: f64,
    /// Lowest, ns.
    pub low_ns: f64,
    /// Highest, ns.
    pub high_ns: f64,
    /// The curve has it; otherwise only the law of a knee says that there must be one.
    pub seen: bool,
}

#[cfg(test)]
impl Plateau {
    /// One that begins at a size and takes so many ns.
    pub(super) fn at(first_x: u64, ns: f64) -> Self {
        Self { first: 0, last: 0, first_x, ns, low_ns: ns, high_ns: ns, seen: true }
    }
}

/// Plateaus of a curve, rising in size and in latency. The points must be rising in `x`.
pub fn plateaus(points: &[CurvePoint]) -> Vec<Plateau> {
    if points.len() < 3 {
        return Vec::new();
    }
    let logs: Vec<f64> = points.iter().map(|p| p.ns.max(1e-3).ln()).collect();
    let logs = changepoint::clip_outliers(&logs, WILD);
    let sd = changepoint::noise(&logs).clamp(0.01, NOISIEST);
    let first = cut(points, &logs, sd);
    let whole = |found: &[Plateau]| found.last().is_some_and(|p| p.last + 1 == points.len());
    // The end may be far noisier than the rest, and be cut to pieces by what the rest allows.
    let noisier = || {
        let wider = std::iter::successors(Some(sd * 2.0), |sd| Some(sd * 2.0));
        let mut cuts = wider.take_while(|sd| *sd < 2.0 * NOISIEST).map(|sd| cut(points, &logs, sd));
        let level = |p: &Plateau| slope(points, p.first, p.last).abs() < SLOPE;
        cuts.find(|found| {
            whole(found) && found.len() > first.len() && found.last().is_some_and(level)
        })
    };
    if whole(&first) { first } else { noisier().unwrap_or(first) }
}

/// Plateaus of a curve with noise of one standard deviation, as share.
fn cut(points: &[CurvePoint], logs: &[f64], sd: f64) -> Vec<Plateau> {
    let penalty = 3.0 * sd * sd * (points.len() as f64).ln();
    let segments = changepoint::segments(logs, penalty);
    let mean = |first: usize, last: usize| {
        logs[first..=last].iter().sum::<f64>() / (last - first + 1) as f64
    };
    let mut joined: Vec<(usize, usize)> = Vec::new();
    for s in segments {
        let (first, last) = (s.start, s.end - 1);
        match joined.last_mut() {
            // A ramp of small steps must not be swallowed: both its ends have to be near.
            Some(before)
                if (mean(first, last) - mean(before.0, before.1)).abs() < SAME.ln()
                    && (logs[last] - logs[before.0]).abs() < 2.0 * SAME.ln() =>
            {
                before.1 = last;
            }
            _ => joined.push((first, last)),
        }
    }
    let end = points.len() - 1;
    let long = |&(first, last): &(usize, usize)| {
        let factor = points[last].x as f64 / points[first].x.max(1) as f64;
        (factor >= LENGTH && last - first >= 2)
            || (last == end && last - first >= 1 && factor >= 1.15)
    };
    let level = |&(first, last): &(usize, usize)| {
        first == 0 || last == end || slope(points, first, last).abs() < SLOPE
    };
    let found = joined.into_iter().filter(long).filter(level);
    rising(found.map(|(first, last)| of(points, first, last)))
}

/// Plateaus, each of a level of its own.
fn rising(found: impl Iterator<Item = Plateau>) -> Vec<Plateau> {
    let mut levels: Vec<Plateau> = Vec::new();
    for p in found {
        match levels.last_mut() {
            // Falling or nearly level: the same level, disturbed in between.
            Some(before) if p.ns < before.ns * LEVELS_APART => {
                before.last = p.last;
                before.low_ns = before.low_ns.min(p.low_ns);
                before.high_ns = before.high_ns.max(p.high_ns);
            }
            _ => levels.push(p),
        }
    }
    levels
}

/// Plateaus of caches and, last, of memory: a stretch shortly before memory's is the way up to it.
pub fn levels(points: &[CurvePoint]) -> Vec<Plateau> {
    let mut found = plateaus(points);
    while let [.., before, last] = &found[..]
        && last.last + 1 == points.len()
        && found.len() > 2
        && last.ns < before.ns * MEMORY_APART
    {
        found.remove(found.len() - 2);
    }
    found
}

/// A plateau between two others that a closer look at the way from one to the other shows: a short one is
/// lost among few points, of which somebody else disturbed one or two. The points may crowd anywhere.
pub fn between(points: &[CurvePoint], here: Plateau, next: Plateau) -> Option<Plateau> {
    let mut even = evenly(points);
    let logs: Vec<f64> = even.iter().map(|p| p.ns.max(1e-3).ln()).collect();
    for (p, ln) in even.iter_mut().zip(changepoint::clip_outliers(&logs, WILD)) {
        p.ns = ln.exp();
    }
    let begin = even.partition_point(|p| p.x <= here.first_x);
    let apart = |ns: f64| ns > here.ns * LEVELS_APART && ns * LEVELS_APART < next.ns;
    let mut longest: Option<Plateau> = None;
    for first in begin..even.len() {
        let reach = longest.as_ref().map_or(CELLS, |p| p.last - p.first + 1);
        for last in first + reach..even.len() {
            let stretch = of(&even, first, last);
            if even[last].x as f64 >= even[first].x as f64 * LEAST
                && apart(stretch.low_ns)
                && apart(stretch.high_ns)
                && stretch.high_ns < stretch.low_ns * SAME
                && slope(&even, first, last).abs() < SLOPE
            {
                longest = Some(stretch);
            }
        }
    }
    let p = longest.filter(|p| is_flat(points, p.ns, (p.first_x, even[p.last].x)))?;
    let at = |x: u64| points.partition_point(|p| p.x < x).min(points.len() - 1);
    Some(Plateau { first: at(p.first_x), last: at(even[p.last].x), ..p })
}

/// Adds the plateaus that lie [`between`] others; the index of the first that was added.
pub(super) fn add_between(points: &[CurvePoint], found: &mut Vec<Plateau>) -> Option<usize> {
    let (mut added, mut i) = (None, 0);
    while i + 1 < found.len() {
        match between(points, found[i], found[i + 1]) {
            Some(p) => {
                found.insert(i + 1, p);
                added = added.or(Some(i + 1));
            }
            None => i += 1,
        }
    }
    added
}

/// The plateau from one point to another.
fn of(points: &[CurvePoint], first: usize, last: usize) -> Plateau {
    let values: Vec<f64> = points[first..=last].iter().map(|p| p.ns).collect();
    Plateau {
        first,
        last,
        first_x: points[first].x,
        ns: median(&values).unwrap_or(0.0),
        low_ns: values.iter().copied().fold(f64::INFINITY, f64::min),
        high_ns: values.iter().copied().fold(0.0, f64::max),
        seen: true,
    }
}

/// Whether most points between two sizes are near `ns`: what chance does to pages may look level in few points,
/// and is not in many.
fn is_flat(points: &[CurvePoint], ns: f64, (low, high): (u64, u64)) -> bool {
    let all = points.iter().filter(|p| p.x >= low && p.x <= high);
    let near = all.clone().filter(|p| (p.ns / ns).ln().abs() < SAME.ln()).count();
    near * 5 >= all.count() * 4
}

/// Whether the points between two sizes climb no more than chance makes those of a plateau climb.
pub(super) fn is_level(points: &[CurvePoint], (low, high): (u64, u64)) -> bool {
    let first = points.partition_point(|p| p.x < low);
    let last = points.partition_point(|p| p.x <= high);
    last <= first + 1 || slope(points, first, last - 1) < CLIMB
}

/// A point for each eighth of a doubling that has any, the median of those that lie in it, of two the lower:
/// what somebody else does only adds.
pub(super) fn evenly(points: &[CurvePoint]) -> Vec<CurvePoint> {
    let cell = |p: &CurvePoint| ((p.x.max(1) as f64).log2() * EVENLY).round() as i64;
    points.chunk_by(|a, b| cell(a) == cell(b)).filter_map(middle).collect()
}

fn middle(points: &[CurvePoint]) -> Option<CurvePoint> {
    let mut values: Vec<f64> = points.iter().map(|p| p.ns).collect();
    values.sort_unstable_by(f64::total_cmp);
    let ns = *values.get(points.len().saturating_sub(1) / 2)?;
    Some(CurvePoint { ns, ..*points.get(points.len() / 2)? })
}

/// Slope of the logarithm of the latency over that of the size: the median of those between any two points,
/// which a few wild ones do not change (P. K. Sen, "Estimates of the regression coefficient based on Kendall's
/// tau", JASA 63, 1968).
fn slope(points: &[CurvePoint], first: usize, last: usize) -> f64 {
    let xy: Vec<(f64, f64)> = points[first..=last]
        .iter()
        .map(|p| ((p.x.max(1) as f64).ln(), p.ns.max(1e-3).ln()))
        .collect();
    let pairs = xy.iter().enumerate().flat_map(|(i, a)| xy[i + 1..].iter().map(move |b| (a, b)));
    let slopes: Vec<f64> =
        pairs.filter(|(a, b)| b.0 > a.0).map(|(a, b)| (b.1 - a.1) / (b.0 - a.0)).collect();
    median(&slopes).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::from;

    fn curve(of: impl Fn(f64) -> f64) -> Vec<CurvePoint> {
        let sizes = (0..60).map(|i| 4096.0 * 2f64.powf(f64::from(i) / 4.0));
        sizes.filter_map(|x| CurvePoint::of(x as u64, &[of(x)])).collect()
    }

    #[test]
    fn a_staircase_has_its_steps() {
        let points = curve(|x| match x {
            x if x < 32_800.0 => 1.0,
            x if x < 300_000.0 => 4.0,
            _ => 80.0,
        });
        let found = plateaus(&points);
        let ns: Vec<f64> = found.iter().map(|p| p.ns).collect();
        assert_eq!(ns, [1.0, 4.0, 80.0]);
        assert_eq!(points[found[0].last].x, 32_768);
    }

    #[test]
    fn what_is_nearly_memory_is_no_cache_and_a_second_cache_is() {
        let stairs = |between: f64| {
            curve(move |x| match x {
                x if x < 32_800.0 => 1.0,
                x if x < 8_400_000.0 => 13.0,
                x if x < 34_000_000.0 => between,
                _ => 126.0,
            })
        };
        let of = |between| levels(&stairs(between)).iter().map(|p| p.ns).collect::<Vec<_>>();
        assert_eq!(of(88.0), [1.0, 13.0, 126.0]);
        assert_eq!(of(50.0), [1.0, 13.0, 50.0, 126.0]);
        // Of two plateaus the first is a cache, however near.
        let two = curve(|x| if x < 32_800.0 { 90.0 } else { 126.0 });
        assert_eq!(levels(&two).len(), 2);
    }

    /// A third cache of which others left 3 MiB, behind one that 4 KiB pages at random make a long ramp.
    #[test]
    fn a_closer_look_shows_a_short_plateau_between_two_others() {
        let text = include_str!("../../../../fixtures/memory/shared-host.lat_mem_rd");
        let points = from::lat_mem_rd(text, "shared").unwrap().remove(0).points;
        let at = |ns| Plateau::at(0, ns);
        let found = between(&points, at(3.77), at(125.0)).unwrap();
        assert!((found.ns - 12.5).abs() < 0.7, "{found:?}");
        assert!((1 << 20..2 << 20).contains(&found.first_x), "{found:?}");
        assert_eq!(between(&points, at(1.08), at(3.77)), None);
        assert_eq!(between(&points, at(3.77), at(found.ns)), None);
        assert_eq!(between(&points, at(found.ns), at(125.0)), None);
    }

    /// Translation, measured as what is left of much: quiet while it hits, noisy when it misses, one wild point.
    #[test]
    fn a_noisy_end_is_a_plateau_and_a_wild_point_ends_none() {
        let noise = [1.0, 1.15, 1.27, 1.6, 1.2, 1.25, 1.12, 1.02, 1.17, 1.21, 1.0, 1.18];
        let quiet = [1.0, 1.003, 0.998, 1.001];
        let points: Vec<CurvePoint> = (0..48)
            .filter_map(|i| {
                let ns = match i {
                    0..16 => 1.27 * quiet[i % 4],
                    20 => 5.7,
                    16..36 => 3.2 * quiet[i % 4],
                    _ => 11.9 * noise[i % 12],
                };
                CurvePoint::of((2.0 * 2f64.powf(i as f64 / 4.0)).round() as u64 * 100, &[ns])
            })
            .collect();
        let ns: Vec<f64> = plateaus(&points).iter().map(|p| p.ns).collect();
        let [first, second, third] = ns[..] else { panic!("{ns:?}") };
        assert!((first / 1.27 - 1.0).abs() < 0.01 && (second / 3.2 - 1.0).abs() < 0.01, "{ns:?}");
        assert!((12.0..16.0).contains(&third), "{ns:?}");
    }

    #[test]
    fn a_flat_memory_has_one_level_and_a_ramp_is_none() {
        assert_eq!(plateaus(&curve(|_| 60.0)).len(), 1);
        let ramp = curve(|x| (x / 4096.0).powf(0.5));
        assert!(plateaus(&ramp).len() <= 1, "{:?}", plateaus(&ramp));
    }
}
