//! Sections with interrupts or preemption off, in executed instructions.

use super::path::outline;
use crate::doc::{Axis, Block, Column, Plot, Scale, Section, Series, SeriesKind, Table};
use crate::values::grouped;
use latlab_model::path::{SectionKind, SectionsDetail};
use latlab_model::record::Record;
use latlab_model::run::Part;

/// Functions of the longest section on the first screen.
const SCREEN: usize = 5;

/// The sections of a `sections` part.
pub fn sections(part: &Part, detail: &SectionsDetail) -> Vec<Section> {
    let mut blocks = vec![Block::Findings(part.findings.clone())];
    blocks.push(Block::Plot(Box::new(lengths(detail))));
    for kind in &detail.kinds {
        blocks.push(Block::Table(longest(kind, detail.instructions)));
        blocks.extend(tree(kind, usize::MAX));
    }
    blocks.extend(beside_events(part, detail).map(Block::Table));
    vec![Section { id: part.name.clone(), title: part.title.clone(), blocks }]
}

/// The first screen: of each kind the longest ones, and the calls of the longest of all.
pub fn screen(part: &Part, detail: &SectionsDetail) -> Vec<Block> {
    let of = |kind: &SectionKind| {
        let table = Block::Table(longest(kind, detail.instructions));
        [Some(table), tree(kind, SCREEN)]
    };
    let events = beside_events(part, detail).map(Block::Table);
    detail.kinds.iter().flat_map(of).flatten().chain(events).collect()
}

/// The result in words.
pub fn summary(part: &Part, detail: &SectionsDetail) -> Vec<String> {
    let sentence = |kind: &SectionKind| {
        let first = kind.longest.first()?;
        Some(format!(
            "{}, {}: {} sections, longest {} instructions, from {} to {}.",
            detail.machine,
            name(kind),
            grouped(kind.count),
            grouped(first.longest),
            first.begins,
            first.ends
        ))
    };
    let mut sentences: Vec<String> = detail.kinds.iter().filter_map(sentence).collect();
    let events = |what| Some(result(part, &["sections.events.", what].concat())?.summary.max);
    if let Some((at, elsewhere)) = events("at-reads").flatten().zip(events("elsewhere").flatten()) {
        sentences.push(format!(
            "{} of {} events of the kernel lie at the instruction that read the clock for them.",
            grouped(at as u64),
            grouped((at + elsewhere) as u64)
        ));
    }
    if detail.user_wrong > 0 {
        sentences.push(format!(
            "Preemption seemed to be off {} of {} times that user code ran: its sections are estimates.",
            grouped(detail.user_wrong),
            grouped(detail.user_checks)
        ));
    }
    sentences
}

fn name(kind: &SectionKind) -> &str {
    match kind.kind.as_str() {
        "irqs-off" => "interrupts off",
        "preempt-off" => "preemption off",
        other => other,
    }
}

fn longest(kind: &SectionKind, all: u64) -> Table {
    let share = 100.0 * kind.instructions as f64 / all.max(1) as f64;
    Table {
        caption: format!(
            "Longest sections with {}, in instructions; {share:.1} % of all",
            name(kind)
        ),
        columns: vec![
            Column::right("longest"),
            Column::right("sections"),
            Column::right("mean"),
            Column::left("begins in"),
            Column::left("ends in"),
        ],
        rows: (kind.longest.iter())
            .map(|s| {
                vec![
                    grouped(s.longest),
                    grouped(s.count),
                    grouped(s.sum / s.count.max(1)),
                    s.begins.clone(),
                    s.ends.clone(),
                ]
            })
            .collect(),
    }
}

fn result<'p>(part: &'p Part, name: &str) -> Option<&'p Record> {
    part.results.iter().find(|r| r.name == name)
}

/// Sections beside the kernel's events of them, where those were recorded.
fn beside_events(part: &Part, detail: &SectionsDetail) -> Option<Table> {
    let row = |kind: &SectionKind| {
        let of = |what: &str| result(part, &["sections.", &kind.kind, ".", what].concat());
        let range = |what: &str| {
            let s = &of(what)?.summary;
            let figures = [s.min, s.median, s.max].map(|x| grouped(x.unwrap_or(0.0) as u64));
            Some(figures.join(" / "))
        };
        let (before, without) = (of("before")?, of("without")?);
        let at = |key: &str| without.params.get(key).map(ToString::to_string).unwrap_or_default();
        Some(vec![
            name(kind).to_owned(),
            grouped(before.summary.count),
            range("before")?,
            range("between")?,
            range("after")?,
            grouped(of("outside")?.summary.max.unwrap_or(0.0) as u64),
            grouped(without.summary.count),
            grouped(without.summary.max.unwrap_or(0.0) as u64),
            at("begins"),
            at("ends"),
        ])
    };
    let rows: Vec<Vec<String>> = detail.kinds.iter().filter_map(row).collect();
    (!rows.is_empty()).then(|| Table {
        caption:
            "Sections and the kernel's events of them, instructions (minimum / median / maximum)"
                .into(),
        columns: vec![
            Column::left("sections"),
            Column::right("with events"),
            Column::right("before the first"),
            Column::right("between them"),
            Column::right("after the last"),
            Column::right("events outside"),
            Column::right("without events"),
            Column::right("longest"),
            Column::left("begins in"),
            Column::left("ends in"),
        ],
        rows,
    })
}

