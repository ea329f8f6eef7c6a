//! The part of a run that a result makes.

use super::findings::findings;
use super::summary::mixed_kernels;
use latlab_model::latency::{TaskActivations, WhyResult};
use latlab_model::record::{Param, Record, Unit};
use latlab_model::run::{Detail, Part};
use latlab_stats::histogram::{Histogram, Summary};
use std::collections::BTreeMap;

/// The part of a run that a result makes.
pub fn part(result: WhyResult, complete: bool, duration_ns: u64) -> Part {
    Part {
        name: "why".into(),
        title: "Causes of latency".into(),
        complete,
        duration_ns,
        findings: [
            mixed_kernels(&result.captures).into_iter().collect(),
            findings(&result.explanation, &result.system_context, &result.places),
            super::mitigation::findings(&result.mitigation_tests),
        ]
        .concat(),
        results: records(&result.activations),
        detail: Some(Detail::Why(Box::new(result))),
    }
}

/// The distributions of each task, so that runs of two versions of a program can be compared. Threads of one name
/// are one task: their ids differ from run to run. Quantiles have no intervals: activations that follow one another
/// are not independent.
fn records(tasks: &[TaskActivations]) -> Vec<Record> {
    let mut all: BTreeMap<(&str, &str), Histogram> = BTreeMap::new();
    for task in tasks {
        let c = &task.counts;
        let parts = [
            ("activation.response", &c.response),
            ("activation.start", &c.start),
            ("activation.running", &c.running),
            ("activation.preempted", &c.preempted),
            ("activation.waiting", &c.waiting),
        ];
        for (name, histogram) in parts.into_iter().filter(|(_, h)| h.count > 0) {
            all.entry((&task.task, name)).or_default().merge(histogram);
        }
    }
    let record = |((task, name), histogram): ((&str, &str), Histogram)| Record {
        name: name.to_owned(),
        params: BTreeMap::from([("task".to_owned(), Param::Text(task.to_owned()))]),
        unit: Unit::Ns,
        summary: Summary { quantiles: Vec::new(), ..histogram.summary() },
        histogram: Some(histogram),
        ..Record::default()
    };
    all.into_iter().map(record).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::latency::ActivationCounts;

    #[test]
    fn threads_of_one_name_are_one_record_and_nothing_has_none() {
        let task = |task: &str, tid: i32, values: &[u64]| TaskActivations {
            task: task.into(),
            tid,
            counts: ActivationCounts {
                response: Histogram::of(values.iter().copied()),
                ..ActivationCounts::default()
            },
            ..TaskActivations::default()
        };
        let all = records(&[task("io", 7, &[1, 2]), task("io", 8, &[3]), task("ui", 9, &[])]);
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].name.as_str(), all[0].summary.count), ("activation.response", 3));
        assert_eq!(all[0].params["task"], Param::Text("io".into()));
    }
}
