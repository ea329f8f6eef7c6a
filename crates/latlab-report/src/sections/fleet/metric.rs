//! The page of a result.

use super::site::{ROWS, Rows, Site, label, section};
use super::values::{drift, ends};
use super::{pairs, plots};
use crate::doc::{Block, Doc, Tile};
use crate::values::{change, counted, figure, grouped};
use latlab_model::fleet::{Line, Metric, Tail};
use latlab_stats::clusters::{LEAST, Over, Unknown};

/// Boards that are drawn.
const PLOTS: usize = 12;
/// Boards of the table of kernels.
const COLUMNS: usize = 6;
/// Kernels of the table.
const KERNELS: usize = 40;

pub(super) fn doc(site: &Site, i: usize) -> Doc {
    let metric = &site.fleet.metrics[i];
    let mut lines: Vec<&Line> = metric.lines.iter().collect();
    // What alarms name first, then what many devices have.
    lines.sort_by_key(|l| {
        let alarms = plots::alarms_of(site, l.board, metric).len();
        (std::cmp::Reverse((alarms, l.devices)), l.board)
    });
    let devices: usize = lines.iter().map(|l| l.devices as usize).sum();
    let named: Vec<usize> = (site.fleet.alarms.iter().enumerate())
        .filter(|(_, a)| a.changes.iter().any(|c| c.metric == i))
        .map(|(i, _)| i)
        .collect();
    let tile = |label: &str, value: usize| Tile {
        label: label.into(),
        value: value.to_string(),
        ..Tile::default()
    };
    let drawn = lines.iter().filter(|l| l.points.len() > 1).take(PLOTS).map(|l| {
        Block::Plot(Box::new(plots::line(site, metric, l, site.board(l.board).to_owned())))
    });
    let mut over_nights: Vec<Block> = drawn.collect();
    if lines.len() > over_nights.len() {
        let more = counted(lines.len() - over_nights.len(), "board");
        over_nights.push(Block::Text(format!("{more} more: not drawn.")));
    }
    let mut tail = Vec::new();
    tail.extend(plots::tail(site, metric).map(|p| Block::Plot(Box::new(p))));
    tail.push(tails(site, metric));
    let mut by_kernel: Vec<Block> = pairs::of_metric(site, i).into_iter().collect();
    by_kernel.push(kernels(site, metric, &lines));
    let direction = if metric.larger_is_better { "larger" } else { "smaller" };
    Doc {
        title: label(metric),
        tiles: vec![
            tile("boards", lines.len()),
            tile("devices", devices),
            tile("alarms", named.len()),
        ],
        summary: vec![format!(
            "The value of a night is the median of its runs at p99, or at the median where p99 is not \
             supported; {direction} is better."
        )],
        lead: Vec::new(),
        sections: vec![
            section("boards", "Boards", vec![boards(site, metric, &lines)]),
            section("nights", "Over nights", over_nights),
            section("tail", "Merged tail", tail),
            section("kernels", "Kernels", by_kernel),
            section(
                "alarms",
                "Alarms",
                vec![site.alarms(
                    named.into_iter(),
                    "Alarms that name this result, the latest first",
                    ROWS,
                )],
            ),
        ],
    }
}

fn boards(site: &Site, metric: &Metric, lines: &[&Line]) -> Block {
    let heads = [
        "board",
        "devices",
        "first 30 nights",
        "last 7 nights",
        "change",
        "worst device",
        "its level",
    ];
    let caption = "Boards: medians over devices and nights; a positive change is worse";
    let mut table = Rows::new(caption, &heads, &[1, 2, 3, 4, 6]);
    for line in lines {
        let (first, last) = ends(line);
        let shown = |v: Option<f64>| v.map_or("-".into(), |v| figure(v, metric.unit));
        table.add(vec![
            site.to_board(line.board),
            line.devices.to_string().into(),
            shown(first).into(),
            shown(last).into(),
            drift(metric, line).map_or("-".into(), change).into(),
            line.worst.as_ref().map_or("-".into(), |w| w.0.clone()).into(),
            shown(line.worst.as_ref().map(|w| w.1)).into(),
        ]);
    }
    table.done()
}

