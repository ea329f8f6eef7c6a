//! OS noise by source: one row for each CPU, one for each source, and the distribution.

use crate::doc::{Axis, Block, Column, Doc, Plot, Scale, Section, Series, SeriesKind, Table};
use crate::messages;
use crate::values::grouped;
use latlab_model::noise::{CpuNoise, NoiseDetail, NoiseKind, NoiseSource, NoiseTracer};
use latlab_model::run::Part;
use latlab_model::units::format_ns;
use latlab_stats::histogram::{Histogram, bucket_high};

/// Rows of the sources' table.
const ROWS: usize = 60;
/// CPUs of the plot.
const CURVES: usize = 8;

/// The sections of a `noise` part.
pub fn sections(part: &Part, d: &NoiseDetail) -> Vec<Section> {
    let mut blocks = Vec::new();
    if !part.complete {
        blocks.push(Block::Warning(
            "The measurement ended early; the results cover the time until then.".into(),
        ));
    }
    blocks.extend(messages::notes(&d.notes).into_iter().map(Block::Warning));
    blocks.push(Block::Findings(part.findings.clone()));
    blocks.push(Block::Table(by_cpu(d)));
    blocks.push(Block::Table(by_source(d)));
    blocks.extend(plot(&part.name, d));
    blocks.push(Block::Text(how(d)));
    vec![Section { id: part.name.clone(), title: part.title.clone(), blocks }]
}

/// The first screen: CPUs and sources.
pub fn screen(d: &NoiseDetail) -> Vec<Block> {
    vec![Block::Table(by_cpu(d)), Block::Table(by_source(d))]
}

/// The result in words.
pub fn summary(part: &Part, d: &NoiseDetail) -> Vec<String> {
    const FIRST: [&str; 7] = [
        "noise.limit-exceeded",
        "noise.window-limit-exceeded",
        "noise.queue-exceeded",
        "noise.interruption",
        "noise.queue",
        "noise.main-source",
        "noise.outside-kernel",
    ];
    let first = FIRST.iter().flat_map(|id| part.findings.iter().filter(move |f| f.id == *id));
    let mut words: Vec<String> = first.map(|f| format!("{}.", messages::claim(f))).collect();
    if d.cpus.iter().all(|c| c.interruptions.count == 0) {
        let limit = format_ns(d.threshold_ns as f64);
        words = vec![format!("No interruption of {limit} or more.")];
    }
    words
}

/// The state at one moment, for a display that is refreshed.
pub fn top(d: &NoiseDetail) -> Doc {
    let blocks = vec![Block::Table(by_cpu(d)), Block::Table(by_source(d))];
    let section = Section { id: "noise".into(), title: String::new(), blocks };
    Doc { title: "OS noise".into(), sections: vec![section], ..Doc::default() }
}

/// Name of a source for readers.
pub fn source_name(s: &NoiseSource) -> String {
    let kind = kind_name(s.kind);
    if s.name.is_empty() { kind.to_owned() } else { s.name.clone() }
}

/// Name of a kind of source for readers.
pub fn kind_name(kind: NoiseKind) -> &'static str {
    match kind {
        NoiseKind::OutsideKernel => "outside of the kernel",
        NoiseKind::Nmi => "NMI",
        NoiseKind::Interrupt => "interrupt",
        NoiseKind::Softirq => "softirq",
        NoiseKind::Thread => "thread",
        NoiseKind::Unknown => "unknown",
    }
}

fn percent(ns: u64, of: u64) -> String {
    format!("{:.4}", 100.0 * ns as f64 / of.max(1) as f64)
}

fn by_cpu(d: &NoiseDetail) -> Table {
    let columns = vec![
        Column::right("CPU"),
        Column::right("looped"),
        Column::right("interruptions (/s)"),
        Column::right("lost (%)"),
        Column::right("longest"),
        Column::right("worst window").optional(1),
        Column::right("outside (%)"),
        Column::right("steal").optional(2),
    ];
    let row = |c: &CpuNoise| {
        vec![
            c.cpu.to_string(),
            format_ns(c.looped_ns as f64),
            format!("{:.1}", c.rate()),
            percent(c.lost_ns, c.looped_ns),
            format_ns(c.interruptions.max as f64),
            format_ns(c.window_ns_max as f64),
            match d.traced {
                true => percent(c.of_kind(NoiseKind::OutsideKernel).0, c.looped_ns),
                false => "?".into(),
            },
            c.steal_ns.map_or("?".into(), |ns| format_ns(ns as f64)),
        ]
    };
    let caption = format!("Interruptions of {} or more by CPU", format_ns(d.threshold_ns as f64));
    Table { caption, columns, rows: d.cpus.iter().map(row).collect() }
}

