//! Version 6: strictly sequential; understood by every trace-cmd since 2010. Never compressed.

use super::{
    Bytes, CpuData, Metadata, WriteError, align, common_options, event_formats, ftrace_formats,
    header_info, option, start,
};
use std::io::{Read, Write};

/// Writes a complete version 6 file.
///
/// # Errors
/// [`WriteError::Output`] when `out` refuses, [`WriteError::Input`] when a CPU's pages cannot be
/// read, [`WriteError::TooLarge`] when a text does not fit its 32-bit size.
pub fn write<R: Read>(
    out: &mut impl Write,
    meta: &Metadata,
    cpus: &mut [CpuData<R>],
) -> Result<(), WriteError> {
    let mut head = head(meta)?;
    // The table has one entry for each CPU up to the highest; absent ones are empty.
    let table = head.bytes.len() as u64 + u64::from(meta.cpu_count) * 16;
    let clock = 8 + meta.trace_clock.len() as u64;
    let mut at = align(table + clock, meta.page_size);
    let first = at;
    for cpu in 0..meta.cpu_count {
        let bytes = cpus.iter().find(|c| c.cpu == cpu).map_or(0, |c| c.bytes);
        head.u64(at).u64(bytes);
        at = align(at + bytes, meta.page_size);
    }
    head.sized64(meta.trace_clock.as_bytes());
    let pad = usize::try_from(first).unwrap_or(usize::MAX).saturating_sub(head.bytes.len());
    head.raw(&vec![0; pad]);
    out.write_all(&head.bytes).map_err(WriteError::Output)?;

    cpus.sort_by_key(|c| c.cpu);
    for cpu in cpus {
        let bytes = cpu.bytes;
        cpu.copy_to(out)?;
        let pad = align(bytes, meta.page_size) - bytes;
        out.write_all(&vec![0; usize::try_from(pad).unwrap_or(0)]).map_err(WriteError::Output)?;
    }
    out.flush().map_err(WriteError::Output)
}

/// Everything before the table of per-CPU data.
fn head(meta: &Metadata) -> Result<Bytes, WriteError> {
    let mut b = start(meta, "6");
    b.raw(&header_info(meta).bytes);
    b.raw(&ftrace_formats(meta)?.bytes).raw(&event_formats(meta)?.bytes);
    b.sized32("kallsyms", &meta.kallsyms)?;
    b.sized32("printk_formats", &meta.printk_formats)?;
    b.sized64(&meta.cmdlines);
    b.u32(meta.cpu_count);
    b.raw(b"options  \0");
    for (id, data) in common_options(meta) {
        // CPUCOUNT would announce more CPUs than the count above and add an entry to the table.
        if id != option::CPUCOUNT {
            b.u16(id).sized32("an option", &data)?;
        }
    }
    b.u16(option::DONE);
    b.raw(b"flyrecord\0");
    Ok(b)
}
