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
//! that holds what was flushed so far. [`find`] finds the places again in what a killed recorder
//! left behind.

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

/// What a live file says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Places and how many bytes are there.
    pub data: Vec<(Place, u64)>,
    /// Size of a sub-buffer in bytes.
    pub page_size: u32,
    /// Offset of the data section's header; the head ends 16 bytes later.
    data_section: u64,
    big_endian: bool,
}

impl Found {
    /// How long the head is.
    pub fn head_length(&self) -> u64 {
        self.data_section + SECTION_HEADER
    }

    /// Makes a head (its first [`Found::head_length`] bytes) that says that the data follow one
    /// another without holes. Returns where each CPU's data go, and the file's length.
    pub fn make_compact(&self, head: &mut [u8]) -> (Vec<u64>, u64) {
        let mut at = align(self.head_length(), self.page_size);
        let mut offsets = Vec::new();
        let mut put = |field: u64, value: u64| {
            let field = usize::try_from(field).unwrap_or(usize::MAX);
            let end = field.saturating_add(8);
            if let Some(place) = head.get_mut(field..end) {
                place.copy_from_slice(&u64_bytes(self.big_endian, value));
            }
        };
        for (place, size) in &self.data {
            put(place.size_field - 8, at);
            offsets.push(at);
            at = align(at + size, self.page_size);
        }
        put(self.data_section + 8, at - self.head_length());
        (offsets, at)
    }
}

/// Finds the places in a live file by its first bytes; `None` when it is not one. The head is
/// longer than `file` when the result is `None` for a prefix: pass more.
pub fn find(file: &[u8]) -> Option<Found> {
    let rest = file.strip_prefix(super::MAGIC)?.strip_prefix(b"7\0")?;
    let (&[big, _long], rest) = rest.split_first_chunk()?;
    let input = Input { file, big_endian: big == 1 };
    let page_size = input.u32(file.len() - rest.len())?;
    // The compressor's name and version, and the offset of the first options section.
    let names = file.len() - rest.len() + 4;
    let none = file.get(names..)?.strip_prefix(b"none\0")?;
    let version = none.iter().position(|&b| b == 0)?;
    let options = input.u64(names + 5 + version + 1)?;
    let mut at = usize::try_from(options).ok()?.checked_add(SECTION_HEADER as usize)?;
    loop {
        let (id, size) = (input.u16(at)?, usize::try_from(input.u32(at + 2)?).ok()?);
        let data = at + 6;
        match id {
            option::DONE => return None,
            option::BUFFER => return input.buffer(data, page_size),
            _ => at = data.checked_add(size)?,
        }
    }
}

struct Input<'a> {
    file: &'a [u8],
    big_endian: bool,
}

impl Input<'_> {
    fn bytes<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        let mut bytes: [u8; N] = self.file.get(at..at.checked_add(N)?)?.try_into().ok()?;
        if self.big_endian {
            bytes.reverse();
        }
        Some(bytes)
    }
    fn u16(&self, at: usize) -> Option<u16> {
        self.bytes(at).map(u16::from_le_bytes)
    }
    fn u32(&self, at: usize) -> Option<u32> {
        self.bytes(at).map(u32::from_le_bytes)
    }
    fn u64(&self, at: usize) -> Option<u64> {
        self.bytes(at).map(u64::from_le_bytes)
    }

    fn buffer(&self, data: usize, page_size: u32) -> Option<Found> {
        let data_section = self.u64(data)?;
        let name = data + 8;
        let clock = name + 1 + self.file.get(name..)?.iter().position(|&b| b == 0)?;
        let table = clock + 1 + self.file.get(clock..)?.iter().position(|&b| b == 0)?;
        let count = usize::try_from(self.u32(table + 4)?).ok()?;
        let mut places = Vec::new();
        for n in 0..count {
            let entry = table + 8 + n * 20;
            let offset = self.u64(entry + 4)?;
            let size_field = entry as u64 + 12;
            let big_endian = self.big_endian;
            let place = Place { cpu: self.u32(entry)?, offset, size_field, room: 0, big_endian };
            places.push((place, self.u64(entry + 12)?));
        }
        Some(Found { data: places, page_size, data_section, big_endian: self.big_endian })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_are_found_again() {
        for big_endian in [false, true] {
            let meta = Metadata {
                big_endian,
                long_size: 4,
                page_size: 4096,
                clock: "mono".into(),
                cpu_count: 4,
                kallsyms: b"c0008000 T x\n".to_vec(),
                ..Metadata::default()
            };
            let live = write(&meta, &[0, 1, 3], 1 << 30).unwrap();
            assert_eq!(live.length, live.data[2].offset + (1 << 30));
            let mut file = live.head.clone();
            let place = live.data[1];
            let field = place.size_field as usize;
            file[field..field + 8].copy_from_slice(&place.size_bytes(8192));
            let found = find(&file).unwrap();
            assert_eq!(found.head_length() as usize, file.len());
            assert_eq!(found.page_size, 4096);
            let seen: Vec<_> = found.data.iter().map(|(p, n)| (p.cpu, p.offset, *n)).collect();
            let want = live.data.iter().zip([0, 8192, 0]);
            let want: Vec<_> = want.map(|(p, n)| (p.cpu, p.offset, n)).collect();
            assert_eq!(seen, want);

            let (offsets, length) = found.make_compact(&mut file);
            assert_eq!(offsets, [4096, 4096, 4096 + 8192]);
            assert_eq!(length, 4096 + 8192);
            let again = find(&file).unwrap();
            assert_eq!(again.data.iter().map(|d| d.0.offset).collect::<Vec<_>>(), offsets);
        }
    }

    #[test]
    fn nothing_else_is_a_live_file() {
        let live = write(&Metadata::default(), &[0], 1 << 30).unwrap();
        assert!(find(&live.head).is_some());
        for end in 0..live.head.len() - 40 {
            assert!(find(&live.head[..end]).is_none(), "{end}");
        }
        assert!(find(b"\x17\x08\x44tracing6\0").is_none());
    }
}
