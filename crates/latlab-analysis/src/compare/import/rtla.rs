//! The table of `rtla timerlat hist`: columns `IRQ-`, `Thr-`, `Usr-` and a CPU, rows of whole µs.

use super::error::{Damage, ForeignError};
use super::histogram::{Column, Table, source};
use crate::compare::subject::Source;
use std::collections::BTreeMap;

const TOOL: &str = "rtla";

pub fn read(text: &str) -> Result<Source, ForeignError> {
    let mut heads: Vec<String> = Vec::new();
    let mut columns: Vec<Column> = Vec::new();
    let mut step = 1_000;
    for (i, line) in text.lines().enumerate() {
        let damaged = |what: Damage| ForeignError::Damaged { tool: TOOL, line: i + 1, what };
        if line.starts_with("# Time unit is nanoseconds") {
            step = 1;
        }
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        match first {
            "Index" => {
                heads = words.map(str::to_owned).collect();
                columns = vec![Column::default(); heads.len()];
            }
            // What follows is the same over all CPUs.
            "ALL:" => break,
            "over:" | "min:" | "max:" => {
                for (c, word) in columns.iter_mut().zip(words).filter(|(_, w)| *w != "-") {
                    let v = word.parse().map_err(|_| damaged(Damage::Value))?;
                    match first {
                        "over:" => c.over = v,
                        "min:" => c.min = Some(v),
                        _ => c.max = Some(v),
                    }
                }
            }
            _ if first.starts_with(|c: char| c.is_ascii_digit()) => {
                let bucket: u64 = first.parse().map_err(|_| damaged(Damage::Bucket))?;
                let counts: Vec<&str> = words.collect();
                if counts.len() != columns.len() {
                    return Err(damaged(Damage::Columns));
                }
                for (c, word) in columns.iter_mut().zip(counts).filter(|(_, w)| *w != "-") {
                    let n = word.parse().map_err(|_| damaged(Damage::Count))?;
                    c.buckets.push((bucket, n));
                }
            }
            _ => {}
        }
    }
    let mut tables: BTreeMap<&str, Table> = BTreeMap::new();
    for (head, column) in heads.iter().zip(columns) {
        let name = match head.split('-').next() {
            Some("IRQ") => "wakeup.irq",
            Some("Thr") => "wakeup.kernel",
            _ => "wakeup.user",
        };
        let new = || Table { tool: TOOL, name: name.to_owned(), step, ..Table::default() };
        tables.entry(name).or_insert_with(new).columns.push(column);
    }
    let tables: Vec<Table> = tables.into_values().collect();
    if tables.is_empty() {
        return Err(ForeignError::Empty { tool: TOOL });
    }
    source(&tables)
}
