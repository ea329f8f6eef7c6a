//! `latlab fleet regressions`: the results of a lake, night by night, and what became worse.

use super::lake;
use crate::cli::Global;
use crate::outcome::{HintExt, Outcome, reader_may_leave};
use crate::{output, term};
use anyhow::{Context, anyhow};
use latlab_analysis::fleet::regressions::{Alarm, Key, Observation, Watch};
use latlab_export::lake as tables;
use latlab_model::lake::{RESULT, Row};
use latlab_report::doc::{Column, Table};
use latlab_stats::quantile::median;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Columns of `result` that are read.
const COLUMNS: [&str; 10] = [
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
];

/// An alarm with its days.
#[derive(Serialize)]
struct Dated {
    date: String,
    since_date: String,
    #[serde(flatten)]
    alarm: Alarm,
}

/// Values of one series in a night, with the kernel of the last one.
#[derive(Default)]
struct Night {
    started: String,
    kernel: String,
    values: Vec<f64>,
}

/// Reads all nights and reports.
///
/// # Errors
/// When there is no lake, or a file of it is damaged.
pub fn run(global: &Global, dir: &Path, nights: usize, fail: bool) -> anyhow::Result<Outcome> {
    lake::existing(dir)?;
    let days = lake::parts(dir, RESULT.name)?;
    let dates: Vec<&String> = days.keys().collect();
    if dates.is_empty() {
        return Err(anyhow!("--lake {}: has no result", dir.display()))
            .hint("latlab fleet import adds runs");
    }
    let (mut watch, mut alarms) = (Watch::default(), Vec::new());
    for (date, parts) in &days {
        let observations = observe(&mut watch, dir, date, parts)?;
        for alarm in watch.night(&observations) {
            let since_date = dates.get(alarm.since).map_or(String::new(), |d| (*d).clone());
            alarms.push(Dated { date: date.clone(), since_date, alarm });
        }
    }
    let first = days.len().saturating_sub(nights);
    alarms.retain(|a| a.alarm.night >= first);
    let any = !alarms.is_empty();
    reader_may_leave(show(global, &alarms, nights, days.len()))?;
    Ok(Outcome::Done.exceeded_if(any && fail))
}

/// Medians of the runs of a night.
fn observe(
    watch: &mut Watch,
    dir: &Path,
    date: &str,
    parts: &[String],
) -> anyhow::Result<Vec<Observation>> {
    let mut found: BTreeMap<usize, Night> = BTreeMap::new();
    for part in parts {
        let path = dir.join(RESULT.name).join(format!("date={date}")).join(part);
        let file = File::open(&path).with_context(|| path.display().to_string())?;
        let rows =
            tables::read(&RESULT, &COLUMNS, file).with_context(|| path.display().to_string())?;
        for row in &rows {
            let Some(value) = value(row) else { continue };
            let params = [row[3].text(), row[5].text()].join(" ").trim().to_owned();
            let series = watch.series(&Key {
                class: row[0].text().to_owned(),
                device: row[1].text().to_owned(),
                name: row[4].text().to_owned(),
                params,
            });
            let night = found.entry(series).or_default();
            night.values.push(value);
            if row[9].text() >= night.started.as_str() {
                night.started = row[9].text().to_owned();
                night.kernel = row[2].text().to_owned();
            }
        }
    }
    let observation = |(series, night): (usize, Night)| {
        let kernel = watch.kernel(&night.kernel);
        median(&night.values).map(|value| Observation { series, kernel, value })
    };
    Ok(found.into_iter().filter_map(observation).collect())
}

/// The value that is watched, larger is worse: p99, or the median where p99 is not supported.
fn value(row: &Row) -> Option<f64> {
    let value = row[8].real().or(row[7].real()).filter(|v| *v > 0.0)?;
    Some(if row[6].flag() { 1.0 / value } else { value })
}

fn show(global: &Global, alarms: &[Dated], nights: usize, all: usize) -> anyhow::Result<()> {
    let mut out = term::stdout();
    if global.json {
        output::json(alarms, &mut out)?;
    } else if alarms.is_empty() {
        writeln!(out, "no alarm in the last {nights} of {all} nights")?;
    } else {
        let most = if term::details() { usize::MAX } else { 25 };
        let row = |a: &Dated| {
            let (first, change) = a.alarm.metrics.first().cloned().unwrap_or_default();
            vec![
                a.since_date.clone(),
                a.alarm.class.clone(),
                a.alarm.device.clone().unwrap_or_else(|| "all".into()),
                a.alarm.family.clone(),
                [a.alarm.suspects.0.as_str(), " .. ", a.alarm.suspects.1.as_str()].concat(),
                format!("{:+.0} %", 100.0 * change),
                first,
                a.alarm.metrics.len().to_string(),
            ]
        };
        let heads = [
            "since",
            "board",
            "devices",
            "family",
            "suspect kernels",
            "largest",
            "result",
            "results",
        ];
        let columns = heads.map(Column::left).into();
        let rows = alarms.iter().rev().take(most).map(row).collect();
        output::table(Table { columns, rows, ..Table::default() }, &mut out)?;
        writeln!(out, "{} alarms in the last {nights} of {all} nights", alarms.len())?;
    }
    Ok(out.flush()?)
}
