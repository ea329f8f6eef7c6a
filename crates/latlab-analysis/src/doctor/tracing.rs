//! Tracing features: tracefs, tracers, events, lockdown, kernel configuration.

use super::build::{inconclusive, info, kernel_option, ok, problem, warning};
use latlab_model::doctor::{Access, Facts, Tracing};
use latlab_model::finding::{Confidence, Evidence, Finding, Note, Quantity};
use latlab_model::kconfig;
use latlab_model::kconfig::{KernelOption, Purpose, State, Weight};
use latlab_model::machine::Machine;

/// The tracers of use for latencies, and the options that build them.
const TRACERS: &[(&str, &str)] = &[
    ("function_graph", "CONFIG_FUNCTION_GRAPH_TRACER"),
    ("function", "CONFIG_FUNCTION_TRACER"),
    ("irqsoff", "CONFIG_IRQSOFF_TRACER"),
    ("preemptoff", "CONFIG_PREEMPT_TRACER"),
    ("wakeup_rt", "CONFIG_SCHED_TRACER"),
    ("hwlat", "CONFIG_HWLAT_TRACER"),
    ("osnoise", "CONFIG_OSNOISE_TRACER"),
    ("timerlat", "CONFIG_TIMERLAT_TRACER"),
];

/// Features of [`Tracing::features`], and the options that build them.
const FEATURES: &[(&str, &str)] = &[
    ("hist triggers", "CONFIG_HIST_TRIGGERS"),
    ("synthetic events", "CONFIG_SYNTH_EVENTS"),
    ("kprobe events", "CONFIG_KPROBE_EVENTS"),
    ("uprobe events", "CONFIG_UPROBE_EVENTS"),
    ("snapshot", "CONFIG_TRACER_SNAPSHOT"),
    ("system call events", "CONFIG_FTRACE_SYSCALLS"),
];

pub fn judge(m: &Machine, f: &Facts, out: &mut Vec<Finding>) {
    let t = &f.tracing;
    out.push(tracefs(f));
    if t.read == Access::Allowed {
        out.extend([events(t), tracers(m, t), features(m, t), in_use(t)]);
    }
    out.push(lockdown(m, f));
    // Where the tracers could be listed, those that are missing are named already.
    out.extend(config(m, t.tracers.is_some()));
}

fn ftrace() -> Note {
    kernel_option("CONFIG_FTRACE", "CONFIG_FTRACE=y")
}

fn tracefs(f: &Facts) -> Finding {
    let id = "trace.tracefs";
    let t = &f.tracing;
    let access = || Note::new("remedy.tracefs-access");
    match (&t.mount, t.read, t.write) {
        (Some(at), Access::Allowed, Access::Allowed) => {
            ok(id).value("mount", at).value("access", "read-write")
        }
        (Some(at), Access::Allowed, _) => {
            problem(id).value("mount", at).value("access", "read-only").remedy(access())
        }
        (Some(at), _, _) => problem(id).value("mount", at).value("access", "none").remedy(access()),
        (None, _, _) => match t.supported {
            Some(true) => {
                problem(id).value("supported", true).remedy(Note::new("remedy.tracefs-mount"))
            }
            Some(false) => problem(id)
                .value("supported", false)
                .remedy(ftrace())
                .remedy(Note::new("remedy.kernel-fragment")),
            None => inconclusive(id),
        },
    }
}

fn events(t: &Tracing) -> Finding {
    let id = "trace.events";
    let Some(n) = t.events else { return inconclusive(id) };
    let finding = if n == 0 { problem(id).remedy(ftrace()) } else { ok(id) };
    finding.value("events", Quantity::Count(u64::from(n)))
}

fn is_built_in(m: &Machine, option: &str) -> bool {
    m.kernel.config.get(option).is_some_and(|v| v == "y")
}

fn tracers(m: &Machine, t: &Tracing) -> Finding {
    let id = "trace.tracers";
    let Some(available) = &t.tracers else { return inconclusive(id) };
    let has = |name: &str| available.iter().any(|t| t == name);
    let missing: Vec<_> = TRACERS.iter().filter(|(name, _)| !has(name)).collect();
    let names: Vec<String> = available.iter().filter(|t| *t != "nop").cloned().collect();
    if missing.is_empty() {
        return ok(id).value("available", names);
    }
    let list: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    let mut finding = warning(id)
        .value("missing", list)
        .with(Evidence::new("available_tracers", available.clone()));
    for (name, option) in missing {
        finding = finding.remedy(
            Note::new("remedy.tracer")
                .value("tracer", *name)
                .value("option", *option)
                .value("built_in", is_built_in(m, option)),
        );
    }
    finding
}

