//! What all tools' histograms have in common: buckets of whole microseconds, a column a thread.

use super::error::ForeignError;
use crate::compare::sample::RunSample;
use crate::compare::subject::Source;
use latlab_model::finding::{Note, Quantity};
use latlab_model::record::{Param, Record, Unit};
use latlab_model::run::Part;
use latlab_stats::histogram::{Histogram, MOST_READ, bucket_low};
use std::collections::BTreeMap;

/// Figures of all values that a file has beside its buckets, ns.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// Smallest value.
    pub min: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Largest value; the last bucket also counts what is beyond it.
    pub max: u64,
    /// Width of a bucket.
    pub width: u64,
}

/// What a file says of one thread (or of all).
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// `(bucket, count)`.
    pub buckets: Vec<(u64, u64)>,
    /// Values that are over the last bucket.
    pub over: u64,
    /// Smallest value, in buckets.
    pub min: Option<u64>,
    /// Largest value, in buckets.
    pub max: Option<u64>,
    /// Exact figures of the only column of a file.
    pub head: Option<Head>,
}

/// A histogram file.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The tool.
    pub tool: &'static str,
    /// `wakeup.user`, `wakeup.irq`, `wakeup.kernel`.
    pub name: String,
    /// Width of a bucket, ns.
    pub step: u64,
    /// Whether a bucket's number is its middle already, not its lower end.
    pub middle: bool,
    /// One entry a thread.
    pub columns: Vec<Column>,
    /// Period, where the file tells.
    pub interval_us: Option<u64>,
}

/// The record of a table, what it cannot hold, and the number of values over the end.
fn record(table: &Table) -> Result<(Record, RunSample, u64), ForeignError> {
    let half = if table.middle { 0 } else { table.step / 2 };
    let value = |bucket: u64| bucket.saturating_mul(table.step).saturating_add(half);
    let mut buckets = BTreeMap::<u64, u64>::new();
    let mut h = Histogram { min: u64::MAX, ..Histogram::default() };
    let (mut over, mut censored) = (0u64, None::<u64>);
    let mut add = |v: u64, n: u64, h: &mut Histogram| {
        let slot = buckets.entry(bucket_low(v)).or_default();
        *slot = slot.saturating_add(n);
        h.count = h.count.saturating_add(n);
        h.sum += v as f64 * n as f64;
        h.min = h.min.min(v);
        h.max = h.max.max(v);
    };
    // All columns end at the same bucket; where empty ones are left out, the last of any is the best guess.
    let last = table.columns.iter().flat_map(|c| &c.buckets).map(|b| b.0).max().unwrap_or(0);
    let mut maximum = true;
    for c in &table.columns {
        for &(bucket, n) in c.buckets.iter().filter(|b| b.1 > 0) {
            let v = value(bucket);
            match c.head.filter(|head| bucket == last && head.max > v + head.width.div_ceil(2)) {
                // One of them is the largest; of the others only the number is known.
                Some(head) => {
                    add(head.max, 1, &mut h);
                    if n > 1 {
                        add(v, n - 1, &mut h);
                        censored = Some(v.saturating_sub(head.width / 2));
                    }
                }
                None => add(v, n, &mut h),
            }
        }
        if c.over > 0 {
            let from = value(last.saturating_add(1));
            let max = c.max.map_or(from, value).max(from);
            // One of them is the largest; of the others only the number is known.
            add(max, 1, &mut h);
            if c.over > 1 {
                add(from, c.over - 1, &mut h);
            }
            if c.over > 1 || c.max.is_none() {
                censored = Some(censored.map_or(from, |x| x.min(from)));
            }
            maximum &= c.max.is_some();
            over = over.saturating_add(c.over);
        }
    }
    if h.count == 0 {
        return Err(ForeignError::Empty { tool: table.tool });
    }
    if h.count > MOST_READ {
        return Err(ForeignError::TooMany { tool: table.tool });
    }
    h.buckets = buckets.into_iter().collect();
    if let [Column { head: Some(head), .. }] = table.columns.as_slice() {
        (h.min, h.max) = (head.min, head.max);
        h.sum = head.mean * h.count as f64;
    }
    let mut params = BTreeMap::from([(
        "threads".to_owned(),
        Param::Int(i64::try_from(table.columns.len()).unwrap_or(0)),
    )]);
    if let Some(us) = table.interval_us {
        params.insert("interval_us".to_owned(), Param::Int(i64::try_from(us).unwrap_or(0)));
    }
    let mut summary = h.summary();
    if let Some(from) = censored {
        let known = bucket_low(from) as f64;
        summary.quantiles.retain(|q| q.high < known);
        summary.median = summary.median.filter(|&m| m < known);
    }
    summary.max = summary.max.filter(|_| maximum);
    let record = Record {
        name: table.name.clone(),
        params,
        unit: Unit::Ns,
        summary,
        histogram: Some(h.clone()),
        ..Record::default()
    };
    Ok((record, RunSample::of_histogram(h, table.step, censored), over))
}

/// The note of an imported histogram; `step` in ns.
pub fn imported(tool: &str, step: f64) -> Note {
    Note::new("compare.imported-histogram").value("tool", tool).value("step", Quantity::Ns(step))
}

/// Tables of one file as one run.
pub fn source(tables: &[Table]) -> Result<Source, ForeignError> {
    let mut part = Part { name: "wakeup".into(), complete: true, ..Part::default() };
    let mut source = Source::default();
    for (i, table) in tables.iter().enumerate() {
        let (record, sample, over) = record(table)?;
        source.notes.push(imported(table.tool, table.step as f64));
        if over > 0 {
            source
                .notes
                .push(Note::new("compare.over-range").value("values", Quantity::Count(over)));
        }
        source.samples.insert((0, i), sample);
        part.results.push(record);
    }
    source.notes.dedup();
    source.run = super::imported_run::run_of(part);
    Ok(source)
}
