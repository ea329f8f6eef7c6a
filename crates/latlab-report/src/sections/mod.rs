//! From a run to a document: one file a command, and this dispatch.
//!
//! A command's file has `sections(part, …) -> Vec<Section>` and, where it can
//! say more than figures, `summary(part, …) -> Vec<String>`. A part that nobody
//! knows (an experiment of records alone, or one of a newer version) is drawn
//! by [`generic`].

pub mod bench;
#[cfg(feature = "host")]
mod bisect;
#[cfg(feature = "host")]
pub mod bound;
#[cfg(feature = "host")]
pub mod check;
#[cfg(feature = "host")]
pub mod compare;
#[cfg(feature = "host")]
mod conditions;
#[cfg(feature = "host")]
pub mod critical;
pub mod doctor;
#[cfg(feature = "host")]
pub mod fleet;
pub mod generic;
pub mod history;
pub mod machine;
pub mod memory;
pub mod noise;
pub mod osnoise;
pub mod page;
#[cfg(feature = "host")]
pub mod path;
#[cfg(feature = "host")]
pub mod profile;
pub mod sched;
pub mod screen;
#[cfg(feature = "host")]
mod sequence;
pub mod sweep;
mod tiles;
pub mod timer;
pub mod trace;
#[cfg(feature = "host")]
pub mod trace_layout;
pub mod tune;
#[cfg(feature = "host")]
mod twin;
pub mod wakeup;
pub mod why;
mod why_activations;
#[cfg(feature = "host")]
mod why_waits;
#[cfg(feature = "host")]
pub mod worst;

use crate::doc::{Block, Doc, Plot, Section};
use latlab_model::finding::{Finding, Severity};
use latlab_model::run::{Detail, Part, Run};
use std::collections::{BTreeMap, BTreeSet};

/// The report of a run: what came out in words, what was in the way, each part, the machine.
pub fn of_run(run: &Run) -> Doc {
    let mut doc = parts(run);
    doc.sections.push(machine::section(&run.machine));
    doc.sections.push(how(run));
    make_ids_unique(&mut doc);
    doc
}

/// The same without the machine and the configuration: for the terminal of whoever has just measured.
pub fn brief(run: &Run) -> Doc {
    let mut doc = parts(run);
    make_ids_unique(&mut doc);
    doc
}

fn parts(run: &Run) -> Doc {
    let levels = wakeup::side_by_side(run);
    let levels = levels.into_iter().chain(sched::side_by_side(run));
    let sections = levels.chain(run.parts.iter().flat_map(of_part)).collect();
    Doc { title: title(run), summary: summary(run), sections, ..Doc::default() }
}

/// The sections of one part. One line a command.
pub fn of_part(part: &Part) -> Vec<Section> {
    match &part.detail {
        Some(Detail::Doctor(facts)) => doctor::sections(part, facts),
        Some(Detail::Bench(detail)) => bench::sections(part, detail),
        Some(Detail::Why(result)) => why::sections(part, result),
        None | Some(Detail::Unknown) => generic::sections(part),
        Some(Detail::Wakeup(result)) => wakeup::sections(part, result),
        Some(Detail::Memory(detail)) => memory::sections(part, detail),
        Some(Detail::Sched(detail)) => sched::sections(part, detail),
        Some(Detail::Timer(detail)) => timer::sections(part, detail),
        #[cfg(feature = "host")]
        Some(Detail::Profile(detail)) => profile::sections(part, detail),
        #[cfg(not(feature = "host"))]
        Some(Detail::Profile(_)) => generic::sections(part),
        #[cfg(feature = "host")]
        Some(Detail::Compare(detail)) => compare::sections(part, detail),
        #[cfg(not(feature = "host"))]
        Some(Detail::Compare(_)) => generic::sections(part),
        Some(Detail::Sweep(detail)) => sweep::sections(part, detail),
        #[cfg(feature = "host")]
        Some(Detail::Path(detail)) => path::sections(part, detail),
        #[cfg(feature = "host")]
        Some(Detail::Sections(detail)) => critical::sections(part, detail),
        #[cfg(feature = "host")]
        Some(Detail::Bound(detail)) => bound::sections(part, detail),
        #[cfg(feature = "host")]
        Some(Detail::Bisect(detail)) => bisect::sections(part, detail),
        #[cfg(feature = "host")]
        Some(Detail::Worst(detail)) => worst::sections(part, detail),
        #[cfg(not(feature = "host"))]
        Some(
            Detail::Path(_)
            | Detail::Sections(_)
            | Detail::Bound(_)
            | Detail::Bisect(_)
            | Detail::Worst(_),
        ) => generic::sections(part),
        Some(Detail::Noise(detail)) => noise::sections(part, detail),
        #[cfg(feature = "host")]
        Some(Detail::Check(detail)) => check::sections(part, detail),
        Some(Detail::Tune(detail)) => tune::sections(part, detail),
        #[cfg(feature = "host")]
        Some(Detail::Twin(detail)) => twin::sections(part, detail),
        #[cfg(not(feature = "host"))]
        Some(Detail::Check(_) | Detail::Twin(_)) => generic::sections(part),
    }
}

