//! A comparison: in what the machines differ, verdicts, figures, distributions over one another.

use super::figure;
use crate::doc::{Block, Column, Section, Table};
use crate::plot::distribution::{self, Named, Subject};
use latlab_core::compare::verdict::{change_words, figure as aspect_figure};
use latlab_core::compare::{CompareDetail, Metric, Side, Verdict};
use latlab_core::run::Part;

/// Metrics whose distributions are drawn, at most.
const DRAWN: usize = 12;

/// Sections of a part.
pub fn sections(_part: &Part, d: &CompareDetail) -> Vec<Section> {
    let mut blocks = vec![Block::Table(subjects(d))];
    for s in &d.subjects {
        blocks.extend(s.notes.iter().map(|n| Block::Text(format!("{}: {n}.", s.letter))));
    }
    blocks.push(match machines(d) {
        Some(table) => Block::Table(table),
        None => Block::Text("As far as is known, the machines are the same.".into()),
    });
    let mut out = vec![Section { id: "compare".into(), title: "What was compared".into(), blocks }];
    let mut blocks = vec![Block::Table(verdicts(d)), Block::Text(tested(d))];
    if !d.skipped.is_empty() {
        blocks.push(Block::Table(skipped(d)));
    }
    out.push(Section { id: "verdicts".into(), title: "Better or worse".into(), blocks });
    out.push(Section {
        id: "figures".into(),
        title: "Figures".into(),
        blocks: d.metrics.iter().flat_map(metric).collect(),
    });
    let plots: Vec<Block> = d.metrics.iter().filter_map(|m| overlay(m, d)).take(DRAWN).collect();
    if !plots.is_empty() {
        out.push(Section { id: "overlay".into(), title: "Distributions".into(), blocks: plots });
    }
    out
}

/// The comparison in words, worst first.
pub fn summary(d: &CompareDetail) -> Vec<String> {
    let mut out = Vec::new();
    if !d.machines.is_empty() {
        let names: Vec<&str> = d.machines.iter().map(|m| m.what.as_str()).take(6).collect();
        out.push(format!("The machines differ in {}.", names.join(", ")));
    }
    let all = || d.metrics.iter().flat_map(|m| m.contrasts.iter().map(move |c| (m, c)));
    for verdict in [Verdict::Worse, Verdict::Better] {
        for (m, c) in all().filter(|(_, c)| c.verdict == verdict).take(5) {
            let other = d.subjects.get(c.other).map_or("?", |s| s.letter.as_str());
            out.push(format!("{} in {other} — {}.", m.label, c.sentence));
        }
    }
    let count = |v| all().filter(|(_, c)| c.verdict == v).count();
    out.push(format!(
        "{} worse, {} better, {} without a difference that matters, {} undecided.",
        count(Verdict::Worse),
        count(Verdict::Better),
        count(Verdict::NoDifference),
        count(Verdict::CannotTell)
    ));
    out
}

fn tested(d: &CompareDetail) -> String {
    format!(
        "{} tests; the chance of even one false \u{201c}better\u{201d} or \u{201c}worse\u{201d} among them is held at {} %. Differences below {} % are none that matters; \u{201c}no difference\u{201d} is said when none above {} % is left.",
        d.tests,
        d.options.level * 100.0,
        d.options.margin * 100.0,
        d.options.within * 100.0
    )
}

fn subjects(d: &CompareDetail) -> Table {
    Table {
        caption: "The first is the base.".into(),
        columns: ["", "what", "files", "machine"].map(Column::left).into(),
        rows: (d.subjects.iter())
            .map(|s| {
                let files = match s.files.as_slice() {
                    [one] => one.clone(),
                    many => format!("{} files", many.len()),
                };
                vec![s.letter.clone(), s.label.clone(), files, s.machine.clone()]
            })
            .collect(),
    }
}

fn machines(d: &CompareDetail) -> Option<Table> {
    let mut columns = vec![Column::left("differs")];
    columns.extend(d.subjects.iter().map(|s| Column::left(s.letter.clone())));
    let row = |m: &latlab_core::compare::MachineDifference| {
        std::iter::once(m.what.clone()).chain(m.values.iter().cloned()).collect()
    };
    (!d.machines.is_empty()).then(|| Table {
        caption:
            "In what the machines differ: rule these out before you believe a difference below."
                .into(),
        columns,
        rows: d.machines.iter().map(row).collect(),
    })
}

