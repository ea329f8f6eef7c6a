//! Plateaus of a latency curve: ranges of sizes with the same latency.
//!
//! The logarithm of the latency is cut at its change points ([`latlab_stats::change_point`]), neighbours that hardly
//! differ are joined; what is long and flat enough is a plateau. Between two plateaus lies the knee of a level.

use latlab_model::cache::detail::CurvePoint;
use latlab_stats::change_point;
use latlab_stats::quantile::median;

/// Neighbouring segments within this factor are one: amortised translation makes such steps, caches do not.
const SAME: f64 = 1.15;
/// Latencies of two levels differ at least by this factor: the smallest among the processors of the catalogue is 1.5.
pub const LEVELS_APART: f64 = 1.3;
/// A plateau spans at least this factor in size, unless it is the last.
const LENGTH: f64 = 1.5;
/// A plateau climbs less than this power of the size: a knee with random pages and few ways climbs more.
const SLOPE: f64 = 0.22;
/// Largest noise of a point, relative; also the distance from its neighbours, times 2.5, of an outlier.
const NOISIEST: f64 = 0.1;

/// A plateau.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plateau {
    /// Index of its first point.
    pub first: usize,
    /// Index of its last point.
    pub last: usize,
    /// Median latency, ns.
    pub ns: f64,
    /// Lowest, ns.
    pub low_ns: f64,
    /// Highest, ns.
    pub high_ns: f64,
}

/// Plateaus of a curve, ascending in size and latency.
pub fn plateaus(points: &[CurvePoint]) -> Vec<Plateau> {
    if points.len() < 3 {
        return Vec::new();
    }
    let logs: Vec<f64> = points.iter().map(|p| p.ns.max(1e-3).ln()).collect();
    let logs = change_point::clip_outliers(&logs, 2.5 * NOISIEST);
    let mut sd = change_point::noise(&logs).clamp(0.01, NOISIEST);
    let first = cut(points, &logs, sd);
    let whole = |found: &[Plateau]| found.last().is_some_and(|p| p.last + 1 == points.len());
    // The end can be far noisier than the rest, and is then cut to pieces.
    while sd < NOISIEST {
        sd *= 2.0;
        let wider = cut(points, &logs, sd);
        if whole(&first) {
            break;
        }
        if whole(&wider) && wider.len() > first.len() {
            return wider;
        }
    }
    first
}

fn cut(points: &[CurvePoint], logs: &[f64], sd: f64) -> Vec<Plateau> {
    let penalty = 3.0 * sd * sd * (points.len() as f64).ln();
    let mean = |a: usize, b: usize| logs[a..=b].iter().sum::<f64>() / (b - a + 1) as f64;
    let mut joined: Vec<(usize, usize)> = Vec::new();
    for s in change_point::segments(logs, penalty) {
        let (first, last) = (s.start, s.end - 1);
        match joined.last_mut() {
            // Both ends have to be near, or a ramp of small steps would become one plateau.
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
    let mut levels: Vec<Plateau> = Vec::new();
    for (first, last) in joined {
        let factor = points[last].x as f64 / points[first].x.max(1) as f64;
        let long = if last == end { last > first && factor >= SAME } else { factor >= LENGTH };
        let inner = first > 0 && last < end;
        if !long
            || last - first < usize::from(inner) * 2
            || inner && slope(points, first, last) >= SLOPE
        {
            continue;
        }
        let p = of(points, first, last);
        match levels.last_mut() {
            // Falling or nearly the same: one level with a disturbance in between.
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

fn of(points: &[CurvePoint], first: usize, last: usize) -> Plateau {
    let values: Vec<f64> = points[first..=last].iter().map(|p| p.ns).collect();
    Plateau {
        first,
        last,
        ns: median(&values).unwrap_or(0.0),
        low_ns: values.iter().copied().fold(f64::INFINITY, f64::min),
        high_ns: values.iter().copied().fold(0.0, f64::max),
    }
}

/// Slope of log latency over log size: median of those between any two points (P. K. Sen, JASA 63, 1968).
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

/// Sizes between which the curve goes from `low` to `high` of the step from t0 to t1: the last point below `low` before
/// any stays above, and the first from which on all are above `high`.
pub fn crossing(points: &[CurvePoint], t0: f64, t1: f64, low: f64, high: f64) -> (u64, u64) {
    let level = |share: f64| t0 + share * (t1 - t0);
    // Two in a row, so that an outlier ends nothing.
    let above =
        |i: usize, ns: f64| points[i].ns > ns && points.get(i + 1).is_none_or(|next| next.ns > ns);
    let first = (0..points.len()).find(|&i| above(i, level(low))).unwrap_or(points.len());
    let begin = points[first.saturating_sub(1).min(points.len() - 1)].x;
    let end = (first..points.len()).find(|&i| above(i, level(high)));
    (begin, end.map_or(points[points.len() - 1].x, |i| points[i].x))
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
        assert_eq!(found.iter().map(|p| p.ns).collect::<Vec<_>>(), [1.0, 4.0, 80.0]);
        assert_eq!(points[found[0].last].x, 32_768);
        let (low, high) = crossing(&points, 1.0, 4.0, 0.05, 0.9);
        assert!(low == 32_768 && high > low && high < 40_000, "{low} {high}");
    }

    #[test]
    fn a_constant_latency_has_one_level_and_a_ramp_none() {
        assert_eq!(plateaus(&curve(|_| 60.0)).len(), 1);
        let ramp = plateaus(&curve(|x| (x / 4096.0).powf(0.5)));
        assert!(ramp.len() <= 1, "{ramp:?}");
    }

    #[test]
    fn one_outlier_ends_no_plateau() {
        let points = curve(|x| match x {
            x if (16_000.0..17_000.0).contains(&x) => 5.0,
            x if x < 300_000.0 => 1.0,
            _ => 80.0,
        });
        let found = plateaus(&points);
        assert_eq!(found.iter().map(|p| p.ns).collect::<Vec<_>>(), [1.0, 80.0]);
    }
}
