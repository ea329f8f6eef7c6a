//! A window of a trace as one page that needs nothing else: the same page, its data inside.
//!
//! The data are JSON in an element that is no script, with every `<` escaped; the
//! page's policy admits its one script and its one style by their hashes.

use crate::assets;
use crate::event;
use crate::flame::flame;
use crate::index::column::{Item, Items, Spans};
use crate::index::{CpuLanes, Index};
use crate::latency::{Ask, latency};
use crate::rows::Row;
use crate::tile::List;
use crate::view::{Source, View};
use base64::Engine;

use latlab_trace::format::{FieldKind, Value as FieldValue};
use latlab_trace::{Field, TraceFile};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Events that a page can bear.
pub const EVENTS_MAX: u64 = 200_000;
/// Tasks that get a lane, besides those of late wake-ups.
const TASKS: usize = 12;

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// Too much for one page.
    #[error("this window holds {0} events, and a page bears {EVENTS_MAX}")]
    TooMany(u64),
    /// The window holds nothing.
    #[error("there is no event in this window")]
    Nothing,
    /// The page cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// The data cannot be written.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Writes the page for a window (times of the trace's clock; `None`: from its beginning, to its end).
///
/// # Errors
/// When the window holds nothing or too much, or the page cannot be written.
pub fn export(
    view: &View<'_>,
    from: Option<u64>,
    to: Option<u64>,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let mut lanes = serde_json::Map::new();
    let (mut rows, mut wakes, mut latencies) = (Vec::new(), Vec::new(), Vec::new());
    let (mut fields, mut flames) = (Vec::new(), Vec::new());
    let mut events = 0;
    let mut window = None;
    for (n, source) in view.sources.iter().enumerate() {
        let Some(index) = source.index() else { continue };
        let index = &*index;
        let (start, end) = (from.unwrap_or(index.origin), to.unwrap_or(index.end));
        let first = source.rows().at_time(index, start);
        let after = source.rows().at_time(index, end.saturating_add(1));
        events += after.saturating_sub(first);
        if events > EVENTS_MAX {
            return Err(ExportError::TooMany(events));
        }
        let rel = |t: u64| t.saturating_sub(index.origin);
        window.get_or_insert((rel(start.max(index.origin)), rel(end.min(index.end))));
        let list = source.rows().range(index, first, after);
        put_lanes(&mut lanes, view, n, index, (start, end));
        for cpu in &index.cpus {
            let own = list.iter().filter(|r| r.cpu == cpu.cpu);
            let items = own.map(|r| {
                let time = index.origin.saturating_add_signed(r.t);
                Item { start: time, end: time, id: r.kind.into(), aux: r.pid as u32 }
            });
            let items: Vec<Item> = items.collect();
            put(&mut lanes, format!("{n}.cpu{}.ev", cpu.cpu), index, &List(&items), (start, end));
        }
        fields.push(fields_of(source, &list));
        rows.push(with_values(source, index, first, &list)?);
        wakes.push(wakes_of(index, start, end));
        latencies.push(latency_of(source, index));
        flames.push(flame(source.file, source.rows(), index, start, end));
    }
    let Some(window) = window.filter(|_| events > 0) else { return Err(ExportError::Nothing) };
    let mut info = view.info();
    info["report"] = json!(false);
    if from.is_some() || to.is_some() {
        info["window"] = json!([window.0, window.1]);
    }
    let data = json!({
        "info": info, "fields": fields, "lanes": lanes, "rows": rows, "wakes": wakes,
        "late": view.late(), "latency": latencies, "flames": flames,
    });
    write(&view.title, &data, out)
}

fn write(title: &str, data: &Value, out: &mut dyn Write) -> Result<(), ExportError> {
    let hash = |text: &str| {
        let digest = Sha256::digest(text.as_bytes());
        format!("'sha256-{}'", base64::engine::general_purpose::STANDARD.encode(digest))
    };
    let (script, style) = (hash(assets::SCRIPT), hash(assets::STYLE));
    let title = title.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    // Inside of JSON a `<` stands only within strings, where its escape means the same.
    let data = serde_json::to_string(data)?.replace('<', "\\u003c");
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src {script}; \
         style-src {style}; img-src data: blob:; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{}</style></head>\n<body><div id=\"app\"></div>\n\
         <script id=\"latlab-data\" type=\"application/json\">{data}</script>\n\
         <script>{}</script></body></html>\n",
        assets::STYLE,
        assets::SCRIPT,
    )?;
    Ok(())
}

/// Names of the fields of every kind of event in a list, of each field a letter (`n`umber, `t`ext,
/// or something `o`ther: the page's expressions go by them), types and units.
fn fields_of(source: &Source<'_>, list: &[Row]) -> Value {
    let mut kinds = serde_json::Map::new();
    let seen: BTreeSet<u16> = list.iter().map(|r| r.kind).collect();
    for format in seen.iter().filter_map(|id| source.file.formats.get(*id)) {
        let own = format.own_fields();
        let names: Vec<&str> = own.iter().map(|f| &*f.name).collect();
        let letter = |f: &Field| match f.kind {
            FieldKind::Number => 'n',
            _ if f.is_text() => 't',
            _ => 'o',
        };
        let letters: String = own.iter().map(letter).collect();
        let types: Vec<&str> = own.iter().map(|f| &*f.ty).collect();
        let units: Vec<&str> = own.iter().map(|f| event::unit(format, &f.name)).collect();
        kinds.insert(format.id.to_string(), json!([names, letters, types, units]));
    }
    Value::Object(kinds)
}

