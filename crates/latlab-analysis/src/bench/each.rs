//! Single operations, timed one by one: a record with a histogram for each probe.

use latlab_model::bench::trial::Slice;
use latlab_model::finding::{Note, Quantity};
use latlab_model::record::{Param, Record, Sequence, Unit};
use latlab_model::run::Part;
use std::collections::BTreeMap;

/// The part of a run; `asked` operations were to be timed of each.
pub fn part(
    measured: Vec<(String, BTreeMap<String, String>, Slice)>,
    asked: u64,
    complete: bool,
) -> Part {
    let duration_ns = measured.iter().map(|(_, _, s)| s.length_ns).sum();
    let results =
        measured.into_iter().map(|(name, params, slice)| record(name, &params, slice, asked));
    Part {
        name: "bench-each".into(),
        title: "Single operations".into(),
        complete,
        duration_ns,
        results: results.collect(),
        ..Part::default()
    }
}

fn record(name: String, params: &BTreeMap<String, String>, slice: Slice, asked: u64) -> Record {
    let histogram = slice.each.unwrap_or_default();
    let mut notes = slice.notes;
    if let (Some(mean), Some(sd)) = (histogram.mean(), histogram.standard_deviation()) {
        let jitter = histogram.max - histogram.min;
        notes.push(
            Note::new("bench.each")
                .value("probe", &*name)
                .value("operations", Quantity::Count(histogram.count))
                .value("asked", Quantity::Count(asked))
                .value("min", Quantity::Ns(histogram.min as f64))
                .value("mean", Quantity::Ns(mean))
                .value("sd", Quantity::Ns(sd))
                .value("max", Quantity::Ns(histogram.max as f64))
                .value("jitter", Quantity::Ns(jitter as f64))
                .value("clock", Quantity::Ns(slice.read_ns)),
        );
    }
    let word =
        |text: &String| text.parse::<i64>().map_or_else(|_| Param::from(text.as_str()), Param::Int);
    Record {
        name,
        params: params.iter().map(|(k, v)| (k.clone(), word(v))).collect(),
        unit: Unit::Ns,
        summary: histogram.summary(),
        histogram: Some(histogram),
        sequence: (!slice.extremes.is_empty())
            .then(|| Sequence { width: Sequence::width_of(asked), extremes: slice.extremes }),
        notes,
        ..Record::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_stats::histogram::Histogram;

    #[test]
    fn single_operations_have_a_distribution_and_a_jitter() {
        let slice = Slice {
            each: Some(Histogram::of([1_000, 1_100, 1_200, 9_000])),
            extremes: vec![(1_000, 1_000), (1_100, 1_100), (1_200, 1_200), (9_000, 9_000)],
            read_ns: 25.0,
            ..Slice::default()
        };
        let params = BTreeMap::from([("size".to_owned(), "64".to_owned())]);
        let part = part(vec![("ctx.yield".into(), params, slice)], 4, true);
        let r = &part.results[0];
        assert_eq!((r.params["size"].clone(), r.summary.count), (Param::Int(64), 4));
        let sequence = r.sequence.as_ref().unwrap();
        assert_eq!((sequence.width, sequence.extremes[3]), (1, (9_000, 9_000)));
        let Some(Note::Typed(said)) = r.notes.last() else { panic!("{:?}", r.notes) };
        assert_eq!(said.values["jitter"], Quantity::Ns(8_000.0).into());
        assert_eq!(said.values["mean"], Quantity::Ns(3_075.0).into());
    }
}
