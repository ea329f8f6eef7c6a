//! How often intervals that are labelled 95 % contain the truth, on data that are not independent.
//!
//! `cargo run --release -p latlab-testkit --example coverage [REPETITIONS [SEED [PART]]]` prints the table of
//! docs/validation/coverage.md, or its rows of which this is a part.

mod fleet;
mod worlds;

use latlab_analysis::compare::metric::{Data, aspects};
use latlab_analysis::compare::sample::{Order, RunSample, Sample};
use latlab_model::compare::Options;
use latlab_stats::estimate::estimate;
use latlab_stats::pareto_tail::fit_tail;
use latlab_stats::rank::shift;
use latlab_stats::rng::SplitMix64;
use latlab_stats::stretches;
use latlab_stats::uniform_end::uniform_end;
use std::io::Write;
use worlds::{Kind, Process, stretches_of, truth};

/// A row of the table: intervals that there were, those that contain the truth.
#[derive(Clone, Copy, Default)]
struct Covered {
    intervals: u32,
    hits: u32,
    /// Repetitions in which the method gave no interval.
    none: u32,
}

impl Covered {
    fn add(&mut self, interval: Option<(f64, f64)>, truth: f64) {
        match interval {
            Some((low, high)) => {
                self.intervals += 1;
                // Values are whole ns in buckets of a part in 1024.
                let slack = truth.abs() / 1024.0;
                self.hits += u32::from(low - slack <= truth && truth <= high + slack);
            }
            None => self.none += 1,
        }
    }
}

struct Table<W: Write> {
    out: W,
    repetitions: u64,
    seed: u64,
    /// Part of the rows that are simulated.
    only: String,
}

impl<W: Write> Table<W> {
    /// One row; `once` adds the intervals of one repetition to each of the columns.
    fn row(
        &mut self,
        method: &str,
        data: &str,
        what: &str,
        once: impl Fn(u64) -> (Option<(f64, f64)>, f64),
    ) -> std::io::Result<()> {
        let row = format!("{method} | {data} | {what}");
        if !row.contains(&self.only) {
            return Ok(());
        }
        let mut covered = Covered::default();
        for i in 0..self.repetitions {
            let (interval, truth) = once(self.seed.wrapping_mul(1_000_003).wrapping_add(i));
            covered.add(interval, truth);
        }
        let share = 100.0 * f64::from(covered.hits) / f64::from(covered.intervals.max(1));
        let none = match covered.none {
            0 => String::new(),
            n => format!(", no interval in {:.0} %", 100.0 * n as f64 / self.repetitions as f64),
        };
        writeln!(self.out, "| {row} | {share:.1} %{none} |")
    }
}

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |i: usize, default: u64| args.get(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    let (repetitions, seed) = (number(0, 2_000), number(1, 1));
    let only = args.get(2).cloned().unwrap_or_default();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{repetitions} repetitions, seed {seed}\n")?;
    writeln!(out, "| interval | data | of | covers |\n|---|---|---|---|")?;
    let mut t = Table { out, repetitions, seed, only };
    quantiles(&mut t)?;
    trials(&mut t)?;
    runs(&mut t)?;
    tails(&mut t)?;
    shifts(&mut t)?;
    sections(&mut t)?;
    fleet::rows(&mut t)?;
    t.out.flush()
}

/// Quantiles of one run of wake-ups: the report of `wakeup`.
fn quantiles(t: &mut Table<impl Write>) -> std::io::Result<()> {
    let usual = [(0.5, "median", 3_000), (0.99, "p99", 10_000), (0.999, "p99.9", 60_000)];
    let long = [(0.99, "p99", 60_000), (0.99, "p99", 600_000)];
    let all = Kind::ALL.into_iter().map(|kind| (kind, usual.as_slice()));
    for (kind, rows) in all.chain(Kind::BURSTS.into_iter().map(|kind| (kind, long.as_slice()))) {
        for &(q, name, n) in rows {
            let truth = truth(kind, q);
            t.row(
                "quantile of a run (`wakeup`)",
                kind.name(),
                &format!("{name} of {n}"),
                |seed| {
                    let values = kind.wakeups(n, seed);
                    let (h, s) = stretches_of(&values, 800);
                    let inflation = |limit| stretches::cautious_inflation(&s, &h, limit);
                    let summary = stretches::summary(&h, &inflation);
                    (summary.quantile(q).map(|v| (v.low, v.high)), truth)
                },
            )?;
        }
    }
    Ok(())
}

/// Medians of processes: `bench`.
fn trials(t: &mut Table<impl Write>) -> std::io::Result<()> {
    for process in Process::ALL {
        for n in [3, 4, 5, 6, 12, 30, 60] {
            t.row("median of trials (`bench`)", process.name(), &format!("{n} trials"), |seed| {
                let levels = process.levels(n, seed);
                let all: Vec<[f64; 1]> = levels.iter().map(|v| [*v]).collect();
                let slices: Vec<&[f64]> = all.iter().map(|v| v.as_slice()).collect();
                let e = estimate(&slices).filter(|e| e.interval_is_95);
                (e.map(|e| (e.low, e.high)), process.median())
            })?;
        }
    }
    Ok(())
}