fn by_source(d: &NoiseDetail) -> Table {
    let columns = vec![
        Column::right("CPU"),
        Column::left("kind"),
        Column::left("source"),
        Column::right("count (/s)"),
        Column::right("lost (%)"),
        Column::right("median"),
        Column::right("p99").optional(1),
        Column::right("maximum"),
    ];
    let mut all: Vec<(&CpuNoise, &NoiseSource)> =
        d.cpus.iter().flat_map(|c| c.sources.iter().map(move |s| (c, s))).collect();
    all.sort_by_key(|(_, s)| std::cmp::Reverse(s.total_ns));
    let value = |v: Option<u64>| v.map_or(String::new(), |v| format_ns(v as f64));
    let row = |(c, s): &(&CpuNoise, &NoiseSource)| {
        vec![
            c.cpu.to_string(),
            kind_name(s.kind).into(),
            s.name.clone(),
            format!("{:.1}", s.count as f64 * 1e9 / c.looped_ns.max(1) as f64),
            percent(s.total_ns, c.looped_ns),
            value(s.time.quantile(0.5)),
            value(s.time.quantile(0.99)),
            value(Some(s.time.max)),
        ]
    };
    Table {
        caption: "Sources, largest time first".into(),
        columns,
        rows: all.iter().take(ROWS).map(row).collect(),
    }
}

fn plot(name: &str, d: &NoiseDetail) -> Option<Block> {
    let series: Vec<Series> = (d.cpus.iter().filter(|c| c.interruptions.count > 0).take(CURVES))
        .map(|c| Series {
            name: format!("CPU {}", c.cpu),
            kind: SeriesKind::Step,
            points: exceedance(&c.interruptions, c.looped_ns),
            ..Series::default()
        })
        .collect();
    let plot = Plot {
        id: format!("{name}-exceedance"),
        title: "Interruptions longer than x".into(),
        description: "Interruptions per second that are longer than x, for each CPU.".into(),
        x: Axis { label: "length (µs)".into(), scale: Scale::Log10, ..Axis::default() },
        y: Axis { label: "per second".into(), scale: Scale::Log10, ..Axis::default() },
        series,
        marks: Vec::new(),
    };
    (!plot.series.is_empty()).then(|| Block::Plot(Box::new(plot)))
}

/// For each length in µs the interruptions per second that are at least as long.
fn exceedance(h: &Histogram, looped_ns: u64) -> Vec<(f64, f64)> {
    let mut left = h.count;
    let mut points = Vec::new();
    for &(value, n) in &h.buckets {
        let us = bucket_high(value).min(h.max) as f64 / 1e3;
        points.push((us, left as f64 * 1e9 / looped_ns.max(1) as f64));
        left = left.saturating_sub(n);
    }
    points
}

fn how(d: &NoiseDetail) -> String {
    let windows: u64 = d.cpus.iter().map(|c| c.windows).max().unwrap_or(0);
    let lengths =
        format!("{} every {}", format_ns(d.runtime_ns as f64), format_ns(d.period_ns as f64));
    if let Some(tracer) = d.tracer {
        let what = match tracer {
            NoiseTracer::Osnoise => "a loop in a kernel thread",
            NoiseTracer::Hwlat => {
                "a loop with interrupts disabled, its longest interruption in each window"
            }
        };
        return format!("The kernel's {tracer} tracer: {what}, windows of {lengths}.");
    }
    let policy = match d.priority {
        Some(p) => format!("SCHED_FIFO {p}"),
        None => "an ordinary task".to_owned(),
    };
    format!("Loop: {policy}, {} windows of {lengths}.", grouped(windows))
}
