//! The activations of a task: their parts as a table, and the distribution of response times.

use crate::doc::{Block, Column, Table};
use crate::messages;
use crate::plot::distribution::{self, Subject};
use latlab_model::latency::{Release, TaskActivations, WhyResult};
use latlab_model::record::Unit;
use latlab_model::units::format_ns;
use latlab_stats::histogram::Histogram;

/// Tasks of a table.
const TASKS: usize = 16;

/// The table of the explained task, and one line for each other.
pub fn tables(result: &WhyResult) -> Vec<Block> {
    let Some(first) = result.activations.first() else { return Vec::new() };
    let mut blocks = vec![Block::Table(parts(first))];
    if result.activations.len() > 1 {
        blocks.push(Block::Table(tasks(&result.activations)));
    }
    #[cfg(feature = "host")]
    blocks.extend(super::why_waits::blocks(result.waits.as_ref()));
    blocks
}

/// The distribution of response times and starts.
pub fn plots(result: &WhyResult) -> Vec<Block> {
    let Some(first) = result.activations.first().filter(|a| a.counts.activations > 0) else {
        return Vec::new();
    };
    let subject = Subject {
        id: "why-activations",
        title: "Activations",
        quantity: "time from the intended time",
        counted: "activations",
        unit: Unit::Ns,
    };
    let named = [
        ("start".to_owned(), &first.counts.start),
        ("end (response time)".to_owned(), &first.counts.response),
    ];
    vec![
        Block::Plot(Box::new(distribution::histogram(&subject, &named))),
        Block::Plot(Box::new(distribution::tail(&subject, &named))),
    ]
}

/// What is late, in words.
pub fn summary(result: &WhyResult) -> Vec<String> {
    let Some(a) = result.activations.first() else { return Vec::new() };
    let mut sentences = vec![format!("{}.", described(a))];
    let mut counts = Vec::new();
    if a.counts.overruns > 0 {
        counts.push(format!("{} due before the end of the one before", a.counts.overruns));
    }
    if a.beyond > 0 {
        counts.push(format!("{} counted and not kept one by one", a.beyond));
    }
    if a.counts.unsure > 0 {
        counts.push(format!("{} with a switch that the kernel did not record", a.counts.unsure));
    }
    if a.counts.skipped > 0 {
        counts.push(format!("{} periods without an activation", a.counts.skipped));
    }
    if !counts.is_empty() {
        sentences.push(format!("{}.", counts.join(", ")));
    }
    sentences.extend(cut(a));
    let reason = result.limit_reason.as_ref().map(messages::note).filter(|r| !r.is_empty());
    let reason = reason.map_or_else(String::new, |r| format!(" ({r})"));
    if a.deadline_ns == 0 && a.start_limit_ns == 0 {
        sentences.push(format!("No {} is called late{reason}.", noun(a)));
        return sentences;
    }
    let late = match a.start_limit_ns {
        0 => format!("took longer than {}", format_ns(a.deadline_ns as f64)),
        limit => format!("started later than {}", format_ns(limit as f64)),
    };
    let by = [
        (a.counts.late_by.started_late, "started late"),
        (a.counts.late_by.ran_long, "ran long"),
        (a.counts.late_by.preempted, "preempted"),
        (a.counts.late_by.waited, "waited inside"),
    ];
    let by: Vec<String> =
        by.iter().filter(|b| b.0 > 0).map(|(n, what)| format!("{n} {what}")).collect();
    let by = if by.is_empty() || a.start_limit_ns > 0 {
        String::new()
    } else {
        format!(": {}", by.join(", "))
    };
    sentences.push(format!(
        "{} of {} {}s {late}{reason}{by}.",
        a.counts.late,
        a.counts.activations,
        noun(a)
    ));
    let unexplained = result.explanation.unexplained_share;
    if unexplained >= 0.005 && a.counts.late > 0 {
        sentences.push(format!("Unexplained share of the lateness: {:.0} %.", unexplained * 100.0));
    }
    sentences
}

