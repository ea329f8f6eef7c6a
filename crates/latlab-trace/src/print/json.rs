//! Events as JSON, one object a line.
//!
//! ```json
//! {"ts_ns":923632241000,"cpu":1,"pid":10,"comm":"a","event":"sched_waking","system":"sched","fields":{"pid":21}}
//! ```
//! `missed` is there when events were lost before this one: their number, or
//! `null` when the kernel did not count them. `buffer` names an instance.

use super::number::{decimal, hex, signed};
use crate::format::Value;
use crate::{Event, Missed, TraceFile};
use latlab_model::control::JsonEscaped;
use std::io::Write;

/// Appends an event.
pub(crate) fn line(
    file: &TraceFile<'_>,
    event: &Event<'_>,
    pid: i32,
    comm: &[u8],
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"{\"ts_ns\":");
    decimal(out, event.time);
    out.extend_from_slice(b",\"cpu\":");
    decimal(out, event.cpu.into());
    let buffer = file.buffers.get(usize::from(event.buffer)).map_or("", |b| &b.name);
    if !buffer.is_empty() {
        out.extend_from_slice(b",\"buffer\":");
        string(out, buffer.as_bytes());
    }
    match event.missed {
        Missed::No => {}
        Missed::Unknown => out.extend_from_slice(b",\"missed\":null"),
        Missed::Count(n) => {
            out.extend_from_slice(b",\"missed\":");
            decimal(out, n);
        }
    }
    out.extend_from_slice(b",\"pid\":");
    signed(out, pid.into());
    out.extend_from_slice(b",\"comm\":");
    string(out, comm);
    match file.formats.get(event.id) {
        Some(format) => {
            out.extend_from_slice(b",\"event\":");
            string(out, format.name.as_bytes());
            out.extend_from_slice(b",\"system\":");
            string(out, format.system.as_bytes());
            out.extend_from_slice(b",\"fields\":{");
            for (n, field) in format.own_fields().iter().enumerate() {
                if n > 0 {
                    out.push(b',');
                }
                string(out, field.name.as_bytes());
                out.push(b':');
                match field.value(event.payload) {
                    Value::Signed(v) => signed(out, v),
                    Value::Unsigned(v) => decimal(out, v),
                    Value::Text(t) => string(out, t),
                    Value::Bytes(b) => numbers(out, b, field.element() as usize, file.endian),
                }
            }
            out.extend_from_slice(b"}}\n");
        }
        None => {
            out.extend_from_slice(b",\"event\":null,\"id\":");
            decimal(out, event.id.into());
            out.extend_from_slice(b"}\n");
        }
    }
}

fn numbers(out: &mut Vec<u8>, bytes: &[u8], width: usize, endian: crate::Endian) {
    let width = if matches!(width, 1 | 2 | 4 | 8) { width } else { 1 };
    out.push(b'[');
    for (n, b) in bytes.chunks_exact(width).enumerate() {
        if n > 0 {
            out.push(b',');
        }
        decimal(out, endian.uint(b, width).unwrap_or(0));
    }
    out.push(b']');
}

/// A JSON string; what is not UTF-8 becomes U+FFFD, and control characters are escaped.
fn string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    let start = out.len();
    for c in String::from_utf8_lossy(text).bytes() {
        match c {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', c]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => {
                out.extend_from_slice(b"\\u");
                hex(out, c.into(), 4, false);
            }
            _ => out.push(c),
        }
    }
    if out[start..].iter().any(|b| *b >= 0x7f) {
        let unescaped = out.split_off(start);
        // Writing to memory does not fail.
        let _ = JsonEscaped(&mut *out).write_all(&unescaped);
    }
    out.push(b'"');
}
