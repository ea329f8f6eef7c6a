//! The worst wake-up that a search found: its inputs, the growth of the search beside random wake-ups, its path.

use super::bound;
use super::path::{flame_of, outline};
use crate::doc::{Axis, Block, Column, Plot, Section, Series, SeriesKind, Table};
use crate::values::grouped;
use latlab_model::run::Part;
use latlab_model::units::format_ns;
use latlab_model::worst::{InputKind, Method, Trail, WorstDetail};

/// Functions of the path on the first screen.
const SCREEN: usize = 12;

/// The sections of a `worst` part.
pub fn sections(part: &Part, detail: &WorstDetail) -> Vec<Section> {
    let mut blocks = vec![
        Block::Findings(part.findings.clone()),
        Block::Table(inputs(detail)),
        Block::Plot(Box::new(growth(detail))),
        Block::Table(steps(detail)),
    ];
    if let Some(path) = &detail.path {
        blocks.push(Block::Pre(outline(&path.tree, usize::MAX)));
        blocks.push(Block::Flame(Box::new(flame_of(
            format!("Worst wake-up of {}", detail.inputs.machine),
            path,
        ))));
    }
    if let Some(detail) = &detail.bound {
        blocks.extend(bound::blocks(detail));
    }
    vec![Section { id: part.name.clone(), title: part.title.clone(), blocks }]
}

/// The first screen: the inputs, and the path or else the growth.
pub fn screen(detail: &WorstDetail) -> Vec<Block> {
    let second = match &detail.path {
        Some(path) => vec![Block::Pre(outline(&path.tree, SCREEN))],
        None => match &detail.bound {
            Some(detail) => bound::screen(detail),
            None => vec![Block::Plot(Box::new(growth(detail)))],
        },
    };
    [vec![Block::Table(inputs(detail))], second].concat()
}

/// The result in words.
pub fn summary(detail: &WorstDetail) -> Vec<String> {
    let searched = &detail.searched;
    let Some(worst) = searched.search.worst() else { return Vec::new() };
    let ns = |ns: u64| format_ns(ns as f64);
    let mut sentences = vec![format!(
        "{}: worst wake-up {} (wake-up {} of {}, {}, seed {}).",
        detail.inputs.machine,
        ns(worst.latency_ns),
        grouped(worst.wakeup),
        grouped(searched.search.wakeups),
        method(detail.plan.method),
        detail.plan.seed
    )];
    if let Some(random) = searched.random.as_ref().filter(|r| r.worst().is_some()) {
        let most = random.worst().map_or(0, |w| w.latency_ns);
        let reached = searched.search.growth.iter().find(|g| g.latency_ns > most);
        let compared = match reached {
            Some(g) => format!("; the search exceeded that at wake-up {}", grouped(g.wakeup)),
            None => "; the search did not exceed that".into(),
        };
        sentences.push(format!(
            "{} wake-ups at random times: {} at most{compared}.",
            grouped(random.wakeups),
            ns(most)
        ));
    }
    if let Some(detail) = &detail.bound {
        sentences.extend(bound::summary(detail));
    }
    match detail.replay_of_ns {
        Some(recorded) if recorded == worst.latency_ns => {
            sentences.push(format!("Replay: {recorded} ns, as recorded."));
        }
        Some(recorded) => sentences.push(format!(
            "Replay: {} ns, which differs from the recorded {recorded} ns.",
            worst.latency_ns
        )),
        None => {}
    }
    if let Some(again) = &searched.again {
        sentences.push(format!(
            "After the search, at these times ± {}: {} at most.",
            ns(again.within_ns),
            ns(again.latency_ns)
        ));
    }
    let random = searched.random.as_ref().map_or(0, |r| r.wakeups);
    let wakeups = searched.search.wakeups.saturating_add(random);
    let seconds = detail.host_ns as f64 / 1e9;
    if seconds > 0.0 {
        sentences.push(format!(
            "Host time {seconds:.0} s with the boot, {:.0} wake-ups a second.",
            wakeups as f64 / seconds
        ));
    }
    sentences
}

fn method(method: Method) -> &'static str {
    match method {
        Method::Combined => "scan and climb",
        Method::Scan => "scan",
        Method::Climb => "climb",
        Method::Random => "random",
    }
}

fn inputs(detail: &WorstDetail) -> Table {
    let searched = &detail.searched;
    let row = |n: usize| {
        let input = &detail.plan.inputs[n];
        let ns = searched.ns.get(n).copied().unwrap_or(input.ns);
        let (duration, every) = match input.kind {
            InputKind::Tick => ("–".into(), format_ns(input.every_ns as f64)),
            InputKind::Load => (format_ns(ns as f64), "–".into()),
            InputKind::Fault => (format_ns(ns as f64), format_ns(input.every_ns as f64)),
        };
        let begins = match searched.search.before_ns.get(n).copied().flatten() {
            Some(before) if before < 0 => format!("{} ns after", before.unsigned_abs()),
            Some(before) => format!("{before} ns before"),
            None => "not near".into(),
        };
        vec![input.name.clone(), duration, every, begins]
    };
    Table {
        caption: "Inputs of the worst wake-up, and when each begins relative to the expiry".into(),
        columns: vec![
            Column::left("input"),
            Column::right("duration"),
            Column::right("period"),
            Column::right("begins"),
        ],
        rows: (0..detail.plan.inputs.len()).map(row).collect(),
    }
}

