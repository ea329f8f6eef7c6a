//! The state of a watch on one screen.

use crate::doc::{Block, Column, Doc, Section, Table};
use crate::values::{counted, grouped};
use latlab_model::latency::{ActivationCounts, Release};
use latlab_model::units::format_ns;
use latlab_model::watch::{CaptureEntry, Level, Slice, Status, TaskCounts, TaskStatus};
use latlab_stats::histogram::Histogram;

/// Rows of a table on one screen.
const ROWS: usize = 4;

/// What is recorded for captures, in words.
pub fn level(level: Level) -> &'static str {
    match level {
        Level::All => "scheduler, timers, interrupts, softirqs, work items and locks",
        Level::Interrupts => "scheduler, timers, interrupts and softirqs",
        Level::Scheduler => "scheduler and high-resolution timers",
        Level::Off => "nothing: late activations are counted, and no capture is taken",
    }
}

/// The state as a document. `details`: all rows.
pub fn doc(status: &Status, details: bool) -> Doc {
    let rows = if details { usize::MAX } else { ROWS };
    let mut blocks = vec![Block::Table(tasks(status))];
    let all = status.total.tasks.iter();
    // A span begins when it is due.
    let is_span = |t: &&TaskCounts| {
        let own = status.tasks.iter().find(|own| own.task == t.task);
        own.is_some_and(|own| matches!(own.release, Some(Release::Span { .. })))
    };
    let tasks: Vec<&TaskCounts> = all.clone().filter(|t| !is_span(t)).collect();
    blocks.push(Block::Table(times("Response time, since the start", all, |t| &t.response)));
    if !tasks.is_empty() {
        let caption = "Start after the intended time";
        blocks.push(Block::Table(times(caption, tasks.into_iter(), |t| &t.start)));
    }
    if !status.total.causes.is_empty() {
        blocks.push(Block::Table(causes(&status.total, rows)));
    }
    if !status.captures.is_empty() {
        blocks.push(Block::Table(captures(&status.captures, rows)));
    }
    let sections = vec![Section { id: "watch".into(), title: String::new(), blocks }];
    let title = format!("watch, process {}, since {}", status.pid, status.started);
    Doc { title, summary: summary(status), sections, ..Doc::default() }
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

fn summary(status: &Status) -> Vec<String> {
    let c = &status.total.counters;
    let mut lines = vec![
        format!(
            "Overhead: {} of one CPU ({} own, {} recording, estimated); budget {}.",
            percent(status.own_share + status.kernel_share),
            percent(status.own_share),
            percent(status.kernel_share),
            percent(status.budget),
        ),
        format!("Recorded for captures: {}.", level(status.level)),
        format!(
            "{} in {}, {} of at most {}.",
            counted(status.captures.len(), "capture"),
            status.dir,
            mebibytes(status.disk_bytes),
            mebibytes(status.disk_limit),
        ),
    ];
    let overdue = status.tasks.iter().filter(|t| t.overdue_ns > 0);
    lines.extend(overdue.map(|t| {
        let age = format_ns(t.overdue_ns as f64);
        format!("{}: an activation is late and has not ended after {age}.", t.task)
    }));
    let notes = [
        (c.lost_events, "event", " of the watched tasks lost"),
        (c.not_captured, "late activation", " without a capture"),
        (c.uncovered, "late activation", " from before the ring buffer"),
        (c.disturbed, "disturbance", " of the trace buffer by others"),
        (c.suspensions, "suspension", " of the machine"),
        (c.clock_steps, "step", " of the wall clock"),
        (c.write_errors, "failed write", ""),
    ];
    let there: Vec<String> = (notes.into_iter().filter(|n| n.0 > 0))
        .map(|(n, one, what)| format!("{}{what}", counted(n as usize, one)))
        .collect();
    if !there.is_empty() {
        lines.push(format!("Since the start: {}.", there.join(", ")));
    }
    if let Some(error) = &status.write_error {
        lines.push(format!("Counts are kept in memory: {error}"));
    }
    lines
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn of<'s>(slice: &'s Slice, task: &str) -> Option<&'s ActivationCounts> {
    slice.tasks.iter().find(|t| t.task == task).map(|t| &t.counts)
}

fn tasks(status: &Status) -> Table {
    let count = |slice, task: &str, of_counts: fn(&ActivationCounts) -> u64| {
        of(slice, task).map_or(0, of_counts)
    };
    let row = |t: &TaskStatus| {
        let total = &status.total;
        vec![
            t.task.clone(),
            threads(t),
            begun(t),
            limit(t),
            grouped(count(total, &t.task, |c| c.activations)),
            grouped(count(total, &t.task, |c| c.late)),
            grouped(count(&status.hour, &t.task, |c| c.late)),
            grouped(count(total, &t.task, |c| c.overruns)),
        ]
    };
    Table {
        caption: "Tasks".into(),
        columns: vec![
            Column::left("task"),
            Column::right("threads"),
            Column::left("activations begin"),
            Column::left("late above"),
            Column::right("activations"),
            Column::right("late"),
            Column::right("this hour"),
            Column::right("overruns"),
        ],
        rows: status.tasks.iter().map(row).collect(),
    }
}

/// Spans may be those of all threads, whose number is not known.
fn threads(task: &TaskStatus) -> String {
    match (task.threads, &task.release) {
        (0, Some(Release::Span { .. })) => "–".to_owned(),
        (n, _) => n.to_string(),
    }
}

