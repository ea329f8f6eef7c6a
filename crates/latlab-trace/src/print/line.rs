//! The lines of a report, column by column as `trace-cmd report` prints them.
//!
//! ```text
//! rinst:        hackbench-1965  [001]  3853.889332: timer_init:           timer=0x…
//! CPU:1 [337 EVENTS DROPPED]
//! ```

use super::graph::Graph;
use super::notes::Note;
use super::{Dialect, EventFormatter, number};
use crate::events::Common;
use crate::file::clock_counts_ns;
use crate::names::Comms;
use crate::{Event, Field, Missed, TraceFile};

/// How lines look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineStyle {
    /// Whose text.
    pub dialect: Dialect,
    /// The latency column instead of the CPU in brackets (`-l`).
    pub latency: bool,
    /// Time stamps to the nanosecond (`-t`).
    pub nanoseconds: bool,
    /// One JSON object a line instead of columns.
    pub json: bool,
    /// Only these events field by field (numbers of kinds; `-r`).
    pub fields_of: Vec<u16>,
}

/// Prints lines. May be shared between threads.
#[derive(Debug)]
pub struct Printer<'f> {
    texts: EventFormatter<'f>,
    fields: EventFormatter<'f>,
    style: LineStyle,
    /// `name:`, filled to the column, by event number.
    names: Vec<Option<Name>>,
    /// `instance:`, filled to the column, by buffer.
    prefixes: Vec<Box<[u8]>>,
    common: Vec<(Which, Field)>,
    /// Whether the clock counts nanoseconds.
    seconds: bool,
    graph: Option<Graph<'f>>,
}

/// A name in its column.
#[derive(Clone, Debug)]
struct Name {
    short: [u8; 32],
    len: usize,
    /// All of it, where it is longer.
    long: Box<[u8]>,
}

impl Name {
    fn new(text: &str) -> Self {
        let mut name = text.as_bytes().to_vec();
        name.push(b':');
        name.resize(name.len().max(TEXT_COLUMN), b' ');
        name.push(b' ');
        let mut short = [0; 32];
        let len = name.len();
        if len > short.len() {
            return Self { short, len, long: name.into() };
        }
        short[..len].copy_from_slice(&name);
        Self { short, len, long: Box::default() }
    }

    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        if self.long.is_empty() {
            number::short(out, &self.short, self.len);
        } else {
            out.extend_from_slice(&self.long);
        }
    }
}

/// How the lines of the tasks that were met last begin: `comm-pid [cpu]`. Each thread has its own.
#[derive(Debug, Default)]
pub(super) struct LinePrefixCache(Vec<(u64, [u8; 40], usize)>);

impl LinePrefixCache {
    const SLOTS: usize = 512;

    /// Where the head of a task on a CPU is kept; `None` when none are.
    #[inline]
    fn slot(&mut self, key: u64) -> Option<&mut (u64, [u8; 40], usize)> {
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55;
        self.0.get_mut(hash as usize)
    }

