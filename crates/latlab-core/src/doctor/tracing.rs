//! What the kernel can tell: tracefs, tracers, events, lockdown, configuration.

use super::{Access, Facts, Tracing, cannot_tell, count, good, in_the_way, note};
use crate::finding::{Confidence, Evidence, Finding};
use crate::kconfig::{self, KernelOption, Purpose, State, Weight};
use crate::machine::Machine;

/// The tracers that answer questions of latency, what they answer, and what builds them.
const TRACERS: &[(&str, &str, &str)] = &[
    ("function_graph", "how long each kernel function took", "CONFIG_FUNCTION_GRAPH_TRACER"),
    ("function", "which kernel functions ran", "CONFIG_FUNCTION_TRACER"),
    ("irqsoff", "the longest stretch with interrupts off", "CONFIG_IRQSOFF_TRACER"),
    ("preemptoff", "the longest stretch with preemption off", "CONFIG_PREEMPT_TRACER"),
    ("wakeup_rt", "the slowest wake-up of a real-time task", "CONFIG_SCHED_TRACER"),
    ("hwlat", "stalls that no code of this kernel made", "CONFIG_HWLAT_TRACER"),
    ("osnoise", "what the kernel takes from a busy task", "CONFIG_OSNOISE_TRACER"),
    ("timerlat", "wake-up latency inside the kernel", "CONFIG_TIMERLAT_TRACER"),
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

fn tracefs(f: &Facts) -> Finding {
    let id = "trace.tracefs";
    let t = &f.tracing;
    let why = "Without it nobody can say what the kernel did when it was late.";
    match (&t.mount, t.read, t.write) {
        (Some(at), Access::Allowed, Access::Allowed) => {
            good(id, format!("tracefs is mounted at {at}, and this user may trace."))
        }
        (Some(at), Access::Allowed, _) => {
            in_the_way(id, format!("tracefs is mounted at {at}; this user may read it and not trace."))
                .because(why)
                .attempt("run as root, or as root: mount -o remount,gid=GROUP,mode=770 for a group of yours")
        }
        (Some(at), _, _) => {
            in_the_way(id, format!("tracefs is mounted at {at}, and this user may not look into it."))
                .because(why)
                .attempt("run as root, or as root: mount -o remount,gid=GROUP,mode=770 for a group of yours")
        }
        (None, _, _) => match t.supported {
            Some(true) => in_the_way(id, "tracefs is there and not mounted.")
                .because(why)
                .attempt("as root: mount -t tracefs nodev /sys/kernel/tracing"),
            Some(false) => in_the_way(id, "This kernel has no tracefs.")
                .because(why)
                .attempt("build the kernel with CONFIG_FTRACE=y; latlab doctor --kernel-config prints what is needed"),
            None => cannot_tell(id, "Whether this kernel has tracefs could not be read."),
        },
    }
}

fn events(t: &Tracing) -> Finding {
    let id = "trace.events";
    match t.events {
        Some(0) => {
            in_the_way(id, "There are no events.").attempt("build the kernel with CONFIG_FTRACE=y")
        }
        Some(n) => good(id, format!("{n} events can be recorded.")),
        None => cannot_tell(id, "The events could not be counted."),
    }
}

fn tracers(m: &Machine, t: &Tracing) -> Finding {
    let id = "trace.tracers";
    let Some(there) = &t.tracers else {
        return cannot_tell(id, "The list of tracers could not be read.");
    };
    let has = |name: &str| there.iter().any(|t| t == name);
    let missing: Vec<_> = TRACERS.iter().filter(|(name, ..)| !has(name)).collect();
    let names = there.iter().filter(|t| *t != "nop").cloned().collect::<Vec<_>>().join(" ");
    if missing.is_empty() {
        return good(
            id,
            format!("All tracers that answer questions of latency are there: {names}."),
        );
    }
    let list: Vec<&str> = missing.iter().map(|(name, ..)| *name).collect();
    let mut finding = in_the_way(
        id,
        format!(
            "{} missing: {}.",
            count(missing.len(), "tracer is", "tracers are"),
            list.join(", ")
        ),
    )
    .because(
        "A late wake-up is explained from events alone; what they do not show stays unexplained.",
    )
    .with(Evidence::new("available_tracers", if names.is_empty() { "nop".into() } else { names }));
    for (name, answers, option) in missing {
        let built = m.kernel.config.get(*option).is_some_and(|v| v == "y");
        finding = finding.attempt(match built {
            true => format!("{name} ({answers}): {option} is built in, and the kernel does not offer it; see dmesg"),
            false => format!("{option}=y for {name}: {answers}"),
        });
    }
    finding
}

fn features(m: &Machine, t: &Tracing) -> Finding {
    let id = "trace.features";
    let options = [
        ("hist triggers", "CONFIG_HIST_TRIGGERS"),
        ("synthetic events", "CONFIG_SYNTH_EVENTS"),
        ("kprobe events", "CONFIG_KPROBE_EVENTS"),
        ("uprobe events", "CONFIG_UPROBE_EVENTS"),
        ("snapshot", "CONFIG_TRACER_SNAPSHOT"),
        ("system call events", "CONFIG_FTRACE_SYSCALLS"),
    ];
    let on = |name: &str| t.features.get(name).copied();
    let names = |there: bool| -> Vec<&str> {
        options.iter().map(|(n, _)| *n).filter(|n| on(n) == Some(there)).collect()
    };
    let (there, missing) = (names(true), names(false));
    if there.is_empty() && missing.is_empty() {
        return cannot_tell(id, "Which features tracing has could not be read.");
    }
    if missing.is_empty() {
        return good(id, format!("There too: {}.", there.join(", ")));
    }
    let mut finding = note(id, format!("Not there: {}.", missing.join(", ")))
        .because("Recordings are larger, and fewer places can be looked at, than with them.");
    if !there.is_empty() {
        finding = finding.with(Evidence::new("there", there.join(", ")));
    }
    for (name, option) in options.iter().filter(|(n, _)| on(n) == Some(false)) {
        let built = m.kernel.config.get(*option).is_some_and(|v| v == "y");
        if !built {
            finding = finding.attempt(format!("{option}=y for {name}"));
        }
    }
    finding
}

fn in_use(t: &Tracing) -> Finding {
    let id = "noise.tracing";
    let mut using = Vec::new();
    if let Some(tracer) = t.current_tracer.as_deref().filter(|c| *c != "nop") {
        using.push(format!("the tracer {tracer} is on"));
    }
    if t.events_on == Some(true) {
        using.push("events are on at the top level".to_owned());
    }
    if !t.instances.is_empty() {
        using.push(format!(
            "{} there: {}",
            count(t.instances.len(), "instance is", "instances are"),
            t.instances.join(", ")
        ));
    }
    if using.is_empty() {
        return good(id, "Nobody else is tracing.");
    }
    in_the_way(id, format!("Somebody is tracing: {}.", using.join("; ")))
        .because("Tracing costs time in every event and every function that it watches.")
        .attempt("ask whose it is; echo nop > current_tracer, echo 0 > events/enable, or rmdir the instance when it is nobody's")
}

fn lockdown(m: &Machine, f: &Facts) -> Finding {
    let id = "trace.lockdown";
    let what = match m.kernel.lockdown.as_deref() {
        Some("confidentiality") => {
            "function tracing, kprobes, uprobes, BPF reads of kernel memory, perf registers, raw memory and port access, unsigned modules"
        }
        _ => {
            "unsigned modules, raw memory, port and MSR access, hibernation; on many kernels function tracing and kprobes too"
        }
    };
    let forbids = |finding: Finding| {
        finding
            .because("What is forbidden fails with EPERM, for root as well; events still work.")
            .attempt(
                "boot without lockdown= and without Secure Boot, where that is yours to decide",
            )
    };
    let functions = Evidence::new("reading available_filter_functions", "refused although root");
    match m.kernel.lockdown.as_deref() {
        Some("none") => good(id, "The kernel is not locked down."),
        Some(mode) => {
            forbids(in_the_way(id, format!("The kernel is locked down ({mode}): no {what}.")))
        }
        None if f.uid == 0 && f.tracing.functions == Access::Denied => Finding {
            confidence: Confidence::Likely,
            ..forbids(in_the_way(
                id,
                "The kernel seems to be locked down: function tracing is refused.",
            ))
        }
        .with(functions),
        None if f.tracing.functions == Access::Allowed => {
            good(id, "Function tracing is not locked down.")
        }
        None => cannot_tell(id, "Whether the kernel is locked down could not be seen.")
            .attempt("as root: mount -t securityfs none /sys/kernel/security"),
    }
}

/// The configuration: where it was read, and for each purpose what it lacks.
fn config(m: &Machine, tracers_named: bool) -> Vec<Finding> {
    let Some(source) = &m.kernel.config_source else {
        return vec![
            cannot_tell(
                "config.readable",
                "The kernel's configuration is not readable on this machine.",
            )
            .because("Which options are missing can only be concluded from what does not work.")
            .attempt(
                "CONFIG_IKCONFIG_PROC=y, or modprobe configs, or the distribution's /boot/config-*",
            ),
        ];
    };
    let missing = kconfig::missing(&m.kernel.config);
    let purposes = [
        (Purpose::Measuring, "config.measuring", "measuring"),
        (Purpose::Tracing, "config.tracing", "tracing"),
        (Purpose::Latency, "config.latency", "low latency"),
        (Purpose::Debugging, "config.debugging", "a kernel without debugging aids"),
    ];
    let mut findings = vec![good(
        "config.readable",
        format!("The kernel's configuration is readable ({source})."),
    )];
    for (purpose, id, words) in purposes {
        let of = |weight: Weight| -> Vec<&(&KernelOption, State)> {
            let named = |o: &KernelOption| TRACERS.iter().any(|(.., option)| *option == o.name);
            missing
                .iter()
                .filter(|(o, _)| o.purpose == purpose && o.weight == weight)
                .filter(|(o, _)| !(tracers_named && named(o)))
                .collect()
        };
        let (needed, useful) = (of(Weight::Needed), of(Weight::Useful));
        findings.push(match (needed.len(), useful.len()) {
            (0, 0) if missing.iter().any(|(o, _)| o.purpose == purpose) => {
                note(id, format!("The tracers apart, the configuration has what {words} needs."))
            }
            (0, 0) => good(id, format!("The configuration has what {words} needs.")),
            (0, _) => options(
                note(id, format!("Useful for {words} and not set so: {}.", names(&useful))),
                &useful,
            ),
            _ => options(
                in_the_way(id, format!("Needed for {words} and not set so: {}.", names(&needed))),
                &needed,
            ),
        });
    }
    findings
}

fn names(options: &[&(&KernelOption, State)]) -> String {
    let short = options.iter().map(|(o, _)| o.name.trim_start_matches("CONFIG_"));
    short.collect::<Vec<_>>().join(", ")
}

fn options(mut finding: Finding, options: &[&(&KernelOption, State)]) -> Finding {
    for (o, state) in options {
        let absent = match state {
            State::Unnamed => {
                " (this configuration does not know it: an older kernel, another architecture, or something that it depends on is off)"
            }
            _ => "",
        };
        finding = finding.with(Evidence::new(o.line(), format!("{}{absent}", o.why)));
    }
    finding
        .attempt("latlab doctor --kernel-config prints the fragment and the commands that build it")
}
