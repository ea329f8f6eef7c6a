//! Where the fields of known events lie in this trace.

use super::typed::{Fixed, Typed};
use super::values::{Common, FieldNames, Slot, Stack, SysEnter, SysExit, Vector};
use crate::{Endian, Event, EventFormat, TraceFile};

/// Kind and fields of one event.
#[derive(Debug)]
struct Plan {
    kind: Kind,
    slots: Box<[Slot]>,
    name: Box<str>,
    width: u8,
}

/// An event with fixed fields, or one that is known by a pattern or whose fields vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Fixed(Fixed),
    VectorEntry,
    VectorExit,
    SysEnter,
    SysExit,
    KernelStack,
}

/// The kind of an event, and its fields' names.
fn kind_of(system: &str, name: &str) -> Option<(Kind, FieldNames)> {
    const NR: &[&str] = &["__syscall_nr", "nr", "id"];
    if let Some((fixed, fields)) = Fixed::find(name) {
        return Some((Kind::Fixed(fixed), fields));
    }
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

    #[inline]
    fn decode<'e>(&'e self, payload: &'e [u8]) -> Typed<'e> {
        match self.kind {
            Kind::Fixed(fixed) => fixed.decode(&self.slots, payload),
            Kind::VectorEntry => Typed::VectorEntry(self.vector(payload)),
            Kind::VectorExit => Typed::VectorExit(self.vector(payload)),
            Kind::SysEnter => Typed::SysEnter(self.sys_enter(payload)),
            Kind::SysExit => Typed::SysExit(self.sys_exit(payload)),
            Kind::KernelStack => Typed::KernelStack(self.stack(payload)),
        }
    }

    fn vector(&self, payload: &[u8]) -> Vector<'_> {
        Vector { name: &self.name, vector: self.slots[0].i64(payload) as i32 }
    }

    fn sys_enter(&self, payload: &[u8]) -> SysEnter<'_> {
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

    fn sys_exit(&self, payload: &[u8]) -> SysExit<'_> {
        let (nr, ret) = (self.slots[0].i64(payload), self.slots[1].i64(payload));
        SysExit { nr, name: &self.name, ret }
    }

    fn stack<'e>(&self, payload: &'e [u8]) -> Stack<'e> {
        let (at, endian) = match &self.slots[0].0 {
            Some(f) => (f.offset as usize, f.endian),
            None => (payload.len(), Endian::Little),
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