/// Runs a side with variance between them: `compare`.
fn runs(t: &mut Table<impl Write>) -> std::io::Result<()> {
    for between in [0.0, 0.03, 0.2] {
        for kind in [Kind::Clustered, Kind::Drifting, Kind::TwoState] {
            for runs in [3, 5, 10] {
                for (q, name) in [(0.5, "median"), (0.99, "p99")] {
                    let data = format!("{}, {:.0} % between runs", kind.name(), between * 100.0);
                    let what = format!("{name}, {runs} + {runs} runs");
                    t.row("change over runs (`compare`)", &data, &what, |seed| {
                        let mut rng = SplitMix64::new(seed ^ 0xA5A5);
                        let mut side = |at: u64| {
                            let one = |i: u64| {
                                let factor = (between * worlds::gauss(&mut rng)).exp();
                                let values = kind.wakeups(2_000, seed * 64 + at * 32 + i);
                                let scaled: Vec<u64> =
                                    values.iter().map(|v| (*v as f64 * factor) as u64).collect();
                                let (histogram, s) = stretches_of(&scaled, 200);
                                RunSample {
                                    histogram,
                                    order: Order::Stretches(s),
                                    step: 1,
                                    ..RunSample::default()
                                }
                            };
                            Data::Distribution(Sample { runs: (0..runs).map(one).collect() })
                        };
                        let (a, b) = (side(0), side(1));
                        let found = aspects(&a, &b, &Options::default());
                        let aspect = found.iter().find(|f| f.aspect.quantile == Some(q));
                        (aspect.map(|f| (f.aspect.low, f.aspect.high)), 0.0)
                    })?;
                }
            }
        }
    }
    Ok(())
}

/// Return levels of a Pareto tail.
fn tails(t: &mut Table<impl Write>) -> std::io::Result<()> {
    for (cluster, name) in [(1.0, "independent"), (4.0, "clusters of 4")] {
        for (shape, p, n) in [(0.2, 1e-5, 20_000), (0.0, 1e-5, 20_000), (0.2, 1e-4, 20_000)] {
            let data = format!("{name}, shape {shape}");
            t.row("return level (`compare`)", &data, &format!("{p:.0e} of {n}"), |seed| {
                let values = worlds::pareto(n, shape, cluster, seed);
                let (h, s) = stretches_of(&values, 800);
                let limit = h.quantile(0.99).unwrap_or(0);
                let inflation =
                    stretches::cautious_inflation(&s, &h, limit).map_or(1.0, |i| i.factor);
                let tail = fit_tail(&h, inflation, &[p], seed).filter(|t| t.fits());
                let level = tail.as_ref().and_then(|t| t.levels.first());
                (level.map(|l| (l.low, l.high)), worlds::pareto_level(p, shape))
            })?;
        }
    }
    Ok(())
}

/// Length of a section whose beginning no event marks, from the wake-ups that it delayed by half of it or more: `why`.
fn sections(t: &mut Table<impl Write>) -> std::io::Result<()> {
    const LENGTH: f64 = 300.0;
    // µs, of the task that wakes up, and of the sections.
    const INTERVALS: (f64, f64) = (1_037.0, 97_300.0);
    for (name, jitter) in [("every 97.3 ms, evenly ± 20 %", 0.2), ("every 97.3 ms ± 0.1 %", 0.001)]
    {
        for late in [1, 3, 5, 10, 30] {
            t.row("length of a section (`why`)", name, &format!("{late} late"), |seed| {
                let mut rng = SplitMix64::new(seed);
                let mut begin = INTERVALS.1 * worlds::uniform(&mut rng);
                let (mut n, mut largest) = (0, 0.0_f64);
                while n < late {
                    let wakeup = INTERVALS.0 - begin % INTERVALS.0;
                    let delay = LENGTH - wakeup;
                    if delay >= LENGTH / 2.0 {
                        (n, largest) = (n + 1, largest.max(delay));
                    }
                    let apart = 1.0 + jitter * (2.0 * worlds::uniform(&mut rng) - 1.0);
                    begin += INTERVALS.1 * apart;
                }
                (uniform_end(largest, late).map(|e| e.1), LENGTH)
            })?;
        }
    }
    Ok(())
}

/// Shift of two groups of points: `sweep`.
fn shifts(t: &mut Table<impl Write>) -> std::io::Result<()> {
    for (n, m) in [(4, 4), (6, 5), (12, 8), (24, 10)] {
        for heavy in [false, true] {
            let data = if heavy { "heavy-tailed points" } else { "normal points" };
            t.row(
                "factor of two groups (`sweep`)",
                data,
                &format!("{n} and {m} points"),
                |seed| {
                    let mut rng = SplitMix64::new(seed);
                    let mut group = |n: usize, at: f64| -> Vec<f64> {
                        let one = |rng: &mut SplitMix64| match heavy {
                            true => worlds::gauss(rng) / worlds::gauss(rng).abs().max(0.05).sqrt(),
                            false => worlds::gauss(rng),
                        };
                        (0..n).map(|_| at + one(&mut rng)).collect()
                    };
                    let (a, b) = (group(n, 0.7), group(m, 0.0));
                    (shift(&a, &b, 0.95).map(|s| (s.low, s.high)), 0.7)
                },
            )?;
        }
    }
    Ok(())
}