fn steps(detail: &WorstDetail) -> Table {
    let random = detail.searched.random.as_ref();
    let row = |wakeups: u64| {
        let after = |trail: &Trail| format_ns(trail.after(wakeups) as f64);
        let random = random.map_or_else(|| "–".into(), &after);
        vec![grouped(wakeups), after(&detail.searched.search), random]
    };
    let all = detail.searched.search.wakeups;
    let mut counts: Vec<u64> =
        std::iter::successors(Some(1u64), |n| n.checked_mul(10)).take_while(|n| *n < all).collect();
    counts.push(all);
    Table {
        caption: "Largest latency of the first wake-ups".into(),
        columns: ["wake-ups", "search", "random"].map(Column::right).to_vec(),
        rows: counts.into_iter().map(row).collect(),
    }
}

fn growth(detail: &WorstDetail) -> Plot {
    let series = |name: &str, trail: &Trail| {
        let point = |wakeup: u64, ns: u64| (wakeup as f64, ns as f64 / 1000.0);
        let mut points: Vec<(f64, f64)> =
            trail.growth.iter().map(|g| point(g.wakeup, g.latency_ns)).collect();
        points.extend(trail.worst().map(|w| point(trail.wakeups, w.latency_ns)));
        Series { name: name.into(), kind: SeriesKind::Step, points, ..Series::default() }
    };
    let mut all = vec![series("search", &detail.searched.search)];
    all.extend(detail.searched.random.as_ref().map(|r| series("random", r)));
    Plot {
        id: "worst-growth".into(),
        title: "Growth of the largest latency".into(),
        description:
            "Largest latency so far by the number of wake-ups, of the search and of random times."
                .into(),
        x: Axis { label: "wake-ups".into(), ..Axis::default() },
        y: Axis { label: "latency (µs)".into(), ..Axis::default() },
        series: all,
        ..Plot::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::worst::{Again, Growth, Input, SearchPlan, Searched, WorstInputs};

    fn detail() -> WorstDetail {
        let trail = |latencies: &[(u64, u64)]| Trail {
            wakeups: 2000,
            growth: latencies
                .iter()
                .map(|&(wakeup, latency_ns)| Growth { wakeup, latency_ns })
                .collect(),
            before_ns: vec![Some(29_984), Some(-1200), None],
        };
        let input =
            |kind, name: &str, ns| Input { kind, name: name.into(), ns, every_ns: 1_000_000 };
        WorstDetail {
            inputs: WorstInputs { machine: "armv7-rt".into(), ..WorstInputs::default() },
            plan: SearchPlan {
                seed: 7,
                wakeups: 2000,
                inputs: vec![
                    input(InputKind::Fault, "irqs-off", 30_000),
                    input(InputKind::Load, "fork", 0),
                    input(InputKind::Tick, "tick", 10_000),
                ],
                ..SearchPlan::default()
            },
            searched: Searched {
                ns: vec![30_000, 400_000, 10_000],
                search: trail(&[(1, 4_500), (120, 50_000), (1_500, 61_000)]),
                random: Some(trail(&[(1, 4_500), (900, 42_000)])),
                again: Some(Again { wakeups: 17, within_ns: 512, latency_ns: 60_900 }),
            },
            host_ns: 40_000_000_000,
            ..WorstDetail::default()
        }
    }

    #[test]
    fn the_worst_wakeup_is_named_beside_random_ones() {
        let text = summary(&detail());
        assert_eq!(
            text[0],
            "armv7-rt: worst wake-up 61.0 µs (wake-up 1\u{202f}500 of 2\u{202f}000, scan and climb, seed 7)."
        );
        assert!(
            text[1].ends_with("42.0 µs at most; the search exceeded that at wake-up 120."),
            "{text:?}"
        );
        assert!(text[3].contains("100 wake-ups a second"), "{text:?}");
        let replay = |of| summary(&WorstDetail { replay_of_ns: Some(of), ..detail() })[2].clone();
        assert_eq!(replay(61_000), "Replay: 61000 ns, as recorded.");
        assert!(replay(61_001).contains("differs"));
    }

    #[test]
    fn inputs_begin_before_or_after_the_expiry_or_far_from_it() {
        let table = inputs(&detail());
        let begins: Vec<&str> = table.rows.iter().map(|r| r[3].as_str()).collect();
        assert_eq!(begins, ["29984 ns before", "1200 ns after", "not near"]);
        let table = steps(&detail());
        assert_eq!(table.rows.last().unwrap()[2], "42.0 µs");
        assert_eq!(table.rows[3], ["1\u{202f}000", "50.0 µs", "42.0 µs"]);
        let mut endless = detail();
        endless.searched.search.wakeups = u64::MAX;
        assert_eq!(steps(&endless).rows.len(), 21);
        assert_eq!(growth(&detail()).series[1].points.last(), Some(&(2000.0, 42.0)));
    }
}
