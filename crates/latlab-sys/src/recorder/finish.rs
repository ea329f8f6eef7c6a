//! From the sparse live file to a compact one.

use super::{RecordError, Result};
use crate::scratch::{self, Replacement};
use latlab_trace::write::live::{self, Place};
use latlab_trace::write::symbols::Symbols;
use latlab_trace::write::{Compression, CpuData, Metadata, WriteError, v6, v7};
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// How the finished file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Version 6 instead of 7. Version 6 has no compression.
    pub v6: bool,
    /// How version 7 is compressed.
    pub compression: Compression,
    /// Which symbols come with it.
    pub kallsyms: Kallsyms,
}

impl Default for Format {
    fn default() -> Self {
        Self { v6: false, compression: Compression::Zstd, kallsyms: Kallsyms::Used }
    }
}

impl Format {
    /// Version 7 without compression, for analysis in memory.
    pub fn uncompressed() -> Self {
        Self { compression: Compression::None, ..Self::default() }
    }
}

/// Which part of kallsyms goes into a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kallsyms {
    /// The symbols that something in the trace points into.
    #[default]
    Used,
    /// All.
    All,
    /// None.
    None,
}

/// Reads one CPU's pages from its place in a file.
#[derive(Debug)]
pub(super) struct Part<'a> {
    file: &'a File,
    at: u64,
    left: u64,
}

impl Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = usize::try_from(self.left).map_or(buffer.len(), |l| l.min(buffer.len()));
        let n = self.file.read_at(&mut buffer[..n], self.at)?;
        self.at += n as u64;
        self.left -= n as u64;
        Ok(n)
    }
}

/// Writes the compact file beside the live one and puts it in its place. The live file is
/// untouched until then: whatever goes wrong, the recording stays readable.
pub(super) fn compact(
    live: &File,
    path: &Path,
    mut meta: Metadata,
    parts: &[(Place, u64)],
    format: Format,
) -> Result<()> {
    let write_error = |source| RecordError::Write { path: path.to_owned(), source };
    let data = || {
        let part = |(place, bytes): &(Place, u64)| CpuData {
            cpu: place.cpu,
            bytes: *bytes,
            pages: Part { file: live, at: place.offset, left: *bytes },
        };
        parts.iter().map(part).collect::<Vec<_>>()
    };
    choose_symbols(&mut meta, format.kallsyms, data()).map_err(write_error)?;
    replace(path, |out| {
        write(out, &meta, format, &mut data()).map_err(write_error)?;
        // With its blocks the live file goes, which may be all that a power failure leaves.
        sync(out).map_err(|source| write_error(WriteError::Output(source)))
    })
}

fn sync(out: &mut BufWriter<File>) -> io::Result<()> {
    out.flush()?;
    out.get_ref().sync_all()
}

/// Puts all, some or no symbols into the metadata.
pub(super) fn choose_symbols<R: Read>(
    meta: &mut Metadata,
    choice: Kallsyms,
    data: Vec<CpuData<R>>,
) -> std::result::Result<(), WriteError> {
    match choice {
        Kallsyms::All => {}
        Kallsyms::None => meta.kallsyms.clear(),
        Kallsyms::Used => {
            let word = kernel_word(meta);
            let mut symbols = Symbols::parse(&meta.kallsyms, word, meta.big_endian);
            for mut cpu in data {
                cpu.blocks(1 << 20, |part| {
                    symbols.scan(part);
                    Ok(())
                })?;
            }
            meta.kallsyms = symbols.needed();
        }
    }
    Ok(())
}

/// Bytes of a kernel pointer: the size of `commit` in header_page.
fn kernel_word(meta: &Metadata) -> usize {
    let text = String::from_utf8_lossy(&meta.header_page);
    let size = text.lines().find(|l| l.contains("commit")).and_then(|l| {
        let (_, rest) = l.split_once("size:")?;
        rest.split(';').next()?.parse().ok()
    });
    size.filter(|s| matches!(s, 4 | 8)).unwrap_or(usize::from(meta.long_size.clamp(4, 8)))
}

/// Writes a whole trace in the chosen format.
pub(super) fn write<R: Read>(
    out: &mut (impl Write + Seek),
    meta: &Metadata,
    format: Format,
    data: &mut [CpuData<R>],
) -> std::result::Result<(), WriteError> {
    if format.v6 {
        v6::write(out, meta, data)
    } else {
        let threads = match format.compression {
            Compression::None => 1,
            // Reads files of control groups.
            _ => std::thread::available_parallelism().map_or(1, usize::from),
        };
        v7::write(out, meta, format.compression, threads, data)
    }
}

/// Writes a file under a temporary name beside `path`, then renames it.
pub(super) fn replace(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
) -> Result<()> {
    let output =
        |action, path: &Path, source| RecordError::Output { action, path: path.into(), source };
    if !scratch::is_replaceable(path) {
        return Err(RecordError::NotAFile { path: path.to_owned() });
    }
    let (file, mut new) = Replacement::create(path).map_err(|e| output("creating", path, e))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    write(&mut out)?;
    out.flush().map_err(|e| output("writing", new.current(), e))?;
    new.rename().map_err(|e| output("renaming to", path, e))
}

