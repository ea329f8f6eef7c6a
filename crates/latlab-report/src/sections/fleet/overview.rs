//! The first page.

use super::site::{NEW, Rows, Site, section};
use super::values::{LEAST, drift};
use super::{pairs, plots};
use crate::doc::{Block, Doc, Tile};
use crate::values::{change, counted, grouped};
use latlab_model::finding::Severity;

/// Alarms that are shown at once.
const LEAD: usize = 15;

pub(super) fn doc(site: &Site) -> Doc {
    let fleet = site.fleet;
    let new = fleet.alarms.iter().filter(|a| a.night >= site.first_new()).count();
    let devices: usize = (0..fleet.boards.len()).map(|b| site.devices(b)).sum();
    let runs: u64 = fleet.nights.iter().map(|n| n.runs).sum();
    let tile = |label: &str, value: usize, note: String| Tile {
        label: label.into(),
        value: grouped(value as u64),
        note,
        verdict: None,
    };
    let last = fleet.nights.len().saturating_sub(1);
    let mut tiles = vec![
        tile("new alarms", new, format!("of {NEW} nights; {} in all", fleet.alarms.len())),
        tile("devices", devices, format!("of {}", counted(fleet.boards.len(), "board"))),
        tile("kernels", fleet.kernels.len(), String::new()),
        tile("nights", fleet.nights.len(), format!("to {}", site.date(last))),
        tile("results", fleet.metrics.len(), format!("{} runs", grouped(runs))),
    ];
    tiles[0].verdict = Some(if new > 0 { Severity::Problem } else { Severity::Ok });
    let summary = vec![format!(
        "{} of {}, {} and {}, {} to {}.",
        counted(devices, "device"),
        counted(fleet.boards.len(), "board"),
        counted(fleet.kernels.len(), "kernel"),
        counted(fleet.nights.len(), "night"),
        site.date(0),
        site.date(last)
    )];
    let all = || 0..fleet.alarms.len();
    let mut lead = vec![site.alarms(all(), "Alarms, the latest first", LEAD)];
    lead.push(Block::Plot(Box::new(nights(site))));
    let mut sections = vec![
        section("boards", "Boards", vec![boards(site)]),
        section("kernels", "Kernels", vec![kernels(site)]),
        section("results", "Results", vec![metrics(site)]),
        section("alarms", "All alarms", vec![site.alarms(all(), "Alarms", site.most.alarms)]),
    ];
    if let Some(pairs) = pairs::summary(site) {
        sections.insert(2, section("side-by-side", "Kernels side by side", vec![pairs]));
    }
    Doc { title: "Fleet".into(), tiles, summary, lead, sections }
}

fn nights(site: &Site) -> crate::doc::Plot {
    let shown = &site.fleet.nights[site.from..];
    let devices = shown.iter().map(|n| f64::from(n.devices)).collect();
    plots::counts(
        site,
        "Devices",
        "Devices with a result in each night.",
        vec![("devices", devices)],
    )
}

fn boards(site: &Site) -> Block {
    let heads = ["board", "devices", "results", "alarms", "new", "latest alarm"];
    let mut table =
        Rows::new("Boards, those with alarms first", &heads, &[1, 2, 3, 4]).most(site.most.boards);
    let alarms = |b: usize| site.alarms_of.get(&b).map(Vec::as_slice).unwrap_or_default();
    let mut order: Vec<usize> = (0..site.fleet.boards.len()).collect();
    order.sort_by_key(|b| std::cmp::Reverse((alarms(*b).last().copied(), site.devices(*b))));
    let mut results = vec![0usize; site.fleet.boards.len()];
    for line in site.fleet.metrics.iter().flat_map(|m| &m.lines) {
        results[line.board] += 1;
    }
    for b in order {
        let of = alarms(b);
        let new = of.iter().filter(|i| site.fleet.alarms[**i].night >= site.first_new()).count();
        let latest = of.last().map(|i| site.to_alarm(*i, site.date(site.fleet.alarms[*i].since)));
        table.add(vec![
            site.to_board(b),
            site.devices(b).to_string().into(),
            results[b].to_string().into(),
            of.len().to_string().into(),
            new.to_string().into(),
            latest.unwrap_or_else(|| String::from("-").into()),
        ]);
    }
    table.done()
}

fn kernels(site: &Site) -> Block {
    let heads = ["kernel", "first night", "last night", "devices", "boards", "worse", "better"];
    let mut table = Rows::new(
        "Kernels, the latest first; worse and better: results of boards by more than 2 %",
        &heads,
        &[3, 4, 5, 6],
    )
    .most(site.most.builds);
    let mut worse = vec![(0usize, 0usize); site.fleet.kernels.len()];
    for step in &site.fleet.steps {
        worse[step.kernel].0 += usize::from(step.change > LEAST);
        worse[step.kernel].1 += usize::from(step.change < -LEAST);
    }
    for (i, kernel) in site.fleet.kernels.iter().enumerate().rev() {
        table.add(vec![
            site.to_build(i),
            site.date(kernel.first).to_owned().into(),
            site.date(kernel.last).to_owned().into(),
            kernel.devices.to_string().into(),
            kernel.boards.len().to_string().into(),
            worse[i].0.to_string().into(),
            worse[i].1.to_string().into(),
        ]);
    }
    table.done()
}

/// Results with the largest change between the first and the last nights of a board first.
fn metrics(site: &Site) -> Block {
    let heads = ["result", "boards", "devices", "alarms", "largest change", "on"];
    let mut table = Rows::new(
        "Results; largest change: last 7 nights against the first 30, positive is worse",
        &heads,
        &[1, 2, 3, 4],
    )
    .most(site.most.metrics);
    let mut alarms = vec![0usize; site.fleet.metrics.len()];
    for c in site.fleet.alarms.iter().flat_map(|a| &a.changes) {
        alarms[c.metric] += 1;
    }
    let mut rows: Vec<_> = (site.fleet.metrics.iter().enumerate())
        .map(|(i, m)| {
            let all = m.lines.iter().filter_map(|l| Some((drift(m, l)?, l.board)));
            (i, all.max_by(|a, b| a.0.total_cmp(&b.0)))
        })
        .collect();
    rows.sort_by(|a, b| {
        let by = |r: &(usize, Option<(f64, usize)>)| r.1.map_or(f64::NEG_INFINITY, |c| c.0);
        by(b).total_cmp(&by(a)).then(a.0.cmp(&b.0))
    });
    for (i, largest) in rows {
        let metric = &site.fleet.metrics[i];
        table.add(vec![
            site.to_metric(i),
            metric.lines.len().to_string().into(),
            metric.lines.iter().map(|l| l.devices as usize).sum::<usize>().to_string().into(),
            alarms[i].to_string().into(),
            largest.map_or("-".into(), |c| change(c.0)).into(),
            largest.map_or(String::new(), |c| site.board(c.1).to_owned()).into(),
        ]);
    }
    table.done()
}
