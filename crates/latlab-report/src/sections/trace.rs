//! Contents of a trace, as a document.

use super::screen::{LINES, shorten};
use crate::doc::{Block, Column, Doc, Section, Table};
use latlab_model::trace_stat::{BufferStat, TraceStat};

/// Rows of CPUs on the first screen.
const CPUS: usize = 16;
/// Lines around the rows of a table: caption, head, rule, and the blank one below it.
const AROUND: usize = 4;

/// The first screen of [`stat()`]: the most frequent events, as many as fit.
pub fn screen(counts: &TraceStat) -> Doc {
    let Doc { title, summary, .. } = stat(counts);
    let about = about(counts);
    let mut cpus = Block::Table(cpus(counts));
    shorten(&mut cpus, CPUS);
    let cpu_rows = counts.cpus.len().min(CPUS);
    let used = summary.len() + 3 + about.len() + 1 + cpu_rows + 2 * AROUND;
    let mut kinds = Block::Table(kinds(counts));
    shorten(&mut kinds, LINES.saturating_sub(used));
    let blocks = vec![Block::Pairs(about), cpus, kinds];
    let section = Section { blocks, ..Section::default() };
    Doc { title, summary, sections: vec![section], ..Doc::default() }
}

/// What made the trace.
fn about(stat: &TraceStat) -> Vec<(String, String)> {
    let version = match stat.version {
        0 => "text".to_owned(),
        v => format!("trace.dat {v}"),
    };
    let about = [
        ("version", version),
        ("clock", stat.clock.clone()),
        ("machine", stat.uname.trim().to_owned()),
        ("recorded by", stat.recorder.trim().to_owned()),
    ];
    about.into_iter().filter(|(_, v)| !v.is_empty()).map(|(k, v)| (k.to_owned(), v)).collect()
}

/// Counts by CPU and by kind of event.
pub fn stat(stat: &TraceStat) -> Doc {
    let mut summary = vec![format!("{} events on {} CPUs.", stat.events, cpu_count(stat))];
    if stat.lost > 0 || stat.lost_unknown > 0 {
        let more = match stat.lost_unknown {
            0 => String::new(),
            n => format!(", and {n} losses of unknown length"),
        };
        summary.push(format!("{} events were lost{more}.", stat.lost));
    }
    let mut sections = vec![
        section("trace", "Trace", vec![Block::Pairs(about(stat))]),
        section("cpus", "CPUs", vec![Block::Table(cpus(stat))]),
        section("events", "Events", vec![Block::Table(kinds(stat))]),
    ];
    if !stat.buffers.is_empty() {
        sections.push(section("buffers", "Ring buffers", vec![Block::Table(buffers(stat))]));
    }
    Doc { title: "Contents of the trace".into(), summary, sections, ..Doc::default() }
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

fn buffers(stat: &TraceStat) -> Table {
    let count = |value: Option<u64>| value.map_or("?".to_owned(), |v| v.to_string());
    let time = |value: Option<u64>| value.map_or("?".to_owned(), seconds);
    let row = |b: &BufferStat| {
        vec![
            b.cpu.to_string(),
            count(b.read),
            count(b.entries),
            count(b.bytes),
            count(b.overrun),
            count(b.commit_overrun),
            count(b.dropped),
            time(b.oldest_ns),
            time(b.now_ns),
        ]
    };
    let columns = [
        "CPU",
        "read",
        "entries",
        "bytes",
        "overrun",
        "commit overrun",
        "dropped",
        "oldest (s)",
        "now (s)",
    ];
    Table {
        caption: "The kernel's ring buffers at the end of the recording".into(),
        columns: columns.map(Column::right).into(),
        rows: stat.buffers.iter().map(row).collect(),
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
            buffers: vec![BufferStat { cpu: 2, read: Some(5), ..Default::default() }],
            ..Default::default()
        });
        assert_eq!(doc.summary[1], "3 events were lost, and 1 losses of unknown length.");
        assert!(matches!(&doc.sections[1].blocks[0], Block::Table(t) if t.rows[0][2] == "over 3"));
        let Block::Table(buffers) = &doc.sections[3].blocks[0] else { panic!() };
        assert_eq!(buffers.rows[0][..3], ["2", "5", "?"]);
    }

    #[test]
    fn the_first_screen_has_forty_lines_however_many_events_and_cpus_there_are() {
        let many = TraceStat {
            version: 7,
            cpus: vec![CpuStat::default(); 64],
            kinds: vec![KindStat { name: "x".into(), events: 5, ..Default::default() }; 300],
            ..Default::default()
        };
        let mut page = Vec::new();
        crate::text::render(&screen(&many), &Default::default(), &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert_eq!(page.lines().count(), LINES, "{page}");
        assert!(page.contains("(48 more rows with --details)"), "{page}");
    }
}
