//! Records back into pages of the ring buffer, in the layout that `page.rs` reads.

use super::Missed;
use super::cursor::FAR_NS;
use super::page::{MISSED_EVENTS, MISSED_STORED};
use crate::Endian;
use crate::file::PageLayout;

/// Longest data of a record whose length is in its head, bytes.
const SHORT_MAX: usize = 28 * 4;
/// Bits of a time delta in a record's head, and of a time in the head and the word of a time extension or time stamp.
const DELTA_BITS: u32 = 27;
const EXTENDED_BITS: u32 = DELTA_BITS + 32;
/// Kinds of records that only change the time: by a difference, and to an absolute one.
const EXTENSION: u32 = 30;
const STAMP: u32 = 31;
/// A longer step back is read as an overflow of the bits of a time stamp.
const BACK_MAX: u64 = 1 << (EXTENDED_BITS - 1);
/// Longest step of one time extension.
const STEP_MAX: u64 = (1 << EXTENDED_BITS) - 1;
/// Bytes of the time extensions of the longest step.
const SHIFT_MAX: usize = 8 * u64::MAX.div_ceil(STEP_MAX) as usize;

/// What changes the time before a record.
#[derive(Clone, Copy)]
enum Shift {
    /// A time stamp.
    To,
    /// Time extensions of so many nanoseconds together; none of 0.
    By(u64),
}

impl Shift {
    /// Bytes.
    fn size(self) -> usize {
        match self {
            Self::To => 8,
            Self::By(time) => 8 * time.div_ceil(STEP_MAX) as usize,
        }
    }
}

/// Builds one page after another.
#[derive(Clone, Debug)]
pub(crate) struct PageEncoder {
    layout: PageLayout,
    endian: Endian,
    /// Head and records so far; only the head while there is no record.
    page: Vec<u8>,
    base: u64,
    time: u64,
    /// The latest time of a record until now, of all pages.
    latest: u64,
    missed: Missed,
}

impl PageEncoder {
    /// Without a record.
    pub fn new(layout: PageLayout, endian: Endian) -> Self {
        let page = vec![0; layout.data_at as usize];
        Self { layout, endian, page, base: 0, time: 0, latest: 0, missed: Missed::No }
    }

    /// Whether the page has no record.
    pub fn is_empty(&self) -> bool {
        self.page.len() == self.layout.data_at as usize
    }

    /// Adds a record. `false`: not to this page, because it is full, or because events were lost before the record, which
    /// only a page's head expresses. An empty page takes every record that a page can hold.
    #[must_use]
    pub fn push(&mut self, time: u64, payload: &[u8], missed: Missed) -> bool {
        let first = self.is_empty();
        if !first && missed != Missed::No {
            return false;
        }
        let short = (1..=SHORT_MAX).contains(&payload.len()) && payload.len().is_multiple_of(4);
        let length = if short { 4 } else { 8 } + payload.len().next_multiple_of(4);
        // A reader takes a page whose time is far before that of the page before for a damaged one.
        let is_back = first && time.saturating_add(FAR_NS) < self.latest;
        let left = (self.layout.page_size as usize).saturating_sub(self.page.len());
        let base = match first {
            true if is_back && length + SHIFT_MAX <= left => self.latest,
            true => time,
            false => self.base,
        };
        let before = if first { base } else { self.time };
        // What brings the time near enough for the record's own delta.
        let (shift, delta) = match time.checked_sub(before) {
            Some(delta) if delta < 1 << DELTA_BITS => (Shift::By(0), delta),
            Some(delta) if delta < 1 << EXTENDED_BITS => (Shift::By(delta), 0),
            None if before - time < BACK_MAX && (before ^ time) >> EXTENDED_BITS == 0 => {
                (Shift::To, 0)
            }
            // Times are added without regard to an overflow.
            _ => (Shift::By(time.wrapping_sub(before)), 0),
        };
        let end = self.page.len() + shift.size() + length;
        // The number of lost events stands behind the records.
        let counted = !first && matches!(self.missed, Missed::Count(_));
        let behind = if counted { usize::from(self.layout.long_size) } else { 0 };
        if end + behind > self.layout.page_size as usize {
            return false;
        }
        if first {
            (self.base, self.missed) = (base, missed);
        }
        self.time = time;
        self.latest = self.latest.max(time);
        match shift {
            Shift::To => self.shift(STAMP, time),
            Shift::By(mut rest) => {
                while rest > 0 {
                    let step = rest.min(STEP_MAX);
                    self.shift(EXTENSION, step);
                    rest -= step;
                }
            }
        }
        if short {
            self.head((payload.len() / 4) as u32, delta);
        } else {
            self.head(0, delta);
            self.word(payload.len() as u32 + 4);
        }
        self.page.extend_from_slice(payload);
        self.page.resize(end, 0);
        true
    }

