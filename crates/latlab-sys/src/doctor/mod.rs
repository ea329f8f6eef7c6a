//! The doctor's facts: everything that is looked at beside the machine's description.
//!
//! It looks and does not touch: no tracer is tried, nothing is mounted, no setting
//! is turned. The only trials are a thread of its own that asks for
//! SCHED_FIFO, and a busy loop of a second that sees how long it is interrupted.
//! What this user cannot read is in [`Facts::unreadable`].

mod tasks;
mod tracing;

use crate::files::{Root, field};
use crate::settings::{self, Place};
use crate::{cgroup, clock, gaps, machine};
use latlab_model::doctor::{Access, Facts, JournalledSettings, Trial, Window};
use latlab_model::finding::Note;
use std::time::Duration;

/// Programs that change settings or move interrupts while others measure.
const INTERFERING: [&str; 6] =
    ["irqbalance", "tuned", "thermald", "auto-cpufreq", "power-profiles-", "ondemand"];

/// Looks at this machine; takes about `window`.
pub fn look(window: Duration) -> Facts {
    let root = Root::here();
    let mut facts = look_at(&root);
    facts.fifo = try_fifo();
    facts.settings = settings_of(&Place::default());
    facts.window = watch(&root, window);
    facts
}

/// Looks at a tree: what files tell.
pub fn look_at(root: &Root) -> Facts {
    let uid = rustix::process::geteuid().as_raw();
    let mut unreadable = Vec::new();
    let tasks = tasks::real_time(root);
    if tasks.hidden {
        unreadable.push(Note::new("doctor.hidden-tasks"));
    }
    let memory = root.text("proc/meminfo").unwrap_or_default();
    let kilobytes = |key: &str| {
        let number = field(&memory, key)?.split_whitespace().next()?;
        number.parse::<u64>().ok().map(|kb| kb.saturating_mul(1024))
    };
    let swap = kilobytes("SwapTotal");
    let tracing = tracing::look(root, &mut unreadable);
    if uid != 0 {
        unreadable.push(Note::new("doctor.root-only"));
    }
    Facts {
        uid,
        fifo: Trial::NotTried,
        cgroup_rt_runtime_us: cgroup::rt_runtime_us(root),
        rt_tasks: tasks.user,
        rt_kernel_threads: tasks.kernel,
        co_kernel: co_kernel(root),
        tracing,
        smt_control: root.word("sys/devices/system/cpu/smt/control"),
        swap_bytes: swap,
        swap_used_bytes: swap
            .zip(kilobytes("SwapFree"))
            .map(|(all, free)| all.saturating_sub(free)),
        hardware_counters: counters(root),
        perf_paranoid: root.number("proc/sys/kernel/perf_event_paranoid"),
        dma_latency: writable(root, "dev/cpu_dma_latency"),
        interfering_services: interfering_services(root),
        window: Window::default(),
        settings: JournalledSettings::default(),
        unreadable,
    }
}

/// Xenomai 3 tells the version of its core Cobalt in `/proc/xenomai/version`; EVL (Xenomai 4) has devices in `/dev/evl`.
fn co_kernel(root: &Root) -> Option<String> {
    if let Some(version) = root.word("proc/xenomai/version") {
        return Some(format!("Xenomai Cobalt {version}"));
    }
    root.exists("dev/evl/control").then(|| "EVL".to_owned())
}

/// Whether a thread of this process may have a real-time policy. The thread ends with the trial.
fn try_fifo() -> Trial {
    let trial = std::thread::spawn(|| {
        crate::policy::set(
            latlab_model::wakeup::config::Policy::Fifo,
            1,
            crate::policy::Budget::default(),
        )
    });
    match trial.join() {
        Ok(Ok(())) => Trial::Worked,
        Ok(Err(e)) => Trial::Refused(e.to_string()),
        Err(_) => Trial::NotTried,
    }
}

fn settings_of(place: &Place) -> JournalledSettings {
    match settings::survey(place) {
        Ok(found) => JournalledSettings {
            left: found.left.iter().map(|p| p.display().to_string()).collect(),
            held: found
                .alive
                .iter()
                .flat_map(|h| {
                    h.paths.iter().map(move |p| format!("{} (process {})", p.display(), h.pid))
                })
                .collect(),
            unreadable: found
                .refused
                .first()
                .map(|(path, reason)| format!("{}: {reason}", path.display())),
        },
        Err(e) => {
            JournalledSettings { unreadable: Some(e.to_string()), ..JournalledSettings::default() }
        }
    }
}

