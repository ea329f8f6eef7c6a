//! What a trace holds, as a document.

use crate::doc::{Block, Column, Doc, Section, Table};
use latlab_model::trace_stat::TraceStat;

/// Counts by CPU and by kind of event.
pub fn stat(stat: &TraceStat) -> Doc {
    let about = [
        (
            "version",
            match stat.version {
                0 => "text".to_owned(),
                v => format!("trace.dat {v}"),
            },
        ),
        ("clock", stat.clock.clone()),
        ("machine", stat.uname.trim().to_owned()),
        ("recorded by", stat.recorder.trim().to_owned()),
    ];
    let about =
        about.into_iter().filter(|(_, v)| !v.is_empty()).map(|(k, v)| (k.to_owned(), v)).collect();
    let mut summary = vec![format!("{} events on {} CPUs.", stat.events, cpu_count(stat))];
    if stat.lost > 0 || stat.lost_unknown > 0 {
        let more = match stat.lost_unknown {
            0 => String::new(),
            n => format!(", and {n} losses of unknown size"),
        };
        summary.push(format!("{} events were lost{more}.", stat.lost));
    }
    Doc {
        title: "What the trace holds".into(),
        summary,
        sections: vec![
            section("trace", "Trace", vec![Block::Pairs(about)]),
            section("cpus", "CPUs", vec![Block::Table(cpus(stat))]),
            section("events", "Events", vec![Block::Table(kinds(stat))]),
        ],
        ..Doc::default()
    }
}

fn section(id: &str, title: &str, blocks: Vec<Block>) -> Section {
    Section { id: id.into(), title: title.into(), blocks }
}

fn cpu_count(stat: &TraceStat) -> usize {
    stat.cpus.iter().map(|c| c.cpu).collect::<std::collections::BTreeSet<_>>().len()
}

fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1000)
}

fn cpus(stat: &TraceStat) -> Table {
    let instances = stat.cpus.iter().any(|c| !c.buffer.is_empty());
    let mut columns = vec![
        Column::right("CPU"),
        Column::right("events"),
        Column::right("lost"),
        Column::right("first (s)"),
        Column::right("last (s)"),
    ];
    if instances {
        columns.insert(0, Column::left("instance"));
    }
    let row = |c: &latlab_model::trace_stat::CpuStat| {
        let lost = match (c.lost, c.lost_unknown) {
            (n, 0) => n.to_string(),
            (0, _) => "some".to_owned(),
            (n, _) => format!("over {n}"),
        };
        let mut cells = vec![
            c.cpu.to_string(),
            c.events.to_string(),
            lost,
            seconds(c.first_ns),
            seconds(c.last_ns),
        ];
        if instances {
            cells.insert(0, if c.buffer.is_empty() { "top".into() } else { c.buffer.clone() });
        }
        cells
    };
    Table {
        caption: "Events of each CPU".into(),
        columns,
        rows: stat.cpus.iter().map(row).collect(),
    }
}

fn kinds(stat: &TraceStat) -> Table {
    Table {
        caption: "Events of each kind, most frequent first".into(),
        columns: vec![Column::left("system"), Column::left("event"), Column::right("count")],
        rows: stat
            .kinds
            .iter()
            .map(|k| vec![k.system.clone(), k.name.clone(), k.events.to_string()])
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::trace_stat::{CpuStat, KindStat};

    #[test]
    fn losses_are_said_first() {
        let doc = stat(&TraceStat {
            version: 7,
            events: 5,
            lost: 3,
            lost_unknown: 1,
            cpus: vec![CpuStat {
                cpu: 2,
                events: 5,
                lost: 3,
                lost_unknown: 1,
                ..Default::default()
            }],
            kinds: vec![KindStat { name: "x".into(), events: 5, ..Default::default() }],
            ..Default::default()
        });
        assert_eq!(doc.summary[1], "3 events were lost, and 1 losses of unknown size.");
        assert!(matches!(&doc.sections[1].blocks[0], Block::Table(t) if t.rows[0][2] == "over 3"));
    }
}
