//! One CPU's records, page after page, whether mapped or inflated.
//!
//! A page that makes no sense is reported and left out; reading goes on with
//! the next. Besides a length that does not fit, a time stamp far from both of
//! its neighbours' gives a damaged page away: left in, it would hold up every
//! later event of its CPU.

use super::chunk::{Chunk, CompressedChunk};
use super::clock::TimeFix;
use super::page::{Missed, PageHead, PageRecords, Step, step};
use super::read_ahead::ReadAhead;
use crate::compress::{Codec, Inflater, inflated_bound};
use crate::file::{Buffer, CpuData, PageLayout};
use crate::{Diagnostics, Endian, TraceFile};
use std::sync::Arc;

/// Where the next bytes come from.
#[derive(Debug)]
enum Source<'a> {
    /// All of a CPU's data are in the chunk at hand.
    Whole,
    /// Compressed chunks, by their place.
    Chunks { list: Vec<CompressedChunk>, next: usize, codec: Codec, inflater: Inflater },
    /// Compressed chunks that others inflate ahead; their number for this CPU.
    Ahead { ahead: Arc<ReadAhead<'a>>, lane: usize, inflater: Inflater },
}

/// A time stamp further than this from both neighbours' is damage.
pub(super) const FAR_NS: u64 = 1_000_000_000;

/// One CPU of one buffer.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    pub cpu: u32,
    pub buffer: u16,
    /// The bytes that the record at hand lies in.
    pub chunk: Chunk<'a>,
    /// Increases with every chunk.
    pub chunk_number: usize,
    /// The record at hand: time, place in the chunk, length, losses before it.
    pub time: u64,
    pub at: usize,
    pub len: usize,
    pub missed: Missed,
    pos: usize,
    end: usize,
    raw: u64,
    next_page: usize,
    last: u64,
    big: bool,
    /// Made from text, where times may jump: no time stamp is damage.
    trusted: bool,
    endian: Endian,
    layout: PageLayout,
    fix: TimeFix,
    source: Source<'a>,
    file: &'a [u8],
    base: u64,
    pub diagnostics: Diagnostics,
}

impl<'a> Cursor<'a> {
    /// Stands before the first record: call [`Cursor::advance`].
    pub fn new(file: &'a TraceFile<'_>, number: u16, buffer: &Buffer, cpu: CpuData) -> Self {
        let data: &'a [u8] = &file.data;
        let mut diagnostics = Diagnostics::default();
        let start = usize::try_from(cpu.offset).unwrap_or(usize::MAX).min(data.len());
        let size = usize::try_from(cpu.size).unwrap_or(usize::MAX).min(data.len() - start);
        let (chunk, source) = if buffer.codec == Codec::None {
            (Chunk::Mapped(&data[start..start + size]), Source::Whole)
        } else {
            let list = chunk_list(&data[start..start + size], file, cpu, &mut diagnostics);
            let source = Source::Chunks {
                list,
                next: 0,
                codec: buffer.codec,
                inflater: Inflater::default(),
            };
            (Chunk::Mapped(&[]), source)
        };
        Self {
            cpu: cpu.cpu,
            buffer: number,
            chunk,
            chunk_number: 0,
            time: 0,
            at: 0,
            len: 0,
            missed: Missed::No,
            pos: 0,
            end: 0,
            raw: 0,
            next_page: 0,
            last: 0,
            big: file.endian == Endian::Big,
            trusted: file.version == 0,
            endian: file.endian,
            layout: buffer.layout,
            fix: TimeFix::new(file, cpu.cpu),
            source,
            file: data,
            base: start as u64,
            diagnostics,
        }
    }

