//! How much memory a file may take: what its sections inflate to, and its chunks.
//!
//! A compressed file of some kilobytes can ask for gigabytes. Sections stay in memory, so each is
//! taken from the limit. Of the chunks, each CPU's reader holds one or two and the threads that
//! inflate ahead hold [`AHEAD_MAX`] in all; a chunk may be so large that all of these fit. What is
//! left out so depends on the file and the limit only, not on the order of reading.

use std::sync::atomic::{AtomicU64, Ordering};

/// The limit where the caller names none, bytes.
pub const DEFAULT_MEMORY: u64 = 1 << 30;
/// Chunks that are inflated ahead of the merge, at most, of all CPUs together.
pub(crate) const AHEAD_MAX: usize = 64;
/// Chunks that one CPU's reader may hold: the one that it reads, and the next for a look ahead.
const HELD: u64 = 2;
/// Formats and symbols become tables that are larger than their text.
const SECTION_WEIGHT: u64 = 8;

/// The limit of a file and what is left of it.
#[derive(Debug)]
pub(crate) struct Memory {
    limit: u64,
    left: AtomicU64,
    /// Bytes that a chunk may inflate to.
    pub chunk_max: u64,
}

/// A section that is larger than what is left of the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it inflates to {bytes} bytes, too much for the memory limit of {} MiB", .limit >> 20)]
pub(crate) struct OverLimit {
    bytes: u64,
    limit: u64,
}

impl Memory {
    pub fn new(limit: u64) -> Self {
        Self { limit, left: AtomicU64::new(limit), chunk_max: limit }
    }

    /// The limit, bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Takes what a section of so many bytes needs.
    ///
    /// # Errors
    /// When that is more than what is left.
    pub fn take_section(&self, bytes: u64) -> Result<(), OverLimit> {
        let needed = bytes.saturating_mul(SECTION_WEIGHT);
        let take = |left: u64| left.checked_sub(needed);
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(()),
            Err(_) => Err(OverLimit { bytes, limit: self.limit }),
        }
    }

    /// Divides what is left over the chunks of so many readers.
    pub fn share(&mut self, readers: usize) {
        let chunks = HELD * readers as u64 + AHEAD_MAX as u64;
        self.chunk_max = *self.left.get_mut() / chunks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_taken_from_the_limit_and_chunks_share_the_rest() {
        let mut memory = Memory::new(1 << 20);
        assert!(memory.take_section(64 << 10).is_ok());
        let error = memory.take_section(1 << 20).unwrap_err();
        assert!(error.to_string().contains("memory limit of 1 MiB"), "{error}");
        memory.share(32);
        assert_eq!(memory.chunk_max, (512 << 10) / 128);
    }
}
