//! Scheduling: expectations, length of slices, timeline, CPU shares, tables.

mod plots;

use crate::doc::{Block, Column, Doc, Plot, Section, Table};
use crate::messages;
use crate::plot::scale::format_number;
#[cfg(feature = "host")]
use crate::values::grouped;
use latlab_model::finding::{Finding, Note, Value};
use latlab_model::run::{Detail, Part, Run};
use latlab_model::sched::expectation::{Decision, Expectation};
use latlab_model::sched::schedule::SchedDetail;
use latlab_model::sched::schedule::{Durations, InversionKind, Schedule, TaskLine, Totals};
use latlab_model::units::format_ns;

/// Tasks in a plot.
const DRAWN: usize = 8;
/// Rows of a table.
const ROWS: usize = 40;

/// The sections of a `sched` part.
pub fn sections(part: &Part, detail: &SchedDetail) -> Vec<Section> {
    let schedule = &detail.schedule;
    let mut blocks = Vec::new();
    if !part.complete {
        blocks.push(Block::Warning("Interrupted; the results cover the time until then.".into()));
    }
    blocks.extend(schedule.notes.iter().map(|n| Block::Warning(messages::note(n))));
    if let Some(cell) = &detail.cell {
        blocks.extend(cell.notes.iter().map(|n| Block::Text(messages::note(n))));
    }
    if !detail.expectations.is_empty() {
        blocks.push(Block::Table(expectations(&detail.expectations)));
    }
    let findings = findings(part, detail);
    if !findings.is_empty() {
        blocks.push(Block::Findings(findings));
    }
    blocks.push(Block::Table(tasks(detail)));
    blocks.extend(bursts(&schedule.tasks).map(Block::Table));
    let drawn = drawn(detail);
    if !schedule.slices.is_empty() {
        blocks.extend([
            plot(plots::timeline(part, schedule, &drawn)),
            plot(plots::slices(part, schedule, &drawn)),
            plot(plots::shares(part, schedule, &drawn)),
            plot(plots::lengths(part, schedule, &drawn)),
        ]);
        if schedule.more_slices > 0 {
            blocks.push(Block::Text(format!(
                "The plots show the first {} slices; the tables include {} more.",
                schedule.slices.len(),
                schedule.more_slices
            )));
        }
    }
    blocks.extend(rest(detail));
    vec![Section { id: part.name.clone(), title: part.title.clone(), blocks }]
}

/// The first screen: expectations, where there are any, and tasks.
pub fn screen(detail: &SchedDetail) -> Vec<Block> {
    let expected =
        (!detail.expectations.is_empty()).then(|| Block::Table(expectations(&detail.expectations)));
    expected.into_iter().chain([Block::Table(tasks(detail))]).collect()
}

/// The expectations of all experiments of a run, counted.
pub fn line(run: &Run) -> Option<String> {
    let doc = matrix(run);
    run.parts
        .iter()
        .any(|p| p.name.starts_with("sched"))
        .then(|| doc.summary.concat().trim_end_matches('.').to_owned())
}

/// How long tasks compute between two sleeps, and how long they sleep.
fn bursts(tasks: &[TaskLine]) -> Option<Table> {
    let row = |t: &TaskLine| {
        let three = |d: &Totals| {
            let shown = |ns: f64| if d.count == 0 { "-".to_owned() } else { format_ns(ns) };
            [d.count.to_string(), shown(d.mean_ns()), shown(d.max_ns as f64)]
        };
        let parts = [&t.bursts, &t.sleeps, &t.blocked].map(three);
        std::iter::once(t.label()).chain(parts.into_iter().flatten()).collect()
    };
    let rows: Vec<Vec<String>> =
        tasks.iter().filter(|t| t.bursts.count > 0).take(ROWS).map(row).collect();
    let heads = [
        "CPU bursts",
        "mean",
        "longest",
        "sleeps",
        "mean",
        "longest",
        "uninterruptible",
        "mean",
        "longest",
    ];
    let columns = std::iter::once(Column::whole("task")).chain(heads.map(Column::right)).collect();
    (!rows.is_empty()).then(|| Table {
        caption:
            "CPU bursts (run time from a wake-up to the next sleep) and sleeps (to the wake-up)"
                .into(),
        columns,
        rows,
    })
}

