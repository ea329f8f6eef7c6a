//! A trace made of parts: formats, names, and records on ring-buffer pages.
//!
//! The reader of text ends here, and so do generators of test files: what
//! comes out is read by the same code as a recording.

use super::line::Head;
use crate::file::{Buffer, CpuData, Memory, Options, PageLayout};
use crate::names::{Comms, PrintkFormats, Symbols};
use crate::ring::PageEncoder;
use crate::{Diagnostics, Endian, EventFormat, Formats, Missed, TraceFile};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

const PAGE: u32 = 4096;
/// Bytes before an event's own fields.
const COMMON: usize = 8;
/// Longer texts are cut: a record has to fit a page.
const TEXT_MAX: usize = 3000;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    I32,
    U64,
    I64,
    Text,
}

/// Events whose fields are known: system, name, fields. `t` text, `i` int, `u` u64, `s` s64.
const KNOWN: &[(&str, &str, &str)] = &[
    (
        "sched",
        "sched_switch",
        "t:prev_comm i:prev_pid i:prev_prio s:prev_state t:next_comm i:next_pid i:next_prio",
    ),
    ("sched", "sched_waking", "t:comm i:pid i:prio i:target_cpu"),
    ("sched", "sched_wakeup", "t:comm i:pid i:prio i:target_cpu"),
    ("sched", "sched_wakeup_new", "t:comm i:pid i:prio i:target_cpu"),
    ("sched", "sched_migrate_task", "t:comm i:pid i:prio i:orig_cpu i:dest_cpu"),
    ("sched", "sched_process_fork", "t:parent_comm i:parent_pid t:child_comm i:child_pid"),
    ("sched", "sched_process_exec", "t:filename i:pid i:old_pid"),
    ("sched", "sched_process_exit", "t:comm i:pid i:prio"),
    ("sched", "sched_process_free", "t:comm i:pid i:prio"),
    ("sched", "sched_stat_runtime", "t:comm i:pid u:runtime"),
    ("sched", "sched_pi_setprio", "t:comm i:pid i:oldprio i:newprio"),
    ("task", "task_rename", "i:pid t:oldcomm t:newcomm"),
    ("irq", "irq_handler_entry", "i:irq t:name"),
    ("irq", "irq_handler_exit", "i:irq i:ret"),
    ("irq", "softirq_entry", "i:vec"),
    ("irq", "softirq_exit", "i:vec"),
    ("irq", "softirq_raise", "i:vec"),
    ("timer", "timer_init", "u:timer"),
    ("timer", "timer_start", "u:timer u:function u:expires u:flags"),
    ("timer", "timer_cancel", "u:timer"),
    ("timer", "timer_expire_entry", "u:timer u:function u:now u:baseclk"),
    ("timer", "timer_expire_exit", "u:timer"),
    ("timer", "hrtimer_start", "u:hrtimer u:function s:expires s:softexpires"),
    ("timer", "hrtimer_cancel", "u:hrtimer"),
    ("timer", "hrtimer_expire_entry", "u:hrtimer u:function s:now"),
    ("timer", "hrtimer_expire_exit", "u:hrtimer"),
    ("power", "cpu_idle", "u:state u:cpu_id"),
    ("power", "cpu_frequency", "u:state u:cpu_id"),
    ("raw_syscalls", "sys_enter", "s:id"),
    ("raw_syscalls", "sys_exit", "s:id s:ret"),
    ("osnoise", "thread_noise", "t:comm i:pid u:start u:duration"),
    ("osnoise", "irq_noise", "t:desc i:vector u:start u:duration"),
    ("osnoise", "softirq_noise", "t:desc i:vector u:start u:duration"),
    ("osnoise", "nmi_noise", "u:start u:duration"),
    ("ftrace", "timerlat", "u:seqnum u:context u:timer_latency"),
    ("ftrace", "function", "u:ip u:parent_ip"),
    ("ftrace", "funcgraph_entry", "u:func u:depth"),
    ("ftrace", "funcgraph_exit", "u:func u:depth u:overrun u:calltime u:rettime"),
    ("ftrace", "print", "u:ip t:buf"),
];

#[derive(Debug)]
struct Shape {
    id: u16,
    fields: Vec<(Kind, String)>,
}

/// One CPU's pages: those that are full, and the one that is written.
#[derive(Debug)]
struct Pages {
    full: Vec<u8>,
    last: PageEncoder,
}

