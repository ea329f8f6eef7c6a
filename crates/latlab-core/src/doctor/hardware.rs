//! Clocks, processors, memory: what a measurement can resolve, and what the hardware does to it.

use super::{Access, Facts, cannot_tell, count, good, in_the_way, note};
use crate::finding::{Confidence, Evidence, Finding};
use crate::machine::Machine;
use crate::units::format_ns;

/// Reading the clock costs this much before it shows in a measurement of microseconds.
const READ_DEAR_NS: u64 = 500;
/// A step of the clock up to here is fine for latencies.
const STEP_FINE_NS: u64 = 1_000;
/// Leaving an idle state takes this long before it shows.
const EXIT_LONG_US: u64 = 50;

pub fn judge(m: &Machine, f: &Facts, out: &mut Vec<Finding>) {
    out.extend([clock_step(m), clock_cost(m), high_resolution(m)]);
    out.extend([virtualization(m), governor(m), idle(m, f), smt(m, f)]);
    out.extend([mitigations(m), huge_pages(m), swap(f), counters(f)]);
}

fn clock_step(m: &Machine) -> Finding {
    let id = "clock.step";
    let step = m.clock.step_ns;
    let says = |verb: &str| format!("CLOCK_MONOTONIC {verb} {}.", format_ns(step as f64));
    match step {
        0 => cannot_tell(id, "The clock's step could not be measured."),
        1..STEP_FINE_NS => good(id, says("resolves")),
        STEP_FINE_NS..=99_999 => note(id, says("advances in steps of"))
            .because("Latencies are known to this step and no better."),
        _ => in_the_way(id, says("advances only every"))
            .because("No latency shorter than this step can be seen.")
            .attempt("choose another clock source: cat /sys/devices/system/clocksource/clocksource0/available_clocksource"),
    }
}

fn clock_cost(m: &Machine) -> Finding {
    let id = "clock.cost";
    let source = m.clock.source.as_deref().unwrap_or("an unknown clock source");
    let claim =
        format!("A read of the clock costs {} ({source}).", format_ns(m.clock.read_ns as f64));
    match m.clock.read_ns {
        0 => cannot_tell(id, "The cost of reading the clock could not be measured."),
        n if n <= READ_DEAR_NS => good(id, claim),
        _ => {
            let better = ["tsc", "arch_sys_counter"];
            let offered =
                m.clock.available.iter().find(|c| better.contains(&c.as_str()) && *c != source);
            let dear = "Each time stamp enters the kernel or a slow device; short operations are hidden in it.";
            match offered {
                Some(better) => in_the_way(id, claim).because(dear).attempt(format!(
                    "echo {better} > /sys/devices/system/clocksource/clocksource0/current_clocksource, if the kernel did not reject it as unstable (dmesg)"
                )),
                None => note(id, claim).because(dear),
            }
        }
    }
}

fn high_resolution(m: &Machine) -> Finding {
    let id = "clock.high-resolution";
    let resolution =
        Evidence::new("clock_getres(CLOCK_MONOTONIC)", format_ns(m.clock.resolution_ns as f64));
    match m.clock.high_resolution_timers {
        Some(true) => good(id, "Timers have high resolution."),
        Some(false) => in_the_way(id, "Timers have no high resolution: a sleep ends at a tick.")
            .because("A periodic task wakes up to a whole tick late, whatever its priority.")
            .with(resolution)
            .attempt("build the kernel with CONFIG_HIGH_RES_TIMERS=y")
            .attempt("remove highres=off and nohz=off from the kernel command line")
            .attempt("see dmesg for a clock source or clock event device that was rejected"),
        None => cannot_tell(id, "Whether timers have high resolution could not be read."),
    }
}

fn virtualization(m: &Machine) -> Finding {
    let id = "machine.virtualization";
    let containers = ["docker", "podman", "lxc", "kubernetes", "systemd-nspawn", "container"];
    match m.virtualization.as_deref() {
        Some(kind) if containers.contains(&kind) => {
            note(id, format!("This is a container ({kind})."))
                .because("The kernel is the host's: its settings are shared with others and may be out of reach.")
        }
        Some(kind) => in_the_way(id, format!("This is a virtual machine ({kind})."))
            .because("The hypervisor stops it when it likes, for milliseconds, and no priority in here helps; its kernel cannot see why.")
            .attempt("measure on bare metal, or pin the virtual CPUs and give them real-time priority on the host"),
        None => Finding { confidence: Confidence::Likely, ..good(id, "No sign of a hypervisor or a container.") },
    }
}

fn governor(m: &Machine) -> Finding {
    let id = "cpu.governor";
    let moving: Vec<String> = (m.cpu.governors.iter())
        .filter(|(_, g)| !matches!(g.as_str(), "performance" | "userspace"))
        .map(|(p, g)| format!("{p}: {g}"))
        .collect();
    if !moving.is_empty() {
        return in_the_way(id, format!("The frequency follows the load ({}).", moving.join(", ")))
            .because("A task that wakes on an idle CPU runs at its lowest frequency at first, and figures differ from run to run.")
            .attempt("for g in /sys/devices/system/cpu/cpufreq/policy*/scaling_governor; do echo performance > $g; done");
    }
    if !m.cpu.governors.is_empty() {
        return good(id, "The governors hold the frequency.");
    }
    match &m.virtualization {
        Some(_) => {
            cannot_tell(id, "No cpufreq in here: whether the frequency moves is the host's matter.")
        }
        None => good(id, "This kernel does not scale the frequency (no cpufreq)."),
    }
}

