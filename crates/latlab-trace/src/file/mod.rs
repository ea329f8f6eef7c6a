//! A `trace.dat` file: its head, formats, names, options and where each CPU's data lie.
//!
//! Sources: `trace-cmd.dat.v6(5)` and `trace-cmd.dat.v7(5)`, and files made by trace-cmd.
//! ```text
//! 17 08 44 "tracing" VERSION\0  endian(1)  long size(1)  page size(4)
//!    6: everything in a fixed order            (v6.rs)
//!    7: codec\0 version\0 offset-of-options(8), then sections in any order (v7.rs)
//! ```

mod options;
mod salvage;
mod v6;
mod v7;

pub use options::{Guest, Options, TimeShift, TimeShiftCpu, Tsc};

use crate::bytes::Reader;
use crate::compress::Codec;
use crate::names::{Comms, PrintkFormats, Symbols};
use crate::{Diagnostics, Endian, EventFormat, Formats, TraceError};
use std::borrow::Cow;

/// The first bytes of every `trace.dat`.
pub const MAGIC: [u8; 10] = *b"\x17\x08\x44tracing";

/// How a ring-buffer page is laid out, from `header_page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// Bytes of a page (a sub-buffer), its head included.
    pub page_size: u32,
    /// Bytes of the kernel's `long`, 4 or 8.
    pub long_size: u8,
    /// Where the word with length and flags lies.
    pub commit_at: u32,
    /// Where the records begin.
    pub data_at: u32,
}

impl PageLayout {
    /// The layout that every known kernel has.
    pub fn new(long_size: u8, page_size: u32) -> Self {
        Self { page_size, long_size, commit_at: 8, data_at: 8 + u32::from(long_size) }
    }

    /// The layout that the text of `events/header_page` tells; what it does not tell is as in
    /// a kernel of 64 bits.
    pub fn parse(header_page: &str, page_size: u32, endian: Endian) -> Self {
        let mut layout = Self::new(8, page_size);
        for field in header_page.lines().filter_map(|l| Field::parse(l, endian)) {
            match &*field.name {
                "commit" if matches!(field.size, 4 | 8) && field.offset < 64 => {
                    layout.long_size = field.size as u8;
                    layout.commit_at = field.offset;
                }
                "data" if (12..=64).contains(&field.offset) => layout.data_at = field.offset,
                _ => {}
            }
        }
        layout.data_at = layout.data_at.max(layout.commit_at + u32::from(layout.long_size));
        layout
    }
}

/// One CPU's data within the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuData {
    /// The CPU.
    pub cpu: u32,
    /// Offset in the file.
    pub offset: u64,
    /// Bytes, already clipped to the file.
    pub size: u64,
}

/// One ring buffer: the top one or an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Name of the instance; empty for the top buffer.
    pub name: String,
    /// Its clock (`local`, `mono`, …); empty where the file does not say.
    pub clock: String,
    /// Layout of its pages.
    pub layout: PageLayout,
    /// Whether its data are compressed, and how.
    pub codec: Codec,
    /// Its CPUs.
    pub cpus: Vec<CpuData>,
}

/// An opened trace. Cheap to open: formats and symbols are parsed when asked for.
#[derive(Debug)]
pub struct TraceFile<'a> {
    pub(crate) data: Cow<'a, [u8]>,
    /// 6 or 7; 0 for a trace that was made from text.
    pub version: u32,
    /// Byte order of everything after the head.
    pub endian: Endian,
    /// Bytes of a `long` in the recording program (the kernel's is in [`PageLayout`]).
    pub user_long_size: u8,
    /// Codec of the sections, version 7.
    pub codec: Codec,
    /// Ring buffers; the top one first, where there is one.
    pub buffers: Vec<Buffer>,
    /// Number of CPUs of the machine, as far as the file says.
    pub cpu_count: u32,
    /// Kinds of events.
    pub formats: Formats,
    /// Kernel symbols.
    pub symbols: Symbols<'a>,
    /// `trace_printk` strings.
    pub printk: PrintkFormats,
    /// Names of tasks as they were saved at the end of the recording.
    pub comms: Comms,
    /// Everything that options say.
    pub options: Options,
    /// The text of `trace`, when a latency tracer was recorded.
    pub latency_text: Option<Cow<'a, [u8]>>,
    /// What is damaged in the file's head and sections.
    pub diagnostics: Diagnostics,
}

/// Head of the file, common to all versions.
pub(crate) struct Head {
    pub version: u32,
    pub endian: Endian,
    pub user_long_size: u8,
    pub page_size: u32,
}

