//! The machine that a run was made on, as far as it would say.
//!
//! Every field is optional or a list: a board without cpufreq, `/proc/config.gz`
//! or a second core is an ordinary machine. `None` means "could not be read",
//! never "no".

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is known of the machine; read once at the start of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Machine {
    /// `uname -n`.
    pub host: String,
    /// Board or product name (device tree `model`, DMI product), where there is one.
    pub board: Option<String>,
    /// Serial number of this unit (device tree `serial-number`, `soc0`, DMI), where it is readable and
    /// no placeholder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Firmware: vendor, version and date of the BIOS (DMI), or the version of the boot loader (device tree
    /// `chosen`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// The system: name and version of `os-release`, with that of its image or build.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// Versions of the installed packages that decide latencies (C library, init, tools of scheduling and
    /// clocks, firmware), by name, from the database of dpkg, opkg or apk; `kernel` is the package of the
    /// running kernel with its version. Empty where no database is readable.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<String, String>,
    /// `uname -m`.
    pub arch: String,
    /// The kernel.
    pub kernel: Kernel,
    /// The processors.
    pub cpu: Cpu,
    /// Caches of CPU 0 as the kernel declares them.
    pub caches: Vec<Cache>,
    /// Physical memory in bytes (`MemTotal`).
    pub memory_bytes: Option<u64>,
    /// Page size in bytes.
    pub page_bytes: u64,
    /// `[transparent_hugepage/enabled]`: the chosen word.
    pub thp: Option<String>,
    /// Clock source and steps.
    pub clock: Clock,
    /// Scheduling limits and isolation.
    pub rt: RealTime,
    /// Hypervisor or container, where one was recognised (`kvm`, `qemu-tcg`, `docker`…).
    pub virtualization: Option<String>,
    /// CPU vulnerabilities: name → mitigation text.
    pub mitigations: BTreeMap<String, String>,
    /// IRQ number → `smp_affinity_list`.
    pub irq_affinity: BTreeMap<String, String>,
    /// State at the start of the run.
    pub start: Condition,
    /// State at its end.
    pub end: Option<Condition>,
}

/// The kernel and how it was built and booted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Kernel {
    /// `uname -r`.
    pub release: String,
    /// `uname -v`.
    pub version: String,
    /// `/proc/cmdline`.
    pub command_line: Option<String>,
    /// Preemption model: `none`, `voluntary`, `full`, `lazy`, `rt`.
    pub preemption: Option<String>,
    /// `CONFIG_HZ`, where the configuration is readable.
    pub hz: Option<u32>,
    /// `CONFIG_*` options that matter for latency and tracing, where readable: name → value.
    pub config: BTreeMap<String, String>,
    /// The file that the configuration was read from; `None`: none was readable.
    pub config_source: Option<String>,
    /// Lockdown mode in force (`none`, `integrity`, `confidentiality`).
    pub lockdown: Option<String>,
}

/// The processors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Cpu {
    /// Model name.
    pub model: Option<String>,
    /// Revision of its microcode (`/proc/cpuinfo`), where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub microcode: Option<String>,
    /// CPUs online, as the kernel lists them (`0-3`).
    pub online: String,
    /// Number of CPUs online.
    pub count: u32,
    /// Threads per core, where the topology says.
    pub threads_per_core: Option<u32>,
    /// cpufreq governor of each policy: `policy0` → `schedutil`.
    pub governors: BTreeMap<String, String>,
    /// cpufreq driver of each policy: `policy0` → `intel_pstate`.
    pub frequency_drivers: BTreeMap<String, String>,
    /// Idle driver (`intel_idle`, `haltpoll`…).
    pub idle_driver: Option<String>,
    /// Idle states of CPU 0: name and exit latency in µs.
    pub idle_states: Vec<IdleState>,
}

/// One cpuidle state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdleState {
    /// The driver's name for it.
    pub name: String,
    /// Exit latency in µs as declared.
    pub exit_us: u64,
    /// Whether it is disabled.
    pub disabled: bool,
}

/// One cache as declared in sysfs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cache {
    /// 1, 2, 3…
    pub level: u32,
    /// `Data`, `Instruction`, `Unified`.
    pub kind: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Line in bytes, where declared.
    pub line_bytes: Option<u32>,
    /// Ways, where declared.
    pub ways: Option<u32>,
    /// CPUs that share it (`0-1`).
    pub shared_by: Option<String>,
}

/// Clocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Clock {
    /// Clock source in use.
    pub source: Option<String>,
    /// Clock sources that could be used.
    pub available: Vec<String>,
    /// Frequency of the user-readable counter in Hz, where known.
    pub counter_hz: Option<u64>,
    /// `clock_getres(CLOCK_MONOTONIC)` in ns.
    pub resolution_ns: u64,
    /// Smallest step seen between two reads of `CLOCK_MONOTONIC`, ns.
    pub step_ns: u64,
    /// Median cost of one read of `CLOCK_MONOTONIC`, ns.
    pub read_ns: u64,
    /// Whether timers have high resolution (`.resolution: 1 nsecs`, or a measured sleep).
    pub high_resolution_timers: Option<bool>,
}

/// Real-time limits and isolation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RealTime {
    /// `sched_rt_runtime_us`; -1 means no throttling.
    pub runtime_us: Option<i64>,
    /// `sched_rt_period_us`.
    pub period_us: Option<u64>,
    /// Highest SCHED_FIFO priority that this user may use, 0 for none.
    pub priority_max: u32,
    /// `RLIMIT_MEMLOCK` in bytes; `None` for unlimited.
    pub memlock_bytes: Option<u64>,
    /// Isolated CPUs (`isolcpus`), empty for none.
    pub isolated: String,
    /// `nohz_full` CPUs, empty for none.
    pub nohz_full: String,
}

/// What was going on at a moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Condition {
    /// 1, 5 and 15 minute load.
    pub load: Option<[f64; 3]>,
    /// CPU frequency in kHz per CPU, where readable.
    pub khz: Vec<u64>,
    /// Thermal zones: type → millidegrees Celsius.
    pub temperature_mc: BTreeMap<String, i64>,
    /// Throttling: states of the CPUs' cooling devices (0: none) and the processor's own counts of it since boot,
    /// added up; a rise is throttling. `None` where the kernel has neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled: Option<u64>,
    /// `MemAvailable` in bytes.
    pub available_bytes: Option<u64>,
    /// Cumulative steal time of all CPUs, ns.
    pub steal_ns: Option<u64>,
}

/// The state of the machine at a moment of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Moment {
    /// Since the beginning of the measurement, s.
    pub seconds: f64,
    /// The state.
    pub condition: Condition,
}
