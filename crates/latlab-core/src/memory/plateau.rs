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

/// Memory takes at least this many times what the last cache does. What lies nearer to it is no cache
/// but the last one, partly taken by others: on one shared machine 88 ns before 126 ns of memory.
const MEMORY_APART: f64 = 1.5;

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

/// Plateaus of a curve, rising in size and in latency. The points must be rising in `x`.
pub fn plateaus(points: &[CurvePoint]) -> Vec<Plateau> {
    if points.len() < 3 {
        return Vec::new();
    }
    let logs: Vec<f64> = points.iter().map(|p| p.ns.max(1e-3).ln()).collect();
    let logs = changepoint::clip_outliers(&logs, 0.25);
    let sd = changepoint::noise(&logs).clamp(0.01, 0.1);
    let penalty = 3.0 * sd * sd * (points.len() as f64).ln();
    let segments = changepoint::segments(&logs, penalty);
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
    let found = joined.into_iter().filter(long).filter(level).map(|(first, last)| {
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
    });
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

/// Slope of the logarithm of the latency over that of the size, by least squares.
fn slope(points: &[CurvePoint], first: usize, last: usize) -> f64 {
    let xy =
        || points[first..=last].iter().map(|p| ((p.x.max(1) as f64).ln(), p.ns.max(1e-3).ln()));
    let n = (last - first + 1) as f64;
    let (mx, my) = (xy().map(|p| p.0).sum::<f64>() / n, xy().map(|p| p.1).sum::<f64>() / n);
    let var: f64 = xy().map(|p| (p.0 - mx).powi(2)).sum();
    if var > 0.0 { xy().map(|p| (p.0 - mx) * (p.1 - my)).sum::<f64>() / var } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_flat_memory_has_one_level_and_a_ramp_is_none() {
        assert_eq!(plateaus(&curve(|_| 60.0)).len(), 1);
        let ramp = curve(|x| (x / 4096.0).powf(0.5));
        assert!(plateaus(&ramp).len() <= 1, "{:?}", plateaus(&ramp));
    }
}
