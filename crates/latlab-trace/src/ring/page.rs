//! A page of the ring buffer and the records on it.
//!
//! ```text
//! u64 time stamp · long commit · records…
//!                  bits 0–26 length of the records, 31 events were lost before
//!                  this page, 30 their number follows the records
//! record: u32 head: type_len (5 bits) and time delta (27 bits); on big-endian
//! machines the type is at the top
//!   1–28  data of 4 × type_len bytes
//!   0     data; the next word is its length, itself included
//!   29    padding: delta 0 ends the page, otherwise the next word is its length
//!   30    the delta's upper bits are in the next word
//!   31    an absolute time stamp: 59 bits, the rest from the one before
//! ```
//! Source: `include/linux/ring_buffer.h`, `kernel/trace/ring_buffer.c`.

use crate::Endian;
use crate::file::PageLayout;

/// Events lost before an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missed {
    /// None.
    #[default]
    No,
    /// Some; the kernel had no room to say how many.
    Unknown,
    /// This many.
    Count(u64),
}

/// A page's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHead {
    /// Base of the time stamps, as recorded.
    pub time: u64,
    /// Where the records end, from the page's start.
    pub end: u32,
    /// Events lost before this page.
    pub missed: Missed,
}

const COMMIT_MASK: u64 = 0x07ff_ffff;
pub(super) const MISSED_EVENTS: u64 = 1 << 31;
pub(super) const MISSED_STORED: u64 = 1 << 30;

/// Why bytes are no page of a ring buffer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// Fewer bytes than a page's head.
    #[error("{0} bytes are no page")]
    Short(usize),
    /// The head declares more than fits into a page.
    #[error("a page says that it holds {length} bytes, more than fit {page_size}")]
    Length {
        /// Bytes that the head declares.
        length: u64,
        /// Bytes of a page.
        page_size: u32,
    },
}

impl PageHead {
    /// Reads the head of a page.
    ///
    /// # Errors
    /// [`PageError`]. A page that is cut short has what is there, and `end` beyond it.
    pub fn parse(page: &[u8], layout: &PageLayout, endian: Endian) -> Result<Self, PageError> {
        let long = usize::from(layout.long_size);
        let commit_at = layout.commit_at as usize;
        let (Some(time), Some(commit)) =
            (endian.uint(page, 8), page.get(commit_at..).and_then(|p| endian.uint(p, long)))
        else {
            return Err(PageError::Short(page.len()));
        };
        let length = commit & COMMIT_MASK;
        let end = u64::from(layout.data_at) + length;
        if end > u64::from(layout.page_size) {
            return Err(PageError::Length { length, page_size: layout.page_size });
        }
        let missed = if commit & MISSED_EVENTS == 0 {
            Missed::No
        } else if commit & MISSED_STORED != 0 {
            let stored = page.get(end as usize..).and_then(|p| endian.uint(p, long));
            stored.map_or(Missed::Unknown, Missed::Count)
        } else {
            Missed::Unknown
        };
        Ok(Self { time, end: end as u32, missed })
    }
}

/// The records of one page as `trace_pipe_raw` gives it: time stamp and payload (from
/// `common_type` on) of each. Ends at the page's end, or where it makes no sense.
#[derive(Clone, Debug)]
pub struct PageRecords<'p> {
    records: &'p [u8],
    pos: usize,
    time: u64,
    big: bool,
}

impl<'p> PageRecords<'p> {
    /// The records of a page and how many events were lost before it.
    ///
    /// # Errors
    /// As [`PageHead::parse`].
    pub fn of(
        page: &'p [u8],
        layout: &PageLayout,
        endian: Endian,
    ) -> Result<(Self, Missed), PageError> {
        let head = PageHead::parse(page, layout, endian)?;
        let end = page.len().min(head.end as usize);
        let pos = end.min(layout.data_at as usize);
        let big = endian == Endian::Big;
        Ok((Self { records: &page[..end], pos, time: head.time, big }, head.missed))
    }
}

