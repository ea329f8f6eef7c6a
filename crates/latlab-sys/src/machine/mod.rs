//! The machine description: what a run says of where it was made.
//!
//! Everything that is a file is read below a [`Root`], so that a saved tree of
//! a board stands for the board; what only a system call tells (`uname`, clock,
//! limits) is passed in as [`Live`]. Nothing here fails: what cannot be read is `None`.
//!
//! Sources: Documentation/ABI/testing/sysfs-devices-system-cpu, proc(5),
//! Documentation/admin-guide/sysctl/kernel.rst, the device tree specification §2.3.

mod cpu;
mod kernel;
mod packages;
mod software;
mod virt;

use crate::clock;
use crate::files::{Root, chosen, field};
use latlab_model::machine::{Clock, Condition, Machine, RealTime};
use std::collections::BTreeMap;

pub use cpu::{caches as declared_caches, online_cpus};

/// `CAP_*` bits (include/uapi/linux/capability.h).
pub(crate) mod capability {
    pub const IPC_LOCK: u32 = 14;
    pub const SYS_NICE: u32 = 23;
}

/// What a system call tells, and no file.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// `uname -n`.
    pub host: String,
    /// `uname -r`.
    pub release: String,
    /// `uname -v`.
    pub version: String,
    /// `uname -m`.
    pub arch: String,
    /// Page size in bytes.
    pub page_bytes: u64,
    /// `clock_getres(CLOCK_MONOTONIC)`, ns.
    pub resolution_ns: u64,
    /// Step and cost of CLOCK_MONOTONIC.
    pub meter: clock::Meter,
    /// Frequency of the counter, Hz.
    pub counter_hz: Option<u64>,
    /// `RLIMIT_RTPRIO`, soft.
    pub rtprio: u64,
    /// `RLIMIT_MEMLOCK`, soft, in bytes; `None` for unlimited.
    pub memlock_bytes: Option<u64>,
    /// Signature of the hypervisor (CPUID leaf 40000000H), where there is one.
    pub hypervisor: Option<String>,
}

impl Live {
    /// Of this machine and process. Takes about 10 ms where the counter must be measured.
    pub fn here() -> Self {
        use rustix::process::{Resource, getrlimit};
        let name = rustix::system::uname();
        let text = |c: &std::ffi::CStr| c.to_string_lossy().into_owned();
        Self {
            host: host_name(),
            release: text(name.release()),
            version: text(name.version()),
            arch: text(name.machine()),
            page_bytes: rustix::param::page_size() as u64,
            resolution_ns: clock::resolution_ns(),
            meter: clock::measure(),
            counter_hz: clock::counter_hz(),
            rtprio: getrlimit(Resource::Rtprio).current.unwrap_or(u64::MAX),
            memlock_bytes: getrlimit(Resource::Memlock).current,
            hypervisor: virt::signature(),
        }
    }
}

/// `uname -n`; `localhost` where it is empty.
pub fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

/// A new UUID (RFC 9562, version 4), of the kernel's random numbers; empty where `/proc` has none.
pub fn new_uuid() -> String {
    Root::here().word("proc/sys/kernel/random/uuid").unwrap_or_default()
}

/// Everything that this machine says of itself.
pub fn read() -> Machine {
    read_from(&Root::here(), &Live::here())
}

/// Everything that a tree and some system calls say of a machine.
pub fn read_from(root: &Root, live: &Live) -> Machine {
    let memory = root.text("proc/meminfo").unwrap_or_default();
    Machine {
        host: live.host.clone(),
        board: cpu::board(root),
        unit: cpu::unit(root),
        firmware: software::firmware(root),
        os: software::os(root),
        packages: packages::packages(root, &live.release),
        arch: live.arch.clone(),
        kernel: kernel::read(root, &live.release, &live.version),
        cpu: cpu::read(root),
        caches: cpu::caches(root),
        memory_bytes: kilobytes(&memory, "MemTotal"),
        page_bytes: live.page_bytes,
        thp: root.text("sys/kernel/mm/transparent_hugepage/enabled").and_then(|t| chosen(&t)),
        clock: clock_of(root, live),
        rt: real_time(root, live),
        virtualization: virt::recognise(root, live.hypervisor.as_deref()),
        mitigations: directory(root, "sys/devices/system/cpu/vulnerabilities"),
        irq_affinity: irq_affinity(root),
        start: condition_of(root),
        end: None,
    }
}

