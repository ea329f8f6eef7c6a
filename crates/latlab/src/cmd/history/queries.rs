//! What is asked of a store. Every query meets an index; see the test below.

use super::store::{Cell, Store};
use crate::outcome::{HintExt, Outcome};
use crate::{output, term};
use anyhow::anyhow;
use latlab_analysis::history::{correlation, trend, unit_of};
use latlab_export::results::Row;
use latlab_model::history::{Trend, Value};
use latlab_report::doc::{Block, Column, Doc, Section, Table as DocTable};
use latlab_report::values::figure;
use std::collections::BTreeMap;
use std::io::Write;

pub const LIST: &str = "SELECT id, started, host, board, kernel, command, complete, path FROM runs ORDER BY started DESC LIMIT ?1";
pub const LIST_BOARD: &str = "SELECT id, started, host, board, kernel, command, complete, path FROM runs WHERE board = ?2 OR host = ?2 OR serial = ?2 ORDER BY started DESC LIMIT ?1";
pub const SHOW: &str = "SELECT part, name, params, unit, count, min, median, p99, p999, max FROM results WHERE run_id = ?1 ORDER BY part, name, params";
pub const FIND: &str = "SELECT id, path FROM runs WHERE id = ?1 OR path = ?2";
pub const FIND_SHORT: &str = "SELECT id, path FROM runs WHERE id BETWEEN ?1 AND ?2 LIMIT 2";
pub const NAMES: &str =
    "SELECT name, unit, COUNT(*) FROM results GROUP BY name, unit ORDER BY name";
pub const NAMES_BOARD: &str = "SELECT name, unit, COUNT(*) FROM results JOIN runs ON runs.id = run_id WHERE board = ?1 OR host = ?1 OR serial = ?1 GROUP BY name, unit ORDER BY name";
pub const TREND: &str = "SELECT part, params, unit, started, kernel, path, host, board, serial, min, median, p99, p999, max FROM results JOIN runs ON runs.id = run_id WHERE name = ?1 ORDER BY started";
pub const ALL: &str = "SELECT started, host, board, kernel, arch, command, path, part, name, params, unit, count, min, median, p99, p999, max FROM results JOIN runs ON runs.id = run_id ORDER BY started";

