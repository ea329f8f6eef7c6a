//! Numbers of pages: levels and changes.

use latlab_model::fleet::{Line, Metric};
use latlab_stats::quantile::median;

/// Changes that are listed.
pub(super) const LEAST: f64 = 0.02;

/// Levels of the first 30 and the last 7 nights.
pub(super) fn ends(line: &Line) -> (Option<f64>, Option<f64>) {
    let level = |points: &[latlab_model::fleet::Point]| {
        median(&points.iter().map(|p| f64::from(p.middle)).collect::<Vec<_>>())
    };
    let n = line.points.len();
    (level(&line.points[..n.min(30)]), level(&line.points[n.saturating_sub(7)..]))
}

/// How much worse the last nights are than the first ones; `None` where there are fewer than 14.
pub(super) fn drift(metric: &Metric, line: &Line) -> Option<f64> {
    let (Some(first), Some(last)) = ends(line) else { return None };
    if line.points.len() < 14 {
        return None;
    }
    worse(metric, first, last)
}

/// How much worse a value is than another; `None` for values that have no ratio.
pub(super) fn worse(metric: &Metric, before: f64, after: f64) -> Option<f64> {
    let ratio = if metric.larger_is_better { before / after } else { after / before };
    ratio.is_finite().then_some(ratio - 1.0)
}
