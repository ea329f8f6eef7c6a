//! `latlab history`: runs into a store, and what the store knows over time.

mod queries;
mod server;
mod store;
mod tls;

use crate::cli::Global;
use crate::cli::history::{Args, Command};
use crate::outcome::{HintExt, Outcome, reader_may_leave};
use crate::rundir::{self, Replacements, write_asked};
use crate::{output, term};
use anyhow::{Context, anyhow};
use latlab_analysis::history::rows;
use latlab_model::history::Trend;
use latlab_report::{html, sections};
use std::io::Write;
use std::path::{Path, PathBuf};
use store::Store;

/// Directories below the one that is imported, at most: links that go round end here.
const DEPTH: usize = 16;

/// Runs the command.
///
/// # Errors
/// When the store or a run cannot be read or written.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    let open = |make| Store::open(&args.store, make);
    match &args.command {
        Command::Add { runs } => add(&mut open(true)?, runs),
        Command::Import { dir } => {
            let runs = find(dir)?;
            import(&mut open(true)?, &runs)
        }
        Command::List { board, limit } => {
            let table = queries::list(&mut open(false)?, board.as_deref(), *limit, global.json)?;
            table.print(global.json)
        }
        Command::Show { run } => queries::show(&mut open(false)?, run)?.print(global.json),
        Command::Trend { name: None, board, .. } => {
            queries::names(&mut open(false)?, board.as_deref())?.print(global.json)
        }
        Command::Trend { name: Some(name), param, board, statistic, fail_if_worse, html } => {
            let asked = queries::MetricQuery {
                name,
                params: param,
                board: board.as_deref(),
                figure: statistic,
            };
            let trends = queries::trends(&mut open(false)?, &asked)?;
            reader_may_leave(show(global, &trends, html.as_deref()))?;
            let worse = trends.iter().any(|t| t.changes.last().is_some_and(|c| c.worse));
            Ok(Outcome::Done.exceeded_if(worse && *fail_if_worse))
        }
        Command::Export { dir } => export(&mut open(false)?, dir),
    }
}

fn add(store: &mut Store, runs: &[PathBuf]) -> anyhow::Result<Outcome> {
    let (mut added, mut there) = (0, 0);
    for path in runs {
        if add_one(store, path)? { added += 1 } else { there += 1 }
    }
    told(added, there, 0)
}

fn add_one(store: &mut Store, path: &Path) -> anyhow::Result<bool> {
    let run = rundir::load(path)?;
    let (row, results) = rows(&run, &path.display().to_string());
    store.add(&row, &results).with_context(|| format!("{}: cannot be added", path.display()))
}

fn import(store: &mut Store, runs: &[PathBuf]) -> anyhow::Result<Outcome> {
    let (mut added, mut there, mut bad) = (0, 0, 0);
    for path in runs {
        match add_one(store, path) {
            Ok(true) => added += 1,
            Ok(false) => there += 1,
            Err(error) => {
                bad += 1;
                // Talk: the others are imported all the same.
                let _ = writeln!(
                    term::stderr(),
                    "latlab: left out: {}",
                    crate::outcome::format_error_chain(&error)
                );
            }
        }
    }
    told(added, there, bad)
}

fn told(added: usize, there: usize, bad: usize) -> anyhow::Result<Outcome> {
    let mut out = term::stdout();
    write!(out, "{added} runs added, {there} already stored")?;
    if bad > 0 {
        write!(out, ", {bad} could not be read")?;
    }
    writeln!(out)?;
    out.flush()?;
    Ok(Outcome::Done)
}

/// Every directory with a run below one, in order of names.
fn find(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut out = Vec::new();
    let mut todo = vec![(dir.to_owned(), 0)];
    while let Some((dir, depth)) = todo.pop() {
        if dir.join(rundir::RUN_FILE).is_file() {
            out.push(dir.clone());
        }
        let entries = std::fs::read_dir(&dir)
            .with_context(|| format!("{}: cannot be read", dir.display()))
            .hint("name a directory with runs below it")?;
        for entry in entries.flatten() {
            let path = entry.path();
            if depth < DEPTH && path.is_dir() {
                todo.push((path, depth + 1));
            }
        }
    }
    out.sort();
    if out.is_empty() {
        return Err(anyhow!("{}: no run.json in it or below it", dir.display()))
            .hint("runs are saved in runs/ of the directory where latlab was started");
    }
    Ok(out)
}

fn show(global: &Global, trends: &[Trend], page: Option<&Path>) -> anyhow::Result<()> {
    let doc = sections::history::trends(trends);
    if let Some(path) = page {
        let page = sections::history::page(trends);
        write_asked(path, "--html", |mut out| html::render(&page, &mut out))?;
    }
    let mut out = term::raw_stdout();
    if global.json {
        crate::output::json(trends, &mut out)?;
    } else if page.is_none() {
        output::document(&doc, &mut out)?;
    }
    out.flush()?;
    Ok(())
}

fn export(store: &mut Store, dir: &Path) -> anyhow::Result<Outcome> {
    let rows = queries::everything(store)?;
    let count = rows.len();
    let mut tables = Replacements::default();
    let files = latlab_export::results::write(rows, |name| tables.create(&dir.join(name)))
        .map_err(anyhow::Error::from)
        .and_then(|files| Ok(tables.commit().map(|()| files)?))
        .with_context(|| format!("{}: cannot be written", dir.display()))
        .hint("name a directory with space that this user may write to")?;
    let mut out = term::stdout();
    writeln!(out, "{count} results in {files} files below {}", dir.display())?;
    out.flush()?;
    Ok(Outcome::Done)
}