impl Default for Pages {
    fn default() -> Self {
        Self { full: Vec::new(), last: PageEncoder::new(page_layout(), Endian::Little) }
    }
}

/// Pages of a kernel of 64 bits.
fn page_layout() -> PageLayout {
    PageLayout::new(8, PAGE)
}

/// What a CPU takes: its page, and what reads it.
const CPU: u64 = 3 * PAGE as u64;
/// What a name or a format takes, in lengths of its text: tables are larger than it.
const TABLE_WEIGHT: u64 = 8;

/// Collects events.
#[derive(Debug, Default)]
pub struct TraceBuilder {
    /// Memory that the trace takes, bytes.
    used: u64,
    shapes: HashMap<String, Shape>,
    formats: Formats,
    cpus: BTreeMap<u32, Pages>,
    comms: Comms,
    symbols: HashMap<Vec<u8>, u64>,
    kallsyms: Vec<u8>,
    diagnostics: Diagnostics,
}

impl TraceBuilder {
    /// Whether nothing more fits into `memory` bytes: the pages of the longest CPU are there twice for a moment.
    pub(super) fn is_full(&self, memory: u64) -> bool {
        self.used >= memory / 2
    }

    pub(super) fn damage(&mut self, offset: u64, what: String) {
        self.diagnostics.push(None, offset, what);
    }

    /// An address for a symbol's name: the same for the same name.
    pub(super) fn symbol(&mut self, name: &[u8]) -> u64 {
        let name = name.trim_ascii();
        let name =
            &name[..name.iter().position(|b| *b == b' ' || *b == b'+').unwrap_or(name.len())];
        if name.is_empty() {
            return 0;
        }
        if let Some(address) = self.symbols.get(name) {
            return *address;
        }
        let address = 0x1_0000 + 16 * self.symbols.len() as u64;
        self.kallsyms.extend_from_slice(format!("{address:016x} T ").as_bytes());
        self.kallsyms.extend_from_slice(name);
        self.kallsyms.push(b'\n');
        self.symbols.insert(name.to_vec(), address);
        self.used += TABLE_WEIGHT * (name.len() as u64 + 20);
        address
    }

    /// An event from its text.
    pub(super) fn event(&mut self, head: &Head<'_>, lost: Option<u64>, name: &[u8], text: &[u8]) {
        let text = &text[..text.len().min(TEXT_MAX)];
        if !head.comm.starts_with(b"<") {
            self.comms.learn(head.pid, head.comm);
        }
        let mut name = String::from_utf8_lossy(name).into_owned();
        if name == "tracing_mark_write" || name == "bprint" || name == "bputs" {
            name = "print".into();
        }
        let pairs = super::pairs::pairs(&name, text);
        if !self.shapes.contains_key(&name) && !self.shape(&name, &pairs) {
            return;
        }
        let Some(shape) = self.shapes.get(&name) else { return };
        let (id, fields) = (shape.id, shape.fields.clone());
        let mut body = Body::new(id, head, &fields);
        for (at, (kind, field)) in fields.iter().enumerate() {
            let value = match field.as_str() {
                "text" if at + 1 == fields.len() => text,
                _ => pairs.get(field.as_str()).map_or(&[][..], |v| v),
            };
            match kind {
                Kind::Text => body.text(at, value),
                _ => {
                    let number = self.number(&name, field, value);
                    body.number(at, number);
                }
            }
        }
        self.record(head.cpu, head.time_ns, lost, &body.finish());
    }

    /// A field's number: decimal, hexadecimal, a state's letters, or a function's name.
    fn number(&mut self, event: &str, field: &str, value: &[u8]) -> u64 {
        let word =
            value.split(|b| *b == b' ' || *b == b']' || *b == b',').next().unwrap_or_default();
        match field {
            "function" | "ip" | "parent_ip" | "callsite" | "callback" => return self.symbol(word),
            "prev_state" => return state(word),
            "ret" if event == "irq_handler_exit" => return u64::from(word == b"handled"),
            "timer" | "hrtimer" | "work" => {
                let hex = word.strip_prefix(b"0x").unwrap_or(word);
                let hex = std::str::from_utf8(hex).ok();
                return hex.and_then(|h| u64::from_str_radix(h, 16).ok()).unwrap_or(0);
            }
            _ => {}
        }
        super::pairs::number(word).unwrap_or(0)
    }

