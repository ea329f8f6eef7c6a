//! Writing trace.dat files, version 7 and version 6, as `trace-cmd report` and KernelShark read them.
//!
//! The layouts follow trace-cmd's `trace-cmd.dat.v7` and `trace-cmd.dat.v6` manual pages and,
//! where these are silent, files that trace-cmd 3.1.6 wrote (the data section's flag says
//! "compressed" but carries no pair of sizes; a compressed CPU's size leaves out the four bytes
//! of its chunk count).
//!
//! Three writers share one [`Metadata`]:
//! - [`v7::write`] makes a complete, compact version 7 file, its data compressed or not;
//! - [`v6::write`] the same in version 6;
//! - [`live::write`] the head of a version 7 file whose per-CPU data arrive later, at places
//!   that are fixed from the start, so that the file can be read at every moment.
//!
//! [`extract::write`] makes a file of the events of another one.

mod compress;
pub mod extract;
pub mod live;
pub mod symbols;
pub mod v6;
pub mod v7;

pub use compress::{Compression, UnknownCompression};

use std::io::{self, Read, Write};

/// First bytes of every trace.dat: the magic number and `tracing`.
const MAGIC: &[u8; 10] = b"\x17\x08\x44tracing";

/// Why a file could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The output refused.
    #[error("writing the trace file")]
    Output(#[source] io::Error),
    /// The recorded data could not be read back.
    #[error("reading back the data of CPU {cpu}")]
    Input {
        /// Whose data.
        cpu: u32,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A compressor failed.
    #[error("compressing with {method}: {reason}")]
    Compress {
        /// `zstd` or `zlib`.
        method: &'static str,
        /// What the library said.
        reason: String,
    },
    /// A part is larger than the format's size field.
    #[error("{what} is {bytes} bytes long; the format holds at most {limit}")]
    TooLarge {
        /// Which part.
        what: &'static str,
        /// Its length.
        bytes: u64,
        /// What the field holds.
        limit: u64,
    },
}

/// Everything in a trace.dat besides the events themselves, in the kernel's own bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Whether the recording machine is big-endian; all numbers are written so.
    pub big_endian: bool,
    /// Size of a `long` of the recording program, 4 or 8.
    pub long_size: u8,
    /// Size of a sub-buffer ("page") of the ring buffer in bytes.
    pub page_size: u32,
    /// Text of `events/header_page`.
    pub header_page: Vec<u8>,
    /// Text of `events/header_event`.
    pub header_event: Vec<u8>,
    /// Texts of `events/ftrace/*/format`.
    pub ftrace_formats: Vec<Vec<u8>>,
    /// Other systems with the texts of their `format` files.
    pub systems: Vec<EventSystem>,
    /// Text of `/proc/kallsyms`, or the part of it that the trace needs.
    pub kallsyms: Vec<u8>,
    /// Text of `printk_formats`.
    pub printk_formats: Vec<u8>,
    /// Text of `saved_cmdlines`: one `PID NAME` a line.
    pub cmdlines: Vec<u8>,
    /// `uname -a` without the host's version string, as trace-cmd keeps it.
    pub uname: String,
    /// Text of `trace_clock`, the chosen clock in brackets.
    pub trace_clock: String,
    /// Name of the chosen clock.
    pub clock: String,
    /// Which program wrote the file.
    pub writer: String,
    /// Identifies the recording.
    pub trace_id: u64,
    /// Number of CPUs (highest number + 1).
    pub cpu_count: u32,
    /// Text of `per_cpu/cpuN/stats` for each CPU.
    pub cpu_stats: Vec<(u32, String)>,
}

/// An event system with the formats of its events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventSystem {
    /// `sched`, `irq`…
    pub name: String,
    /// Text of each event's `format` file.
    pub formats: Vec<Vec<u8>>,
}

/// The ring-buffer pages of one CPU, to be read once from front to back.
#[derive(Debug)]
pub struct CpuData<R> {
    /// Which CPU.
    pub cpu: u32,
    /// How many bytes `pages` yields; a multiple of the page size.
    pub bytes: u64,
    /// The pages.
    pub pages: R,
}

impl<R: Read> CpuData<R> {
    /// Calls `each` with all pages, at most `most` bytes at a time: at least one.
    ///
    /// # Errors
    /// [`WriteError::Input`] when the pages end early or cannot be read, and what `each` returns.
    pub fn blocks(
        &mut self,
        most: usize,
        mut each: impl FnMut(&[u8]) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let cpu = self.cpu;
        let mut left = self.bytes;
        // A watch writes a few pages each second, for which the whole of `most` would be zeroed.
        let mut buffer = vec![0; usize::try_from(left).map_or(most, |n| n.min(most))];
        while left > 0 {
            let n = usize::try_from(left).map_or(buffer.len(), |l| l.min(buffer.len()));
            let part = &mut buffer[..n];
            self.pages.read_exact(part).map_err(|source| WriteError::Input { cpu, source })?;
            each(part)?;
            left -= n as u64;
        }
        Ok(())
    }

    /// Copies all pages to `out`.
    fn copy_to(&mut self, out: &mut impl Write) -> Result<(), WriteError> {
        self.blocks(1 << 20, |part| out.write_all(part).map_err(WriteError::Output))
    }
}

