//! A trace, or a part of it, as another trace.dat: shorter, of fewer CPUs or events, or in the other version.
//!
//! Records are copied as they are; time stamps are those that are read, after the corrections that the file asks for.
//! Events of several buffers become one, in order of time. Losses before an event that is left out are kept before the
//! next one of that CPU.

use super::{Compression, CpuData, Metadata, WriteError, v6, v7};
use crate::file::PageLayout;
use crate::ring::PageEncoder;
use crate::{Diagnostics, Event, Events, Missed, Select, TraceError, TraceFile};
use std::collections::BTreeSet;
use std::io::{self, Read, Seek, Write};

/// Largest page of a kernel, bytes (RB_WRITE_MASK in kernel/trace/ring_buffer.c).
const PAGE_MAX: u32 = 1 << 20;
/// A damaged file of so many times its own size, and of more bytes than this, is not written.
const RATIO_MAX: u64 = 256;
const SIZE_MIN: u64 = 1 << 30;

/// Version and compression of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Version 6, never compressed.
    Six,
    /// Version 7.
    Seven(Compression),
}

/// What was written.
#[derive(Clone, Debug, Default)]
pub struct Extracted {
    /// Events.
    pub events: u64,
    /// Events that are recorded as lost, as far as their number is known.
    pub lost: u64,
    /// What of the chosen part could not be read.
    pub diagnostics: Diagnostics,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExtractError {
    /// The source is not a trace.dat with a ring buffer.
    #[error("only a trace.dat of events has what another one needs; this is text")]
    Text,
    /// Pages of another size than those of the first buffer, or of one that no kernel has.
    #[error(
        "its buffers have pages of {0} and {1} bytes; those of one size, at most 1 MiB, can be written"
    )]
    Pages(u32, u32),
    /// More pages than the file can have.
    #[error("its time stamps are damaged: {0} MiB would be written")]
    Size(u64),
    /// A table cannot be read.
    #[error(transparent)]
    Table(#[from] TraceError),
    /// Writing failed.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Writes the chosen events that `keep` lets pass; `threads` compress. Each CPU is read twice: to count its pages, and to
/// write them, so that memory does not grow with the trace.
///
/// # Errors
/// [`ExtractError`]. What was written until then is no trace.
pub fn write<K>(
    out: &mut (impl Write + Seek),
    file: &TraceFile<'_>,
    select: &Select,
    keep: &K,
    version: Version,
    threads: usize,
) -> Result<Extracted, ExtractError>
where
    K: Fn(&Event<'_>) -> bool,
{
    let meta = match file.metadata() {
        Err(TraceError::NotATrace) => return Err(ExtractError::Text),
        other => other?,
    };
    if file.latency_text.is_some() || file.buffers.is_empty() {
        return Err(ExtractError::Text);
    }
    let size = meta.page_size;
    let other = file.buffers.iter().map(|b| b.layout.page_size).find(|s| *s != size);
    if other.is_some() || size > PAGE_MAX {
        return Err(ExtractError::Pages(size, other.unwrap_or(size)));
    }
    let cpus: BTreeSet<u32> = file.buffers.iter().flat_map(|b| &b.cpus).map(|c| c.cpu).collect();
    let chosen = |cpu: &u32| select.cpus.as_ref().is_none_or(|list| list.contains(cpu));
    let mut written = Extracted::default();
    let (mut data, mut total) = (Vec::new(), 0u64);
    for cpu in cpus.into_iter().filter(chosen) {
        let pages = || Pages::new(file, select, keep, cpu, meta.page_size);
        let mut counted = pages();
        let bytes = io::copy(&mut counted, &mut io::sink())
            .map_err(|source| WriteError::Input { cpu, source })?;
        total += bytes;
        if total > SIZE_MIN && total / RATIO_MAX > file.len() {
            return Err(ExtractError::Size(total >> 20));
        }
        written.events += counted.events_count;
        written.lost = written.lost.saturating_add(counted.lost);
        written.diagnostics.extend(&counted.diagnostics);
        data.push(CpuData { cpu, bytes, pages: pages() });
    }
    put(out, &meta, &mut data, version, threads)?;
    Ok(written)
}

fn put<R: Read>(
    out: &mut (impl Write + Seek),
    meta: &Metadata,
    data: &mut [CpuData<R>],
    version: Version,
    threads: usize,
) -> Result<(), WriteError> {
    match version {
        Version::Six => v6::write(out, meta, data),
        Version::Seven(compression) => v7::write(out, meta, compression, threads, data),
    }
}

/// The pages of one CPU, made while they are read.
struct Pages<'f, K> {
    file: &'f TraceFile<'f>,
    select: Select,
    keep: &'f K,
    cpu: u32,
    /// Opened by the first reading, closed at the end: one CPU's chunks are in memory at a time.
    events: Option<Events<'f>>,
    ended: bool,
    encoder: PageEncoder,
    page: Vec<u8>,
    at: usize,
    /// Losses before events that were left out.
    missed: Missed,
    events_count: u64,
    lost: u64,
    diagnostics: Diagnostics,
}

impl<'f, K: Fn(&Event<'_>) -> bool> Pages<'f, K> {
    fn new(
        file: &'f TraceFile<'f>,
        select: &Select,
        keep: &'f K,
        cpu: u32,
        page_size: u32,
    ) -> Self {
        let layout = file.buffers.first().map_or(PageLayout::new(8, page_size), |b| b.layout);
        let layout = PageLayout { page_size, ..layout };
        Self {
            file,
            select: Select { cpus: Some(vec![cpu]), ..select.clone() },
            keep,
            cpu,
            events: None,
            ended: false,
            encoder: PageEncoder::new(layout, file.endian),
            page: Vec::new(),
            at: 0,
            missed: Missed::No,
            events_count: 0,
            lost: 0,
            diagnostics: Diagnostics::default(),
        }
    }

    /// Makes the next page; `false` at the end.
    fn next_page(&mut self) -> io::Result<bool> {
        self.at = 0;
        self.page.clear();
        if self.ended {
            return Ok(false);
        }
        let events = self.events.get_or_insert_with(|| self.file.select(&self.select));
        while let Some(event) = events.next() {
            let missed = together(self.missed, event.missed);
            if !(self.keep)(&event) {
                self.missed = missed;
                continue;
            }
            self.missed = Missed::No;
            self.events_count += 1;
            if let Missed::Count(n) = missed {
                self.lost = self.lost.saturating_add(n);
            }
            if self.encoder.push(event.time, event.payload, missed) {
                continue;
            }
            let full = !self.encoder.is_empty();
            self.encoder.finish(&mut self.page);
            if !full || !self.encoder.push(event.time, event.payload, missed) {
                let (bytes, cpu) = (event.payload.len(), self.cpu);
                let what =
                    format!("an event of {bytes} bytes on CPU {cpu} does not fit into a page");
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            return Ok(true);
        }
        self.ended = true;
        self.diagnostics = events.diagnostics();
        self.events = None;
        if self.encoder.is_empty() {
            return Ok(false);
        }
        self.encoder.finish(&mut self.page);
        Ok(true)
    }
}

impl<K: Fn(&Event<'_>) -> bool> Read for Pages<'_, K> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.page.len() && !self.next_page()? {
            return Ok(0);
        }
        let rest = self.page.get(self.at..).unwrap_or_default();
        let n = rest.len().min(buffer.len());
        buffer[..n].copy_from_slice(&rest[..n]);
        self.at += n;
        Ok(n)
    }
}

/// Losses at two places that become one.
fn together(a: Missed, b: Missed) -> Missed {
    match (a, b) {
        (Missed::No, other) | (other, Missed::No) => other,
        (Missed::Count(a), Missed::Count(b)) => Missed::Count(a.saturating_add(b)),
        _ => Missed::Unknown,
    }
}
