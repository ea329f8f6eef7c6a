//! Latency of a load by stride, in the form that studies publish: one figure for each stride, of an array larger than
//! the caches. Runs have curves; they get the figures that another subject has.

use super::subject::Subject;
use latlab_model::cache::CacheDetail;
use latlab_model::cache::detail::AccessPattern;
use latlab_model::record::{Param, Record, Unit};
use latlab_model::run::Detail;
use latlab_stats::histogram::Summary;
use std::collections::{BTreeMap, BTreeSet};

/// Name of the records.
const NAME: &str = "memory.load";
/// Their parameter, bytes.
const STRIDE: &str = "stride";

/// Adds to each cache measurement a record for each stride that any subject has a figure of.
pub fn add(subjects: &mut [Subject]) {
    let records = subjects.iter().flat_map(|s| &s.runs).flat_map(|s| s.run.records());
    let published = records.filter(|(_, r)| r.name == NAME);
    let wanted: BTreeSet<u32> = published
        .filter_map(|(_, r)| match r.params.get(STRIDE) {
            Some(Param::Int(stride)) => u32::try_from(*stride).ok(),
            _ => None,
        })
        .collect();
    let parts = subjects.iter_mut().flat_map(|s| &mut s.runs).flat_map(|s| &mut s.run.parts);
    for part in parts {
        if let Some(Detail::Memory(detail)) = &part.detail {
            part.results.extend(wanted.iter().filter_map(|stride| record(detail, *stride)));
        }
    }
}

/// Loads in rising order over the largest array; `None` where no array was larger than the caches.
fn record(d: &CacheDetail, stride: u32) -> Option<Record> {
    d.memory_ns?;
    let order = |c: &AccessPattern| *c == AccessPattern::Sequential;
    let mut curves = d.curves.iter().filter(|c| order(&c.access) && c.plain());
    let ns = curves.find(|c| c.stride_bytes == stride)?.points.last()?.ns;
    Some(Record {
        name: NAME.into(),
        params: BTreeMap::from([(STRIDE.to_owned(), Param::Int(stride.into()))]),
        unit: Unit::Ns,
        samples: vec![ns],
        summary: Summary { count: 1, median: Some(ns), ..Summary::default() },
        ..Record::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::subject::Source;
    use latlab_model::cache::detail::{Curve, CurvePoint};
    use latlab_model::compare::Options;
    use latlab_model::run::{Part, Run};

    fn measured(memory_ns: Option<f64>) -> Subject {
        let curve = |(stride_bytes, ns): (u32, f64)| Curve {
            access: AccessPattern::Sequential,
            stride_bytes,
            points: [(1 << 12, 1.0), (8 << 20, ns)]
                .into_iter()
                .filter_map(|(x, ns)| CurvePoint::of(x, &[ns]))
                .collect(),
            ..Curve::default()
        };
        let curves = [(16, 8.0), (64, 30.0), (512, 90.0)].map(curve).into();
        let detail = CacheDetail { curves, memory_ns, ..CacheDetail::default() };
        let detail = Some(Detail::Memory(Box::new(detail)));
        let part = Part { name: "memory".into(), detail, complete: true, ..Part::default() };
        let run = Run { parts: vec![part], complete: true, ..Run::default() };
        Subject {
            label: "here".into(),
            runs: vec![Source { run, ..Source::default() }],
            ..Subject::default()
        }
    }

    fn beside_the_board(mut here: Subject) -> Vec<(String, f64, f64)> {
        let reference = latlab_model::reference::find("beaglebone-black-2015").unwrap();
        let mut subjects = vec![Subject::of_reference(reference), std::mem::take(&mut here)];
        add(&mut subjects);
        let d = crate::compare::compare(&subjects, &Options::default());
        let median = |s: &Option<latlab_model::compare::Side>| s.as_ref().unwrap().summary.median;
        let row = |m: &latlab_model::compare::Metric| {
            let [there, here] = [&m.sides[0], &m.sides[1]].map(|s| median(s).unwrap());
            (m.label.clone(), there, here)
        };
        d.metrics.iter().map(row).collect()
    }

    #[test]
    fn published_latencies_by_stride_meet_the_curves_of_a_run() {
        assert_eq!(
            beside_the_board(measured(Some(95.0))),
            [
                ("memory.load:stride=16".to_owned(), 57.0, 8.0),
                ("memory.load:stride=64".to_owned(), 220.0, 30.0),
            ]
        );
        assert_eq!(beside_the_board(measured(None)), [], "all arrays fit into caches");
    }

    #[test]
    fn two_runs_alone_get_no_further_records() {
        let mut subjects = [measured(Some(95.0)), measured(Some(95.0))];
        add(&mut subjects);
        assert!(subjects.iter().all(|s| s.runs[0].run.parts[0].results.is_empty()));
    }
}
