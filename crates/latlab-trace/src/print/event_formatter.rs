//! The text of one event by its kind.

use super::dialect::Dialect;
use super::plan::Plan;
use super::run::Context;
use super::{byte_list, number, special};
use crate::format::{Field, FieldKind, Value};
use crate::{EventFormat, TraceFile};
use std::sync::OnceLock;

/// The text of every kind of event of one trace. May be shared between threads.
#[derive(Debug)]
pub struct EventFormatter<'f> {
    file: &'f TraceFile<'f>,
    cx: Context<'f>,
    dialect: Dialect,
    /// By event number; compiled when first needed.
    plans: Vec<OnceLock<Option<Plan>>>,
}

impl<'f> EventFormatter<'f> {
    /// Nothing is compiled yet.
    pub fn new(file: &'f TraceFile<'_>, dialect: Dialect) -> Self {
        let highest = file.formats.iter().map(|f| usize::from(f.id) + 1).max().unwrap_or(0);
        let mut plans = Vec::new();
        plans.resize_with(highest, OnceLock::new);
        Self { file, cx: Context::new(file), dialect, plans }
    }

    /// Appends an event's text, without its name. Never nothing: what cannot
    /// be printed as the kernel does is printed field by field, an unknown event as bytes.
    pub fn put(&self, id: u16, payload: &[u8], out: &mut Vec<u8>) {
        let Some(format) = self.file.formats.get(id) else {
            out.extend_from_slice(b"[unknown event ");
            number::decimal(out, u64::from(id));
            out.extend_from_slice(b"] ");
            return byte_list::hex_bytes(out, &payload[..payload.len().min(64)], " ");
        };
        let plan = self.plans.get(usize::from(id)).and_then(|p| {
            p.get_or_init(|| special::plan(format, self.dialect, self.cx.long)).as_ref()
        });
        match plan {
            Some(plan) => plan.run(&self.cx, payload, out),
            None => put_fields(&self.cx, format.own_fields(), payload, out),
        }
    }

    pub(crate) fn context(&self) -> &Context<'f> {
        &self.cx
    }

    pub(crate) fn file(&self) -> &'f TraceFile<'f> {
        self.file
    }
}

/// Whether the `print fmt` of a kind is understood; otherwise its fields are printed. `long` is the size
/// of the kernel's `long`, bytes.
pub fn has_text(format: &EventFormat, long: u8) -> bool {
    Plan::compile(format, format.print_fmt(), long).is_some()
}

/// Every field as ` name=value`.
fn put_fields(cx: &Context<'_>, fields: &[Field], payload: &[u8], out: &mut Vec<u8>) {
    for field in fields {
        out.push(b' ');
        out.extend_from_slice(field.name.as_bytes());
        out.push(b'=');
        put_value(cx, field, payload, out);
    }
}

/// One field's value: text as it is, pointers and unsigned longs in hexadecimal, other numbers in decimal.
fn put_value(cx: &Context<'_>, field: &Field, payload: &[u8], out: &mut Vec<u8>) {
    match field.value(payload) {
        Value::Text(t) => out.extend_from_slice(t),
        Value::Signed(v) => number::signed(out, v),
        Value::Unsigned(v)
            if field.is_pointer() || field.is_long() && &*field.ty == "unsigned long" =>
        {
            out.extend_from_slice(b"0x");
            number::hex(out, v, 0, false);
        }
        Value::Unsigned(v) => number::decimal(out, v),
        Value::Bytes(bytes) => {
            let width = match field.kind {
                FieldKind::Number => 1,
                _ => field.element() as usize,
            };
            byte_list::array(out, bytes, None, width, cx.endian, false);
        }
    }
}
