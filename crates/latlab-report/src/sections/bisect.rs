//! A bisection over kernels: which one is the first with a longer path, the functions that grew, what was tried.

use super::path;
use crate::doc::{Block, Column, Section, Table};
use crate::values::grouped;
use latlab_model::path::{BisectDetail, Candidate, CandidateOutcome};
use latlab_model::run::Part;

/// Characters of a commit's message in the table.
const SUBJECT: usize = 60;

/// The sections of a `bisect` part: what was tried, and the paths on both sides.
pub fn sections(part: &Part, detail: &BisectDetail) -> Vec<Section> {
    let mut blocks = vec![Block::Findings(part.findings.clone())];
    blocks.extend(screen(detail));
    let mut sections = vec![Section { id: part.name.clone(), title: part.title.clone(), blocks }];
    // The table of functions is above.
    sections.extend(path::sections(part, &detail.paths).into_iter().skip(1));
    sections
}

/// The first screen: the functions that grew, and what was tried.
pub fn screen(detail: &BisectDetail) -> Vec<Block> {
    let mut blocks = Vec::new();
    if !detail.paths.changes.is_empty() {
        blocks.push(Block::Table(path::changes(&detail.paths.changes)));
    }
    blocks.push(Block::Table(candidates(detail)));
    let skipped = |c: &Candidate| match &c.outcome {
        CandidateOutcome::Skipped { reason } => Some(Block::Text(format!("{}: {reason}.", c.name))),
        CandidateOutcome::Measured { .. } => None,
    };
    blocks.extend(detail.candidates.iter().filter_map(skipped));
    blocks
}

/// The result in words.
pub fn summary(detail: &BisectDetail) -> Vec<String> {
    let [good, bad] = detail.found.map(|position| at(detail, position));
    let (Some(good), Some(bad)) = (good, bad) else { return Vec::new() };
    let what = match &detail.function {
        Some(function) => format!("{function} on the median path"),
        None => "median path".into(),
    };
    let [before, after] = [good, bad].map(deciding);
    let longer = if after > before { "longer" } else { "shorter" };
    let between = detail
        .candidates
        .iter()
        .filter(|c| (detail.found[0] + 1..detail.found[1]).contains(&c.position));
    let between = between.count();
    let mut sentences = vec![if between == 0 {
        format!(
            "First with a {longer} {what}: {} ({} -> {} instructions, {:+.2} %).",
            titled(bad),
            grouped(before),
            grouped(after),
            (after as f64 - before as f64) * 100.0 / before.max(1) as f64
        )
    } else {
        format!(
            "First with a {longer} {what}: {} or {} before it that could not be measured ({} -> {} \
             instructions since {}).",
            titled(bad),
            if between == 1 { "the one".to_owned() } else { format!("one of the {between}") },
            grouped(before),
            grouped(after),
            good.name
        )
    }];
    if let [before, after] = detail.paths.machines.as_slice()
        && !detail.paths.changes.is_empty()
    {
        let added = after.median.instructions as i64 - before.median.instructions as i64;
        sentences.push(format!("Median path {}.", path::difference(added, &detail.paths.changes)));
    }
    sentences.push(format!(
        "{} of {} candidates were measured.",
        detail.candidates.iter().filter(|c| is_measured(c)).count(),
        grouped(detail.total as u64)
    ));
    sentences
}

fn at(detail: &BisectDetail, position: usize) -> Option<&Candidate> {
    detail.candidates.iter().find(|c| c.position == position)
}

fn is_measured(candidate: &Candidate) -> bool {
    matches!(candidate.outcome, CandidateOutcome::Measured { .. })
}

fn deciding(candidate: &Candidate) -> u64 {
    match candidate.outcome {
        CandidateOutcome::Measured { deciding, .. } => deciding,
        CandidateOutcome::Skipped { .. } => 0,
    }
}

/// The name, with the commit's message.
fn titled(candidate: &Candidate) -> String {
    match candidate.subject.as_str() {
        "" => candidate.name.clone(),
        subject => format!("{} \"{subject}\"", candidate.name),
    }
}

