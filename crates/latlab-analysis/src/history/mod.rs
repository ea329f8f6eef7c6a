//! Results over time: rows for a store, and where a series changed for good.
//!
//! A store holds one row a run and one row a record; what else a run has stays in its directory.
//! A *trend* is one value of a record over the runs that have it; its change points are where the level
//! changed (optimal partitioning of the logarithms, see [`latlab_stats::change_point`]), and what
//! of the machine changed at that very run is named beside it.

use crate::fnv;
use latlab_model::history::{Change, ResultRow, RunRow, Trend, Value};
use latlab_model::record::{Record, Unit};
use latlab_model::run::Run;
use latlab_stats::change_point::{cautious_noise, clip_outliers, lag_1_correlation, segments};
use latlab_stats::quantile::median;

/// A level that differs by less is none.
const LEAST: f64 = 0.02;

/// The rows of a run.
pub fn rows(run: &Run, path: &str) -> (RunRow, Vec<ResultRow>) {
    let m = &run.machine;
    let board = m.board.clone().or_else(|| m.cpu.model.clone()).unwrap_or_default();
    let command = run.command_line.join(" ");
    let id = match run.id.as_str() {
        "" => number(&[&m.host, &run.started, &command]),
        uuid => number(&[uuid]),
    };
    let row = RunRow {
        id,
        path: path.to_owned(),
        started: run.started.clone(),
        host: m.host.clone(),
        board,
        unit: m.unit.clone().unwrap_or_default(),
        kernel: m.kernel.release.clone(),
        arch: m.arch.clone(),
        command,
        complete: run.complete,
    };
    let results = run.records().map(|(part, r)| result(&part.name, r)).collect();
    (row, results)
}

fn result(part: &str, r: &Record) -> ResultRow {
    let params: Vec<String> =
        r.params.iter().map(|(k, v)| [k.as_str(), "=", &v.to_string()].concat()).collect();
    let q = |q: f64| r.summary.quantile(q).map(|q| q.value).filter(|v| v.is_finite());
    let finite = |v: Option<f64>| v.filter(|v| v.is_finite());
    ResultRow {
        part: part.to_owned(),
        name: r.name.clone(),
        params: params.join(","),
        unit: unit_word(r.unit),
        count: i64::try_from(r.summary.count).unwrap_or(i64::MAX),
        min: finite(r.summary.min),
        median: finite(r.summary.median),
        p99: q(0.99),
        p999: q(0.999),
        max: finite(r.summary.max),
    }
}

/// A unit as stores have it.
pub fn unit_word(unit: Unit) -> String {
    serde_json::to_value(unit).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

/// The unit of a store's word.
pub fn unit_of(word: &str) -> Unit {
    serde_json::from_value(serde_json::Value::from(word)).unwrap_or(Unit::Count)
}

/// A checksum of the texts, without a sign.
fn number(texts: &[&str]) -> i64 {
    (fnv::of_texts(texts.iter().copied()) >> 1) as i64
}

/// Lag-1 correlation of series of builds, and how many values that assumption weighs as.
const PRIOR: (f64, f64) = (0.3, 100.0);
/// Largest correlation that is used: above it a series has no level.
const CORRELATION_MAX: f64 = 0.6;

/// Common lag-1 correlation of the noise of several series, from the ratio of their second to first
/// differences: one series of some dozens of values does not determine it, so that all have a part in
/// it by their length, and an assumption of 0.3.
pub fn correlation<'a>(series: impl Iterator<Item = &'a Vec<Value>>) -> f64 {
    let (mut sum, mut weight) = (PRIOR.0 * PRIOR.1, PRIOR.1);
    for values in series {
        if let Some(found) = lag_1_correlation(&logarithms(values)) {
            let n = values.len() as f64;
            (sum, weight) = (sum + n * found.clamp(-CORRELATION_MAX, CORRELATION_MAX), weight + n);
        }
    }
    (sum / weight).clamp(0.0, CORRELATION_MAX)
}

fn logarithms(values: &[Value]) -> Vec<f64> {
    values.iter().map(|v| v.value.max(1e-12).ln()).collect()
}