/// Writes integers in the file's byte order into a growing buffer.
#[derive(Clone, Debug)]
struct Bytes {
    big_endian: bool,
    bytes: Vec<u8>,
}

impl Bytes {
    fn new(meta: &Metadata) -> Self {
        Self { big_endian: meta.big_endian, bytes: Vec::new() }
    }
    fn u16(&mut self, v: u16) -> &mut Self {
        let b = if self.big_endian { v.to_be_bytes() } else { v.to_le_bytes() };
        self.raw(&b)
    }
    fn u32(&mut self, v: u32) -> &mut Self {
        let b = if self.big_endian { v.to_be_bytes() } else { v.to_le_bytes() };
        self.raw(&b)
    }
    fn u64(&mut self, v: u64) -> &mut Self {
        let b = u64_bytes(self.big_endian, v);
        self.raw(&b)
    }
    fn raw(&mut self, v: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(v);
        self
    }
    /// A string with its terminating zero.
    fn string(&mut self, v: &str) -> &mut Self {
        self.raw(v.as_bytes()).raw(&[0])
    }
    /// A 64-bit length, then the bytes.
    fn sized64(&mut self, v: &[u8]) -> &mut Self {
        self.u64(v.len() as u64).raw(v)
    }
    /// A 32-bit length, then the bytes.
    fn sized32(&mut self, what: &'static str, v: &[u8]) -> Result<&mut Self, WriteError> {
        Ok(self.u32(length32(what, v.len())?).raw(v))
    }
}

/// A 64-bit number as the file stores it; for patching a field in place.
fn u64_bytes(big_endian: bool, v: u64) -> [u8; 8] {
    if big_endian { v.to_be_bytes() } else { v.to_le_bytes() }
}

fn length32(what: &'static str, length: usize) -> Result<u32, WriteError> {
    u32::try_from(length).map_err(|_| WriteError::TooLarge {
        what,
        bytes: length as u64,
        limit: u64::from(u32::MAX),
    })
}

/// The start that both versions share: magic, version, endianness, long size, page size.
fn start(meta: &Metadata, version: &str) -> Bytes {
    let mut b = Bytes::new(meta);
    b.raw(MAGIC).string(version).raw(&[u8::from(meta.big_endian), meta.long_size]);
    b.u32(meta.page_size);
    b
}

/// `header_page` and `header_event` with their names and sizes.
fn header_info(meta: &Metadata) -> Bytes {
    let mut b = Bytes::new(meta);
    b.string("header_page").sized64(&meta.header_page);
    b.string("header_event").sized64(&meta.header_event);
    b
}

/// The formats of ftrace's own events.
fn ftrace_formats(meta: &Metadata) -> Result<Bytes, WriteError> {
    let mut b = Bytes::new(meta);
    b.u32(length32("the list of ftrace events", meta.ftrace_formats.len())?);
    for format in &meta.ftrace_formats {
        b.sized64(format);
    }
    Ok(b)
}

/// The formats of all other events, by system.
fn event_formats(meta: &Metadata) -> Result<Bytes, WriteError> {
    let mut b = Bytes::new(meta);
    b.u32(length32("the list of event systems", meta.systems.len())?);
    for system in &meta.systems {
        b.string(&system.name);
        b.u32(length32("an event system", system.formats.len())?);
        for format in &system.formats {
            b.sized64(format);
        }
    }
    Ok(b)
}

/// Options that both versions have, in trace-cmd's order: id and data.
fn common_options(meta: &Metadata) -> Vec<(u16, Vec<u8>)> {
    let text = |s: &str| {
        let mut v = s.as_bytes().to_vec();
        v.push(0);
        v
    };
    let mut options = vec![
        (option::TRACECLOCK, text(&meta.trace_clock)),
        (option::UNAME, text(&meta.uname)),
        (option::VERSION, text(&meta.writer)),
        (option::TRACEID, u64_bytes(meta.big_endian, meta.trace_id).to_vec()),
    ];
    for (cpu, stats) in &meta.cpu_stats {
        options.push((option::CPUSTAT, text(&format!("CPU: {cpu}\n{stats}"))));
    }
    let mut count = Bytes::new(meta);
    count.u32(meta.cpu_count);
    options.push((option::CPUCOUNT, count.bytes));
    options
}

/// Option and section numbers.
mod option {
    pub const DONE: u16 = 0;
    pub const CPUSTAT: u16 = 2;
    pub const BUFFER: u16 = 3;
    pub const TRACECLOCK: u16 = 4;
    pub const UNAME: u16 = 5;
    pub const CPUCOUNT: u16 = 8;
    pub const VERSION: u16 = 9;
    pub const TRACEID: u16 = 11;
    pub const STRINGS: u16 = 15;
    pub const HEADER_INFO: u16 = 16;
    pub const FTRACE_EVENTS: u16 = 17;
    pub const EVENT_FORMATS: u16 = 18;
    pub const KALLSYMS: u16 = 19;
    pub const PRINTK: u16 = 20;
    pub const CMDLINES: u16 = 21;
}

/// The next multiple of `page` at or after `n`.
fn align(n: u64, page: u32) -> u64 {
    n.next_multiple_of(u64::from(page.max(1)))
}
