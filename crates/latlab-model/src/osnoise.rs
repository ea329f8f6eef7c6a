//! OS noise: the intervals that a busy loop lost its CPU.

use latlab_stats::histogram::Histogram;

/// What one CPU's loop saw.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuGaps {
    /// The CPU.
    pub cpu: usize,
    /// How long it looped, ns of CLOCK_MONOTONIC.
    pub length_ns: u64,
    /// Shortest distance that counts as a gap, ns.
    pub threshold_ns: u64,
    /// The gaps, ns: from the last read before to the first read after.
    pub gaps: Histogram,
}

impl CpuGaps {
    /// Share of the time that was in gaps, 0 to 1.
    pub fn lost(&self) -> f64 {
        self.gaps.mean().unwrap_or(0.0) * self.gaps.count as f64 / self.length_ns.max(1) as f64
    }
}
