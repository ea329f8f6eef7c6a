//! latlab's own file of every sample: the only one that knows the order.

use super::error::ForeignError;
use crate::compare::sample::RunSample;
use crate::compare::subject::Source;
use latlab_model::finding::{Note, Quantity};
use latlab_model::record::{Param, Record, Unit};
use latlab_model::run::Part;
use latlab_model::samples;
use std::collections::BTreeMap;

pub fn read(bytes: &[u8]) -> Result<Source, ForeignError> {
    let file = samples::read(bytes)?;
    let mut all: Vec<(u64, u64)> =
        file.threads.iter().flat_map(|t| t.samples.iter().copied()).collect();
    if all.is_empty() {
        return Err(ForeignError::Empty { tool: "latlab (--samples)" });
    }
    all.sort_unstable();
    let values: Vec<u64> = all.iter().map(|s| s.1).collect();
    let sample = RunSample::of_values(&values);
    let interval = file.threads.iter().map(|t| t.interval_ns).min().unwrap_or(0) / 1_000;
    let number = |v: u64| Param::Int(i64::try_from(v).unwrap_or(i64::MAX));
    let record = Record {
        name: "wakeup.user".into(),
        params: BTreeMap::from([
            ("interval_us".to_owned(), number(interval)),
            ("threads".to_owned(), number(file.threads.len() as u64)),
        ]),
        unit: Unit::Ns,
        summary: sample.histogram.summary(),
        histogram: Some(sample.histogram.clone()),
        ..Record::default()
    };
    let span = all.last().map_or(0, |l| l.0).saturating_sub(all[0].0);
    let part = Part {
        name: "wakeup".into(),
        complete: file.damaged_at.is_none(),
        duration_ns: span,
        results: vec![record],
        ..Part::default()
    };
    let mut source = Source { run: super::imported_run::run_of(part), ..Source::default() };
    source.samples.insert((0, 0), sample);
    if let Some(at) = file.damaged_at {
        source.notes.push(Note::new("compare.cut-off").value("offset", Quantity::Count(at as u64)));
    }
    Ok(source)
}