fn plot(plot: Plot) -> Block {
    Block::Plot(Box::new(plot))
}

/// The result in words.
pub fn summary(part: &Part, detail: &SchedDetail) -> Vec<String> {
    if detail.cell.is_none() {
        let s = &detail.schedule;
        let mut words = vec![format!(
            "{} switches among {} tasks in {} on {} CPUs.",
            s.switches,
            (s.tasks.len() as u64).saturating_add(s.more_tasks),
            format_ns(s.length_ns as f64),
            s.cpus.len()
        )];
        let worst = s.tasks.iter().max_by_key(|t| t.delay.max_ns).filter(|t| t.delay.count > 0);
        words.extend(worst.map(|t| {
            format!(
                "Longest wait for a CPU: {}, {} at {} s.",
                t.label(),
                format_ns(t.delay.max_ns as f64),
                seconds(s.first_ns.saturating_add(t.delay.max_at_ns))
            )
        }));
        return words;
    }
    let count = |d: Decision| detail.expectations.iter().filter(|e| e.decision == d).count();
    let (met, off, open) =
        (count(Decision::Met), count(Decision::Deviates), count(Decision::Inconclusive));
    let mut words =
        format!("{}: {met} of {} expectations met", part.title, detail.expectations.len());
    if off > 0 {
        words += &format!(", {off} not met");
    }
    if open > 0 {
        words += &format!(", {open} inconclusive");
    }
    let mut all = vec![words + "."];
    for e in detail.expectations.iter().filter(|e| e.decision == Decision::Deviates) {
        all.push(format!(
            "{}: expected {}, measured {}: {}.",
            name(e),
            words_of(e.expected.as_ref()),
            words_of(e.measured.as_ref()),
            words_of(e.deviation.as_ref())
        ));
    }
    all
}

/// The findings without those that a run of schema version 1 repeats from its expectations.
fn findings(part: &Part, detail: &SchedDetail) -> Vec<Finding> {
    let cell = detail.cell.as_ref().map_or("", |c| c.name.as_str());
    let repeated: Vec<String> = (detail.expectations.iter())
        .filter(|e| !e.statement.is_empty())
        .map(|e| {
            if cell.is_empty() {
                ["sched.", &e.id].concat()
            } else {
                ["sched.", cell, ".", &e.id].concat()
            }
        })
        .collect();
    part.findings.iter().filter(|f| !repeated.contains(&f.id)).cloned().collect()
}

fn words_of(note: Option<&Note>) -> String {
    note.map_or_else(String::new, messages::note)
}

/// The identifier, with the task where the expectation is of one.
fn name(e: &Expectation) -> String {
    e.task.as_ref().map_or_else(|| e.id.clone(), |task| format!("{} ({task})", e.id))
}

/// The statement of theory, with the task where the expectation is of one.
fn statement(e: &Expectation) -> String {
    let text = if e.statement.is_empty() {
        messages::note(&Note::new(&["sched.", &e.id].concat()))
    } else {
        e.statement.clone()
    };
    e.task.as_ref().map_or_else(|| text.clone(), |task| format!("{text} ({task})"))
}

fn decision(e: &Expectation) -> String {
    let why = words_of(e.deviation.as_ref());
    let word = match e.decision {
        Decision::Met => "as expected",
        Decision::Deviates => "deviates",
        Decision::Inconclusive => "inconclusive",
    };
    if why.is_empty() { word.to_owned() } else { format!("{word}: {why}") }
}

/// Seconds of the trace's clock, as `perf` and `latlab report` print them.
fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1000)
}

