//! Where the fields of known events lie in this trace.

use super::{Kind, Typed, kind_of};
use crate::format::Field;
use crate::{Event, EventFormat, TraceFile};

/// A field's place, or its absence.
#[derive(Debug)]
pub struct Slot(Option<Field>);

impl Slot {
    #[inline]
    pub(crate) fn u64(&self, payload: &[u8]) -> u64 {
        self.0.as_ref().map_or(0, |f| f.u64(payload))
    }
    #[inline]
    pub(crate) fn i64(&self, payload: &[u8]) -> i64 {
        self.0.as_ref().map_or(0, |f| f.i64(payload))
    }
    #[inline]
    pub(crate) fn text<'e>(&self, payload: &'e [u8]) -> &'e [u8] {
        self.0.as_ref().map_or(&[], |f| f.text(payload))
    }
}

/// A struct that can be read from a record.
pub trait Get<'e>: Sized {
    /// Names of its fields, each with its other names, in order.
    const FIELDS: &'static [&'static [&'static str]];
    /// Reads it.
    fn get(slots: &[Slot], payload: &'e [u8]) -> Self;
}

/// What every event says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Common {
    /// The task that was running.
    pub pid: i32,
    /// Bits: 1 interrupts off, 2 flags unknown, 4 need resched, 8 hard interrupt, 16 softirq, 32 preempt-resched, 64 NMI, 128 bottom halves off.
    pub flags: u8,
    /// Depth of disabled preemption (lower four bits) and of disabled migration (upper four).
    pub preempt_count: u8,
}

impl Common {
    /// Interrupts were off.
    pub const IRQS_OFF: u8 = 0x01;
    /// The task was to be preempted.
    pub const NEED_RESCHED: u8 = 0x04;
    /// In a hard interrupt.
    pub const HARDIRQ: u8 = 0x08;
    /// In a softirq.
    pub const SOFTIRQ: u8 = 0x10;
    /// Preemption was asked for.
    pub const PREEMPT_RESCHED: u8 = 0x20;
    /// In a non-maskable interrupt.
    pub const NMI: u8 = 0x40;
    /// Bottom halves were off.
    pub const BH_OFF: u8 = 0x80;
}

/// An interrupt vector of x86.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vector<'e> {
    /// Name (`local_timer`, `reschedule`, `call_function`…).
    pub name: &'e str,
    /// Number.
    pub vector: i32,
}

/// Entry to a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SysEnter<'e> {
    /// Number on the recorded machine.
    pub nr: i64,
    /// Name, where the event tells (`syscalls:sys_enter_read`); empty for `raw_syscalls`.
    pub name: &'e str,
    /// Arguments as they were in the registers; those that were not recorded are 0.
    pub args: [u64; 6],
}

/// Exit from a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SysExit<'e> {
    /// Number on the recorded machine.
    pub nr: i64,
    /// Name, where the event tells; empty for `raw_syscalls`.
    pub name: &'e str,
    /// What it returned; −1 to −4095 are errors.
    pub ret: i64,
}

/// Return addresses, innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack<'e> {
    bytes: &'e [u8],
    width: usize,
    endian: crate::Endian,
}

impl<'e> Stack<'e> {
    /// The addresses.
    pub fn addresses(self) -> impl Iterator<Item = u64> + 'e {
        let end = if self.width == 4 { u64::from(u32::MAX) } else { u64::MAX };
        self.bytes
            .chunks_exact(self.width)
            .map(move |b| self.endian.uint(b, self.width).unwrap_or(0))
            .take_while(move |a| *a != end && *a != 0)
    }
}

/// Kind and fields of one event.
#[derive(Debug)]
pub(crate) struct Plan {
    pub kind: Kind,
    pub slots: Box<[Slot]>,
    name: Box<str>,
    width: u8,
}

