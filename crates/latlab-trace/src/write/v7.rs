//! Version 7: sections that a chain of options points to; data compressed in chunks.

use super::compress::{chunks, section};
use super::{
    Bytes, Compression, CpuData, Metadata, WriteError, align, common_options, event_formats,
    ftrace_formats, header_info, option, start, u64_bytes,
};
use std::io::{Read, Seek, SeekFrom, Write};

/// Section header: id, flags, description, size.
pub(super) const SECTION_HEADER: u64 = 16;
/// Section flag: the content is compressed.
const COMPRESSED: u16 = 1;

/// Writes a complete version 7 file; `threads` compress.
///
/// # Errors
/// As [`super::v6::write`], and [`WriteError::Compress`] when a compressor fails.
pub fn write<R: Read>(
    out: &mut (impl Write + Seek),
    meta: &Metadata,
    compression: Compression,
    threads: usize,
    cpus: &mut [CpuData<R>],
) -> Result<(), WriteError> {
    let mut head = Head::new(meta, compression);
    head.metadata()?;
    cpus.sort_by_key(|c| c.cpu);
    let data_section = head.bytes.bytes.len() as u64;
    head.section_header(option::BUFFER, compression != Compression::None, 0);
    out.write_all(&head.bytes.bytes).map_err(WriteError::Output)?;

    let mut at = data_section + SECTION_HEADER;
    let mut table = Vec::new();
    for cpu in cpus.iter_mut() {
        let offset = align(at, meta.page_size);
        pad(out, offset - at)?;
        let (stored, length) = if compression == Compression::None {
            cpu.copy_to(out)?;
            (cpu.bytes, cpu.bytes)
        } else {
            compressed_cpu(out, meta, compression, threads, cpu, offset)?
        };
        table.push((cpu.cpu, offset, length));
        at = offset + stored;
    }
    let end = at;
    head.options(end, data_section, &table)?;
    out.write_all(head.bytes.bytes.get(head.written..).unwrap_or_default())
        .map_err(WriteError::Output)?;
    patch(out, meta, data_section + 8, end - data_section - SECTION_HEADER)?;
    patch(out, meta, head.options_field, end)?;
    out.seek(SeekFrom::End(0)).map_err(WriteError::Output)?;
    out.flush().map_err(WriteError::Output)
}

/// Chunk count and chunks of one CPU. Returns the bytes in the file and the size to record.
fn compressed_cpu<R: Read>(
    out: &mut (impl Write + Seek),
    meta: &Metadata,
    compression: Compression,
    threads: usize,
    cpu: &mut CpuData<R>,
    offset: u64,
) -> Result<(u64, u64), WriteError> {
    if cpu.bytes == 0 {
        return Ok((0, 0));
    }
    out.write_all(&[0; 4]).map_err(WriteError::Output)?;
    let (count, length) = chunks(meta, compression, threads, cpu, out)?;
    let mut field = Bytes::new(meta);
    field.u32(count);
    out.seek(SeekFrom::Start(offset)).map_err(WriteError::Output)?;
    out.write_all(&field.bytes).map_err(WriteError::Output)?;
    out.seek(SeekFrom::Start(offset + 4 + length)).map_err(WriteError::Output)?;
    Ok((length + 4, length))
}

fn pad(out: &mut impl Write, bytes: u64) -> Result<(), WriteError> {
    let zeros = vec![0; usize::try_from(bytes).unwrap_or(0)];
    out.write_all(&zeros).map_err(WriteError::Output)
}

fn patch(
    out: &mut (impl Write + Seek),
    meta: &Metadata,
    at: u64,
    value: u64,
) -> Result<(), WriteError> {
    out.seek(SeekFrom::Start(at)).map_err(WriteError::Output)?;
    out.write_all(&u64_bytes(meta.big_endian, value)).map_err(WriteError::Output)
}

/// The sections before the data, and the options that point to them.
pub(super) struct Head<'a> {
    meta: &'a Metadata,
    compression: Compression,
    /// What was built so far; its length is the offset in the file until the data are written.
    pub bytes: Bytes,
    /// Offset of the field that holds the offset of the first options section.
    pub options_field: u64,
    /// Offset of each metadata section.
    sections: Vec<(u16, u64)>,
    /// How much of `bytes` lies before the data.
    pub written: usize,
}

