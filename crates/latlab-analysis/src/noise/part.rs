//! The part of a run: records for `compare` and `history`, and findings.

use latlab_model::finding::{Confidence, Evidence, Finding, Note, Quantity, Severity};
use latlab_model::machine::Machine;
use latlab_model::noise::{CpuNoise, NoiseDetail, NoiseKind, NoiseSource};
use latlab_model::record::{Param, Record, Unit};
use latlab_model::run::{Detail, Part};
use latlab_stats::histogram::Summary;
use std::collections::BTreeMap;

/// A source with more than this share of the time, or of the longest interruption, is named.
const SHARE: f64 = 0.5;

/// The part named `noise`.
pub fn part(detail: NoiseDetail, machine: &Machine, complete: bool) -> Part {
    let mut results: Vec<Record> = Vec::new();
    for c in &detail.cpus {
        results.extend(records(c, &detail));
    }
    let findings = findings(&detail, machine);
    Part {
        name: "noise".to_owned(),
        title: "OS noise".to_owned(),
        complete,
        duration_ns: detail.cpus.iter().map(|c| c.looped_ns).max().unwrap_or(0),
        results,
        findings,
        detail: Some(Detail::Noise(Box::new(detail))),
    }
}

fn records(c: &CpuNoise, detail: &NoiseDetail) -> Vec<Record> {
    let mut params = BTreeMap::from([
        ("cpu".to_owned(), Param::Int(c.cpu.0.into())),
        ("threshold_ns".to_owned(), Param::Int(detail.threshold_ns as i64)),
    ]);
    if let Some(tracer) = detail.tracer {
        params.insert("tracer".to_owned(), Param::Text(tracer.to_string()));
    }
    let figure = |name: &str, unit, v: f64| Record {
        name: name.to_owned(),
        params: params.clone(),
        unit,
        summary: one(v),
        samples: vec![v],
        ..Record::default()
    };
    let mut out = vec![
        Record {
            name: "noise.interruption".to_owned(),
            params: params.clone(),
            unit: Unit::Ns,
            summary: c.interruptions.summary(),
            histogram: Some(c.interruptions.clone()),
            ..Record::default()
        },
        figure("noise.lost", Unit::Ratio, c.lost()),
        figure("noise.per-second", Unit::Count, c.rate()),
    ];
    for s in &c.sources {
        let mut params = params.clone();
        params.insert("source".to_owned(), Param::Text(label(s)));
        out.push(Record {
            name: "noise.source".to_owned(),
            params,
            unit: Unit::Ns,
            summary: s.time.summary(),
            histogram: Some(s.time.clone()),
            ..Record::default()
        });
    }
    out
}

fn one(value: f64) -> Summary {
    let v = Some(value);
    Summary { count: 1, min: v, median: v, max: v, ..Summary::default() }
}

/// Kind and name as one identifier: `softirq RCU`.
fn label(s: &NoiseSource) -> String {
    let kind = match s.kind {
        NoiseKind::OutsideKernel => "outside-kernel",
        NoiseKind::Nmi => "nmi",
        NoiseKind::Interrupt => "interrupt",
        NoiseKind::Softirq => "softirq",
        NoiseKind::Thread => "thread",
        NoiseKind::Unknown => "unknown",
    };
    if s.name.is_empty() { kind.to_owned() } else { [kind, " ", &s.name].concat() }
}