/// Events that are known by a pattern or whose fields vary.
pub(crate) fn special(
    system: &str,
    name: &str,
) -> Option<(Kind, &'static [&'static [&'static str]])> {
    const NR: &[&str] = &["__syscall_nr", "nr", "id"];
    match (system, name) {
        ("irq_vectors", n) if n.ends_with("_entry") => Some((Kind::VectorEntry, &[&["vector"]])),
        ("irq_vectors", n) if n.ends_with("_exit") => Some((Kind::VectorExit, &[&["vector"]])),
        ("raw_syscalls", "sys_enter") => Some((Kind::SysEnter, &[NR, &["args"]])),
        ("raw_syscalls", "sys_exit") => Some((Kind::SysExit, &[NR, &["ret"]])),
        ("syscalls", n) if n.starts_with("sys_enter_") => Some((Kind::SysEnter, &[NR])),
        ("syscalls", n) if n.starts_with("sys_exit_") => Some((Kind::SysExit, &[NR, &["ret"]])),
        ("ftrace", "kernel_stack") => Some((Kind::KernelStack, &[&["caller"]])),
        _ => None,
    }
}

impl Plan {
    fn new(format: &EventFormat, long_size: u8) -> Option<Self> {
        let (kind, fields) = kind_of(&format.system, &format.name)?;
        let find = |names: &&[&str]| Slot(names.iter().find_map(|n| format.field(n)).cloned());
        let mut slots: Vec<Slot> = fields.iter().map(find).collect();
        if kind == Kind::SysEnter && &*format.system == "syscalls" {
            // The arguments are the fields behind the number.
            slots.extend(format.own_fields().iter().skip(1).take(6).map(|f| Slot(Some(f.clone()))));
        }
        let name = match kind {
            Kind::VectorEntry => format.name.strip_suffix("_entry").unwrap_or_default(),
            Kind::VectorExit => format.name.strip_suffix("_exit").unwrap_or_default(),
            Kind::SysEnter => format.name.strip_prefix("sys_enter_").unwrap_or_default(),
            Kind::SysExit => format.name.strip_prefix("sys_exit_").unwrap_or_default(),
            _ => "",
        };
        Some(Self { kind, slots: slots.into(), name: name.into(), width: long_size })
    }

    pub(crate) fn vector(&self, payload: &[u8]) -> Vector<'_> {
        Vector { name: &self.name, vector: self.slots[0].i64(payload) as i32 }
    }

    pub(crate) fn sys_enter(&self, payload: &[u8]) -> SysEnter<'_> {
        let mut args = [0; 6];
        if self.name.is_empty() {
            if let Slot(Some(field)) = &self.slots[1] {
                let width = field.element() as usize;
                let bytes = field.bytes(payload);
                for (arg, b) in args.iter_mut().zip(bytes.chunks_exact(width.max(1))) {
                    *arg = field.endian.uint(b, width).unwrap_or(0);
                }
            }
        } else {
            for (arg, slot) in args.iter_mut().zip(&self.slots[1..]) {
                *arg = slot.u64(payload);
            }
        }
        SysEnter { nr: self.slots[0].i64(payload), name: &self.name, args }
    }

    pub(crate) fn sys_exit(&self, payload: &[u8]) -> SysExit<'_> {
        let (nr, ret) = (self.slots[0].i64(payload), self.slots[1].i64(payload));
        SysExit { nr, name: &self.name, ret }
    }

    pub(crate) fn stack<'e>(&self, payload: &'e [u8]) -> Stack<'e> {
        let (at, endian) = match &self.slots[0].0 {
            Some(f) => (f.offset as usize, f.endian),
            None => (payload.len(), crate::Endian::Little),
        };
        // The record says how deep it is by its own length: the field's size is only a minimum.
        Stack {
            bytes: payload.get(at..).unwrap_or_default(),
            width: usize::from(self.width),
            endian,
        }
    }
}

/// Decodes the events of one trace.
#[derive(Debug)]
pub struct Decoder {
    /// By event number.
    plans: Vec<Option<Box<Plan>>>,
    pid: Slot,
    flags: Slot,
    preempt_count: Slot,
}

impl Decoder {
    /// Finds the known events of a trace and their fields.
    pub fn new(file: &TraceFile<'_>) -> Self {
        let mut plans: Vec<Option<Box<Plan>>> = Vec::new();
        for format in file.formats.iter() {
            if let Some(plan) = Plan::new(format, file.long_size()) {
                let at = usize::from(format.id);
                if plans.len() <= at {
                    plans.resize_with(at + 1, || None);
                }
                plans[at] = Some(Box::new(plan));
            }
        }
        let common =
            |name: &str| Slot(file.formats.iter().next().and_then(|f| f.field(name)).cloned());
        Self {
            plans,
            pid: common("common_pid"),
            flags: common("common_flags"),
            preempt_count: common("common_preempt_count"),
        }
    }

    /// What every event says.
    #[inline]
    pub fn common(&self, event: &Event<'_>) -> Common {
        Common {
            pid: self.pid.i64(event.payload) as i32,
            flags: self.flags.u64(event.payload) as u8,
            preempt_count: self.preempt_count.u64(event.payload) as u8,
        }
    }

    /// The task that was running.
    #[inline]
    pub fn pid(&self, event: &Event<'_>) -> i32 {
        self.pid.i64(event.payload) as i32
    }

    /// One event.
    #[inline]
    pub fn decode<'e>(&'e self, event: &Event<'e>) -> Typed<'e> {
        match self.plans.get(usize::from(event.id)) {
            Some(Some(plan)) => plan.decode(event.payload),
            _ => Typed::Other,
        }
    }
}
