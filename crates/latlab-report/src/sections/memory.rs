//! Caches and TLBs: a table of levels, and the curves that they were read from.

mod loops;
mod regimes;
pub(super) mod strides;
mod switches;

use super::generic;
use crate::doc::{Axis, Block, Column, Mark, Plot, Scale, Section, Series, SeriesKind, Table};
use crate::messages::{
    self, agreement, bytes as bytes_words, cache_quantity as quantity, cache_value as value, note,
    pattern,
};
use latlab_model::cache::detail::SwitchKnee;
use latlab_model::cache::detail::{AccessPattern, CacheDetail, Curve, Level, Pages, TlbLevel};
use latlab_model::cache::reported::Comparison;
use latlab_model::run::Part;
use latlab_model::units::format_ns;

/// Curves of the plot of the first screen.
const CURVES: usize = 2;

/// Sections of a part.
pub fn sections(part: &Part, d: &CacheDetail) -> Vec<Section> {
    let mut blocks = Vec::new();
    if !part.complete {
        blocks.push(Block::Warning(
            "This part was cut short; what is below is what was measured until then.".into(),
        ));
    }
    if !d.levels.is_empty() {
        blocks.push(Block::Table(levels(d)));
    }
    if !d.tlbs.is_empty() {
        blocks.push(Block::Table(tlbs(d)));
    }
    blocks.extend(compared(d).map(Block::Table));
    blocks.push(Block::Findings(part.findings.clone()));
    blocks.extend(size_plot(d).map(|p| Block::Plot(Box::new(p))));
    blocks.extend(switches::blocks(d));
    #[cfg(feature = "host")]
    blocks.extend(super::conditions::plots("memory", &d.conditions));
    blocks.extend(heat(d).map(|p| Block::Plot(Box::new(p))));
    blocks.extend(tlb_plot(d).map(|p| Block::Plot(Box::new(p))));
    blocks.extend(parallel_table(d).map(Block::Table));
    blocks.extend(strides::blocks(d));
    blocks.extend(d.regime_map.iter().flat_map(regimes::blocks));
    blocks.extend(d.loop_times.iter().flat_map(|l| loops::blocks(l, d)));
    let title = if part.title.is_empty() { part.name.clone() } else { part.title.clone() };
    vec![Section { id: part.name.clone(), title, blocks }]
}

/// The first screen: caches and the curves by size.
pub fn screen(d: &CacheDetail) -> Vec<Block> {
    let table = (!d.levels.is_empty()).then(|| Block::Table(levels(d)));
    let mut plot = size_plot(d).or_else(|| switches::refill(d));
    // The terminal has one plot: the curves that the sizes follow from.
    if let Some(plot) = &mut plot {
        plot.series.truncate(CURVES);
    }
    table.into_iter().chain(plot.map(|p| Block::Plot(Box::new(p)))).collect()
}

/// The hierarchy in one sentence.
pub fn summary(part: &Part, d: &CacheDetail) -> Vec<String> {
    if let Some(reason) = &d.cannot_tell {
        return vec![format!("Caches are not determined here: {}.", note(&reason.note()))];
    }
    if d.levels.is_empty() && !d.switch_knees.is_empty() {
        let knee = |k: &SwitchKnee| {
            format!("{} and {}", bytes_words(k.from_bytes), bytes_words(k.to_bytes))
        };
        let knees: Vec<String> = d.switch_knees.iter().map(knee).collect();
        return vec![format!(
            "Context switches: processes × working set has knees between {}.",
            knees.join(", and between ")
        )];
    }
    if d.levels.is_empty() {
        return generic::summary(part);
    }
    let mut words: Vec<String> = d
        .levels
        .iter()
        .map(|l| format!("L{} {} ({})", l.level, bytes_words(l.bytes), format_ns(l.ns)))
        .collect();
    words.extend(d.memory_ns.map(|ns| format!("memory {}", format_ns(ns))));
    words.extend(
        d.line.as_ref().filter(|l| l.bytes > 0).map(|l| format!("lines of {} bytes", l.bytes)),
    );
    words.extend(d.tlbs.first().map(|t| format!("a first data TLB of {} entries", t.entries)));
    vec![format!("Memory: {}.", words.join(", "))]
}

pub(super) fn rate(bytes_per_s: Option<f64>) -> String {
    bytes_per_s.map_or(String::new(), |r| format!("{:.1} GB/s", r / 1e9))
}

