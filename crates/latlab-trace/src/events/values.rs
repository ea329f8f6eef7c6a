//! A field's place in a record, and values that more than one event has.

use crate::Endian;
use crate::format::Field;

/// A field's place, or its absence.
#[derive(Debug)]
pub struct Slot(pub(super) Option<Field>);

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
    /// The first 64 bits of a bit mask of `unsigned long`.
    pub(crate) fn mask(&self, payload: &[u8]) -> u64 {
        let Some(field) = &self.0 else { return 0 };
        let bytes = field.bytes(payload);
        let bytes = &bytes[..bytes.len().min(8)];
        field.endian.uint(bytes, bytes.len()).unwrap_or(0)
    }
}

/// Names of an event's fields in order, each with its other names.
pub type FieldNames = &'static [&'static [&'static str]];

/// A struct that can be read from a record.
pub trait Get<'e>: Sized {
    /// Names of its fields.
    const FIELDS: FieldNames;
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
    pub(super) bytes: &'e [u8],
    pub(super) width: usize,
    pub(super) endian: Endian,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// `unsigned long` of 8 and of 4 bytes, more CPUs than 64, and a record that ends too early.
    #[test]
    fn a_mask_has_the_first_cpus() {
        let line = "field:__data_loc cpumask_t cpumask;\toffset:0;\tsize:4;\tsigned:0;";
        let slot = Slot(Field::parse(line, Endian::Little));
        let of = |length: u8, words: &[u8]| slot.mask(&[&[4, 0, length, 0], words].concat());
        assert_eq!(of(8, &[5, 0, 0, 0, 0, 0, 0, 0x80]), 5 | 1 << 63);
        assert_eq!(of(4, &[2, 0, 0, 1]), 2 | 1 << 24);
        assert_eq!(of(16, &[[1; 8], [0xff; 8]].concat()), 0x0101_0101_0101_0101);
        assert_eq!((of(8, &[]), Slot(None).mask(&[1, 2, 3, 4])), (0, 0));
    }
}
