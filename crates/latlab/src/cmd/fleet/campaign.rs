//! Campaigns: what is planned, and how far it is.
//!
//! ```text
//! DIR/results/ID/    finished: the run, and origin.json with campaign and experiment
//! DIR/running/ID/    what is being measured
//! DIR/failed/ID/     what a command that failed left
//! DIR/on_failure/ID/ the run after one that does not meet its requirements
//! DIR/images/BOARD   checksum of the image that is on its card
//! DIR/log/ID.log     what commands printed
//! DIR/attempts.jsonl one line each time that a command was started
//! ```
//!
//! A directory appears below `results` by one rename, when its run is whole: it is all that decides
//! whether an experiment is finished.

use super::requirements;
use crate::cli::Global;
use crate::cmd::check;
use crate::outcome::{HintExt, Outcome};
use crate::{output, term};
use anyhow::{Context, anyhow};
use latlab_analysis::fleet::campaign::{Campaign, Line, Plan, plan};
use latlab_model::control::Cleaned;
use latlab_report::doc::{Column, Table};
use latlab_sys::bounded_file;
use latlab_sys::signal;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Exit code of a target that does not answer.
pub const UNREACHABLE: u8 = 75;
/// Largest campaign file.
const FILE_BYTES: u64 = 16 << 20;

/// Reads a campaign and plans it.
///
/// # Errors
/// When it cannot be read, or cannot run.
pub fn load(file: &Path) -> anyhow::Result<(Campaign, Plan)> {
    let shown = file.display();
    let hint = "docs/reference/fleet.md has an example of a campaign";
    let text = bounded_file::read_text(file, FILE_BYTES)
        .with_context(|| format!("{shown}: cannot be read"))
        .hint(hint)?;
    let campaign: Campaign = toml::from_str(&text)
        .map_err(|e| anyhow!("{shown}: {}", e.to_string().trim().replace('\n', " ")))
        .hint(hint)?;
    let parse = |what: &str, name: &str, target: &str| {
        latlab_target::Target::parse(target)
            .with_context(|| format!("{shown}: {what} {name}"))
            .hint("a target is local, ssh://user@board[:port], labgrid:PLACE or vm:NAME[,OPTION…]")
    };
    for board in campaign.board.iter().filter(|b| !["", "local"].contains(&b.target.as_str())) {
        parse("board", &board.name, &board.target)?;
    }
    let mut plan = plan(&campaign).with_context(|| shown.to_string()).hint(hint)?;
    let changed: BTreeSet<(&str, &str)> = (plan.lines.iter().chain(&plan.over_budget))
        .filter_map(|l| Some((l.kernel.as_deref()?, l.target.as_str())))
        .filter(|(_, target)| target.starts_with("vm:"))
        .collect();
    for (kernel, target) in changed {
        parse("kernel", kernel, target)?;
    }
    // Commands run elsewhere: files are named from the root.
    let here = std::path::absolute(file).with_context(|| shown.to_string())?;
    let beside = |name: &Path| here.parent().map_or_else(|| name.to_owned(), |d| d.join(name));
    for line in plan.lines.iter_mut().chain(&mut plan.over_budget) {
        line.image = line.image.as_deref().map(beside);
        line.check = line.check.take().map(|check| match check.starts_with('@') {
            true => check,
            false => beside(Path::new(&check)).display().to_string(),
        });
    }
    let checks: BTreeSet<&str> = plan.lines.iter().filter_map(|l| l.check.as_deref()).collect();
    for check in checks {
        check::requirements(Path::new(check)).with_context(|| format!("{shown}: check"))?;
    }
    Ok((campaign, plan))
}

/// That every board can be reached from here.
///
/// # Errors
/// When only LAVA knows where one is.
pub fn check_targets(file: &Path, campaign: &Campaign) -> anyhow::Result<()> {
    match campaign.board.iter().find(|b| b.target.is_empty()) {
        Some(board) => Err(anyhow!("{}: board {}: has no target", file.display(), board.name))
            .hint("--engine lava measures on it; other engines need target = \"ssh://…\""),
        None => Ok(()),
    }
}

