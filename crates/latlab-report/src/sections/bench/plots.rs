//! Curves over a parameter of probes, and the map of CPU pairs.

use crate::doc::{Axis, Plot, Scale, Series, SeriesKind};
use latlab_model::bench::{BenchRow, words};
use latlab_model::record::Unit;
use std::collections::BTreeMap;

/// The parameters that a family has curves over.
pub(super) fn axes(family: &str) -> &'static [&'static str] {
    match family {
        "ctx" => &["procs"],
        "disk" => &["distance", "position"],
        _ => &["size"],
    }
}

/// A curve over a parameter, one series for each probe and set of other parameters.
pub(super) fn curves(family: &str, axis: &str, title: &str, rows: &[&BenchRow]) -> Option<Plot> {
    let mut series: BTreeMap<String, Vec<(f64, f64, f64, f64)>> = BTreeMap::new();
    let unit = rows.iter().find(|r| r.params.contains_key(axis))?.unit;
    let (scale, y) = match unit {
        Unit::Ns => (1e-3, "µs"),
        Unit::BytesPerSecond => (1e-9, "GB/s"),
        _ => return None,
    };
    for row in rows.iter().filter(|r| r.unit == unit) {
        let Some(x) = row.params.get(axis).and_then(|v| v.parse::<f64>().ok()) else { continue };
        let mut others = row.params.clone();
        others.remove(axis);
        let e = &row.estimate;
        let name = words(&row.name, &others);
        series.entry(name).or_default().push((x, e.median * scale, e.low * scale, e.high * scale));
    }
    series.retain(|_, points| points.len() >= 3);
    if series.is_empty() {
        return None;
    }
    let series = (series.into_iter())
        .map(|(name, mut points)| {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Series {
                name,
                kind: SeriesKind::Line,
                points: points.iter().map(|p| (p.0, p.1)).collect(),
                intervals: points.iter().map(|p| (p.2, p.3)).collect(),
                values: Vec::new(),
            }
        })
        .collect();
    Some(Plot {
        id: match family {
            "disk" => format!("bench-disk-{axis}"),
            _ => format!("bench-{family}"),
        },
        title: format!("{title} over {axis}"),
        description: format!("Medians with 95 % intervals, {y}, over {axis}."),
        x: Axis {
            label: if family == "disk" { format!("{axis} (% of the size)") } else { axis.into() },
            scale: match axis {
                "position" => Scale::Linear,
                "distance" => Scale::Log10,
                _ => Scale::Log2,
            },
            bytes: axis == "size",
            ..Axis::default()
        },
        y: Axis { label: y.into(), ..Axis::default() },
        series,
        marks: Vec::new(),
    })
}

/// A cell for each pair of CPUs.
pub(super) fn heat(rows: &[&BenchRow]) -> Option<Plot> {
    let mut series =
        Series { name: "round trip".into(), kind: SeriesKind::Heat, ..Series::default() };
    for row in rows {
        let pair = row.params.get("pair").and_then(|p| p.split_once('-'));
        let (a, b) = pair.and_then(|(a, b)| a.parse::<f64>().ok().zip(b.parse::<f64>().ok()))?;
        for point in [(a, b), (b, a)] {
            series.points.push(point);
            series.values.push(row.estimate.median);
        }
    }
    let axis = || Axis { label: "CPU".into(), ..Axis::default() };
    Some(Plot {
        id: "bench-cores".into(),
        title: "Cache line round trip between CPUs (ns)".into(),
        description: "Median round trip of a cache line between each pair of CPUs, in ns.".into(),
        x: axis(),
        y: axis(),
        series: vec![series],
        marks: Vec::new(),
    })
}
