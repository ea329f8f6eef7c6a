//! A version 7 file that can be read while it is written, and after its writer was killed.
//!
//! Each CPU's data have a place of their own from the start, far apart: the file is sparse.
//!
//! ```text
//! head, metadata, options │ data header │ CPU 0 ………(hole)……… │ CPU 1 ………(hole)……… │ …
//!                 └ {cpu, offset, size}: the size grows as data arrive
//! ```
//!
//! Whoever records appends pages at `data[n].offset + size` and then stores the new size at
//! `data[n].size_field`: eight bytes, one write. At every moment the file is a valid trace.dat
//! that holds what was flushed so far.

use super::v7::{Head, SECTION_HEADER};
use super::{Compression, Metadata, WriteError, align, option, u64_bytes};

/// The head of a live file, and where the data go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// Bytes 0 to `head.len()` of the file.
    pub head: Vec<u8>,
    /// One place a CPU.
    pub data: Vec<Place>,
    /// Length of the whole, sparse file.
    pub length: u64,
}

/// Where one CPU's data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which CPU.
    pub cpu: u32,
    /// Offset of its first page.
    pub offset: u64,
    /// Offset of the 64-bit field that holds the number of bytes that are there.
    pub size_field: u64,
    /// At most this many bytes fit.
    pub room: u64,
    big_endian: bool,
}

impl Place {
    /// What to store at [`Place::size_field`].
    pub fn size_bytes(&self, size: u64) -> [u8; 8] {
        u64_bytes(self.big_endian, size)
    }
}

/// Builds the head for these CPUs with `room` bytes for each.
///
/// # Errors
/// [`WriteError::TooLarge`] when a part of the metadata does not fit its size field.
pub fn write(meta: &Metadata, cpus: &[u32], room: u64) -> Result<Live, WriteError> {
    let room = align(room, meta.page_size);
    // The head's length does not depend on the offsets in it: build it once to learn the length.
    let (draft, _) = build(meta, cpus, 0, room)?;
    let first = align(draft.len() as u64, meta.page_size);
    let (head, entry) = build(meta, cpus, first, room)?;
    let data = (0u64..)
        .zip(cpus)
        .map(|(n, &cpu)| Place {
            cpu,
            offset: first + n * room,
            size_field: entry + n * 20 + 12,
            room,
            big_endian: meta.big_endian,
        })
        .collect();
    Ok(Live { head, data, length: first + cpus.len() as u64 * room })
}

fn build(
    meta: &Metadata,
    cpus: &[u32],
    first: u64,
    room: u64,
) -> Result<(Vec<u8>, u64), WriteError> {
    let mut head = Head::new(meta, Compression::None);
    head.metadata()?;
    let table: Vec<_> = (0u64..).zip(cpus).map(|(n, &cpu)| (cpu, first + n * room, 0)).collect();
    let at = head.bytes.bytes.len() as u64;
    // The data section's header follows the options, whose length the table decides.
    let length = {
        let mut draft = Head::new(meta, Compression::None);
        draft.options(0, 0, &table)?;
        // The draft lacks the pointers to the metadata sections: 14 bytes each.
        draft.bytes.bytes.len() as u64 - head.options_field - 8 + 14 * METADATA_SECTIONS
    };
    let data_section = at + length;
    let entry = head.options(at, data_section, &table)?;
    let end = first + cpus.len() as u64 * room;
    head.section_header(option::BUFFER, false, end.saturating_sub(data_section + SECTION_HEADER));
    let mut bytes = head.bytes.bytes;
    let field = usize::try_from(head.options_field).unwrap_or(usize::MAX);
    if let Some(place) = bytes.get_mut(field..field + 8) {
        place.copy_from_slice(&u64_bytes(meta.big_endian, at));
    }
    Ok((bytes, entry))
}

/// Sections that [`Head::metadata`] writes and options point to.
const METADATA_SECTIONS: u64 = 6;
