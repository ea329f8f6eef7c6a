//! The part of a run that `latlab profile` makes.

use super::changes::changes;
use super::stat::is_idle;
use latlab_model::finding::{Confidence, Evidence, Finding, Quantity, Severity};
use latlab_model::profile::{
    Change, FunctionProfile, LongestLatency, Origin, Profile, ProfileDetail,
};
use latlab_model::record::{Param, Record, Unit};
use latlab_model::run::{Detail, Part};
use std::collections::BTreeMap;

/// Functions that are kept by own time, and besides by total time and by count.
const BY_SELF: usize = 200;
const BY_OTHER: usize = 50;
/// Changes that are kept.
const CHANGES: usize = 100;
/// Functions that have a record.
const RECORDS: usize = 50;
/// A call is long if it takes so many times the median of its function's others, and at least so much.
const LONG_RATIO: f64 = 10.0;
const LONG_NS: u64 = 100_000;
/// Share of all own time from which a call has most of it.
const MOST: f64 = 0.5;
/// Calls of a function from which its median says something.
const CALLS_MIN: u64 = 10;
/// Share of all own time from which a function with uniform calls has many of them.
const MANY_SHARE: f64 = 0.2;
const MANY_CALLS: u64 = 100;
/// Share of the first trace's own time from which an increase is a finding.
const INCREASE: f64 = 0.05;
/// Share of the longest latency from which a step in it is a finding.
const GREAT_STEP: f64 = 0.2;
/// Findings of a kind.
const FINDINGS: usize = 3;

/// The profile of one trace, or of two with their difference.
pub fn part(name: &str, title: &str, profile: Profile, other: Option<Profile>) -> Part {
    let mut findings = Vec::new();
    let mut differences = Vec::new();
    match &other {
        Some(other) => {
            differences = changes(&profile, other);
            findings.extend(of_changes(&differences, &profile));
        }
        None => {
            findings.extend(profile.latency.as_ref().and_then(long_step));
            findings.extend(long_calls(&profile));
            findings.extend(many_calls(&profile));
        }
    }
    differences.truncate(CHANGES);
    let detail = ProfileDetail {
        profile: shortened(profile),
        other: other.map(shortened),
        changes: differences,
    };
    let sides = [Some(&detail.profile), detail.other.as_ref()];
    let results = sides.into_iter().flatten().flat_map(|p| records(p, detail.other.is_some()));
    Part {
        name: name.into(),
        title: title.into(),
        complete: true,
        duration_ns: detail.profile.length_ns,
        results: results.collect(),
        findings,
        detail: Some(Detail::Profile(Box::new(detail))),
    }
}

/// Only the functions that matter by own time, total time or count.
fn shortened(mut profile: Profile) -> Profile {
    let functions = std::mem::take(&mut profile.functions);
    let mut keep = vec![false; functions.len()];
    let mut most = |n: usize, of: &dyn Fn(&FunctionProfile) -> u64| {
        let mut order: Vec<usize> = (0..functions.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(of(&functions[i])));
        order.into_iter().take(n).for_each(|i| keep[i] = true);
    };
    most(BY_OTHER, &|f| f.total_ns.unwrap_or(0));
    most(BY_OTHER, &|f| f.count);
    keep.iter_mut().take(BY_SELF).for_each(|k| *k = true);
    let kept = functions.into_iter().zip(keep).filter(|(_, keep)| *keep);
    profile.functions = kept.map(|(f, _)| f).collect();
    profile
}

fn records(profile: &Profile, several: bool) -> Vec<Record> {
    let of = |f: &FunctionProfile| {
        let histogram = f.time.clone()?;
        let mut params = BTreeMap::from([("function".to_owned(), Param::from(f.name.clone()))]);
        if several {
            params.insert("trace".to_owned(), Param::from(profile.source.clone()));
        }
        Some(Record {
            name: "profile.function".into(),
            params,
            unit: Unit::Ns,
            summary: histogram.summary(),
            histogram: Some(histogram),
            ..Record::default()
        })
    };
    profile.functions.iter().take(RECORDS).filter_map(of).collect()
}

fn finding(id: &str, severity: Severity) -> Finding {
    Finding::typed(id, severity, Confidence::High)
}

fn ns(value: u64) -> Quantity {
    Quantity::Ns(value as f64)
}

