//! Quantiles of merged histograms: `fleet report` and the question `tail`.

use super::Table;
use latlab_analysis::fleet::lake_rows::bucket;
use latlab_analysis::fleet::overview::{Named, Overview};
use latlab_analysis::fleet::tails::Source;
use latlab_testkit::tail_sim::World;
use std::io::Write;

/// Data, with what differs: devices, nights, devices in a night.
const WORLDS: [(&str, World); 5] = [
    ("boards and nights alike", World { level: [0.0; 3], late: [0.0; 3], cluster: 1 }),
    (
        "boards differ (10 %; late rate 0.5)",
        World { level: [0.1, 0.0, 0.0], late: [0.5, 0.0, 0.0], cluster: 5 },
    ),
    (
        "boards differ much (20 %; late rate 1)",
        World { level: [0.2, 0.0, 0.0], late: [1.0, 0.0, 0.0], cluster: 5 },
    ),
    (
        "boards and nights differ",
        World { level: [0.1, 0.05, 0.05], late: [0.5, 0.3, 0.3], cluster: 5 },
    ),
    (
        "nights differ (10 %; late rate 0.5)",
        World { level: [0.02, 0.1, 0.02], late: [0.1, 0.5, 0.1], cluster: 5 },
    ),
];

pub fn rows(t: &mut Table<impl Write>) -> std::io::Result<()> {
    let grid = grid();
    for (name, world) in WORLDS {
        for (q, quantile) in [(0.99, "p99"), (0.9999, "p99.99")] {
            let truth = world.quantile(q);
            for (devices, nights) in [(5, 7), (10, 7), (30, 7), (100, 7), (10, 1)] {
                let what = format!("{quantile}, {devices} boards, {nights} nights");
                t.row("quantile of a fleet (`fleet`)", name, &what, |seed| {
                    (interval(&world, devices, nights, q, &grid, seed), truth)
                })?;
            }
        }
    }
    // One board: its own quantile.
    let world = World { level: [0.0, 0.05, 0.0], late: [0.0, 0.3, 0.0], cluster: 5 };
    for (q, quantile) in [(0.99, "p99"), (0.9999, "p99.99")] {
        let truth = world.quantile(q);
        for nights in [5, 7, 14] {
            let what = format!("{quantile}, 1 board, {nights} nights");
            t.row(
                "quantile of a fleet (`fleet`)",
                "nights differ (5 %; late rate 0.3)",
                &what,
                |seed| (interval(&world, 1, nights, q, &grid, seed), truth),
            )?;
        }
    }
    Ok(())
}

fn interval(
    world: &World,
    devices: usize,
    nights: usize,
    q: f64,
    grid: &[u64],
    seed: u64,
) -> Option<(f64, f64)> {
    let cells = world.draw(devices, nights, 60_000.0, grid, seed);
    let mut overview = Overview::default();
    let series: Vec<usize> = (0..devices)
        .map(|d| {
            overview.series(&Named {
                board: "b",
                device: &d.to_string(),
                part: "wakeup",
                name: "wakeup.user",
                params: "",
                unit: "ns",
                larger_is_better: false,
            })
        })
        .collect();
    for _ in 0..2 {
        for cell in &cells {
            let counts = grid.iter().zip(&cell.counts).filter(|(_, n)| **n > 0);
            let buckets: Vec<(u64, u64)> = counts.map(|(high, n)| (*high, *n)).collect();
            let run = [cell.device, cell.night].map(|n| n.to_string()).join("-");
            overview.tail(series[cell.device], Source { night: cell.night, run: &run }, &buckets);
        }
        overview.tail_quantiles();
    }
    let fleet = overview.finish();
    let tail = fleet.metrics.first()?.tails.first()?;
    let found = tail.quantiles.iter().find(|v| v.q == q)?;
    let (low, high) = found.interval?;
    Some((low as f64, high.map_or(f64::INFINITY, |h| h as f64)))
}

/// Upper bounds of the buckets of a lake, from 4 µs to 4 ms.
fn grid() -> Vec<u64> {
    std::iter::successors(Some(4_096u64), |low| Some(bucket(*low).1 + 1))
        .take_while(|low| *low < 1 << 22)
        .map(|low| bucket(low).1)
        .collect()
}
