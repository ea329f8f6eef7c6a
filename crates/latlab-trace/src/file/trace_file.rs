//! An opened trace.

use super::buffer::Buffer;
use super::memory::Memory;
use super::options::Options;
use crate::compress::Codec;
use crate::names::{Comms, PrintkFormats, Symbols};
use crate::{Diagnostics, Endian, Formats};
use std::borrow::Cow;

/// An opened trace. Cheap to open: formats and symbols are parsed when asked for.
#[derive(Debug)]
pub struct TraceFile<'a> {
    pub(crate) data: Cow<'a, [u8]>,
    pub(crate) memory: Memory,
    /// 6 or 7; 0 for a trace that was made from text.
    pub version: u32,
    /// Byte order of everything after the head.
    pub endian: Endian,
    /// Bytes of a `long` in the recording program (the kernel's is in [`PageLayout`](super::buffer::PageLayout)).
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
    /// The latency that a latency tracer kept, of its text.
    #[cfg(feature = "text")]
    pub longest: Option<crate::text::LongestLatency>,
    /// What is damaged in the file's head and sections.
    pub diagnostics: Diagnostics,
}

/// Head of the file, common to all versions.
pub(crate) struct Head {
    pub version: u32,
    pub endian: Endian,
    pub user_long_size: u8,
    pub page_size: u32,
    /// Limit of [`Memory`], bytes.
    pub memory: u64,
}

/// Whether a trace clock counts nanoseconds (the others: jiffies, cycles, a counter).
pub(crate) fn clock_counts_ns(clock: &str) -> bool {
    !matches!(clock, "counter" | "uptime" | "x86-tsc" | "ppc-tb" | "arm64-cntvct")
}

impl<'a> TraceFile<'a> {
    pub(super) fn empty(data: &'a [u8], head: &Head) -> Self {
        Self {
            data: Cow::Borrowed(data),
            memory: Memory::new(head.memory),
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
            #[cfg(feature = "text")]
            longest: None,
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

    /// Whether its times are nanoseconds; other clocks count jiffies, cycles or events.
    pub fn counts_ns(&self) -> bool {
        self.options.tsc.is_some() || clock_counts_ns(self.clock())
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
