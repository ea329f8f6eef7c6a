//! The page of a run: key figures, warnings, the main plot and the findings that need attention
//! first; all sections follow, collapsed.
//!
//! The first plot of a part is the one that answers its question.

use super::{bench, make_ids_unique, tiles, wakeup};
use crate::doc::{Block, Doc, Plot, Section};
use latlab_model::finding::{Finding, Severity};
use latlab_model::run::{Detail, Run};

/// Warnings, and findings, above the sections; the rest stay in their sections.
const WARNINGS: usize = 6;
const FINDINGS: usize = 12;

/// The page of a run.
pub fn of_run(run: &Run) -> Doc {
    let mut doc = super::of_run(run);
    let causes = run.parts.iter().find(|p| matches!(p.detail, Some(Detail::Why(_))));
    let one = match run.parts.as_slice() {
        [one] => Some(one),
        _ => causes,
    };
    doc.tiles = tiles::of_run(run, one);
    // The problems themselves follow.
    doc.summary = super::results(run);
    let mut plots = Vec::new();
    if one.is_some() {
        doc.lead = warnings(&mut doc.sections);
    } else {
        let (dashboard, words) = super::screen::several(run);
        doc.summary = words;
        doc.lead.extend(dashboard.into_iter().filter(|b| !matches!(b, Block::Plot(_))));
        plots = overview(run);
    }
    if plots.is_empty() {
        plots = main_plots(&mut doc.sections);
    }
    doc.lead.extend(plots);
    let findings = attention(&mut doc.sections);
    if !findings.is_empty() {
        doc.lead.push(Block::Heading("Problems and remedies".into()));
        doc.lead.push(Block::Findings(findings));
    }
    doc.sections.retain(|s| !s.blocks.is_empty());
    make_ids_unique(&mut doc);
    doc
}

/// The first plot, and for wake-ups their worst over time, taken out of their section.
fn main_plots(sections: &mut [Section]) -> Vec<Block> {
    let is_plot = |b: &Block| matches!(b, Block::Plot(_));
    let Some(section) = sections.iter_mut().find(|s| s.blocks.iter().any(is_plot)) else {
        return Vec::new();
    };
    let mut taken = Vec::new();
    let mut take = |is: &dyn Fn(&Plot) -> bool| {
        let at = section.blocks.iter().position(|b| matches!(b, Block::Plot(p) if is(p)));
        taken.extend(at.map(|i| section.blocks.remove(i)));
    };
    take(&|_| true);
    take(&|p| p.id.ends_with("-over-time"));
    taken
}

/// The wake-up latencies of several measurements over each other, and the costs of a survey.
fn overview(run: &Run) -> Vec<Block> {
    let costs = run.parts.iter().find_map(|part| match &part.detail {
        Some(Detail::Bench(detail)) => bench::costs(detail),
        _ => None,
    });
    wakeup::overlay(run).into_iter().chain(costs).collect()
}

/// Warnings, taken out of their sections; with the section's title where several sections have some.
fn warnings(sections: &mut [Section]) -> Vec<Block> {
    let mut found = Vec::new();
    let several = sections.iter().filter(|s| s.blocks.iter().any(is_warning)).count() > 1;
    for section in sections {
        section.blocks.retain_mut(|block| {
            let Block::Warning(text) = block else { return true };
            if found.len() == WARNINGS {
                return true;
            }
            let text = std::mem::take(text);
            found.push(Block::Warning(match several {
                true => format!("{}: {text}", section.title),
                false => text,
            }));
            false
        });
    }
    found
}

fn is_warning(b: &Block) -> bool {
    matches!(b, Block::Warning(_))
}

/// Problems, then warnings, then what is inconclusive, taken out of their sections.
fn attention(sections: &mut [Section]) -> Vec<Finding> {
    let mut found = Vec::new();
    for severity in [Severity::Problem, Severity::Warning, Severity::Inconclusive] {
        for section in sections.iter_mut() {
            section.blocks.retain_mut(|block| {
                let Block::Findings(all) = block else { return true };
                let (taken, rest): (Vec<_>, Vec<_>) =
                    std::mem::take(all).into_iter().partition(|f| f.severity == severity);
                *all = rest;
                found.extend(taken);
                !all.is_empty()
            });
        }
    }
    if found.len() > FINDINGS {
        let rest = found.split_off(FINDINGS);
        let title = format!("{} more problems and warnings", rest.len());
        if let Some(first) = sections.first_mut() {
            let blocks = std::mem::take(&mut first.blocks);
            first.blocks = [vec![Block::Heading(title), Block::Findings(rest)], blocks].concat();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::finding::Confidence;
    use latlab_model::record::Record;
    use latlab_model::run::Part;
    use latlab_stats::histogram::Histogram;

    fn run(problems: usize) -> Run {
        let h = Histogram::of((0..5000).map(|i| 14_000 + i % 900).chain([212_000]));
        let finding = |s| Finding::typed("clock.step", s, Confidence::High);
        let mut findings = vec![finding(Severity::Ok), finding(Severity::Info)];
        findings.extend((0..problems).map(|_| finding(Severity::Problem)));
        let record = Record { summary: h.summary(), histogram: Some(h), ..Record::default() };
        let part = Part {
            name: "x".into(),
            complete: false,
            findings,
            results: vec![record],
            ..Part::default()
        };
        Run { parts: vec![part], ..Run::default() }
    }

    fn findings(blocks: &[Block]) -> usize {
        let of = |b: &Block| if let Block::Findings(f) = b { f.len() } else { 0 };
        blocks.iter().map(of).sum()
    }

    #[test]
    fn what_is_above_the_sections_is_not_repeated_in_them() {
        for problems in [0, 1, FINDINGS, FINDINGS + 3] {
            let run = run(problems);
            let (page, whole) = (of_run(&run), super::super::of_run(&run));
            let below = |d: &Doc| d.sections.iter().map(|s| findings(&s.blocks)).sum::<usize>();
            assert_eq!(findings(&page.lead), problems.min(FINDINGS));
            assert_eq!(findings(&page.lead) + below(&page), below(&whole));
            assert!(page.lead.iter().any(is_warning), "the run is incomplete");
            let plots = |d: &Doc| super::super::plots(d).count();
            assert_eq!(plots(&page), plots(&whole), "those of the lead count");
            assert!(matches!(page.lead[1], Block::Plot(_)), "{:?}", page.lead);
            assert!(!page.tiles.is_empty());
        }
    }
}
