//! The first screen of a result: the answer, one table and one plot where they say more, and the
//! problems. Everything else is printed with `--details` and is in `report.html`.

#[cfg(feature = "host")]
use super::compare;
use super::{bench, generic, machine, memory, sched, sweep, timer, wakeup, why};
use super::{brief, interruption, part_summary, results, title};
use crate::doc::{Block, Doc, Section};
use crate::text::{self, TextOptions};
use latlab_model::finding::{Finding, Severity};
use latlab_model::run::{Detail, Part, Run};
use std::io;

/// Lines of the first screen.
pub const LINES: usize = 40;
/// Rows of a table on the first screen: beside a plot, and alone.
const ROWS: (usize, usize) = (8, 18);
/// Warnings beside the findings.
const WARNINGS: usize = 3;
/// Findings on the first screen: of the machine check, of one experiment, and of a run of several.
const FINDINGS: (usize, usize, usize) = (10, 5, 3);

/// Findings that fit on the first screen of most runs.
fn findings_max(run: &Run) -> usize {
    match run.parts.as_slice() {
        [one] if matches!(one.detail, Some(Detail::Doctor(_))) => FINDINGS.0,
        [_] => FINDINGS.1,
        _ => FINDINGS.2,
    }
}

/// The first screen as text: long sentences on a narrow terminal leave room for fewer findings.
///
/// # Errors
/// The writer's.
pub fn render(run: &Run, options: &TextOptions) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    for doc in of_run(run) {
        page.clear();
        text::render(&doc, options, &mut page)?;
        if page.iter().filter(|b| **b == b'\n').count() <= LINES {
            break;
        }
    }
    Ok(page)
}

/// What a command prints when it has finished: with the most important findings, then with ever
/// fewer of them, then with fewer rows, for a terminal that has no room for the page before.
pub fn of_run(run: &Run) -> impl Iterator<Item = Doc> {
    let causes = run.parts.iter().find(|p| matches!(p.detail, Some(Detail::Why(_))));
    let (blocks, words) = match (run.parts.as_slice(), causes) {
        ([part], _) | (_, Some(part)) => (of_part(part), results(run)),
        _ => several(run),
    };
    let plot = blocks.iter().any(|b| matches!(b, Block::Plot(_)));
    let rows = if plot { ROWS.0 } else { ROWS.1 };
    let left = left_out(run, &blocks);
    let fewer_findings = (0..=findings_max(run)).rev().map(move |most| (rows, most));
    let fewer_rows = [(rows / 2, 0), (rows / 4, 0)];
    fewer_findings.chain(fewer_rows).map(move |(rows, most)| {
        let (shown, more) = findings(run, most);
        let mut blocks = blocks.clone();
        blocks.iter_mut().for_each(|b| shorten(b, rows));
        if !shown.is_empty() {
            blocks.push(Block::Findings(shown));
        }
        blocks.extend(hint(left, more).map(Block::Text));
        let section = Section { blocks, ..Section::default() };
        Doc { title: title(run), summary: words.clone(), sections: vec![section], ..Doc::default() }
    })
}

/// The table and the plot that answer the question of one experiment, below what limits them:
/// lost events, an early end.
fn of_part(part: &Part) -> Vec<Block> {
    let all = super::of_part(part).into_iter().flat_map(|s| s.blocks);
    let mut blocks: Vec<Block> =
        all.filter(|b| matches!(b, Block::Warning(_))).take(WARNINGS).collect();
    blocks.extend(answer(part));
    blocks
}

fn answer(part: &Part) -> Vec<Block> {
    match &part.detail {
        Some(Detail::Doctor(_)) => vec![],
        Some(Detail::Bench(detail)) => bench::screen(detail),
        Some(Detail::Why(result)) => why::screen(result),
        Some(Detail::Wakeup(result)) => wakeup::screen(part, result),
        Some(Detail::Memory(detail)) => memory::screen(detail),
        Some(Detail::Sched(detail)) => sched::screen(detail),
        Some(Detail::Timer(detail)) => timer::screen(detail),
        #[cfg(feature = "host")]
        Some(Detail::Profile(detail)) => super::profile::screen(detail),
        #[cfg(not(feature = "host"))]
        Some(Detail::Profile(_)) => generic::screen(part),
        #[cfg(feature = "host")]
        Some(Detail::Compare(detail)) => compare::screen(detail),
        Some(Detail::Sweep(detail)) => sweep::screen(detail),
        #[cfg(feature = "host")]
        Some(Detail::Path(detail)) => super::path::screen(detail),
        #[cfg(feature = "host")]
        Some(Detail::Sections(detail)) => super::critical::screen(part, detail),
        #[cfg(feature = "host")]
        Some(Detail::Bound(detail)) => super::bound::screen(detail),
        #[cfg(feature = "host")]
        Some(Detail::Bisect(detail)) => super::bisect::screen(detail),
        #[cfg(feature = "host")]
        Some(Detail::Worst(detail)) => super::worst::screen(detail),
        #[cfg(not(feature = "host"))]
        Some(
            Detail::Path(_)
            | Detail::Sections(_)
            | Detail::Bound(_)
            | Detail::Bisect(_)
            | Detail::Worst(_),
        ) => generic::screen(part),
        Some(Detail::Noise(detail)) => super::noise::screen(detail),
        #[cfg(feature = "host")]
        Some(Detail::Check(detail)) => super::check::screen(detail),
        #[cfg(feature = "host")]
        Some(Detail::Tune(detail)) => super::tune::screen(detail),
        #[cfg(feature = "host")]
        Some(Detail::Twin(detail)) => super::twin::screen(detail),
        #[cfg(not(feature = "host"))]
        Some(Detail::Check(_) | Detail::Tune(_) | Detail::Twin(_)) => generic::screen(part),
        #[cfg(not(feature = "host"))]
        Some(Detail::Compare(_)) => generic::screen(part),
        None | Some(Detail::Unknown) => generic::screen(part),
    }
}

