//! How a trace.dat is laid out, as a document.

use crate::doc::{Block, Column, Doc, Section, Table};
use latlab_model::trace_layout::{BufferLayout, CpuLayout, SectionLayout, TraceLayout};

/// Head, sections, options, and the data of each CPU.
pub fn dump(layout: &TraceLayout) -> Doc {
    let mut sections = vec![
        section("file", "File", Block::Pairs(head(layout))),
        section("sections", "Sections", Block::Table(parts(layout))),
        section("formats", "Formats", Block::Table(formats(layout))),
    ];
    if !layout.options.is_empty() {
        sections.push(section("options", "Options", Block::Table(options(layout))));
    }
    if !layout.buffers.is_empty() {
        sections.push(section("data", "Data", Block::Table(data(&layout.buffers))));
    }
    let summary =
        vec![format!("A trace.dat of version {}, {} bytes.", layout.version, layout.bytes)];
    Doc { title: "Layout of the trace".into(), summary, sections, ..Doc::default() }
}

fn section(id: &str, title: &str, block: Block) -> Section {
    Section { id: id.into(), title: title.into(), blocks: vec![block] }
}

fn head(layout: &TraceLayout) -> Vec<(String, String)> {
    let order = if layout.big_endian { "most" } else { "least" };
    [
        ("byte order", format!("{order} significant byte first")),
        ("long of the recorder", format!("{} bytes", layout.user_long_bytes)),
        ("long of the kernel", format!("{} bytes", layout.kernel_long_bytes)),
        ("page of the ring buffer", format!("{} bytes", layout.page_bytes)),
        ("compression", layout.compression.clone()),
        ("CPUs of the machine", layout.cpu_count.to_string()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// Names of `trace-cmd.dat.v7(5)`.
fn name(section: &SectionLayout) -> String {
    let name = match section.id {
        0 => "options",
        3 => "data of the CPUs",
        16 => "header information",
        17 => "formats of ftrace's own events",
        18 => "event formats",
        19 => "kallsyms",
        20 => "trace_printk formats",
        21 => "command lines",
        22 => "latency trace",
        15 => "strings",
        id => return format!("unknown ({id})"),
    };
    name.to_owned()
}

fn parts(layout: &TraceLayout) -> Table {
    let row = |s: &SectionLayout| {
        let inflated = s.inflated_bytes.map_or(String::new(), |n| n.to_string());
        vec![s.offset.to_string(), s.bytes.to_string(), inflated, name(s)]
    };
    Table {
        caption: "Sections in the order of the file".into(),
        columns: vec![
            Column::right("offset"),
            Column::right("bytes"),
            Column::right("inflated"),
            Column::left("section"),
        ],
        rows: layout.sections.iter().map(row).collect(),
    }
}

fn formats(layout: &TraceLayout) -> Table {
    let rows = layout.systems.iter().map(|s| vec![s.system.clone(), s.events.to_string()]);
    Table {
        caption: "Kinds of events whose format is in the file".into(),
        columns: vec![Column::left("system"), Column::right("events")],
        rows: rows.collect(),
    }
}

fn options(layout: &TraceLayout) -> Table {
    let rows = layout.options.iter().map(|o| vec![o.name.clone(), o.value.clone()]);
    Table {
        caption: "Names of trace-cmd.dat.v7(5)".into(),
        columns: vec![Column::left("option"), Column::left("value")],
        rows: rows.collect(),
    }
}

fn data(buffers: &[BufferLayout]) -> Table {
    let rows = |b: &BufferLayout| {
        let name = if b.name.is_empty() { "top".to_owned() } else { b.name.clone() };
        let row = move |c: &CpuLayout| {
            let parts = c.parts.to_string();
            let (pages, chunks) = match b.compressed {
                true => (String::new(), parts),
                false => (parts, String::new()),
            };
            let (offset, bytes) = (c.offset.to_string(), c.bytes.to_string());
            vec![name.clone(), c.cpu.to_string(), offset, bytes, pages, chunks]
        };
        b.cpus.iter().map(row).collect::<Vec<_>>()
    };
    Table {
        caption: "Where the data of each CPU lie".into(),
        columns: vec![
            Column::left("buffer"),
            Column::right("CPU"),
            Column::right("offset"),
            Column::right("bytes"),
            Column::right("pages"),
            Column::right("compressed chunks"),
        ],
        rows: buffers.iter().flat_map(rows).collect(),
    }
}
