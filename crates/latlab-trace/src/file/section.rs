//! Sections of a version 7 file and the options that point to them.

use super::options::id;
use super::trace_file::TraceFile;
use crate::TraceError;
use crate::bytes::Reader;
use crate::compress::{Codec, Inflater};
use std::borrow::Cow;

/// Bytes of a section's head.
pub(super) const SECTION_HEAD: u64 = 16;

/// Flag of a section: compressed.
pub(super) const COMPRESSED: u16 = 1;

/// A section's head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section {
    pub id: u16,
    pub flags: u16,
    /// Where its data begin.
    pub data_at: u64,
    pub size: u64,
}

pub(super) fn section(
    data: &[u8],
    file: &TraceFile<'_>,
    offset: u64,
) -> Result<Section, TraceError> {
    let start = usize::try_from(offset).ok().and_then(|at| data.get(at..)).unwrap_or_default();
    let mut r = Reader::new(start, file.endian).with_base(offset);
    let (id, flags) = (r.u16("a section's head")?, r.u16("a section's head")?);
    r.u32("a section's head")?;
    let size = r.u64("a section's head")?;
    Ok(Section { id, flags, data_at: offset.saturating_add(SECTION_HEAD), size })
}

/// A section's data, inflated where it is compressed.
pub(super) fn contents<'a>(
    data: &'a [u8],
    file: &TraceFile<'_>,
    offset: u64,
    expected: u16,
) -> Result<(Cow<'a, [u8]>, u64), TraceError> {
    let s = section(data, file, offset)?;
    let malformed = |reason: String| TraceError::Malformed { offset, what: "a section", reason };
    if s.id != expected {
        return Err(malformed(format!("section {} where {expected} should be", s.id)));
    }
    let start = usize::try_from(s.data_at).ok().and_then(|at| data.get(at..)).unwrap_or_default();
    let mut r = Reader::new(start, file.endian).with_base(s.data_at);
    if s.flags & COMPRESSED == 0 || file.codec == Codec::None {
        return Ok((Cow::Borrowed(r.take_u64(s.size, "a section")?), s.data_at));
    }
    let (csize, usize_) = (r.u32("a section's sizes")?, r.u32("a section's sizes")?);
    let packed = r.take_u64(csize.into(), "a compressed section")?;
    file.memory.take_section(usize_.into()).map_err(|e| malformed(e.to_string()))?;
    let mut out = Vec::new();
    Inflater::default()
        .inflate(file.codec, packed, usize_ as usize, &mut out)
        .map_err(|e| malformed(e.to_string()))?;
    Ok((Cow::Owned(out), s.data_at))
}

/// Where the options say that things are.
#[derive(Debug, Default)]
pub(super) struct Pointers {
    pub header: Option<u64>,
    pub ftrace: Option<u64>,
    pub events: Option<u64>,
    pub kallsyms: Option<u64>,
    pub printk: Option<u64>,
    pub cmdlines: Option<u64>,
    pub buffers: Vec<BufferOption>,
    pub texts: Vec<u64>,
    /// Sections of data that no option describes: those of a file that was cut off.
    pub orphans: Vec<Section>,
}

/// An option that describes a buffer: its own bytes, since they may have been compressed.
#[derive(Debug)]
pub(super) struct BufferOption {
    pub at: u64,
    pub bytes: Vec<u8>,
}

/// Takes the options of one section in; the offset of the next one.
pub(super) fn options(
    data: &[u8],
    file: &mut TraceFile<'_>,
    offset: u64,
    pointers: &mut Pointers,
) -> Result<u64, TraceError> {
    let (bytes, base) = contents(data, file, offset, id::DONE)?;
    let mut r = Reader::new(&bytes, file.endian).with_base(base);
    while r.remaining() > 0 {
        let number = r.u16("an option")?;
        let size = r.u32("an option")?;
        let at = r.offset();
        let option = r.take_u64(size.into(), "an option")?;
        let mut o = Reader::new(option, r.endian).with_base(at);
        let slot = match number {
            id::DONE => return o.u64("the end of the options"),
            id::BUFFER => {
                pointers.buffers.push(BufferOption { at, bytes: option.to_vec() });
                continue;
            }
            id::BUFFER_TEXT => {
                pointers.texts.push(o.u64("the option of a latency trace")?);
                continue;
            }
            id::HEADER_INFO => &mut pointers.header,
            id::FTRACE_EVENTS => &mut pointers.ftrace,
            id::EVENT_FORMATS => &mut pointers.events,
            id::KALLSYMS => &mut pointers.kallsyms,
            id::PRINTK => &mut pointers.printk,
            id::CMDLINES => &mut pointers.cmdlines,
            _ => {
                file.options.take(number, &mut o, &mut file.diagnostics);
                continue;
            }
        };
        *slot = Some(o.u64("the offset of a section")?);
    }
    Err(TraceError::Truncated { offset: base, what: "the options (they have no end)", missing: 1 })
}
