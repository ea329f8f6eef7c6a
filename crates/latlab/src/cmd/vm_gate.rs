//! `latlab vm gate BEFORE AFTER`: fails a build whose kernel or driver takes a longer path.
//!
//! Meant for runs in virtual time (`icount=`), where a median is a count of
//! instructions and two boots of one kernel agree, so that no statistics are
//! needed. Runs of `latlab vm path` also have the functions of the median path: what grew is named.

use crate::cli::Global;
use crate::cli::vm::Gate;
use crate::outcome::{HintExt, Outcome, reader_may_leave};
use crate::{rundir, term};
use anyhow::anyhow;
use latlab_analysis::path;
use latlab_model::path::{FunctionChange, MachinePaths};
use latlab_model::record::Record;
use latlab_model::run::{Detail, Run};
use latlab_model::units::format_ns;
use latlab_report::junit::{self, Case};
use latlab_report::sections::path::difference;
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// One record that both runs have.
#[derive(Clone, Debug, Serialize, PartialEq)]
struct Row {
    name: String,
    params: String,
    before_ns: f64,
    after_ns: f64,
    change_percent: f64,
    over: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathRow>,
}

/// The median paths of both runs.
#[derive(Clone, Debug, Serialize, PartialEq)]
struct PathRow {
    before_instructions: u64,
    after_instructions: u64,
    changes: Vec<FunctionChange>,
}

impl PathRow {
    fn added(&self) -> i64 {
        self.after_instructions as i64 - self.before_instructions as i64
    }
}

impl Row {
    /// The verdict on one line, without the functions.
    fn sentence(&self, limit: f64) -> String {
        let verdict = if self.over { "over the limit" } else { "within the limit" };
        let (before, after) = match &self.path {
            Some(p) => (
                p.before_instructions.to_string(),
                format!("{} instructions", p.after_instructions),
            ),
            None => (format_ns(self.before_ns), format_ns(self.after_ns)),
        };
        let change = self.change_percent;
        format!("median {before} -> {after} ({change:+.2} %), {verdict} of {limit} %")
    }

    /// The functions that differ.
    fn functions(&self) -> Option<String> {
        let path = self.path.as_ref().filter(|p| !p.changes.is_empty())?;
        Some(difference(path.added(), &path.changes))
    }

    fn case(&self, limit: f64) -> Case {
        let functions = self.functions().map_or(String::new(), |f| format!("; {f}"));
        Case {
            name: format!("{} {}", self.name, self.params),
            sentence: self.sentence(limit) + &functions,
            failed: self.over,
        }
    }
}

/// Compares the medians of all wake-up records.
pub fn run(args: &Gate, global: &Global) -> anyhow::Result<Outcome> {
    let limit = percent(&args.limit)?;
    let (before, after) = (load(&args.before)?, load(&args.after)?);
    let rows = [path_rows(&before, &after, limit), rows(&before, &after, limit)].concat();
    if rows.is_empty() {
        return Err(anyhow!(
            "{} and {} have no wake-up latency in common",
            args.before.display(),
            args.after.display()
        ))
        .hint("give two runs of `latlab --on vm:NAME,icount=0 wakeup`, or of `latlab vm path`, with the same options");
    }
    if let Some(file) = &args.junit {
        let cases: Vec<Case> = rows.iter().map(|row| row.case(limit)).collect();
        rundir::write_asked(file, "--junit", |mut out| junit::gate(&cases, &mut out))?;
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
            writeln!(out, "{} {}: {}", row.name, row.params, row.sentence(limit))?;
            if let Some(functions) = row.functions() {
                writeln!(out, "  {functions}")?;
            }
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
///
/// # Errors
/// For anything else, and above 1000 %.
pub fn percent(text: &str) -> anyhow::Result<f64> {
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
            path: None,
        });
    }
    rows
}

/// The median paths of two runs of `vm path`.
fn path_rows(before: &Run, after: &Run, limit: f64) -> Vec<Row> {
    let (Some(a), Some(b)) = (first_paths(before), first_paths(after)) else { return Vec::new() };
    let counts = [a.median.instructions, b.median.instructions];
    let ns = |m: &MachinePaths, count: u64| count as f64 * m.insn_ns as f64;
    if counts[0] == 0 {
        return Vec::new();
    }
    let change = (counts[1] as f64 - counts[0] as f64) * 100.0 / counts[0] as f64;
    let params =
        if a.name == b.name { a.name.clone() } else { format!("{} -> {}", a.name, b.name) };
    vec![Row {
        name: "path.instructions".into(),
        params,
        before_ns: ns(a, counts[0]),
        after_ns: ns(b, counts[1]),
        change_percent: change,
        over: change > limit,
        path: Some(PathRow {
            before_instructions: counts[0],
            after_instructions: counts[1],
            changes: path::changes(&a.median, &b.median),
        }),
    }]
}

/// The paths of a run's first machine.
fn first_paths(run: &Run) -> Option<&MachinePaths> {
    run.parts.iter().find_map(|part| match &part.detail {
        Some(Detail::Path(detail)) => detail.machines.first(),
        _ => None,
    })
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
    fn a_longer_path_names_its_functions() {
        use latlab_model::path::{Call, PathDetail, WakePath};
        let run = |timer: u64| {
            let call = |name: &str, depth, own, total| Call {
                name: name.into(),
                depth,
                calls: 1,
                own,
                total,
            };
            let median = WakePath {
                instructions: 4400 + timer,
                tree: vec![call("irq", 0, 4400, 4400 + timer), call("ktime_get", 1, timer, timer)],
                ..WakePath::default()
            };
            let machine = MachinePaths {
                name: "armv7-rt".into(),
                insn_ns: 1,
                median,
                ..MachinePaths::default()
            };
            let detail = PathDetail { machines: vec![machine], ..PathDetail::default() };
            let detail = Some(Detail::Path(Box::new(detail)));
            Run { parts: vec![Part { detail, ..Part::default() }], ..Run::default() }
        };
        let rows = path_rows(&run(100), &run(148), 1.0);
        let [row] = rows.as_slice() else { panic!("{rows:?}") };
        assert!(row.over);
        assert_eq!(
            row.sentence(1.0),
            "median 4500 -> 4548 instructions (+1.07 %), over the limit of 1 %"
        );
        assert_eq!(row.functions().unwrap(), "+48 instructions: ktime_get from irq +48");
        assert!(row.case(1.0).failed && row.case(1.0).sentence.ends_with("ktime_get from irq +48"));
        assert!(!path_rows(&run(100), &run(148), 2.0)[0].over);
        assert_eq!(path_rows(&run(100), &run(100), 0.0)[0].functions(), None);
        assert!(path_rows(&run_of(4000.0), &run(100), 1.0).is_empty());
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