fn expectations(all: &[Expectation]) -> Table {
    let row = |e: &Expectation| {
        let (expected, measured) = (words_of(e.expected.as_ref()), words_of(e.measured.as_ref()));
        vec![statement(e), expected, measured, decision(e)]
    };
    Table {
        caption: "Expected and measured".into(),
        columns: vec![
            Column::left("expectation"),
            Column::left("expected"),
            Column::left("measured"),
            Column::left("result"),
        ],
        rows: all.iter().map(row).collect(),
    }
}

/// The tasks that are drawn: the experiment's, or those that ran longest.
fn drawn(detail: &SchedDetail) -> Vec<(i32, String)> {
    match &detail.cell {
        Some(cell) => {
            cell.tasks.iter().map(|t| (t.tid, format!("{}: {}", t.name, t.label()))).collect()
        }
        None => detail.schedule.tasks.iter().take(DRAWN).map(|t| (t.tid, t.label())).collect(),
    }
}

/// Run time, waits and their maximum with its time: the table of `perf sched latency`.
fn tasks(detail: &SchedDetail) -> Table {
    let s = &detail.schedule;
    let charged = s.tasks.iter().any(|t| t.charged_ns.is_some());
    let mut columns = vec![
        Column::whole("task"),
        Column::right("prio").optional(2),
        Column::right("run time"),
        Column::right("share"),
        Column::right("slices").optional(3),
        Column::right("median").optional(3),
        Column::right("longest").optional(3),
        Column::right("waits").optional(3),
        Column::right("mean wait").optional(4),
        Column::right("longest"),
        Column::right("at (s)").optional(6),
        Column::right("wake-up, p99").optional(1),
        Column::left("end of slices").optional(7),
        Column::right("migrations").optional(5),
    ];
    if charged {
        columns.insert(3, Column::right("charged").optional(2));
    }
    let row = |t: &TaskLine| {
        let ns = |n: u64| format_ns(n as f64);
        let some = |d: &Durations, text: String| if d.count > 0 { text } else { String::new() };
        let name = t.was.as_ref().map_or_else(|| t.label(), |w| format!("{} (was {w})", t.label()));
        let mut cells = vec![
            name,
            t.prio.to_string(),
            ns(t.run_ns),
            format!("{:.1} %", 100.0 * t.run_ns as f64 / s.length_ns.max(1) as f64),
            t.slices.count.to_string(),
            some(&t.slices, ns(t.slices.median_ns)),
            some(&t.slices, ns(t.slices.max_ns)),
            t.delay.count.to_string(),
            some(&t.delay, format_ns(t.delay.mean_ns())),
            some(&t.delay, ns(t.delay.max_ns)),
            some(&t.delay, seconds(s.first_ns + t.delay.max_at_ns)),
            some(&t.wakeup, ns(t.wakeup.p99_ns)),
            ends(t),
            t.migrations.to_string(),
        ];
        if charged {
            cells.insert(3, t.charged_ns.map_or(String::new(), ns));
        }
        cells
    };
    let rest = s.tasks.len().saturating_sub(ROWS) as u64 + s.more_tasks;
    let caption = match rest {
        0 => "Tasks by run time".to_owned(),
        n => format!("Tasks by run time; {n} more in JSON or summed up"),
    };
    Table { caption, columns, rows: s.tasks.iter().take(ROWS).map(row).collect() }
}

fn ends(t: &TaskLine) -> String {
    let e = &t.ends;
    let all = [
        (e.preempted, "preempted"),
        (e.slept, "slept"),
        (e.blocked, "blocked"),
        (e.yielded, "yielded"),
        (e.throttled, "throttled"),
        (e.exited, "exited"),
        (e.stopped, "stopped"),
        (e.lost, "lost"),
    ];
    let words: Vec<String> =
        all.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    words.join(", ")
}