/// The running kernel's whole configuration, with the file that it is from.
pub fn running_config() -> Option<(String, BTreeMap<String, String>)> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    kernel::configuration(&Root::here(), &release)
}

/// A kernel's configuration from a file, packed by gzip or not; empty when it is none.
///
/// # Errors
/// When the file cannot be read.
pub fn config_file(path: &std::path::Path) -> std::io::Result<BTreeMap<String, String>> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    std::io::Read::read_to_end(&mut std::io::Read::take(file, 8 << 20), &mut bytes)?;
    Ok(kernel::unpacked(bytes).map(|text| latlab_model::kconfig::parse(&text)).unwrap_or_default())
}

/// The smallest share of memory that one file may take: formats and symbols of a kernel need some.
const LEAST_SHARE: u64 = 64 << 20;

/// Bytes that one file may inflate to: a quarter of what is free; `None` where the kernel does not say.
pub fn share_of_free_memory() -> Option<u64> {
    condition().available_bytes.map(|free| (free / 4).max(LEAST_SHARE))
}

/// What is going on right now.
pub fn condition() -> Condition {
    condition_of(&Root::here())
}

fn clock_of(root: &Root, live: &Live) -> Clock {
    let base = "sys/devices/system/clocksource/clocksource0";
    Clock {
        source: root.word(&format!("{base}/current_clocksource")),
        available: root
            .text(&format!("{base}/available_clocksource"))
            .map(|t| t.split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default(),
        counter_hz: live.counter_hz.or_else(|| device_tree_counter_hz(root)),
        resolution_ns: live.resolution_ns,
        step_ns: live.meter.step_ns,
        read_ns: live.meter.read_ns,
        high_resolution_timers: high_resolution(root, live.resolution_ns),
    }
}

/// What root reads in timer_list decides; else the kernel's own resolution, which is 1 ns
/// when timers have high resolution and a tick when they have not.
fn high_resolution(root: &Root, resolution_ns: u64) -> Option<bool> {
    let list = root.text("proc/timer_list").unwrap_or_default();
    let active = list.lines().find_map(|l| l.trim().strip_prefix(".hres_active"));
    if let Some(value) = active.and_then(|v| v.trim_start_matches([' ', ':']).split(' ').next()) {
        return Some(value.trim() == "1");
    }
    (resolution_ns > 0).then_some(resolution_ns == 1)
}

/// `clock-frequency` of the ARM generic timer's node, where the firmware gives one.
fn device_tree_counter_hz(root: &Root) -> Option<u64> {
    let bytes = root.bytes("proc/device-tree/timer/clock-frequency")?;
    let hz = u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?);
    (hz > 0).then_some(u64::from(hz))
}

fn real_time(root: &Root, live: &Live) -> RealTime {
    let list = |p: &str| root.text(p).filter(|t| t != "(null)").unwrap_or_default();
    RealTime {
        runtime_us: root.number("proc/sys/kernel/sched_rt_runtime_us"),
        period_us: root.number("proc/sys/kernel/sched_rt_period_us"),
        priority_max: match has_capability(root, capability::SYS_NICE) {
            true => 99,
            false => u32::try_from(live.rtprio.min(99)).unwrap_or(99),
        },
        memlock_bytes: match has_capability(root, capability::IPC_LOCK) {
            true => None,
            false => live.memlock_bytes,
        },
        isolated: list("sys/devices/system/cpu/isolated"),
        nohz_full: list("sys/devices/system/cpu/nohz_full"),
    }
}

