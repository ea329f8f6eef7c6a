//! Version 6: everything in a fixed order, `trace-cmd.dat.v6(5)`.

use super::buffer::{Buffer, CpuData, MAX_CPUS, PageLayout, clip};
use super::options::{id, selected_clock};
use super::tables::{add_formats, add_systems, header_info};
use super::trace_file::{Head, TraceFile};
use crate::bytes::Reader;
use crate::compress::Codec;
use crate::names::{Comms, PrintkFormats, Symbols};
use crate::{Diagnostics, TraceError};
use std::borrow::Cow;

pub(super) fn parse<'a>(
    data: &'a [u8],
    mut r: Reader<'a>,
    head: &Head,
) -> Result<TraceFile<'a>, TraceError> {
    let mut file = TraceFile::empty(data, head);
    let layout = header_info(&mut r, head.page_size)?;
    let count = r.u32("the number of ftrace's own events")?;
    add_formats(&mut r, "ftrace", count, &mut file.formats, &mut file.diagnostics)?;
    add_systems(&mut r, &mut file.formats, &mut file.diagnostics)?;
    let size = r.u32("the kernel's symbols")?;
    file.symbols = Symbols::new(Cow::Borrowed(r.take_u64(size.into(), "the kernel's symbols")?));
    let size = r.u32("the printk formats")?;
    file.printk = PrintkFormats::new(r.take_u64(size.into(), "the printk formats")?);
    let size = r.u64("the command lines")?;
    file.comms = Comms::new(r.take_u64(size, "the command lines")?);
    let at = r.offset();
    let cpus = r.u32("the number of CPUs")?;
    if cpus > MAX_CPUS {
        return Err(TraceError::Malformed {
            offset: at,
            what: "the number of CPUs",
            reason: format!("{cpus} is too many"),
        });
    }
    file.cpu_count = cpus;
    let mut instances = Vec::new();
    let mut tag = r.take(10, "the kind of data")?;
    if tag == b"options  \0" {
        options(&mut r, &mut file, &mut instances)?;
        tag = r.take(10, "the kind of data")?;
    }
    match tag {
        b"latency  \0" => {
            file.latency_text = Some(Cow::Borrowed(r.take(r.remaining(), "the latency trace")?));
            return Ok(file);
        }
        b"flyrecord\0" => {}
        _ => {
            return Err(TraceError::Malformed {
                offset: r.offset() - 10,
                what: "the kind of data",
                reason: "neither \"flyrecord\" nor \"latency\"".into(),
            });
        }
    }
    let top = cpu_table(&mut r, cpus, layout, &mut file.diagnostics, data.len())?;
    let clock = clock_text(&mut r, &file);
    file.buffers.push(Buffer { clock, ..top });
    if let Some(more) = file.options.cpu_count {
        file.cpu_count = file.cpu_count.max(more.min(MAX_CPUS));
    }
    for (offset, name) in instances {
        instance(data, &mut file, layout, cpus, offset, name);
    }
    Ok(file)
}

fn options(
    r: &mut Reader<'_>,
    file: &mut TraceFile<'_>,
    instances: &mut Vec<(u64, String)>,
) -> Result<(), TraceError> {
    loop {
        let number = r.u16("an option")?;
        if number == id::DONE {
            return Ok(());
        }
        let size = r.u32("an option")?;
        let at = r.offset();
        let data = r.take_u64(size.into(), "an option")?;
        let mut option = Reader::new(data, r.endian).with_base(at);
        if number == id::BUFFER {
            let offset = option.u64("the option of an instance")?;
            let name = option.cstr("the option of an instance").unwrap_or_default();
            instances.push((offset, String::from_utf8_lossy(name).into_owned()));
        } else {
            file.options.take(number, &mut option, &mut file.diagnostics);
        }
    }
}

/// Offset and size of every CPU's data, clipped to the file.
fn cpu_table(
    r: &mut Reader<'_>,
    cpus: u32,
    layout: PageLayout,
    diagnostics: &mut Diagnostics,
    len: usize,
) -> Result<Buffer, TraceError> {
    let mut list = Vec::new();
    for cpu in 0..cpus {
        let (offset, size) = (r.u64("the table of CPUs")?, r.u64("the table of CPUs")?);
        if size > 0 {
            list.push(clip(CpuData { cpu, offset, size }, len, diagnostics));
        }
    }
    Ok(Buffer { name: String::new(), clock: String::new(), layout, codec: Codec::None, cpus: list })
}

/// The clock's text follows the table, when an option announced it; some old recorders wrote it wrongly.
fn clock_text(r: &mut Reader<'_>, file: &TraceFile<'_>) -> String {
    if file.options.clock.is_empty() {
        return String::new();
    }
    let mut probe = r.clone();
    // An empty pair precedes it when an option raised the number of CPUs.
    if file.options.cpu_count.is_some_and(|n| n > file.cpu_count) {
        let _ = probe.take(16, "");
    }
    let text = probe
        .u64("")
        .ok()
        .filter(|n| *n < 4096)
        .and_then(|n| probe.take_u64(n, "").ok())
        .map(|t| selected_clock(&String::from_utf8_lossy(t)))
        .filter(|t| !t.is_empty() && t.bytes().all(|b| b.is_ascii_graphic()));
    text.unwrap_or_else(|| file.options.clock.clone())
}

fn instance(
    data: &[u8],
    file: &mut TraceFile<'_>,
    layout: PageLayout,
    cpus: u32,
    offset: u64,
    name: String,
) {
    let start = usize::try_from(offset).ok().and_then(|at| data.get(at..));
    let table = start.filter(|d| d.starts_with(b"flyrecord\0")).and_then(|d| {
        let mut r = Reader::new(d, file.endian).with_base(offset);
        r.seek(10);
        cpu_table(&mut r, cpus, layout, &mut file.diagnostics, data.len()).ok()
    });
    match table {
        Some(buffer) => {
            let clock = file.buffers.first().map(|b| b.clock.clone()).unwrap_or_default();
            file.buffers.push(Buffer { name, clock, ..buffer });
        }
        None => {
            file.diagnostics.push(
                None,
                offset,
                format!("the data of instance {name} are not there"),
            );
        }
    }
}
