//! Every sample in a file: small, readable while it grows, readable when cut off.
//!
//! All numbers are little-endian.
//!
//! ```text
//! offset size
//!      0    8  "LATLABS1"
//!      8    4  length of the header: 16 + 16 × threads
//!     12    4  number of threads
//!     16   16  for each thread:  i32 CPU (-1: not bound)  u32 priority  u64 interval in ns
//!      …       blocks, until the file ends:
//!           4  index of the thread
//!           4  number of samples, n
//!       n×16   u64 when it was meant to wake, ns of CLOCK_MONOTONIC  u64 how late it was, ns
//! ```

use super::wakeup::config::WakeupConfig;

/// The first bytes of a file.
pub const MAGIC: &[u8; 8] = b"LATLABS1";

/// The header for a measurement.
pub fn header(config: &WakeupConfig) -> Vec<u8> {
    let n = config.threads.len() as u32;
    let mut out = MAGIC.to_vec();
    out.extend((16 + 16 * n).to_le_bytes());
    out.extend(n.to_le_bytes());
    for (i, cpu) in config.threads.iter().enumerate() {
        out.extend(cpu.map_or(-1, |c| c.0 as i32).to_le_bytes());
        out.extend(config.priority_of(i).to_le_bytes());
        out.extend(config.interval_of(i).to_le_bytes());
    }
    out
}

/// Appends a block of `(intended_ns, latency_ns)` of one thread.
pub fn block(thread: usize, samples: impl ExactSizeIterator<Item = (u64, u64)>, out: &mut Vec<u8>) {
    out.extend((thread as u32).to_le_bytes());
    out.extend((samples.len() as u32).to_le_bytes());
    for (intended_ns, latency_ns) in samples {
        out.extend(intended_ns.to_le_bytes());
        out.extend(latency_ns.to_le_bytes());
    }
}

/// One thread of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadSamples {
    /// CPU that it was bound to.
    pub cpu: Option<u32>,
    /// Its static priority.
    pub priority: u32,
    /// Its period, ns.
    pub interval_ns: u64,
    /// `(intended_ns, latency_ns)` in order.
    pub samples: Vec<(u64, u64)>,
}

/// What a file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SamplesFile {
    /// By index.
    pub threads: Vec<ThreadSamples>,
    /// Offset at which the file is cut off or damaged, if it is; what lies before was read.
    pub damaged_at: Option<usize>,
}

/// Why bytes are no file of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SamplesError {
    /// Another first line.
    #[error("it does not begin with LATLABS1: no file of samples")]
    Magic,
    /// The header is cut off or contradicts itself.
    #[error("the header is damaged at offset {0}")]
    Header(usize),
}

/// Reads a file. Nothing is allocated that the bytes do not hold.
///
/// # Errors
/// When it is no file of samples. A file that is cut off is no error.
pub fn read(bytes: &[u8]) -> Result<SamplesFile, SamplesError> {
    if !bytes.starts_with(MAGIC) {
        return Err(SamplesError::Magic);
    }
    let length = u32_at(bytes, 8).ok_or(SamplesError::Header(8))? as usize;
    let n = u32_at(bytes, 12).ok_or(SamplesError::Header(12))? as usize;
    if n.checked_mul(16).and_then(|t| t.checked_add(16)) != Some(length) || bytes.len() < length {
        return Err(SamplesError::Header(12));
    }
    let mut file = SamplesFile::default();
    for at in (16..length).step_by(16) {
        let (Some(cpu), Some(priority), Some(interval_ns)) =
            (u32_at(bytes, at), u32_at(bytes, at + 4), u64_at(bytes, at + 8))
        else {
            return Err(SamplesError::Header(at));
        };
        let cpu = (cpu != u32::MAX).then_some(cpu);
        file.threads.push(ThreadSamples { cpu, priority, interval_ns, samples: Vec::new() });
    }
    let mut at = length;
    while at < bytes.len() {
        match read_block(bytes, at, &mut file.threads) {
            Some(next) => at = next,
            None => {
                file.damaged_at = Some(at);
                break;
            }
        }
    }
    Ok(file)
}

/// Reads the block at an offset; the offset after it, or `None` when it is cut off or names no thread.
fn read_block(bytes: &[u8], at: usize, threads: &mut [ThreadSamples]) -> Option<usize> {
    let thread = threads.get_mut(u32_at(bytes, at)? as usize)?;
    let n = u32_at(bytes, at + 4)? as usize;
    let end = n.checked_mul(16)?.checked_add(at + 8)?;
    let body = bytes.get(at + 8..end)?;
    let samples = body.chunks_exact(16).filter_map(|s| Some((u64_at(s, 0)?, u64_at(s, 8)?)));
    thread.samples.extend(samples);
    Some(end)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::CpuId;
    use proptest::prelude::*;

    fn file() -> Vec<u8> {
        let config =
            WakeupConfig { threads: vec![Some(CpuId(3)), None], ..WakeupConfig::default() };
        let mut bytes = header(&config);
        block(1, [(100, 7), (200, 9)].into_iter(), &mut bytes);
        block(0, [(150, 1)].into_iter(), &mut bytes);
        block(1, [(300, u64::MAX)].into_iter(), &mut bytes);
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let read = read(&file()).unwrap();
        assert_eq!(read.damaged_at, None);
        assert_eq!((read.threads[0].cpu, read.threads[1].cpu), (Some(3), None));
        assert_eq!(read.threads[0].priority, 80);
        assert_eq!(read.threads[0].samples, [(150, 1)]);
        assert_eq!(read.threads[1].samples, [(100, 7), (200, 9), (300, u64::MAX)]);
    }

    #[test]
    fn a_file_that_is_cut_off_keeps_its_whole_blocks() {
        let bytes = file();
        let read = read(&bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(read.damaged_at, Some(bytes.len() - 24));
        assert_eq!(read.threads[1].samples.len(), 2);
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_refused_or_read_without_panic(mut bytes: Vec<u8>, magic: bool) {
            if magic {
                bytes.splice(0..0, *MAGIC);
            }
            let _ = read(&bytes);
        }

        #[test]
        fn a_damaged_file_is_read_as_far_as_it_goes(at in 0usize..144, with: u8) {
            let mut bytes = file();
            let at = at % bytes.len();
            bytes[at] = with;
            let _ = read(&bytes);
        }
    }
}