fn levels(d: &CacheDetail) -> Table {
    let row = |l: &Level| {
        vec![
            format!("L{}", l.level),
            bytes_words(l.bytes),
            format!("{} – {}", bytes_words(l.bytes_interval.0), bytes_words(l.bytes_interval.1)),
            bytes_words(l.effective_bytes),
            l.ways.map_or("not determined".into(), |w| w.to_string()),
            format_ns(l.ns),
            rate(l.bytes_per_s),
            messages::confidence(l.grade.confidence).into(),
        ]
    };
    let mut rows: Vec<Vec<String>> = d.levels.iter().map(row).collect();
    if let Some(ns) = d.memory_ns {
        let mut cells = vec![String::new(); 8];
        (cells[0], cells[5]) = ("memory".into(), format_ns(ns));
        cells[6] = rate(d.memory_bytes_per_s);
        rows.push(cells);
    }
    Table {
        caption: "Caches as measured. Effective: the largest array within a tenth of the step above the plateau."
            .into(),
        columns: vec![
            Column::left("level"),
            Column::right("size"),
            Column::right("interval"),
            Column::right("effective").optional(1),
            Column::right("ways"),
            Column::right("latency"),
            Column::right("sequential read").optional(2),
            Column::left("confidence"),
        ],
        rows,
    }
}

fn tlbs(d: &CacheDetail) -> Table {
    let row = |t: &TlbLevel| {
        vec![
            t.level.to_string(),
            t.entries.to_string(),
            format!("{} – {}", t.entries_interval.0, t.entries_interval.1),
            bytes_words(u64::from(t.entries) * d.page_bytes),
            format_ns(t.penalty_ns),
            messages::confidence(t.grade.confidence).into(),
        ]
    };
    Table {
        caption: "Data TLBs for base pages.".into(),
        columns: vec![
            Column::left("level"),
            Column::right("entries"),
            Column::right("interval"),
            Column::right("reach"),
            Column::right("miss penalty"),
            Column::left("confidence"),
        ],
        rows: d.tlbs.iter().map(row).collect(),
    }
}

/// Each quantity as measured and as every source reports it.
fn compared(d: &CacheDetail) -> Option<Table> {
    let rows = &d.comparisons;
    let mut columns = vec![Column::left("quantity"), Column::right("measured")];
    columns.extend(d.reported.iter().map(|s| Column::right(s.source.as_str())));
    columns.push(Column::left("agreement"));
    let cells = |c: &Comparison| {
        let of = |v: u64| value(c.quantity, v);
        let mut cells = vec![quantity(c.quantity), c.measured.map_or(String::new(), |m| of(m.0))];
        cells.extend(c.reported.iter().map(|v| v.map_or(String::new(), of)));
        cells.push(agreement(c.agreement).into());
        cells
    };
    (!rows.is_empty()).then(|| Table {
        caption: "Measured and reported by the machine. Empty: not reported.".into(),
        columns,
        rows: rows.iter().map(cells).collect(),
    })
}

pub(super) fn name(c: &Curve) -> String {
    let pages = match c.pages {
        Pages::Huge => ", huge pages",
        Pages::Base => "",
    };
    match &c.source {
        Some(source) => format!("stride {} ({source})", c.stride_bytes),
        None => {
            let stores = if c.stores { ", with stores" } else { "" };
            let threads =
                if c.threads > 1 { format!(", {} CPUs", c.threads) } else { String::new() };
            let stride = if c.access == AccessPattern::Sequential && c.stride_bytes > 0 {
                format!(", stride {}", c.stride_bytes)
            } else {
                String::new()
            };
            format!("{}{stride}{pages}{stores}{threads}", pattern(c.access))
        }
    }
}

pub(super) fn series(c: &Curve) -> Series {
    let spread = c.points.iter().any(|p| p.high_ns > p.low_ns);
    Series {
        name: name(c),
        kind: SeriesKind::Line,
        points: c.points.iter().map(|p| (p.x as f64, p.ns)).collect(),
        intervals: if spread {
            c.points.iter().map(|p| (p.low_ns, p.high_ns)).collect()
        } else {
            vec![]
        },
        values: vec![],
    }
}

fn sized(d: &CacheDetail) -> impl Iterator<Item = &Curve> {
    d.curves
        .iter()
        .filter(|c| !matches!(c.access, AccessPattern::LinePerPage | AccessPattern::Dense))
}