fn kernels(site: &Site, metric: &Metric, lines: &[&Line]) -> Block {
    let lines = &lines[..lines.len().min(COLUMNS)];
    let mut heads = vec!["kernel", "first night"];
    heads.extend(lines.iter().map(|l| site.board(l.board)));
    let numbers: Vec<usize> = (2..heads.len()).collect();
    let caption = format!("Medians of devices by kernel, the latest {KERNELS} first");
    let mut table = Rows::new(&caption, &heads, &numbers);
    let ran =
        |k: &usize| lines.iter().any(|l| l.levels.binary_search_by_key(k, |v| v.kernel).is_ok());
    for k in (0..site.fleet.kernels.len()).rev().filter(ran).take(KERNELS) {
        let mut cells =
            vec![site.to_build(k), site.date(site.fleet.kernels[k].first).to_owned().into()];
        cells.extend(lines.iter().map(|l| {
            let level = l.levels.binary_search_by_key(&k, |v| v.kernel).ok().map(|at| l.levels[at]);
            level.map_or("-".into(), |v| figure(v.value, metric.unit)).into()
        }));
        table.add(cells);
    }
    table.done()
}

fn tails(site: &Site, metric: &Metric) -> Block {
    let heads = [
        "board",
        "samples",
        "median",
        "p99",
        "p99.9",
        "p99.99",
        "p99.999",
        "maximum",
        "intervals over",
    ];
    let caption = "All samples of the latest nights, merged; values are known to 1.6 %. In brackets: 95 % intervals, \
                   open where no sample tells the upper end";
    let mut table = Rows::new(caption, &heads, &[1, 2, 3, 4, 5, 6, 7]);
    let mut tails: Vec<&Tail> = metric.tails.iter().collect();
    // All boards together are first.
    tails.sort_by_key(|t| (t.board.is_some(), std::cmp::Reverse(t.samples)));
    for t in tails {
        let shown = |v: u64| figure(v as f64, metric.unit);
        let quantile = |q: f64| {
            let Some(found) = t.quantiles.iter().find(|v| v.q == q) else { return "-".to_owned() };
            let value = shown(found.value);
            match found.interval {
                None => value,
                Some((low, Some(high))) => format!("{value} ({} to {})", shown(low), shown(high)),
                Some((low, None)) => format!("{value} (from {})", shown(low)),
            }
        };
        let board = match t.board {
            Some(board) => site.to_board(board),
            None => String::from("all").into(),
        };
        let mut cells = vec![board, grouped(t.samples).into()];
        cells.extend([0.5, 0.99, 0.999, 0.9999, 0.99999].map(|q| quantile(q).into()));
        cells.push(t.buckets.last().map_or("-".into(), |b| shown(b.0)).into());
        cells.push(over(t).into());
        table.add(cells);
    }
    table.done()
}

/// What the intervals of a tail are about, or why there is none.
fn over(t: &Tail) -> String {
    let few = |n: u64, one: &str| format!("none: {}, fewer than {LEAST}", counted(n as usize, one));
    match t.over {
        Ok(Over::DevicesAndNights) => format!("{} devices, {} nights", t.devices, t.nights),
        Ok(Over::Devices) => {
            format!("{} devices in {}", t.devices, counted(t.nights as usize, "night"))
        }
        Ok(Over::Nights) => format!("{} nights of this device", t.nights),
        Ok(Over::Runs) => "runs of this device in this night".into(),
        Err(Unknown::FewDevices) => few(t.devices, "device"),
        Err(Unknown::FewNights) => few(t.nights, "night"),
        Err(Unknown::FewRuns | Unknown::OneHasAll) => format!("none: fewer than {LEAST} runs"),
    }
}