/// Rows for a person, or for a script.
#[derive(Default)]
pub struct Table {
    title: String,
    /// What holds for all rows.
    caption: String,
    heads: Vec<&'static str>,
    /// Columns from here on are numbers.
    numbers_from: usize,
    /// Each row is one line, however long.
    one_line: bool,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Prints it.
    ///
    /// # Errors
    /// stdout's.
    pub fn print(&self, json: bool) -> anyhow::Result<Outcome> {
        let mut out = term::raw_stdout();
        if json {
            let rows: Vec<BTreeMap<&str, &String>> =
                self.rows.iter().map(|r| self.heads.iter().copied().zip(r).collect()).collect();
            crate::output::json(&rows, &mut out)?;
        } else {
            let table = DocTable {
                caption: self.caption.clone(),
                columns: (self.heads.iter().enumerate())
                    .map(|(i, h)| Column {
                        head: (*h).into(),
                        right: i >= self.numbers_from,
                        whole: self.one_line,
                        ..Column::default()
                    })
                    .collect(),
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

/// Runs, the latest first: every column for a script, for a person what fits into a terminal.
pub fn list(
    store: &mut Store,
    board: Option<&str>,
    limit: u32,
    json: bool,
) -> anyhow::Result<Table> {
    let mut args = vec![Cell::Int(i64::from(limit))];
    args.extend(board.map(Cell::from));
    let found = store.query(if board.is_some() { LIST_BOARD } else { LIST }, &args)?;
    if !json {
        return Ok(brief(&found));
    }
    let row = |r: &Vec<Cell>| {
        let complete = if r[6].int() == 1 { "" } else { "cut short" };
        let mut cells = vec![r[0].int().to_string()];
        cells.extend(r[1..6].iter().map(Cell::text));
        cells.extend([complete.to_owned(), r[7].text()]);
        cells
    };
    Ok(Table {
        heads: vec!["run", "started", "host", "board", "kernel", "command", "", "path"],
        rows: found.iter().map(row).collect(),
        ..Table::default()
    })
}

/// Short numbers, times to the minute; what all runs have in common stands above, once.
fn brief(found: &[Vec<Cell>]) -> Table {
    let parent = common_parent(found);
    let row = |r: &Vec<Cell>| {
        let mut command = cut(r[5].text().trim_start_matches("latlab "), COMMAND);
        if r[6].int() != 1 {
            command.push_str(" (cut short)");
        }
        let started = r[1].text();
        let path = r[7].text();
        vec![
            short(r[0].int()),
            started.get(..16).map_or(started.clone(), |s| s.replace('T', " ")),
            r[2].text(),
            r[3].text(),
            r[4].text(),
            command,
            path[parent.len()..].to_owned(),
        ]
    };
    let mut heads = vec!["run", "started", "host", "board", "kernel", "command", "path"];
    let mut rows: Vec<Vec<String>> = found.iter().map(row).collect();
    let mut said = Vec::new();
    for column in (2..5).rev() {
        let Some(first) = rows.first().map(|r| r[column].clone()) else { break };
        if rows.iter().all(|r| r[column] == first) && (rows.len() > 1 || first.is_empty()) {
            if !first.is_empty() {
                said.insert(0, format!("{} {first}", heads[column]));
            }
            heads.remove(column);
            rows.iter_mut().for_each(|r| drop(r.remove(column)));
        }
    }
    if !parent.is_empty() {
        said.push(format!("paths below {parent}"));
    }
    Table {
        title: "Runs".into(),
        caption: said.join(", "),
        heads,
        numbers_from: usize::MAX,
        one_line: true,
        rows,
    }
}

/// The directory that all paths of several runs have in common, with its slash.
fn common_parent(found: &[Vec<Cell>]) -> String {
    let paths: Vec<String> = found.iter().map(|r| r[7].text()).collect();
    let Some((first, rest)) = paths.split_first().filter(|(_, rest)| !rest.is_empty()) else {
        return String::new();
    };
    let mut parent = first.rfind('/').map_or("", |i| &first[..=i]);
    while !rest.iter().all(|p| p.starts_with(parent)) {
        parent = parent[..parent.len() - 1].rfind('/').map_or("", |i| &parent[..=i]);
    }
    // That paths are absolute is nothing that they have in common.
    if parent == "/" { String::new() } else { parent.to_owned() }
}

/// So much of a command line is listed.
const COMMAND: usize = 36;

/// The beginning of a text that is too long.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", text[..at].trim_end()),
        None => text.to_owned(),
    }
}

/// The first half of a run's number, in hexadecimal: enough to name it.
fn short(id: i64) -> String {
    format!("{:08x}", id >> 32)
}

/// The numbers that begin with these hexadecimal digits; `None` when they are none.
fn beginning_with(digits: &str) -> Option<(i64, i64)> {
    if !(4..=16).contains(&digits.len()) || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let bits = 4 * (16 - digits.len());
    let low = i64::from_str_radix(digits, 16).ok()?.checked_mul(1 << bits)?;
    Some((low, low | ((1 << bits) - 1)))
}

/// Number and path of the run that somebody means: by number, its beginning, or its directory.
fn find(store: &mut Store, run: &str) -> anyhow::Result<Vec<Cell>> {
    let number = run.parse().unwrap_or(-1);
    let mut found = store.query(FIND, &[Cell::Int(number), Cell::from(run)])?;
    if let (true, Some((low, high))) = (found.is_empty(), beginning_with(run)) {
        found = store.query(FIND_SHORT, &[Cell::Int(low), Cell::Int(high)])?;
        if found.len() > 1 {
            return Err(anyhow!("{run}: several runs have identifiers that begin with this"))
                .hint("latlab history list --json has the complete identifiers");
        }
    }
    found
        .pop()
        .ok_or_else(|| anyhow!("{run}: no run with this identifier or directory"))
        .hint("latlab history list names them")
}

/// The results of a run.
///
/// # Errors
/// When there is no such run.
pub fn show(store: &mut Store, run: &str) -> anyhow::Result<Table> {
    let first = find(store, run)?;
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
        numbers_from: 3,
        rows: rows.iter().map(row).collect(),
        ..Table::default()
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
        numbers_from: 2,
        rows: found.iter().map(row).collect(),
        ..Table::default()
    })
}

