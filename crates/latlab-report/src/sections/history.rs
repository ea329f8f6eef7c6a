//! Results over time: one plot for each series with its changes of level.

use crate::doc::{Axis, Block, Column, Doc, Mark, Plot, Section, Series, SeriesKind, Table, Tile};
use crate::plot::distribution::DrawnUnit;
use latlab_model::finding::Severity;
use latlab_model::history::{Change, Trend};

/// Series that are drawn, at most; the table has them all.
const DRAWN: usize = 24;
/// Of which a page shows at once.
const LEAD: usize = 4;

/// The report of some series.
pub fn trends(all: &[Trend]) -> Doc {
    let changed = all.iter().filter(|t| !t.changes.is_empty()).count();
    let mut summary = vec![format!("{} series, {changed} with a change of level.", all.len())];
    for t in all {
        summary.extend(
            t.changes.iter().map(|c| format!("{} of {}: {}.", t.statistic, t.label, sentence(c))),
        );
    }
    let mut blocks = vec![Block::Table(table(all))];
    // Those that changed first: they are what one looks for.
    let mut sorted: Vec<&Trend> = all.iter().collect();
    sorted.sort_by_key(|t| t.changes.is_empty());
    blocks.extend(
        sorted
            .into_iter()
            .filter(|t| t.values.len() > 1)
            .take(DRAWN)
            .map(|t| Block::Plot(Box::new(plot(t)))),
    );
    let section = Section { id: "trends".into(), title: "Over time".into(), blocks };
    let mut doc =
        Doc { title: "history".into(), summary, sections: vec![section], ..Doc::default() };
    super::make_ids_unique(&mut doc);
    doc
}

/// The page of some series: what changed first, as a plot, the rest collapsed.
pub fn page(all: &[Trend]) -> Doc {
    let mut doc = trends(all);
    let tile = |label: &str, n: usize, bad: bool| Tile {
        label: label.into(),
        value: n.to_string(),
        verdict: bad.then_some(Severity::Problem),
        ..Tile::default()
    };
    let last = |t: &&Trend| t.changes.last().map(|c| c.worse);
    let worse = all.iter().filter(|t| last(t) == Some(true)).count();
    let better = all.iter().filter(|t| last(t) == Some(false)).count();
    doc.tiles = vec![
        tile("series", all.len(), false),
        tile("worse at the latest change", worse, worse > 0),
        tile("better at the latest change", better, false),
        tile("without change", all.len() - worse - better, false),
    ];
    let shown = (worse + better).clamp(1, LEAD);
    let blocks = std::mem::take(&mut doc.sections[0].blocks);
    for block in blocks {
        match block {
            Block::Plot(_) if doc.lead.len() < shown => doc.lead.push(block),
            block => doc.sections[0].blocks.push(block),
        }
    }
    doc
}

/// `worse since kernel 6.6.31, 2026-03-02 (+12 %)`.
fn sentence(c: &Change) -> String {
    let word = if c.worse { "worse" } else { "better" };
    let date = c.since.get(..10).unwrap_or(&c.since);
    let by = (c.after / c.before - 1.0) * 100.0;
    if c.kernel_changed {
        format!("{word} since kernel {}, {date} ({by:+.1} %)", c.kernel)
    } else if c.kernel.is_empty() {
        format!("{word} since {date} ({by:+.1} %)")
    } else {
        format!("{word} since {date}, same kernel {} ({by:+.1} %)", c.kernel)
    }
}

fn table(all: &[Trend]) -> Table {
    let row = |t: &Trend| {
        let level = |v: Option<f64>| v.map_or("-".into(), |v| crate::values::figure(v, t.unit));
        let last = t.changes.last();
        vec![
            t.label.clone(),
            t.values.len().to_string(),
            level(last.map(|c| c.before)),
            level(last.map(|c| c.after).or_else(|| middle(t))),
            last.map_or("no change".into(), sentence),
        ]
    };
    Table {
        caption: "Levels before and after the latest change".into(),
        columns: vec![
            Column::left("series"),
            Column::right("runs"),
            Column::right("before"),
            Column::right("now"),
            Column::left(""),
        ],
        rows: all.iter().map(row).collect(),
    }
}

fn middle(t: &Trend) -> Option<f64> {
    latlab_stats::quantile::median(&t.values.iter().map(|v| v.value).collect::<Vec<_>>())
}

fn plot(t: &Trend) -> Plot {
    let unit = DrawnUnit::of(t.unit, middle(t).unwrap_or(0.0));
    let points =
        t.values.iter().enumerate().map(|(i, v)| (i as f64, v.value / unit.factor)).collect();
    let date = |i: usize| t.values.get(i).map_or("", |v| v.started.get(..10).unwrap_or(&v.started));
    Plot {
        id: format!("trend-{}", t.label),
        title: format!("{} of {}", t.statistic, t.label),
        description: format!(
            "One point for each run, {} to {}; vertical lines are changes of level.",
            date(0),
            date(t.values.len().saturating_sub(1))
        ),
        x: Axis { label: "run, in order of time".into(), ..Axis::default() },
        y: Axis { label: unit.label(&t.statistic), ..Axis::default() },
        series: vec![Series {
            name: t.statistic.clone(),
            kind: SeriesKind::Line,
            points,
            ..Series::default()
        }],
        marks: t.changes.iter().map(|c| Mark::X(c.at as f64 - 0.5, sentence(c))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_analysis::history::trend;
    use latlab_model::history::Value;
    use latlab_model::record::Unit;

    #[test]
    fn a_change_is_said_drawn_and_in_the_table() {
        let values = (0..40)
            .map(|i| Value {
                started: "2026-03-02T00:00:00Z".into(),
                kernel: if i < 20 { "6.6.30" } else { "6.6.31" }.into(),
                value: if i < 20 { 15_000.0 } else { 21_000.0 } + f64::from(i % 3) * 100.0,
                ..Value::default()
            })
            .collect();
        let doc = trends(&[trend("wakeup.user on bb", "p99", Unit::Ns, values, 0.0)]);
        assert!(
            doc.summary[1].contains("worse since kernel 6.6.31, 2026-03-02"),
            "{:?}",
            doc.summary
        );
        let plots: Vec<&Plot> = crate::sections::plots(&doc).collect();
        assert!(matches!(&plots[0].marks[0], Mark::X(x, _) if *x == 19.5));
    }
}