fn candidates(detail: &BisectDetail) -> Table {
    let mut columns = vec![
        Column::right("no."),
        Column::right("step"),
        Column::whole("candidate"),
        Column::left("kernel"),
        Column::right("instructions"),
    ];
    let function = detail.function.as_deref();
    columns.extend(function.map(Column::right));
    columns.push(Column::left("verdict"));
    let row = |candidate: &Candidate| {
        let mut row = vec![
            (candidate.position + 1).to_string(),
            candidate.step.to_string(),
            candidate.name.clone(),
            candidate.release.clone(),
        ];
        let (figures, verdict) = match &candidate.outcome {
            CandidateOutcome::Measured { instructions, deciding, bad } => {
                let verdict = match (*bad, candidate.position == detail.found[1]) {
                    (true, true) => "bad, the first",
                    (true, false) => "bad",
                    (false, _) => "good",
                };
                ([grouped(*instructions), grouped(*deciding)], verdict.to_owned())
            }
            CandidateOutcome::Skipped { .. } => (["-".into(), "-".into()], "skipped".into()),
        };
        row.extend(figures.into_iter().take(if function.is_some() { 2 } else { 1 }));
        let subject: String = candidate.subject.chars().take(SUBJECT).collect();
        row.push(if subject.is_empty() { verdict } else { format!("{verdict}; {subject}") });
        row
    };
    let rows = detail.candidates.iter().map(row).collect();
    Table { caption: "Candidates".into(), columns, rows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::path::{FunctionChange, MachinePaths, PathDetail, WakePath};

    fn detail() -> BisectDetail {
        let candidate = |position, step, subject: &str, measured: Option<(u64, bool)>| Candidate {
            position,
            step,
            name: format!("c{position}"),
            subject: subject.into(),
            release: "6.1".into(),
            outcome: match measured {
                Some((instructions, bad)) => {
                    CandidateOutcome::Measured { instructions, deciding: instructions, bad }
                }
                None => {
                    CandidateOutcome::Skipped { reason: "does not build: make: Error 2".into() }
                }
            },
        };
        let machine = |instructions| MachinePaths {
            median: WakePath { instructions, ..WakePath::default() },
            ..MachinePaths::default()
        };
        let change = FunctionChange {
            name: "ktime_get".into(),
            caller: "irq".into(),
            own: [100, 224],
            calls: [1, 1],
        };
        BisectDetail {
            machine: "armv7-rt".into(),
            total: 12,
            candidates: vec![
                candidate(0, 1, "", Some((486, false))),
                candidate(5, 4, "timer: read the clock once more", Some((486, false))),
                candidate(6, 3, "timer: check the clock", Some((610, true))),
                candidate(11, 2, "", Some((610, true))),
            ],
            found: [5, 6],
            paths: PathDetail { machines: vec![machine(486), machine(610)], changes: vec![change] },
            ..BisectDetail::default()
        }
    }

    #[test]
    fn the_first_bad_one_and_its_functions_are_named() {
        assert_eq!(
            summary(&detail()),
            [
                "First with a longer median path: c6 \"timer: check the clock\" (486 -> 610 instructions, +25.51 %).",
                "Median path +124 instructions: ktime_get from irq +124.",
                "4 of 12 candidates were measured.",
            ]
        );
        let table = candidates(&detail());
        assert_eq!(table.rows[2].last().unwrap(), "bad, the first; timer: check the clock");
        assert_eq!(table.rows[3].last().unwrap(), "bad");
    }

    #[test]
    fn what_could_not_be_measured_stays_under_suspicion() {
        let mut detail = detail();
        detail.candidates[1].outcome =
            CandidateOutcome::Skipped { reason: "does not build: make: Error 2".into() };
        detail.found = [0, 6];
        detail.function = Some("ktime_get".into());
        assert_eq!(
            summary(&detail)[0],
            "First with a longer ktime_get on the median path: c6 \"timer: check the clock\" or the one before it that \
             could not be measured (486 -> 610 instructions since c0)."
        );
        let Some(Block::Text(reason)) = screen(&detail).pop() else { panic!() };
        assert_eq!(reason, "c5: does not build: make: Error 2.");
        let row = &candidates(&detail).rows[1];
        assert_eq!(row[4..], ["-", "-", "skipped; timer: read the clock once more"]);
    }
}