/// Which series.
pub struct MetricQuery<'a> {
    /// Name of the record.
    pub name: &'a str,
    /// `key=value`, all of which it must have.
    pub params: &'a [String],
    /// Board or host.
    pub board: Option<&'a str>,
    /// Which figure.
    pub figure: &'a str,
}

/// One trend for each unit of a board, part and set of parameters. A unit without a serial number is
/// known by its host name.
///
/// # Errors
/// When there is no such result.
pub fn trends(store: &mut Store, asked: &MetricQuery) -> anyhow::Result<Vec<Trend>> {
    let column = 9 + ["min", "median", "p99", "p999", "max"]
        .iter()
        .position(|f| *f == asked.figure)
        .unwrap_or(1);
    type Key = (String, String, String, String, String);
    let mut series: BTreeMap<Key, Vec<Value>> = BTreeMap::new();
    for r in store.query(TREND, &[Cell::from(asked.name)])? {
        let (params, host, board, serial) = (r[1].text(), r[6].text(), r[7].text(), r[8].text());
        let here = asked.board.is_none_or(|b| b == board || b == host || b == serial);
        let fits = asked.params.iter().all(|p| params.split(',').any(|have| have == p));
        if let Some(value) = r[column].real().filter(|_| here && fits) {
            let machine = if serial.is_empty() { host } else { serial };
            let key = (board, machine, r[0].text(), params, r[2].text());
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
        .hint("latlab history trend lists the results");
    }
    let correlation = correlation(series.values());
    let of = |((board, machine, part, params, unit), values): (Key, Vec<Value>)| {
        let params = if params.is_empty() { String::new() } else { format!(":{params}") };
        let part =
            if asked.name.starts_with(part.as_str()) { String::new() } else { format!("{part}/") };
        let machine = if board.is_empty() { machine } else { format!("{board}, {machine}") };
        trend(
            &format!("{part}{}{params} on {machine}", asked.name),
            asked.figure,
            unit_of(&unit),
            values,
            correlation,
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
    use latlab_model::history::{ResultRow, RunRow};
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
    fn a_short_number_names_a_run() {
        assert_eq!(beginning_with("7fffffffffffffff"), Some((i64::MAX, i64::MAX)));
        assert_eq!(beginning_with("0001"), Some((1 << 48, (1 << 48) | 0xffff_ffff_ffff)));
        for none in ["", "abc", "-123", "+123", "8000", "12345678901234567", "wxyz", "µµµµ"] {
            assert_eq!(beginning_with(none), None, "{none}");
        }
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(&dir.path().join("h").display().to_string(), true).unwrap();
        for (id, path) in [(0x1234_5678_0000_0001, "srv/a/1"), (0x1234_9678_0000_0001, "srv/b/2")] {
            let run = RunRow { id, path: path.into(), ..RunRow::default() };
            assert!(store.add(&run, &[]).unwrap());
        }
        assert_eq!(find(&mut store, "12345678").unwrap()[1].text(), "srv/a/1");
        let said = |run: &str, store: &mut Store| find(store, run).unwrap_err().to_string();
        assert!(said("1234", &mut store).contains("several"));
        assert!(said("5555", &mut store).contains("no run"));
        let table = list(&mut store, None, 9, false).unwrap();
        assert_eq!((table.caption.as_str(), table.heads.len()), ("paths below srv/", 4));
        assert_eq!(table.rows.iter().map(|r| r[3].as_str()).min(), Some("a/1"));
    }

    #[test]
    fn a_hundred_thousand_results_are_asked_by_index() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = large(dir.path());
        let asked = MetricQuery { name: "probe.7", params: &[], board: None, figure: "median" };
        let begun = Instant::now();
        let trends = trends(&mut store, &asked).unwrap();
        let mut times = vec![("trend", begun.elapsed())];
        assert_eq!(
            (trends.len(), trends.iter().map(|t| t.values.len()).sum::<usize>()),
            (10, 1_000)
        );
        let mut time = |name, work: &mut dyn FnMut()| {
            let begun = Instant::now();
            work();
            times.push((name, begun.elapsed()));
        };
        time("list", &mut || assert_eq!(list(&mut store, None, 50, false).unwrap().rows.len(), 50));
        time("list of a board", &mut || {
            assert_eq!(list(&mut store, Some("board 3"), 50, false).unwrap().rows.len(), 50)
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
