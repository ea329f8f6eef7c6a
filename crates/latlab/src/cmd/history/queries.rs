//! What is asked of a store. Every query meets an index; see the test below.

use super::store::{Cell, Store};
use crate::outcome::{HintExt, Outcome};
use crate::{output, term};
use anyhow::anyhow;
use latlab_core::history::{Trend, Value, trend, unit_of};
use latlab_export::results::Row;
use latlab_report::doc::{Block, Column, Doc, Section, Table as DocTable};
use latlab_report::sections::figure;
use std::collections::BTreeMap;
use std::io::Write;

pub const LIST: &str = "SELECT id, started, host, board, kernel, command, complete, path FROM runs ORDER BY started DESC LIMIT ?1";
pub const LIST_BOARD: &str = "SELECT id, started, host, board, kernel, command, complete, path FROM runs WHERE board = ?2 OR host = ?2 ORDER BY started DESC LIMIT ?1";
pub const SHOW: &str = "SELECT part, name, params, unit, count, min, median, p99, p999, max FROM results WHERE run_id = ?1 ORDER BY part, name, params";
pub const FIND: &str = "SELECT id, path FROM runs WHERE id = ?1 OR path = ?2";
pub const NAMES: &str =
    "SELECT name, unit, COUNT(*) FROM results GROUP BY name, unit ORDER BY name";
pub const NAMES_BOARD: &str = "SELECT name, unit, COUNT(*) FROM results JOIN runs ON runs.id = run_id WHERE board = ?1 OR host = ?1 GROUP BY name, unit ORDER BY name";
pub const TREND: &str = "SELECT part, params, unit, started, kernel, path, host, board, min, median, p99, p999, max FROM results JOIN runs ON runs.id = run_id WHERE name = ?1 ORDER BY started";
pub const ALL: &str = "SELECT started, host, board, kernel, arch, command, path, part, name, params, unit, count, min, median, p99, p999, max FROM results JOIN runs ON runs.id = run_id ORDER BY started";

/// Rows for a person, or for a script.
pub struct Table {
    title: String,
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Prints it.
    ///
    /// # Errors
    /// stdout's.
    pub fn print(&self, json: bool) -> anyhow::Result<Outcome> {
        let mut out = term::stdout();
        if json {
            let rows: Vec<BTreeMap<&str, &String>> =
                self.rows.iter().map(|r| self.heads.iter().copied().zip(r).collect()).collect();
            crate::output::json(&rows, &mut out)?;
        } else {
            let table = DocTable {
                caption: String::new(),
                columns: self.heads.iter().map(|h| Column::left(*h)).collect(),
                rows: self.rows.clone(),
            };
            let section = Section {
                id: "history".into(),
                title: self.title.clone(),
                blocks: vec![Block::Table(table)],
            };
            output::document(&Doc { sections: vec![section], ..Doc::default() }, &mut out)?;
        }
        out.flush()?;
        Ok(Outcome::Done)
    }
}

/// Runs, the latest first.
pub fn list(store: &mut Store, board: Option<&str>, limit: u32) -> anyhow::Result<Table> {
    let mut args = vec![Cell::Int(i64::from(limit))];
    args.extend(board.map(Cell::from));
    let found = store.query(if board.is_some() { LIST_BOARD } else { LIST }, &args)?;
    let row = |r: &Vec<Cell>| {
        let complete = if r[6].int() == 1 { "" } else { "cut short" };
        vec![
            r[0].int().to_string(),
            r[1].text(),
            r[2].text(),
            r[3].text(),
            r[4].text(),
            r[5].text(),
            complete.to_owned(),
            r[7].text(),
        ]
    };
    Ok(Table {
        title: "Runs".into(),
        heads: vec!["run", "started", "host", "board", "kernel", "command", "", "path"],
        rows: found.iter().map(row).collect(),
    })
}

/// The results of a run.
///
/// # Errors
/// When there is no such run.
pub fn show(store: &mut Store, run: &str) -> anyhow::Result<Table> {
    let number = run.parse().unwrap_or(-1);
    let found = store.query(FIND, &[Cell::Int(number), Cell::from(run)])?;
    let first = found
        .first()
        .ok_or_else(|| anyhow!("{run}: no run of this number or directory"))
        .hint("latlab history list names them")?;
    let rows = store.query(SHOW, &first[..1])?;
    let row = |r: &Vec<Cell>| {
        let unit = unit_of(&r[3].text());
        let mut cells = vec![r[0].text(), r[1].text(), r[2].text(), r[4].int().to_string()];
        cells.extend(r[5..].iter().map(|c| c.real().map_or("-".into(), |v| figure(v, unit))));
        cells
    };
    Ok(Table {
        title: format!("Results of {}", first[1].text()),
        heads: vec![
            "part",
            "name",
            "parameters",
            "samples",
            "min",
            "median",
            "p99",
            "p99.9",
            "max",
        ],
        rows: rows.iter().map(row).collect(),
    })
}

/// Names of results.
pub fn names(store: &mut Store, board: Option<&str>) -> anyhow::Result<Table> {
    let args: Vec<Cell> = board.map(Cell::from).into_iter().collect();
    let found = store.query(if board.is_some() { NAMES_BOARD } else { NAMES }, &args)?;
    let row = |r: &Vec<Cell>| vec![r[0].text(), r[1].text(), r[2].int().to_string()];
    Ok(Table {
        title: "Results by name".into(),
        heads: vec!["name", "unit", "results"],
        rows: found.iter().map(row).collect(),
    })
}