/// Tables of a whole trace: CPUs, preemptions, fairness, inversions.
fn rest(detail: &SchedDetail) -> Vec<Block> {
    let s = &detail.schedule;
    let mut blocks = Vec::new();
    if detail.cell.is_none() {
        blocks.push(Block::Table(cpus(s)));
        if !s.pairs.is_empty() {
            blocks.push(Block::Table(pairs(s)));
        }
        if s.windows.len() > 1 {
            blocks.push(plot(plots::fairness(s)));
        }
    }
    if let Some(jain) = s.jain.filter(|_| detail.cell.is_none()) {
        blocks.push(Block::Text(format!(
            "Fairness of the fair tasks that shared a CPU: Jain's index {jain:.4} (1: shares match \
             the weights)."
        )));
        blocks.push(Block::Table(lags(s)));
    }
    #[cfg(feature = "host")]
    blocks.extend(vruntime(s));
    if !s.inversions.is_empty() {
        blocks.push(Block::Table(inversions(s)));
    }
    blocks
}

fn cpus(s: &Schedule) -> Table {
    let share = |ns: u64| format!("{:.1} %", 100.0 * ns as f64 / s.length_ns.max(1) as f64);
    let rows = s.cpus.iter().map(|c| {
        let lost =
            if c.holes > 0 { format!("{} in {} places", c.lost, c.holes) } else { "0".into() };
        vec![
            c.cpu.to_string(),
            share(c.busy_ns),
            share(c.idle_ns),
            share(c.unknown_ns),
            c.switches.to_string(),
            lost,
        ]
    });
    Table {
        caption: "CPUs".into(),
        columns: vec![
            Column::right("CPU"),
            Column::right("busy"),
            Column::right("idle"),
            Column::right("unknown"),
            Column::right("switches"),
            Column::right("lost events"),
        ],
        rows: rows.collect(),
    }
}

fn pairs(s: &Schedule) -> Table {
    let rows = s.pairs.iter().take(15).map(|p| {
        vec![
            format!("{}:{}", p.by_name, p.by),
            format!("{}:{}", p.of_name, p.of),
            p.times.to_string(),
        ]
    });
    Table {
        caption: "Who preempts whom, most frequent first".into(),
        columns: vec![
            Column::left("gets the CPU"),
            Column::left("loses it"),
            Column::right("times"),
        ],
        rows: rows.collect(),
    }
}

fn lags(s: &Schedule) -> Table {
    let concerned = s.tasks.iter().filter(|t| t.ideal_ns >= s.length_ns.div_ceil(100));
    let rows = concerned.take(15).map(|t| {
        vec![
            t.label(),
            format_ns(t.fair_ns as f64),
            format_ns(t.ideal_ns as f64),
            format_number(t.fair_ns as f64 / t.ideal_ns.max(1) as f64),
            format_ns(t.lag_max_ns as f64),
            format_ns(-(t.lag_min_ns as f64)),
        ]
    });
    Table {
        caption: "Received and ideal service while runnable".into(),
        columns: vec![
            Column::whole("task"),
            Column::right("received"),
            Column::right("ideal"),
            Column::right("ratio"),
            Column::right("furthest behind"),
            Column::right("furthest ahead"),
        ],
        rows: rows.collect(),
    }
}

/// Virtual run time of CFS, where the kernel tells it. A board leaves it to the report that the host makes of its run.
#[cfg(feature = "host")]
fn vruntime(s: &Schedule) -> Vec<Block> {
    let mut blocks = Vec::new();
    if let Some(c) = s.vruntime {
        blocks.push(Block::Text(format!(
            "Of {} switches between fair tasks whose virtual run time is known, {} are to the task with the smallest \
             ({:.1} %).",
            grouped(c.choices),
            grouped(c.smallest),
            100.0 * c.smallest as f64 / c.choices.max(1) as f64
        )));
    }
    let told = s.tasks.iter().filter_map(|t| t.vruntime.map(|v| (t, v)));
    let rows: Vec<_> = told
        .take(15)
        .map(|(t, v)| {
            vec![
                t.label(),
                v.weight.to_string(),
                format_ns(v.charged_ns as f64),
                format_ns(v.gained_ns as f64),
                format_number(v.gained_ns as f64 / v.charged_ns.max(1) as f64),
                format_number(1024.0 / v.weight.max(1) as f64),
            ]
        })
        .collect();
    if !rows.is_empty() {
        blocks.push(Block::Table(Table {
            caption: "Virtual run time (vruntime) while runnable".into(),
            columns: vec![
                Column::whole("task"),
                Column::right("weight"),
                Column::right("run time"),
                Column::right("virtual run time"),
                Column::right("ratio"),
                Column::right("1024 / weight"),
            ],
            rows,
        }));
    }
    blocks
}

