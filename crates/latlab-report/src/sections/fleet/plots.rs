//! Values over nights as plots.

use super::site::{Site, label, suspects};
use crate::doc::{Axis, Mark, Plot, Scale, Series, SeriesKind};
use crate::plot::distribution::DrawnUnit;
use crate::values::counted;
use latlab_model::fleet::{Alarm, Change, Line, Metric, Tail};
use latlab_stats::quantile::median;

/// Nights before and after a change that are drawn.
const AROUND: usize = 60;
/// Names of alarms on one plot.
const MARKS: usize = 8;

/// Nights as an axis; positions count from the first that is drawn.
fn nights(site: &Site, from: usize, to: usize) -> Axis {
    let dates = site.fleet.nights.get(from..to).unwrap_or_default();
    Axis {
        scale: Scale::Category,
        categories: dates.iter().map(|n| n.date.clone()).collect(),
        ..Axis::default()
    }
}

fn statistic(metric: &Metric, typical: f64) -> (DrawnUnit, Axis) {
    let unit = DrawnUnit::of(metric.unit, typical);
    let axis = Axis { label: unit.label("p99, or median"), tight: true, ..Axis::default() };
    (unit, axis)
}

/// Median and spread of the devices of a board, night by night, with its alarms.
pub(super) fn line(site: &Site, metric: &Metric, line: &Line, title: String) -> Plot {
    let shown: Vec<_> = line.points.iter().filter(|p| p.night as usize >= site.from).collect();
    let middle: Vec<f64> = shown.iter().map(|p| f64::from(p.middle)).collect();
    let (unit, y) = statistic(metric, median(&middle).unwrap_or(0.0));
    let scaled = |v: f32| f64::from(v) / unit.factor;
    let at = |night: u32| (night as usize - site.from) as f64;
    let several = line.devices > 1;
    let alarms = alarms_of(site, line.board, metric);
    let marks = alarms.iter().rev().take(MARKS).rev().map(|a| {
        let who = a.device.as_deref().unwrap_or("all devices");
        Mark::X(a.since.saturating_sub(site.from) as f64 - 0.5, who.to_owned())
    });
    let spread = if several { "; the band has 80 % of the devices" } else { "" };
    Plot {
        id: "line".into(),
        title,
        description: format!(
            "Median of {}{spread}. Vertical lines: alarms.",
            counted(line.devices as usize, "device")
        ),
        x: nights(site, site.from, site.fleet.nights.len()),
        y,
        series: vec![Series {
            name: "median".into(),
            kind: SeriesKind::Line,
            points: shown.iter().map(|p| (at(p.night), scaled(p.middle))).collect(),
            intervals: if several {
                shown.iter().map(|p| (scaled(p.low), scaled(p.high))).collect()
            } else {
                Vec::new()
            },
            ..Series::default()
        }],
        marks: marks.collect(),
    }
}

/// Alarms about a result of a board in the nights that are drawn.
pub(super) fn alarms_of<'a>(site: &'a Site, board: usize, metric: &Metric) -> Vec<&'a Alarm> {
    let of = site.alarms_of.get(&board).map(Vec::as_slice).unwrap_or_default();
    let names =
        |c: &Change| site.fleet.metrics.get(c.metric).is_some_and(|m| std::ptr::eq(m, metric));
    (of.iter().filter_map(|i| site.fleet.alarms.get(*i)))
        .filter(|a| a.since >= site.from && a.changes.iter().any(names))
        .collect()
}