fn begun(task: &TaskStatus) -> String {
    let every = task.period.map(|p| format!(", every {}", format_ns(p.median_ns as f64)));
    let by = match &task.release {
        Some(Release::Timer { .. }) => "by a timer".to_owned(),
        Some(Release::Task { waker }) => format!("by {waker}"),
        Some(Release::Wakeup) => "when woken".to_owned(),
        Some(Release::Span { from, .. }) => format!("by {from}"),
        None if task.threads == 0 => return "not running".to_owned(),
        None => return "not known yet".to_owned(),
    };
    by + &every.unwrap_or_default()
}

fn limit(task: &TaskStatus) -> String {
    match (task.start_limit_ns, task.deadline_ns) {
        (0, 0) => "–".to_owned(),
        (0, ns) if task.deadline_is_period => format!("{} (period)", format_ns(ns as f64)),
        (0, ns) => format_ns(ns as f64),
        (ns, _) => format!("{} (start)", format_ns(ns as f64)),
    }
}

fn times<'s>(
    caption: &str,
    tasks: impl Iterator<Item = &'s TaskCounts>,
    of_task: fn(&ActivationCounts) -> &Histogram,
) -> Table {
    let row = |t: &TaskCounts| {
        let h = of_task(&t.counts);
        let at = |q: f64| h.quantile(q).map_or("–".to_owned(), |ns| format_ns(ns as f64));
        let longest = if h.count > 0 { format_ns(h.max as f64) } else { "–".to_owned() };
        vec![t.task.clone(), at(0.5), at(0.99), at(0.999), longest]
    };
    let heads = ["median", "99 %", "99.9 %", "max"].map(Column::right);
    Table {
        caption: caption.into(),
        columns: std::iter::once(Column::left("task")).chain(heads).collect(),
        rows: tasks.map(row).collect(),
    }
}

fn causes(slice: &Slice, rows: usize) -> Table {
    let mut all: Vec<_> = slice.causes.iter().collect();
    all.sort_by_key(|c| std::cmp::Reverse(c.captures));
    let row = |c: &&latlab_model::watch::CauseCount| {
        vec![c.task.clone(), c.cause.clone(), c.who.clone(), grouped(c.captures)]
    };
    Table {
        caption: "What took the time of captured activations".into(),
        columns: vec![
            Column::left("task"),
            Column::left("main part"),
            Column::left("who"),
            Column::right("captures"),
        ],
        rows: all.iter().take(rows).map(row).collect(),
    }
}

fn captures(captures: &[CaptureEntry], rows: usize) -> Table {
    let row = |c: &CaptureEntry| vec![format_ns(c.judged_ns as f64), c.file.clone()];
    Table {
        caption: "Latest captures".into(),
        columns: vec![Column::right("took"), Column::whole("file")],
        rows: captures.iter().take(rows).map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_absent_tasks_are_told() {
        let task = TaskStatus {
            deadline_ns: 1_000_000,
            deadline_is_period: true,
            ..TaskStatus::default()
        };
        assert_eq!(limit(&task), "1.00 ms (period)");
        assert_eq!(begun(&task), "not running");
        let task = TaskStatus { start_limit_ns: 50_000, ..task };
        assert_eq!(limit(&task), "50.0 µs (start)");
    }

    /// Nobody knows how many threads may end a span, and none starts late.
    #[test]
    fn a_span_has_a_length_alone() {
        let release = Some(Release::Span { from: "syscall:read".into(), to: "sysret:read".into() });
        let counts = TaskCounts { task: "read".into(), ..TaskCounts::default() };
        let mut status = Status {
            tasks: vec![TaskStatus { task: "read".into(), release, ..TaskStatus::default() }],
            total: Slice { tasks: vec![counts], ..Slice::default() },
            ..Status::default()
        };
        let captions = |status: &Status| -> Vec<String> {
            let blocks = doc(status, false).sections.remove(0).blocks;
            let caption = |b| if let Block::Table(t) = b { t.caption } else { String::new() };
            blocks.into_iter().map(caption).collect()
        };
        assert_eq!(captions(&status), ["Tasks", "Response time, since the start"]);
        let row = &tasks(&status).rows[0];
        assert_eq!(row[..3], ["read", "–", "by syscall:read"]);
        status.tasks[0].release = None;
        assert_eq!(captions(&status).len(), 3);
    }

    #[test]
    fn an_activation_that_has_not_ended_is_told() {
        let task = |task: &str, overdue_ns| TaskStatus {
            task: task.into(),
            overdue_ns,
            ..TaskStatus::default()
        };
        let tasks = vec![task("loop", 2_500_000_000), task("other", 0)];
        let lines = summary(&Status { tasks, ..Status::default() });
        let told: Vec<&String> = lines.iter().filter(|l| l.contains("has not ended")).collect();
        assert_eq!(told, ["loop: an activation is late and has not ended after 2.50 s."]);
    }

    #[test]
    fn the_first_screen_has_few_rows() {
        let entry = |i: u64| CaptureEntry {
            file: format!("{i}.dat"),
            judged_ns: i,
            ..CaptureEntry::default()
        };
        let status = Status { captures: (0..100).map(entry).collect(), ..Status::default() };
        let rows = |details| match doc(&status, details).sections[0].blocks.last() {
            Some(Block::Table(t)) => t.rows.len(),
            _ => 0,
        };
        assert_eq!((rows(false), rows(true)), (ROWS, 100));
    }
}
