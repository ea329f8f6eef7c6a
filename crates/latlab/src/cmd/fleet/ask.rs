//! `latlab fleet ask`: a question as SQL, answered by DuckDB.
//!
//! The texts are the ones of docs/reference/fleet.md, and Spark answers them as they are: parameters are
//! `:name`, functions and types those that both have. DuckDB is a program of the user's: the command
//! `duckdb`, or the module of that name in Python.

use super::lake;
use crate::cli::Global;
use crate::outcome::{HintExt, Outcome};
use crate::{output, term};
use anyhow::{Context, anyhow};
use latlab_model::control::Cleaned;
use latlab_model::lake::TABLES;
use latlab_report::doc::{Column, Table};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::Value;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const SLOWER: &str = include_str!("questions/slower.sql");
const TAIL: &str = include_str!("questions/tail.sql");
const CAUSES: &str = include_str!("questions/causes.sql");
const OUTLIERS: &str = include_str!("questions/outliers.sql");
const ILL: &str = include_str!("questions/ill.sql");
const SETTING: &str = include_str!("questions/setting.sql");

/// What is asked.
pub struct Asked<'a> {
    /// Which question.
    pub question: &'a str,
    /// Name of a result.
    pub name: &'a str,
    /// Quantile of the tail.
    pub quantile: f64,
    /// Kernel release of the tail, with `*` for any characters.
    pub kernel: &'a str,
    /// Property of the machine.
    pub setting: &'a str,
}

impl Asked<'_> {
    /// The text with its parameters, for tables of these names.
    fn sql(&self) -> String {
        let text = match self.question {
            "slower" => SLOWER,
            "tail" => TAIL,
            "causes" => CAUSES,
            "outliers" => OUTLIERS,
            "ill" => ILL,
            _ => SETTING,
        };
        text.replace(":name", &quoted(self.name))
            .replace(":quantile", &self.quantile.to_string())
            .replace(":kernel", &quoted(&like(self.kernel)))
            .replace(":setting", &quoted(self.setting))
    }
}

/// A text of SQL.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\0', "").replace('\'', "''"))
}

/// A pattern of SQL, in which only `*` stands for other characters.
fn like(pattern: &str) -> String {
    pattern.replace('#', "##").replace('_', "#_").replace('%', "#%").replace('*', "%")
}

/// Views on the tables of a lake.
fn views(lake: &Path) -> String {
    let view = |table: &&latlab_model::lake::Table| {
        let files = lake.join(table.name).join("date=*/part-*.parquet").display().to_string();
        format!(
            "create view {} as select * from read_parquet({}, hive_partitioning = true);\n",
            table.name,
            quoted(&files)
        )
    };
    TABLES.iter().map(view).collect()
}

/// Reads statements on stdin, prints the rows of the last one as JSON. DuckDB's progress of long queries would
/// stand before it.
const PYTHON: &str = "import sys, json, duckdb
c = duckdb.connect()
c.execute('set enable_progress_bar = false')
*first, last = [s for s in sys.stdin.read().split(';\\n') if s.strip()]
for s in first: c.execute(s)
c.execute(last)
names = [d[0] for d in c.description]
json.dump([dict(zip(names, r)) for r in c.fetchall()], sys.stdout, default=str)";

/// Answers, or prints the text.
///
/// # Errors
/// When there is no lake, no DuckDB, or DuckDB refuses.
pub fn run(global: &Global, dir: &Path, asked: &Asked, print: bool) -> anyhow::Result<Outcome> {
    lake::existing(dir)?;
    let text = format!("{}{}", views(dir), asked.sql());
    let mut out = term::raw_stdout();
    if print {
        write!(Cleaned(&mut out), "{text}")?;
        out.flush()?;
        return Ok(Outcome::Done);
    }
    let answer = duckdb(&text)?;
    let rows: Vec<Row> = if answer.trim_ascii().is_empty() {
        Vec::new()
    } else {
        serde_json::from_slice(&answer).context("DuckDB's answer")?
    };
    if global.json {
        output::json(&rows, &mut out)?;
    } else if rows.is_empty() {
        match asked.question {
            "causes" => writeln!(out, "nothing found")?,
            "tail" if asked.kernel != "*" => writeln!(
                Cleaned(&mut out),
                "nothing found for the result {} (--name) and the kernel {} (--kernel)",
                asked.name,
                asked.kernel
            )?,
            _ => {
                writeln!(Cleaned(&mut out), "nothing found for the result {} (--name)", asked.name)?
            }
        }
    } else {
        output::table(table(&rows), &mut out)?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// Runs DuckDB: the first of the programs that is there.
fn duckdb(text: &str) -> anyhow::Result<Vec<u8>> {
    let python = std::env::var_os("LATLAB_PYTHON").unwrap_or_else(|| "python3".into());
    let mut cli = Command::new("duckdb");
    cli.args(["-json", ":memory:"]);
    let mut module = Command::new(python);
    module.args(["-c", PYTHON]);
    for mut command in [cli, module] {
        let started =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = match started {
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            started => started.context("DuckDB cannot be started")?,
        };
        if let Some(mut stdin) = child.stdin.take() {
            // It may end before it has read all: its message says why.
            let _ = stdin.write_all(text.as_bytes());
        }
        let done = child.wait_with_output().context("DuckDB")?;
        let said = String::from_utf8_lossy(&done.stderr);
        if done.status.success() {
            return Ok(done.stdout);
        }
        if !said.contains("No module named 'duckdb'") {
            let last = said.lines().rfind(|l| !l.trim().is_empty()).unwrap_or("no message");
            return Err(anyhow!("DuckDB: {last}")).hint("latlab fleet ask … --sql prints the text");
        }
    }
    Err(anyhow!("DuckDB is not installed"))
        .hint("python3 -m pip install duckdb, or --sql for another engine")
}

/// A row of an answer: its columns in the order of the question.
struct Row(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Columns;
        impl<'de> Visitor<'de> for Columns {
            type Value = Row;
            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("a row")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Row, A::Error> {
                let mut row = Vec::new();
                while let Some(column) = map.next_entry()? {
                    row.push(column);
                }
                Ok(Row(row))
            }
        }
        from.deserialize_map(Columns)
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Rows as a table: numbers on the right, with as many digits as are read.
fn table(rows: &[Row]) -> Table {
    let number = |i: usize| rows.iter().any(|r| r.0.get(i).is_some_and(|c| c.1.is_number()));
    let shown = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(n) if n.is_f64() => {
            let v = n.as_f64().unwrap_or(f64::NAN);
            if v.abs() >= 100.0 { format!("{v:.0}") } else { format!("{v:.4}") }
        }
        other => other.to_string(),
    };
    let column = |(i, (name, _)): (usize, &(String, Value))| Column {
        head: name.clone(),
        right: number(i),
        ..Column::default()
    };
    Table {
        columns: rows[0].0.iter().enumerate().map(column).collect(),
        rows: rows.iter().map(|r| r.0.iter().map(|c| shown(&c.1)).collect()).collect(),
        ..Table::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_a_text() {
        let asked = Asked {
            question: "slower",
            name: "x'; drop table run; --",
            quantile: 0.99,
            kernel: "*",
            setting: "",
        };
        assert!(asked.sql().contains("'x''; drop table run; --'"));
    }

    #[test]
    fn only_a_star_stands_for_other_characters() {
        assert_eq!(like("6.1.*_50%#1"), "6.1.%#_50#%##1");
    }
}
