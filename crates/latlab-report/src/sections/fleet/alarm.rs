//! The page of an alarm.

use super::plots;
use super::site::{Cell, Rows, Site, section, suspects};
use super::values::worse;
use crate::doc::{Block, Doc, Tile};
use crate::values::{change, counted, figure};
use latlab_model::finding::Severity;
use latlab_model::fleet::{Alarm, Change, Property};

/// Results that are drawn.
const PLOTS: usize = 4;

pub(super) fn doc(site: &Site, i: usize) -> Doc {
    let alarm = &site.fleet.alarms[i];
    let board = site.board(alarm.board);
    let who = match &alarm.device {
        Some(device) => format!("device {device} of {board}"),
        None => format!("all devices of {board}"),
    };
    let results = alarm.changes.len() + alarm.more_changes;
    let first = alarm.changes.first();
    let now = first.and_then(|c| still(site, c));
    let same = alarm.suspects.0 == alarm.suspects.1;
    let mut summary =
        vec![format!("{}: {who} are worse since {}.", alarm.family, site.date(alarm.since))];
    if alarm.device.is_some() {
        summary[0] = format!("{}: {who} is worse since {}.", alarm.family, site.date(alarm.since));
    }
    summary.push(if same {
        format!(
            "The kernel was {} before and after: it is not the kernel.",
            site.kernel(alarm.suspects.1)
        )
    } else {
        format!(
            "The change lies between kernel {} and kernel {}.",
            site.kernel(alarm.suspects.0),
            site.kernel(alarm.suspects.1)
        )
    });
    summary.extend(also(alarm));
    let tiles = vec![
        Tile {
            label: "largest change".into(),
            value: first.map_or("-".into(), |c| change(c.change)),
            note: first.map_or(String::new(), |c| site.metric(c.metric)),
            verdict: Some(Severity::Problem),
        },
        Tile {
            label: "last 7 nights".into(),
            value: now.map_or("-".into(), change),
            note: "against the nights before the change".into(),
            verdict: now.map(|n| if n > 0.02 { Severity::Problem } else { Severity::Ok }),
        },
        Tile { label: "results".into(), value: results.to_string(), ..Tile::default() },
    ];
    let heads = ["result", "change", "before", "after", "last 7 nights"];
    let mut table = Rows::new(
        "Results: 20 nights before the change, from the change to the report, last 7 nights",
        &heads,
        &[1, 2, 3, 4],
    );
    table.more = alarm.more_changes;
    for c in &alarm.changes {
        let unit = site.fleet.metrics[c.metric].unit;
        let shown = |v: Option<f64>| v.map_or("-".into(), |v| figure(v, unit));
        table.add(vec![
            site.to_metric(c.metric),
            change(c.change).into(),
            shown(c.before).into(),
            shown(c.after).into(),
            shown(c.now).into(),
        ]);
    }
    let drawn = alarm.changes.iter().take(PLOTS).filter_map(|c| plots::change(site, alarm, c));
    let mut lead = vec![table.done()];
    lead.extend(drawn.map(|p| Block::Plot(Box::new(p))));
    Doc {
        title: format!("{} on {board}", alarm.family),
        tiles,
        summary,
        lead,
        sections: vec![section(
            "about",
            format!("About: {}", suspects(site, alarm)),
            vec![facts(site, alarm), environment(alarm)],
        )],
    }
}

fn facts(site: &Site, alarm: &Alarm) -> Block {
    let mut facts = Rows::new("About this alarm", &["", ""], &[]);
    let named = |name: &str| Cell(name.to_owned(), None);
    facts.add(vec![named("board"), site.to_board(alarm.board)]);
    facts.add(vec![named("devices"), alarm.device.clone().unwrap_or_else(|| "all".into()).into()]);
    facts.add(vec![named("kernel before"), site.to_build(alarm.suspects.0)]);
    facts.add(vec![named("kernel with it"), site.to_build(alarm.suspects.1)]);
    facts.add(vec![named("since"), site.date(alarm.since).to_owned().into()]);
    facts.add(vec![named("reported"), site.date(alarm.night).to_owned().into()]);
    facts.add(vec![named("adjusted p value"), format!("{:.1e}", alarm.p).into()]);
    facts.done()
}

/// What changed besides the kernel, in one sentence; `None` where the two nights cannot be compared.
fn also(alarm: &Alarm) -> Option<String> {
    let of = &alarm.environment;
    // Of a new kernel it is its name.
    let other = |p: &&Property| p.name != "kernel.version" && p.name != "package.kernel";
    let mut names: Vec<&str> = Vec::new();
    for p in of.changes.iter().filter(other) {
        if !names.contains(&p.name.as_str()) {
            names.push(&p.name);
        }
    }
    let more = names.len().saturating_sub(4) + of.more;
    names.truncate(4);
    match (of.compared, names.is_empty()) {
        (0, _) => None,
        (_, true) => Some("No other recorded property of the devices changed with it.".into()),
        _ if more > 0 => Some(format!("Also changed: {} and {more} more.", names.join(", "))),
        _ => Some(format!("Also changed: {}.", names.join(", "))),
    }
}

fn environment(alarm: &Alarm) -> Block {
    let of = &alarm.environment;
    let heads = ["property", "before", "with it", "devices"];
    let caption = format!(
        "Properties that changed between the two nights, on {} that ran in both",
        counted(of.compared, "device")
    );
    let mut table = Rows::new(&caption, &heads, &[3]);
    table.more = of.more;
    for p in &of.changes {
        let shown = |v: &str| if v.is_empty() { "-" } else { v }.to_owned();
        table.add(vec![
            p.name.clone().into(),
            shown(&p.before).into(),
            shown(&p.after).into(),
            p.devices.to_string().into(),
        ]);
    }
    table.done()
}

/// How much worse the present is than the nights before the change.
fn still(site: &Site, c: &Change) -> Option<f64> {
    worse(site.fleet.metrics.get(c.metric)?, c.before?, c.now?)
}
