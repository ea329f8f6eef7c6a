//! OS noise by source: what a busy loop lost its CPU to.

use crate::finding::Note;
use crate::units::{CpuId, Tid};
use latlab_stats::histogram::Histogram;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An interruption of a loop: from the last reading of the clock before it to the first after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interruption {
    /// Start, ns of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Length, ns.
    pub length_ns: u64,
}

/// One window of the loop on one CPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuWindow {
    /// The CPU.
    pub cpu: CpuId,
    /// The looping thread.
    pub tid: Tid,
    /// Shortest distance that counts as an interruption, ns.
    pub threshold_ns: u64,
    /// First reading, ns of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Last reading, ns of CLOCK_MONOTONIC.
    pub end_ns: u64,
    /// Interruptions.
    pub count: u64,
    /// Time in them, ns.
    pub lost_ns: u64,
    /// All distances between two readings, ns.
    pub distances: Histogram,
    /// The first interruptions, in order of time.
    pub listed: Vec<Interruption>,
}

/// What interrupted a loop.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NoiseKind {
    /// No code of this kernel was recorded: firmware, hypervisor, hardware.
    OutsideKernel,
    /// Non-maskable interrupt.
    Nmi,
    /// Interrupt, by its name.
    Interrupt,
    /// Softirq, by its vector.
    Softirq,
    /// Another task, by its name.
    Thread,
    /// Not known: events of that time are missing, or nothing was traced.
    #[default]
    Unknown,
}

/// A source of noise on one CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct NoiseSource {
    /// What it is.
    pub kind: NoiseKind,
    /// Name of the interrupt, softirq or task; empty for the others.
    pub name: String,
    /// How often it ran within interruptions.
    pub count: u64,
    /// Time that it took, ns, without what interrupted it in turn.
    pub total_ns: u64,
    /// Its time in each interruption in which it ran, ns.
    pub time: Histogram,
}

/// Noise of one CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CpuNoise {
    /// The CPU.
    pub cpu: CpuId,
    /// Windows.
    pub windows: u64,
    /// Time in the loop, ns.
    pub looped_ns: u64,
    /// Time in interruptions, ns.
    pub lost_ns: u64,
    /// The longest time in interruptions of one window, ns.
    pub window_ns_max: u64,
    /// Interruptions, ns: distances of two readings from the threshold on.
    pub interruptions: Histogram,
    /// All distances of two readings, ns.
    pub distances: Histogram,
    /// Interruptions that were counted and not listed: their sources are unknown.
    pub not_listed: u64,
    /// The longest queue of the model, packets.
    pub queue_max: Option<f64>,
    /// Events of this CPU that were overwritten before they were read.
    pub events_lost: u64,
    /// Steal time during the measurement with its pauses, ns (resolution: a clock tick).
    pub steal_ns: Option<u64>,
    /// What interrupted it, the largest time first.
    pub sources: Vec<NoiseSource>,
}

impl CpuNoise {
    /// Share of the loop's time that was in interruptions, 0 to 1.
    pub fn lost(&self) -> f64 {
        self.lost_ns as f64 / self.looped_ns.max(1) as f64
    }
    /// Interruptions per second of the loop's time.
    pub fn rate(&self) -> f64 {
        self.interruptions.count as f64 * 1e9 / self.looped_ns.max(1) as f64
    }
    /// Time and number of the sources of a kind.
    pub fn of_kind(&self, kind: NoiseKind) -> (u64, u64) {
        let of = self.sources.iter().filter(|s| s.kind == kind);
        of.fold((0, 0), |(ns, n), s| (ns + s.total_ns, n + s.count))
    }
}

/// A queue of packets that a loop serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct QueueModel {
    /// Packets that arrive per second.
    pub per_second: u64,
    /// Time to serve one, ns.
    pub service_ns: u64,
    /// The longest queue that is permitted, packets.
    pub limit: Option<u64>,
}

/// A tracer of the kernel that measures noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NoiseTracer {
    /// A loop in a kernel thread on each CPU, interrupts enabled.
    Osnoise,
    /// A loop with interrupts disabled.
    Hwlat,
}

impl fmt::Display for NoiseTracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Osnoise => "osnoise",
            Self::Hwlat => "hwlat",
        })
    }
}

/// What `latlab noise` measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct NoiseDetail {
    /// The kernel's tracer that measured; `None`: a loop in user space.
    pub tracer: Option<NoiseTracer>,
    /// Shortest distance that counts as an interruption, ns.
    pub threshold_ns: u64,
    /// From one window to the next, ns.
    pub period_ns: u64,
    /// Length of a window, ns.
    pub runtime_ns: u64,
    /// SCHED_FIFO priority of the loops; `None`: ordinary tasks.
    pub priority: Option<u32>,
    /// Limit of a single interruption, ns.
    pub stop_ns: Option<u64>,
    /// Limit of the interruptions of one window, ns.
    pub stop_total_ns: Option<u64>,
    /// A queue that is served by the loop.
    pub queue: Option<QueueModel>,
    /// Whether events attributed the interruptions.
    pub traced: bool,
    /// System-management interrupts of all CPUs, where the processor counts them.
    pub smi: Option<u64>,
    /// CPUs, rising.
    pub cpus: Vec<CpuNoise>,
    /// Limits of the measurement.
    pub notes: Vec<Note>,
}

impl NoiseDetail {
    /// The CPU and length of the longest interruption.
    pub fn longest(&self) -> Option<(CpuId, u64)> {
        let all = self.cpus.iter().filter(|c| c.interruptions.count > 0);
        all.map(|c| (c.cpu, c.interruptions.max)).max_by_key(|l| l.1)
    }
    /// Whether a limit that the user set was exceeded.
    pub fn limit_exceeded(&self) -> bool {
        let over = |limit: Option<u64>, v: u64| limit.is_some_and(|l| v > l);
        let queue = self.queue.and_then(|q| q.limit);
        self.cpus.iter().any(|c| {
            over(self.stop_ns, c.interruptions.max)
                || over(self.stop_total_ns, c.window_ns_max)
                || over(queue, c.queue_max.unwrap_or(0.0) as u64)
        })
    }
}