fn inversions(s: &Schedule) -> Table {
    let rows = s.inversions.iter().take(15).map(|i| {
        vec![
            format!("{}:{} ({})", i.high_name, i.high, i.high_prio),
            format!("{}:{} ({})", i.low_name, i.low, i.low_prio),
            i.cpu.to_string(),
            seconds(s.first_ns + i.at_ns),
            format_ns(i.ns as f64),
            match i.kind {
                InversionKind::Ready => "ready while the other ran",
                InversionKind::Boosted => "blocked on its lock",
            }
            .to_owned(),
        ]
    });
    Table {
        caption: format!("Priority inversions, longest first ({} in total)", s.inversion_count),
        columns: vec![
            Column::left("waiting (priority)"),
            Column::left("running (priority)"),
            Column::right("CPU"),
            Column::right("at (s)"),
            Column::right("duration"),
            Column::left("kind"),
        ],
        rows: rows.collect(),
    }
}

/// Every expectation of every experiment, one line each: what a matrix prints.
pub fn matrix(run: &Run) -> Doc {
    let mut rows = Vec::new();
    let (mut met, mut off, mut open) = (0, 0, 0);
    let experiments = || run.parts.iter().filter(|p| p.name.starts_with("sched"));
    for part in experiments() {
        let Some(Detail::Sched(detail)) = &part.detail else {
            let name = part.name.strip_prefix("sched-").unwrap_or(&part.name).to_owned();
            rows.push(vec![name, "not run".into(), String::new(), String::new(), reason(part)]);
            open += 1;
            continue;
        };
        let cell = detail.cell.as_ref().map_or("", |c| c.name.as_str());
        for (n, e) in detail.expectations.iter().enumerate() {
            *match e.decision {
                Decision::Met => &mut met,
                Decision::Deviates => &mut off,
                Decision::Inconclusive => &mut open,
            } += 1;
            rows.push(vec![
                if n == 0 { cell.to_owned() } else { String::new() },
                name(e),
                words_of(e.expected.as_ref()),
                words_of(e.measured.as_ref()),
                decision(e),
            ]);
        }
    }
    let summary = format!(
        "{} experiments: {met} expectations met, {off} not met, {open} inconclusive.",
        experiments().count()
    );
    let table = Table {
        caption: "Expected and measured, each experiment".into(),
        columns: vec![
            Column::left("experiment"),
            Column::left("expectation"),
            Column::left("expected"),
            Column::left("measured"),
            Column::left("result"),
        ],
        rows,
    };
    let section = Section {
        id: "sched-matrix".into(),
        title: "Scheduling experiments".into(),
        blocks: vec![Block::Table(table)],
    };
    Doc {
        title: "sched --matrix".into(),
        summary: vec![summary],
        sections: vec![section],
        ..Doc::default()
    }
}

/// Why an experiment has no result.
fn reason(part: &Part) -> String {
    let Some(finding) = part.findings.first() else { return String::new() };
    match finding.values.get("error") {
        Some(Value::Text(error)) => error.clone(),
        _ => messages::claim(finding),
    }
}

/// The matrix in front of a report with several experiments.
pub fn side_by_side(run: &Run) -> Option<Section> {
    let experiments = run.parts.iter().filter(|p| p.name.starts_with("sched-")).count();
    (experiments > 1).then(|| matrix(run).sections.pop()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_damaged_trace_are_compared_without_overflow() {
        let task = TaskLine { ideal_ns: u64::MAX, lag_min_ns: i64::MIN, ..TaskLine::default() };
        let s = Schedule { length_ns: u64::MAX, tasks: vec![task], ..Schedule::default() };
        assert_eq!(lags(&s).rows.len(), 1);
    }
}