    /// To the next record; false when there is none.
    #[inline]
    pub fn advance(&mut self) -> bool {
        self.missed = Missed::No;
        loop {
            let records = &self.chunk.bytes()[..self.end];
            let found = if self.big {
                step::<true>(records, &mut self.pos, &mut self.raw)
            } else {
                step::<false>(records, &mut self.pos, &mut self.raw)
            };
            match found {
                Step::Record { at, len } => {
                    self.at = at;
                    self.len = len;
                    self.time = self.fix.apply(self.raw);
                    return true;
                }
                Step::End => {}
                Step::Bad(at, what) => {
                    self.note(at, format!("{what}; the rest of the page is left out"));
                }
            }
            if !self.page() {
                return false;
            }
        }
    }

    /// What `look` makes of the record after the one at hand; `None` when there is none, or
    /// something lies between that cannot be read.
    pub fn peek<R>(&self, look: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let bytes = self.chunk.bytes();
        let (mut pos, mut raw) = (self.pos, self.raw);
        let records = &bytes[..self.end];
        let found = match self.big {
            true => step::<true>(records, &mut pos, &mut raw),
            false => step::<false>(records, &mut pos, &mut raw),
        };
        if let Step::Record { at, len } = found {
            return Some(look(&records[at..at + len]));
        }
        if self.next_page < bytes.len() {
            return self.first_of(&bytes[self.next_page..], look);
        }
        let Source::Chunks { list, next, codec, .. } = &self.source else { return None };
        let packed = list.get(*next)?;
        let at = packed.at as usize;
        let data = self.file.get(at..at + packed.len as usize)?;
        // Once a chunk at most: inflating it twice is cheaper than keeping two.
        let mut inflated = Vec::new();
        Inflater::default().inflate(*codec, data, packed.inflated as usize, &mut inflated).ok()?;
        self.first_of(&inflated, look)
    }

    fn first_of<R>(&self, pages: &[u8], look: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let page = &pages[..pages.len().min(self.layout.page_size as usize)];
        let (mut records, _) = PageRecords::of(page, &self.layout, self.endian).ok()?;
        records.next().map(|(_, payload)| look(payload))
    }

    /// Whether numbers have the most significant byte first.
    #[inline(always)]
    pub fn is_big(&self) -> bool {
        self.big
    }

    /// The record at hand.
    #[inline(always)]
    pub fn payload(&self) -> &[u8] {
        &self.chunk.bytes()[self.at..self.at + self.len]
    }

    #[cold]
    fn note(&mut self, at: usize, what: String) {
        self.diagnostics.push(Some(self.cpu), self.base + at as u64, what);
    }

    /// To the next page that makes sense.
    #[inline(never)]
    fn page(&mut self) -> bool {
        self.last = self.last.max(self.raw);
        loop {
            let size = self.layout.page_size as usize;
            let at = self.next_page;
            let there = self.chunk.bytes().len().saturating_sub(at);
            if there == 0 {
                if !self.next_chunk() {
                    self.pos = 0;
                    self.end = 0;
                    return false;
                }
                continue;
            }
            let available = there.min(size);
            self.next_page = at + available;
            let bytes = &self.chunk.bytes()[at..at + available];
            let head = match PageHead::parse(bytes, &self.layout, self.endian) {
                Ok(head) => head,
                Err(what) => {
                    self.note(at, format!("{what}; the page is left out"));
                    continue;
                }
            };
            if self.is_far(head.time, at + size) {
                self.note(
                    at,
                    "a page's time stamp is far from its neighbours'; it is left out".into(),
                );
                continue;
            }
            let mut end = at + head.end as usize;
            if end > at + available {
                end = at + available;
                self.note(end, "the file ends inside a page; its first records are read".into());
            }
            if head.missed != Missed::No {
                self.missed = merge_missed(self.missed, head.missed);
            }
            self.pos = at + self.layout.data_at as usize;
            // A head alone has no records.
            self.end = end.max(self.pos.min(self.chunk.bytes().len()));
            self.pos = self.pos.min(self.end);
            self.raw = head.time;
            return true;
        }
    }

