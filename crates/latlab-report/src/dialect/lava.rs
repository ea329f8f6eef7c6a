//! Results as signals of LAVA (its documentation, *Writing tests*): identifiers without spaces, a measurement with
//! its units.
//!
//! A case of LAVA has one number. A record with all its samples has four: median, p99, p99.9 and maximum, as far as
//! the samples support them; any other record has its median.

use latlab_model::record::{Record, Unit};
use latlab_model::run::Run;
use std::io::{self, Write};

/// Most signals of a run: LAVA stores a row for each, and the run itself has the rest.
const CASES: usize = 400;

/// The results of a run.
///
/// # Errors
/// The writer's.
pub fn results(run: &Run, out: &mut impl Write) -> io::Result<()> {
    let all = run
        .records()
        .flat_map(|(_, record)| values(record).map(move |(what, value)| (record, what, value)));
    for (record, what, value) in all.take(CASES) {
        let params = record.params.iter().map(|(key, value)| format!("-{key}_{value}"));
        let name = format!("{}{}-{what}", record.name, params.collect::<String>());
        case(&name, "pass", Some((value, record.unit)), out)?;
    }
    Ok(())
}

/// The numbers to quote of a record, with their names.
fn values(record: &Record) -> impl Iterator<Item = (&'static str, f64)> + use<> {
    let s = &record.summary;
    let quantile = |q| s.quantile(q).filter(|_| record.histogram.is_some()).map(|q| q.value);
    let max = s.max.filter(|_| record.histogram.is_some());
    let all =
        [("median", s.median), ("p99", quantile(0.99)), ("p99.9", quantile(0.999)), ("max", max)];
    all.into_iter().filter_map(|(name, value)| value.filter(|v| v.is_finite()).map(|v| (name, v)))
}

/// One signal. What an identifier cannot have becomes `_`.
///
/// # Errors
/// The writer's.
pub(super) fn case(
    name: &str,
    result: &str,
    measurement: Option<(f64, Unit)>,
    out: &mut impl Write,
) -> io::Result<()> {
    let letter = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let id: String = name.chars().map(letter).collect();
    write!(out, "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID={id} RESULT={result}")?;
    if let Some((value, unit)) = measurement {
        let units = match unit {
            Unit::Ns => "ns",
            Unit::BytesPerSecond => "bytes/s",
            Unit::PerSecond => "/s",
            Unit::Ratio => "ratio",
            Unit::Hz => "Hz",
            Unit::Bytes => "bytes",
            Unit::Watt => "W",
            Unit::Count => "count",
        };
        write!(out, " MEASUREMENT={value} UNITS={units}")?;
    }
    writeln!(out, ">")
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::run::Part;
    use latlab_stats::histogram::{Histogram, Quantile, Summary};

    #[test]
    fn a_case_has_one_number_that_the_samples_support() {
        let quantile = |q, value| Quantile { q, value, low: value, high: value };
        let summary = Summary {
            count: 5_000,
            median: Some(1_200.0),
            max: Some(53_103.0),
            quantiles: vec![quantile(0.5, 1_200.0), quantile(0.99, 7_500.5)],
            ..Summary::default()
        };
        let record = |histogram| Record {
            name: "wakeup.user".into(),
            params: [("cpu".to_owned(), 0.into()), ("by".to_owned(), "a b>".into())].into(),
            summary: summary.clone(),
            histogram,
            ..Record::default()
        };
        let results = vec![record(Some(Histogram::default())), record(None)];
        let part = Part { results, ..Part::default() };
        let mut out = Vec::new();
        results_of(part, &mut out);
        let expected = "\
            <LAVA_SIGNAL_TESTCASE TEST_CASE_ID=wakeup.user-by_a_b_-cpu_0-median RESULT=pass MEASUREMENT=1200 UNITS=ns>\n\
            <LAVA_SIGNAL_TESTCASE TEST_CASE_ID=wakeup.user-by_a_b_-cpu_0-p99 RESULT=pass MEASUREMENT=7500.5 UNITS=ns>\n\
            <LAVA_SIGNAL_TESTCASE TEST_CASE_ID=wakeup.user-by_a_b_-cpu_0-max RESULT=pass MEASUREMENT=53103 UNITS=ns>\n\
            <LAVA_SIGNAL_TESTCASE TEST_CASE_ID=wakeup.user-by_a_b_-cpu_0-median RESULT=pass MEASUREMENT=1200 UNITS=ns>\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    fn results_of(part: Part, out: &mut Vec<u8>) {
        results(&Run { parts: vec![part], ..Run::default() }, out).unwrap();
    }
}
