//! `latlab fleet regressions`: the results of a lake, night by night, and what became worse.

use super::{environment, nights};
use crate::cli::Global;
use crate::outcome::{Outcome, reader_may_leave};
use crate::{output, term};
use latlab_analysis::fleet::regressions::{Alarm, Observation, Watch};
use latlab_model::control::Cleaned;
use latlab_model::fleet::Environment;
use latlab_report::doc::{Column, Table};
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// Nights from which on there are tests (`BASE`, `DIFFERENCES` of the analysis).
const TESTED: usize = 40;
/// Properties of an alarm that a table has, without `--details`.
const CHANGED: usize = 12;

/// An alarm with its days.
#[derive(Serialize)]
struct Dated {
    date: String,
    since_date: String,
    #[serde(flatten)]
    alarm: Alarm,
    environment: Environment,
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
            let environment = Environment::default();
            alarms.push(Dated { date: date.clone(), since_date, alarm, environment });
        }
    }
    let first = days.len().saturating_sub(nights);
    alarms.retain(|a| a.alarm.night >= first);
    let dates: Vec<&str> = days.keys().map(String::as_str).collect();
    let places: Vec<_> = (alarms.iter())
        .map(|a| environment::Place {
            since: a.alarm.since,
            board: &a.alarm.class,
            device: a.alarm.device.as_deref(),
        })
        .collect();
    let changes = environment::of_alarms(dir, &dates, &places)?;
    alarms.iter_mut().zip(changes).for_each(|(a, changes)| a.environment = changes);
    let any = !alarms.is_empty();
    reader_may_leave(show(global, &alarms, nights, days.len()))?;
    Ok(Outcome::Done.exceeded_if(any && fail))
}

fn show(global: &Global, alarms: &[Dated], nights: usize, all: usize) -> anyhow::Result<()> {
    let mut out = term::raw_stdout();
    if global.json {
        output::json(alarms, &mut out)?;
    } else if alarms.is_empty() && all < TESTED {
        writeln!(
            Cleaned(&mut out),
            "no alarm: {all} nights, and changes are tested from about {TESTED} on"
        )?;
    } else if alarms.is_empty() {
        writeln!(Cleaned(&mut out), "no alarm in the last {nights} of {all} nights")?;
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
        let rows: Vec<Vec<String>> = alarms.iter().rev().take(most).flat_map(changed).collect();
        if !rows.is_empty() {
            let heads =
                ["since", "board", "devices", "family", "also changed", "before", "with it", "on"];
            let columns = heads.map(Column::left).into();
            output::table(Table { columns, rows, ..Table::default() }, &mut out)?;
        }
        writeln!(
            Cleaned(&mut out),
            "{} alarms in the last {nights} of {all} nights",
            alarms.len()
        )?;
    }
    Ok(out.flush()?)
}

/// Properties that changed with an alarm, as rows.
fn changed(a: &Dated) -> Vec<Vec<String>> {
    let who = a.alarm.device.as_deref().unwrap_or("all");
    let most = if term::details() { usize::MAX } else { CHANGED };
    let all = &a.environment.changes;
    let row = |name: String, before: &str, after: &str, on: String| {
        let start = [a.since_date.as_str(), &a.alarm.class, who, &a.alarm.family];
        start
            .into_iter()
            .map(str::to_owned)
            .chain([name, before.to_owned(), after.to_owned(), on])
            .collect()
    };
    let compared = a.environment.compared;
    let or_none = |text: &str| if text.is_empty() { "-" } else { text }.to_owned();
    let mut rows: Vec<Vec<String>> = (all.iter().take(most))
        .map(|p| {
            let on = format!("{} of {compared}", p.devices);
            row(p.name.clone(), &or_none(&p.before), &or_none(&p.after), on)
        })
        .collect();
    let more = all.len().saturating_sub(most) + a.environment.more;
    if more > 0 {
        rows.push(row(format!("{more} more"), "", "", String::new()));
    }
    rows
}
