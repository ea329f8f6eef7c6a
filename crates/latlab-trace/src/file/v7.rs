//! Version 7: sections, found through a chain of options, `trace-cmd.dat.v7(5)`.
//!
//! ```text
//! section: id(2) flags(2) description(4) size(8)  data…
//! compressed (flag 1): csize(4) usize(4) data…
//! options: { id(2) size(4) data }…  DONE(0) 8 offset-of-next(8)
//! ```

use super::buffer::{Buffer, CpuData, MAX_CPUS, PageLayout, clip};
use super::options::id;
use super::salvage;
use super::section::{COMPRESSED, Pointers, contents, options, section};
use super::tables::{add_formats, add_systems, header_info};
use super::trace_file::{Head, TraceFile};
use crate::bytes::Reader;
use crate::compress::Codec;
use crate::format::KnownFormats;
use crate::names::{Comms, PrintkFormats, Symbols};
use crate::{Diagnostics, TraceError};
use std::borrow::Cow;
use std::collections::HashSet;

pub(super) fn parse<'a>(
    data: &'a [u8],
    r: Reader<'a>,
    head: &Head,
    known: Option<&mut KnownFormats>,
) -> Result<TraceFile<'a>, TraceError> {
    let mut file = TraceFile::empty(data, head);
    let mut pointers = pointers(data, &mut file, r)?;
    let layout = load_sections(data, &mut file, head, &pointers, known)?;
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

/// Reads what follows the head and finds the sections. The file's codec and options are set.
pub(super) fn pointers(
    data: &[u8],
    file: &mut TraceFile<'_>,
    mut r: Reader<'_>,
) -> Result<Pointers, TraceError> {
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
    chain(data, file, first_option, &mut pointers);
    if pointers.header.is_none() || pointers.buffers.is_empty() && pointers.texts.is_empty() {
        salvage::find_sections(data, file, first_section, &mut pointers);
    }
    Ok(pointers)
}

/// Follows the chain of options.
fn chain(data: &[u8], file: &mut TraceFile<'_>, first: u64, pointers: &mut Pointers) {
    let mut seen = HashSet::new();
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

fn load_sections<'a>(
    data: &'a [u8],
    file: &mut TraceFile<'a>,
    head: &Head,
    p: &Pointers,
    known: Option<&mut KnownFormats>,
) -> Result<PageLayout, TraceError> {
    let mut layout = PageLayout::new(head.user_long_size.clamp(4, 8), head.page_size);
    match p.header {
        Some(at) => {
            let (bytes, base) = contents(data, file, at, id::HEADER_INFO)?;
            let mut r = Reader::new(&bytes, file.endian).with_base(base);
            layout = header_info(&mut r, head.page_size)?;
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
    let text = p
        .texts
        .iter()
        .find_map(|at| load("latency trace", Some(*at), id::BUFFER_TEXT, &mut damage));
    file.diagnostics.extend(&damage);

    load_formats(file, ftrace.as_ref(), events.as_ref(), known);
    if let Some((bytes, _)) = kallsyms {
        file.symbols = Symbols::new(without_size(bytes, endian, 4));
    }
    if let Some((bytes, _)) = printk {
        file.printk = PrintkFormats::new(&without_size(bytes, endian, 4));
    }
    if let Some((bytes, _)) = cmdlines {
        file.comms = Comms::new(&without_size(bytes, endian, 8));
    }
    file.latency_text = text.map(|(bytes, _)| bytes);
    Ok(layout)
}

/// Contents of a section, and their place in the file.
type Section<'a> = (Cow<'a, [u8]>, u64);

/// Parses the event formats, or shares those of the file before. Damaged ones are always parsed, and reported.
fn load_formats(
    file: &mut TraceFile<'_>,
    ftrace: Option<&Section<'_>>,
    events: Option<&Section<'_>>,
    known: Option<&mut KnownFormats>,
) {
    let sections = [ftrace, events].map(|s| s.map_or(&[][..], |(bytes, _)| &**bytes));
    if let Some(formats) = known.as_ref().and_then(|k| k.get(sections, file.endian)) {
        file.formats = formats;
        return;
    }
    let mut damage = Diagnostics::default();
    let note = |at: u64, result: Result<(), TraceError>, damage: &mut Diagnostics| {
        if let Err(e) = result {
            damage.push(None, at, format!("not all event formats can be read: {e}"));
        }
    };
    if let Some((bytes, base)) = ftrace {
        let mut r = Reader::new(bytes, file.endian).with_base(*base);
        let result = r
            .u32("the number of ftrace's own events")
            .and_then(|n| add_formats(&mut r, "ftrace", n, &mut file.formats, &mut damage));
        note(*base, result, &mut damage);
    }
    if let Some((bytes, base)) = events {
        let mut r = Reader::new(bytes, file.endian).with_base(*base);
        let result = add_systems(&mut r, &mut file.formats, &mut damage);
        note(*base, result, &mut damage);
    }
    if let Some(known) = known.filter(|_| damage.is_empty()) {
        known.keep(sections, file.endian, &file.formats);
    }
    file.diagnostics.extend(&damage);
}

/// Section contents begin with their size, as they do in version 6.
pub(super) fn without_size(
    bytes: Cow<'_, [u8]>,
    endian: crate::Endian,
    width: usize,
) -> Cow<'_, [u8]> {
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
    let mut listed = HashSet::new();
    for _ in 0..o.u32(what)? {
        let (cpu, offset, mut size) = (o.u32(what)?, o.u64(what)?, o.u64(what)?);
        if cpu >= MAX_CPUS || !listed.insert(cpu) {
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
