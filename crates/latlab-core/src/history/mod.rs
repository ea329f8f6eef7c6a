//! Results over time: rows for a store, and where a series changed for good.
//!
//! A store holds one row a run and one row a record; what else a run has stays in its directory.
//! A *trend* is one record's figure over the runs that have it; its change points are where the level
//! changed (optimal partitioning of the logarithms, see [`crate::stats::changepoint`]), and what
//! of the machine changed at that very run is named beside it.

use crate::run::{Param, Record, Run, Unit};
use crate::stats::changepoint::{clip_outliers, noise, segments};
use crate::stats::quantile::median;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A level that differs by less is none.
const LEAST: f64 = 0.02;

/// A run as a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    /// Number made from host, start and command: the same run has the same number in every store.
    pub id: i64,
    /// Where its directory is.
    pub path: String,
    /// UTC, RFC 3339.
    pub started: String,
    /// Host.
    pub host: String,
    /// Board, or processor where there is none.
    pub board: String,
    /// Kernel release.
    pub kernel: String,
    /// Architecture.
    pub arch: String,
    /// Command line.
    pub command: String,
    /// Whether it was not cut short.
    pub complete: bool,
}

/// A record as a row. `None`: not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResultRow {
    /// Part of the run.
    pub part: String,
    /// Name of the record.
    pub name: String,
    /// Parameters, `key=value,…` in order of keys.
    pub params: String,
    /// Unit (`ns`, `bytes_per_second`…).
    pub unit: String,
    /// Number of samples.
    pub count: i64,
    /// Smallest.
    pub min: Option<f64>,
    /// Median.
    pub median: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
}

/// The rows of a run.
pub fn rows(run: &Run, path: &str) -> (RunRow, Vec<ResultRow>) {
    let m = &run.machine;
    let board = m.board.clone().or_else(|| m.cpu.model.clone()).unwrap_or_default();
    let command = run.command_line.join(" ");
    let row = RunRow {
        id: number(&[&m.host, &run.started, &command]),
        path: path.to_owned(),
        started: run.started.clone(),
        host: m.host.clone(),
        board,
        kernel: m.kernel.release.clone(),
        arch: m.arch.clone(),
        command,
        complete: run.complete,
    };
    let results = run.records().map(|(part, r)| result(&part.name, r)).collect();
    (row, results)
}

fn result(part: &str, r: &Record) -> ResultRow {
    let plain = |p: &Param| match p {
        Param::Int(i) => i.to_string(),
        Param::Float(f) => f.to_string(),
        Param::Text(t) => t.clone(),
    };
    let params: Vec<String> = r.params.iter().map(|(k, v)| format!("{k}={}", plain(v))).collect();
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

/// FNV-1a over the texts (G. Fowler, L. C. Noll, K.-P. Vo), without its sign.
fn number(texts: &[&str]) -> i64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in texts.iter().flat_map(|t| t.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    (hash >> 1) as i64
}

/// One value of a series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Value {
    /// When, UTC, RFC 3339.
    pub started: String,
    /// Under which kernel.
    pub kernel: String,
    /// The run's directory.
    pub path: String,
    /// The figure.
    pub value: f64,
}

/// A change of level.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Change {
    /// Index of the first value at the new level.
    pub at: usize,
    /// Level before.
    pub before: f64,
    /// Level after.
    pub after: f64,
    /// Whether it became worse.
    pub worse: bool,
    /// `worse since kernel 6.6.31, 2026-03-02 (+12 %)`.
    pub sentence: String,
}

/// A series and its changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Trend {
    /// Name and parameters.
    pub label: String,
    /// Which figure (`median`, `p99`, `p999`, `max`, `min`).
    pub figure: String,
    /// Unit of the values.
    pub unit: Unit,
    /// The values, in order of time.
    pub values: Vec<Value>,
    /// Where the level changed.
    pub changes: Vec<Change>,
}

/// Finds the changes of a series that is in order of time.
pub fn trend(label: &str, figure: &str, unit: Unit, values: Vec<Value>) -> Trend {
    let mut trend =
        Trend { label: label.into(), figure: figure.into(), unit, values, ..Trend::default() };
    let logs: Vec<f64> = trend.values.iter().map(|v| v.value.max(1e-12).ln()).collect();
    if logs.len() < 6 {
        return trend;
    }
    let sigma = noise(&logs).max(1e-4);
    let clipped = clip_outliers(&logs, 4.0 * sigma);
    let found = segments(&clipped, 3.0 * sigma * sigma * (logs.len() as f64).ln());
    for pair in found.windows(2) {
        let level = |r: &std::ops::Range<usize>| median(&logs[r.clone()]).unwrap_or(0.0);
        let (before, after) = (level(&pair[0]), level(&pair[1]));
        if (after - before).abs() < LEAST {
            continue;
        }
        let worse = (after > before) != unit.larger_is_better();
        let change = Change {
            at: pair[1].start,
            before: before.exp(),
            after: after.exp(),
            worse,
            sentence: String::new(),
        };
        let sentence = sentence(&trend.values, &change);
        trend.changes.push(Change { sentence, ..change });
    }
    trend
}

fn sentence(values: &[Value], c: &Change) -> String {
    let word = if c.worse { "worse" } else { "better" };
    let (Some(first), Some(last)) =
        (values.get(c.at), c.at.checked_sub(1).and_then(|i| values.get(i)))
    else {
        return word.to_owned();
    };
    let date = first.started.get(..10).unwrap_or(&first.started);
    let by = (c.after / c.before - 1.0) * 100.0;
    if first.kernel != last.kernel && !first.kernel.is_empty() {
        return format!("{word} since kernel {}, {date} ({by:+.1} %)", first.kernel);
    }
    format!("{word} since {date}, under the same kernel {} ({by:+.1} %)", first.kernel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::simulate::gauss;
    use crate::stats::rng::SplitMix64;

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
        let t = trend("wakeup.user", "p99", Unit::Ns, v);
        assert_eq!(t.changes.len(), 1, "{:?}", t.changes);
        assert!(t.changes[0].worse && t.changes[0].at == 40);
        assert!(
            t.changes[0].sentence.starts_with("worse since kernel 6.6.31, 2026-02-13 (+"),
            "{}",
            t.changes[0].sentence
        );
        // More of a bandwidth is better.
        let v = series(&[(1e9, "a", 20), (2e9, "a", 20)], 0.02, 4);
        let t = trend("bw", "median", Unit::BytesPerSecond, v);
        assert!(!t.changes[0].worse && t.changes[0].sentence.contains("under the same kernel a"));
    }

    #[test]
    fn noise_has_no_change_points() {
        let quiet = (0..50)
            .filter(|&s| {
                trend("x", "p99", Unit::Ns, series(&[(1e4, "k", 60)], 0.1, s)).changes.is_empty()
            })
            .count();
        assert!(quiet >= 47, "{quiet} of 50");
        assert!(trend("x", "p99", Unit::Ns, Vec::new()).changes.is_empty());
    }

    #[test]
    fn the_same_run_has_the_same_number() {
        let mut run = Run { started: "2026-01-01T00:00:00Z".into(), ..Run::default() };
        run.machine.host = "bb".into();
        let (a, _) = rows(&run, "x");
        let (b, _) = rows(&run, "elsewhere");
        run.started = "2026-01-02T00:00:00Z".into();
        assert!(a.id == b.id && a.id >= 0 && a.id != rows(&run, "x").0.id);
        assert_eq!(unit_of(&unit_word(Unit::BytesPerSecond)), Unit::BytesPerSecond);
    }
}