fn size_plot(d: &CacheDetail) -> Option<Plot> {
    let series: Vec<Series> = sized(d).map(series).collect();
    let mut marks = Vec::new();
    let mut before = 1024.0;
    for l in &d.levels {
        let end = l.bytes as f64;
        if end > before {
            marks.push(Mark::Band(before, end, format!("L{} {}", l.level, bytes_words(l.bytes))));
        }
        marks.push(Mark::X(end, String::new()));
        before = end;
    }
    // What the kernel states, where it differs from what is measured.
    let sysfs = d.reported.iter().filter(|r| r.source == "sysfs").flat_map(|r| &r.caches);
    for c in sysfs.filter(|c| c.bytes > 0) {
        let measured = d.levels.iter().any(|l| l.level == c.level && l.bytes == c.bytes);
        if !measured {
            let name = format!("sysfs: L{} {}", c.level, bytes_words(c.bytes));
            marks.push(Mark::X(c.bytes as f64, name));
        }
    }
    (!series.is_empty()).then(|| Plot {
        id: "memory-latency".into(),
        title: "Latency of a load by size of the array".into(),
        description: "Plateaus are caches, and a knee is where the array no longer fits: shaded up to the measured size. A named line is a size that the kernel reports and that was not measured. Curves that differ at equal size differ in prefetching and translation.".into(),
        x: Axis { label: "array".into(), scale: Scale::Log2, bytes: true, ..Axis::default() },
        y: Axis { label: "a load (ns)".into(), scale: Scale::Log10, ..Axis::default() },
        series,
        marks,
    })
}

/// Size × stride, where several strides were measured: here, or by lat_mem_rd.
fn heat(d: &CacheDetail) -> Option<Plot> {
    let mut curves: Vec<&Curve> =
        sized(d).filter(|c| c.access == AccessPattern::Sequential).collect();
    curves.sort_unstable_by_key(|c| c.stride_bytes);
    curves.dedup_by_key(|c| c.stride_bytes);
    if curves.len() < 2 {
        return None;
    }
    let mut cells =
        Series { name: "a load (ns)".into(), kind: SeriesKind::Heat, ..Series::default() };
    for (lane, c) in curves.iter().enumerate() {
        for p in &c.points {
            cells.points.push((p.x as f64, lane as f64));
            cells.values.push(p.ns);
        }
    }
    Some(Plot {
        id: "memory-strides".into(),
        title: "Latency by size and stride".into(),
        description:
            "Loads in rising order. Below a line's size a smaller stride is faster, because several loads share one fetch; small strides are what prefetchers see.".into(),
        x: Axis { label: "array".into(), scale: Scale::Log2, bytes: true, ..Axis::default() },
        y: Axis {
            label: "stride (bytes)".into(),
            scale: Scale::Category,
            categories: curves.iter().map(|c| c.stride_bytes.to_string()).collect(),
            ..Axis::default()
        },
        series: vec![cells],
        marks: vec![],
    })
}

fn tlb_plot(d: &CacheDetail) -> Option<Plot> {
    let curve = d.curves.iter().find(|c| c.access == AccessPattern::LinePerPage)?;
    Some(Plot {
        id: "memory-tlb".into(),
        title: "Translation by number of pages".into(),
        description: "One line of each page, less as many adjacent lines, on top of a hit in the first cache: steps are TLBs.".into(),
        x: Axis { label: "pages".into(), scale: Scale::Log2, ..Axis::default() },
        y: Axis { label: "a load (ns)".into(), scale: Scale::Log10, ..Axis::default() },
        series: vec![series(curve)],
        marks: (d.tlbs.iter())
            .map(|t| Mark::X(f64::from(t.entries), format!("TLB {}: {}", t.level, t.entries)))
            .collect(),
    })
}

fn parallel_table(d: &CacheDetail) -> Option<Table> {
    let one = d.parallelism.first()?.ns;
    Some(Table {
        caption: "Memory-level parallelism: independent chains of loads from memory.".into(),
        columns: vec![Column::right("chains"), Column::right("latency"), Column::right("speed-up")],
        rows: (d.parallelism.iter())
            .map(|p| {
                vec![
                    p.chains.to_string(),
                    format_ns(p.ns),
                    format!("{:.1} ×", one / p.ns.max(1e-9)),
                ]
            })
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_analysis::cache::import_lat_mem_rd::{infer, lat_mem_rd};

    #[test]
    fn old_curves_become_tables_plots_and_a_sentence() {
        let text = include_str!("../../../../fixtures/memory/beaglebone-black.lat_mem_rd");
        let detail = infer(lat_mem_rd(text, "2015").unwrap(), 4096);
        let part = Part { name: "memory".into(), complete: true, ..Part::default() };
        let said = summary(&part, &detail);
        assert!(said[0].starts_with("Memory: L1 32 KiB (3"), "{said:?}");
        let section = &sections(&part, &detail)[0];
        let plots: Vec<&str> = section
            .blocks
            .iter()
            .filter_map(|b| if let Block::Plot(p) = b { Some(p.id.as_str()) } else { None })
            .collect();
        assert_eq!(
            plots,
            ["memory-latency", "memory-strides", "memory-stride-loads", "memory-regimes"]
        );
        assert!(matches!(&section.blocks[0], Block::Table(t) if t.rows.len() == 3));
    }
}
