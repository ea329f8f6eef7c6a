//! Options: what a recorder notes beside formats and events.

use crate::Diagnostics;
use crate::bytes::{Reader, until_nul};

/// Numbers of the options (and, in version 7, of the sections that they point to).
pub(crate) mod id {
    pub const DONE: u16 = 0;
    pub const DATE: u16 = 1;
    pub const CPUSTAT: u16 = 2;
    pub const BUFFER: u16 = 3;
    pub const TRACECLOCK: u16 = 4;
    pub const UNAME: u16 = 5;
    pub const HOOK: u16 = 6;
    pub const OFFSET: u16 = 7;
    pub const CPUCOUNT: u16 = 8;
    pub const VERSION: u16 = 9;
    pub const PROCMAPS: u16 = 10;
    pub const TRACEID: u16 = 11;
    pub const TIME_SHIFT: u16 = 12;
    pub const GUEST: u16 = 13;
    pub const TSC2NSEC: u16 = 14;
    pub const HEADER_INFO: u16 = 16;
    pub const FTRACE_EVENTS: u16 = 17;
    pub const EVENT_FORMATS: u16 = 18;
    pub const KALLSYMS: u16 = 19;
    pub const PRINTK: u16 = 20;
    pub const CMDLINES: u16 = 21;
    pub const BUFFER_TEXT: u16 = 22;
}

/// Cycles to nanoseconds: `ns = (ts × mult) >> shift`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tsc {
    /// Multiplier.
    pub mult: u32,
    /// Shift.
    pub shift: u32,
    /// The kernel's offset; no reader applies it.
    pub offset: u64,
}

/// Corrections of a guest's clock towards its host's, for one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeShiftCpu {
    /// Guest times from which each correction holds, ascending.
    pub times: Vec<u64>,
    /// What to add.
    pub offsets: Vec<i64>,
    /// Numerator of the rate.
    pub scaling: Vec<u64>,
    /// Binary digits of the rate's denominator; empty in older files.
    pub fraction: Vec<u64>,
}

/// Corrections of a guest's clock towards its host's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeShift {
    /// Identifier of the host's recording.
    pub peer: u64,
    /// Whether offsets are interpolated between their times.
    pub interpolate: bool,
    /// By virtual CPU.
    pub cpus: Vec<TimeShiftCpu>,
}

/// A guest whose recording belongs to this one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    /// Its name.
    pub name: String,
    /// Identifier of its recording.
    pub trace_id: u64,
    /// Virtual CPU and the thread of the host that runs it.
    pub threads: Vec<(u32, u32)>,
}

/// Everything that options say. Texts are as the recorder wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Added to every time stamp, in its unit (options `DATE` and `OFFSET`).
    pub ts_offset: i64,
    /// `per_cpu/cpuN/stats`, one a CPU.
    pub cpu_stats: Vec<String>,
    /// The clock that was selected.
    pub clock: String,
    /// `uname` of the recorded machine.
    pub uname: String,
    /// Hooks that were given for profiling.
    pub hooks: Vec<String>,
    /// Version of the recorder.
    pub recorder: String,
    /// Address maps of the traced processes.
    pub proc_maps: Vec<String>,
    /// Identifier of the recording.
    pub trace_id: Option<u64>,
    /// Conversion of TSC cycles.
    pub tsc: Option<Tsc>,
    /// Correction towards a host.
    pub time_shift: Option<TimeShift>,
    /// Guests.
    pub guests: Vec<Guest>,
    /// More CPUs than the data has tables for.
    pub cpu_count: Option<u32>,
    /// Options that this version does not know: number and bytes.
    pub unknown: Vec<(u16, u32)>,
}

fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(until_nul(data)).into_owned()
}

/// `[local] global counter`: the name in brackets; the whole, when there are none.
pub(crate) fn selected_clock(text: &str) -> String {
    let inner = text.split_once('[').and_then(|(_, r)| r.split_once(']')).map(|(c, _)| c);
    inner.unwrap_or(text).trim().to_owned()
}

/// A number that is written in digits: decimal, or hexadecimal with `0x`, perhaps negative.
fn number(data: &[u8]) -> Option<i64> {
    let text = text(data);
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(d) => (true, d),
        None => (false, text),
    };
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok()? as i64,
        None => digits.parse::<u64>().ok()? as i64,
    };
    Some(if negative { value.wrapping_neg() } else { value })
}