/// Closes the holes of the file that a killed recorder left behind. It could be read before; it
/// is smaller afterwards. Returns its size in bytes.
///
/// # Errors
/// [`RecordError::NotLive`] when it is something else; when it cannot be read or written.
pub fn recover(path: &Path) -> Result<u64> {
    let output =
        |action| move |source| RecordError::Output { action, path: path.to_owned(), source };
    let file = File::open(path).map_err(output("opening"))?;
    let (mut head, found) = live_head(&file)
        .map_err(output("reading"))?
        .map_err(|reason| RecordError::NotLive { path: path.to_owned(), reason })?;
    let (offsets, end) = found.make_compact(&mut head);
    replace(path, |out| {
        let broken = output("writing");
        let mut copy = || -> io::Result<()> {
            out.write_all(&head)?;
            for ((place, bytes), at) in found.data.iter().zip(&offsets) {
                out.seek(io::SeekFrom::Start(*at))?;
                io::copy(&mut Part { file: &file, at: place.offset, left: *bytes }, out)?;
            }
            out.flush()?;
            out.get_ref().set_len(end)?;
            sync(out)
        };
        copy().map_err(broken)
    })?;
    Ok(end)
}

/// What [`recover`] would write, in memory: for a file whose holes are larger than the address
/// space of a 32-bit machine. `None` when it is no live file.
pub(crate) fn compacted(file: &File) -> io::Result<Option<Vec<u8>>> {
    let Ok((mut bytes, found)) = live_head(file)? else { return Ok(None) };
    let (offsets, end) = found.make_compact(&mut bytes);
    // Sizes that a damaged file only claims cost no memory.
    let there = file.metadata()?.blocks().saturating_mul(512).saturating_add(1 << 20);
    let length = usize::try_from(end).ok().filter(|_| end <= there);
    let length = length.ok_or(io::ErrorKind::FileTooLarge)?;
    bytes.try_reserve_exact(length.saturating_sub(bytes.len()))?;
    bytes.resize(length, 0);
    for ((place, size), at) in found.data.iter().zip(offsets) {
        let part = usize::try_from(at)
            .ok()
            .zip(usize::try_from(*size).ok())
            .and_then(|(at, size)| bytes.get_mut(at..at.checked_add(size)?))
            .ok_or(io::ErrorKind::InvalidData)?;
        file.read_exact_at(part, place.offset)?;
    }
    Ok(Some(bytes))
}

/// The head of a live file and what it says, or what it is instead.
fn live_head(
    mut file: &File,
) -> io::Result<std::result::Result<(Vec<u8>, live::Found), &'static str>> {
    /// No head is longer: all formats and symbols of a large kernel are some 20 MB.
    const HEAD_MAX: u64 = 256 << 20;
    let mut window = 1 << 20;
    loop {
        let mut head = Vec::new();
        file.rewind()?;
        file.take(window).read_to_end(&mut head)?;
        match live::find(&head) {
            Some(found) => {
                let length = usize::try_from(found.head_length()).unwrap_or(usize::MAX);
                if head.len() < length {
                    return Ok(Err("it ends before its data"));
                }
                head.truncate(length);
                return Ok(Ok((head, found)));
            }
            None if (head.len() as u64) < window || window >= HEAD_MAX => {
                return Ok(Err("its head has no place for data that arrive later"));
            }
            None => window *= 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// What a 32-bit machine reads of a live file is what `--recover` makes of it.
    #[test]
    fn a_live_file_in_memory_is_the_recovered_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("live.dat");
        let meta = Metadata { page_size: 4096, long_size: 4, ..Metadata::default() };
        let live = live::write(&meta, &[0, 1], 64 << 30).unwrap();
        let file = File::create_new(&path).unwrap();
        file.set_len(live.length).unwrap();
        file.write_all_at(&live.head, 0).unwrap();
        for (place, pages) in live.data.iter().zip([1, 3]) {
            let data = vec![place.cpu as u8 + 1; pages * 4096];
            file.write_all_at(&data, place.offset).unwrap();
            file.write_all_at(&place.size_bytes(data.len() as u64), place.size_field).unwrap();
        }
        let bytes = compacted(&File::open(&path).unwrap()).unwrap().unwrap();
        assert_eq!(recover(&path).unwrap(), bytes.len() as u64);
        assert!(fs::read(&path).unwrap() == bytes, "the two differ");
        assert!(bytes.len() < 64 << 10, "{}", bytes.len());
        assert_eq!(bytes.iter().filter(|b| **b == 2).count() / 4096, 3);

        // A size that is only claimed.
        let live_file = dir.path().join("claims.dat");
        let file = File::create_new(&live_file).unwrap();
        file.set_len(live.length).unwrap();
        file.write_all_at(&live.head, 0).unwrap();
        file.write_all_at(&live.data[0].size_bytes(60 << 30), live.data[0].size_field).unwrap();
        let error = compacted(&File::open(&live_file).unwrap()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        fs::write(&live_file, "something else").unwrap();
        assert!(compacted(&File::open(&live_file).unwrap()).unwrap().is_none());
    }
}