fn idle(m: &Machine, f: &Facts) -> Finding {
    let id = "cpu.idle";
    let enabled = m.cpu.idle_states.iter().filter(|s| !s.disabled);
    let Some(deepest) = enabled.max_by_key(|s| s.exit_us) else {
        return match &m.cpu.idle_driver {
            Some(d) => {
                good(id, format!("The idle driver ({d}) declares no state that is slow to leave."))
            }
            None if m.cpu.count == 0 => cannot_tell(id, "The idle states could not be read."),
            None => good(id, "No cpuidle: an idle CPU just waits for the next interrupt."),
        };
    };
    let says =
        format!("the deepest idle state, {}, takes {} µs to leave", deepest.name, deepest.exit_us);
    if m.virtualization.is_some() && m.cpu.idle_driver.as_deref() == Some("haltpoll") {
        return note(id, "An idle CPU is handed back to the hypervisor (haltpoll).")
            .because("Waking it up again costs what the host's scheduler and idle states cost; it cannot be seen from here.")
            .with(Evidence::new(deepest.name.clone(), format!("{} µs declared", deepest.exit_us)));
    }
    if deepest.exit_us < EXIT_LONG_US {
        return good(id, format!("Idle states are shallow: {says}."));
    }
    let finding = in_the_way(id, format!("Idle states are deep: {says}.")).because(
        "A wake-up on an idle CPU is late by that much; the busier the CPU, the better it looks.",
    );
    match f.dma_latency {
        Access::Allowed => finding.attempt(
            "hold /dev/cpu_dma_latency at 0 while measuring, and say so beside the figures",
        ),
        _ => finding.attempt("as root: hold /dev/cpu_dma_latency at 0, or boot with cpuidle.off=1"),
    }
}

fn smt(m: &Machine, f: &Facts) -> Finding {
    let id = "cpu.smt";
    match m.cpu.threads_per_core {
        Some(1) => good(id, "One thread a core: no CPU shares its core with another."),
        Some(n) => {
            let finding = in_the_way(id, format!("{n} CPUs share each core (SMT).")).because(
                "What runs on the sibling takes a part of the core that no priority gives back.",
            );
            match f.smt_control.as_deref() {
                Some("on") => finding.attempt("echo off > /sys/devices/system/cpu/smt/control"),
                _ => finding.attempt(
                    "keep the sibling of the measuring CPU idle, or switch SMT off in the firmware",
                ),
            }
        }
        None => cannot_tell(id, "The topology does not say whether CPUs share a core."),
    }
}

fn mitigations(m: &Machine) -> Finding {
    let id = "cpu.mitigations";
    if m.mitigations.is_empty() {
        return cannot_tell(id, "This kernel does not say which CPU vulnerabilities it mitigates.");
    }
    let active: Vec<&str> = (m.mitigations.iter())
        .filter(|(_, text)| text.starts_with("Mitigation"))
        .map(|(name, _)| name.as_str())
        .collect();
    if active.is_empty() {
        return good(id, "No mitigation of a CPU vulnerability slows the kernel down.");
    }
    let n = count(active.len(), "mitigation is", "mitigations are");
    note(id, format!("{n} active: {}.", active.join(", "))).because(
        "System calls, interrupts and switches cost more; compare only runs with the same set.",
    )
}

fn huge_pages(m: &Machine) -> Finding {
    let id = "memory.huge-pages";
    match m.thp.as_deref() {
        Some("always") => in_the_way(id, "Transparent huge pages are given to everybody.")
            .because("khugepaged and compaction take locks and time from tasks that never asked, and array timings depend on luck.")
            .attempt("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"),
        Some(word) => good(id, format!("Transparent huge pages only where they are asked for ({word}).")),
        None if m.memory_bytes.is_none() => cannot_tell(id, "Whether there are transparent huge pages could not be read."),
        None => good(id, "No transparent huge pages."),
    }
}

fn swap(f: &Facts) -> Finding {
    let id = "memory.swap";
    match (f.swap_bytes, f.swap_used_bytes) {
        (None, _) => cannot_tell(id, "Whether there is swap could not be read."),
        (Some(0), _) => good(id, "No swap."),
        (Some(_), Some(used)) if used > 0 => {
            in_the_way(id, format!("Swap is in use ({} MiB).", used >> 20))
                .because("A page that has to come back from the disk is milliseconds late.")
                .attempt("swapoff -a")
                .attempt("lock the task's memory (mlockall, -m)")
        }
        _ => note(id, "There is swap, and none of it is in use.")
            .because("Lock the memory of what must be on time (mlockall, -m)."),
    }
}

fn counters(f: &Facts) -> Finding {
    let id = "cpu.counters";
    match f.hardware_counters {
        Some(true) if f.uid != 0 && f.perf_paranoid.is_some_and(|p| p > 2) => {
            note(id, "Hardware counters are there, and not for this user.")
                .attempt("sysctl kernel.perf_event_paranoid=1")
        }
        Some(true) => good(id, "Hardware counters are there (PMU)."),
        Some(false) => {
            note(id, "No hardware counters: instructions and cache misses cannot be counted.")
                .because("Figures are times alone; what caused them is concluded from their shape.")
        }
        None => cannot_tell(id, "Whether there are hardware counters could not be read."),
    }
}