fn verdicts(d: &CompareDetail) -> Table {
    let mut rows = Vec::new();
    for m in &d.metrics {
        for c in &m.contrasts {
            let other = d.subjects.get(c.other).map_or("?", |s| s.letter.as_str());
            rows.push(vec![
                m.label.clone(),
                other.to_owned(),
                c.verdict.words().to_owned(),
                c.sentence.clone(),
            ]);
        }
    }
    Table {
        caption: "Each against A.".into(),
        columns: ["metric", "", "verdict", "why"].map(Column::left).into(),
        rows,
    }
}

fn skipped(d: &CompareDetail) -> Table {
    Table {
        caption: "Not compared.".into(),
        columns: ["metric", "why"].map(Column::left).into(),
        rows: d.skipped.iter().map(|s| vec![s.metric.clone(), s.reason.clone()]).collect(),
    }
}

fn metric(m: &Metric) -> Vec<Block> {
    let mut rows = Vec::new();
    let mut notes: Vec<String> = Vec::new();
    for c in &m.contrasts {
        for a in &c.aspects {
            rows.push(vec![
                a.what.clone(),
                aspect_figure(a.a, a.is_rate, m.unit),
                aspect_figure(a.b, a.is_rate, m.unit),
                change_words(a.change),
                if a.method.is_empty() {
                    "-".into()
                } else {
                    format!("{} to {}", change_words(a.low), change_words(a.high))
                },
                if a.method.is_empty() { "-".into() } else { format!("{:.3}", a.p_adjusted) },
                a.verdict.words().into(),
                a.method.clone(),
            ]);
        }
        for n in &c.notes {
            if !notes.contains(n) {
                notes.push(n.clone());
            }
        }
    }
    let columns = vec![
        Column::left("aspect"),
        Column::right("A"),
        Column::right("other"),
        Column::right("change"),
        Column::right("interval"),
        Column::right("p"),
        Column::left("verdict"),
        Column::left("interval from"),
    ];
    let mut out = vec![
        Block::Heading(m.label.clone()),
        Block::Table(Table { caption: "p is adjusted for all tests.".into(), columns, rows }),
    ];
    out.extend(m.sides.iter().enumerate().filter_map(|(i, s)| tail(i, s.as_ref()?, m)));
    out.extend(notes.into_iter().map(|n| Block::Text(format!("Note: {n}."))));
    out
}

/// What the fitted tail says of one side.
fn tail(i: usize, side: &Side, m: &Metric) -> Option<Block> {
    let t = side.tail.as_ref()?;
    let letter = char::from(b'A' + (i % 26) as u8);
    if !t.fits() {
        return Some(Block::Text(format!(
            "{letter}: the tail over {} ({} values) is no generalised Pareto tail (p {:.2}): nothing is said of what is beyond the largest value.",
            figure(t.threshold, m.unit),
            t.exceedances,
            t.check_p
        )));
    }
    let levels: Vec<String> = (t.levels.iter())
        .map(|l| {
            format!(
                "{:.0e}: {} ({} to {})",
                l.probability,
                figure(l.value, m.unit),
                figure(l.low, m.unit),
                figure(l.high, m.unit)
            )
        })
        .collect();
    let fit = format!(
        "{letter}: tail over {} fitted (shape {:.2}, {} values that count for {:.0}; check p {:.2}). Exceeded with probability {}.",
        figure(t.threshold, m.unit),
        t.shape,
        t.exceedances,
        t.effective,
        t.check_p,
        levels.join("; ")
    );
    (!levels.is_empty()).then_some(Block::Text(fit))
}

fn overlay(m: &Metric, d: &CompareDetail) -> Option<Block> {
    let named: Vec<Named> = (m.sides.iter().enumerate())
        .filter_map(|(i, s)| {
            let name = format!("{} {}", d.subjects.get(i)?.letter, d.subjects.get(i)?.label);
            Some((name, s.as_ref()?.histogram.as_ref()?))
        })
        .collect();
    if named.len() < 2 {
        return None;
    }
    let id = format!("overlay-{}", m.label);
    let subject =
        Subject { id: &id, title: &m.label, quantity: "value", counted: "values", unit: m.unit };
    Some(Block::Plot(Box::new(distribution::tail(&subject, &named))))
}
