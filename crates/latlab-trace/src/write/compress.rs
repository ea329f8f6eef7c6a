//! Chunks: a CPU's pages are compressed in independent pieces, so that a reader can inflate
//! them in parallel and start anywhere.

use super::{Bytes, CpuData, Metadata, WriteError, length32};
use std::fmt;
use std::io::{Read, Write};
use std::str::FromStr;

/// Pages in one chunk. trace-cmd writes 10; any number is read.
const PAGES_PER_CHUNK: usize = 16;
/// Chunks that one thread compresses before the results are collected.
const CHUNKS_PER_TURN: usize = 16;

/// How the data (and the larger sections) of a version 7 file are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// zlib, level 1: trace data are so regular that higher levels gain little.
    Zlib,
    /// zstd, level 1.
    Zstd,
}

/// Not a compression that this program can write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a compression; there are zstd, zlib and none")]
pub struct UnknownCompression(pub String);

impl Compression {
    /// The name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }
    /// The version in the file; informative, no reader acts on it.
    pub(super) fn version(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Zlib => "1.2.13",
            Self::Zstd => "1.5.4",
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Compression {
    type Err = UnknownCompression;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        match s {
            "none" => Ok(Self::None),
            "zlib" => Ok(Self::Zlib),
            "zstd" => Ok(Self::Zstd),
            _ => Err(UnknownCompression(s.to_owned())),
        }
    }
}

/// One compressor with its working memory.
enum Compressor {
    Zlib,
    Zstd(Box<zstd::bulk::Compressor<'static>>),
}

impl Compressor {
    /// `None` for [`Compression::None`].
    fn new(method: Compression) -> Result<Option<Self>, WriteError> {
        match method {
            Compression::None => Ok(None),
            Compression::Zlib => Ok(Some(Self::Zlib)),
            Compression::Zstd => zstd::bulk::Compressor::new(1)
                .map(|c| Some(Self::Zstd(Box::new(c))))
                .map_err(|e| failed("zstd", &e)),
        }
    }

    fn compress(&mut self, bytes: &[u8]) -> Result<Vec<u8>, WriteError> {
        match self {
            Self::Zlib => {
                let out = Vec::with_capacity(bytes.len() / 4);
                let mut z = flate2::write::ZlibEncoder::new(out, flate2::Compression::fast());
                z.write_all(bytes).and_then(|()| z.finish()).map_err(|e| failed("zlib", &e))
            }
            Self::Zstd(z) => z.compress(bytes).map_err(|e| failed("zstd", &e)),
        }
    }
}

fn failed(method: &'static str, reason: &impl fmt::Display) -> WriteError {
    WriteError::Compress { method, reason: reason.to_string() }
}

/// A section's content: compressed size, plain size, data; or `None` when compression is off.
pub(super) fn section(
    meta: &Metadata,
    method: Compression,
    plain: &[u8],
) -> Result<Option<Vec<u8>>, WriteError> {
    let Some(mut compressor) = Compressor::new(method)? else { return Ok(None) };
    let packed = compressor.compress(plain)?;
    let mut b = Bytes::new(meta);
    b.u32(length32("a compressed section", packed.len())?);
    b.u32(length32("a section", plain.len())?);
    b.raw(&packed);
    Ok(Some(b.bytes))
}

/// Writes a CPU's pages as chunks behind a chunk count that the caller patches.
/// Returns the number of chunks and the bytes written, the count itself left out.
pub(super) fn chunks<R: Read>(
    meta: &Metadata,
    method: Compression,
    threads: usize,
    cpu: &mut CpuData<R>,
    out: &mut impl Write,
) -> Result<(u32, u64), WriteError> {
    let chunk = PAGES_PER_CHUNK * meta.page_size as usize;
    let mut compressors = Vec::new();
    for _ in 0..threads.clamp(1, 16) {
        compressors.extend(Compressor::new(method)?);
    }
    let (mut count, mut written) = (0u32, 0u64);
    cpu.blocks(compressors.len() * CHUNKS_PER_TURN * chunk, |part| {
        for packed in turn(meta, &mut compressors, part, chunk)? {
            out.write_all(&packed).map_err(WriteError::Output)?;
            written += packed.len() as u64;
        }
        count += u32::try_from(part.len().div_ceil(chunk)).unwrap_or(u32::MAX);
        Ok(())
    })?;
    Ok((count, written))
}

/// Compresses up to one turn of chunks, one thread a compressor; results in order.
fn turn(
    meta: &Metadata,
    compressors: &mut [Compressor],
    bytes: &[u8],
    chunk: usize,
) -> Result<Vec<Vec<u8>>, WriteError> {
    std::thread::scope(|scope| {
        let workers: Vec<_> = compressors
            .iter_mut()
            .zip(bytes.chunks(CHUNKS_PER_TURN * chunk))
            .map(|(compressor, part)| scope.spawn(move || share(meta, compressor, part, chunk)))
            .collect();
        workers
            .into_iter()
            .map(|w| w.join().unwrap_or_else(|_| Err(failed("zstd", &"the compressor panicked"))))
            .collect()
    })
}

/// One thread's share of a turn: compressed size, plain size and data of each chunk.
fn share(
    meta: &Metadata,
    compressor: &mut Compressor,
    part: &[u8],
    chunk: usize,
) -> Result<Vec<u8>, WriteError> {
    let mut b = Bytes::new(meta);
    for plain in part.chunks(chunk) {
        let packed = compressor.compress(plain)?;
        b.u32(length32("a compressed chunk", packed.len())?);
        b.u32(length32("a chunk", plain.len())?);
        b.raw(&packed);
    }
    Ok(b.bytes)
}
