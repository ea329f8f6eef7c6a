//! What disturbs a measurement now: load, steal, stalls, interrupts, heat, settings left behind.

use super::{Facts, cannot_tell, count, good, in_the_way, note};
use crate::cpulist;
use crate::finding::{Confidence, Evidence, Finding};
use crate::machine::Machine;
use crate::units::format_ns;

/// Others may use this share of the CPUs before it shows.
const BUSY_SHARE: f64 = 0.05;
/// A steal of a thousandth is a millisecond a second.
const STEAL_SHARE: f64 = 0.001;
/// A busy loop that is away this long was away for more than interrupts and a tick.
const GAP_NS: u64 = 100_000;
/// Processors begin to slow down about here.
const HOT_MC: i64 = 85_000;

pub fn judge(m: &Machine, f: &Facts, out: &mut Vec<Finding>) {
    out.extend([load(m, f), steal(m, f), gaps(f), interrupts(m, f)]);
    out.extend(heat(m));
    out.extend(knobs(f));
}

fn load(m: &Machine, f: &Facts) -> Finding {
    let id = "noise.load";
    let average = m.start.load.map(|[one, five, _]| {
        Evidence::new("load average", format!("{one:.2} (1 min), {five:.2} (5 min)"))
    });
    let with = |finding: Finding| match &average {
        Some(e) => finding.with(e.clone()),
        None => finding,
    };
    match f.window.busy {
        None => cannot_tell(id, "What others do with the CPUs could not be read."),
        Some(share) if share < BUSY_SHARE => {
            good(id, format!("The CPUs are idle ({:.1} % used by others).", share * 100.0))
        }
        Some(share) => {
            with(in_the_way(id, format!("Others use {:.0} % of the CPUs' time.", share * 100.0)))
                .because("What is measured now is measured under that load, whatever it is.")
                .attempt("look with top; wait, or measure on a machine that is yours alone")
        }
    }
}

fn steal(m: &Machine, f: &Facts) -> Finding {
    let id = "noise.steal";
    let (Some(steal), 1..) = (f.window.steal_ns, f.window.length_ns) else {
        return cannot_tell(id, "Whether the hypervisor takes time away could not be read.");
    };
    let cpus = f64::from(m.cpu.count.max(1));
    let share = steal as f64 / (f.window.length_ns as f64 * cpus);
    let boot = m.start.steal_ns.unwrap_or(0);
    let since_boot = Evidence::new("steal since boot", format_ns(boot as f64)).from("/proc/stat");
    if share > STEAL_SHARE {
        return in_the_way(
            id,
            format!(
                "The hypervisor took {:.1} % of the CPUs' time away ({} in {}).",
                share * 100.0,
                format_ns(steal as f64),
                format_ns(f.window.length_ns as f64)
            ),
        )
        .because("Nothing inside the virtual machine can be on time while it does not run.")
        .with(since_boot);
    }
    match boot {
        0 if m.virtualization.is_none() => good(id, "No time is taken away by a hypervisor."),
        0 => note(
            id,
            "The hypervisor reports no steal time, which need not mean that it takes none.",
        ),
        _ => note(
            id,
            format!(
                "No steal in a window of {}; there was some since boot.",
                format_ns(f.window.length_ns as f64)
            ),
        )
        .with(since_boot),
    }
}

fn gaps(f: &Facts) -> Finding {
    let id = "noise.gaps";
    let Some((cpu, worst)) = f.window.gap_ns_max.iter().max_by_key(|(_, ns)| *ns) else {
        return cannot_tell(id, "No loop could run to see how long it is interrupted.");
    };
    let claim = format!(
        "A busy loop was away for {} at most, on CPU {cpu}, in {}.",
        format_ns(*worst as f64),
        format_ns(f.window.length_ns as f64)
    );
    if *worst < GAP_NS {
        return good(id, claim);
    }
    let mut finding = Finding { confidence: Confidence::Likely, ..in_the_way(id, claim) }
        .because("Other tasks, interrupts, or a stall of the whole machine: a task that must be on time meets the same, its priority helps against the first only.");
    for (cpu, ns) in &f.window.gap_ns_max {
        finding = finding.with(Evidence::new(format!("CPU {cpu}"), format_ns(*ns as f64)));
    }
    finding.attempt("latlab survey looks longer; the tracer hwlat tells stalls from tasks, where the kernel has it")
}

