//! Results beside those of published machines: a table for each, and bars of all of them.

use crate::doc::{Axis, Block, Column, Plot, Scale, Series, SeriesKind, Table};
use crate::values::figure;
use latlab_model::record::Unit;
use latlab_model::reference::{Against, AgainstRow};
use std::collections::BTreeMap;

/// Tables and the bars.
pub(super) fn blocks(all: &[Against]) -> Vec<Block> {
    let tables = all.iter().map(|a| Block::Table(table(a)));
    tables.chain(bars(all).map(|p| Block::Plot(Box::new(p)))).collect()
}

fn name(row: &AgainstRow) -> String {
    row.label.replace([':', ','], " ")
}

fn table(a: &Against) -> Table {
    let row = |r: &AgainstRow| {
        vec![
            name(r),
            figure(r.here, Unit::Ns),
            figure(r.there, Unit::Ns),
            format!("{:.2}", r.here / r.there),
        ]
    };
    let columns = vec![
        Column::left("probe"),
        Column::right("here"),
        Column::right(a.id.clone()),
        Column::right("here / there"),
    ];
    Table {
        caption: format!("Against {}, from {}", a.machine, a.source),
        columns,
        rows: a.rows.iter().map(row).collect(),
    }
}

/// Every probe that a published machine has, in its order: here and on each machine, on one logarithmic axis.
fn bars(all: &[Against]) -> Option<Plot> {
    let mut probes: Vec<String> = Vec::new();
    let mut here: BTreeMap<usize, f64> = BTreeMap::new();
    let mut machines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for a in all.iter().filter(|a| !a.rows.is_empty()) {
        let mut points = Vec::new();
        for row in &a.rows {
            let name = name(row);
            let lane = probes.iter().position(|p| *p == name).unwrap_or_else(|| {
                probes.push(name);
                probes.len() - 1
            });
            here.insert(lane, row.here / 1e3);
            points.push((lane as f64, row.there / 1e3));
        }
        machines.push((a.id.clone(), points));
    }
    if machines.is_empty() {
        return None;
    }
    let ours = here.into_iter().map(|(lane, us)| (lane as f64, us)).collect();
    machines.insert(0, ("here".into(), ours));
    let series = machines.into_iter().map(|(name, points)| Series {
        name,
        kind: SeriesKind::Bars,
        points,
        ..Series::default()
    });
    Some(Plot {
        id: "bench-published".into(),
        title: "Beside published machines".into(),
        description: "Medians here, and the published values. They were measured with other tools: only the order of magnitude is comparable.".into(),
        x: Axis { scale: Scale::Category, categories: probes, ..Axis::default() },
        y: Axis { label: "time (µs)".into(), scale: Scale::Log10, ..Axis::default() },
        series: series.collect(),
        marks: vec![],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_machines_and_here_are_bars_of_the_same_probes() {
        let machine = |id: &str, rows: &[(&str, f64)]| Against {
            id: id.into(),
            rows: (rows.iter())
                .map(|(label, there)| AgainstRow {
                    label: (*label).to_owned(),
                    here: 200.0,
                    there: *there,
                })
                .collect(),
            ..Against::default()
        };
        let all = [
            machine("a", &[("syscall.read", 900.0), ("syscall.write", 950.0)]),
            machine("b", &[("syscall.write", 117.0)]),
        ];
        let plot = bars(&all).unwrap();
        assert_eq!(plot.x.categories, ["syscall.read", "syscall.write"]);
        let names: Vec<&str> = plot.series.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["here", "a", "b"]);
        assert_eq!(plot.series[2].points, [(1.0, 0.117)]);
        assert_eq!(bars(&[]), None);
    }
}
