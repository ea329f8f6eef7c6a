//! All fields of one event, and the stacks that were recorded with it.
//!
//! With the option `stacktrace` the kernel writes a `kernel_stack` after each event, with
//! `userstacktrace` a `user_stack` too: on the same CPU, by the same task, before its next event.

use crate::index::Index;
use crate::rows::Rows;
use latlab_trace::format::{Field, FieldKind, Value};
use latlab_trace::{Event, EventFormat, TraceFile};
use serde::Serialize;
use std::fmt::Write;

/// Elements of an array, and bytes of other data, that are shown.
const ELEMENTS: usize = 64;
/// Frames of a stack at most.
pub const FRAMES: usize = 256;
/// Events of all CPUs behind one in which its stacks are searched.
const NEAR: usize = 4096;

/// One field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldText {
    /// Name in the trace's format.
    pub name: String,
    /// C type.
    pub ty: String,
    /// The value: a number, an address with its symbol, or text.
    pub value: String,
    /// Unit, where the kernel's documentation or sources state one.
    pub unit: &'static str,
    /// Whether all events have it (`common_…`).
    pub common: bool,
}

/// One frame of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Frame {
    /// Function, or the address where no symbol is known.
    pub name: String,
    /// Its module, or nothing.
    pub module: String,
    /// Return address, hexadecimal.
    pub address: String,
}

/// A stack, innermost frame first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stack {
    /// Whether it is of user space: there are addresses only.
    pub user: bool,
    /// Number of the event that has it.
    pub row: u64,
    /// The frames.
    pub frames: Vec<Frame>,
}

/// An event with its fields and stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Detail {
    /// `system:name`.
    pub name: String,
    /// The fields, in the order of the format.
    pub fields: Vec<FieldText>,
    /// Its own stack, or those that follow it.
    pub stacks: Vec<Stack>,
}

/// Which events have stacks.
#[derive(Clone, Debug)]
pub struct Stacks<'f> {
    file: &'f TraceFile<'f>,
    /// Number of the event, whether it is of user space, where the addresses begin.
    kinds: Vec<(u16, bool, usize)>,
}

impl<'f> Stacks<'f> {
    /// Of a file.
    pub fn new(file: &'f TraceFile<'f>) -> Self {
        let kind = |(name, user)| {
            let format =
                file.formats.iter().find(|f| &*f.system == "ftrace" && &*f.name == name)?;
            Some((format.id, user, format.field("caller")?.offset as usize))
        };
        let kinds = [("kernel_stack", false), ("user_stack", true)];
        Self { file, kinds: kinds.into_iter().filter_map(kind).collect() }
    }

    /// Whether an event is a stack, and then whether of user space.
    pub fn is(&self, id: u16) -> Option<bool> {
        self.kinds.iter().find(|k| k.0 == id).map(|k| k.1)
    }

    /// Number of the events with stacks of user space, or of the kernel.
    pub fn id(&self, user: bool) -> Option<u16> {
        self.kinds.iter().find(|k| k.1 == user).map(|k| k.0)
    }

    /// Addresses of a stack, innermost first; [`FRAMES`] at most. Nothing for other events.
    pub fn addresses(&self, event: &Event<'_>) -> Vec<u64> {
        let Some((_, user, at)) = self.kinds.iter().find(|k| k.0 == event.id) else {
            return Vec::new();
        };
        let width = usize::from(self.file.long_size()).max(4);
        let end = if width == 4 { u64::from(u32::MAX) } else { u64::MAX };
        // The record's length says how many there are.
        let all = event.payload.get(*at..).unwrap_or_default().chunks_exact(width);
        all.map_while(|b| self.file.endian.uint(b, width))
            .take_while(|a| *a != end && !(*user && *a == 0))
            .take(FRAMES)
            .collect()
    }

    /// Name and module of the function at an address of the kernel.
    pub fn name(&self, address: u64, user: bool) -> (String, String) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match self.file.symbols.find(address).filter(|_| !user) {
            Some(s) => (text(s.name), text(s.module)),
            None => (format!("0x{address:x}"), String::new()),
        }
    }

    fn stack(&self, event: &Event<'_>, user: bool, row: u64) -> Stack {
        let frame = |address: u64| {
            let (name, module) = self.name(address, user);
            Frame { name, module, address: format!("{address:x}") }
        };
        Stack { user, row, frames: self.addresses(event).into_iter().map(frame).collect() }
    }
}

/// Fields and stacks of event number `row`; nothing if there is none.
pub fn detail(file: &TraceFile<'_>, rows: &Rows<'_>, index: &Index, row: u64) -> Option<Detail> {
    if row >= index.events {
        return None;
    }
    let stacks = Stacks::new(file);
    let pid_of = file.common_pid();
    let pid = |e: &Event<'_>| pid_of.map_or(0, |f| f.i64(e.payload) as i32);
    let mut found: Option<(Detail, u32, i32, bool)> = None;
    let mut at = row;
    let mut near = 0;
    rows.events(index, row, &mut |e| {
        let this = at;
        at += 1;
        near += 1;
        let Some((detail, cpu, task, own)) = &mut found else {
            let mut detail = of_event(file, e);
            let own = stacks.is(e.id);
            detail.stacks.extend(own.map(|user| stacks.stack(e, user, this)));
            found = Some((detail, e.cpu, pid(e), own.is_some()));
            return !stacks.kinds.is_empty() && own.is_none();
        };
        if e.cpu != *cpu {
            return near < NEAR;
        }
        // The next event that is no stack ends the search.
        let Some(user) = stacks.is(e.id).filter(|_| pid(e) == *task && !*own) else { return false };
        detail.stacks.push(stacks.stack(e, user, this));
        detail.stacks.len() < 2
    });
    found.map(|f| f.0)
}

