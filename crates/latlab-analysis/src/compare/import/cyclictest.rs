//! The histogram of `cyclictest -h`: one row a microsecond, one column a thread, figures behind `#`.

use super::error::{Damage, ForeignError};
use super::histogram::{Column, Table, source};
use crate::compare::subject::Source;

const TOOL: &str = "cyclictest";

pub fn read(text: &str) -> Result<Source, ForeignError> {
    let mut columns: Vec<Column> = Vec::new();
    let mut nanoseconds = false;
    for (i, line) in text.lines().enumerate() {
        let damaged = |what: Damage| ForeignError::Damaged { tool: TOOL, line: i + 1, what };
        let line = line.trim();
        if let Some(rest) = line.strip_prefix('#') {
            figures(rest.trim(), &mut columns).ok_or_else(|| damaged(Damage::Value))?;
            nanoseconds |= rest.contains("nanosec");
            continue;
        }
        if line.is_empty() || !line.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let row: Option<Vec<u64>> = line.split_whitespace().map(|w| w.parse().ok()).collect();
        let row = row.ok_or_else(|| damaged(Damage::Row))?;
        let Some((&bucket, counts)) = row.split_first().filter(|(_, c)| !c.is_empty()) else {
            return Err(damaged(Damage::Short));
        };
        if columns.is_empty() {
            columns.resize(counts.len(), Column::default());
        }
        if counts.len() != columns.len() {
            return Err(damaged(Damage::Columns));
        }
        for (c, &n) in columns.iter_mut().zip(counts) {
            c.buckets.push((bucket, n));
        }
    }
    total_away(&mut columns);
    let step = if nanoseconds { 1 } else { 1_000 };
    let table = Table { tool: TOOL, name: "wakeup.user".into(), step, columns, ..Table::default() };
    source(&[table])
}

/// `Min Latencies: 00019 00014` and its like; `None` when a figure is no number.
fn figures(rest: &str, columns: &mut [Column]) -> Option<()> {
    let Some((name, values)) = rest.split_once(':') else { return Some(()) };
    let set: fn(&mut Column, u64) = match name {
        "Min Latencies" => |c, v| c.min = Some(v),
        "Max Latencies" => |c, v| c.max = Some(v),
        "Histogram Overflows" => |c, v| c.over = v,
        _ => return Some(()),
    };
    for (c, word) in columns.iter_mut().zip(values.split_whitespace()) {
        set(c, word.parse().ok()?);
    }
    Some(())
}

/// `-H` adds a column over all threads: it is no thread.
fn total_away(columns: &mut Vec<Column>) {
    let Some((last, threads)) = columns.split_last().filter(|(_, t)| t.len() > 1) else { return };
    let sums = |i: usize| threads.iter().map(|t| t.buckets[i].1).fold(0u64, u64::saturating_add);
    let is_total = (0..last.buckets.len()).all(|i| sums(i) == last.buckets[i].1);
    if is_total && last.buckets.iter().any(|b| b.1 > 0) {
        columns.pop();
    }
}
