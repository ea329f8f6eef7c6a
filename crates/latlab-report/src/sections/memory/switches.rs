//! Context switches with working sets: what refilling adds, curves and bars by number of processes, theory beside
//! measurement, and what many processes converge to.

use crate::doc::{Axis, Block, Column, Mark, Plot, Scale, Series, SeriesKind, Table};
use crate::messages::bytes as bytes_words;
use latlab_model::cache::detail::CacheDetail;
use latlab_model::units::format_ns;
use std::collections::{BTreeMap, BTreeSet};

/// Rows of the table of theory for each working set that it shows.
const ROWS: usize = 40;

/// Everything but the tables of caches.
pub(super) fn blocks(d: &CacheDetail) -> Vec<Block> {
    let plots =
        [refill(d), heat(d), by_processes(d, SeriesKind::Line), by_processes(d, SeriesKind::Bars)];
    let mut blocks: Vec<Block> =
        plots.into_iter().flatten().map(|p| Block::Plot(Box::new(p))).collect();
    blocks.extend(theory(d).map(Block::Table));
    blocks.extend(plateaus(d).map(Block::Table));
    blocks
}

/// What a KiB of the working set adds to a switch, over the product.
pub(super) fn refill(d: &CacheDetail) -> Option<Plot> {
    let curve = &d.refill;
    (curve.len() > 2).then(|| Plot {
        id: "memory-switch".into(),
        title: "What refilling adds to a context switch".into(),
        description: "For each KiB of the working set, over processes × working set. It rises where they no longer fit into a cache together.".into(),
        x: Axis { label: "processes × working set".into(), scale: Scale::Log2, bytes: true, ..Axis::default() },
        y: Axis { label: "a KiB adds (ns)".into(), ..Axis::default() },
        series: vec![Series {
            name: "refill".into(),
            points: curve.iter().map(|c| (c.0 as f64, c.1)).collect(),
            ..Series::default()
        }],
        marks: (d.switch_knees.iter())
            .map(|k| {
                let (from, to) = (k.from_bytes as f64, k.to_bytes as f64);
                let words = format!("{} – {}", bytes_words(k.from_bytes), bytes_words(k.to_bytes));
                Mark::Band(from, to, words)
            })
            .collect(),
    })
}

/// Processes × working set.
fn heat(d: &CacheDetail) -> Option<Plot> {
    let mut procs: Vec<u32> = d.switches.iter().map(|p| p.procs).collect();
    procs.sort_unstable();
    procs.dedup();
    let lane = |n: u32| procs.iter().position(|p| *p == n).unwrap_or(0) as f64;
    (procs.len() > 1).then(|| Plot {
        id: "memory-switch-heat".into(),
        title: "A context switch by processes and working set".into(),
        description: "One switch, less the same calls and the same working set without one.".into(),
        x: Axis { label: "working set of each".into(), bytes: true, ..Axis::default() },
        y: Axis {
            label: "processes".into(),
            scale: Scale::Category,
            categories: procs.iter().map(u32::to_string).collect(),
            ..Axis::default()
        },
        series: vec![Series {
            name: "a switch (ns)".into(),
            kind: SeriesKind::Heat,
            points: d.switches.iter().map(|p| (p.bytes as f64, lane(p.procs))).collect(),
            values: d.switches.iter().map(|p| p.ns).collect(),
            ..Series::default()
        }],
        marks: vec![],
    })
}

/// A switch by number of processes: a line for each working set, or bars of two of them.
fn by_processes(d: &CacheDetail, kind: SeriesKind) -> Option<Plot> {
    let procs: BTreeSet<u32> = d.switches.iter().map(|p| p.procs).collect();
    let mut curves: BTreeMap<u64, Vec<(f64, f64)>> = BTreeMap::new();
    for p in &d.switches {
        curves.entry(p.bytes).or_default().push((f64::from(p.procs), p.ns / 1e3));
    }
    if procs.len() < 3 {
        return None;
    }
    let bars = kind == SeriesKind::Bars;
    if bars {
        // Bars of one working set can be read: of the smallest that is not empty, whose first knee is the first cache.
        curves = curves.into_iter().find(|(bytes, _)| *bytes > 0).into_iter().collect();
    }
    let lane = |n: f64| procs.iter().position(|p| f64::from(*p) == n).unwrap_or(0) as f64;
    let series: Vec<Series> = (curves.into_iter())
        .map(|(bytes, mut points)| {
            points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            if bars {
                points.iter_mut().for_each(|p| p.0 = lane(p.0));
            }
            Series { name: bytes_words(bytes), kind, points, ..Series::default() }
        })
        .collect();
    let x = if bars {
        let categories = procs.iter().map(u32::to_string).collect();
        Axis { label: "processes".into(), scale: Scale::Category, categories, ..Axis::default() }
    } else {
        Axis { label: "processes".into(), ..Axis::default() }
    };
    Some(Plot {
        id: if bars { "memory-switch-bars" } else { "memory-switch-lines" }.into(),
        title: match series.first().filter(|_| bars) {
            Some(first) => format!("A context switch with {} by number of processes", first.name),
            None => "A context switch by number of processes".into(),
        },
        description: "One switch, less the same calls and the same working set without one; a line for each working set. It rises where the working sets of all processes no longer fit into a cache together.".into(),
        x,
        y: Axis { label: "a switch (µs)".into(), ..Axis::default() },
        series,
        marks: vec![],
    })
}

