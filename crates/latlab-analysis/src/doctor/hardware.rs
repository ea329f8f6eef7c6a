//! Clocks, processors, memory: resolution of a measurement, hardware influence.

use super::build::{inconclusive, info, kernel_option, ok, problem, warning};
use latlab_model::doctor::{Access, Facts};
use latlab_model::finding::{Confidence, Evidence, Finding, Note, Quantity};
use latlab_model::machine::Machine;

/// A clock read above this cost shows in a measurement of microseconds.
const EXPENSIVE_READ_NS: u64 = 500;
/// A clock step below this is fine for latencies.
const FINE_STEP_NS: u64 = 1_000;
/// A clock step from here on hides latencies.
const COARSE_STEP_NS: u64 = 100_000;
/// An exit latency of an idle state from here on shows in a wake-up latency.
const LONG_EXIT_US: u64 = 50;

pub fn judge(m: &Machine, f: &Facts, out: &mut Vec<Finding>) {
    out.extend([clock_step(m), clock_cost(m), high_resolution(m)]);
    out.extend([virtualization(m), governor(m), idle(m, f), smt(m, f)]);
    out.extend([mitigations(m), huge_pages(m), swap(f), counters(f)]);
}

fn clock_step(m: &Machine) -> Finding {
    let id = "clock.step";
    let finding = match m.clock.step_ns {
        0 => return inconclusive(id),
        1..FINE_STEP_NS => ok(id),
        FINE_STEP_NS..COARSE_STEP_NS => warning(id),
        _ => problem(id).remedy(Note::new("remedy.clock-source")),
    };
    finding.value("step", Quantity::Ns(m.clock.step_ns as f64))
}

fn clock_cost(m: &Machine) -> Finding {
    let id = "clock.cost";
    let source = m.clock.source.as_deref();
    let finding = match m.clock.read_ns {
        0 => return inconclusive(id),
        1..=EXPENSIVE_READ_NS => ok(id),
        _ => {
            let cheap = |c: &&String| matches!(c.as_str(), "tsc" | "arch_sys_counter");
            let offered =
                m.clock.available.iter().filter(cheap).find(|c| Some(c.as_str()) != source);
            let finding = warning(id).value("expensive", true);
            match offered {
                Some(better) => {
                    finding.remedy(Note::new("remedy.clock-source").value("source", better))
                }
                None => finding,
            }
        }
    };
    finding.value("cost", Quantity::Ns(m.clock.read_ns as f64)).value_if("source", source)
}

fn high_resolution(m: &Machine) -> Finding {
    let id = "clock.high-resolution";
    let resolution = Quantity::Ns(m.clock.resolution_ns as f64);
    match m.clock.high_resolution_timers {
        Some(true) => ok(id).value("high_resolution", true),
        Some(false) => problem(id)
            .value("high_resolution", false)
            .with(Evidence::new("clock_getres(CLOCK_MONOTONIC)", resolution))
            .remedy(kernel_option("CONFIG_HIGH_RES_TIMERS", "CONFIG_HIGH_RES_TIMERS=y"))
            .remedy(Note::new("remedy.highres-boot-parameters"))
            .remedy(Note::new("remedy.rejected-clock")),
        None => inconclusive(id),
    }
}

fn virtualization(m: &Machine) -> Finding {
    let id = "machine.virtualization";
    let containers = ["docker", "podman", "lxc", "kubernetes", "systemd-nspawn", "container"];
    match m.virtualization.as_deref() {
        Some(kind) if containers.contains(&kind) => {
            info(id).value("kind", kind).value("container", true)
        }
        Some(kind) => warning(id).value("kind", kind).remedy(Note::new("remedy.bare-metal")),
        None => Finding { confidence: Confidence::Medium, ..ok(id) },
    }
}