impl<'a> TraceFile<'a> {
    /// Reads the file's head and tables.
    ///
    /// # Errors
    /// When nothing can be read at all. Damage that leaves something to read
    /// is listed in [`TraceFile::diagnostics`].
    pub fn parse(data: &'a [u8]) -> Result<Self, TraceError> {
        if data.is_empty() {
            return Err(TraceError::Empty);
        }
        let mut r = Reader::new(data, Endian::Little);
        if !data.starts_with(&MAGIC) {
            return Err(TraceError::NotATrace);
        }
        r.seek(MAGIC.len());
        let version = r.cstr("the version")?;
        let known = match version.trim_ascii() {
            b"6" => 6,
            b"7" => 7,
            other => return Err(TraceError::Version(String::from_utf8_lossy(other).into_owned())),
        };
        let endian = if r.u8("the byte order")? == 0 { Endian::Little } else { Endian::Big };
        r.endian = endian;
        let at = r.offset();
        let user_long_size = r.u8("the size of long")?;
        let page_size = r.u32("the page size")?;
        if !(64..=1 << 26).contains(&page_size) {
            return Err(TraceError::Malformed {
                offset: at + 1,
                what: "the page size",
                reason: format!("{page_size} is no size of a ring-buffer page"),
            });
        }
        let head = Head { version: known, endian, user_long_size, page_size };
        match known {
            6 => v6::parse(data, r, &head),
            _ => v7::parse(data, r, &head),
        }
    }

    fn empty(data: &'a [u8], head: &Head) -> Self {
        Self {
            data: Cow::Borrowed(data),
            version: head.version,
            endian: head.endian,
            user_long_size: head.user_long_size,
            codec: Codec::None,
            buffers: Vec::new(),
            cpu_count: 0,
            formats: Formats::default(),
            symbols: Symbols::default(),
            printk: PrintkFormats::default(),
            comms: Comms::default(),
            options: Options::default(),
            latency_text: None,
            diagnostics: Diagnostics::default(),
        }
    }

    /// The kernel's `long`, from the first buffer's pages.
    pub fn long_size(&self) -> u8 {
        self.buffers.first().map_or(self.user_long_size, |b| b.layout.long_size)
    }

    /// The clock of the top buffer (`local` unless the file says otherwise).
    pub fn clock(&self) -> &str {
        match self.buffers.first() {
            Some(b) if !b.clock.is_empty() => &b.clock,
            _ if !self.options.clock.is_empty() => &self.options.clock,
            _ => "local",
        }
    }

    /// Bytes of the file.
    pub fn len(&self) -> u64 {
        self.data.len() as u64
    }
    /// Whether there are no bytes: never, for a file that could be opened.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }
}

/// Adds the formats of one list: count, then size and text of each.
fn add_formats(
    r: &mut Reader<'_>,
    system: &str,
    count: u32,
    formats: &mut Formats,
    diagnostics: &mut Diagnostics,
) -> Result<(), TraceError> {
    for _ in 0..count {
        let at = r.offset();
        let size = r.u64("an event's format")?;
        let text = String::from_utf8_lossy(r.take_u64(size, "an event's format")?);
        match EventFormat::parse(system, &text, r.endian) {
            Some(format) => {
                let name = format.full_name();
                if !formats.add(format) {
                    diagnostics.push(None, at, format!("the number of event {name} is taken"));
                }
            }
            None => diagnostics.push(None, at, "an event's format has no name or number"),
        }
    }
    Ok(())
}

/// The formats of all systems: count, then name, count and formats of each.
fn add_systems(
    r: &mut Reader<'_>,
    formats: &mut Formats,
    diagnostics: &mut Diagnostics,
) -> Result<(), TraceError> {
    for _ in 0..r.u32("the number of event systems")? {
        let system = String::from_utf8_lossy(r.cstr("the name of an event system")?);
        let count = r.u32("the number of events of a system")?;
        add_formats(r, &system, count, formats, diagnostics)?;
    }
    Ok(())
}

/// `header_page` and `header_event`: the first tells the layout of a page.
fn header_info(r: &mut Reader<'_>, page_size: u32) -> Result<PageLayout, TraceError> {
    let at = r.offset();
    if r.cstr("header_page")? != b"header_page" {
        return Err(TraceError::Malformed {
            offset: at,
            what: "header_page",
            reason: "it is not there".into(),
        });
    }
    let size = r.u64("header_page")?;
    let text = String::from_utf8_lossy(r.take_u64(size, "header_page")?);
    let layout = PageLayout::parse(&text, page_size, r.endian);
    r.cstr("header_event")?;
    let size = r.u64("header_event")?;
    r.take_u64(size, "header_event")?;
    Ok(layout)
}

use crate::Field;
