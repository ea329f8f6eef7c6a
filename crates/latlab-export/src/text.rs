//! JSON, one object a line, and CSV.

use crate::row::{Rows, lost};
use crate::{Buffered, Counts, ExportError, buffered};
use latlab_model::control::JsonEscaped;
use latlab_model::csv::cell;
use latlab_trace::format::Value;
use latlab_trace::{Event, EventFormat, TraceFile};
use serde_json::{Map, Value as Json};
use std::io::Write;

/// Writes JSON lines: `{"time_ns", "cpu", "pid", "comm", "event", "fields": {…}}`, and `"lost"`
/// where events are missing before this one. Numbers are numbers, arrays are arrays of bytes.
///
/// # Errors
/// When `out` refuses.
pub fn json(file: &TraceFile<'_>, mut out: impl Write) -> Result<Counts, ExportError> {
    json_lines(file, buffered(&mut out))
}

fn json_lines(file: &TraceFile<'_>, mut out: Buffered<'_>) -> Result<Counts, ExportError> {
    let rows = Rows::new(file);
    let mut counts = Counts::default();
    let mut events = file.events();
    while let Some(event) = events.next() {
        let row = rows.row(&event);
        let mut object = Map::new();
        object.insert("time_ns".into(), event.time.into());
        object.insert("cpu".into(), event.cpu.into());
        object.insert("pid".into(), row.pid.into());
        object.insert("comm".into(), text(row.comm).into());
        object.insert("event".into(), name(row.format, &event).into());
        if let Some(format) = row.format {
            object.insert("fields".into(), Json::Object(fields(format, &event)));
        }
        if lost(&event) > 0 {
            object.insert("lost".into(), lost(&event).into());
        }
        serde_json::to_writer(JsonEscaped(&mut out), &object).map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
        counts.events += 1;
        counts.lost += lost(&event);
    }
    out.flush()?;
    counts.damage = events.diagnostics();
    counts.parts = counts.events;
    Ok(counts)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn name(format: Option<&EventFormat>, event: &Event<'_>) -> String {
    format.map_or_else(|| format!("unknown:{}", event.id), EventFormat::full_name)
}

fn fields(format: &EventFormat, event: &Event<'_>) -> Map<String, Json> {
    let value = |v| match v {
        Value::Signed(n) => Json::from(n),
        Value::Unsigned(n) => Json::from(n),
        Value::Text(t) => Json::from(text(t)),
        Value::Bytes(b) => Json::from(b),
    };
    let own = format.own_fields().iter();
    own.map(|f| (f.name.to_string(), value(f.value(event.payload)))).collect()
}

/// Writes CSV with a header line: `time_ns,cpu,pid,comm,event,fields`, the fields as
/// `name=value` separated by spaces. Quoted as RFC 4180 says.
///
/// # Errors
/// When `out` refuses.
pub fn csv(file: &TraceFile<'_>, mut out: impl Write) -> Result<Counts, ExportError> {
    csv_lines(file, buffered(&mut out))
}

fn csv_lines(file: &TraceFile<'_>, mut out: Buffered<'_>) -> Result<Counts, ExportError> {
    let rows = Rows::new(file);
    let mut counts = Counts::default();
    out.write_all(b"time_ns,cpu,pid,comm,event,fields\r\n")?;
    let mut events = file.events();
    while let Some(event) = events.next() {
        let row = rows.row(&event);
        write!(out, "{},{},{},", event.time, event.cpu, row.pid)?;
        let fields = row.format.map_or_else(String::new, |f| pairs(f, &event));
        let cells = [text(row.comm), name(row.format, &event), fields];
        write!(out, "{},{},{}\r\n", cell(&cells[0]), cell(&cells[1]), cell(&cells[2]))?;
        counts.events += 1;
        counts.lost += lost(&event);
    }
    out.flush()?;
    counts.damage = events.diagnostics();
    counts.parts = counts.events;
    Ok(counts)
}

fn pairs(format: &EventFormat, event: &Event<'_>) -> String {
    let pair = |f: &latlab_trace::Field| match f.value(event.payload) {
        Value::Signed(n) => format!("{}={n}", f.name),
        Value::Unsigned(n) if f.is_pointer() => format!("{}={n:#x}", f.name),
        Value::Unsigned(n) => format!("{}={n}", f.name),
        Value::Text(t) => format!("{}={}", f.name, text(t)),
        Value::Bytes(b) => {
            let hex: String = b.iter().map(|b| format!("{b:02x}")).collect();
            format!("{}={hex}", f.name)
        }
    };
    format.own_fields().iter().map(pair).collect::<Vec<_>>().join(" ")
}