fn findings(d: &NoiseDetail, machine: &Machine) -> Vec<Finding> {
    let mut out = Vec::new();
    out.extend(limit(d));
    let worst = d.cpus.iter().max_by_key(|c| c.interruptions.max);
    let lossy = d.cpus.iter().max_by(|a, b| a.lost().total_cmp(&b.lost()));
    if let (Some(worst), Some(lossy)) = (worst, lossy) {
        let finding = Finding::typed("noise.interruption", Severity::Info, Confidence::High)
            .value("longest", Quantity::Ns(worst.interruptions.max as f64))
            .value("cpu", Quantity::Cpu(worst.cpu.0))
            .value("lost", Quantity::Ratio(lossy.lost()))
            .value("lost_cpu", Quantity::Cpu(lossy.cpu.0))
            .value("rate", Quantity::PerSecond(lossy.rate()));
        out.push(finding);
    }
    out.extend(queue(d));
    out.extend(main_source(d));
    out.extend(outside(d, machine));
    let lost: u64 = d.cpus.iter().map(|c| c.events_lost).sum();
    if lost > 0 {
        let finding = Finding::typed("noise.events-lost", Severity::Warning, Confidence::High);
        out.push(finding.value("count", Quantity::Count(lost)));
    }
    out
}

fn limit(d: &NoiseDetail) -> Option<Finding> {
    let over = |c: &&CpuNoise, limit: Option<u64>, v: u64| {
        limit.is_some_and(|l| v > l) && !c.sources.is_empty()
    };
    let single = d.cpus.iter().filter(|c| over(c, d.stop_ns, c.interruptions.max));
    let total = d.cpus.iter().filter(|c| over(c, d.stop_total_ns, c.window_ns_max));
    let finding = |id: &str, c: &CpuNoise, v: u64, limit: u64| {
        Finding::typed(id, Severity::Problem, Confidence::High)
            .value("longest", Quantity::Ns(v as f64))
            .value("limit", Quantity::Ns(limit as f64))
            .value("cpu", Quantity::Cpu(c.cpu.0))
    };
    let worst = single.max_by_key(|c| c.interruptions.max);
    let worst = worst
        .map(|c| finding("noise.limit-exceeded", c, c.interruptions.max, d.stop_ns.unwrap_or(0)));
    worst.or_else(|| {
        let c = total.max_by_key(|c| c.window_ns_max)?;
        Some(finding("noise.window-limit-exceeded", c, c.window_ns_max, d.stop_total_ns?))
    })
}

/// The longest queue of the model, and whether that is permitted.
fn queue(d: &NoiseDetail) -> Option<Finding> {
    let model = d.queue?;
    let of = |c: &CpuNoise| c.queue_max.unwrap_or(0.0);
    let worst = d.cpus.iter().max_by(|a, b| of(a).total_cmp(&of(b)))?;
    let longest = of(worst) as u64;
    let over = model.limit.is_some_and(|l| longest > l);
    let (id, severity) = match over {
        true => ("noise.queue-exceeded", Severity::Problem),
        false => ("noise.queue", Severity::Info),
    };
    let finding = Finding::typed(id, severity, Confidence::High)
        .value("longest", Quantity::Count(longest))
        .value("cpu", Quantity::Cpu(worst.cpu.0))
        .value("arrivals", Quantity::PerSecond(model.per_second as f64))
        .value("service", Quantity::Ns(model.service_ns as f64));
    Some(match model.limit {
        Some(limit) => finding.value("limit", Quantity::Count(limit)),
        None => finding,
    })
}

/// The source with most of the noise of all CPUs.
fn main_source(d: &NoiseDetail) -> Option<Finding> {
    let mut all: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
    for s in d.cpus.iter().flat_map(|c| &c.sources) {
        let row = all.entry(label(s)).or_default();
        (row.0, row.1, row.2) = (row.0 + s.total_ns, row.1 + s.count, row.2.max(s.time.max));
    }
    let lost: u64 = d.cpus.iter().map(|c| c.lost_ns).sum();
    let (name, (ns, count, max)) = all.into_iter().max_by_key(|(_, row)| row.0)?;
    let share = ns as f64 / lost.max(1) as f64;
    let known = d.traced && share >= SHARE && !name.starts_with("unknown");
    let finding = Finding::typed("noise.main-source", Severity::Info, Confidence::High)
        .value("source", name)
        .value("share", Quantity::Ratio(share))
        .value("count", Quantity::Count(count))
        .value("longest", Quantity::Ns(max as f64));
    known.then_some(finding)
}

