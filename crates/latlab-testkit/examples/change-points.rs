//! Score of `latlab history trend` and `latlab fleet regressions` on published measurements with labelled regressions.
//!
//! ```text
//! git clone https://github.com/SAP/performance-regression-data-set
//! cargo run --release -p latlab-testkit --example change-points -- performance-regression-data-set/hana/small_2021
//! ```
//!
//! The folder has `data/NNNN.csv` (index, build, measurement) and `metadata/dataset_details.csv` (kind, file, last index before
//! the regression). A value of a series is the median of the measurements of a build. A regression is found where a change for the worse
//! begins within [`NEAR`] builds of the label; any other change for the worse is false.

use latlab_analysis::fleet::regressions::{Key, Observation, Watch};
use latlab_analysis::history::{correlation, trend};
use latlab_model::history::Value;
use latlab_model::record::Unit;
use latlab_stats::quantile::median;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Builds between a label and a change that is the same.
const NEAR: usize = 5;

/// A series of builds, and the position of the first one after its regression.
struct Series {
    kind: String,
    values: Vec<Value>,
    label: Option<usize>,
}

/// Positions at which a method says that a series became worse.
type Found = Vec<usize>;

fn main() -> io::Result<()> {
    let folder = std::env::args().nth(1).ok_or_else(|| io::Error::other("name a folder"))?;
    let folder = Path::new(&folder);
    let details = fs::read_to_string(folder.join("metadata/dataset_details.csv"))?;
    let series: Vec<Series> =
        details.lines().skip(1).map(|line| read(folder, line)).collect::<Result<_, _>>()?;
    let mut out = io::stdout().lock();
    score("history trend", &series, &trends(&series), &mut out)?;
    score("fleet regressions", &series, &alarms(&series), &mut out)
}

fn read(folder: &Path, line: &str) -> io::Result<Series> {
    let [kind, file, last] = line.trim().split(';').collect::<Vec<_>>()[..] else {
        return Err(io::Error::other(format!("not understood: {line}")));
    };
    let last: u64 = last.parse().map_err(io::Error::other)?;
    let mut label = None;
    let mut builds: Vec<(String, Vec<f64>)> = Vec::new();
    for row in fs::read_to_string(folder.join("data").join(file))?.lines().skip(1) {
        let [index, build, value] = row.split(',').collect::<Vec<_>>()[..] else { continue };
        let (Ok(index), Ok(value)) = (index.parse::<u64>(), value.trim().parse::<f64>()) else {
            continue;
        };
        if builds.last().is_none_or(|b| b.0 != build) {
            builds.push((build.to_owned(), Vec::new()));
        }
        if last > 0 && index == last + 1 {
            label = Some(builds.len() - 1);
        }
        builds.last_mut().into_iter().for_each(|b| b.1.push(value));
    }
    let values = builds.into_iter().map(|(kernel, mut values)| {
        values.sort_by(f64::total_cmp);
        Value { kernel, value: median(&values).unwrap_or(0.0), ..Value::default() }
    });
    Ok(Series { kind: kind.trim().to_lowercase(), values: values.collect(), label })
}

fn trends(series: &[Series]) -> Vec<Found> {
    let rho = correlation(series.iter().map(|s| &s.values));
    let of = |s: &Series| trend("", "median", Unit::Ns, s.values.clone(), rho);
    let worse = |s| of(s).changes.into_iter().filter(|c| c.worse).map(|c| c.at).collect();
    series.iter().map(worse).collect()
}

/// Each series is a class of one device; the n-th build of all is one night.
fn alarms(series: &[Series]) -> Vec<Found> {
    let mut watch = Watch::default();
    let key = |n: usize| Key {
        class: n.to_string(),
        device: n.to_string(),
        name: "time".into(),
        params: String::new(),
    };
    let ids: Vec<usize> = (0..series.len()).map(|n| watch.series(&key(n))).collect();
    let nights = series.iter().map(|s| s.values.len()).max().unwrap_or(0);
    let mut found = vec![Found::new(); series.len()];
    for night in 0..nights {
        let mut observations = Vec::new();
        for (n, s) in series.iter().enumerate() {
            if let Some(value) = s.values.get(night) {
                let kernel = watch.kernel(&value.kernel);
                observations.push(Observation { series: ids[n], kernel, value: value.value });
            }
        }
        for alarm in watch.night(&observations) {
            if let Ok(n) = alarm.class.parse::<usize>() {
                found[n].push(alarm.since);
            }
        }
    }
    found
}

fn score(method: &str, series: &[Series], found: &[Found], out: &mut impl Write) -> io::Result<()> {
    #[derive(Default)]
    struct Row {
        series: usize,
        builds: usize,
        labels: usize,
        found: usize,
        false_changes: usize,
        with_false: usize,
    }
    let mut rows = BTreeMap::<&str, Row>::new();
    for (s, found) in series.iter().zip(found) {
        let is_it = |at: usize| s.label.is_some_and(|label| label.abs_diff(at) <= NEAR);
        let wrong = found.iter().filter(|at| !is_it(**at)).count();
        let row = rows.entry(&s.kind).or_default();
        row.series += 1;
        row.builds += s.values.len();
        row.labels += usize::from(s.label.is_some());
        row.found += usize::from(found.iter().any(|at| is_it(*at)));
        row.false_changes += wrong;
        row.with_false += usize::from(wrong > 0);
    }
    writeln!(out, "{method}: kind, series, builds, labels, found, false changes, series with one")?;
    for (kind, r) in rows {
        let figures = [r.series, r.builds, r.labels, r.found, r.false_changes, r.with_false];
        let figures: Vec<String> = figures.iter().map(ToString::to_string).collect();
        writeln!(out, "{kind}\t{}", figures.join("\t"))?;
    }
    Ok(())
}