fn interrupts(m: &Machine, f: &Facts) -> Finding {
    let id = "noise.interrupts";
    if m.cpu.count <= 1 {
        return note(id, "One CPU takes every interrupt.");
    }
    if !f.meddlers.is_empty() {
        return in_the_way(id, format!("{} runs, and changes settings while others measure.", f.meddlers.join(", ")))
            .because("Interrupts move from CPU to CPU, or frequencies and priorities change, in the middle of a run.")
            .attempt(format!("systemctl stop {}", f.meddlers.join(" ")));
    }
    if m.irq_affinity.is_empty() {
        return cannot_tell(id, "Which CPUs take interrupts could not be read.");
    }
    let isolated = cpulist::parse(&m.rt.isolated).unwrap_or_default();
    let mut per_cpu = std::collections::BTreeMap::<u32, usize>::new();
    for list in m.irq_affinity.values() {
        for cpu in cpulist::parse(list).unwrap_or_default() {
            *per_cpu.entry(cpu).or_default() += 1;
        }
    }
    let on_isolated: usize = isolated.iter().filter_map(|c| per_cpu.get(c)).sum();
    let irqs = count(m.irq_affinity.len(), "interrupt line", "interrupt lines");
    if !isolated.is_empty() && on_isolated == 0 {
        return good(
            id,
            format!("No interrupt may go to CPU {}, which is set apart.", m.rt.isolated),
        );
    }
    let free: Vec<u32> = cpulist::parse(&m.cpu.online)
        .unwrap_or_default()
        .into_iter()
        .filter(|c| !per_cpu.contains_key(c))
        .collect();
    if !free.is_empty() {
        return good(id, format!("No interrupt line may go to CPU {}.", cpulist::format(&free)));
    }
    let finding = if isolated.is_empty() {
        note(id, format!("{irqs} may go to any CPU; none is spared."))
    } else {
        in_the_way(
            id,
            format!("Interrupts may go to CPU {}, which is set apart for others.", m.rt.isolated),
        )
    };
    finding
        .because("A handler runs before any task, whatever its priority (on PREEMPT_RT: before those of lower priority than its thread).")
        .attempt("boot with irqaffinity=0, or write the other CPUs to /proc/irq/*/smp_affinity_list, and measure on the spared CPU (-a)")
}

fn heat(m: &Machine) -> Option<Finding> {
    let (zone, mc) = m.start.temperature_mc.iter().max_by_key(|(_, mc)| **mc)?;
    let claim = format!("{zone} is at {:.0} °C.", *mc as f64 / 1000.0);
    let id = "noise.heat";
    Some(if *mc < HOT_MC {
        good(id, claim)
    } else {
        in_the_way(id, claim)
            .because(
                "Processors slow down when they are hot; the same run is slower than an hour ago.",
            )
            .attempt("cool it, or let it rest before each run")
    })
}

fn knobs(f: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !f.knobs.left.is_empty() {
        findings.push(
            in_the_way(
                "knobs.left",
                format!(
                    "A latlab that was killed has left {} turned: {}.",
                    count(f.knobs.left.len(), "setting", "settings"),
                    f.knobs.left.join(", ")
                ),
            )
            .because("The machine is not as its owner set it up.")
            .attempt("latlab doctor --restore"),
        );
    }
    if !f.knobs.held.is_empty() {
        findings.push(
            note("knobs.held", format!("A running latlab holds {}.", f.knobs.held.join(", ")))
                .because("They are put back when it ends; until then the machine is not as its owner set it up."),
        );
    }
    if let Some(reason) = &f.knobs.unreadable {
        findings.push(cannot_tell(
            "knobs.journal",
            format!("The journal of knobs was not read: {reason}."),
        ));
    }
    findings
}
