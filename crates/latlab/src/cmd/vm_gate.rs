//! `latlab vm gate BEFORE AFTER`: fails a build whose kernel or driver takes a longer path.
//!
//! Meant for runs in virtual time (`icount=`), where a median is a count of
//! instructions and two boots of one kernel agree, so that no statistics are
//! needed. For runs with noise in them it says so.

use crate::cli::Global;
use crate::cli::vm::Gate;
use crate::outcome::{HintExt, Outcome, reader_may_leave};
use crate::{rundir, term};
use anyhow::anyhow;
use latlab_model::record::Record;
use latlab_model::run::Run;
use latlab_model::units::format_ns;
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// One record that both runs have.
#[derive(Debug, Serialize, PartialEq)]
struct Row {
    name: String,
    params: String,
    before_ns: f64,
    after_ns: f64,
    change_percent: f64,
    over: bool,
}

/// Compares the medians of all wake-up records.
pub fn run(args: &Gate, global: &Global) -> anyhow::Result<Outcome> {
    let limit = percent(&args.limit)?;
    let (before, after) = (load(&args.before)?, load(&args.after)?);
    let rows = rows(&before, &after, limit);
    if rows.is_empty() {
        return Err(anyhow!(
            "{} and {} have no wake-up latency in common",
            args.before.display(),
            args.after.display()
        ))
        .hint("give two runs of `latlab --on vm:NAME,icount=0 wakeup` with the same options");
    }
    reader_may_leave(print(&rows, limit, global.json))?;
    let over = rows.iter().any(|r| r.over);
    Ok(Outcome::Done.exceeded_if(over))
}

fn print(rows: &[Row], limit: f64, json: bool) -> anyhow::Result<()> {
    let mut out = term::stdout();
    if json {
        crate::output::json(rows, &mut out)?;
    } else {
        for row in rows {
            let verdict = if row.over { "over the limit" } else { "within the limit" };
            writeln!(
                out,
                "{} {}: median {} -> {} ({:+.2} %), {verdict} of {limit} %",
                row.name,
                row.params,
                format_ns(row.before_ns),
                format_ns(row.after_ns),
                row.change_percent,
            )?;
        }
    }
    Ok(out.flush()?)
}

fn load(path: &Path) -> anyhow::Result<Run> {
    let run = rundir::load(path)?;
    if !run.complete {
        return Err(anyhow!("{}: incomplete run", path.display()))
            .hint("measure again; an incomplete run cannot be compared");
    }
    Ok(run)
}

/// `1`, `1%` or `0.5 %`.
fn percent(text: &str) -> anyhow::Result<f64> {
    let number = text.trim().trim_end_matches('%').trim_end().parse::<f64>();
    number
        .ok()
        .filter(|p| (0.0..=1000.0).contains(p))
        .ok_or_else(|| anyhow!("--limit {text}: expected a percentage of the median"))
        .hint("write 1% or 0.5%")
}

fn rows(before: &Run, after: &Run, limit: f64) -> Vec<Row> {
    let mut rows = Vec::new();
    for record in records(before) {
        let same = |other: &&Record| other.name == record.name && other.params == record.params;
        let Some(other) = records(after).find(same) else { continue };
        let (Some(a), Some(b)) = (record.summary.median, other.summary.median) else { continue };
        if a <= 0.0 {
            continue;
        }
        // Not b / a - 1: nanoseconds differ exactly, and exactly the limit is within it.
        let change = (b - a) * 100.0 / a;
        let params: Vec<String> =
            record.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        rows.push(Row {
            name: record.name.clone(),
            params: params.join(","),
            before_ns: a,
            after_ns: b,
            change_percent: change,
            over: change > limit,
        });
    }
    rows
}

/// The wake-ups as they were counted; the same again per period says nothing new of a median.
fn records(run: &Run) -> impl Iterator<Item = &Record> {
    run.records()
        .map(|(_, record)| record)
        .filter(|r| r.name.starts_with("wakeup.") && !r.name.ends_with(".period"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::run::Part;
    use latlab_stats::histogram::Summary;

    fn run_of(median: f64) -> Run {
        let summary = Summary { median: Some(median), ..Summary::default() };
        let record = |name: &str| Record {
            name: name.into(),
            summary: summary.clone(),
            ..Record::default()
        };
        let results = vec![record("wakeup.user"), record("wakeup.user.period"), record("other")];
        Run { parts: vec![Part { results, ..Part::default() }], ..Run::default() }
    }

    #[test]
    fn a_median_over_the_limit_is_over_and_a_shorter_path_is_not() {
        let over = |after| {
            let rows = rows(&run_of(4000.0), &run_of(after), 1.0);
            assert_eq!(rows.len(), 1);
            rows[0].over
        };
        assert!(!over(4000.0));
        assert!(!over(4040.0));
        assert!(over(4044.0));
        assert!(!over(3000.0));
    }

    #[test]
    fn limits_are_shares() {
        assert_eq!(percent("1%").unwrap(), 1.0);
        assert_eq!(percent(" 0.5 % ").unwrap(), 0.5);
        for wrong in ["", "x", "-1", "nan", "2000%"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }
}
