//! Requirements: one row each.

use crate::doc::{Block, Column, Section, Table};
use crate::messages;
use crate::values::{figure, grouped};
use latlab_model::check::{CheckDetail, Checked, Decision, Requirement, Statistic, Subject};
use latlab_model::run::Part;
use latlab_model::units::format_ns;

/// The sections of a `check` part.
pub fn sections(part: &Part, d: &CheckDetail) -> Vec<Section> {
    let mut blocks = vec![Block::Findings(part.findings.clone()), Block::Table(table(d))];
    for item in d.items.iter().filter(|i| i.decision == Decision::Pass && !i.notes.is_empty()) {
        let notes = messages::notes(&item.notes).join("; ");
        blocks.push(Block::Text(format!("{}: {notes}.", item.requirement.text)));
    }
    vec![Section { id: part.name.clone(), title: part.title.clone(), blocks }]
}

/// The first screen.
pub fn screen(d: &CheckDetail) -> Vec<Block> {
    vec![Block::Table(table(d))]
}

/// The decision in words.
pub fn summary(d: &CheckDetail) -> Vec<String> {
    let count = |decision| d.items.iter().filter(|i| i.decision == decision).count();
    let (pass, fail) = (count(Decision::Pass), count(Decision::Fail));
    let undecided = count(Decision::Undecided);
    vec![format!(
        "{}: {pass} of {} requirements met, {fail} not met, {undecided} not decided.",
        d.source,
        d.items.len()
    )]
}

fn table(d: &CheckDetail) -> Table {
    let columns = vec![
        Column::left("decision"),
        Column::left("of"),
        Column::left("requirement"),
        Column::right("measured"),
        Column::right("samples").optional(2),
        Column::right("duration").optional(1),
        Column::right("duration needed"),
    ];
    let row = |i: &Checked| {
        vec![
            decision(i.decision).to_owned(),
            subject(&i.requirement),
            i.requirement.text.clone(),
            value(i),
            grouped(i.samples),
            duration(i.duration_ns as f64),
            i.needed_ns.map_or(String::new(), duration),
        ]
    };
    Table { caption: String::new(), columns, rows: d.items.iter().map(row).collect() }
}

/// The decision in a word.
pub fn decision(d: Decision) -> &'static str {
    match d {
        Decision::Pass => "met",
        Decision::Fail => "not met",
        Decision::Undecided => "not decided",
    }
}

/// What a requirement is about and its circumstances, in the words of the file.
pub fn subject(r: &Requirement) -> String {
    let mut words = match &r.subject {
        Subject::Wakeup => "wakeup".into(),
        Subject::Noise => "noise".into(),
        Subject::Record(name) => name.clone(),
        Subject::Doctor => "doctor".into(),
    };
    let c = &r.circumstances;
    let time = |ns: u64| format_ns(ns as f64);
    let circumstances = [
        ("by", c.by.map(|by| by.id().to_owned())),
        ("under", (!c.load.is_empty()).then(|| loads(&c.load))),
        ("interval", c.interval_ns.map(time)),
        ("priority", c.priority.map(|p| p.to_string())),
        ("on", c.cpus.clone()),
        ("threshold", c.threshold_ns.map(time)),
        ("packets", c.packets.map(|(rate, ns)| format!("{rate}:{ns}"))),
    ];
    for (name, value) in circumstances {
        if let Some(value) = value {
            words.push_str(&format!(" {name} {value}"));
        }
    }
    words
}

/// Loads, with sizes in the largest binary unit that fits.
fn loads(all: &[String]) -> String {
    let size = |word: &str| match word.parse::<u64>() {
        Ok(bytes) if bytes > 0 && bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        Ok(bytes) if bytes > 0 && bytes.is_multiple_of(1 << 10) => format!("{}K", bytes >> 10),
        _ => word.to_owned(),
    };
    let one = |load: &String| match load.contains(' ') {
        true => load.clone(),
        false => load.split(':').map(size).collect::<Vec<_>>().join(":"),
    };
    all.iter().map(one).collect::<Vec<_>>().join(" + ")
}

/// The measured value with its unit; empty where there is none.
pub fn value(i: &Checked) -> String {
    match (&i.requirement.statistic, i.value) {
        (Statistic::PerSecond, Some(v)) => format!("{v:.1}/s"),
        (Statistic::Queue, Some(v)) => format!("{v:.0} packets"),
        (Statistic::Missed, Some(v)) => format!("{v}"),
        (_, Some(v)) => figure(v, i.requirement.unit),
        (_, None) => String::new(),
    }
}

fn duration(ns: f64) -> String {
    if ns <= 0.0 {
        return String::new();
    }
    let seconds = ns / 1e9;
    match seconds {
        s if s < 120.0 => format_ns(ns),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3_600.0),
        s => format!("{:.1} d", s / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_have_readable_sizes() {
        let all = ["vm:134217728:4096", "2*cpu:50%", "hackbench -l 1048576"].map(str::to_owned);
        assert_eq!(loads(&all), "vm:128M:4K + 2*cpu:50% + hackbench -l 1048576");
    }
}
