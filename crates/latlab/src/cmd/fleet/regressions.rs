//! `latlab fleet regressions`: the results of a lake, night by night, and what became worse.

use super::nights;
use crate::cli::Global;
use crate::outcome::{Outcome, reader_may_leave};
use crate::{output, term};
use latlab_analysis::fleet::regressions::{Alarm, Observation, Watch};
use latlab_report::doc::{Column, Table};
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// An alarm with its days.
#[derive(Serialize)]
struct Dated {
    date: String,
    since_date: String,
    #[serde(flatten)]
    alarm: Alarm,
}

/// Reads all nights and reports.
///
/// # Errors
/// When there is no lake, or a file of it is damaged.
pub fn run(global: &Global, dir: &Path, nights: usize, fail: bool) -> anyhow::Result<Outcome> {
    let days = nights::days(dir)?;
    let dates: Vec<&String> = days.keys().collect();
    let (mut watch, mut alarms) = (Watch::default(), Vec::new());
    for (date, parts) in &days {
        let values = nights::read(dir, date, parts, |named| watch.series(&named.key()))?;
        let observations: Vec<Observation> = (values.iter())
            .map(|v| Observation {
                series: v.series,
                kernel: watch.kernel(&v.kernel),
                value: v.value,
            })
            .collect();
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
