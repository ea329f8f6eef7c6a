//! Bytes that hold whole pages, in the file or inflated.

use std::sync::Arc;

/// Bytes that hold whole pages.
#[derive(Clone, Debug)]
pub(crate) enum Chunk<'a> {
    /// In the file.
    Mapped(&'a [u8]),
    /// Inflated.
    Inflated(Arc<Vec<u8>>),
}

impl Chunk<'_> {
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Chunk::Mapped(b) => b,
            Chunk::Inflated(b) => b,
        }
    }
}

/// A compressed chunk's place in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompressedChunk {
    /// Offset of the compressed bytes.
    pub at: u64,
    pub len: u32,
    pub inflated: u32,
}