/// Rows with the values of their fields.
fn with_values(
    source: &Source<'_>,
    index: &Index,
    first: u64,
    list: &[Row],
) -> Result<Value, serde_json::Error> {
    let mut all = Vec::with_capacity(list.len());
    let mut rows = list.iter();
    let mut trouble = None;
    source.rows().events(index, first, &mut |event| {
        let Some(row) = rows.next() else { return false };
        match serde_json::to_value(row) {
            Ok(mut value) => {
                let format = source.file.formats.get(event.id);
                let own = format.map_or(&[][..], |f| f.own_fields());
                value["values"] =
                    own.iter().map(|f| value_of(source.file, f, event.payload)).collect();
                all.push(value);
            }
            Err(e) => trouble = Some(e),
        }
        rows.len() > 0 && trouble.is_none()
    });
    trouble.map_or(Ok(Value::Array(all)), Err)
}

/// A field's value; a number that JavaScript would round is written as text in a list.
fn value_of(file: &TraceFile<'_>, field: &Field, payload: &[u8]) -> Value {
    const EXACT: u64 = 1 << 53;
    match field.value(payload) {
        FieldValue::Signed(n) if n.unsigned_abs() < EXACT => json!(n),
        FieldValue::Unsigned(n) if n < EXACT => json!(n),
        FieldValue::Signed(n) => json!([n.to_string()]),
        FieldValue::Unsigned(n) => json!([n.to_string()]),
        FieldValue::Text(text) => json!(String::from_utf8_lossy(text)),
        FieldValue::Bytes(_) => json!(event::text(file, field, "", payload)),
    }
}

type Lanes = serde_json::Map<String, Value>;

/// The items of a lane that touch the window, as columns.
fn put<I: Items>(lanes: &mut Lanes, name: String, index: &Index, items: &I, span: (u64, u64)) {
    let (first, last) = (items.first_after(span.0), items.first_from(span.1.saturating_add(1)));
    let items: Vec<Item> = (first..last.max(first)).map(|i| items.get(i)).collect();
    let rel = |t: u64| t as i64 - index.origin as i64;
    let columns = (
        items.iter().map(|i| rel(i.start)).collect::<Vec<_>>(),
        items.iter().map(|i| rel(i.end)).collect::<Vec<_>>(),
        items.iter().map(|i| i.id).collect::<Vec<_>>(),
        items.iter().map(|i| i.aux).collect::<Vec<_>>(),
    );
    lanes.insert(name, json!(columns));
}

fn put_lanes(lanes: &mut Lanes, view: &View<'_>, n: usize, index: &Index, span: (u64, u64)) {
    for cpu in &index.cpus {
        put_cpu(lanes, n, index, cpu, span);
    }
    put(lanes, format!("{n}.timers"), index, &List(&index.timers), span);
    let mut tasks: Vec<(i32, u64)> = index.tasks.iter().map(|(p, t)| (*p, t.ran_ns)).collect();
    tasks.retain(|t| t.0 > 0);
    tasks.sort_by_key(|t| std::cmp::Reverse(t.1));
    let late = view.late().list.iter().filter(|w| w.source == n);
    // With those of its critical path, which is drawn over them.
    let of_path = late.clone().filter(|w| w.late).flat_map(|w| w.parts.iter().map(|p| p.pid));
    let chosen = tasks.iter().take(TASKS).map(|t| t.0).chain(late.map(|w| w.pid)).chain(of_path);
    let mut pids: Vec<i32> = chosen.filter(|pid| *pid > 0).collect();
    pids.sort_unstable();
    pids.dedup();
    for pid in pids {
        put(lanes, format!("{n}.task{pid}"), index, &index.task_lane(pid).spans, span);
    }
}

fn put_cpu(lanes: &mut Lanes, n: usize, index: &Index, cpu: &CpuLanes, span: (u64, u64)) {
    let name = |lane: String| format!("{n}.cpu{}.{lane}", cpu.cpu);
    put(lanes, name("run".into()), index, &cpu.runs, span);
    put(lanes, name("freq".into()), index, &cpu.freq, span);
    for (class, rows) in ["irq", "soft", "fn"].iter().zip(&cpu.nested) {
        for (depth, spans) in rows.iter().enumerate() {
            let spans: &Spans = spans;
            put(lanes, name(format!("{class}{depth}")), index, spans, span);
        }
    }
}

fn wakes_of(index: &Index, start: u64, end: u64) -> Vec<Value> {
    let first = index.wakes.partition_point(|w| w.time < start);
    let last = index.wakes.partition_point(|w| w.time <= end).max(first);
    let one = |w: &crate::index::fold::Wake| {
        json!({
            "t": w.time as i64 - index.origin as i64, "pid": w.pid, "waker": w.waker,
            "cpu": w.cpu, "target": w.target, "context": w.context,
        })
    };
    index.wakes[first..last].iter().map(one).collect()
}

fn latency_of(source: &Source<'_>, index: &Index) -> Value {
    let ask = Ask { a: "sched_waking", b: "sched_switch", ..Ask::default() };
    let found = latency(source.file, source.buffer, (index.origin, index.end), &ask);
    found.ok().and_then(|l| serde_json::to_value(l).ok()).unwrap_or(Value::Null)
}