impl<'a> Head<'a> {
    pub fn new(meta: &'a Metadata, compression: Compression) -> Self {
        let mut bytes = start(meta, "7");
        bytes.string(compression.name()).string(compression.version());
        let options_field = bytes.bytes.len() as u64;
        bytes.u64(0);
        Self { meta, compression, bytes, options_field, sections: Vec::new(), written: 0 }
    }

    /// All sections but data and options.
    pub fn metadata(&mut self) -> Result<(), WriteError> {
        let meta = self.meta;
        self.section(option::HEADER_INFO, &header_info(meta).bytes, false)?;
        self.section(option::FTRACE_EVENTS, &ftrace_formats(meta)?.bytes, true)?;
        self.section(option::EVENT_FORMATS, &event_formats(meta)?.bytes, true)?;
        let mut text = Bytes::new(meta);
        text.sized32("kallsyms", &meta.kallsyms)?;
        self.section(option::KALLSYMS, &text.bytes, true)?;
        let mut text = Bytes::new(meta);
        text.sized32("printk_formats", &meta.printk_formats)?;
        self.section(option::PRINTK, &text.bytes, true)?;
        let mut text = Bytes::new(meta);
        text.sized64(&meta.cmdlines);
        self.section(option::CMDLINES, &text.bytes, true)?;
        self.section_header(option::STRINGS, false, STRINGS.len() as u64);
        self.bytes.raw(STRINGS);
        Ok(())
    }

    fn section(&mut self, id: u16, plain: &[u8], compress: bool) -> Result<(), WriteError> {
        self.sections.push((id, self.bytes.bytes.len() as u64));
        let method = if compress { self.compression } else { Compression::None };
        let packed = section(self.meta, method, plain)?;
        let content = packed.as_deref().unwrap_or(plain);
        self.section_header(id, packed.is_some(), content.len() as u64);
        self.bytes.raw(content);
        Ok(())
    }

    pub fn section_header(&mut self, id: u16, compressed: bool, size: u64) {
        let flags = if compressed { COMPRESSED } else { 0 };
        self.bytes.u16(id).u16(flags).u32(description(id)).u64(size);
        self.written = self.bytes.bytes.len();
    }

    /// The only options section, at offset `at` of the file. Returns the offset of the first
    /// CPU's entry in the buffer's table.
    pub fn options(
        &mut self,
        at: u64,
        data_section: u64,
        table: &[(u32, u64, u64)],
    ) -> Result<u64, WriteError> {
        let meta = self.meta;
        let mut b = Bytes::new(meta);
        for &(id, offset) in &self.sections {
            b.u16(id).u32(8).u64(offset);
        }
        for (id, data) in common_options(meta) {
            b.u16(id).sized32("an option", &data)?;
        }
        let mut buffer = Bytes::new(meta);
        buffer.u64(data_section).string("").string(&meta.clock).u32(meta.page_size);
        buffer.u32(super::length32("the list of CPUs", table.len())?);
        let first = buffer.bytes.len() as u64;
        for &(cpu, offset, size) in table {
            buffer.u32(cpu).u64(offset).u64(size);
        }
        b.u16(option::BUFFER);
        let entry = at + SECTION_HEADER + b.bytes.len() as u64 + 4 + first;
        b.sized32("the buffer's option", &buffer.bytes)?;
        b.u16(option::DONE).u32(8).u64(0);
        self.bytes.u16(option::DONE).u16(0).u32(description(option::DONE));
        self.bytes.u64(b.bytes.len() as u64).raw(&b.bytes);
        Ok(entry)
    }
}

/// Names of the sections; a section header holds the offset of its own. For `trace-cmd dump`.
const STRINGS: &[u8] =
    b"options\0buffer flyrecord \0headers\0ftrace events\0events format\0kallsyms\0printk\0command lines\0strings\0";

fn description(id: u16) -> u32 {
    let name: &[u8] = match id {
        option::BUFFER => b"buffer flyrecord \0",
        option::STRINGS => b"strings\0",
        option::HEADER_INFO => b"headers\0",
        option::FTRACE_EVENTS => b"ftrace events\0",
        option::EVENT_FORMATS => b"events format\0",
        option::KALLSYMS => b"kallsyms\0",
        option::PRINTK => b"printk\0",
        option::CMDLINES => b"command lines\0",
        _ => b"options\0",
    };
    let at = STRINGS.windows(name.len()).position(|w| w == name).unwrap_or(0);
    u32::try_from(at).unwrap_or(0)
}
