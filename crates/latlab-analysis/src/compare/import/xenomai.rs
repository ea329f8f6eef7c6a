//! The gnuplot histogram of Xenomai's `latency -g FILE`: the middle of a bucket in µs, and its count plus one.
//!
//! Counts are one too many so that gnuplot can draw them on a logarithmic axis; the first and
//! the last row are no buckets but the ends of the first and last bucket, with a count of 1. The last bucket also
//! counts what is beyond it; minimum, mean and maximum of all values are in the head.
//!
//! And what `latency` prints: `RTD|` lines with minimum, mean and maximum of each second, from which a
//! distribution cannot be had, but the worst and the mean of each second can be compared; without
//! them the figures of the last line (`RTS|`).

use super::error::{Damage, ForeignError};
use super::histogram::{Column, Head, Table, imported, source};
use super::imported_run::run_of;
use crate::compare::subject::Source;
use latlab_model::finding::Note;
use latlab_model::record::{Param, Record, Unit};
use latlab_model::run::Part;
use latlab_stats::histogram::Summary;
use latlab_stats::quantile::median;
use std::collections::BTreeMap;

const TOOL: &str = "Xenomai's latency";

/// Two numbers a line, beginning and ending with a count of one.
pub fn looks_like(text: &str) -> bool {
    let rows: Vec<&str> =
        text.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty()).collect();
    let ends = |l: &&str| l.split_whitespace().nth(1) == Some("1");
    rows.len() >= 3
        && rows.first().is_some_and(ends)
        && rows.last().is_some_and(ends)
        && rows.iter().all(|l| row(l).is_some())
}

fn row(line: &str) -> Option<(f64, u64)> {
    let mut words = line.split_whitespace();
    let pair = (words.next()?.parse::<f64>().ok()?, words.next()?.parse().ok()?);
    (words.next().is_none() && pair.0.is_finite()).then_some(pair)
}

/// What is late, in the words of a head: of `latency`, or of EVL's `latmus`.
fn level(head: &str) -> &'static str {
    match head {
        h if h.contains("timer handler") || h.contains("(irq,") => "wakeup.irq",
        h if h.contains("in-kernel") || h.contains("(kernel,") => "wakeup.kernel",
        _ => "wakeup.user",
    }
}

/// The period in the words of a head, µs.
fn period<T: std::str::FromStr>(head: &str) -> Option<T> {
    head.split_once(" us period")?.0.rsplit(' ').next()?.parse().ok()
}

/// The lines that `latency` prints.
pub fn read_lines(text: &str) -> Result<Source, ForeignError> {
    let (mut name, mut params) = ("wakeup.user", BTreeMap::new());
    let (mut seconds, mut all) = (Vec::new(), Vec::new());
    for (i, line) in text.lines().enumerate() {
        let Some((kind, rest)) = line.trim().split_once('|') else { continue };
        if kind == "RTT" {
            name = level(rest);
            if let Some(us) = period(rest) {
                params.insert("interval_us".to_owned(), Param::Int(us));
            }
        }
        let into = match kind {
            "RTD" => &mut seconds,
            "RTS" => &mut all,
            _ => continue,
        };
        let figures =
            rest.split('|').map(|w| w.trim().parse::<f64>().ok().filter(|v| v.is_finite()));
        let figures: Option<Vec<f64>> = figures.take(3).collect();
        into.push(figures.filter(|f| f.len() == 3).ok_or_else(|| ForeignError::Damaged {
            tool: TOOL,
            line: i + 1,
            what: Damage::Line,
        })?);
    }
    let (lines, each) = if seconds.is_empty() { (&all, "") } else { (&seconds, "-each-second") };
    if lines.is_empty() {
        return Err(ForeignError::Empty { tool: TOOL });
    }
    let record = |what: &str, figure: usize| {
        let samples: Vec<f64> = lines.iter().map(|f| f[figure] * 1e3).collect();
        let summary = Summary {
            count: samples.len() as u64,
            min: samples.iter().copied().reduce(f64::min),
            median: median(&samples),
            max: samples.iter().copied().reduce(f64::max),
            ..Summary::default()
        };
        let (name, params) = ([name, ".", what, each].concat(), params.clone());
        Record { name, params, unit: Unit::Ns, samples, summary, ..Record::default() }
    };
    let results = vec![record("mean", 1), record("worst", 2)];
    let part = Part { name: "wakeup".into(), complete: true, results, ..Part::default() };
    let note = Note::new("compare.imported-lines")
        .value("tool", TOOL)
        .value("each_second", !seconds.is_empty());
    let notes = vec![note];
    Ok(Source { run: run_of(part), notes, ..Source::default() })
}