fn features(m: &Machine, t: &Tracing) -> Finding {
    let id = "trace.features";
    let names = |available: bool| -> Vec<&str> {
        let is = |name: &&str| t.features.get(*name).copied() == Some(available);
        FEATURES.iter().map(|(n, _)| *n).filter(is).collect()
    };
    let (available, missing) = (names(true), names(false));
    if available.is_empty() && missing.is_empty() {
        return inconclusive(id);
    }
    let mut finding = if missing.is_empty() { ok(id) } else { info(id) };
    for (_, option) in FEATURES.iter().filter(|(n, _)| missing.contains(n)) {
        if !is_built_in(m, option) {
            finding = finding.remedy(kernel_option(option, &[option, "=y"].concat()));
        }
    }
    finding.value("available", available).value("missing", missing)
}

fn in_use(t: &Tracing) -> Finding {
    let id = "noise.tracing";
    let tracer = t.current_tracer.as_deref().filter(|c| *c != "nop");
    let events = t.events_on == Some(true);
    if tracer.is_none() && !events && t.instances.is_empty() {
        return ok(id);
    }
    let finding = warning(id).value_if("tracer", tracer).value("events", events);
    let instances = Some(&t.instances).filter(|i| !i.is_empty());
    finding.value_if("instances", instances.cloned()).remedy(Note::new("remedy.stop-tracing"))
}

fn lockdown(m: &Machine, f: &Facts) -> Finding {
    let id = "trace.lockdown";
    let disable = || Note::new("remedy.disable-lockdown");
    match m.kernel.lockdown.as_deref() {
        Some("none") => ok(id).value("mode", "none"),
        Some(mode) => warning(id).value("mode", mode).remedy(disable()),
        None => match f.tracing.functions {
            Access::Denied if f.uid == 0 => {
                Finding { confidence: Confidence::Medium, ..warning(id) }
                    .value("function_tracing", false)
                    .with(Evidence::new("available_filter_functions", "EPERM"))
                    .remedy(disable())
            }
            Access::Allowed => ok(id).value("function_tracing", true),
            _ => inconclusive(id).remedy(Note::new("remedy.securityfs-mount")),
        },
    }
}

/// Where the configuration was read, and for each purpose what it lacks.
fn config(m: &Machine, tracers_named: bool) -> Vec<Finding> {
    let Some(source) = &m.kernel.config_source else {
        return vec![
            inconclusive("config.readable").remedy(Note::new("remedy.readable-kernel-config")),
        ];
    };
    let missing = kconfig::missing(&m.kernel.config);
    let purposes = [
        (Purpose::Measuring, "config.measuring"),
        (Purpose::Tracing, "config.tracing"),
        (Purpose::Latency, "config.latency"),
        (Purpose::Debugging, "config.debugging"),
    ];
    let mut findings = vec![ok("config.readable").value("source", source)];
    for (purpose, id) in purposes {
        let of = |weight: Weight| -> Vec<&(&KernelOption, State)> {
            let is_named = |o: &KernelOption| TRACERS.iter().any(|(_, option)| *option == o.name);
            missing
                .iter()
                .filter(|(o, _)| o.purpose == purpose && o.weight == weight)
                .filter(|(o, _)| !(tracers_named && is_named(o)))
                .collect()
        };
        let (needed, useful) = (of(Weight::Needed), of(Weight::Useful));
        findings.push(match (needed.is_empty(), useful.is_empty()) {
            (true, true) if missing.iter().any(|(o, _)| o.purpose == purpose) => {
                info(id).value("except_tracers", true)
            }
            (true, true) => ok(id),
            (true, false) => options(info(id).value("useful", names(&useful)), &useful),
            (false, _) => {
                let finding = match purpose {
                    Purpose::Measuring | Purpose::Debugging => problem(id),
                    Purpose::Tracing | Purpose::Latency => warning(id),
                };
                options(finding.value("needed", names(&needed)), &needed)
            }
        });
    }
    findings
}

fn names(options: &[&(&KernelOption, State)]) -> Vec<&'static str> {
    options.iter().map(|(o, _)| o.name).collect()
}

fn options(mut finding: Finding, options: &[&(&KernelOption, State)]) -> Finding {
    for (o, state) in options {
        let remedy = kernel_option(o.name, &o.line());
        finding = finding.remedy(match state {
            State::Unnamed => remedy.value("known", false),
            State::Right | State::Wrong => remedy,
        });
    }
    finding.remedy(Note::new("remedy.kernel-fragment"))
}