    /// Whether a page's time is far from that of the pages around it, which agree.
    fn is_far(&self, time: u64, next_at: usize) -> bool {
        if self.trusted {
            return false;
        }
        let size = self.layout.page_size as usize;
        let bytes = self.chunk.bytes();
        let time_at = |at: usize| bytes.get(at..).and_then(|p| self.endian.uint(p, 8));
        let Some(next) = time_at(next_at) else { return false };
        if time.saturating_add(FAR_NS) < self.last {
            return next >= self.last;
        }
        // Ahead of the next page: which of the two is wrong, the one before or the one after tells.
        let ahead = time > next.saturating_add(FAR_NS);
        ahead
            && match time_at(next_at + size) {
                Some(second) => time > second.saturating_add(FAR_NS) && second >= next,
                None => self.last != 0 && next >= self.last,
            }
    }

    /// The chunks that are still to be inflated, for others to do it.
    pub fn chunks_left(&self) -> Option<(Vec<CompressedChunk>, Codec)> {
        match &self.source {
            Source::Chunks { list, next, codec, .. } => Some((list[*next..].to_vec(), *codec)),
            _ => None,
        }
    }

    /// From now on chunks come from there.
    pub fn read_ahead(&mut self, ahead: Arc<ReadAhead<'a>>, lane: usize) {
        self.source = Source::Ahead { ahead, lane, inflater: Inflater::default() };
    }

    /// To the next chunk that others inflated.
    fn next_ahead(&mut self) -> bool {
        let Source::Ahead { ahead, lane, inflater } = &mut self.source else { return false };
        while let Some((packed, result)) = ahead.take(*lane, inflater) {
            self.next_page = 0;
            self.chunk_number += 1;
            self.base = packed.at;
            match result {
                Ok(bytes) => {
                    self.chunk = Chunk::Inflated(Arc::new(bytes));
                    (self.pos, self.end) = (0, 0);
                    return true;
                }
                Err(e) => {
                    let what = format!("a compressed chunk is damaged ({e}); it is left out");
                    self.diagnostics.push(Some(self.cpu), packed.at, what);
                }
            }
        }
        self.chunk = Chunk::Mapped(&[]);
        self.next_page = 0;
        false
    }

    fn next_chunk(&mut self) -> bool {
        if matches!(self.source, Source::Ahead { .. }) {
            return self.next_ahead();
        }
        let Source::Chunks { list, next, codec, inflater } = &mut self.source else { return false };
        while let Some(packed) = list.get(*next).copied() {
            *next += 1;
            let at = packed.at as usize;
            let data = &self.file[at..at + packed.len as usize];
            // The buffer is used again unless somebody still holds it.
            let mut buffer = match std::mem::replace(&mut self.chunk, Chunk::Mapped(&[])) {
                Chunk::Inflated(arc) => Arc::try_unwrap(arc).unwrap_or_default(),
                Chunk::Mapped(_) => Vec::new(),
            };
            let result = inflater.inflate(*codec, data, packed.inflated as usize, &mut buffer);
            self.next_page = 0;
            self.chunk_number += 1;
            self.base = packed.at;
            match result {
                Ok(()) => {
                    self.chunk = Chunk::Inflated(Arc::new(buffer));
                    self.pos = 0;
                    self.end = 0;
                    return true;
                }
                Err(e) => {
                    let what = format!("a compressed chunk is damaged ({e}); it is left out");
                    self.diagnostics.push(Some(self.cpu), packed.at, what);
                }
            }
        }
        self.chunk = Chunk::Mapped(&[]);
        self.next_page = 0;
        false
    }

    /// The time at which the page begins that has `part` of `of` parts of the data before it.
    pub fn time_about(&mut self, part: usize, of: usize) -> Option<u64> {
        let size = self.layout.page_size as usize;
        let raw = match &mut self.source {
            Source::Ahead { .. } => None,
            Source::Whole => {
                let bytes = self.chunk.bytes();
                let at = bytes.len() / size * part / of * size;
                bytes.get(at..).and_then(|p| self.endian.uint(p, 8))
            }
            Source::Chunks { list, codec, inflater, .. } => {
                let packed = *list.get(list.len() * part / of)?;
                let at = packed.at as usize;
                let data = self.file.get(at..at + packed.len as usize)?;
                let mut bytes = Vec::new();
                inflater.inflate(*codec, data, packed.inflated as usize, &mut bytes).ok()?;
                self.endian.uint(&bytes, 8)
            }
        };
        raw.map(|raw| self.fix.apply(raw))
    }

