//! One CPU's lanes.

use super::bins::Bins;
use super::column::{Runs, Spans};

/// One CPU's lanes.
#[derive(Debug, Default)]
pub struct CpuLanes {
    /// Its number.
    pub cpu: u32,
    /// Events.
    pub events: u64,
    /// Who ran.
    pub runs: Runs,
    /// Interrupts (0), softirqs (1), functions (2), by depth.
    pub nested: [Vec<Spans>; 3],
    /// Counts by time.
    pub bins: Bins,
    /// Frequency in kHz as spans; empty where it was not traced.
    pub freq: Spans,
}