    /// Appends the page, padded to its size, to `out`, and begins the next one.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let long = usize::from(self.layout.long_size);
        let data_at = self.layout.data_at as usize;
        let mut commit = (self.page.len() - data_at) as u64;
        if self.missed != Missed::No {
            commit |= MISSED_EVENTS;
        }
        if let Missed::Count(count) = self.missed
            && self.page.len() + long <= self.layout.page_size as usize
        {
            commit |= MISSED_STORED;
            let at = self.page.len();
            self.page.resize(at + long, 0);
            self.put(at, long, count);
        }
        self.put(0, 8, self.base);
        self.put(self.layout.commit_at as usize, long, commit);
        self.page.resize(self.layout.page_size as usize, 0);
        out.extend_from_slice(&self.page);
        self.page.truncate(data_at);
    }

    fn shift(&mut self, kind: u32, time: u64) {
        self.head(kind, time);
        self.word((time >> DELTA_BITS) as u32);
    }

    fn head(&mut self, kind: u32, delta: u64) {
        let delta = (delta & ((1 << DELTA_BITS) - 1)) as u32;
        self.word(match self.endian {
            Endian::Little => (delta << 5) | kind,
            Endian::Big => (kind << DELTA_BITS) | delta,
        });
    }

    fn word(&mut self, word: u32) {
        self.endian.put(&mut self.page, word.into(), 4);
    }

    /// A number of `width` bytes, at most 8, in the trace's byte order.
    fn put(&mut self, at: usize, width: usize, value: u64) {
        let Some(place) = self.page.get_mut(at..at + width) else { return };
        match self.endian {
            Endian::Little => place.copy_from_slice(&value.to_le_bytes()[..width]),
            Endian::Big => place.copy_from_slice(&value.to_be_bytes()[8 - width..]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::PageRecords;
    use crate::ring::page::PageHead;

    /// What is encoded is read back: times, data, and losses (a count needs space behind the records).
    #[test]
    fn pages_are_read_back() {
        let mut state = 1u64;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % n
        };
        for (long, endian) in
            [(4, Endian::Little), (8, Endian::Little), (4, Endian::Big), (8, Endian::Big)]
        {
            let layout = PageLayout::new(long, 512);
            let mut encoder = PageEncoder::new(layout, endian);
            let (mut pages, mut time) = (Vec::new(), 1u64 << 60);
            let mut expected = Vec::new();
            for _ in 0..5000 {
                // Now and then a step back, or one that needs an extension or another page.
                time = match below(22) {
                    21 => time ^ (1 << 58) ^ (1 << 40),
                    20 => time ^ (1 << 63),
                    0 => time - below(1000),
                    1 => time + below(1 << 40),
                    _ => time + below(1 << 20),
                };
                let missed = match below(20) {
                    0 => Missed::Unknown,
                    1 => Missed::Count(below(1000) + 1),
                    _ => Missed::No,
                };
                let payload = vec![below(256) as u8; below(200) as usize];
                if !encoder.push(time, &payload, missed) {
                    encoder.finish(&mut pages);
                    assert!(encoder.push(time, &payload, missed));
                }
                expected.push((time, payload, missed));
            }
            encoder.finish(&mut pages);
            assert!(encoder.is_empty());
            assert_eq!(pages.len() % 512, 0);
            let mut read: Vec<(u64, Vec<u8>, Missed)> = Vec::new();
            for page in pages.chunks(512) {
                // What the reader of a CPU leaves out pages by.
                let head = PageHead::parse(page, &layout, endian).unwrap().time;
                let latest = read.iter().map(|r| r.0).max().unwrap_or(0);
                assert!(head.saturating_add(FAR_NS) >= latest, "{head} {latest}");
                let (records, mut missed) = PageRecords::of(page, &layout, endian).unwrap();
                for (time, payload) in records {
                    read.push((time, payload.to_vec(), std::mem::take(&mut missed)));
                }
            }
            assert_eq!(read.len(), expected.len());
            for (read, expected) in read.iter().zip(&expected) {
                assert_eq!((read.0, &read.1), (expected.0, &expected.1));
                let uncounted = matches!((read.2, expected.2), (Missed::Unknown, Missed::Count(_)));
                assert!(read.2 == expected.2 || uncounted, "{:?} {:?}", read.2, expected.2);
            }
        }
    }

    #[test]
    fn a_record_that_no_page_holds_is_refused() {
        let mut encoder = PageEncoder::new(PageLayout::new(8, 512), Endian::Little);
        assert!(!encoder.push(1, &[0; 504], Missed::No));
        assert!(encoder.is_empty());
    }
}
