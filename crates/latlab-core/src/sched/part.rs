//! The part of a run that an analysis of scheduling makes: figures to compare, findings, detail.

use super::check::{Check, Decision};
use super::result::{SchedDetail, TaskLine};
use crate::finding::{Confidence, Evidence, Finding, Verdict};
use crate::histogram::Histogram;
use crate::run::{Detail, Param, Part, Record, Unit};
use crate::units::format_ns;

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
    let mut findings: Vec<Finding> = detail
        .checks
        .iter()
        .map(|c| of_check(detail.cell.as_ref().map_or("", |c| &c.name), c))
        .collect();
    if detail.cell.is_none() && schedule.throttle_count > 0 {
        let t = &schedule.throttles;
        let longest = t.iter().map(|t| t.ns).max().unwrap_or(0);
        findings.push(
            Finding::new(
                "sched.throttled",
                Verdict::InTheWay,
                Confidence::Likely,
                format!(
                    "the CPU was taken {} times from real-time tasks that wanted to go on, for up to {}",
                    schedule.throttle_count,
                    format_ns(longest as f64)
                ),
            )
            .because("real-time throttling, or since Linux 6.12 the fair server, keeps a reserve for ordinary tasks: a task that computes on and on runs into it")
            .with(Evidence::new("first", t.first().map_or(String::new(), |t| format!("{}:{} after {} of running, for {}", t.name, t.tid, format_ns(t.ran_ns as f64), format_ns(t.ns as f64)))))
            .attempt("let the task sleep, or see /proc/sys/kernel/sched_rt_runtime_us"),
        );
    }
    if let Some(longest) = schedule.inversions.first().filter(|i| i.ns >= INVERSION_SAID_NS) {
        findings.push(
            Finding::new(
                "sched.inversion",
                Verdict::InTheWay,
                Confidence::Likely,
                format!(
                    "{}:{} waited {} for {}:{} of lower priority ({} inversions seen)",
                    longest.high_name,
                    longest.high,
                    format_ns(longest.ns as f64),
                    longest.low_name,
                    longest.low,
                    schedule.inversion_count
                ),
            )
            .with(Evidence::new(
                "at",
                format!("{} from the first event", format_ns(longest.at_ns as f64)),
            ))
            .with(Evidence::new("on CPU", longest.cpu.to_string())),
        );
    }
    if schedule.cpus.iter().any(|c| c.holes > 0) && schedule.doubtful_slices > 0 {
        findings.push(
            Finding::new(
                "sched.lost-events",
                Verdict::InTheWay,
                Confidence::Sure,
                format!(
                    "{} slices are doubtful because events were lost in them",
                    schedule.doubtful_slices
                ),
            )
            .attempt("record with a larger buffer (-b) or fewer events"),
        );
    }
    findings
}

fn of_check(cell: &str, check: &Check) -> Finding {
    let (verdict, confidence) = match check.decision {
        Decision::Met => (Verdict::Good, Confidence::Sure),
        Decision::Deviates => (Verdict::Note, Confidence::Sure),
        Decision::CannotTell => (Verdict::CannotTell, Confidence::CannotTell),
    };
    let claim = match check.decision {
        Decision::Met => format!("{}: {}", check.statement, check.measured),
        Decision::Deviates => format!("{}: not here, {}", check.statement, check.how),
        Decision::CannotTell => format!("{}: cannot be told, {}", check.statement, check.how),
    };
    let cell = if cell.is_empty() { String::new() } else { format!("{cell}.") };
    Finding::new(&format!("sched.{cell}{}", check.id), verdict, confidence, claim)
        .with(Evidence::new("expected", check.expected.clone()))
        .with(Evidence::new("measured", check.measured.clone()))
}
