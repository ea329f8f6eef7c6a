//! From the sparse live file to a compact one.

use super::{RecordError, Result};
use latlab_trace::write::live::{self, Place};
use latlab_trace::write::symbols::Symbols;
use latlab_trace::write::{Compression, CpuData, Metadata, WriteError, v6, v7};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

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
    replace(path, |out| write(out, &meta, format, &mut data()).map_err(write_error))
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
            let mut buffer = vec![0; 1 << 20];
            for mut cpu in data {
                let mut left = cpu.bytes;
                while left > 0 {
                    let n = usize::try_from(left).map_or(buffer.len(), |l| l.min(buffer.len()));
                    cpu.pages
                        .read_exact(&mut buffer[..n])
                        .map_err(|source| WriteError::Input { cpu: cpu.cpu, source })?;
                    symbols.scan(&buffer[..n]);
                    left -= n as u64;
                }
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
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        v7::write(out, meta, format.compression, threads, data)
    }
}

/// Writes a file under a temporary name beside `path`, then renames it.
pub(super) fn replace(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let output =
        |action, path: &PathBuf, source| RecordError::Output { action, path: path.clone(), source };
    let result = File::create(&part)
        .map_err(|e| output("creating", &part, e))
        .and_then(|file| {
            let mut out = BufWriter::with_capacity(1 << 20, file);
            write(&mut out)?;
            out.flush().map_err(|e| output("writing", &part, e))
        })
        .and_then(|()| {
            fs::rename(&part, path).map_err(|e| output("renaming to", &path.to_owned(), e))
        });
    if result.is_err() {
        let _ = fs::remove_file(&part);
    }
    result
}

/// Closes the holes of the file that a killed recorder left behind. It could be read before; it
/// is smaller afterwards. Returns its size in bytes.
///
/// # Errors
/// [`RecordError::NotLive`] when it is something else; when it cannot be read or written.
pub fn recover(path: &Path) -> Result<u64> {
    /// No head is longer: all formats and symbols of a large kernel are some 20 MB.
    const HEAD_MAX: u64 = 256 << 20;
    let output =
        |action| move |source| RecordError::Output { action, path: path.to_owned(), source };
    let file = File::open(path).map_err(output("opening"))?;
    let mut head = Vec::new();
    let mut window = 1 << 20;
    let found = loop {
        head.clear();
        (&file).rewind().map_err(output("reading"))?;
        (&file).take(window).read_to_end(&mut head).map_err(output("reading"))?;
        match live::find(&head) {
            Some(found) => break found,
            None if (head.len() as u64) < window || window >= HEAD_MAX => {
                let reason = "its head has no place for data that arrive later";
                return Err(RecordError::NotLive { path: path.to_owned(), reason });
            }
            None => window *= 4,
        }
    };
    let length = usize::try_from(found.head_length()).unwrap_or(usize::MAX);
    if head.len() < length {
        let reason = "it ends before its data";
        return Err(RecordError::NotLive { path: path.to_owned(), reason });
    }
    head.truncate(length);
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
            out.get_ref().set_len(end)
        };
        copy().map_err(broken)
    })?;
    Ok(end)
}
