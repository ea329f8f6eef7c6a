//! The page of a kernel: what became worse and better against the one before.

use super::site::{ROWS, Rows, Site, section};
use super::values::LEAST;
use crate::doc::{Block, Doc, Tile};
use crate::values::{change, counted};
use latlab_model::fleet::Step;

pub(super) fn doc(site: &Site, k: usize) -> Doc {
    let kernel = &site.fleet.kernels[k];
    let mut steps: Vec<&Step> = site.fleet.steps.iter().filter(|s| s.kernel == k).collect();
    steps.sort_by(|a, b| {
        b.change.total_cmp(&a.change).then((a.board, a.metric).cmp(&(b.board, b.metric)))
    });
    let worse: Vec<&Step> = steps.iter().copied().filter(|s| s.change > LEAST).collect();
    let better: Vec<&Step> = steps.iter().rev().copied().filter(|s| s.change < -LEAST).collect();
    let named: Vec<usize> = (site.fleet.alarms.iter().enumerate())
        .filter(|(_, a)| a.suspects.1 == k && a.suspects.0 != k)
        .map(|(i, _)| i)
        .collect();
    let tile = |label: &str, value: usize, bad: bool| Tile {
        label: label.into(),
        value: value.to_string(),
        verdict: bad.then_some(latlab_model::finding::Severity::Problem),
        ..Tile::default()
    };
    let same = steps.len() - worse.len() - better.len();
    let summary = if steps.is_empty() {
        "No device ran another kernel before it: there is nothing to compare with.".to_owned()
    } else {
        format!(
            "{} compared: {} worse and {} better by more than 2 %, {same} within it. A single night has \
             noise of this size: alarms are what was tested.",
            counted(steps.len(), "result"),
            worse.len(),
            better.len()
        )
    };
    let mut pairs = vec![
        ("first night".to_owned(), site.date(kernel.first).to_owned()),
        ("last night".to_owned(), site.date(kernel.last).to_owned()),
        ("devices".to_owned(), kernel.devices.to_string()),
    ];
    let boards: Vec<&str> = kernel.boards.iter().take(20).map(|b| site.board(*b)).collect();
    let more = kernel.boards.len() - boards.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    pairs.push(("boards".into(), boards.join(", ") + &more));
    Doc {
        title: format!("Kernel {}", kernel.release),
        tiles: vec![
            tile("alarms", named.len(), !named.is_empty()),
            tile("worse", worse.len(), false),
            tile("better", better.len(), false),
        ],
        summary: vec![summary],
        lead: Vec::new(),
        sections: vec![
            section("kernel", "Nights and boards", vec![Block::Pairs(pairs)]),
            section(
                "alarms",
                "Alarms",
                vec![site.alarms(named.into_iter(), "Alarms that begin with this kernel", ROWS)],
            ),
            section("worse", "Worse", vec![table(site, &worse, "Worse by more than 2 %")]),
            section("better", "Better", vec![table(site, &better, "Better by more than 2 %")]),
        ],
    }
}

fn table(site: &Site, steps: &[&Step], caption: &str) -> Block {
    let heads = ["board", "result", "change", "against", "devices", "nights"];
    let mut table = Rows::new(caption, &heads, &[2, 4, 5]);
    for s in steps {
        table.add(vec![
            site.to_board(s.board),
            site.to_metric(s.metric),
            change(s.change).into(),
            site.to_build(s.before),
            s.devices.to_string().into(),
            s.nights.to_string().into(),
        ]);
    }
    table.done()
}