/// Which series.
pub struct Asked<'a> {
    /// Name of the record.
    pub name: &'a str,
    /// `key=value`, all of which it must have.
    pub params: &'a [String],
    /// Board or host.
    pub board: Option<&'a str>,
    /// Which figure.
    pub figure: &'a str,
}

/// One trend for each board, part and set of parameters.
///
/// # Errors
/// When there is no such result.
pub fn trends(store: &mut Store, asked: &Asked) -> anyhow::Result<Vec<Trend>> {
    let column = 8 + ["min", "median", "p99", "p999", "max"]
        .iter()
        .position(|f| *f == asked.figure)
        .unwrap_or(1);
    let mut series: BTreeMap<(String, String, String, String), Vec<Value>> = BTreeMap::new();
    for r in store.query(TREND, &[Cell::from(asked.name)])? {
        let (params, host, board) = (r[1].text(), r[6].text(), r[7].text());
        let here = asked.board.is_none_or(|b| b == board || b == host);
        let fits = asked.params.iter().all(|p| params.split(',').any(|have| have == p));
        if let Some(value) = r[column].real().filter(|_| here && fits) {
            let machine = if board.is_empty() { host } else { board };
            let key = (machine, r[0].text(), params, r[2].text());
            series.entry(key).or_default().push(Value {
                started: r[3].text(),
                kernel: r[4].text(),
                path: r[5].text(),
                value,
            });
        }
    }
    if series.is_empty() {
        return Err(anyhow!(
            "{}: no result of this name (with these parameters, on this board, with a {})",
            asked.name,
            asked.figure
        ))
        .hint("latlab history trend names those that there are");
    }
    let of = |((machine, part, params, unit), values): (
        (String, String, String, String),
        Vec<Value>,
    )| {
        let params = if params.is_empty() { String::new() } else { format!(":{params}") };
        let part =
            if asked.name.starts_with(part.as_str()) { String::new() } else { format!("{part}/") };
        trend(
            &format!("{part}{}{params} on {machine}", asked.name),
            asked.figure,
            unit_of(&unit),
            values,
        )
    };
    Ok(series.into_iter().map(of).collect())
}

/// All results with their runs.
pub fn everything(store: &mut Store) -> anyhow::Result<Vec<Row>> {
    let rows = store.query(ALL, &[])?;
    let row = |r: Vec<Cell>| Row {
        texts: std::array::from_fn(|i| r[i].text()),
        count: r[11].int(),
        figures: std::array::from_fn(|i| r[12 + i].real()),
    };
    Ok(rows.into_iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_core::history::{ResultRow, RunRow};
    use std::time::Instant;

    /// A thousand runs of a hundred results.
    fn large(dir: &std::path::Path) -> Store {
        let path = dir.join("h.sqlite").display().to_string();
        let mut store = Store::open(&path, true).unwrap();
        store.execute("PRAGMA synchronous = OFF", &[]).unwrap();
        for i in 0..1_000i64 {
            let run = RunRow {
                id: i,
                path: format!("runs/{i}"),
                started: format!(
                    "2026-{:02}-{:02}T00:00:{:02}Z",
                    1 + i / 84,
                    1 + i / 3 % 28,
                    i % 60
                ),
                host: format!("h{}", i % 10),
                board: format!("board {}", i % 5),
                kernel: format!("6.6.{}", i / 100),
                ..RunRow::default()
            };
            let result = |k: i64| ResultRow {
                part: "bench".into(),
                name: format!("probe.{k}"),
                params: format!("size={k}"),
                unit: "ns".into(),
                count: 30,
                median: Some(1e3 + (i * 7 + k) as f64 % 13.0),
                ..ResultRow::default()
            };
            assert!(store.add(&run, &(0..100).map(result).collect::<Vec<_>>()).unwrap());
        }
        store
    }

    #[test]
    fn a_hundred_thousand_results_are_asked_by_index() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = large(dir.path());
        let asked = Asked { name: "probe.7", params: &[], board: None, figure: "median" };
        let begun = Instant::now();
        let trends = trends(&mut store, &asked).unwrap();
        let mut times = vec![("trend", begun.elapsed())];
        assert_eq!(
            (trends.len(), trends.iter().map(|t| t.values.len()).sum::<usize>()),
            (5, 1_000)
        );
        let mut time = |name, work: &mut dyn FnMut()| {
            let begun = Instant::now();
            work();
            times.push((name, begun.elapsed()));
        };
        time("list", &mut || assert_eq!(list(&mut store, None, 50).unwrap().rows.len(), 50));
        time("list of a board", &mut || {
            assert_eq!(list(&mut store, Some("board 3"), 50).unwrap().rows.len(), 50)
        });
        time("show", &mut || assert_eq!(show(&mut store, "runs/500").unwrap().rows.len(), 100));
        time("names", &mut || assert_eq!(names(&mut store, None).unwrap().rows.len(), 100));
        time("names of a board", &mut || {
            assert_eq!(names(&mut store, Some("h3")).unwrap().rows.len(), 100)
        });
        #[expect(clippy::print_stdout, reason = "figures for who runs this test to see them")]
        for (name, time) in times {
            println!("{name}: {:.1} ms", time.as_secs_f64() * 1e3);
        }
        for sql in [SHOW, TREND, LIST] {
            let plan = store
                .query(&format!("EXPLAIN QUERY PLAN {}", sql.replace("?1", "1")), &[])
                .unwrap();
            let plan: Vec<String> = plan.iter().map(|r| r[3].text()).collect();
            assert!(plan.iter().any(|l| l.contains("USING INDEX")), "{sql}: {plan:?}");
            assert!(!plan.iter().any(|l| l == "SCAN results"), "{sql}: {plan:?}");
        }
    }
}