/// First what others do while nothing is looked for, then a busy loop on every CPU.
fn watch(root: &Root, window: Duration) -> Window {
    if window.is_zero() {
        return Window::default();
    }
    let (steal, start) = (machine::steal_ns(root), clock::now());
    let before = cpu_times(root);
    sleep(window / 2);
    let after = cpu_times(root);
    let seen = gaps::measure(window / 2);
    let busy = before.zip(after).and_then(|(b, a)| {
        let all = a.all.checked_sub(b.all).filter(|&n| n > 0)?;
        let idle = a.idle.saturating_sub(b.idle).min(all);
        Some((all - idle) as f64 / all as f64)
    });
    let gap_ns_max: Vec<(u32, u64)> =
        (seen.iter()).filter_map(|c| Some((u32::try_from(c.cpu).ok()?, c.gaps.max))).collect();
    Window {
        length_ns: clock::now().since(start).0,
        steal_ns: steal.zip(machine::steal_ns(root)).map(|(b, a)| a.saturating_sub(b)),
        gap_ns_max,
        busy,
    }
}

/// Sleeps in pieces, so that a signal ends it.
fn sleep(length: Duration) {
    let end = clock::now()
        + latlab_model::units::Nanos(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX));
    while clock::now() < end && crate::signal::stop_requested().is_none() {
        std::thread::sleep(Duration::from_millis(20).min(length));
    }
}

struct CpuTimes {
    all: u64,
    idle: u64,
}

/// The first line of `/proc/stat` in clock ticks: all time, and what was idle or waited for a device.
fn cpu_times(root: &Root) -> Option<CpuTimes> {
    let stat = root.text("proc/stat")?;
    let line = stat.lines().find(|l| l.starts_with("cpu "))?;
    // user nice system idle iowait irq softirq steal; guest time is in user time already.
    let n: Vec<u64> =
        line.split_whitespace().skip(1).take(8).map_while(|w| w.parse().ok()).collect();
    Some(CpuTimes { all: n.iter().sum(), idle: n.get(3)? + n.get(4)? })
}

/// Whether this user may write to a file; it is opened and not written to.
pub(crate) fn writable(root: &Root, path: &str) -> Access {
    use std::io::ErrorKind;
    match std::fs::OpenOptions::new().write(true).open(root.path(path)) {
        Ok(_) => Access::Allowed,
        Err(e) if e.kind() == ErrorKind::NotFound => Access::Absent,
        Err(_) => Access::Denied,
    }
}

/// The processor's own PMU among perf's devices: `cpu`, `cpu_core` on x86, `armv7_cortex_a8`, `armv8_pmuv3`…
fn counters(root: &Root) -> Option<bool> {
    let dir = "sys/bus/event_source/devices";
    root.exists(dir).then(|| {
        root.names(dir)
            .iter()
            .any(|n| n.starts_with("cpu") || n.starts_with("arm") || n.starts_with("riscv"))
    })
}

fn interfering_services(root: &Root) -> Vec<String> {
    let mut found: Vec<String> = (root.numbered("proc", "").into_iter())
        .filter_map(|(_, pid)| root.word(&format!("proc/{pid}/comm")))
        .filter(|name| INTERFERING.iter().any(|m| name.starts_with(m)))
        .collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_core_beside_linux_is_recognized() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        assert_eq!(co_kernel(&root), None);
        fs::create_dir_all(dir.path().join("dev/evl")).unwrap();
        fs::write(dir.path().join("dev/evl/control"), "").unwrap();
        assert_eq!(co_kernel(&root).as_deref(), Some("EVL"));
        fs::create_dir_all(dir.path().join("proc/xenomai")).unwrap();
        fs::write(dir.path().join("proc/xenomai/version"), "3.2.4\n").unwrap();
        assert_eq!(co_kernel(&root).as_deref(), Some("Xenomai Cobalt 3.2.4"));
    }
}