/// A result of an alarm, around the change.
pub(super) fn change(site: &Site, alarm: &Alarm, change: &Change) -> Option<Plot> {
    let metric = site.fleet.metrics.get(change.metric)?;
    let line = metric.lines.iter().find(|l| l.board == alarm.board)?;
    let from = alarm.since.saturating_sub(AROUND);
    let to = (alarm.since + AROUND).min(site.fleet.nights.len());
    let here = |night: u32| (from..to).contains(&(night as usize));
    let at = |night: u32| (night as usize - from) as f64;
    let of_board: Vec<(f64, f64)> = (line.points.iter())
        .filter(|p| here(p.night))
        .map(|p| (at(p.night), f64::from(p.middle)))
        .collect();
    let of_device: Vec<(f64, f64)> =
        (change.values.iter()).filter(|v| here(v.0)).map(|v| (at(v.0), f64::from(v.1))).collect();
    let typical = of_device.iter().chain(&of_board).map(|p| p.1).collect::<Vec<_>>();
    let (unit, y) = statistic(metric, median(&typical).unwrap_or(0.0));
    let scaled = |points: Vec<(f64, f64)>| -> Vec<(f64, f64)> {
        points.into_iter().map(|p| (p.0, p.1 / unit.factor)).collect()
    };
    let one = |name: String, points| Series {
        name,
        kind: SeriesKind::Line,
        points: scaled(points),
        ..Series::default()
    };
    let all = format!("median of {}", counted(line.devices as usize, "device"));
    let series = match &alarm.device {
        Some(device) => vec![one(device.clone(), of_device), one(all, of_board)],
        None => vec![one(all, of_board)],
    };
    let mut marks =
        vec![Mark::X(alarm.since.saturating_sub(from) as f64 - 0.5, suspects(site, alarm))];
    if let Some(before) = change.before {
        marks.push(Mark::Y(before / unit.factor, "before".into()));
    }
    Some(Plot {
        id: "change".into(),
        title: label(metric),
        description: format!(
            "Nights around {}. The vertical line is the change, the horizontal one the level before.",
            site.date(alarm.since)
        ),
        x: nights(site, from, to),
        y,
        series,
        marks,
    })
}

/// Share of samples above each value, one line for each board.
pub(super) fn tail(site: &Site, metric: &Metric) -> Option<Plot> {
    let boards = metric.tails.iter().filter_map(|t| Some((t.board?, t)));
    let mut tails: Vec<(usize, &Tail)> = boards.filter(|(_, t)| t.samples > 0).collect();
    tails.sort_by_key(|(_, t)| std::cmp::Reverse(t.samples));
    tails.truncate(crate::plot::palette::SERIES);
    let typical = tails.first().and_then(|(_, t)| t.quantiles.first())?.value;
    let unit = DrawnUnit::of(metric.unit, typical as f64);
    let series = |&(board, t): &(usize, &Tail)| {
        let mut above = t.samples;
        let points = t.buckets.iter().map(|(high, n)| {
            above = above.saturating_sub(*n);
            // The last one has no sample above it: half of one is drawn.
            (*high as f64 / unit.factor, (above as f64).max(0.5) / t.samples as f64)
        });
        let name = site.board(board).to_owned();
        Series { name, kind: SeriesKind::Step, points: points.collect(), ..Series::default() }
    };
    Some(Plot {
        id: "tail".into(),
        title: "Share of samples above".into(),
        description: "For every value on the horizontal axis, the share of all samples of the latest \
                      nights above it. Lower and further left is better; 0.001 is one in a thousand."
            .into(),
        x: Axis { label: unit.label("value"), scale: Scale::Log10, ..Axis::default() },
        y: Axis { label: "share above".into(), scale: Scale::Log10, ..Axis::default() },
        series: tails.iter().map(series).collect(),
        marks: Vec::new(),
    })
}

/// Bars for counts of nights.
pub(super) fn counts(
    site: &Site,
    title: &str,
    description: &str,
    series: Vec<(&str, Vec<f64>)>,
) -> Plot {
    let one = |(name, values): (&str, Vec<f64>)| Series {
        name: name.into(),
        kind: SeriesKind::Step,
        points: values.into_iter().enumerate().map(|(i, v)| (i as f64, v)).collect(),
        ..Series::default()
    };
    Plot {
        id: "nights".into(),
        title: title.into(),
        description: description.into(),
        x: nights(site, site.from, site.fleet.nights.len()),
        y: Axis::default(),
        series: series.into_iter().map(one).collect(),
        marks: Vec::new(),
    }
}