    /// Skips the pages that end before `time`, where time stamps allow to tell.
    pub fn seek(&mut self, time: u64) {
        let raw = self.fix.lowest_raw(time);
        if raw == 0 {
            return;
        }
        let size = self.layout.page_size as usize;
        match &mut self.source {
            Source::Ahead { .. } => {}
            Source::Whole => {
                let bytes = self.chunk.bytes();
                let endian = self.endian;
                let page_time =
                    |n: usize| bytes.get(n * size..).and_then(|p| endian.uint(p, 8)).unwrap_or(0);
                let first = first_before(bytes.len().div_ceil(size), raw, page_time);
                self.next_page = first * size;
            }
            Source::Chunks { list, next, codec, inflater } => {
                let (file, endian) = (self.file, self.endian);
                let mut buffer = Vec::new();
                let mut chunk_time = |n: usize| {
                    let p = list[n];
                    let data = &file[p.at as usize..p.at as usize + p.len as usize];
                    match inflater.inflate(*codec, data, p.inflated as usize, &mut buffer) {
                        Ok(()) => endian.uint(&buffer, 8).unwrap_or(0),
                        Err(_) => 0,
                    }
                };
                *next = first_before(list.len(), raw, &mut chunk_time);
            }
        }
    }
}

/// The last of `count` pages that begins before `time` (0 when none does).
fn first_before(count: usize, time: u64, mut of: impl FnMut(usize) -> u64) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if of(middle) < time {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low.saturating_sub(1)
}

fn merge_missed(a: Missed, b: Missed) -> Missed {
    match (a, b) {
        (Missed::No, other) | (other, Missed::No) => other,
        (Missed::Count(x), Missed::Count(y)) => Missed::Count(x.saturating_add(y)),
        _ => Missed::Unknown,
    }
}

/// Hops over the heads of a CPU's chunks.
fn chunk_list(
    data: &[u8],
    file: &TraceFile<'_>,
    cpu: CpuData,
    diagnostics: &mut Diagnostics,
) -> Vec<CompressedChunk> {
    let endian = file.endian;
    let mut list = Vec::new();
    let count = endian.uint(data, 4).unwrap_or(0);
    let mut pos = 4usize;
    for _ in 0..count {
        let at = cpu.offset + pos as u64;
        let head = data.get(pos..).unwrap_or_default();
        let (Some(len), Some(inflated)) =
            (endian.uint(head, 4), head.get(4..).and_then(|h| endian.uint(h, 4)))
        else {
            let what =
                format!("the file ends: {} of {count} compressed chunks are there", list.len());
            diagnostics.push(Some(cpu.cpu), at, what);
            break;
        };
        let end = (pos + 8).saturating_add(len as usize);
        if end > data.len() {
            let what = format!(
                "the file ends inside a compressed chunk: {} of {count} are complete",
                list.len()
            );
            diagnostics.push(Some(cpu.cpu), at, what);
            break;
        }
        if inflated as usize > inflated_bound(len as usize) {
            let what =
                format!("a chunk of {len} bytes cannot inflate to {inflated}; it is left out");
            diagnostics.push(Some(cpu.cpu), at, what);
        } else if inflated > file.memory.chunk_max {
            let most = file.memory.chunk_max >> 10;
            let what = format!(
                "a chunk inflates to {} KiB, and the memory limit allows {most} KiB; it is left out",
                inflated >> 10
            );
            diagnostics.push(Some(cpu.cpu), at, what);
        } else {
            list.push(CompressedChunk { at: at + 8, len: len as u32, inflated: inflated as u32 });
        }
        pos = end;
    }
    list
}