/// Finds the changes of a series that is in order of time. `correlation` is that of its noise at lag 1:
/// the noise from first differences is too small by 1 − ρ, and the mean of a segment varies by (1 + ρ)/(1 − ρ)
/// more than that of independent values, so the penalty for a change is (1 + ρ)/(1 − ρ)² times as large.
pub fn trend(
    label: &str,
    statistic: &str,
    unit: Unit,
    values: Vec<Value>,
    correlation: f64,
) -> Trend {
    let mut trend = Trend {
        label: label.into(),
        statistic: statistic.into(),
        unit,
        values,
        ..Trend::default()
    };
    let logs = logarithms(&trend.values);
    if logs.len() < 6 {
        return trend;
    }
    let sigma = cautious_noise(&logs).max(1e-4);
    let clipped = clip_outliers(&logs, 4.0 * sigma);
    let correlated = (1.0 + correlation) / (1.0 - correlation).powi(2);
    let found = segments(&clipped, 3.0 * sigma * sigma * (logs.len() as f64).ln() * correlated);
    for pair in found.windows(2) {
        let level = |r: &std::ops::Range<usize>| median(&logs[r.clone()]).unwrap_or(0.0);
        let (before, after) = (level(&pair[0]), level(&pair[1]));
        if (after - before).abs() < LEAST {
            continue;
        }
        let worse = (after > before) != unit.larger_is_better();
        let at = pair[1].start;
        let (Some(first), Some(last)) = (trend.values.get(at), trend.values.get(pair[0].end - 1))
        else {
            continue;
        };
        let change = Change {
            at,
            before: before.exp(),
            after: after.exp(),
            worse,
            since: first.started.clone(),
            kernel: first.kernel.clone(),
            kernel_changed: first.kernel != last.kernel && !first.kernel.is_empty(),
        };
        trend.changes.push(change);
    }
    trend
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_stats::rng::SplitMix64;
    use latlab_testkit::latency_sim::gauss;

    fn series(levels: &[(f64, &str, usize)], noise: f64, seed: u64) -> Vec<Value> {
        let mut rng = SplitMix64::new(seed);
        let all = levels.iter().flat_map(|&(v, k, n)| std::iter::repeat_n((v, k), n));
        all.enumerate()
            .map(|(i, (v, kernel))| Value {
                started: format!("2026-{:02}-{:02}T00:00:00Z", 1 + i / 28, 1 + i % 28),
                kernel: kernel.to_owned(),
                value: v * (noise * gauss(&mut rng)).exp(),
                ..Value::default()
            })
            .collect()
    }

    #[test]
    fn a_kernel_that_made_it_worse_is_named_with_its_date() {
        let v = series(&[(15_000.0, "6.6.30", 40), (18_000.0, "6.6.31", 30)], 0.02, 4);
        let t = trend("wakeup.user", "p99", Unit::Ns, v, 0.0);
        assert_eq!(t.changes.len(), 1, "{:?}", t.changes);
        assert!(t.changes[0].worse && t.changes[0].at == 40);
        let c = &t.changes[0];
        assert!(c.kernel_changed && c.kernel == "6.6.31", "{c:?}");
        assert!(c.since.starts_with("2026-02-13") && c.after > c.before * 1.15, "{c:?}");
        // More of a bandwidth is better.
        let v = series(&[(1e9, "a", 20), (2e9, "a", 20)], 0.02, 4);
        let t = trend("bw", "median", Unit::BytesPerSecond, v, 0.0);
        assert!(!t.changes[0].worse && !t.changes[0].kernel_changed);
        assert_eq!(t.changes[0].kernel, "a");
    }

    /// Builds whose noise is correlated at lag 1; from build 40 on 10 % worse, where `changed`.
    fn correlated(rho: f64, changed: bool, rng: &mut SplitMix64) -> Vec<Value> {
        let mut noise = gauss(rng);
        (0..60)
            .map(|i| {
                noise = rho * noise + (1.0 - rho * rho).sqrt() * gauss(rng);
                let level: f64 = if changed && i >= 40 { 1.1 } else { 1.0 };
                let value = level * (0.03 * noise).exp();
                Value { value, started: format!("{i}"), ..Value::default() }
            })
            .collect()
    }

    /// A false change in at most 5 of 100 unchanged series, and nine of ten changes found within two
    /// builds, for independent noise and for noise that is correlated as that of builds is.
    #[test]
    fn correlated_noise_has_no_change_points() {
        for rho in [0.0, 0.3] {
            let mut rng = SplitMix64::new(11);
            let series: Vec<Vec<Value>> =
                (0..400).map(|i| correlated(rho, i % 4 == 0, &mut rng)).collect();
            let found = correlation(series.iter());
            assert!((found - rho).abs() < 0.12, "{found} for {rho}");
            let (mut alarms, mut hits) = (0, 0);
            for (i, values) in series.into_iter().enumerate() {
                let t = trend("x", "p99", Unit::Ns, values, found);
                if i % 4 == 0 {
                    hits += usize::from(t.changes.iter().any(|c| c.at.abs_diff(40) <= 2));
                } else {
                    alarms += usize::from(!t.changes.is_empty());
                }
            }
            assert!(alarms <= 15 && hits >= 90, "{alarms} of 300, {hits} of 100 at {rho}");
        }
    }

    #[test]
    fn noise_has_no_change_points() {
        let quiet = (0..50)
            .filter(|&s| {
                trend("x", "p99", Unit::Ns, series(&[(1e4, "k", 60)], 0.1, s), 0.0)
                    .changes
                    .is_empty()
            })
            .count();
        assert!(quiet >= 47, "{quiet} of 50");
        assert!(trend("x", "p99", Unit::Ns, Vec::new(), 0.0).changes.is_empty());
    }

    /// Values in whole µs, and of two states by turns of chance: a false change in at most 5 of 100 series.
    #[test]
    fn values_of_few_levels_have_no_change_points() {
        let uniform = |rng: &mut SplitMix64| rng.below(1 << 20) as f64 / f64::from(1 << 20);
        let whole = |rng: &mut SplitMix64| if uniform(rng) < 0.3 { 16_000.0 } else { 15_000.0 };
        let rounded = |rng: &mut SplitMix64| (15.3 + 0.35 * gauss(rng)).round() * 1e3;
        let states = |rng: &mut SplitMix64| {
            let state = if uniform(rng) < 0.3 { 1.15 } else { 1.0 };
            state * 15e3 * (0.01 * gauss(rng)).exp()
        };
        let all: [&dyn Fn(&mut SplitMix64) -> f64; 3] = [&whole, &rounded, &states];
        for (kind, one) in all.iter().enumerate() {
            let mut rng = SplitMix64::new(5);
            let changed = |rng: &mut SplitMix64, level: f64| {
                let value = |i| Value {
                    value: one(rng) * if i < 30 { 1.0 } else { level },
                    started: format!("{i}"),
                    ..Value::default()
                };
                let values = (0..60).map(value).collect();
                !trend("x", "p99", Unit::Ns, values, 0.0).changes.is_empty()
            };
            let alarms = (0..200).filter(|_| changed(&mut rng, 1.0)).count();
            let hits = (0..50).filter(|_| changed(&mut rng, 1.2)).count();
            assert!(alarms <= 10 && hits >= 45, "{kind}: {alarms} of 200, {hits} of 50");
        }
    }

    #[test]
    fn the_same_run_has_the_same_number() {
        let mut run = Run { started: "2026-01-01T00:00:00Z".into(), ..Run::default() };
        run.machine.host = "bb".into();
        let (a, _) = rows(&run, "x");
        let (b, _) = rows(&run, "elsewhere");
        run.started = "2026-01-02T00:00:00Z".into();
        assert!(a.id == b.id && a.id >= 0 && a.id != rows(&run, "x").0.id);
        // Two boards of one host name that began in one second by one command.
        let [one, other] = ["6e1d…1", "6e1d…2"].map(|id| Run { id: id.into(), ..run.clone() });
        assert_ne!(rows(&one, "x").0.id, rows(&other, "x").0.id);
        assert_eq!(unit_of(&unit_word(Unit::BytesPerSecond)), Unit::BytesPerSecond);
    }
}
