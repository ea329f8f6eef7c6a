//! Present interference: load, steal time, interruptions, interrupts, temperature, stale settings.

use super::build::{inconclusive, info, ok, problem, warning};
use latlab_model::cpulist;
use latlab_model::doctor::Facts;
use latlab_model::finding::{Confidence, Evidence, Finding, Note, Quantity, Value};
use latlab_model::machine::Machine;

/// Other tasks may use this share of the CPUs before it shows.
const BUSY_SHARE: f64 = 0.05;
/// A steal of a thousandth is a millisecond a second.
const STEAL_SHARE: f64 = 0.001;
/// An interruption of this length is more than interrupts and a tick.
const INTERRUPTION_NS: u64 = 100_000;
/// Processors begin to slow down about here (millidegrees Celsius).
const HOT_MC: i64 = 85_000;

pub fn judge(m: &Machine, f: &Facts, out: &mut Vec<Finding>) {
    out.extend([load(m, f), steal(m, f), interruptions(f), interrupts(m, f)]);
    out.extend(heat(m));
    out.extend(settings(f));
}

fn load(m: &Machine, f: &Facts) -> Finding {
    let id = "noise.load";
    let Some(busy) = f.window.busy else { return inconclusive(id) };
    if busy < BUSY_SHARE {
        return ok(id).value("busy", Quantity::Ratio(busy));
    }
    let finding = warning(id).value("busy", Quantity::Ratio(busy));
    let finding = match m.start.load {
        Some([one, five, _]) => finding
            .with(Evidence::new("load-average-1min", Quantity::Number(one)))
            .with(Evidence::new("load-average-5min", Quantity::Number(five))),
        None => finding,
    };
    finding.remedy(Note::new("remedy.check-load"))
}

fn steal(m: &Machine, f: &Facts) -> Finding {
    let id = "noise.steal";
    let (Some(steal), 1..) = (f.window.steal_ns, f.window.length_ns) else {
        return inconclusive(id);
    };
    let cpus = f64::from(m.cpu.count.max(1));
    let share = steal as f64 / (f.window.length_ns as f64 * cpus);
    let boot = m.start.steal_ns.unwrap_or(0);
    let finding = match (boot, m.virtualization.is_some()) {
        _ if share > STEAL_SHARE => problem(id),
        (0, false) => ok(id),
        (0, true) => info(id).value("virtualized", true),
        _ => info(id),
    };
    finding
        .value("stolen", Quantity::Ns(steal as f64))
        .value("window", Quantity::Ns(f.window.length_ns as f64))
        .value("share", Quantity::Ratio(share))
        .with(Evidence::new("steal-since-boot", Quantity::Ns(boot as f64)).from("/proc/stat"))
}

fn interruptions(f: &Facts) -> Finding {
    let id = "noise.gaps";
    let Some((cpu, worst)) = f.window.gap_ns_max.iter().max_by_key(|(_, ns)| *ns) else {
        return inconclusive(id);
    };
    let mut finding = match *worst < INTERRUPTION_NS {
        true => ok(id),
        false => Finding { confidence: Confidence::Medium, ..problem(id) }.value("long", true),
    }
    .value("longest", Quantity::Ns(*worst as f64))
    .value("cpu", Quantity::Cpu(*cpu))
    .value("window", Quantity::Ns(f.window.length_ns as f64));
    if *worst < INTERRUPTION_NS {
        return finding;
    }
    for (cpu, ns) in &f.window.gap_ns_max {
        let value: Vec<Value> = vec![Quantity::Cpu(*cpu).into(), Quantity::Ns(*ns as f64).into()];
        finding = finding.with(Evidence::new("longest-interruption", value));
    }
    finding.remedy(Note::new("remedy.longer-noise-measurement"))
}

fn interrupts(m: &Machine, f: &Facts) -> Finding {
    let id = "noise.interrupts";
    if m.cpu.count <= 1 {
        return info(id).value("single_cpu", true);
    }
    if !f.interfering_services.is_empty() {
        let services = f.interfering_services.clone();
        return warning(id)
            .value("services", services.clone())
            .remedy(Note::new("remedy.stop-services").value("services", services));
    }
    if m.irq_affinity.is_empty() {
        return inconclusive(id);
    }
    let isolated = cpulist::parse(&m.rt.isolated).unwrap_or_default();
    let mut per_cpu = std::collections::BTreeMap::<u32, usize>::new();
    for list in m.irq_affinity.values() {
        for cpu in cpulist::parse(list).unwrap_or_default() {
            *per_cpu.entry(cpu).or_default() += 1;
        }
    }
    let on_isolated: usize = isolated.iter().filter_map(|c| per_cpu.get(c)).sum();
    if !isolated.is_empty() && on_isolated == 0 {
        return ok(id).value("spared", &m.rt.isolated);
    }
    let online = cpulist::parse(&m.cpu.online).unwrap_or_default();
    let free: Vec<u32> = online.into_iter().filter(|c| !per_cpu.contains_key(c)).collect();
    if !free.is_empty() {
        return ok(id).value("spared", cpulist::format(&free));
    }
    let finding = match isolated.is_empty() {
        true => info(id),
        false => warning(id).value("isolated", &m.rt.isolated),
    };
    finding
        .value("lines", Quantity::Count(m.irq_affinity.len() as u64))
        .remedy(Note::new("remedy.irq-affinity"))
}

fn heat(m: &Machine) -> Option<Finding> {
    let (zone, mc) = m.start.temperature_mc.iter().max_by_key(|(_, mc)| **mc)?;
    let id = "noise.heat";
    let finding = match *mc < HOT_MC {
        true => ok(id),
        false => warning(id).value("hot", true).remedy(Note::new("remedy.cooling")),
    };
    Some(finding.value("zone", zone).value("temperature", Quantity::Celsius(*mc as f64 / 1000.0)))
}

fn settings(f: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !f.settings.left.is_empty() {
        findings.push(
            warning("settings.left")
                .value("settings", f.settings.left.clone())
                .remedy(Note::new("remedy.restore-settings")),
        );
    }
    if !f.settings.held.is_empty() {
        findings.push(info("settings.held").value("settings", f.settings.held.clone()));
    }
    if let Some(reason) = &f.settings.unreadable {
        findings.push(inconclusive("settings.journal").value("reason", reason));
    }
    findings
}