/// Activations that the ends of the recording cut.
fn cut(a: &TaskActivations) -> Option<String> {
    let s = if a.cut == 1 { "" } else { "s" };
    let late = match a.late_cut {
        0 => String::new(),
        1 => "; 1 of them was late by then and is counted with its age".to_owned(),
        n => format!("; {n} of them were late by then and are counted with their age"),
    };
    (a.cut > 0).then(|| format!("The end of {} {}{s} was not recorded{late}.", a.cut, noun(a)))
}

/// Name, thread, policy, and what begins an activation.
fn described(a: &TaskActivations) -> String {
    let policy = match a.prio {
        Some(p) if p < 0 => ", SCHED_DEADLINE".to_owned(),
        Some(p) if p < 100 => format!(", real-time priority {}", 99 - p),
        Some(_) => ", fair policy".to_owned(),
        None => String::new(),
    };
    let release = match &a.release {
        Release::Timer { function } => format!("begun by a timer ({function})"),
        Release::Task { waker } => format!("begun by {waker}"),
        Release::Wakeup => "begun by a wake-up".to_owned(),
        Release::Span { from, to } => format!("from {from} to {to}"),
    };
    let period = a.period.map_or_else(
        || "at no regular distance".to_owned(),
        |p| {
            let period = format_ns(p.median_ns as f64);
            match p.mad_ns {
                0 => format!("every {period}"),
                mad => format!("every {period} (median deviation {})", format_ns(mad as f64)),
            }
        },
    );
    let s = if a.counts.activations == 1 { "" } else { "s" };
    format!(
        "{} (thread {}{policy}): {} {}{s} {release}, {period}",
        a.task,
        a.tid,
        a.counts.activations,
        noun(a)
    )
}

/// What the task has, in singular.
fn noun(a: &TaskActivations) -> &'static str {
    match a.release {
        Release::Span { .. } => "span",
        _ => "activation",
    }
}

fn parts(a: &TaskActivations) -> Table {
    let row = |name: &str, h: &Histogram| {
        let at = |q: f64| h.quantile(q).map_or_else(|| "-".to_owned(), |ns| format_ns(ns as f64));
        vec![
            name.to_owned(),
            format_ns(h.min as f64),
            at(0.5),
            if h.count >= 1_000 { at(0.99) } else { "-".to_owned() },
            format_ns(h.max as f64),
        ]
    };
    Table {
        caption: format!("Activations of {}", a.task),
        columns: vec![
            Column::left("part"),
            Column::right("min"),
            Column::right("median"),
            Column::right("99 %"),
            Column::right("max"),
        ],
        rows: vec![
            row("start after the intended time", &a.counts.start),
            row("running, with interrupts", &a.counts.running),
            row("preempted", &a.counts.preempted),
            row("waiting inside", &a.counts.waiting),
            row("response time", &a.counts.response),
        ],
    }
}

fn tasks(all: &[TaskActivations]) -> Table {
    let has_limit = |a: &TaskActivations| a.deadline_ns > 0 || a.start_limit_ns > 0;
    let row = |a: &TaskActivations| {
        vec![
            a.task.clone(),
            a.tid.to_string(),
            a.counts.activations.to_string(),
            if has_limit(a) { a.counts.late.to_string() } else { "-".to_owned() },
            a.period.map_or_else(|| "-".to_owned(), |p| format_ns(p.median_ns as f64)),
            a.counts.start.quantile(0.5).map_or_else(|| "-".to_owned(), |ns| format_ns(ns as f64)),
            a.counts
                .response
                .quantile(0.5)
                .map_or_else(|| "-".to_owned(), |ns| format_ns(ns as f64)),
            format_ns(a.counts.response.max as f64),
        ]
    };
    let beyond = all.len().saturating_sub(TASKS);
    let more = if beyond > 0 { format!(" ({beyond} more are in run.json)") } else { String::new() };
    Table {
        caption: format!("Threads; the first one is explained{more}"),
        columns: vec![
            Column::left("task"),
            Column::right("thread"),
            Column::right("activations"),
            Column::right("late"),
            Column::right("period"),
            Column::right("start, median"),
            Column::right("response, median"),
            Column::right("response, max"),
        ],
        rows: all.iter().take(TASKS).map(row).collect(),
    }
}
