//! Any text as an event's format, any bytes as its record: parsed, printed, filtered.
#![no_main]

use latlab_trace::print::{Dialect, EventFormatter};
use latlab_trace::{Endian, EventFormat, Filter, TraceFile};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // Up to the first NUL the format's lines behind its number, up to the second a filter, then the record.
    let mut parts = data.splitn(3, |b| *b == 0);
    let format = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let filter = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let record = parts.next().unwrap_or_default();
    let Ok(mut file) = latlab_trace::text::parse(b"a-1 [000] 1.000001: x: y=1\n") else { return };
    for (id, system) in [(100, "sched"), (101, "ftrace"), (102, "x")] {
        let text = format!("name: sched_switch\nID: {id}\nformat:\n{format}");
        let endian = if id == 101 { Endian::Big } else { Endian::Little };
        if let Some(f) = EventFormat::parse(system, &text, endian) {
            file.formats.add(f);
        }
    }
    print(&file, record);
    let _ = Filter::compile(&file, &[filter]);
});

fn print(file: &TraceFile<'_>, record: &[u8]) {
    let mut out = Vec::new();
    for dialect in [Dialect::TraceCmd, Dialect::Kernel, Dialect::Fields] {
        let texts = EventFormatter::new(file, dialect);
        for id in 100..104 {
            texts.put(id, record, &mut out);
        }
    }
}
