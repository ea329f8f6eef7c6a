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