/// Theory beside measurement, for the smallest and the largest working set.
fn theory(d: &CacheDetail) -> Option<Table> {
    let sizes: BTreeSet<u64> = d.switch_theory.iter().map(|t| t.bytes).collect();
    let shown: BTreeSet<u64> = sizes.first().into_iter().chain(sizes.last()).copied().collect();
    let off = |t: &latlab_model::cache::SwitchTheory| t.measured_ns / t.expected_ns - 1.0;
    let mut all: Vec<f64> = d.switch_theory.iter().map(|t| off(t).abs()).collect();
    all.sort_unstable_by(f64::total_cmp);
    let (middle, largest) = (all.get(all.len() / 2)?, all.last()?);
    let row = |t: &latlab_model::cache::SwitchTheory| {
        vec![
            bytes_words(t.bytes),
            t.procs.to_string(),
            bytes_words(t.bytes * u64::from(t.procs)),
            t.level.to_string(),
            format_ns(t.expected_ns),
            format_ns(t.measured_ns),
            format!("{:+.0} %", off(t) * 100.0),
        ]
    };
    let of = |bytes: u64| d.switch_theory.iter().filter(move |t| t.bytes == bytes).take(ROWS);
    Some(Table {
        caption: format!(
            "Theory beside measurement: an empty switch, plus the working set times one cost for the level that all working sets fit into (fitted, one number a level). Over all {} points the difference is {:.0} % in the middle, {:.0} % at most.",
            all.len(),
            middle * 100.0,
            largest * 100.0
        ),
        columns: vec![
            Column::right("working set"),
            Column::right("processes"),
            Column::right("together"),
            Column::right("level"),
            Column::right("expected"),
            Column::right("measured"),
            Column::right("difference"),
        ],
        rows: shown.into_iter().flat_map(of).map(row).collect(),
    })
}

/// What each working set converges to.
fn plateaus(d: &CacheDetail) -> Option<Table> {
    let sizes: BTreeSet<u64> = d.switches.iter().map(|p| p.bytes).collect();
    let row = |bytes: &u64| {
        let found = d.switch_plateaus.iter().find(|p| p.bytes == *bytes);
        let (ns, from) = found.map_or(("still changes".into(), String::new()), |p| {
            (format_ns(p.ns), p.from_procs.to_string())
        });
        vec![bytes_words(*bytes), ns, from]
    };
    (!d.switch_plateaus.is_empty()).then(|| Table {
        caption: "What a switch converges to as processes are added: median of the last third, where it stays within 15 %.".into(),
        columns: vec![
            Column::right("working set"),
            Column::right("a switch"),
            Column::right("from processes"),
        ],
        rows: sizes.iter().map(row).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_analysis::cache::{switch_theory, switching};
    use latlab_model::cache::SwitchPoint;

    #[test]
    fn a_plan_has_lines_bars_theory_and_plateaus() {
        let mut switches = Vec::new();
        for procs in switching::MACRO.0 {
            for kib in switching::MACRO.1 {
                let each = if procs * kib <= 32 { 0.0 } else { 60.0 };
                let ns = 2e3 + each * f64::from(*kib);
                switches.push(SwitchPoint { procs: *procs, bytes: u64::from(*kib) << 10, ns });
            }
        }
        let d = CacheDetail {
            switch_theory: switch_theory::theory(&switches, &[32 << 10]),
            switch_plateaus: switch_theory::plateaus(&switches),
            switches,
            ..CacheDetail::default()
        };
        let blocks = blocks(&d);
        let bars = blocks.iter().find_map(|b| match b {
            Block::Plot(p) if p.id == "memory-switch-bars" => Some(p),
            _ => None,
        });
        assert_eq!(bars.unwrap().series[0].points.len(), 13);
        let tables: Vec<&Table> = blocks
            .iter()
            .filter_map(|b| if let Block::Table(t) = b { Some(t) } else { None })
            .collect();
        assert!(tables[0].caption.contains("0 % at most"), "{}", tables[0].caption);
        let at = |n: usize| tables[0].rows.iter().find(|r| r[1] == n.to_string()).unwrap();
        assert_eq!(
            (at(16)[3].as_str(), at(24)[3].as_str()),
            ("1", "2"),
            "2 KiB × 16 fill the cache"
        );
        assert_eq!(tables[1].rows.len(), 7);
    }
}
