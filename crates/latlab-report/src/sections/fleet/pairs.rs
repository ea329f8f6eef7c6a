//! Kernels of a campaign side by side.

use super::site::{Rows, Site};
use crate::doc::Block;
use crate::values::{change, counted};
use latlab_model::fleet::Pair;
use std::collections::BTreeMap;

/// Changes below this are none.
const MARGIN: f64 = 0.02;

/// What a pair of kernels did to a result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Worse,
    Better,
    Same,
    Open,
}

fn verdict(pair: &Pair) -> Verdict {
    match pair.interval {
        None => Verdict::Open,
        Some((low, _)) if low > 0.0 && pair.change > MARGIN => Verdict::Worse,
        Some((_, high)) if high < 0.0 && pair.change < -MARGIN => Verdict::Better,
        Some((low, high)) if low > -MARGIN && high < MARGIN => Verdict::Same,
        Some(_) => Verdict::Open,
    }
}

/// The same pair, the other kernel first.
fn turned(pair: &Pair) -> Pair {
    let inverse = |change: f64| 1.0 / (1.0 + change) - 1.0;
    Pair {
        metric: pair.against,
        kernel: pair.against_kernel.clone(),
        against: pair.metric,
        against_kernel: pair.kernel.clone(),
        change: inverse(pair.change),
        interval: pair.interval.map(|(low, high)| (inverse(high), inverse(low))),
        ..pair.clone()
    }
}

fn shown(pair: &Pair) -> [String; 4] {
    let interval = pair
        .interval
        .map_or("-".into(), |(low, high)| format!("{} to {}", change(low), change(high)));
    [pair.nights.to_string(), pair.devices.to_string(), change(pair.change), interval]
}

/// All pairs of kernels of all boards; `None` where no campaign had several.
pub(super) fn summary(site: &Site) -> Option<Block> {
    let mut all: BTreeMap<(usize, &str, &str), Vec<&Pair>> = BTreeMap::new();
    for p in &site.fleet.pairs {
        all.entry((p.board, &p.against_kernel, &p.kernel)).or_default().push(p);
    }
    let heads = [
        "board",
        "kernel",
        "against",
        "results",
        "worse",
        "better",
        "the same",
        "open",
        "largest change",
        "of",
    ];
    let caption = "Kernels of campaigns side by side: the same devices in the same nights. Worse and better: by more \
                   than 2 % with a 95 % interval on one side; the same: the interval is within 2 %; open: neither, or \
                   fewer than six nights";
    let mut table = Rows::new(caption, &heads, &[3, 4, 5, 6, 7, 8]);
    for ((board, against, kernel), pairs) in all {
        let count = |v| pairs.iter().filter(|p| verdict(p) == v).count().to_string().into();
        let largest =
            pairs.iter().max_by(|a, b| a.change.abs().total_cmp(&b.change.abs())).copied();
        table.add(vec![
            site.to_board(board),
            kernel.to_owned().into(),
            against.to_owned().into(),
            pairs.len().to_string().into(),
            count(Verdict::Worse),
            count(Verdict::Better),
            count(Verdict::Same),
            count(Verdict::Open),
            largest.map_or(String::new(), |p| change(p.change)).into(),
            largest.map_or(String::new().into(), |p| site.to_metric(p.metric)),
        ]);
    }
    (!table.is_empty()).then(|| table.done())
}

/// The results of a board with its kernels, the largest changes first.
pub(super) fn of_board(site: &Site, board: usize) -> Option<Block> {
    let mut pairs: Vec<&Pair> = site.fleet.pairs.iter().filter(|p| p.board == board).collect();
    pairs.sort_by(|a, b| b.change.abs().total_cmp(&a.change.abs()));
    let heads = ["result", "against", "nights", "devices", "change", "95 % interval"];
    let caption =
        "Kernels side by side: medians over nights and devices; a positive change is worse";
    let mut table = Rows::new(caption, &heads, &[2, 3, 4, 5]);
    for p in pairs {
        let mut cells = vec![site.to_metric(p.metric), p.against_kernel.clone().into()];
        cells.extend(shown(p).map(Into::into));
        table.add(cells);
    }
    (!table.is_empty()).then(|| table.done())
}

/// A result against the same one with other kernels.
pub(super) fn of_metric(site: &Site, metric: usize) -> Option<Block> {
    let its = |p: &Pair| match metric {
        m if m == p.metric => Some(p.clone()),
        m if m == p.against => Some(turned(p)),
        _ => None,
    };
    let pairs: Vec<Pair> = site.fleet.pairs.iter().filter_map(its).collect();
    let kernel = pairs.first().map_or("", |p| p.kernel.as_str());
    let caption = format!(
        "Kernel {kernel} against {}: the same devices in the same nights; a positive change is worse",
        counted(pairs.len(), "other")
    );
    let heads = ["against", "board", "nights", "devices", "change", "95 % interval"];
    let mut table = Rows::new(&caption, &heads, &[2, 3, 4, 5]);
    for p in &pairs {
        let mut cells = vec![site.to_metric(p.against), site.to_board(p.board)];
        cells.extend(shown(p).map(Into::into));
        table.add(cells);
    }
    (!table.is_empty()).then(|| table.done())
}