impl<'p> Iterator for PageRecords<'p> {
    type Item = (u64, &'p [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let found = match self.big {
            true => step::<true>(self.records, &mut self.pos, &mut self.time),
            false => step::<false>(self.records, &mut self.pos, &mut self.time),
        };
        match found {
            Step::Record { at, len } => Some((self.time, &self.records[at..at + len])),
            Step::End | Step::Bad(..) => None,
        }
    }
}

/// What one step over a page found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A record's payload, from its start and of its length, and the time stamp.
    Record { at: usize, len: usize },
    /// No more records.
    End,
    /// The rest makes no sense: where, and why.
    Bad(usize, &'static str),
}

/// Splits a record's head.
#[inline(always)]
fn split<const BIG: bool>(word: u32) -> (u32, u64) {
    if BIG {
        (word >> 27, u64::from(word & 0x07ff_ffff))
    } else {
        (word & 31, u64::from(word >> 5))
    }
}

#[inline(always)]
fn word<const BIG: bool>(page: &[u8], at: usize) -> Option<u32> {
    let bytes = page.get(at..)?.first_chunk::<4>()?;
    Some(if BIG { u32::from_be_bytes(*bytes) } else { u32::from_le_bytes(*bytes) })
}

/// From `pos` to the next data record. `records` ends where the page's records end.
/// `pos` is left behind the record, `time` is its time stamp.
#[inline(always)]
pub(crate) fn step<const BIG: bool>(records: &[u8], pos: &mut usize, time: &mut u64) -> Step {
    loop {
        let at = *pos;
        let Some(head) = word::<BIG>(records, at) else {
            return if at >= records.len() {
                Step::End
            } else {
                Step::Bad(at, "a record is cut off")
            };
        };
        let (kind, delta) = split::<BIG>(head);
        if kind.wrapping_sub(1) < 28 {
            let len = kind as usize * 4;
            *time = time.wrapping_add(delta);
            *pos = at + 4 + len;
            if *pos > records.len() {
                return Step::Bad(at, "a record runs past its page's end");
            }
            return Step::Record { at: at + 4, len };
        }
        match rare::<BIG>(records, at, kind, delta, pos, time) {
            Some(step) => return step,
            None => continue,
        }
    }
}

