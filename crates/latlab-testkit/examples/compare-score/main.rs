//! How often `compare` is wrong on simulated pairs that are alike, and how often it sees what it says it would.
//!
//! `cargo run --release -p latlab-testkit --example compare-score [PAIRS]`

mod score;

use latlab_testkit::latency_sim::World;
use score::{Known, repeated, tally};
use std::io::Write;

fn main() -> std::io::Result<()> {
    let pairs = std::env::args_os().nth(1).and_then(|a| a.to_str()?.parse().ok()).unwrap_or(1_000);
    let mut out = std::io::stdout().lock();
    let worlds = [
        ("late 0.4 %, clusters of 3", World::default(), 10_000),
        ("late 1 %, independent", World { late: 0.01, cluster: 1.0, ..World::default() }, 10_000),
        (
            "late 1 %, clusters of 10",
            World { late: 0.01, cluster: 10.0, ..World::default() },
            20_000,
        ),
    ];
    for (name, world, n) in worlds {
        for known in [Known::Samples, Known::Stretches, Known::Nothing] {
            if known == Known::Nothing && world.cluster > 4.0 {
                continue;
            }
            let t = tally(&world, n, 1.0, pairs, known);
            writeln!(
                out,
                "alike      {name:<26} {known:?}: {} of {} called different ({:.1} %)",
                t.claims,
                t.pairs,
                t.claims as f64 * 100.0 / t.pairs as f64
            )?;
        }
        for ratio in [1.5, 2.0, 3.0] {
            for known in [Known::Samples, Known::Stretches] {
                let t = tally(&world, n, ratio, pairs, known);
                let share = |v: f64| v * 100.0 / t.pairs as f64;
                writeln!(
                    out,
                    "late x{ratio:<4} {name:<26} {known:?}: seen {:.1} %, stated {:.1} %; called worse {:.1} %",
                    share(t.seen as f64),
                    share(t.stated),
                    share(t.worse as f64)
                )?;
            }
        }
    }
    for between in [0.0, 0.03, 0.1, 0.3] {
        for runs in [3, 5, 10] {
            for factor in [1.0, 1.2] {
                let v = repeated(&World::default(), 5_000, (runs, between), factor, pairs / 2);
                let share = |n: usize| n as f64 * 100.0 / v.pairs as f64;
                writeln!(
                    out,
                    "{runs:>2} + {runs:<2} runs, {:>2.0} % between runs, x{factor:<3}: better or worse {:.1} %, worse {:.1} %, no difference {:.1} %",
                    between * 100.0,
                    share(v.claims),
                    share(v.worse),
                    share(v.equal)
                )?;
            }
        }
    }
    out.flush()
}