fn tree(kind: &SectionKind, most: usize) -> Option<Block> {
    let first = kind.longest.first().filter(|s| !s.tree.is_empty())?;
    Some(Block::Pre(outline(&first.tree, most)))
}

fn lengths(detail: &SectionsDetail) -> Plot {
    let series = |kind: &SectionKind| Series {
        name: name(kind).into(),
        kind: SeriesKind::Step,
        points: kind.lengths.buckets.iter().map(|(low, n)| (*low as f64, *n as f64)).collect(),
        ..Series::default()
    };
    Plot {
        id: "section-lengths".into(),
        title: "Lengths of sections".into(),
        description: "Number of sections by their length in executed instructions.".into(),
        x: Axis { label: "instructions".into(), scale: Scale::Log10, ..Axis::default() },
        y: Axis { label: "sections".into(), scale: Scale::Log10, ..Axis::default() },
        series: detail.kinds.iter().map(series).collect(),
        ..Plot::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::path::{Call, Section};
    use latlab_stats::histogram::Histogram;

    #[test]
    fn the_longest_section_is_named_with_its_calls() {
        let call =
            |name: &str, depth, own, total| Call { name: name.into(), depth, calls: 1, own, total };
        let longest = Section {
            begins: "(exception vector)".into(),
            ends: "preempt_schedule_irq".into(),
            longest: 8296,
            count: 1000,
            sum: 4_000_000,
            tree: vec![call("irq", 0, 296, 8296), call("timer", 1, 8000, 8000)],
        };
        let kind = SectionKind {
            kind: "irqs-off".into(),
            count: 2000,
            instructions: 5_000_000,
            lengths: Histogram::of([20, 20, 8192]),
            longest: vec![longest],
            ..SectionKind::default()
        };
        let detail = SectionsDetail {
            machine: "armv7-rt".into(),
            instructions: 20_000_000,
            user_checks: 100,
            user_wrong: 1,
            kinds: vec![kind],
            ..SectionsDetail::default()
        };
        let mut part = Part::default();
        let text = summary(&part, &detail);
        assert!(
            text[0].contains("longest 8\u{202f}296 instructions, from (exception vector)"),
            "{text:?}"
        );
        assert!(text[1].contains("1 of 100"), "{text:?}");
        let Block::Table(table) = &screen(&part, &detail)[0] else { panic!() };
        assert!(table.caption.contains("interrupts off, in instructions; 25.0 % of all"));
        assert_eq!(table.rows[0][2], "4\u{202f}000");
        let Block::Pre(tree) = &screen(&part, &detail)[1] else { panic!() };
        assert!(tree.contains("    8000     8000     1   timer"), "{tree}");
        assert_eq!(lengths(&detail).series[0].points.len(), 2);
        assert!(beside_events(&part, &detail).is_none());
        for (what, values) in [
            ("events.at-reads", &[80][..]),
            ("events.elsewhere", &[2]),
            ("irqs-off.before", &[20, 21, 30]),
            ("irqs-off.between", &[60, 60, 61]),
            ("irqs-off.after", &[10, 10, 10]),
            ("irqs-off.without", &[]),
            ("irqs-off.outside", &[0]),
        ] {
            let name = ["sections.", what].concat();
            let histogram = Histogram::of(values.iter().copied());
            part.results.push(Record { name, summary: histogram.summary(), ..Record::default() });
        }
        let text = summary(&part, &detail);
        assert!(text[1].starts_with("80 of 82 events of the kernel lie at"), "{text:?}");
        let table = beside_events(&part, &detail).unwrap();
        let cells =
            ["interrupts off", "3", "20 / 21 / 30", "60 / 60 / 61", "10 / 10 / 10", "0", "0", "0"];
        assert_eq!(table.rows[0][..8], cells);
    }
}
