//! Version 7: sections, found through a chain of options, `trace-cmd.dat.v7(5)`.
//!
//! ```text
//! section: id(2) flags(2) description(4) size(8)  data…
//! compressed (flag 1): csize(4) usize(4) data…
//! options: { id(2) size(4) data }…  DONE(0) 8 offset-of-next(8)
//! ```

use super::options::id;
use super::v6::{MAX_CPUS, clip};
use super::{Buffer, CpuData, Head, PageLayout, TraceFile, salvage};
use crate::bytes::Reader;
use crate::compress::{Codec, Inflater};
use crate::names::{Comms, PrintkFormats, Symbols};
use crate::{Diagnostics, TraceError};
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
fn contents<'a>(
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
    let mut out = Vec::new();
    Inflater::default()
        .inflate(file.codec, packed, usize_ as usize, &mut out)
        .map_err(malformed)?;
    Ok((Cow::Owned(out), s.data_at))
}

pub(super) fn parse<'a>(
    data: &'a [u8],
    mut r: Reader<'a>,
    head: &Head,
) -> Result<TraceFile<'a>, TraceError> {
    let mut file = TraceFile::empty(data, head);
    let at = r.offset();
    let codec = r.cstr("the name of the compression")?;
    file.codec = Codec::from_name(codec).ok_or_else(|| TraceError::Malformed {
        offset: at,
        what: "the name of the compression",
        reason: format!(
            "{:?} is not known (zstd, zlib and none are)",
            String::from_utf8_lossy(codec)
        ),
    })?;
    r.cstr("the version of the compression")?;
    let first_option = r.u64("the offset of the options")?;
    let first_section = r.offset();

    let mut pointers = Pointers::default();
    chain(data, &mut file, first_option, &mut pointers);
    if pointers.header.is_none() || pointers.buffers.is_empty() && pointers.texts.is_empty() {
        salvage::find_sections(data, &mut file, first_section, &mut pointers);
    }
    let layout = load_sections(data, &mut file, head, &pointers)?;
    for option in std::mem::take(&mut pointers.buffers) {
        let reader = Reader::new(&option.bytes, file.endian).with_base(option.at);
        match buffer(data, &mut file, layout, reader) {
            Ok(buffer) => file.buffers.push(buffer),
            Err(e) => file.diagnostics.push(None, option.at, e.to_string()),
        }
    }
    for section in &pointers.orphans {
        salvage::orphan_buffer(data, &mut file, layout, *section);
    }
    // The top buffer first; instances stay in the file's order.
    file.buffers.sort_by_key(|b| !b.name.is_empty());
    let highest = file.buffers.iter().flat_map(|b| &b.cpus).map(|c| c.cpu + 1).max();
    let counted = file.options.cpu_stats.iter().filter_map(|s| {
        s.trim_start().strip_prefix("CPU:")?.split_whitespace().next()?.parse::<u32>().ok()
    });
    file.cpu_count = counted
        .map(|cpu| cpu.saturating_add(1))
        .chain(file.options.cpu_count)
        .map(|n| n.min(MAX_CPUS))
        .chain(highest)
        .max()
        .unwrap_or(0);
    Ok(file)
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
    at: u64,
    bytes: Vec<u8>,
}