/// Everything but short data records; `None` to go on.
#[cold]
#[inline(never)]
fn rare<const BIG: bool>(
    records: &[u8],
    at: usize,
    kind: u32,
    delta: u64,
    pos: &mut usize,
    time: &mut u64,
) -> Option<Step> {
    let next = word::<BIG>(records, at + 4);
    if kind == 29 && delta == 0 {
        return Some(Step::End);
    }
    let Some(next) = next else { return Some(Step::Bad(at, "a record is cut off")) };
    match kind {
        0 => {
            // Some kernels leave zeros behind the last record.
            if next < 4 {
                return Some(Step::End);
            }
            let len = next as usize - 4;
            *time = time.wrapping_add(delta);
            let end = (at + 8).saturating_add(len);
            if end > records.len() {
                return Some(Step::Bad(at, "a record runs past its page's end"));
            }
            *pos = end.next_multiple_of(4);
            Some(Step::Record { at: at + 8, len })
        }
        29 => {
            *time = time.wrapping_add(delta);
            let end = (at + 4).saturating_add(next.max(4) as usize);
            if end > records.len() {
                return Some(Step::Bad(at, "padding runs past its page's end"));
            }
            *pos = end;
            None
        }
        30 => {
            *time = time.wrapping_add((u64::from(next) << 27).wrapping_add(delta));
            *pos = at + 8;
            None
        }
        _ => {
            let stamp = (u64::from(next) << 27).wrapping_add(delta) & ((1 << 59) - 1);
            let full = stamp | (*time & (0x1f << 59));
            // The lower 59 bits ran over since the last time stamp.
            *time = if full < *time && *time - full > 1 << 58 {
                full.wrapping_add(1 << 59)
            } else {
                full
            };
            *pos = at + 8;
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn le(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    #[test]
    fn every_kind_of_record() {
        let page = le(&[
            (5 << 5) | 1,
            0xaaaa, // 4 bytes at +5
            (3 << 5) | 30,
            1, // extend by 1<<27 + 3
            7 << 5,
            12,
            1,
            2, // 8 bytes, +7
            (2 << 5) | 29,
            8,
            0, // discarded, +2
            31 | (9 << 5),
            0x10, // absolute
            1,
            0xbbbb,
            29,
        ]);
        let (mut pos, mut t) = (0, 100);
        assert_eq!(step::<false>(&page, &mut pos, &mut t), Step::Record { at: 4, len: 4 });
        assert_eq!(t, 105);
        assert_eq!(step::<false>(&page, &mut pos, &mut t), Step::Record { at: 24, len: 8 });
        assert_eq!(t, 105 + (1 << 27) + 3 + 7);
        assert_eq!(step::<false>(&page, &mut pos, &mut t), Step::Record { at: 56, len: 4 });
        assert_eq!(t, (0x10 << 27) + 9);
        assert_eq!(step::<false>(&page, &mut pos, &mut t), Step::End);
    }

    #[test]
    fn a_page_of_the_kernel_gives_its_records_and_what_was_lost_before() {
        let layout = PageLayout::new(4, 64);
        let mut page = vec![0u8; 64];
        page[..8].copy_from_slice(&100u64.to_le_bytes());
        page[8..12].copy_from_slice(&(16u32 | 1 << 31).to_le_bytes());
        page[12..28].copy_from_slice(&le(&[(5 << 5) | 1, 0xaaaa, (7 << 5) | 1, 0xbbbb]));
        let (records, missed) = PageRecords::of(&page, &layout, Endian::Little).unwrap();
        let seen: Vec<(u64, Vec<u8>)> = records.map(|(t, p)| (t, p.to_vec())).collect();
        assert_eq!(seen, [(105, le(&[0xaaaa])), (112, le(&[0xbbbb]))]);
        assert_eq!(missed, Missed::Unknown);
        assert!(PageRecords::of(&page[..9], &layout, Endian::Little).is_err());
    }

    #[test]
    fn big_endian_heads_have_the_type_on_top() {
        let page: Vec<u8> =
            [(1u32 << 27) | 6, 0x1234_5678].iter().flat_map(|w| w.to_be_bytes()).collect();
        let (mut pos, mut t) = (0, 0);
        assert_eq!(step::<true>(&page, &mut pos, &mut t), Step::Record { at: 4, len: 4 });
        assert_eq!((t, step::<true>(&page, &mut pos, &mut t)), (6, Step::End));
    }

    #[test]
    fn records_beyond_the_page_are_bad() {
        let page = le(&[4, 1]);
        let (mut pos, mut t) = (0, 0);
        assert!(matches!(step::<false>(&page, &mut pos, &mut t), Step::Bad(0, _)));
    }

    #[test]
    fn lost_events_are_counted_where_there_was_room() {
        let layout = PageLayout::new(8, 64);
        let mut page = vec![0u8; 64];
        page[..8].copy_from_slice(&7u64.to_le_bytes());
        page[8..16].copy_from_slice(&(8u64 | 1 << 31 | 1 << 30).to_le_bytes());
        page[24..32].copy_from_slice(&337u64.to_le_bytes());
        let h = PageHead::parse(&page, &layout, Endian::Little).unwrap();
        assert_eq!((h.time, h.end, h.missed), (7, 24, Missed::Count(337)));
        page[8..16].copy_from_slice(&(8u64 | 1 << 31).to_le_bytes());
        let h = PageHead::parse(&page, &layout, Endian::Little).unwrap();
        assert_eq!(h.missed, Missed::Unknown);
        page[8..16].copy_from_slice(&4000u64.to_le_bytes());
        assert!(PageHead::parse(&page, &layout, Endian::Little).is_err());
    }
}