impl Options {
    /// Takes one option in. Buffers and sections are the business of the file's version.
    pub(crate) fn take(&mut self, number_: u16, r: &mut Reader<'_>, diagnostics: &mut Diagnostics) {
        let at = r.offset();
        let data = r.take(r.remaining(), "an option").unwrap_or_default();
        let endian = r.endian;
        let bad = |d: &mut Diagnostics, what: &str| {
            d.push(None, at, format!("option {what} makes no sense"))
        };
        match number_ {
            id::DATE => match number(data) {
                // The value is in microseconds.
                Some(us) => self.ts_offset = self.ts_offset.wrapping_add(us.wrapping_mul(1000)),
                None => bad(diagnostics, "DATE"),
            },
            id::OFFSET => match number(data) {
                Some(v) => self.ts_offset = self.ts_offset.wrapping_add(v),
                None => bad(diagnostics, "OFFSET"),
            },
            id::CPUSTAT => self.cpu_stats.push(text(data)),
            id::TRACECLOCK => self.clock = selected_clock(&text(data)),
            id::UNAME => self.uname = text(data),
            id::HOOK => self.hooks.push(text(data)),
            id::VERSION => self.recorder = text(data),
            id::PROCMAPS => self.proc_maps.push(text(data)),
            id::TRACEID => self.trace_id = endian.uint(data, 8),
            id::CPUCOUNT => self.cpu_count = endian.uint(data, 4).map(|v| v as u32),
            id::TSC2NSEC => {
                let mut r = Reader::new(data, endian);
                let tsc = (|| -> Result<Tsc, crate::TraceError> {
                    Ok(Tsc { mult: r.u32("")?, shift: r.u32("")?, offset: r.u64("")? })
                })();
                match tsc {
                    Ok(tsc) if tsc.shift < 64 => self.tsc = Some(tsc),
                    _ => bad(diagnostics, "TSC2NSEC"),
                }
            }
            id::TIME_SHIFT => match time_shift(Reader::new(data, endian)) {
                Some(shift) => self.time_shift = Some(shift),
                None => bad(diagnostics, "TIME_SHIFT"),
            },
            id::GUEST => match guest(Reader::new(data, endian)) {
                Some(guest) => self.guests.push(guest),
                None => bad(diagnostics, "GUEST"),
            },
            other => self.unknown.push((other, data.len() as u32)),
        }
    }
}

fn numbers(r: &mut Reader<'_>, count: u32) -> Option<Vec<u64>> {
    let bytes = r.take((count as usize).checked_mul(8)?, "").ok()?;
    bytes.chunks_exact(8).map(|b| r.endian.uint(b, 8)).collect()
}

fn time_shift(mut r: Reader<'_>) -> Option<TimeShift> {
    let peer = r.u64("").ok()?;
    let flags = r.u32("").ok()?;
    let mut shift = TimeShift { peer, interpolate: flags & 1 != 0, cpus: Vec::new() };
    for _ in 0..r.u32("").ok()? {
        let count = r.u32("").ok()?;
        shift.cpus.push(TimeShiftCpu {
            times: numbers(&mut r, count)?,
            offsets: numbers(&mut r, count)?.into_iter().map(|v| v as i64).collect(),
            scaling: numbers(&mut r, count)?,
            fraction: Vec::new(),
        });
    }
    // Files of newer recorders go on with the fractions; nothing announces it.
    if r.remaining() > 0 {
        for cpu in &mut shift.cpus {
            cpu.fraction = numbers(&mut r, cpu.times.len() as u32)?;
        }
    }
    Some(shift)
}

fn guest(mut r: Reader<'_>) -> Option<Guest> {
    let name = String::from_utf8_lossy(r.cstr("").ok()?).into_owned();
    let trace_id = r.u64("").ok()?;
    let mut guest = Guest { name, trace_id, threads: Vec::new() };
    for _ in 0..r.u32("").ok()? {
        guest.threads.push((r.u32("").ok()?, r.u32("").ok()?));
    }
    Some(guest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Endian;

    #[test]
    fn offsets_are_added_up() {
        let mut o = Options::default();
        let mut d = Diagnostics::default();
        o.take(id::DATE, &mut Reader::new(b"0x10\0", Endian::Little), &mut d);
        o.take(id::OFFSET, &mut Reader::new(b"-500\0", Endian::Little), &mut d);
        assert_eq!(o.ts_offset, 15_500);
        o.take(id::OFFSET, &mut Reader::new(b"?", Endian::Little), &mut d);
        assert_eq!(d.list().len(), 1);
        o.take(99, &mut Reader::new(b"xyz", Endian::Little), &mut d);
        assert_eq!(o.unknown, [(99, 3)]);
    }

    #[test]
    fn clock_in_brackets() {
        assert_eq!(selected_clock("local [mono] boot\n"), "mono");
        assert_eq!(selected_clock("x86-tsc"), "x86-tsc");
    }

    #[test]
    fn a_time_shift_with_and_without_fractions() {
        let mut bytes = Vec::new();
        bytes.extend(7u64.to_le_bytes());
        bytes.extend(1u32.to_le_bytes());
        bytes.extend(1u32.to_le_bytes());
        bytes.extend(1u32.to_le_bytes());
        for v in [100u64, (-5i64) as u64, 1] {
            bytes.extend(v.to_le_bytes());
        }
        let s = time_shift(Reader::new(&bytes, Endian::Little)).unwrap();
        assert_eq!((s.peer, s.interpolate, s.cpus[0].offsets[0]), (7, true, -5));
        assert!(s.cpus[0].fraction.is_empty());
        bytes.extend(3u64.to_le_bytes());
        let s = time_shift(Reader::new(&bytes, Endian::Little)).unwrap();
        assert_eq!(s.cpus[0].fraction, [3]);
        bytes.truncate(30);
        assert!(time_shift(Reader::new(&bytes, Endian::Little)).is_none());
    }
}
