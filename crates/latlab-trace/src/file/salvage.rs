//! What can be found in a version 7 file whose options are missing.
//!
//! The options that say where each CPU's data lie are written last, so a file
//! that was cut off has the data but not their table. Sections follow one
//! another, and the data have a shape: pages (or chunks of them) back to back,
//! each CPU's beginning at a multiple of the page size, and time stamps that
//! do not run backwards within a CPU. The CPUs' numbers are not in there; they
//! are counted in the order in which they come, which is the recorder's.

use super::options::id;
use super::section::{COMPRESSED, Pointers, SECTION_HEAD, Section, options, section};
use super::{Buffer, CpuData, Options, PageLayout, TraceFile};
use crate::compress::Codec;

/// Walks the sections from the first to the end of the file.
pub(super) fn find_sections(
    data: &[u8],
    file: &mut TraceFile<'_>,
    first: u64,
    pointers: &mut Pointers,
) {
    *pointers = Pointers::default();
    file.options = Options::default();
    let mut at = first;
    let mut found = 0;
    while let Ok(s) = section(data, file, at) {
        let slot = match s.id {
            id::DONE => {
                if let Err(e) = options(data, file, at, pointers) {
                    file.diagnostics.push(None, at, format!("the options cannot be read: {e}"));
                }
                None
            }
            id::BUFFER => {
                pointers.orphans.push(s);
                None
            }
            id::HEADER_INFO => Some(&mut pointers.header),
            id::FTRACE_EVENTS => Some(&mut pointers.ftrace),
            id::EVENT_FORMATS => Some(&mut pointers.events),
            id::KALLSYMS => Some(&mut pointers.kallsyms),
            id::PRINTK => Some(&mut pointers.printk),
            id::CMDLINES => Some(&mut pointers.cmdlines),
            other if other < 64 => None,
            _ => break,
        };
        if let Some(slot) = slot {
            slot.get_or_insert(at);
        }
        found += 1;
        // An unfinished section of data says 0 and goes on to the end.
        if s.id == id::BUFFER && s.size == 0 {
            break;
        }
        at = at.saturating_add(SECTION_HEAD).saturating_add(s.size);
    }
    if !pointers.buffers.is_empty() {
        pointers.orphans.clear();
    }
    let what = format!("the options are incomplete; {found} sections were found without them");
    file.diagnostics.push(None, first, what);
}

/// A section of data without a table of CPUs.
pub(super) fn orphan_buffer(data: &[u8], file: &mut TraceFile<'_>, layout: PageLayout, s: Section) {
    let len = data.len() as u64;
    let end = if s.size == 0 { len } else { s.data_at.saturating_add(s.size).min(len) };
    if s.size > 0 && s.data_at.saturating_add(s.size) > len {
        let there = len.saturating_sub(s.data_at);
        let what = format!("the file ends: {there} of {} bytes of recorded data are there", s.size);
        file.diagnostics.push(None, len, what);
    }
    let page = u64::from(layout.page_size);
    let start = s.data_at.next_multiple_of(page);
    let compressed = s.flags & COMPRESSED != 0 && file.codec != Codec::None;
    let cpus = if compressed {
        compressed_runs(data, file, start, end, page)
    } else {
        page_runs(data, file, layout, start, end)
    };
    file.diagnostics.push(
        None,
        s.data_at,
        format!(
            "the table of CPUs is missing; {} were told apart by their time stamps and numbered in that order",
            cpus.len()
        ),
    );
    file.buffers.push(Buffer {
        name: String::new(),
        clock: file.options.clock.clone(),
        layout,
        codec: if compressed { file.codec } else { Codec::None },
        cpus,
    });
}

fn word(data: &[u8], file: &TraceFile<'_>, at: u64, size: usize) -> Option<u64> {
    file.endian.uint(data.get(usize::try_from(at).ok()?..)?, size)
}

/// Each run of chunks: their number, then compressed size, size and bytes of each.
fn compressed_runs(
    data: &[u8],
    file: &TraceFile<'_>,
    mut at: u64,
    end: u64,
    page: u64,
) -> Vec<CpuData> {
    let mut cpus: Vec<CpuData> = Vec::new();
    while at < end {
        let Some(chunks) = word(data, file, at, 4) else { break };
        let mut pos = at + 4;
        for _ in 0..chunks {
            let Some(size) = word(data, file, pos, 4) else { break };
            pos = pos.saturating_add(8).saturating_add(size);
            if pos >= end {
                break;
            }
        }
        let size = pos.min(end) - at;
        cpus.push(CpuData { cpu: cpus.len() as u32, offset: at, size });
        at = pos.next_multiple_of(page);
    }
    cpus
}

/// Each run of pages whose time stamps do not run backwards.
fn page_runs(
    data: &[u8],
    file: &TraceFile<'_>,
    layout: PageLayout,
    start: u64,
    end: u64,
) -> Vec<CpuData> {
    let page = u64::from(layout.page_size);
    let mut cpus: Vec<CpuData> = Vec::new();
    let mut last = u64::MAX;
    let mut at = start;
    while at < end {
        let Some(time) = word(data, file, at, 8) else { break };
        let size = page.min(end - at);
        match cpus.last_mut() {
            Some(cpu) if time >= last => cpu.size += size,
            _ => cpus.push(CpuData { cpu: cpus.len() as u32, offset: at, size }),
        }
        last = time;
        at += page;
    }
    cpus
}
