//! The results of a lake, night by night: one value of each series.

use super::lake;
use crate::outcome::HintExt;
use anyhow::{Context, anyhow};
use latlab_analysis::fleet::overview::{Named, Value};
use latlab_export::lake as tables;
use latlab_model::lake::{RESULT, Row};
use latlab_stats::quantile::median;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Columns of `result` that are read.
const COLUMNS: [&str; 11] = [
    "board",
    "device",
    "kernel",
    "part",
    "name",
    "params",
    "larger_is_better",
    "median",
    "p99",
    "started",
    "unit",
];

/// Values of one series in a night, with the kernel of the last one.
#[derive(Default)]
struct Night {
    started: Arc<str>,
    kernel: Arc<str>,
    values: Vec<f64>,
}

/// Files by the day of their runs.
pub type Days = BTreeMap<String, Vec<String>>;

/// The files of the results of each day.
///
/// # Errors
/// When there is no lake, or no result in it.
pub fn days(dir: &Path) -> anyhow::Result<Days> {
    lake::existing(dir)?;
    let days = lake::parts(dir, RESULT.name)?;
    if days.is_empty() {
        return Err(anyhow!("--lake {}: has no result", dir.display()))
            .hint("latlab fleet import adds runs");
    }
    Ok(days)
}

/// Medians of the runs of a night, larger is worse. `series` numbers what a row is about.
///
/// # Errors
/// When a file cannot be read.
pub fn read(
    dir: &Path,
    date: &str,
    parts: &[String],
    mut series: impl FnMut(&Named) -> usize,
) -> anyhow::Result<Vec<Value>> {
    let mut found: BTreeMap<usize, Night> = BTreeMap::new();
    for part in parts {
        // Texts of one file are shared: their addresses are names.
        let mut known: HashMap<[*const u8; 6], usize> = HashMap::new();
        rows(dir, &RESULT, &COLUMNS, date, part, &mut |row| {
            let Some(value) = value(row) else { return };
            let address = |i: usize| row[i].text().as_ptr();
            let number = *known
                .entry([0, 1, 3, 4, 5, 10].map(address))
                .or_insert_with(|| series(&named(row)));
            let night = found.entry(number).or_default();
            night.values.push(value);
            if row[9].text() >= &*night.started {
                night.started = row[9].shared();
                night.kernel = row[2].shared();
            }
        })?;
    }
    let value = |(series, night): (usize, Night)| {
        Some(Value { series, kernel: night.kernel, value: median(&night.values)? })
    };
    Ok(found.into_iter().filter_map(value).collect())
}

/// Each row of a file of a lake, its texts shared.
///
/// # Errors
/// When the file cannot be read.
pub fn rows(
    dir: &Path,
    table: &latlab_model::lake::Table,
    columns: &[&str],
    date: &str,
    part: &str,
    each: &mut dyn FnMut(&Row),
) -> anyhow::Result<()> {
    let path = lake::file(dir, table.name, date, part);
    let file = File::open(&path).with_context(|| path.display().to_string())?;
    tables::for_each(table, columns, file, each).with_context(|| path.display().to_string())
}

fn named(row: &Row) -> Named<'_> {
    Named {
        board: row[0].text(),
        device: row[1].text(),
        part: row[3].text(),
        name: row[4].text(),
        params: row[5].text(),
        unit: row[10].text(),
        larger_is_better: row[6].flag(),
    }
}

/// The value that is watched, larger is worse: p99, or the median where p99 is not supported.
fn value(row: &Row) -> Option<f64> {
    let value = row[8].real().or(row[7].real()).filter(|v| *v > 0.0)?;
    Some(if row[6].flag() { 1.0 / value } else { value })
}
