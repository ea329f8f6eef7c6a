//! Inflation of the compressed parts of a version 7 file, with bounded output.

use std::io::Read;

/// How a file's sections and chunks are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Codec {
    /// Not at all.
    #[default]
    None,
    /// Zstandard frames.
    Zstd,
    /// zlib streams.
    Zlib,
}

impl Codec {
    /// The codec that a file's header names.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        match name {
            b"none" | b"" => Some(Self::None),
            b"zstd" => Some(Self::Zstd),
            b"zlib" => Some(Self::Zlib),
            _ => None,
        }
    }

    /// The name in a file's header.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Zstd => "zstd",
            Self::Zlib => "zlib",
        }
    }
}

/// The most that `compressed` bytes are believed to inflate to: zlib cannot
/// exceed 1032:1, and what zstd makes of trace data stays far below it.
pub(crate) fn inflated_bound(compressed: usize) -> usize {
    compressed.saturating_mul(1100).saturating_add(1 << 16)
}

/// Why compressed data cannot be inflated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InflateError {
    /// More than [`inflated_bound`] allows.
    #[error("{compressed} bytes cannot inflate to {size}")]
    TooLarge {
        /// Bytes of the compressed data.
        compressed: usize,
        /// Bytes that it is said to inflate to.
        size: usize,
    },
    /// The decompressor could not be made.
    #[error("{0}")]
    Setup(String),
    /// The decompressor refused the data.
    #[error("{codec}: {reason}")]
    Data {
        /// `zstd`, `zlib`.
        codec: &'static str,
        /// What the decompressor reports.
        reason: String,
    },
    /// The data inflates to another size than the file declares.
    #[error("inflates to {found} bytes instead of {size}")]
    Size {
        /// Bytes that came out.
        found: usize,
        /// Bytes that the file declares.
        size: usize,
    },
}

/// Reusable state of a decompressor.
#[derive(Default)]
pub(crate) struct Inflater {
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl Inflater {
    /// Inflates into `out` (cleared first), which must come to exactly `size` bytes.
    pub fn inflate(
        &mut self,
        codec: Codec,
        data: &[u8],
        size: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), InflateError> {
        out.clear();
        if size > inflated_bound(data.len()) {
            return Err(InflateError::TooLarge { compressed: data.len(), size });
        }
        match codec {
            Codec::None => out.extend_from_slice(data),
            Codec::Zstd => {
                let zstd = match &mut self.zstd {
                    Some(z) => z,
                    None => self.zstd.insert(
                        zstd::bulk::Decompressor::new()
                            .map_err(|e| InflateError::Setup(e.to_string()))?,
                    ),
                };
                out.reserve_exact(size);
                zstd.decompress_to_buffer(data, out).map_err(|e| refused("zstd", &e))?;
            }
            Codec::Zlib => {
                out.reserve_exact(size);
                flate2::bufread::ZlibDecoder::new(data)
                    .take(size as u64)
                    .read_to_end(out)
                    .map_err(|e| refused("zlib", &e))?;
            }
        }
        if out.len() == size { Ok(()) } else { Err(InflateError::Size { found: out.len(), size }) }
    }
}

fn refused(codec: &'static str, error: &std::io::Error) -> InflateError {
    InflateError::Data { codec, reason: error.to_string() }
}

impl std::fmt::Debug for Inflater {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Inflater")
    }
}