    /// With room for some.
    pub fn new() -> Self {
        Self(vec![(u64::MAX, [0; 40], 0); Self::SLOTS])
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Flags,
    Preempt,
    Migrate,
    Lock,
}

/// Where the text begins, behind a name and its colon.
const TEXT_COLUMN: usize = 21;

impl<'f> Printer<'f> {
    /// For the events of one file.
    pub fn new(file: &'f TraceFile<'_>, style: LineStyle) -> Self {
        let highest = file.formats.iter().map(|f| usize::from(f.id) + 1).max().unwrap_or(0);
        let mut names: Vec<Option<Name>> = vec![None; highest];
        for format in file.formats.iter() {
            names[usize::from(format.id)] = Some(Name::new(&format.name));
        }
        let widest = file.buffers.iter().map(|b| b.name.len()).max().unwrap_or(0);
        let prefix = |b: &crate::file::Buffer| {
            let mut text = b.name.as_bytes().to_vec();
            if widest > 0 {
                text.extend_from_slice(if b.name.is_empty() { b" " } else { b":" });
                text.resize(widest + 2, b' ');
            }
            text.into_boxed_slice()
        };
        let fields = [
            (Which::Flags, "common_flags"),
            (Which::Preempt, "common_preempt_count"),
            (Which::Migrate, "common_migrate_disable"),
            (Which::Lock, "common_lock_depth"),
        ];
        let first = file.formats.iter().next();
        let common = fields
            .iter()
            .filter_map(|(which, name)| Some((*which, first?.field(name)?.clone())))
            .collect();
        let drawn = |g: &Graph<'_>| {
            let plain = |id| !style.fields_of.contains(&id);
            style.dialect != Dialect::Fields && !style.json && plain(g.entry) && plain(g.exit)
        };
        Self {
            graph: Graph::new(file, style.dialect).filter(drawn),
            texts: EventFormatter::new(file, style.dialect),
            fields: EventFormatter::new(file, Dialect::Fields),
            names,
            prefixes: file.buffers.iter().map(prefix).collect(),
            common,
            seconds: clock_counts_ns(file.clock()),
            style,
        }
    }