/// Follows the chain of options.
fn chain(data: &[u8], file: &mut TraceFile<'_>, first: u64, pointers: &mut Pointers) {
    let mut seen = std::collections::HashSet::new();
    let mut next = first;
    while next != 0 {
        if !seen.insert(next) {
            file.diagnostics.push(None, next, "the chain of options runs in a circle");
            return;
        }
        next = match options(data, file, next, pointers) {
            Ok(next) => next,
            Err(e) => {
                file.diagnostics.push(None, next, format!("the options cannot be read: {e}"));
                return;
            }
        };
    }
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

fn load_sections<'a>(
    data: &'a [u8],
    file: &mut TraceFile<'a>,
    head: &Head,
    p: &Pointers,
) -> Result<PageLayout, TraceError> {
    let mut layout = PageLayout::new(head.user_long_size.clamp(4, 8), head.page_size);
    match p.header {
        Some(at) => {
            let (bytes, base) = contents(data, file, at, id::HEADER_INFO)?;
            let mut r = Reader::new(&bytes, file.endian).with_base(base);
            layout = super::header_info(&mut r, head.page_size)?;
        }
        None => file.diagnostics.push(None, 0, "no page layout: the usual one is assumed"),
    }
    let endian = file.endian;
    let mut damage = Diagnostics::default();
    let load = |what: &str, at: Option<u64>, id: u16, damage: &mut Diagnostics| match at {
        None => None,
        Some(at) => contents(data, file, at, id)
            .inspect_err(|e| damage.push(None, at, format!("no {what}: {e}")))
            .ok(),
    };
    let ftrace = load("formats of ftrace's own events", p.ftrace, id::FTRACE_EVENTS, &mut damage);
    let events = load("event formats", p.events, id::EVENT_FORMATS, &mut damage);
    let kallsyms = load("kernel symbols", p.kallsyms, id::KALLSYMS, &mut damage);
    let printk = load("printk formats", p.printk, id::PRINTK, &mut damage);
    let cmdlines = load("command lines", p.cmdlines, id::CMDLINES, &mut damage);
    let texts: Vec<_> = p
        .texts
        .iter()
        .filter_map(|at| load("latency trace", Some(*at), id::BUFFER_TEXT, &mut damage))
        .collect();
    file.diagnostics.extend(&damage);

    let note = |file: &mut TraceFile<'_>, at: u64, e: TraceError| {
        file.diagnostics.push(None, at, format!("not all event formats can be read: {e}"));
    };
    if let Some((bytes, base)) = ftrace {
        let mut r = Reader::new(&bytes, endian).with_base(base);
        let result = r.u32("the number of ftrace's own events").and_then(|n| {
            super::add_formats(&mut r, "ftrace", n, &mut file.formats, &mut file.diagnostics)
        });
        if let Err(e) = result {
            note(file, base, e);
        }
    }
    if let Some((bytes, base)) = events {
        let mut r = Reader::new(&bytes, endian).with_base(base);
        let result = super::add_systems(&mut r, &mut file.formats, &mut file.diagnostics);
        if let Err(e) = result {
            note(file, base, e);
        }
    }
    if let Some((bytes, _)) = kallsyms {
        file.symbols = Symbols::new(without_size(bytes, endian, 4));
    }
    if let Some((bytes, _)) = printk {
        file.printk = PrintkFormats::parse(&without_size(bytes, endian, 4));
    }
    if let Some((bytes, _)) = cmdlines {
        file.comms = Comms::parse(&without_size(bytes, endian, 8));
    }
    file.latency_text = texts.into_iter().next().map(|(bytes, _)| bytes);
    Ok(layout)
}

/// Section contents begin with their size, as they do in version 6.
fn without_size(bytes: Cow<'_, [u8]>, endian: crate::Endian, width: usize) -> Cow<'_, [u8]> {
    let size = endian.uint(&bytes, width).unwrap_or(0);
    let end = usize::try_from(size).unwrap_or(usize::MAX).saturating_add(width).min(bytes.len());
    let start = width.min(end);
    match bytes {
        Cow::Borrowed(b) => Cow::Borrowed(&b[start..end]),
        Cow::Owned(mut b) => {
            b.truncate(end);
            b.drain(..start);
            Cow::Owned(b)
        }
    }
}

/// A buffer from its option: offset, name, clock, page size, and each CPU's data.
fn buffer(
    data: &[u8],
    file: &mut TraceFile<'_>,
    layout: PageLayout,
    mut o: Reader<'_>,
) -> Result<Buffer, TraceError> {
    let what = "the option of a buffer";
    let at = o.u64(what)?;
    let name = String::from_utf8_lossy(o.cstr(what)?).into_owned();
    let clock = String::from_utf8_lossy(o.cstr(what)?).into_owned();
    let page_size = o.u32(what)?;
    let codec = match section(data, file, at) {
        Ok(s) if s.id == id::BUFFER && s.flags & COMPRESSED == 0 => Codec::None,
        _ => file.codec,
    };
    let layout = PageLayout {
        page_size: if (64..=1 << 26).contains(&page_size) { page_size } else { layout.page_size },
        ..layout
    };
    let mut cpus: Vec<CpuData> = Vec::new();
    for _ in 0..o.u32(what)? {
        let (cpu, offset, mut size) = (o.u32(what)?, o.u64(what)?, o.u64(what)?);
        if cpu >= MAX_CPUS || cpus.iter().any(|c| c.cpu == cpu) {
            file.diagnostics.push(Some(cpu), offset, "this CPU is listed twice or cannot be");
            continue;
        }
        if size == 0 {
            continue;
        }
        if codec != Codec::None {
            // The size in the table leaves the number of chunks (4 bytes) out.
            size = size.saturating_add(4);
        }
        cpus.push(clip(CpuData { cpu, offset, size }, data.len(), &mut file.diagnostics));
    }
    Ok(Buffer { name, clock: super::options::selected_clock(&clock), layout, codec, cpus })
}
