//! The gnuplot histogram of Xenomai's `latency -g FILE`: the middle of a bucket in µs, and its count plus one.
//!
//! Counts are one too many so that gnuplot can draw them on a logarithmic axis; the first and
//! the last row are no buckets but the ends of the first and last bucket, with a count of 1.

use super::ForeignError;
use super::histogram::{Column, Table, source};
use crate::compare::subject::Source;

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

pub fn read(text: &str) -> Result<Source, ForeignError> {
    let (mut rows, mut name, mut max, mut interval_us) = (Vec::new(), "wakeup.user", None, None);
    for (i, line) in text.lines().enumerate() {
        if let Some(head) = line.strip_prefix('#') {
            if head.contains("timer handler") {
                name = "wakeup.irq";
            } else if head.contains("in-kernel") {
                name = "wakeup.kernel";
            }
            if let Some((before, _)) = head.split_once(" us period") {
                interval_us = before.rsplit(' ').next().and_then(|w| w.parse().ok());
            }
            let figures: Vec<f64> = head.split('|').filter_map(|w| w.trim().parse().ok()).collect();
            if figures.len() >= 5 {
                max = figures.get(2).copied();
            }
            continue;
        }
        if line.trim().is_empty() {
            continue;
        }
        let what = || "a row is no pair of a latency and a count".to_owned();
        rows.push(row(line).ok_or_else(|| ForeignError::Damaged {
            tool: TOOL,
            line: i + 1,
            what: what(),
        })?);
    }
    if rows.len() < 3 {
        return Err(ForeignError::Empty { tool: TOOL });
    }
    let inner = &rows[1..rows.len() - 1];
    // A latency below zero (the timer came early by its own calibration) counts as none.
    let bucket = |us: f64| (us.max(0.0) * 1e3).round() as u64;
    let width = inner.windows(2).map(|w| w[1].0 - w[0].0).fold(f64::INFINITY, f64::min);
    let width = if width.is_finite() { width } else { 1.0 };
    let column = Column {
        buckets: inner.iter().map(|&(us, n)| (bucket(us), n.saturating_sub(1))).collect(),
        max: max.map(bucket),
        ..Column::default()
    };
    let mut table = Table {
        tool: TOOL,
        name: name.into(),
        step: 1,
        middle: true,
        columns: vec![column],
        interval_us,
    };
    table.tool = TOOL;
    let mut source = source(&[table])?;
    for sample in source.samples.values_mut() {
        sample.step = (width * 1e3).round().max(1.0) as u64;
    }
    source.notes = vec![format!("from {TOOL}: steps of {width} µs, order of values unknown")];
    Ok(source)
}
