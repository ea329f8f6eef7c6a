//! The part of a run that an analysis of scheduling makes: records, findings, detail.
//!
//! Expectations are in the detail, not among the findings as well.

use latlab_model::finding::{Confidence, Evidence, Finding, Note, Quantity, Severity};
use latlab_model::record::{Param, Record, Unit};
use latlab_model::run::{Detail, Part};
use latlab_model::sched::schedule::{SchedDetail, Schedule, TaskLine};
use latlab_stats::histogram::Histogram;

/// An inversion as long as this is worth a finding.
const INVERSION_SAID_NS: u64 = 1_000_000;
/// Slices that stay in a run's file.
const SLICES_KEPT: usize = 500;

/// Makes the part. `name` and `title` are the part's own.
pub fn part(name: &str, title: &str, mut detail: SchedDetail, complete: bool) -> Part {
    let findings = findings(&detail);
    let results = records(&detail);
    let cut = detail.schedule.slices.len().saturating_sub(SLICES_KEPT);
    detail.schedule.slices.truncate(SLICES_KEPT);
    detail.schedule.more_slices += cut as u64;
    if detail.cell.is_some() {
        // Others than the experiment's own tasks matter in a trace, not here.
        detail.schedule.tasks.truncate(20);
        detail.schedule.pairs.truncate(20);
    }
    for task in &mut detail.schedule.tasks {
        (task.histogram, task.delays) = (None, None);
    }
    Part {
        name: name.to_owned(),
        title: title.to_owned(),
        complete,
        duration_ns: detail.schedule.length_ns,
        results,
        findings,
        detail: Some(Detail::Sched(Box::new(detail))),
    }
}

/// The tasks that a part is about: the experiment's, or those that ran longest.
fn subjects(detail: &SchedDetail) -> Vec<(&TaskLine, String)> {
    match &detail.cell {
        Some(cell) => (cell.tasks.iter())
            .filter_map(|t| Some((detail.schedule.task(t.tid)?, t.name.clone())))
            .collect(),
        None => detail.schedule.tasks.iter().take(10).map(|t| (t, t.label())).collect(),
    }
}

fn records(detail: &SchedDetail) -> Vec<Record> {
    let mut records = Vec::new();
    let length = detail.schedule.length_ns.max(1) as f64;
    for (task, name) in subjects(detail) {
        let mut params: std::collections::BTreeMap<String, Param> =
            [("task".to_owned(), name.into())].into();
        if let Some(cell) = &detail.cell {
            params.insert("cell".into(), cell.name.clone().into());
        }
        let mut add = |name: &str, histogram: &Option<Histogram>| {
            if let Some(h) = histogram.as_ref().filter(|h| h.count > 0) {
                records.push(Record {
                    name: name.into(),
                    params: params.clone(),
                    unit: Unit::Ns,
                    summary: h.summary(),
                    histogram: Some(h.clone()),
                    ..Record::default()
                });
            }
        };
        add("sched.slice", &task.histogram);
        add("sched.delay", &task.delays);
        let share = task.run_ns as f64 / length;
        let mut summary = Histogram::default().summary();
        summary.count = 1;
        (summary.median, summary.min, summary.max, summary.mean) =
            (Some(share), Some(share), Some(share), Some(share));
        records.push(Record {
            name: "sched.share".into(),
            params,
            unit: Unit::Ratio,
            samples: vec![share],
            summary,
            ..Record::default()
        });
    }
    records
}

fn findings(detail: &SchedDetail) -> Vec<Finding> {
    let schedule = &detail.schedule;
    let mut findings = Vec::new();
    if detail.cell.is_none() && schedule.throttle_count > 0 {
        findings.push(throttled(schedule));
    }
    if let Some(longest) = schedule.inversions.first().filter(|i| i.ns >= INVERSION_SAID_NS) {
        findings.push(
            Finding::typed("sched.inversion", Severity::Problem, Confidence::Medium)
                .value("task", &longest.high_name)
                .value("tid", Quantity::Tid(longest.high))
                .value("lower_task", &longest.low_name)
                .value("lower_tid", Quantity::Tid(longest.low))
                .value("wait", Quantity::Ns(longest.ns as f64))
                .value("inversions", Quantity::Count(schedule.inversion_count))
                .with(Evidence::new("time-since-first-event", Quantity::Ns(longest.at_ns as f64)))
                .with(Evidence::new("cpu", Quantity::Cpu(longest.cpu))),
        );
    }
    if schedule.cpus.iter().any(|c| c.holes > 0) && schedule.doubtful_slices > 0 {
        findings.push(
            Finding::typed("sched.lost-events", Severity::Warning, Confidence::High)
                .value("slices", Quantity::Count(schedule.doubtful_slices))
                .remedy(Note::new("sched.remedy.buffer")),
        );
    }
    findings
}

fn throttled(schedule: &Schedule) -> Finding {
    let all = &schedule.throttles;
    let longest = all.iter().map(|t| t.ns).max().unwrap_or(0);
    let mut finding = Finding::typed("sched.throttled", Severity::Problem, Confidence::Medium)
        .value("times", Quantity::Count(schedule.throttle_count))
        .value("longest", Quantity::Ns(longest as f64))
        .remedy(Note::new("sched.remedy.throttling"));
    if let Some(t) = all.first() {
        finding = finding
            .with(Evidence::new("first-task", &t.name))
            .with(Evidence::new("first-tid", Quantity::Tid(t.tid)))
            .with(Evidence::new("first-run-time", Quantity::Ns(t.ran_ns as f64)))
            .with(Evidence::new("first-throttled-time", Quantity::Ns(t.ns as f64)));
    }
    finding
}