/// Prints the plan.
///
/// # Errors
/// As [`load`].
pub fn show(global: &Global, file: &Path) -> anyhow::Result<Outcome> {
    let (_, plan) = load(file)?;
    let mut out = term::raw_stdout();
    if global.json {
        output::json(&plan, &mut out)?;
    } else {
        let most = if term::details() { usize::MAX } else { 25 };
        let row = |l: &Line| {
            vec![l.id.clone(), l.target.clone(), l.command.join(" "), format!("{} s", l.seconds)]
        };
        let columns = ["experiment", "target", "command"].map(Column::left);
        let columns = columns.into_iter().chain([Column { right: true, ..Column::left("time") }]);
        let rows = plan.lines.iter().take(most).map(row).collect();
        output::table(Table { columns: columns.collect(), rows, ..Table::default() }, &mut out)?;
        let (all, over) = (plan.lines.len(), plan.over_budget.len());
        writeln!(Cleaned(&mut out), "{all} experiments, {over} left out by budgets of boards")?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// How far a board is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Experiments with a result.
    pub finished: usize,
    /// Those of them that exceed a limit or do not meet their requirements.
    pub exceeded: usize,
    /// Experiments whose last command failed.
    pub failed: usize,
    /// The others.
    pub waiting: usize,
}

/// How far each board of a plan is.
pub fn progress(plan: &Plan, dir: &Path) -> BTreeMap<String, Progress> {
    let mut boards = BTreeMap::<String, Progress>::new();
    for line in &plan.lines {
        let board = boards.entry(line.board.clone()).or_default();
        if is_finished(dir, line) {
            board.finished += 1;
            board.exceeded += usize::from(requirements::is_exceeded(&result(dir, line)));
        } else if dir.join("failed").join(&line.id).exists() {
            board.failed += 1;
        } else {
            board.waiting += 1;
        }
    }
    boards
}

/// Whether an experiment has its result.
pub fn is_finished(dir: &Path, line: &Line) -> bool {
    result(dir, line).exists()
}

fn result(dir: &Path, line: &Line) -> PathBuf {
    dir.join("results").join(&line.id)
}

/// How a campaign ended that was waited for: with a failure, with boards that did not answer, with limits exceeded.
/// One that was not waited for has only begun.
///
/// # Errors
/// When nothing can be printed.
pub fn ended(global: &Global, plan: &Plan, dir: &Path, waited: bool) -> anyhow::Result<Outcome> {
    let boards = progress(plan, dir);
    print(global, &boards)?;
    let any = |of: fn(&Progress) -> usize| boards.values().any(|p| of(p) > 0);
    Ok(match signal::stop_requested() {
        Some(signal) => Outcome::Stopped(signal),
        None if !waited => Outcome::Done,
        None if any(|p| p.failed) => Outcome::Code(1),
        None if any(|p| p.waiting) => Outcome::Code(UNREACHABLE),
        None => Outcome::Done.exceeded_if(any(|p| p.exceeded)),
    })
}

/// Prints how far a campaign is.
///
/// # Errors
/// As [`load`].
pub fn status(global: &Global, file: &Path, dir: &Path) -> anyhow::Result<Outcome> {
    let (_, plan) = load(file)?;
    print(global, &progress(&plan, dir))?;
    Ok(Outcome::Done)
}

/// Prints progress by board: those that are not finished, and the sums.
pub fn print(global: &Global, boards: &BTreeMap<String, Progress>) -> anyhow::Result<()> {
    let mut out = term::raw_stdout();
    if global.json {
        output::json(boards, &mut out)?;
    } else {
        let count = |of: fn(&Progress) -> usize| boards.values().map(of).sum::<usize>();
        let most = if term::details() { usize::MAX } else { 25 };
        let open = |p: &Progress| p.failed + p.waiting > 0;
        let row = |(name, p): (&String, &Progress)| {
            let numbers = [p.finished, p.failed, p.waiting].map(|n| n.to_string());
            std::iter::once(name.clone()).chain(numbers).collect()
        };
        let rows: Vec<Vec<String>> =
            boards.iter().filter(|(_, p)| open(p)).take(most).map(row).collect();
        if !rows.is_empty() {
            let number = |head| Column { right: true, ..Column::left(head) };
            let columns = ["finished", "failed", "waiting"].map(number);
            let columns = std::iter::once(Column::left("board")).chain(columns).collect();
            output::table(Table { columns, rows, ..Table::default() }, &mut out)?;
        }
        let (finished, failed, waiting) =
            (count(|p| p.finished), count(|p| p.failed), count(|p| p.waiting));
        let over = match count(|p| p.exceeded) {
            0 => String::new(),
            n => format!(" ({n} exceed limits)"),
        };
        writeln!(
            Cleaned(&mut out),
            "{finished} finished{over}, {failed} failed, {waiting} waiting on {} boards",
            boards.len()
        )?;
    }
    Ok(out.flush()?)
}
