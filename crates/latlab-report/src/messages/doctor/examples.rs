//! Examples of every identifier, for the snapshots.

use super::super::examples::statements;
use latlab_model::finding::{Note, Quantity, Statement, Value};

fn list(all: &[&str]) -> Value {
    all.to_vec().into()
}

/// Remedies without values.
fn fixed() -> Vec<Note> {
    let is_fixed = |id: &str| !VALUED.contains(&id) && id.starts_with("remedy.");
    super::MESSAGES.iter().map(|m| m.id).filter(|id| is_fixed(id)).map(Note::new).collect()
}

/// Remedies with values.
const VALUED: [&str; 6] = [
    "remedy.kernel-option",
    "remedy.tracer",
    "remedy.clock-source",
    "remedy.dma-latency",
    "remedy.rt-runtime",
    "remedy.stop-services",
];

pub fn examples() -> Vec<Statement> {
    let notes = [hardware(), realtime(), tracing(), noise(), remedies(), fixed()].concat();
    statements(notes)
}

fn hardware() -> Vec<Note> {
    let n = Note::new;
    vec![
        n("clock.step"),
        n("clock.step").value("step", Quantity::Ns(1.0)),
        n("clock.step").value("step", Quantity::Ns(4e6)),
        n("clock.cost"),
        n("clock.cost").value("cost", Quantity::Ns(24.0)).value("source", "tsc"),
        n("clock.cost").value("cost", Quantity::Ns(1500.0)).value("expensive", true),
        n("clock.high-resolution"),
        n("clock.high-resolution").value("high_resolution", true),
        n("clock.high-resolution").value("high_resolution", false),
        n("machine.virtualization"),
        n("machine.virtualization").value("kind", "docker").value("container", true),
        n("machine.virtualization").value("kind", "kvm"),
        n("cpu.governor"),
        n("cpu.governor").value("scaling", false),
        n("cpu.governor").value("scaling", false).value("governors", list(&["performance"])),
        n("cpu.governor").value("scaling", true).value("governors", list(&["schedutil"])),
        n("cpu.idle"),
        n("cpu.idle").value("cpuidle", false),
        n("cpu.idle").value("driver", "intel_idle"),
        n("cpu.idle").value("state", "C1").value("exit", Quantity::Ns(2e3)),
        n("cpu.idle").value("state", "C6").value("exit", Quantity::Ns(133e3)).value("deep", true),
        n("cpu.idle")
            .value("state", "poll")
            .value("exit", Quantity::Ns(1e3))
            .value("driver", "haltpoll"),
        n("cpu.smt"),
        n("cpu.smt").value("threads", Quantity::Count(1)),
        n("cpu.smt").value("threads", Quantity::Count(2)),
        n("cpu.mitigations"),
        n("cpu.mitigations").value("active", list(&[])),
        n("cpu.mitigations").value("active", list(&["spectre_v1", "spectre_v2"])),
        n("cpu.counters"),
        n("cpu.counters").value("available", true),
        n("cpu.counters").value("available", true).value("restricted", true),
        n("cpu.counters").value("available", false),
        n("cpu.count"),
        n("memory.huge-pages"),
        n("memory.huge-pages").value("supported", false),
        n("memory.huge-pages").value("mode", "madvise"),
        n("memory.huge-pages").value("mode", "always"),
        n("memory.swap"),
        n("memory.swap").value("size", Quantity::Bytes(0)).value("used", Quantity::Bytes(0)),
        n("memory.swap").value("size", Quantity::Bytes(1 << 30)).value("used", Quantity::Bytes(0)),
        n("memory.swap")
            .value("size", Quantity::Bytes(1 << 30))
            .value("used", Quantity::Bytes(3 << 20)),
    ]
}

fn realtime() -> Vec<Note> {
    let n = Note::new;
    let limits = |runtime: f64| {
        n("rt.throttling")
            .value("enabled", true)
            .value("runtime", Quantity::Ns(runtime))
            .value("period", Quantity::Ns(1e9))
    };
    vec![
        n("rt.permission"),
        n("rt.permission").value("priority_max", Quantity::Priority(99)),
        n("rt.permission").value("refused", true),
        n("rt.permission").value("refused", true).value("cgroup_rt_runtime", Quantity::Ns(0.0)),
        n("rt.memory-lock"),
        n("rt.memory-lock").value("limit", Quantity::Bytes(64 << 20)),
        n("rt.memory-lock").value("limit", Quantity::Bytes(8 << 20)).value("small", true),
        n("rt.preemption"),
        n("rt.preemption").value("model", "rt"),
        n("rt.preemption").value("model", "full"),
        n("rt.preemption").value("model", "voluntary"),
        n("rt.preemption").value("model", "other"),
        n("rt.throttling"),
        n("rt.throttling").value("enabled", false),
        limits(950e6),
        n("rt.isolation"),
        n("rt.isolation").value("single_cpu", true),
        n("rt.isolation").value("isolated", "2-3"),
        n("rt.isolation").value("isolated", "2-3").value("nohz_full", "3"),
        n("rt.co-kernel").value("name", "Xenomai Cobalt 3.2.4"),
        n("rt.other-tasks"),
        n("rt.other-tasks").value("tasks", Quantity::Count(0)),
        n("rt.other-tasks").value("tasks", Quantity::Count(1)),
        n("rt.other-tasks").value("tasks", Quantity::Count(3)),
    ]
}

