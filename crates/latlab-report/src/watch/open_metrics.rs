//! Text of OpenMetrics 1.0 (<https://openmetrics.io>): families with type, unit and help, samples, `# EOF`.
//!
//! Histograms have fixed bounds, 1, 2 and 5 of each decade from 1 µs to 10 s, so that those of several hosts add
//! up. Counts are since the start of the service.

use latlab_model::latency::ActivationCounts;
use latlab_model::watch::{Counters, Level, Slice, Status};
use latlab_stats::histogram::Histogram;
use std::fmt::Write;

/// The content type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds of the buckets, ns.
const DECADES: [u64; 7] =
    [1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

type Count = (&'static str, &'static str, fn(&ActivationCounts) -> u64);

const COUNTS: [Count; 4] = [
    ("activations", "Activations of the task.", |t| t.activations),
    ("overruns", "Activations that were due before the end of the one before.", |t| t.overruns),
    ("skipped_periods", "Multiples of the period in which no activation began.", |t| t.skipped),
    ("unsure_activations", "Activations of which the kernel did not record a switch.", |t| {
        t.unsure
    }),
];

type Distribution = (&'static str, &'static str, fn(&ActivationCounts) -> &Histogram);

const DISTRIBUTIONS: [Distribution; 5] = [
    ("start_latency", "From the intended time to the first switch to the task.", |t| &t.start),
    ("response", "From the intended time to the end of the activation.", |t| &t.response),
    ("running", "Time with a CPU in an activation, interrupts included.", |t| &t.running),
    ("preempted", "Time runnable without a CPU after the start.", |t| &t.preempted),
    ("waiting", "Time waiting after the start.", |t| &t.waiting),
];

type Counter = (&'static str, &'static str, fn(&Counters) -> u64);

const COUNTERS: [Counter; 9] = [
    ("events", "Events that the kernel recorded for the watch.", |c| c.events),
    ("lost_events", "Events of the watched tasks that were lost.", |c| c.lost_events),
    ("captures_kept", "Captures that were kept.", |c| c.captures),
    ("captures_missed", "Late activations of which no capture was taken.", |c| c.not_captured),
    ("captures_removed", "Captures that were removed to keep the limits.", |c| c.removed),
    ("write_errors", "Writes that failed.", |c| c.write_errors),
    ("suspensions", "Times that the machine was suspended.", |c| c.suspensions),
    ("clock_steps", "Steps of the wall clock above half a second.", |c| c.clock_steps),
    ("disturbances", "Times that others stopped or removed the trace buffer.", |c| c.disturbed),
];

type Seconds = (&'static str, &'static str, fn(&Counters) -> u64);

const SECONDS: [Seconds; 4] = [
    ("own_cpu", "CPU time of the watch.", |c| c.own_cpu_ns),
    ("recording_cpu", "CPU time of the kernel's recording, estimated.", |c| c.kernel_ns),
    ("dead", "Time in which no capture could be taken.", |c| c.dead_ns),
    ("suspended", "Time that the machine was suspended.", |c| c.suspended_ns),
];

/// The metrics of a running watch.
pub fn text(status: &Status) -> String {
    let mut out = String::new();
    let total = &status.total;
    for (name, help, of) in COUNTS {
        family(&mut out, name, "counter", None, help);
        for task in &total.tasks {
            sample(
                &mut out,
                &format!("latlab_{name}_total"),
                &[("task", &task.task)],
                of(&task.counts),
            );
        }
    }
    late(&mut out, total);
    for (name, help, of) in DISTRIBUTIONS {
        let family_name = format!("{name}_seconds");
        family(&mut out, &family_name, "histogram", Some("seconds"), help);
        for task in &total.tasks {
            histogram(&mut out, &format!("latlab_{family_name}"), &task.task, of(&task.counts));
        }
    }
    let help = "Captures by their main part: what took the time of the late activation.";
    family(&mut out, "captures", "counter", None, help);
    for c in &total.causes {
        let labels = [("task", &*c.task), ("cause", &c.cause), ("who", &c.who)];
        sample(&mut out, "latlab_captures_total", &labels, c.captures);
    }
    for (name, help, of) in COUNTERS {
        family(&mut out, name, "counter", None, help);
        sample(&mut out, &format!("latlab_{name}_total"), &[], of(&total.counters));
    }
    for (name, help, of) in SECONDS {
        let name = format!("{name}_seconds");
        family(&mut out, &name, "counter", Some("seconds"), help);
        sample(&mut out, &format!("latlab_{name}_total"), &[], seconds(of(&total.counters)));
    }
    gauges(&mut out, status);
    out.push_str("# EOF\n");
    out
}

fn late(out: &mut String, total: &Slice) {
    let help = "Late activations by the part that is longest against its median.";
    family(out, "late", "counter", None, help);
    for task in &total.tasks {
        let by = task.counts.late_by;
        let parts = [
            ("started_late", by.started_late),
            ("ran_long", by.ran_long),
            ("preempted", by.preempted),
            ("waited", by.waited),
        ];
        for (part, n) in parts {
            sample(out, "latlab_late_total", &[("task", &task.task), ("by", part)], n);
        }
    }
}

fn gauges(out: &mut String, status: &Status) {
    family(out, "threads", "gauge", None, "Threads that a task names now.");
    for t in &status.tasks {
        sample(out, "latlab_threads", &[("task", &t.task)], t.threads);
    }
    family(out, "deadline_seconds", "gauge", Some("seconds"), "A longer activation is late.");
    for t in status.tasks.iter().filter(|t| t.deadline_ns > 0) {
        sample(out, "latlab_deadline_seconds", &[("task", &t.task)], seconds(t.deadline_ns));
    }
    let help = "Since the intended time, of the oldest activation that is late and has not ended.";
    family(out, "overdue_seconds", "gauge", Some("seconds"), help);
    for t in &status.tasks {
        sample(out, "latlab_overdue_seconds", &[("task", &t.task)], seconds(t.overdue_ns));
    }
    let level = match status.level {
        Level::All => 3,
        Level::Interrupts => 2,
        Level::Scheduler => 1,
        Level::Off => 0,
    };
    let help =
        "What is recorded for captures: 3 all, 2 no locks and work items, 1 scheduler, 0 nothing.";
    family(out, "recording_level", "gauge", None, help);
    sample(out, "latlab_recording_level", &[], level);
    let share = status.own_share + status.kernel_share;
    let ratios = [
        ("budget_ratio", "Share of one CPU that the watch may take.", status.budget),
        ("overhead_ratio", "Share of one CPU that it takes, recording included.", share),
    ];
    for (name, help, value) in ratios {
        family(out, name, "gauge", Some("ratio"), help);
        sample(out, &format!("latlab_{name}"), &[], value);
    }
    family(out, "captures_size_bytes", "gauge", Some("bytes"), "Captures on disk.");
    sample(out, "latlab_captures_size_bytes", &[], status.disk_bytes);
}

fn family(out: &mut String, name: &str, kind: &str, unit: Option<&str>, help: &str) {
    let _ = writeln!(out, "# TYPE latlab_{name} {kind}");
    if let Some(unit) = unit {
        let _ = writeln!(out, "# UNIT latlab_{name} {unit}");
    }
    let _ = writeln!(out, "# HELP latlab_{name} {}", escaped(help));
}

fn sample(out: &mut String, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
    out.push_str(name);
    if !labels.is_empty() {
        let pair = |(key, value): &(&str, &str)| format!("{key}=\"{}\"", escaped(value));
        let pairs: Vec<String> = labels.iter().map(pair).collect();
        let _ = write!(out, "{{{}}}", pairs.join(","));
    }
    let _ = writeln!(out, " {value}");
}

fn histogram(out: &mut String, name: &str, task: &str, of: &Histogram) {
    let bucket = format!("{name}_bucket");
    for ns in DECADES.into_iter().flat_map(|d| [d, 2 * d, 5 * d]) {
        let le = format!("{:?}", ns as f64 / 1e9);
        let below = of.count.saturating_sub(of.count_above(ns));
        sample(out, &bucket, &[("task", task), ("le", &le)], below);
    }
    sample(out, &bucket, &[("task", task), ("le", "+Inf")], of.count);
    sample(out, &format!("{name}_count"), &[("task", task)], of.count);
    sample(out, &format!("{name}_sum"), &[("task", task)], of.sum / 1e9);
}

/// In decimals, exact.
fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// Names of tasks may have any byte but zero.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::latency::LateBy;
    use latlab_model::watch::{CauseCount, TaskCounts, TaskStatus};

    fn status() -> Status {
        let task = "loop \"a\"\\\n".to_owned();
        let response = Histogram::of([500, 1_500, 3_000_000, 20_000_000_000]);
        let late_by = LateBy { waited: 2, ..LateBy::default() };
        let counts = ActivationCounts {
            activations: 4,
            late: 2,
            late_by,
            response,
            ..ActivationCounts::default()
        };
        let cause = CauseCount {
            task: task.clone(),
            cause: "wait".into(),
            who: "helper".into(),
            captures: 2,
        };
        Status {
            tasks: vec![TaskStatus {
                task: task.clone(),
                deadline_ns: 1_000_000,
                ..TaskStatus::default()
            }],
            total: Slice {
                tasks: vec![TaskCounts { task: task.clone(), counts }],
                causes: vec![cause],
                counters: Counters { own_cpu_ns: 1_500_000_001, ..Counters::default() },
                ..Slice::default()
            },
            ..Status::default()
        }
    }

    #[test]
    fn buckets_are_cumulative_and_names_are_escaped() {
        let text = text(&status());
        let task = "task=\"loop \\\"a\\\"\\\\\\n\"";
        let bucket = |le: &str, n: u64| {
            let line = format!("latlab_response_seconds_bucket{{{task},le=\"{le}\"}} {n}\n");
            assert!(text.contains(&line), "{line}{text}");
        };
        bucket("1e-6", 1);
        bucket("2e-6", 2);
        bucket("0.002", 2);
        bucket("0.005", 3);
        bucket("5.0", 3);
        bucket("+Inf", 4);
        for line in [
            format!("latlab_late_total{{{task},by=\"waited\"}} 2\n"),
            format!("latlab_captures_total{{{task},cause=\"wait\",who=\"helper\"}} 2\n"),
            "latlab_own_cpu_seconds_total 1.500000001\n".to_owned(),
            format!("latlab_deadline_seconds{{{task}}} 0.001000000\n"),
        ] {
            assert!(text.contains(&line), "{line}{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn each_family_is_told_once() {
        let text = text(&status());
        let mut families: Vec<&str> = text.lines().filter(|l| l.starts_with("# TYPE")).collect();
        let count = families.len();
        families.sort_unstable();
        families.dedup();
        assert_eq!(families.len(), count);
    }
}
