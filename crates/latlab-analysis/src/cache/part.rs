//! What was found, as a part of a run: records that can be compared, findings, and the detail.

use super::findings::findings;
use super::reported::compare;
use super::switching::refill;
use latlab_model::cache::CacheDetail;
use latlab_model::record::{Param, Record, Unit};
use latlab_model::run::{Detail, Part};
use latlab_stats::histogram::Summary;

/// The part of a run.
pub fn part(name: &str, title: &str, mut detail: CacheDetail, length_ns: u64) -> Part {
    detail.comparisons = compare(&detail);
    detail.refill = refill(&detail.switches);
    Part {
        name: name.into(),
        title: title.into(),
        complete: true,
        duration_ns: length_ns,
        results: records(&detail),
        findings: findings(&detail),
        detail: Some(Detail::Memory(Box::new(detail))),
    }
}

fn records(d: &CacheDetail) -> Vec<Record> {
    let mut all = Vec::new();
    let mut add = |name: &str, level: Option<u32>, unit, value: f64, range: Option<(f64, f64)>| {
        let (min, max) = range.unwrap_or((value, value));
        all.push(Record {
            name: name.into(),
            params: level.map(|l| ("level".to_owned(), Param::Int(l.into()))).into_iter().collect(),
            unit,
            samples: vec![value],
            summary: Summary {
                count: 1,
                min: Some(min),
                median: Some(value),
                max: Some(max),
                ..Summary::default()
            },
            ..Record::default()
        });
    };
    for l in &d.levels {
        let n = Some(l.level);
        add("memory.cache.latency", n, Unit::Ns, l.ns, Some(l.ns_interval));
        let (low, high) = l.bytes_interval;
        add("memory.cache.size", n, Unit::Bytes, l.bytes as f64, Some((low as f64, high as f64)));
        add("memory.cache.effective", n, Unit::Bytes, l.effective_bytes as f64, None);
        if let Some(rate) = l.bytes_per_s {
            add("memory.cache.bandwidth", n, Unit::BytesPerSecond, rate, None);
        }
    }
    for t in &d.tlbs {
        add("memory.tlb.entries", Some(t.level), Unit::Count, t.entries.into(), None);
        add("memory.tlb.penalty", Some(t.level), Unit::Ns, t.penalty_ns, None);
    }
    if let Some(ns) = d.memory_ns.filter(|_| !d.levels.is_empty()) {
        add("memory.latency", None, Unit::Ns, ns, None);
    }
    if let Some(best) = d.parallelism.iter().map(|p| p.ns).reduce(f64::min) {
        add("memory.parallel", None, Unit::Ns, best, None);
    }
    all
}
