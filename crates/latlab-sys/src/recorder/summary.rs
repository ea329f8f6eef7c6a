//! Result of a recording: its file, and events read and lost by CPU.

use super::{RecordError, Result};
use crate::tracefs::RemovedInstance;
use std::path::PathBuf;
use std::time::Duration;

/// What became of a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub file_bytes: u64,
    /// How long it was traced.
    pub duration: Duration,
    /// Each CPU's part.
    pub cpus: Vec<CpuSummary>,
    /// What kept the file from being complete and compact (disk full); it is readable.
    pub failures: Vec<String>,
    /// Instances of dead latlabs that were removed at the start.
    pub removed: Vec<RemovedInstance>,
}

impl Summary {
    /// Events in the file.
    pub fn events(&self) -> u64 {
        self.cpus.iter().map(|c| c.events).sum()
    }
    /// The file is complete and compact.
    ///
    /// # Errors
    /// [`RecordError::Incomplete`] with what prevented it.
    pub fn check(&self) -> Result<()> {
        if self.failures.is_empty() {
            return Ok(());
        }
        Err(RecordError::Incomplete {
            path: self.path.clone(),
            reasons: self.failures.join("; "),
            bytes: self.cpus.iter().map(|c| c.bytes).sum(),
        })
    }

    /// Events that were lost.
    pub fn lost(&self) -> u64 {
        self.cpus.iter().map(CpuSummary::lost).sum()
    }
}

/// One CPU's part of a recording, from the kernel's `per_cpu/cpuN/stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuSummary {
    /// Which.
    pub cpu: u32,
    /// Events read.
    pub events: u64,
    /// Bytes of ring-buffer pages written.
    pub bytes: u64,
    /// Events overwritten before they were read.
    pub overrun: u64,
    /// Events lost because interrupts filled the buffer within one commit.
    pub commit_overrun: u64,
    /// Events dropped because the buffer was full (`nooverwrite`).
    pub dropped: u64,
}

impl CpuSummary {
    /// Events that happened and are not in the file.
    pub fn lost(&self) -> u64 {
        self.overrun + self.commit_overrun + self.dropped
    }

    pub(super) fn parse(cpu: u32, bytes: u64, stats: &str) -> Self {
        let field = |name: &str| {
            let value = |l: &str| l.strip_prefix(name)?.strip_prefix(": ")?.trim().parse().ok();
            stats.lines().find_map(value).unwrap_or(0)
        };
        Self {
            cpu,
            bytes,
            events: field("read events"),
            overrun: field("overrun"),
            commit_overrun: field("commit overrun"),
            dropped: field("dropped events"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_statistics_are_read() {
        let stats = "entries: 0\noverrun: 7\ncommit overrun: 1\nbytes: 4556\noldest event ts:  12.3\nnow ts:  12.5\ndropped events: 2\nread events: 105\n";
        let cpu = CpuSummary::parse(3, 8192, stats);
        assert_eq!((cpu.events, cpu.overrun, cpu.commit_overrun, cpu.dropped), (105, 7, 1, 2));
        assert_eq!(cpu.lost(), 10);
    }
}