/// None was found: there is none from the threshold on, unless the source of an interruption is not known.
fn none_outside(d: &NoiseDetail) -> Finding {
    let not_known = |c: &CpuNoise| c.of_kind(NoiseKind::Unknown).1.saturating_add(c.not_listed);
    let unknown = d.cpus.iter().map(not_known).fold(0, u64::saturating_add);
    let lost = d.cpus.iter().any(|c| c.events_lost > 0);
    let (id, severity) = match unknown > 0 || lost {
        true => ("noise.outside-unknown", Severity::Inconclusive),
        false => ("noise.none-outside", Severity::Ok),
    };
    Finding::typed(id, severity, Confidence::Medium)
        .value("threshold", Quantity::Ns(d.threshold_ns as f64))
        .value_if("unknown", (unknown > 0).then_some(Quantity::Count(unknown)))
}

/// Noise in which no code of this kernel ran, with what tells where it was.
fn outside(d: &NoiseDetail, machine: &Machine) -> Option<Finding> {
    if !d.traced {
        return None;
    }
    let of = |c: &CpuNoise| c.of_kind(NoiseKind::OutsideKernel);
    let (ns, count) = d.cpus.iter().map(of).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    if count == 0 {
        return Some(none_outside(d));
    }
    let sources = d.cpus.iter().flat_map(|c| &c.sources);
    let longest = sources.filter(|s| s.kind == NoiseKind::OutsideKernel).map(|s| s.time.max).max();
    let looped: u64 = d.cpus.iter().map(|c| c.looped_ns).sum();
    let severity =
        if machine.virtualization.is_some() { Severity::Info } else { Severity::Warning };
    let finding = Finding::typed("noise.outside-kernel", severity, Confidence::Medium)
        .value("share", Quantity::Ratio(ns as f64 / looped.max(1) as f64))
        .value("count", Quantity::Count(count))
        .value("longest", Quantity::Ns(longest.unwrap_or(0) as f64));
    let mut finding = match (&machine.virtualization, d.smi) {
        (Some(name), _) => {
            finding.note(Note::new("noise.guest").value("hypervisor", name.as_str()))
        }
        (None, Some(0)) => finding.note(Note::new("noise.no-smi")),
        (None, Some(n)) => finding.note(Note::new("noise.smi").value("count", Quantity::Count(n))),
        (None, None) => finding.note(Note::new("noise.smi-unknown")),
    };
    let steal: Option<u64> = d.cpus.iter().map(|c| c.steal_ns).sum();
    if let Some(steal) = steal.filter(|_| machine.virtualization.is_some()) {
        finding = finding
            .with(Evidence::new("steal-time", Quantity::Ns(steal as f64)).from("/proc/stat"));
    }
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interruptions_of_unknown_source_may_be_outside_of_the_kernel() {
        let found = |cpu: CpuNoise| {
            let d = NoiseDetail { traced: true, cpus: vec![cpu], ..NoiseDetail::default() };
            let finding = outside(&d, &Machine::default()).unwrap();
            (finding.id.clone(), finding.severity, finding.values.contains_key("unknown"))
        };
        let source = |kind| {
            let sources = vec![NoiseSource { kind, count: 3, ..NoiseSource::default() }];
            CpuNoise { sources, ..CpuNoise::default() }
        };
        let none = ("noise.none-outside".to_owned(), Severity::Ok, false);
        assert_eq!(found(source(NoiseKind::Interrupt)), none);
        let unknown = |named| ("noise.outside-unknown".to_owned(), Severity::Inconclusive, named);
        assert_eq!(found(source(NoiseKind::Unknown)), unknown(true));
        let not_listed = CpuNoise { not_listed: 1, ..source(NoiseKind::Softirq) };
        assert_eq!(found(not_listed), unknown(true));
        let lost = CpuNoise { events_lost: 9, ..source(NoiseKind::Softirq) };
        assert_eq!(found(lost), unknown(false));
    }
}