fn tracing() -> Vec<Note> {
    let n = Note::new;
    let mount = |access: &str| {
        n("trace.tracefs").value("mount", "/sys/kernel/tracing").value("access", access)
    };
    let features = |available: &[&str], missing: &[&str]| {
        n("trace.features").value("available", list(available)).value("missing", list(missing))
    };
    let mut all = vec![
        mount("read-write"),
        mount("read-only"),
        mount("none"),
        n("trace.tracefs").value("supported", true),
        n("trace.tracefs").value("supported", false),
        n("trace.tracefs"),
        n("trace.events"),
        n("trace.events").value("events", Quantity::Count(0)),
        n("trace.events").value("events", Quantity::Count(1834)),
        n("trace.tracers"),
        n("trace.tracers").value("available", list(&["timerlat", "osnoise"])),
        n("trace.tracers").value("missing", list(&["timerlat", "osnoise"])),
        n("trace.features"),
        features(&["snapshot"], &[]),
        features(&["snapshot"], &["hist triggers", "kprobe events"]),
        n("trace.lockdown"),
        n("trace.lockdown").value("mode", "none"),
        n("trace.lockdown").value("mode", "integrity"),
        n("trace.lockdown").value("mode", "confidentiality"),
        n("trace.lockdown").value("function_tracing", true),
        n("trace.lockdown").value("function_tracing", false),
        n("config.readable"),
        n("config.readable").value("source", "/proc/config.gz"),
    ];
    for id in ["config.measuring", "config.tracing", "config.latency", "config.debugging"] {
        all.extend([
            n(id),
            n(id).value("except_tracers", true),
            n(id).value("useful", list(&["CONFIG_X"])),
            n(id).value("needed", list(&["CONFIG_X", "CONFIG_Y"])),
        ]);
    }
    all
}

fn noise() -> Vec<Note> {
    let n = Note::new;
    let steal = |ns: f64, share: f64| {
        n("noise.steal")
            .value("stolen", Quantity::Ns(ns))
            .value("window", Quantity::Ns(1e9))
            .value("share", Quantity::Ratio(share))
    };
    let longest = |ns: f64| {
        n("noise.gaps")
            .value("longest", Quantity::Ns(ns))
            .value("cpu", Quantity::Cpu(1))
            .value("window", Quantity::Ns(1e9))
    };
    let zone = |celsius: f64| {
        n("noise.heat")
            .value("zone", "cpu-thermal")
            .value("temperature", Quantity::Celsius(celsius))
    };
    vec![
        n("noise.tracing"),
        n("noise.tracing").value("tracer", "function").value("events", true),
        n("noise.tracing").value("events", false).value("instances", list(&["a", "b"])),
        n("noise.load"),
        n("noise.load").value("busy", Quantity::Ratio(0.012)),
        n("noise.load").value("busy", Quantity::Ratio(0.5)),
        n("noise.steal"),
        steal(0.0, 0.0),
        steal(0.0, 0.0).value("virtualized", true),
        steal(50e6, 0.025),
        n("noise.gaps"),
        longest(30e3),
        longest(6.05e6).value("long", true),
        n("noise.interrupts"),
        n("noise.interrupts").value("single_cpu", true),
        n("noise.interrupts").value("services", list(&["irqbalance"])),
        n("noise.interrupts").value("spared", "3"),
        n("noise.interrupts").value("lines", Quantity::Count(24)),
        n("noise.interrupts").value("lines", Quantity::Count(24)).value("isolated", "3"),
        zone(45.0),
        zone(92.0).value("hot", true),
        n("settings.left").value("settings", list(&["/proc/sys/kernel/sched_rt_runtime_us"])),
        n("settings.held").value("settings", list(&["/dev/cpu_dma_latency (process 812)"])),
        n("settings.journal").value("reason", "/run/latlab: Permission denied"),
        n("doctor.hidden-tasks"),
        n("doctor.root-only"),
        n("doctor.tracefs-closed").value("mount", "/sys/kernel/tracing"),
    ]
}

fn remedies() -> Vec<Note> {
    let n = Note::new;
    let option = || {
        n("remedy.kernel-option").value("option", "CONFIG_FTRACE").value("line", "CONFIG_FTRACE=y")
    };
    let tracer = |built_in: bool| {
        n("remedy.tracer")
            .value("tracer", "timerlat")
            .value("option", "CONFIG_TIMERLAT_TRACER")
            .value("built_in", built_in)
    };
    vec![
        option(),
        option().value("known", false),
        tracer(false),
        tracer(true),
        n("remedy.clock-source"),
        n("remedy.clock-source").value("source", "tsc"),
        n("remedy.dma-latency").value("root", true),
        n("remedy.dma-latency").value("root", false),
        n("remedy.rt-runtime").value("runtime_us", Quantity::Integer(950_000)),
        n("remedy.rt-runtime").value("runtime_us", Quantity::Integer(-1)),
        n("remedy.stop-services").value("services", list(&["irqbalance", "tuned"])),
    ]
}