/// What one part says in words. One line for each command that has more to say than its figures.
fn part_summary(part: &Part) -> Vec<String> {
    match &part.detail {
        Some(Detail::Doctor(_)) => doctor::summary(part),
        None if part.name == "gaps" => osnoise::summary(part),
        Some(Detail::Bench(detail)) => bench::summary(detail),
        Some(Detail::Why(result)) => why::summary(result),
        None | Some(Detail::Unknown) => generic::summary(part),
        Some(Detail::Wakeup(result)) => wakeup::summary(part, result),
        Some(Detail::Memory(detail)) => memory::summary(part, detail),
        Some(Detail::Sched(detail)) => sched::summary(part, detail),
        Some(Detail::Timer(detail)) => timer::summary(detail),
        #[cfg(feature = "host")]
        Some(Detail::Profile(detail)) => profile::summary(detail),
        #[cfg(not(feature = "host"))]
        Some(Detail::Profile(_)) => generic::summary(part),
        #[cfg(feature = "host")]
        Some(Detail::Compare(detail)) => compare::summary(detail),
        #[cfg(not(feature = "host"))]
        Some(Detail::Compare(_)) => generic::summary(part),
        Some(Detail::Sweep(detail)) => sweep::summary(part, detail),
        #[cfg(feature = "host")]
        Some(Detail::Path(detail)) => path::summary(detail),
        #[cfg(feature = "host")]
        Some(Detail::Sections(detail)) => critical::summary(part, detail),
        #[cfg(feature = "host")]
        Some(Detail::Bound(detail)) => bound::summary(detail),
        #[cfg(feature = "host")]
        Some(Detail::Bisect(detail)) => bisect::summary(detail),
        #[cfg(feature = "host")]
        Some(Detail::Worst(detail)) => worst::summary(detail),
        #[cfg(not(feature = "host"))]
        Some(
            Detail::Path(_)
            | Detail::Sections(_)
            | Detail::Bound(_)
            | Detail::Bisect(_)
            | Detail::Worst(_),
        ) => generic::summary(part),
        Some(Detail::Noise(detail)) => noise::summary(part, detail),
        #[cfg(feature = "host")]
        Some(Detail::Check(detail)) => check::summary(detail),
        Some(Detail::Tune(detail)) => tune::summary(detail),
        #[cfg(feature = "host")]
        Some(Detail::Twin(detail)) => twin::summary(detail),
        #[cfg(not(feature = "host"))]
        Some(Detail::Check(_) | Detail::Twin(_)) => generic::summary(part),
    }
}

fn title(run: &Run) -> String {
    let arguments = run.command_line.iter().skip(1);
    let command = arguments.map(String::as_str).find(|a| !a.starts_with('-')).unwrap_or("run");
    let name =
        run.parts.first().map_or(command, |p| if run.parts.len() == 1 { &p.name } else { command });
    match (run.machine.board.as_deref(), run.machine.host.as_str()) {
        (Some(board), host) if !host.is_empty() => format!("{name} on {host} ({board})"),
        (None, host) if !host.is_empty() => format!("{name} on {host}"),
        _ => name.to_owned(),
    }
}

/// That the run is incomplete, and what ended it.
fn interruption(run: &Run) -> Option<String> {
    let by = run.stopped_by.as_ref().map_or(String::new(), |by| format!(" ({by})"));
    (!run.complete).then(|| format!("Incomplete run{by}: the results cover the time until then."))
}

/// The result in words, without the problems.
fn results(run: &Run) -> Vec<String> {
    interruption(run).into_iter().chain(run.parts.iter().flat_map(part_summary)).collect()
}

fn summary(run: &Run) -> Vec<String> {
    let mut sentences = results(run);
    let findings = run.parts.iter().flat_map(|p| &p.findings);
    let obstacles: Vec<&Finding> = findings.filter(|f| f.severity == Severity::Problem).collect();
    match obstacles.as_slice() {
        [] => {}
        [one] => sentences.push(format!("1 problem: {}", crate::messages::claim(one))),
        [first, rest @ ..] => sentences.push(format!(
            "{} problems, the first: {}",
            rest.len() + 1,
            crate::messages::claim(first)
        )),
    }
    sentences
}