    pub(super) fn call(&mut self, head: &Head<'_>, func: u64, depth: u64) {
        self.numbers(head, "funcgraph_entry", &[func, depth]);
    }

    pub(super) fn ret(&mut self, head: &Head<'_>, func: u64, depth: u64, start: u64, end: u64) {
        self.numbers(head, "funcgraph_exit", &[func, depth, 0, start, end]);
    }

    /// An event whose fields are all numbers.
    fn numbers(&mut self, head: &Head<'_>, name: &str, values: &[u64]) {
        if !self.shapes.contains_key(name) && !self.shape(name, &HashMap::new()) {
            return;
        }
        self.comms.learn(head.pid, head.comm);
        let Some(shape) = self.shapes.get(name) else { return };
        let mut body = Body::new(shape.id, head, &shape.fields);
        for (at, value) in values.iter().enumerate() {
            body.number(at, *value);
        }
        self.record(head.cpu, head.time_ns, None, &body.finish());
    }

    /// Makes the format of a new kind; false when there are too many.
    fn shape(&mut self, name: &str, pairs: &HashMap<&str, &[u8]>) -> bool {
        let Ok(id) = u16::try_from(self.formats.len() + 1) else { return false };
        let known = KNOWN.iter().find(|(_, n, _)| *n == name);
        let system = known.map_or_else(|| super::pairs::system_of(name), |k| k.0);
        let mut fields: Vec<(Kind, String)> = Vec::new();
        match known {
            Some((.., list)) => {
                for item in list.split(' ') {
                    let (kind, field) = item.split_once(':').unwrap_or(("u", item));
                    let kind = match kind {
                        "t" => Kind::Text,
                        "i" => Kind::I32,
                        "s" => Kind::I64,
                        _ => Kind::U64,
                    };
                    fields.push((kind, field.to_owned()));
                }
            }
            None => {
                let mut named: Vec<_> = pairs.iter().collect();
                // In the order of the text.
                named.sort_by_key(|(_, v)| v.as_ptr() as usize);
                for (field, value) in named.into_iter().take(64) {
                    let is_number = super::pairs::number(value.trim_ascii()).is_some();
                    let kind = if is_number { Kind::I64 } else { Kind::Text };
                    fields.push((kind, (*field).to_owned()));
                }
            }
        }
        let with_text =
            !matches!(name, "print" | "function" | "funcgraph_entry" | "funcgraph_exit");
        fields.retain(|(_, f)| f != "text");
        if with_text {
            fields.push((Kind::Text, "text".into()));
        }
        let text = format_text(name, id, &fields, with_text);
        let Some(format) = EventFormat::parse(system, &text, Endian::Little) else { return false };
        self.formats.add(format);
        self.used += TABLE_WEIGHT * text.len() as u64;
        self.shapes.insert(name.to_owned(), Shape { id, fields });
        true
    }

    /// Puts a record on its CPU's page.
    fn record(&mut self, cpu: u32, time: u64, lost: Option<u64>, payload: &[u8]) {
        let used = &mut self.used;
        let pages = self.cpus.entry(cpu).or_insert_with(|| {
            *used += CPU;
            Pages::default()
        });
        let missed = match lost {
            None => Missed::No,
            Some(0) => Missed::Unknown,
            Some(count) => Missed::Count(count),
        };
        if !pages.last.push(time, payload, missed) {
            pages.last.finish(&mut pages.full);
            self.used += u64::from(PAGE);
            // A record is shorter than a page: see TEXT_MAX.
            let _ = pages.last.push(time, payload, missed);
        }
    }

    /// The trace, which may take `memory` bytes.
    pub(super) fn finish(mut self, memory: u64) -> TraceFile<'static> {
        let mut cpus = Vec::new();
        let mut size = 0;
        for (cpu, pages) in &mut self.cpus {
            pages.last.finish(&mut pages.full);
            cpus.push(CpuData { cpu: *cpu, offset: size, size: pages.full.len() as u64 });
            size += pages.full.len() as u64;
        }
        let mut data = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        for pages in self.cpus.into_values() {
            data.extend_from_slice(&pages.full);
        }
        let highest = cpus.iter().map(|c| c.cpu.saturating_add(1)).max().unwrap_or(0);
        TraceFile {
            memory: Memory::new(memory),
            data: Cow::Owned(data),
            version: 0,
            endian: Endian::Little,
            user_long_size: 8,
            codec: crate::compress::Codec::None,
            buffers: vec![Buffer {
                name: String::new(),
                clock: String::new(),
                layout: page_layout(),
                codec: crate::compress::Codec::None,
                cpus,
            }],
            cpu_count: highest,
            formats: self.formats,
            symbols: Symbols::new(Cow::Owned(self.kallsyms)),
            printk: PrintkFormats::default(),
            comms: self.comms,
            options: Options::default(),
            latency_text: None,
            longest: None,
            diagnostics: self.diagnostics,
        }
    }
}

