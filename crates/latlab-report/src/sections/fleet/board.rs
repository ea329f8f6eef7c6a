//! The page of a class of boards.

use super::site::{ROWS, Rows, Site, label, section};
use super::values::{drift, ends};
use super::{pairs, plots};
use crate::doc::{Block, Doc, Tile};
use crate::values::{change, counted, figure};
use latlab_model::finding::Severity;
use latlab_model::fleet::{Line, Metric};

/// Plots of results.
const PLOTS: usize = 8;

pub(super) fn doc(site: &Site, b: usize) -> Doc {
    let board = &site.fleet.boards[b];
    let of = site.alarms_of.get(&b).map(Vec::as_slice).unwrap_or_default();
    let new = of.iter().filter(|i| site.fleet.alarms[**i].night >= site.first_new()).count();
    let mut lines: Vec<(usize, &Metric, &Line)> = (site.fleet.metrics.iter().enumerate())
        .filter_map(|(i, m)| Some((i, m, m.lines.iter().find(|l| l.board == b)?)))
        .collect();
    let tile = |label: &str, value: usize, note: String| Tile {
        label: label.into(),
        value: value.to_string(),
        note,
        verdict: None,
    };
    let mut tiles = vec![
        tile("new alarms", new, format!("{} in all", of.len())),
        tile("devices", site.devices(b), String::new()),
        tile("results", lines.len(), String::new()),
    ];
    tiles[0].verdict = Some(if new > 0 { Severity::Problem } else { Severity::Ok });
    let devices = devices(site, b);
    let results = results(site, &lines);
    // What alarms name first, then what many devices have.
    lines.sort_by_key(|(i, m, l)| {
        let alarms = plots::alarms_of(site, b, m).len();
        (std::cmp::Reverse((alarms, l.devices)), *i)
    });
    let drawn = lines.iter().filter(|(_, _, l)| l.points.len() > 1).take(PLOTS);
    let drawn: Vec<Block> =
        drawn.map(|(_, m, l)| Block::Plot(Box::new(plots::line(site, m, l, label(m))))).collect();
    let more = lines.len() - drawn.len();
    let mut over_nights = vec![];
    if more > 0 {
        let words = format!(
            "{} more are not drawn here: the table leads to each.",
            counted(more, "result")
        );
        over_nights.push(Block::Text(words));
    }
    over_nights.splice(0..0, drawn);
    let side_by_side = pairs::of_board(site, b)
        .map(|table| section("side-by-side", "Kernels side by side", vec![table]));
    Doc {
        title: site.board(b).to_owned(),
        tiles,
        summary: vec![format!(
            "{}, {} with a difference to the others of more than 10 %.",
            counted(site.devices(b), "device"),
            board.devices.iter().filter(|d| d.difference.is_some_and(|d| d.abs() > 0.1)).count()
        )],
        lead: Vec::new(),
        sections: [
            section(
                "alarms",
                "Alarms",
                vec![site.alarms(of.iter().copied(), "Alarms, the latest first", ROWS)],
            ),
            section("devices", "Devices", vec![devices]),
            section("results", "Results", vec![results]),
            section("nights", "Over nights", over_nights),
        ]
        .into_iter()
        .chain(side_by_side)
        .collect(),
    }
}

fn devices(site: &Site, b: usize) -> Block {
    let board = &site.fleet.boards[b];
    let heads = ["device", "difference", "worst", "of", "nights", "last night", "kernel"];
    let caption = "Devices: median difference of their results to the median of all devices, in the \
                   latest nights; positive is worse";
    let mut table = Rows::new(caption, &heads, &[1, 2, 4]);
    table.more = board.more_devices;
    for d in &board.devices {
        table.add(vec![
            d.name.clone().into(),
            d.difference.map_or("-".into(), change).into(),
            d.worst.map_or("-".into(), |w| change(w.1)).into(),
            d.worst.map_or(String::new().into(), |w| site.to_metric(w.0)),
            d.nights.to_string().into(),
            site.date(d.last).to_owned().into(),
            site.to_build(d.kernel),
        ]);
    }
    table.done()
}

fn results(site: &Site, lines: &[(usize, &Metric, &Line)]) -> Block {
    let heads = ["result", "devices", "first 30 nights", "last 7 nights", "change"];
    let caption = "Results: medians over devices and nights; a positive change is worse";
    let mut table = Rows::new(caption, &heads, &[1, 2, 3, 4]);
    let mut rows: Vec<_> = lines.iter().map(|(i, m, l)| (*i, *m, *l, drift(m, l))).collect();
    let by = |c: Option<f64>| c.unwrap_or(f64::NEG_INFINITY);
    rows.sort_by(|a, b| by(b.3).total_cmp(&by(a.3)).then(a.0.cmp(&b.0)));
    for (i, m, line, drift) in rows {
        let (first, last) = ends(line);
        let shown = |v: Option<f64>| v.map_or("-".into(), |v| figure(v, m.unit));
        table.add(vec![
            site.to_metric(i),
            line.devices.to_string().into(),
            shown(first).into(),
            shown(last).into(),
            drift.map_or("-".into(), change).into(),
        ]);
    }
    table.done()
}
