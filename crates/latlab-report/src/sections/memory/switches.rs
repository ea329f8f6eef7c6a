//! Context switches with working sets: what refilling adds, curves and bars by number of processes, theory beside
//! measurement, and what many processes converge to.

use crate::doc::{Axis, Block, Column, Mark, Plot, Scale, Series, SeriesKind, Table};
use crate::messages::bytes as bytes_words;
use latlab_model::cache::detail::CacheDetail;
use latlab_model::units::format_ns;
use std::collections::BTreeSet;

/// Rows of the table of theory for each working set that it shows.
const ROWS: usize = 40;

/// Everything but the tables of caches.
pub(super) fn blocks(d: &CacheDetail) -> Vec<Block> {
    let plots = [refill(d), heat(d), lines(d)].into_iter().flatten().chain(bars(d));
    let mut blocks: Vec<Block> = plots.map(|p| Block::Plot(Box::new(p))).collect();
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

/// A switch by number of processes: a line for each working set.
fn lines(d: &CacheDetail) -> Option<Plot> {
    by_processes(d, &sizes(d), SeriesKind::Line, "memory-switch-lines", "A context switch")
}

/// Bars of the two smallest working sets, which show the first cache, and of the two largest, which show the last.
fn bars(d: &CacheDetail) -> impl Iterator<Item = Plot> + '_ {
    let sizes = sizes(d);
    let pair = |from: usize| sizes[from..sizes.len().min(from + 2)].to_vec();
    let largest = sizes.len().saturating_sub(2);
    let mut pairs = vec![("memory-switch-bars", pair(0))];
    if largest > 0 {
        pairs.push(("memory-switch-bars-large", pair(largest)));
    }
    pairs.into_iter().filter_map(move |(id, pair)| {
        let names: Vec<String> = pair.iter().map(|bytes| bytes_words(*bytes)).collect();
        let title = format!("A context switch with {}", names.join(" and "));
        by_processes(d, &pair, SeriesKind::Bars, id, &title)
    })
}

/// Working sets in rising order.
fn sizes(d: &CacheDetail) -> Vec<u64> {
    let sizes: BTreeSet<u64> = d.switches.iter().map(|p| p.bytes).collect();
    sizes.into_iter().collect()
}

/// The switches of some working sets; numbers of processes are categories where bars are drawn.
fn by_processes(
    d: &CacheDetail,
    sizes: &[u64],
    kind: SeriesKind,
    id: &str,
    title: &str,
) -> Option<Plot> {
    let procs: BTreeSet<u32> = d.switches.iter().map(|p| p.procs).collect();
    if procs.len() < 3 {
        return None;
    }
    let bars = kind == SeriesKind::Bars;
    let place = |n: u32| match procs.iter().position(|p| *p == n) {
        Some(lane) if bars => lane as f64,
        _ => f64::from(n),
    };
    let series = sizes.iter().map(|&bytes| {
        let of = d.switches.iter().filter(|p| p.bytes == bytes);
        let mut points: Vec<(f64, f64)> = of.map(|p| (place(p.procs), p.ns / 1e3)).collect();
        points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        Series { name: bytes_words(bytes), kind, points, ..Series::default() }
    });
    let mut x = Axis { label: "processes".into(), ..Axis::default() };
    if bars {
        x.scale = Scale::Category;
        x.categories = procs.iter().map(u32::to_string).collect();
    }
    Some(Plot {
        id: id.into(),
        title: format!("{title} by number of processes"),
        description: "One switch, less the same calls and the same working set without one. It rises where the working sets of all processes no longer fit into a cache together.".into(),
        x,
        y: Axis { label: "a switch (µs)".into(), ..Axis::default() },
        series: series.collect(),
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

    fn names(p: &Plot) -> Vec<&str> {
        p.series.iter().map(|s| s.name.as_str()).collect()
    }

    #[test]
    fn two_working_sets_have_one_plot_of_bars_and_three_two() {
        let with = |sizes: &[u64]| {
            let each = sizes.iter().flat_map(|kib| (2..6).map(move |procs| (procs, kib << 10)));
            let switches = each.map(|(procs, bytes)| SwitchPoint { procs, bytes, ns: 1e3 });
            let d = CacheDetail { switches: switches.collect(), ..CacheDetail::default() };
            bars(&d).map(|p| names(&p).join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(with(&[2]), ["2 KiB"]);
        assert_eq!(with(&[24, 32]), ["24 KiB 32 KiB"]);
        assert_eq!(with(&[0, 2, 4]), ["0 B 2 KiB", "2 KiB 4 KiB"]);
        assert_eq!(with(&[]), Vec::<String>::new());
    }

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
        let plot = |id: &str| {
            blocks.iter().find_map(|b| match b {
                Block::Plot(p) if p.id == id => Some(p),
                _ => None,
            })
        };
        assert_eq!(plot("memory-switch-lines").unwrap().series.len(), 7);
        let small = plot("memory-switch-bars").unwrap();
        assert_eq!(names(small), ["0 B", "2 KiB"]);
        assert_eq!(small.series[1].points.len(), 13);
        let large = plot("memory-switch-bars-large").unwrap();
        assert_eq!(names(large), ["24 KiB", "32 KiB"]);
        assert_eq!(large.title, "A context switch with 24 KiB and 32 KiB by number of processes");
        // 8 × 24 KiB: the fourth number of processes is a category, and its bar has the switch of that working set.
        assert_eq!(large.series[0].points[3], (3.0, 3.44));
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