/// A record being written.
struct Body<'b> {
    fixed: Vec<u8>,
    offsets: Vec<usize>,
    fields: &'b [(Kind, String)],
    tail: Vec<u8>,
}

impl<'b> Body<'b> {
    fn new(id: u16, head: &Head<'_>, fields: &'b [(Kind, String)]) -> Self {
        let (offsets, size) = layout(fields);
        let mut fixed = Vec::with_capacity(size);
        fixed.extend_from_slice(&id.to_le_bytes());
        fixed.push(head.flags);
        fixed.push(head.preempt);
        fixed.extend_from_slice(&head.pid.to_le_bytes());
        fixed.resize(size, 0);
        Self { fixed, offsets, fields, tail: Vec::new() }
    }

    fn number(&mut self, at: usize, value: u64) {
        let Some(offset) = self.offsets.get(at).copied() else { return };
        let size = if self.fields[at].0 == Kind::I32 { 4 } else { 8 };
        self.fixed[offset..offset + size].copy_from_slice(&value.to_le_bytes()[..size]);
    }

    fn text(&mut self, at: usize, text: &[u8]) {
        let room = TEXT_MAX.saturating_sub(self.tail.len());
        let text = &text[..text.len().min(room)];
        let start = self.fixed.len() + self.tail.len();
        let word = ((text.len() as u32 + 1) << 16) | start as u32;
        let offset = self.offsets[at];
        self.fixed[offset..offset + 4].copy_from_slice(&word.to_le_bytes());
        self.tail.extend_from_slice(text);
        self.tail.push(0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.fixed.extend_from_slice(&self.tail);
        self.fixed.resize(self.fixed.len().next_multiple_of(4), 0);
        self.fixed
    }
}

/// Where each field lies, and where they end.
fn layout(fields: &[(Kind, String)]) -> (Vec<usize>, usize) {
    let mut at = COMMON;
    let mut offsets = Vec::with_capacity(fields.len());
    for (kind, _) in fields {
        let size = if matches!(kind, Kind::I32 | Kind::Text) { 4 } else { 8 };
        at = at.next_multiple_of(size);
        offsets.push(at);
        at += size;
    }
    (offsets, at.next_multiple_of(4))
}

fn format_text(name: &str, id: u16, fields: &[(Kind, String)], with_text: bool) -> String {
    let mut text = format!(
        "name: {name}\nID: {id}\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
    );
    let (offsets, _) = layout(fields);
    for ((kind, field), offset) in fields.iter().zip(offsets) {
        let (ty, size, signed) = match kind {
            Kind::I32 => ("int", 4, 1),
            Kind::U64 => ("u64", 8, 0),
            Kind::I64 => ("s64", 8, 1),
            Kind::Text => ("__data_loc char[]", 4, 0),
        };
        let _ = writeln!(
            text,
            "\tfield:{ty} {field};\toffset:{offset};\tsize:{size};\tsigned:{signed};"
        );
    }
    text.push_str("\nprint fmt: ");
    text.push_str(match name {
        "function" => r#"" %ps <-- %ps", (void *)REC->ip, (void *)REC->parent_ip"#,
        "funcgraph_entry" => r#""--> %ps (%u)", (void *)REC->func, REC->depth"#,
        "funcgraph_exit" => r#""<-- %ps (%u)", (void *)REC->func, REC->depth"#,
        _ if with_text => r#""%s", __get_str(text)"#,
        _ => r#""%s", __get_str(buf)"#,
    });
    text.push('\n');
    text
}

/// A task's state from its letters; 0 runnable. The bits are those of recent kernels.
fn state(letters: &[u8]) -> u64 {
    letters.iter().fold(0, |bits, l| {
        bits | match l {
            b'S' => 1,
            b'D' => 2,
            b'T' => 4,
            b't' => 8,
            b'X' => 16,
            b'Z' => 32,
            b'P' => 64,
            b'I' => 128,
            b'+' => 256,
            _ => 0,
        }
    })
}