    /// The text of an event alone.
    pub fn texts(&self) -> &EventFormatter<'f> {
        &self.texts
    }

    /// Appends the line (or lines) of an event, with a newline at the end.
    pub fn line(&self, event: &Event<'_>, pid: i32, comm: &[u8], out: &mut Vec<u8>) {
        self.noted(event, None, pid, || comm, &mut LinePrefixCache::default(), out);
    }

    /// The same with what is known of the event from those beside it.
    pub(super) fn noted<'c>(
        &self,
        event: &Event<'_>,
        note: Option<Note>,
        pid: i32,
        comm: impl FnOnce() -> &'c [u8],
        heads: &mut LinePrefixCache,
        out: &mut Vec<u8>,
    ) {
        if self.style.json {
            return super::json::line(self.texts.file(), event, pid, comm(), out);
        }
        if event.missed != Missed::No {
            missed(event, out);
        }
        if let Some(prefix) = self.prefixes.get(usize::from(event.buffer)).filter(|p| !p.is_empty())
        {
            out.extend_from_slice(prefix);
        }
        if self.style.latency {
            let comm = comm();
            self.task(pid, &comm[..comm.len().min(8)], 8, out);
            number::padded(out, event.cpu.into(), 3);
            self.latency(event.payload, out);
        } else {
            self.head(pid, event.cpu, comm, heads, out);
        }
        self.time(event.time, out);
        match self.names.get(usize::from(event.id)) {
            Some(Some(name)) => name.put(out),
            _ => out.extend_from_slice(b"UNKNOWN:              "),
        }
        if self.style.fields_of.contains(&event.id) {
            self.fields.put(event.id, event.payload, out);
        } else {
            self.text(event, note, out);
        }
        out.push(b'\n');
    }

    /// `comm-pid [cpu]`, as it was printed last or anew.
    #[inline]
    fn head<'c>(
        &self,
        pid: i32,
        cpu: u32,
        comm: impl FnOnce() -> &'c [u8],
        heads: &mut LinePrefixCache,
        out: &mut Vec<u8>,
    ) {
        let key = u64::from(pid as u32) << 32 | u64::from(cpu);
        let slot = heads.slot(key);
        if let Some((_, text, len)) = slot.as_deref().filter(|s| s.0 == key && s.2 > 0) {
            return number::short(out, text, *len);
        }
        let comm = comm();
        let start = out.len();
        self.task(pid, comm, 16, out);
        out.push(b'[');
        number::zero_padded(out, cpu.into(), 3);
        out.push(b']');
        // A task that has no name yet may get one.
        let text = &out[start..];
        if let Some(slot) = slot.filter(|s| comm != Comms::UNKNOWN && text.len() <= s.1.len()) {
            slot.1[..text.len()].copy_from_slice(text);
            (slot.0, slot.2) = (key, text.len());
        }
    }

    /// `comm-pid `.
    fn task(&self, pid: i32, comm: &[u8], width: usize, out: &mut Vec<u8>) {
        right(out, comm, width);
        out.push(b'-');
        let start = out.len();
        number::signed(out, pid.into());
        let used = out.len() - start;
        if used < 5 {
            out.extend_from_slice(&b"     "[used..]);
        }
        out.push(b' ');
    }

    #[inline]
    fn text(&self, event: &Event<'_>, note: Option<Note>, out: &mut Vec<u8>) {
        if let Some(Note::Below(callers)) = note {
            out.resize(out.len() + usize::from(callers) * 3, b' ');
        }
        let drawn =
            self.graph.as_ref().is_some_and(|g| g.put(self.texts.context(), event, note, out));
        if !drawn {
            self.texts.put(event.id, event.payload, out);
        }
    }

    /// The calls of `function_graph`, when they are drawn as such.
    pub(super) fn graph(&self) -> Option<&Graph<'f>> {
        self.graph.as_ref()
    }

    #[inline]
    fn time(&self, time: u64, out: &mut Vec<u8>) {
        if self.seconds && !self.style.nanoseconds {
            // Rounded to the microsecond.
            return number::seconds(out, time.saturating_add(500) / 1000);
        }
        out.push(b' ');
        if self.seconds {
            number::padded(out, time / 1_000_000_000, 5);
            out.push(b'.');
            number::zero_padded(out, time % 1_000_000_000, 9);
        } else {
            number::padded(out, time, 12);
        }
        out.extend_from_slice(b": ");
    }

    /// Five characters: interrupts, need for a switch, context, preemption, migration or lock.
    fn latency(&self, payload: &[u8], out: &mut Vec<u8>) {
        let get =
            |which| self.common.iter().find(|(w, _)| *w == which).map(|(_, f)| f.i64(payload));
        let flags = get(Which::Flags).unwrap_or(0) as u8;
        let on = |bit: u8| flags & bit != 0;
        out.push(match (on(Common::IRQS_OFF), on(Common::BH_OFF)) {
            (true, true) => b'D',
            (true, false) => b'd',
            (false, true) => b'b',
            _ => b'.',
        });
        out.push(match (on(Common::NEED_RESCHED), on(Common::PREEMPT_RESCHED)) {
            (true, true) => b'N',
            (true, false) => b'n',
            (false, true) => b'p',
            _ => b'.',
        });
        out.push(match (on(Common::NMI), on(Common::HARDIRQ), on(Common::SOFTIRQ)) {
            (true, true, _) => b'Z',
            (true, ..) => b'z',
            (_, true, true) => b'H',
            (_, true, false) => b'h',
            (_, _, true) => b's',
            _ => b'.',
        });
        let preempt = get(Which::Preempt).unwrap_or(0) as u8;
        depth(out, preempt & 15);
        match get(Which::Migrate).or_else(|| get(Which::Lock).filter(|v| *v >= 0)) {
            Some(n) => depth(out, n.clamp(0, 255) as u8),
            None => depth(out, preempt >> 4),
        }
    }
}

fn depth(out: &mut Vec<u8>, n: u8) {
    match n {
        0 => out.push(b'.'),
        n => number::hex(out, n.into(), 0, false),
    }
}

/// What a CPU lost before an event.
fn missed(event: &Event<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"CPU:");
    number::decimal(out, event.cpu.into());
    out.extend_from_slice(b" [");
    if let Missed::Count(n) = event.missed {
        number::decimal(out, n);
        out.push(b' ');
    }
    out.extend_from_slice(b"EVENTS DROPPED]\n");
}

#[inline]
fn right(out: &mut Vec<u8>, text: &[u8], width: usize) {
    const BLANKS: &[u8; 16] = b"                ";
    if text.len() < width {
        out.extend_from_slice(&BLANKS[..(width - text.len()).min(16)]);
    }
    out.extend_from_slice(text);
}