/// Single calls that take far longer than others.
fn long_calls(profile: &Profile) -> Vec<Finding> {
    let mut found = Vec::new();
    for call in &profile.longest {
        let (Some(first), Some(last)) = (call.chain.first(), call.chain.last()) else { continue };
        // The outermost of the chain is what a reader looks for; the innermost has the time.
        let outer = profile.functions.iter().find(|f| f.name == first.name);
        let Some(outer) = outer else { continue };
        let usual =
            (outer.count >= CALLS_MIN).then(|| outer.time.as_ref()?.quantile(0.5)).flatten();
        let share = call.self_ns as f64 / profile.self_ns.max(1) as f64;
        // Of a function that is known by few calls only one that has most of the time.
        let is_long = first.length_ns >= LONG_NS
            && match usual {
                Some(median) => first.length_ns as f64 >= LONG_RATIO * median.max(1) as f64,
                None => share >= MOST,
            };
        if !is_long {
            continue;
        }
        found.push(
            finding("profile.long-call", Severity::Warning)
                .value("function", first.name.as_str())
                .value("length", ns(first.length_ns))
                .value("count", Quantity::Count(outer.count))
                .value_if("median", usual.map(ns))
                .value("share", Quantity::Ratio(share))
                .value_if("inside", (first.name != last.name).then_some(last.name.as_str()))
                .value("self", ns(call.self_ns))
                .with(Evidence::new("start", ns(call.start_ns))),
        );
        if found.len() == FINDINGS {
            break;
        }
    }
    found
}

/// The longest step of the longest latency, if it has a great share of it.
fn long_step(latency: &LongestLatency) -> Option<Finding> {
    let step = latency.steps.first()?;
    let share = step.length_ns as f64 / latency.length_ns.max(1) as f64;
    let either = |name: &String| (!name.is_empty()).then_some(name.clone());
    (share >= GREAT_STEP).then(|| {
        finding("profile.long-step", Severity::Warning)
            .value("from", step.from.as_str())
            .value_if("caller", either(&step.caller))
            .value("to", step.to.as_str())
            .value("length", ns(step.length_ns))
            .value("latency", ns(latency.length_ns))
            .value("share", Quantity::Ratio(share.min(1.0)))
            .value("tracer", latency.tracer.as_str())
            .value_if("task", either(&latency.task))
            .with(Evidence::new("start", ns(step.start_ns)))
    })
}

/// Functions that take their time by many calls of similar length.
fn many_calls(profile: &Profile) -> Vec<Finding> {
    let share = |f: &FunctionProfile| f.self_ns.unwrap_or(0) as f64 / profile.self_ns.max(1) as f64;
    let is_uniform = |f: &&FunctionProfile| {
        let h = f.time.as_ref();
        let (median, high) = (h.and_then(|h| h.quantile(0.5)), h.and_then(|h| h.quantile(0.99)));
        let uniform =
            median.zip(high).is_some_and(|(m, q)| q as f64 <= LONG_RATIO * m.max(1) as f64);
        uniform && !is_idle(&f.name) && f.count >= MANY_CALLS && share(f) >= MANY_SHARE
    };
    let of = |f: &FunctionProfile| {
        let caller = f.callers.first().filter(|c| !c.name.is_empty());
        finding("profile.many-calls", Severity::Info)
            .value("function", f.name.as_str())
            .value("count", Quantity::Count(f.count))
            .value("mean", Quantity::Ns(f.self_ns.unwrap_or(0) as f64 / f.count as f64))
            .value("share", Quantity::Ratio(share(f)))
            .value_if("caller", caller.map(|c| c.name.as_str()))
    };
    profile.functions.iter().filter(is_uniform).take(FINDINGS).map(of).collect()
}

/// Functions that take more time in the second trace: by more calls, or by longer ones.
fn of_changes(changes: &[Change], first: &Profile) -> Vec<Finding> {
    if first.origin != Origin::FunctionGraph {
        return Vec::new();
    }
    let seconds = (first.length_ns as f64 / 1e9).max(1e-9);
    let limit = INCREASE * first.self_ns as f64 / seconds;
    let increase = |c: &Change| c.self_ns[1] - c.self_ns[0];
    let of = |c: &Change| {
        let id = match c.by_count_ns >= c.by_length_ns {
            true => "profile.more-calls",
            false => "profile.longer-calls",
        };
        finding(id, Severity::Warning)
            .value("function", c.name.as_str())
            .value("before", Quantity::Ratio(c.self_ns[0] / 1e9))
            .value("after", Quantity::Ratio(c.self_ns[1] / 1e9))
            .value("calls_before", Quantity::PerSecond(c.count[0]))
            .value("calls_after", Quantity::PerSecond(c.count[1]))
            .value_if("median_before", c.median_ns[0].map(ns))
            .value_if("median_after", c.median_ns[1].map(ns))
    };
    let grown = |c: &&Change| increase(c) > limit.max(0.0) && !is_idle(&c.name);
    changes.iter().filter(grown).take(FINDINGS).map(of).collect()
}