/// How the run was made: what somebody needs to repeat it.
fn how(run: &Run) -> Section {
    let mut pairs = vec![
        ("command".to_owned(), run.command_line.join(" ")),
        ("started".to_owned(), run.started.clone()),
    ];
    pairs.extend(run.ended.clone().map(|e| ("ended".to_owned(), e)));
    if !run.latlab_version.is_empty() {
        pairs.push(("latlab".to_owned(), run.latlab_version.clone()));
    }
    let mut blocks = vec![Block::Pairs(pairs)];
    if let Some(config) = run.config.as_object().filter(|c| !c.is_empty()) {
        let plain = |v: &serde_json::Value| match v {
            serde_json::Value::String(s) => s.clone(),
            other => other.to_string(),
        };
        blocks.push(Block::Heading("Configuration".into()));
        blocks.push(Block::Pairs(config.iter().map(|(k, v)| (k.clone(), plain(v))).collect()));
    }
    Section { id: "how".into(), title: "How it was measured".into(), blocks }
}

/// Anchors and file names come from here and there (two parts of one survey
/// may be of the same kind): makes each `kebab-case` and one of its kind.
fn make_ids_unique(doc: &mut Doc) {
    let mut seen = BTreeSet::new();
    // Where to go on for a name that was there often: a run may have thousands of one kind.
    let mut next: BTreeMap<String, usize> = BTreeMap::new();
    let mut unique = |id: &str, fallback: &str| {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let base: String = id.chars().take(80).map(plain).collect();
        let base = base.trim_matches('-');
        let base = if base.is_empty() { fallback } else { base };
        let mut name = base.to_owned();
        let n = next.entry(name.clone()).or_insert(2);
        while !seen.insert(name.clone()) {
            name = format!("{base}-{n}");
            *n += 1;
        }
        name
    };
    for block in &mut doc.lead {
        if let Block::Plot(plot) = block {
            plot.id = unique(&plot.id, "plot");
        }
    }
    for section in &mut doc.sections {
        section.id = unique(&section.id, "section");
        for block in &mut section.blocks {
            if let Block::Plot(plot) = block {
                plot.id = unique(&plot.id, "plot");
            }
        }
    }
}

/// All plots of a document in reading order.
pub fn plots(doc: &Doc) -> impl Iterator<Item = &Plot> {
    let blocks = doc.lead.iter().chain(doc.sections.iter().flat_map(|s| &s.blocks));
    blocks.filter_map(|b| if let Block::Plot(p) = b { Some(&**p) } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::record::Record;
    use latlab_stats::histogram::Histogram;

    fn part(name: &str) -> Part {
        let h = Histogram::of((0..5000).map(|i| 14_000 + i % 900).chain([212_000]));
        Part {
            name: name.into(),
            title: "Wake-up latency".into(),
            complete: true,
            results: vec![Record {
                name: "wakeup.user".into(),
                params: [("cpu".to_owned(), 0.into())].into(),
                summary: h.summary(),
                histogram: Some(h),
                ..Record::default()
            }],
            ..Part::default()
        }
    }

    #[test]
    fn a_run_reads_from_the_summary_down() {
        let run = Run {
            command_line: vec!["latlab".into(), "survey".into()],
            started: "2026-08-01T10:15:00Z".into(),
            stopped_by: Some("SIGINT".into()),
            parts: vec![part("wakeup"), part("wakeup")],
            ..Run::default()
        };
        let doc = of_run(&run);
        assert!(doc.summary[0].contains("Incomplete run (SIGINT)"));
        assert!(doc.summary[1].contains("212 µs"), "{:?}", doc.summary);
        let ids: Vec<&str> = doc.sections.iter().map(|s| s.id.as_str()).collect();
        assert_eq!(ids, ["wakeup", "wakeup-2", "machine", "how"]);
        let plots: Vec<&str> = plots(&doc).map(|p| p.id.as_str()).collect();
        assert_eq!(plots.len(), plots.iter().collect::<BTreeSet<_>>().len());
    }

    #[test]
    fn an_empty_run_is_a_report_too() {
        let doc = of_run(&Run::default());
        assert!(!doc.title.is_empty());
        assert_eq!(doc.summary.len(), 1);
    }

    /// A run may have thousands of parts of one name: each title is made unique at once.
    #[test]
    fn anchors_of_many_equal_names_are_unique() {
        let section = || Section { id: "Same name".into(), ..Section::default() };
        let mut doc = Doc { sections: (0..50_000).map(|_| section()).collect(), ..Doc::default() };
        doc.sections.push(Section { id: "same-name-7".into(), ..Section::default() });
        make_ids_unique(&mut doc);
        let ids: BTreeSet<&str> = doc.sections.iter().map(|s| s.id.as_str()).collect();
        assert_eq!(ids.len(), doc.sections.len());
        assert!(ids.contains("same-name-50000") && ids.contains("same-name-7-2"));
    }
}