/// Several experiments: a table of the same kind beside each other, or one line each.
pub(super) fn several(run: &Run) -> (Vec<Block>, Vec<String>) {
    let first = run.parts.first().map(|p| p.name.as_str()).unwrap_or_default();
    let survey = run.parts.iter().any(|p| matches!(p.detail, Some(Detail::Doctor(_))));
    if !survey {
        let side = wakeup::side_by_side(run).into_iter().chain(sched::side_by_side(run));
        let blocks: Vec<Block> = side.flat_map(|s| s.blocks).collect();
        if !blocks.is_empty() || first.is_empty() {
            return (blocks, results(run));
        }
    }
    let mut blocks = vec![Block::Pairs(dashboard(run))];
    blocks.extend(wakeup::overlay(run));
    (blocks, interruption(run).into_iter().collect())
}

/// One line for each experiment of a survey, with the machine's.
fn dashboard(run: &Run) -> Vec<(String, String)> {
    let mut rows = vec![("Machine".to_owned(), machine::line(&run.machine))];
    rows.extend(lines(run));
    rows
}

/// Name and result of each experiment of a run, as the first screen of a survey has them.
pub fn lines(run: &Run) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    for part in &run.parts {
        let words = match &part.detail {
            Some(Detail::Wakeup(result)) => wakeup::line(result),
            Some(Detail::Sched(_)) => continue,
            _ => part_summary(part).pop().unwrap_or_default(),
        };
        let name = short_name(part);
        let words = words.strip_prefix(&format!("{name}: ")).unwrap_or(&words).to_owned();
        let name = match &part.detail {
            Some(Detail::Wakeup(_)) => format!("Wake-up, {name}"),
            _ => name.to_owned(),
        };
        rows.push((name, words.trim_end_matches('.').to_owned()));
    }
    let scheduler = sched::line(run).map(|words| ("Scheduler".to_owned(), words));
    let before = rows.iter().position(|r| r.0 == "Timers").unwrap_or(rows.len());
    rows.splice(before..before, scheduler);
    rows.retain(|(_, words)| !words.is_empty());
    rows
}

fn short_name(part: &Part) -> &str {
    match &part.detail {
        Some(Detail::Doctor(_)) => "Checks",
        Some(Detail::Bench(_)) => "Costs",
        Some(Detail::Memory(_)) => "Memory",
        Some(Detail::Timer(_)) => "Timers",
        Some(Detail::Wakeup(_)) => wakeup::circumstance(part),
        Some(Detail::Noise(_)) => "OS noise",
        None if part.name == "gaps" => "OS noise",
        _ if part.title.is_empty() => &part.name,
        _ => &part.title,
    }
}

/// The most important findings that need attention, and how many findings are not shown.
fn findings(run: &Run, most: usize) -> (Vec<Finding>, usize) {
    let all = || run.parts.iter().flat_map(|p| &p.findings);
    let mut shown: Vec<Finding> = [Severity::Problem, Severity::Warning, Severity::Inconclusive]
        .iter()
        .flat_map(|s| all().filter(move |f| f.severity == *s))
        .cloned()
        .collect();
    shown.truncate(most);
    let left = all().count() - shown.len();
    (shown, left)
}

/// A table of the first screen has a few rows.
pub(super) fn shorten(block: &mut Block, rows: usize) {
    let Block::Table(table) = block else { return };
    let more = table.rows.len().saturating_sub(rows);
    if more > 0 {
        table.rows.truncate(rows);
        let caption = table.caption.trim_end_matches('.');
        table.caption = format!("{caption} ({more} more rows with --details)");
    }
}

/// Tables and plots that `--details` would add.
fn left_out(run: &Run, shown: &[Block]) -> (usize, usize) {
    let full = brief(run);
    let all = || full.sections.iter().flat_map(|s| &s.blocks);
    let tables = |b: &&Block| matches!(b, Block::Table(_));
    let plots = |b: &&Block| matches!(b, Block::Plot(_));
    let left = |is: fn(&&Block) -> bool| {
        all().filter(is).count().saturating_sub(shown.iter().filter(is).count())
    };
    (left(tables), left(plots))
}

/// What `--details` would add, in words.
fn hint((tables, plots): (usize, usize), findings: usize) -> Option<String> {
    let counted =
        [(tables, "table", "tables"), (plots, "plot", "plots"), (findings, "finding", "findings")];
    let words: Vec<String> = counted
        .iter()
        .filter(|(n, ..)| *n > 0)
        .map(|(n, one, many)| format!("{n} {}", if *n == 1 { one } else { many }))
        .collect();
    (!words.is_empty()).then(|| format!("--details: {} more.", words.join(", ")))
}