/// A histogram file of `latency -g` or `latmus -g`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plot {
    /// Middle of a bucket in ns, and its count.
    pub buckets: Vec<(u64, u64)>,
    /// Width of a bucket, ns.
    pub width_ns: f64,
    /// `wakeup.user`, `wakeup.kernel`, `wakeup.irq`.
    pub name: &'static str,
    /// Smallest and largest latency of the head, µs; below zero when the timer came early by its own calibration.
    pub range_us: Option<(f64, f64)>,
    /// Mean latency of the head, µs.
    pub mean_us: f64,
    /// Periods that were missed.
    pub overruns: u64,
    /// Switches of the task from the core to Linux, in which its latency is that of Linux.
    pub switches: u64,
    /// Period, µs.
    pub interval_us: Option<u64>,
}

/// Reads a histogram file.
pub(crate) fn plot(text: &str) -> Result<Plot, ForeignError> {
    let mut plot = Plot { name: "wakeup.user", ..Plot::default() };
    let mut rows = Vec::new();
    for (i, line) in text.lines().enumerate() {
        if let Some(head) = line.strip_prefix('#') {
            if head.contains(" us period") {
                (plot.name, plot.interval_us) = (level(head), period(head));
            }
            let figures: Vec<f64> = head.split('|').filter_map(|w| w.trim().parse().ok()).collect();
            if let [min, mean, max, overruns, switches, ..] = figures[..] {
                plot.range_us = Some((min, max)).filter(|r| r.0.is_finite() && r.1.is_finite());
                plot.mean_us = mean;
                (plot.overruns, plot.switches) = (overruns as u64, switches as u64);
            }
            continue;
        }
        if line.trim().is_empty() {
            continue;
        }
        rows.push(row(line).ok_or_else(|| ForeignError::Damaged {
            tool: TOOL,
            line: i + 1,
            what: Damage::Pair,
        })?);
    }
    if rows.len() < 3 {
        return Err(ForeignError::Empty { tool: TOOL });
    }
    let inner = &rows[1..rows.len() - 1];
    // A latency below zero counts as none.
    plot.buckets = inner.iter().map(|&(us, n)| (ns(us), n.saturating_sub(1))).collect();
    let width = inner.windows(2).map(|w| w[1].0 - w[0].0).fold(f64::INFINITY, f64::min);
    plot.width_ns = if width.is_finite() { width * 1e3 } else { 1e3 };
    Ok(plot)
}

/// ns of µs; of a latency below zero none.
pub(crate) fn ns(us: f64) -> u64 {
    (us.max(0.0) * 1e3).round() as u64
}

/// The figures of the head, if buckets and head can be of the same values.
fn head(plot: &Plot) -> Option<Head> {
    let (min, max) = plot.range_us.map(|(min, max)| (ns(min), ns(max)))?;
    let mut filled = plot.buckets.iter().filter(|b| b.1 > 0).map(|b| b.0);
    let first = filled.next()?;
    let last = filled.next_back().unwrap_or(first);
    let mean = plot.mean_us.max(0.0) * 1e3;
    let width = plot.width_ns.round().max(1.0) as u64;
    let fits = min <= first.saturating_add(width)
        && max >= last.saturating_sub(width)
        && (min as f64..=max as f64).contains(&mean);
    fits.then_some(Head { min, mean, max, width })
}

pub fn read(text: &str) -> Result<Source, ForeignError> {
    let plot = plot(text)?;
    let head = head(&plot);
    let table = Table {
        tool: TOOL,
        name: plot.name.into(),
        step: 1,
        middle: true,
        columns: vec![Column { buckets: plot.buckets, head, ..Column::default() }],
        interval_us: plot.interval_us,
    };
    let mut source = source(&[table])?;
    for sample in source.samples.values_mut() {
        sample.step = plot.width_ns.round().max(1.0) as u64;
    }
    source.notes = vec![imported(TOOL, plot.width_ns)];
    Ok(source)
}
