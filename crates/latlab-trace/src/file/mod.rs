//! A `trace.dat` file: its head, formats, names, options and where each CPU's data lie.
//!
//! Sources: `trace-cmd.dat.v6(5)` and `trace-cmd.dat.v7(5)`, and files made by trace-cmd.
//! ```text
//! 17 08 44 "tracing" VERSION\0  endian(1)  long size(1)  page size(4)
//!    6: everything in a fixed order            (v6.rs)
//!    7: codec\0 version\0 offset-of-options(8), then sections in any order (v7.rs)
//! ```

mod buffer;
mod layout;
mod memory;
mod options;
mod raw;
mod salvage;
mod section;
mod settle;
mod tables;
mod trace_file;
mod v6;
mod v7;

#[cfg(feature = "text")]
pub(crate) use buffer::MAX_CPUS;
pub use buffer::{Buffer, CpuData, PageLayout};
pub(crate) use memory::AHEAD_MAX;
pub use memory::DEFAULT_MEMORY;
#[cfg(feature = "text")]
pub(crate) use memory::Memory;
pub use options::{Guest, Options, TimeShift, TimeShiftCpu, Tsc};

pub use trace_file::TraceFile;
pub(crate) use trace_file::clock_counts_ns;

use crate::bytes::Reader;
use crate::format::KnownFormats;
use crate::{Endian, TraceError};
use trace_file::Head;

/// The first bytes of every `trace.dat`.
pub const MAGIC: [u8; 10] = *b"\x17\x08\x44tracing";

impl<'a> TraceFile<'a> {
    /// Reads the file's head and tables.
    ///
    /// # Errors
    /// When nothing can be read at all. Damage that leaves something to read
    /// is listed in [`TraceFile::diagnostics`].
    pub fn parse(data: &'a [u8]) -> Result<Self, TraceError> {
        Self::parse_within(data, DEFAULT_MEMORY)
    }

    /// As [`TraceFile::parse`], with at most `memory` bytes for what is inflated at any time.
    ///
    /// # Errors
    /// As [`TraceFile::parse`].
    pub fn parse_within(data: &'a [u8], memory: u64) -> Result<Self, TraceError> {
        Self::parse_after(data, memory, None)
    }

    /// As [`TraceFile::parse_within`], sharing the formats of the file before, where they are the same.
    ///
    /// # Errors
    /// As [`TraceFile::parse`].
    pub fn parse_after(
        data: &'a [u8],
        memory: u64,
        earlier: Option<&mut KnownFormats>,
    ) -> Result<Self, TraceError> {
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
                reason: format!("{page_size} is not a size of a ring-buffer page"),
            });
        }
        let head = Head { version: known, endian, user_long_size, page_size, memory };
        let mut file = match known {
            6 => v6::parse(data, r, &head),
            _ => v7::parse(data, r, &head, earlier),
        }?;
        settle::settle(&mut file);
        Ok(file)
    }
}