fn governor(m: &Machine) -> Finding {
    let id = "cpu.governor";
    let of = |moving: bool| -> Vec<(&String, &String)> {
        let is_moving = |g: &str| !matches!(g, "performance" | "userspace");
        m.cpu.governors.iter().filter(|(_, g)| is_moving(g) == moving).collect()
    };
    let names = |of: &[(&String, &String)]| {
        let names: std::collections::BTreeSet<&String> = of.iter().map(|(_, g)| *g).collect();
        names.into_iter().cloned().collect::<Vec<String>>()
    };
    let moving = of(true);
    if !moving.is_empty() {
        let mut finding = warning(id).value("scaling", true).value("governors", names(&moving));
        for (policy, governor) in moving {
            finding = finding.with(Evidence::new(policy, governor));
        }
        return finding.remedy(Note::new("remedy.performance-governor"));
    }
    if !m.cpu.governors.is_empty() {
        return ok(id).value("scaling", false).value("governors", names(&of(false)));
    }
    match m.virtualization {
        Some(_) => inconclusive(id),
        None => ok(id).value("scaling", false),
    }
}

fn idle(m: &Machine, f: &Facts) -> Finding {
    let id = "cpu.idle";
    let driver = m.cpu.idle_driver.as_deref();
    let enabled = m.cpu.idle_states.iter().filter(|s| !s.disabled);
    let Some(deepest) = enabled.max_by_key(|s| s.exit_us) else {
        return match driver {
            Some(driver) => ok(id).value("driver", driver),
            None if m.cpu.count == 0 => inconclusive(id),
            None => ok(id).value("cpuidle", false),
        };
    };
    let exit = Quantity::Ns(deepest.exit_us as f64 * 1e3);
    let with_state = |f: Finding| f.value("state", &deepest.name).value("exit", exit);
    if m.virtualization.is_some() && driver == Some("haltpoll") {
        return with_state(info(id)).value("driver", "haltpoll");
    }
    if deepest.exit_us < LONG_EXIT_US {
        return with_state(ok(id));
    }
    let remedy = Note::new("remedy.dma-latency").value("root", f.dma_latency != Access::Allowed);
    with_state(warning(id)).value("deep", true).remedy(remedy)
}

fn smt(m: &Machine, f: &Facts) -> Finding {
    let id = "cpu.smt";
    let threads = |n: u32| Quantity::Count(u64::from(n));
    match m.cpu.threads_per_core {
        Some(1) => ok(id).value("threads", threads(1)),
        Some(n) => warning(id).value("threads", threads(n)).remedy(Note::new(
            match f.smt_control.as_deref() {
                Some("on") => "remedy.smt-off",
                _ => "remedy.smt-sibling-idle",
            },
        )),
        None => inconclusive(id),
    }
}

fn mitigations(m: &Machine) -> Finding {
    let id = "cpu.mitigations";
    if m.mitigations.is_empty() {
        return inconclusive(id);
    }
    let active = m.mitigations.iter().filter(|(_, text)| text.starts_with("Mitigation"));
    let active: Vec<&str> = active.map(|(name, _)| name.as_str()).collect();
    let finding = if active.is_empty() { ok(id) } else { info(id) };
    finding.value("active", active)
}

fn huge_pages(m: &Machine) -> Finding {
    let id = "memory.huge-pages";
    match m.thp.as_deref() {
        Some("always") => {
            warning(id).value("mode", "always").remedy(Note::new("remedy.thp-madvise"))
        }
        Some(mode) => ok(id).value("mode", mode),
        None if m.memory_bytes.is_none() => inconclusive(id),
        None => ok(id).value("supported", false),
    }
}

fn swap(f: &Facts) -> Finding {
    let id = "memory.swap";
    let Some(size) = f.swap_bytes else { return inconclusive(id) };
    let used = f.swap_used_bytes.unwrap_or(0);
    let finding = match (size, used) {
        (0, _) => ok(id),
        (_, 0) => info(id).remedy(Note::new("remedy.lock-memory")),
        _ => {
            warning(id).remedy(Note::new("remedy.swapoff")).remedy(Note::new("remedy.lock-memory"))
        }
    };
    finding.value("size", Quantity::Bytes(size)).value("used", Quantity::Bytes(used))
}

fn counters(f: &Facts) -> Finding {
    let id = "cpu.counters";
    match f.hardware_counters {
        Some(true) if f.uid != 0 && f.perf_paranoid.is_some_and(|p| p > 2) => info(id)
            .value("available", true)
            .value("restricted", true)
            .remedy(Note::new("remedy.perf-event-paranoid")),
        Some(true) => ok(id).value("available", true),
        Some(false) => info(id).value("available", false),
        None => inconclusive(id),
    }
}