/// The fields of an event.
fn of_event(file: &TraceFile<'_>, event: &Event<'_>) -> Detail {
    let Some(format) = file.formats.get(event.id) else {
        let name = format!("unknown {}", event.id);
        return Detail { name, ..Detail::default() };
    };
    let common = format.common_fields().len();
    let field = |(i, f): (usize, &Field)| FieldText {
        name: f.name.to_string(),
        ty: f.ty.to_string(),
        value: text(file, f, unit(format, &f.name), event.payload),
        unit: unit(format, &f.name),
        common: i < common,
    };
    let fields = format.fields().iter().enumerate().map(field).collect();
    Detail { name: format.full_name(), fields, stacks: Vec::new() }
}

/// A field's value as text: numbers decimal, addresses hexadecimal with their symbol.
pub fn text(file: &TraceFile<'_>, field: &Field, unit: &str, payload: &[u8]) -> String {
    let address = |n: u64| {
        let long = field.is_long() && !field.signed && unit.is_empty();
        field.is_pointer() || long && is_address(file, n)
    };
    match field.value(payload) {
        Value::Unsigned(n) if address(n) => address_text(file, n),
        Value::Signed(n) if field.is_pointer() => address_text(file, n as u64),
        Value::Signed(n) => n.to_string(),
        Value::Unsigned(n) => n.to_string(),
        Value::Text(t) => String::from_utf8_lossy(t).into_owned(),
        Value::Bytes(bytes) => array(file, field, bytes),
    }
}

/// Whether an `unsigned long` is in the upper part of the address space, where the kernel is: lower
/// ones are counts, flags, or offsets in the memory of a CPU.
fn is_address(file: &TraceFile<'_>, n: u64) -> bool {
    n >= if file.long_size() == 4 { 0x4000_0000 } else { 1 << 32 }
}

fn array(file: &TraceFile<'_>, field: &Field, bytes: &[u8]) -> String {
    let width = field.element().clamp(1, 8) as usize;
    let long = field.is_long() && matches!(field.kind, FieldKind::Array { .. });
    let mut out = String::new();
    let mut numbers = bytes.chunks_exact(width).map_while(|b| field.endian.uint(b, width));
    for n in numbers.by_ref().take(ELEMENTS) {
        if !out.is_empty() {
            out.push(' ');
        }
        match width {
            _ if long && is_address(file, n) => out.push_str(&address_text(file, n)),
            // Bytes without a meaning of their own.
            1 => _ = write!(out, "{n:02x}"),
            _ => _ = write!(out, "{n}"),
        }
    }
    let more = numbers.count();
    if more > 0 {
        _ = write!(out, " … {more} more");
    }
    out
}

fn address_text(file: &TraceFile<'_>, n: u64) -> String {
    let mut out = format!("0x{n:x}");
    if let Some(s) = file.symbols.find(n).filter(|_| is_address(file, n)) {
        _ = write!(out, " {}+0x{:x}", String::from_utf8_lossy(s.name), s.offset);
    }
    out
}

/// Beginning of the names of events, field, unit: from the kernel's `include/trace/events`.
const UNITS: [(&str, &str, &str); 31] = [
    ("sched_stat_", "delay", "ns"),
    ("sched_stat_", "runtime", "ns"),
    ("sched_stat_", "vruntime", "ns"),
    ("hrtimer_", "expires", "ns"),
    ("hrtimer_", "softexpires", "ns"),
    ("hrtimer_", "now", "ns"),
    ("timer_", "expires", "jiffies"),
    ("timer_", "now", "jiffies"),
    ("timer_", "baseclk", "jiffies"),
    ("itimer_", "value_sec", "s"),
    ("itimer_", "interval_sec", "s"),
    ("itimer_", "value_nsec", "ns"),
    ("itimer_", "interval_nsec", "ns"),
    ("cpu_frequency", "state", "kHz"),
    ("cpu_frequency", "min_freq", "kHz"),
    ("cpu_frequency", "max_freq", "kHz"),
    ("funcgraph_exit", "calltime", "ns"),
    ("funcgraph_exit", "rettime", "ns"),
    ("irq_noise", "duration", "ns"),
    ("irq_noise", "start", "ns"),
    ("softirq_noise", "duration", "ns"),
    ("softirq_noise", "start", "ns"),
    ("thread_noise", "duration", "ns"),
    ("thread_noise", "start", "ns"),
    ("nmi_noise", "duration", "ns"),
    ("sample_threshold", "duration", "ns"),
    ("timerlat", "timer_latency", "ns"),
    ("km", "bytes_req", "B"),
    ("km", "bytes_alloc", "B"),
    ("net", "len", "B"),
    ("block_", "nr_sector", "sectors of 512 B"),
];

/// The unit of a field, or nothing.
pub fn unit(format: &EventFormat, field: &str) -> &'static str {
    let found =
        UNITS.iter().find(|(event, name, _)| format.name.starts_with(event) && *name == field);
    found.map_or("", |u| u.2)
}