/// Whether this process has a capability in force (`CapEff`).
pub(crate) fn has_capability(root: &Root, bit: u32) -> bool {
    let status = root.text("proc/self/status").unwrap_or_default();
    let mask = field(&status, "CapEff").and_then(|m| u64::from_str_radix(m, 16).ok());
    mask.is_some_and(|m| m >> bit & 1 == 1)
}

fn irq_affinity(root: &Root) -> BTreeMap<String, String> {
    let irqs = root.numbered("proc/irq", "").into_iter();
    irqs.filter_map(|(_, n)| {
        let list = root.word(&format!("proc/irq/{n}/smp_affinity_list"))?;
        Some((n, list))
    })
    .collect()
}

/// File name → content, of a directory of one-line files.
fn directory(root: &Root, path: &str) -> BTreeMap<String, String> {
    let names = root.names(path).into_iter();
    names.filter_map(|n| Some((n.clone(), root.word(&format!("{path}/{n}"))?))).collect()
}

fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let number = field(text, key)?.split_whitespace().next()?;
    number.parse::<u64>().ok().map(|kb| kb.saturating_mul(1024))
}

pub(crate) fn condition_of(root: &Root) -> Condition {
    let memory = root.text("proc/meminfo").unwrap_or_default();
    // MemAvailable came with Linux 3.14.
    let available = kilobytes(&memory, "MemAvailable").or_else(|| {
        Some(kilobytes(&memory, "MemFree")?.saturating_add(kilobytes(&memory, "Cached")?))
    });
    Condition {
        load: load(root),
        khz: cpu::frequencies_khz(root),
        temperature_mc: temperatures(root),
        throttled: throttled(root),
        available_bytes: available,
        steal_ns: steal_ns(root),
    }
}

fn load(root: &Root) -> Option<[f64; 3]> {
    let text = root.text("proc/loadavg")?;
    let mut numbers = text.split_whitespace().map_while(|w| w.parse().ok());
    Some([numbers.next()?, numbers.next()?, numbers.next()?])
}

fn temperatures(root: &Root) -> BTreeMap<String, i64> {
    let mut all = BTreeMap::new();
    for (n, zone) in root.numbered("sys/class/thermal", "thermal_zone") {
        let base = format!("sys/class/thermal/{zone}");
        let Some(value) = root.number(&format!("{base}/temp")) else { continue };
        let name = root.word(&format!("{base}/type")).unwrap_or_else(|| zone.clone());
        // Several zones may share a type.
        let name = if all.contains_key(&name) { format!("{name}.{n}") } else { name };
        all.insert(name, value);
    }
    all
}

/// States of cooling devices of CPUs (Documentation/driver-api/thermal/sysfs-api.rst), and x86's
/// `core_throttle_count`.
fn throttled(root: &Root) -> Option<u64> {
    let mut sum = None;
    let mut add = |file: &str| {
        if let Some(n) = root.number::<u64>(file) {
            sum = Some(sum.unwrap_or(0) + n);
        }
    };
    for (_, device) in root.numbered("sys/class/thermal", "cooling_device") {
        let base = format!("sys/class/thermal/{device}");
        let kind = root.word(&format!("{base}/type")).unwrap_or_default();
        if kind.contains("cpu") || kind == "Processor" {
            add(&format!("{base}/cur_state"));
        }
    }
    for (_, cpu) in root.numbered("sys/devices/system/cpu", "cpu") {
        add(&format!("sys/devices/system/cpu/{cpu}/thermal_throttle/core_throttle_count"));
    }
    sum
}

/// Steal time of all CPUs since boot. `/proc/stat` counts in `USER_HZ`, which is 100 on
/// every architecture that this builds for.
pub(crate) fn steal_ns(root: &Root) -> Option<u64> {
    const USER_HZ_NS: u64 = 10_000_000;
    let stat = root.text("proc/stat")?;
    let line = stat.lines().find(|l| l.starts_with("cpu "))?;
    let ticks: u64 = line.split_whitespace().nth(8)?.parse().ok()?;
    Some(ticks.saturating_mul(USER_HZ_NS))
}
