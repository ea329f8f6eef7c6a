//! What the size of a message does to its time: a line by least squares through the medians of one probe over its
//! sizes, with Student's interval of the slope.

use latlab_model::bench::BenchRow;
use latlab_model::finding::{Confidence, Finding, Quantity, Severity};
use latlab_model::record::Unit;
use latlab_stats::student::student_upper;
use std::collections::BTreeMap;

/// Sizes that a line needs, at least.
const LEAST: usize = 6;
/// A change over all sizes below this share is negligible.
const FLAT: f64 = 0.05;
/// Probes of these families have messages.
const FAMILY: &str = "ipc.";

/// A probe with its other parameters.
type Kind = (String, Vec<(String, String)>);

/// One finding for each probe of messages that was measured with six sizes or more.
pub fn findings(rows: &[BenchRow]) -> Vec<Finding> {
    let mut curves: BTreeMap<Kind, Vec<(f64, f64)>> = BTreeMap::new();
    for row in rows.iter().filter(|r| r.name.starts_with(FAMILY) && r.unit == Unit::Ns) {
        let Some(size) = row.params.get("size").and_then(|s| s.parse::<f64>().ok()) else {
            continue;
        };
        let others = row.params.iter().filter(|(k, _)| *k != "size");
        let others = others.map(|(k, v)| (k.clone(), v.clone())).collect();
        curves.entry((row.name.clone(), others)).or_default().push((size, row.estimate.median));
    }
    curves.into_iter().filter_map(|((name, _), points)| finding(&name, &points)).collect()
}

fn finding(name: &str, points: &[(f64, f64)]) -> Option<Finding> {
    let n = points.len();
    if n < LEAST {
        return None;
    }
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n as f64;
    let (mx, my) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = points.iter().map(|p| (p.0 - mx).powi(2)).sum();
    if spread <= 0.0 || my <= 0.0 {
        return None;
    }
    let slope = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum::<f64>() / spread;
    let left: f64 = points.iter().map(|p| (p.1 - my - slope * (p.0 - mx)).powi(2)).sum();
    let dof = (n - 2) as f64;
    let half = student_upper(0.025, dof) * (left / dof / spread).sqrt();
    let (first, last) =
        points.iter().fold((f64::INFINITY, 0.0f64), |(low, high), p| (low.min(p.0), high.max(p.0)));
    // Over the whole range, as a share of the mean: the slope and both ends of its interval.
    let share = |slope: f64| slope * (last - first) / my;
    let (low, high) = (share(slope - half), share(slope + half));
    let flat = low > -FLAT && high < FLAT;
    let effect = match (flat, low > 0.0 || high < 0.0) {
        (true, _) => "none",
        (false, true) => "slope",
        (false, false) => "open",
    };
    Some(
        Finding::typed("bench.size-effect", Severity::Info, Confidence::Medium)
            .value("benchmark", name)
            .value("effect", effect)
            .value("sizes", Quantity::Count(n as u64))
            .value("from", Quantity::Bytes(first as u64))
            .value("to", Quantity::Bytes(last as u64))
            .value("mean", Quantity::Ns(my))
            .value("slope", Quantity::Ns(slope))
            .value("change", Quantity::Ratio(share(slope)))
            .value("low", Quantity::Ratio(low))
            .value("high", Quantity::Ratio(high)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::finding::Value;
    use latlab_stats::estimate::Estimate;

    fn rows(points: &[(u32, f64)]) -> Vec<BenchRow> {
        let row = |&(size, median): &(u32, f64)| BenchRow {
            name: "ipc.unix-stream".into(),
            params: BTreeMap::from([("size".to_owned(), size.to_string())]),
            unit: Unit::Ns,
            estimate: Estimate { median, ..Estimate::default() },
            ..BenchRow::default()
        };
        points.iter().map(row).collect()
    }

    fn effect(points: &[(u32, f64)]) -> Option<Value> {
        findings(&rows(points)).first().map(|f| f.values["effect"].clone())
    }

    #[test]
    fn the_published_round_trips_do_not_depend_on_the_size() {
        let reference = latlab_model::reference::find("beaglebone-black-2015").unwrap();
        let published: Vec<(u32, f64)> = (reference.figures.iter())
            .filter(|f| f.0 == "ipc.unix-stream")
            .map(|f| (f.1[0].1.parse().unwrap(), f.2))
            .collect();
        assert_eq!(published.len(), 22);
        assert_eq!(effect(&published), Some("none".into()));
    }

    #[test]
    fn a_copy_that_costs_is_a_slope() {
        let sizes = [64, 128, 256, 512, 1024, 2048, 4096];
        let points = sizes.map(|n| (n, 5_000.0 + f64::from(n) + f64::from(n % 3)));
        assert_eq!(effect(&points), Some("slope".into()));
        assert_eq!(effect(&points[..5]), None, "five sizes");
        let wild = [(1, 5e3), (2, 9e3), (3, 4e3), (4, 9e3), (5, 5e3), (6, 7e3)];
        assert_eq!(effect(&wild), Some("open".into()));
    }
}
