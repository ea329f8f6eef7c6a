//! What a trace holds: counts by CPU and by kind of event.

use serde::{Deserialize, Serialize};

/// Counts of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceStat {
    /// Version of trace.dat; 0 for a trace that was read from text.
    pub version: u32,
    /// Clock of the time stamps.
    pub clock: String,
    /// `uname` of the recorded machine, where the file says.
    pub uname: String,
    /// What recorded it, where the file says.
    pub recorder: String,
    /// Number of events.
    pub events: u64,
    /// Events that were lost, as far as the kernel counted them.
    pub lost: u64,
    /// Losses whose size the kernel did not say.
    pub lost_unknown: u64,
    /// By buffer and CPU.
    pub cpus: Vec<CpuStat>,
    /// By kind of event, most frequent first.
    pub kinds: Vec<KindStat>,
    /// The kernel's ring buffers at the end of the recording, where the file has their statistics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buffers: Vec<BufferStat>,
}

/// One ring buffer, from `per_cpu/cpuN/stats` (Documentation/trace/ftrace.rst). A field that the kernel
/// does not have is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BufferStat {
    /// The CPU.
    pub cpu: u32,
    /// Events that are still in the buffer.
    pub entries: Option<u64>,
    /// Events that were overwritten before they were read.
    pub overrun: Option<u64>,
    /// Events lost because interrupts filled the buffer within one commit.
    pub commit_overrun: Option<u64>,
    /// Bytes that are still in the buffer.
    pub bytes: Option<u64>,
    /// Time of the oldest event in the buffer, ns of the trace's clock.
    pub oldest_ns: Option<u64>,
    /// Time of the statistics, ns of the trace's clock.
    pub now_ns: Option<u64>,
    /// Events that found the buffer full (`nooverwrite`).
    pub dropped: Option<u64>,
    /// Events that were read.
    pub read: Option<u64>,
}

/// One CPU of one buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuStat {
    /// Name of the instance; empty for the top buffer.
    pub buffer: String,
    /// The CPU.
    pub cpu: u32,
    /// Number of events.
    pub events: u64,
    /// Events that were lost, as far as the kernel counted them.
    pub lost: u64,
    /// Losses whose size the kernel did not say.
    pub lost_unknown: u64,
    /// Time of the first event, in the clock's unit.
    pub first_ns: u64,
    /// Time of the last event, in the clock's unit.
    pub last_ns: u64,
}

/// One kind of event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KindStat {
    /// Subsystem; empty when the trace does not know the event.
    pub system: String,
    /// Name, or the number of an unknown event.
    pub name: String,
    /// Number of events.
    pub events: u64,
}
