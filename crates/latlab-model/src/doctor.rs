//! Facts of the doctor beyond the machine's description. `None`: not readable.

use crate::finding::Note;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that is judged beside the machine's description.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Facts {
    /// Effective user; 0 is root.
    pub uid: u32,
    /// What happened when a thread asked for SCHED_FIFO, priority 1.
    pub fifo: Trial,
    /// `cpu.rt_runtime_us` of this process's control group (version 1 with RT_GROUP_SCHED).
    pub cgroup_rt_runtime_us: Option<i64>,
    /// Tasks of user space with a real-time or deadline policy.
    pub rt_tasks: Option<Vec<RtTask>>,
    /// Threads of the kernel with a real-time policy.
    pub rt_kernel_threads: Option<u32>,
    /// A real-time core beside Linux: `Xenomai Cobalt 3.2.4`, `EVL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub co_kernel: Option<String>,
    /// What tracing offers.
    pub tracing: Tracing,
    /// `smt/control`: `on`, `off`, `forceoff`, `notsupported`, `notimplemented`.
    pub smt_control: Option<String>,
    /// Size of all swap in bytes.
    pub swap_bytes: Option<u64>,
    /// Swap in use in bytes.
    pub swap_used_bytes: Option<u64>,
    /// Whether the processor's counters (PMU) are offered to perf.
    pub hardware_counters: Option<bool>,
    /// `perf_event_paranoid`.
    pub perf_paranoid: Option<i32>,
    /// Whether `/dev/cpu_dma_latency` may be written.
    pub dma_latency: Access,
    /// Running programs that move interrupts or change settings (`irqbalance`, `tuned`…).
    #[serde(alias = "meddlers")]
    pub interfering_services: Vec<String>,
    /// What a short window of looking saw.
    pub window: Window,
    /// The journal of kernel settings.
    #[serde(alias = "knobs")]
    pub settings: JournalledSettings,
    /// What this user cannot read (`doctor.*`).
    #[serde(alias = "unseen")]
    pub unreadable: Vec<Note>,
}

/// What came of trying something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Trial {
    /// It worked.
    Worked,
    /// The kernel refused, with its words.
    Refused(String),
    /// It was not tried.
    #[default]
    NotTried,
}

/// What a user may do with a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// There is none.
    Absent,
    /// It is there, and this user may not.
    Denied,
    /// It is there, and this user may.
    Allowed,
    /// Not looked at.
    #[default]
    Unknown,
}

/// A task of user space with a real-time or deadline policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RtTask {
    /// Thread id.
    pub tid: i32,
    /// `comm`.
    pub name: String,
    /// `fifo`, `rr`, `deadline`.
    pub policy: String,
    /// 1 to 99; 0 for deadline.
    pub priority: u32,
}

/// What tracing offers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Tracing {
    /// Where tracefs is mounted.
    pub mount: Option<String>,
    /// Whether this kernel has tracefs at all (`/proc/filesystems`).
    pub supported: Option<bool>,
    /// Reading in it.
    pub read: Access,
    /// Making an instance in it (judged by permissions; none is made).
    pub write: Access,
    /// `available_tracers`.
    pub tracers: Option<Vec<String>>,
    /// Number of events.
    pub events: Option<u32>,
    /// Trace clocks that can be chosen.
    pub clocks: Vec<String>,
    /// Reading the list of functions, which lockdown forbids.
    pub functions: Access,
    /// Features by name (`hist triggers`, `synthetic events`, `kprobe events`…) and whether they are there.
    pub features: BTreeMap<String, bool>,
    /// The tracer in use at the top level.
    pub current_tracer: Option<String>,
    /// Whether events are switched on at the top level.
    pub events_on: Option<bool>,
    /// Instances that are there.
    pub instances: Vec<String>,
}

/// What a short window of looking saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Window {
    /// Its length in ns; 0 when there was none.
    pub length_ns: u64,
    /// Steal time of all CPUs in it, ns.
    pub steal_ns: Option<u64>,
    /// For each CPU that was looped on: its number, and the longest time that the loop was away, ns.
    pub gap_ns_max: Vec<(u32, u64)>,
    /// Share of the CPUs' time that others used just before, 0 to 1.
    pub busy: Option<f64>,
}

/// The journal of kernel settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct JournalledSettings {
    /// Settings that a process changed and did not restore before it ended.
    pub left: Vec<String>,
    /// Settings that a running latlab has changed.
    pub held: Vec<String>,
    /// Why the journal could not be read.
    pub unreadable: Option<String>,
}
