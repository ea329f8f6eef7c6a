//! What is looked at and set before the first wake-up.

use super::{WakeupError, os};
use crate::policy;
use latlab_model::cpulist;
use latlab_model::finding::{Note, Quantity};
use latlab_model::wakeup::config::{Policy, WakeupConfig};
use std::fs::{File, OpenOptions};
use std::io::Write;

/// Share of a CPU that all threads bound to it may take together, per cent.
const SHARE_MAX: u64 = 50;
/// Sleeps from which the cost of a wake-up is learnt.
const PROBES: u64 = 24;

/// Refuses what cannot be measured or would make the machine unreachable.
///
/// # Errors
/// A sentence with a hint.
pub fn check(config: &WakeupConfig) -> Result<(), WakeupError> {
    if config.threads.is_empty() {
        return Err(WakeupError::NoThreads);
    }
    if config.interval_ns == 0 {
        return Err(WakeupError::ZeroInterval);
    }
    if config.policy == Policy::Deadline && config.threads.iter().any(Option::is_some) {
        return Err(WakeupError::BoundDeadline);
    }
    let online = policy::online().map_err(|source| WakeupError::File {
        path: "/sys/devices/system/cpu/online".into(),
        source,
    })?;
    for cpu in config.threads.iter().chain([&config.main_cpu]).flatten() {
        if !online.contains(cpu) {
            let online: Vec<u32> = online.iter().map(|cpu| cpu.0).collect();
            return Err(WakeupError::Offline { cpu: *cpu, online: cpulist::format(&online) });
        }
    }
    check_share(config, online.len())
}

/// A thread that wakes as often as it can takes its CPU whole: at most half is allowed.
fn check_share(config: &WakeupConfig, cpus: usize) -> Result<(), WakeupError> {
    // Even a slow board wakes up in far less than this.
    if config.interval_ns >= 1_000_000 && config.threads.len() <= 8 * cpus && config.compute_ns == 0
    {
        return Ok(());
    }
    // With a sender on the same CPU there are two wake-ups and a call each time.
    let calls = if config.by.is_some() { 3 } else { 1 };
    let cost_ns = (cost_of_a_wakeup() * calls).saturating_add(config.compute_ns);
    for cpu in config.threads.iter().collect::<std::collections::BTreeSet<_>>() {
        let here = config.threads.iter().enumerate().filter(|&(_, c)| c == cpu);
        let sum: u64 =
            here.map(|(i, _)| cost_ns.saturating_mul(1_000) / config.interval_of(i).max(1)).sum();
        // Threads that are not bound share all CPUs.
        let percent = sum / 10 / if cpu.is_some() { 1 } else { cpus.max(1) as u64 };
        if percent > SHARE_MAX {
            return Err(WakeupError::Share { interval_ns: config.interval_ns, cost_ns, percent });
        }
    }
    Ok(())
}

/// Median CPU time of a short sleep of the calling thread, ns.
fn cost_of_a_wakeup() -> u64 {
    let mut costs: Vec<u64> = (0..PROBES)
        .map(|_| {
            let before = os::thread_cpu_ns();
            os::sleep_until(os::now_ns() + 20_000);
            os::thread_cpu_ns().saturating_sub(before)
        })
        .collect();
    costs.sort_unstable();
    costs[costs.len() / 2]
}

/// What is held while it is measured; ends with the value.
#[derive(Default)]
pub struct PinnedSettings {
    /// Open: the kernel keeps the request until it is closed, even by SIGKILL.
    dma_latency: Option<File>,
    locked: bool,
    /// What is held (`wakeup.*-held`).
    pub settings: Vec<Note>,
    /// What was optional and was refused (`wakeup.*-not-held`).
    pub refused: Vec<Note>,
}

impl PinnedSettings {
    /// Locks memory and holds `/dev/cpu_dma_latency` as the configuration says.
    ///
    /// # Errors
    /// When it is not permitted.
    pub fn take(config: &WakeupConfig) -> Result<Self, WakeupError> {
        let mut held = Self::default();
        if let Some(us) = config.dma_latency_us {
            let path = "/dev/cpu_dma_latency";
            let us = i32::try_from(us).unwrap_or(i32::MAX);
            let opened = OpenOptions::new().write(true).open(path);
            match opened.and_then(|mut f| f.write_all(&us.to_ne_bytes()).map(|()| f)) {
                Ok(file) => {
                    held.dma_latency = Some(file);
                    held.settings.push(
                        Note::new("wakeup.dma-latency-held")
                            .value("path", path)
                            .value("latency", Quantity::Ns(f64::from(us) * 1e3)),
                    );
                }
                Err(source) if !config.dma_latency_optional => {
                    return Err(WakeupError::File { path: path.into(), source });
                }
                // A kernel without it has no idle states to leave out.
                Err(source) if source.kind() == std::io::ErrorKind::NotFound => {}
                Err(source) => held.refused.push(
                    Note::new("wakeup.dma-latency-not-held")
                        .value("path", path)
                        .value("error", source.to_string()),
                ),
            }
        }
        if config.lock_memory {
            os::lock_memory()
                .map_err(|source| WakeupError::Lock { limit: memlock_limit(), source })?;
            held.locked = true;
        }
        Ok(held)
    }
}

impl Drop for PinnedSettings {
    fn drop(&mut self) {
        if self.locked {
            os::unlock_memory();
        }
    }
}

fn memlock_limit() -> String {
    match rustix::process::getrlimit(rustix::process::Resource::Memlock).current {
        Some(bytes) => format!("{} KiB", bytes / 1024),
        None => "none".into(),
    }
}

/// `sched_rt_runtime_us` and `sched_rt_period_us`, where readable.
pub fn rt_throttling() -> Option<(i64, u64)> {
    let read = |name| std::fs::read_to_string(format!("/proc/sys/kernel/sched_rt_{name}_us")).ok();
    Some((read("runtime")?.trim().parse().ok()?, read("period")?.trim().parse().ok()?))
}

/// NUMA node of a CPU.
pub fn node_of(cpu: u32) -> Option<u32> {
    let entries = std::fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}")).ok()?;
    let names = entries.filter_map(|e| e.ok()?.file_name().into_string().ok());
    names.filter_map(|n| n.strip_prefix("node")?.parse().ok()).next()
}
