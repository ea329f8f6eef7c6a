//! Wording: present interference.

use super::super::args::Args;
use super::super::message::Text;

pub fn tracing(a: &Args<'_>) -> Text {
    let mut active = Vec::new();
    active.extend(a.find("tracer").map(|t| format!("tracer {t}")));
    active.extend(a.is("events").then(|| "events of the top-level instance".to_owned()));
    active.extend(
        a.find("instances")
            .map(|names| format!("{} ({names})", a.count("instances", "instance", "instances"))),
    );
    if active.is_empty() {
        return Text::claim("No other tracing active");
    }
    Text::claim(format!("Other tracing present: {}", active.join(", ")))
        .why("Tracing adds overhead to each traced event and function.")
}

pub fn load(a: &Args<'_>) -> Text {
    match a.number("busy") {
        None => Text::claim("CPU use by other tasks not readable"),
        Some(share) => {
            let text = Text::claim(format!("CPU use by other tasks: {}", a.get("busy")));
            if share < 0.05 { text } else { text.why("Results include the effect of this load.") }
        }
    }
}

pub fn steal(a: &Args<'_>) -> Text {
    match a.number("stolen") {
        None => Text::claim("Steal time not readable"),
        Some(0.0) if a.is("virtualized") => Text::claim("No steal time reported by the hypervisor")
            .why("The hypervisor may take CPU time without reporting it."),
        Some(0.0) => Text::claim(format!("No steal time in {}", a.get("window"))),
        Some(_) => Text::claim(format!(
            "Steal time: {} of CPU time ({} in {})",
            a.get("share"),
            a.get("stolen"),
            a.get("window")
        ))
        .why("No guest task runs while the hypervisor runs something else on its CPU."),
    }
}

pub fn interruptions(a: &Args<'_>) -> Text {
    if !a.has("longest") {
        return Text::claim("Interruptions of a busy loop not measured");
    }
    let text = Text::claim(format!(
        "Longest interruption of a busy loop: {} ({}, {} measured)",
        a.get("longest"),
        a.get("cpu"),
        a.get("window")
    ));
    if !a.is("long") {
        return text;
    }
    text.why("Caused by other tasks, interrupts, or a stall of the machine; a real-time priority prevents only the first.")
}

pub fn interrupts(a: &Args<'_>) -> Text {
    const HANDLERS: &str = "Interrupt handlers run before tasks of any priority (on PREEMPT_RT: before tasks of lower priority than the handler thread).";
    if a.is("single_cpu") {
        return Text::claim("Single CPU: it handles all interrupts");
    }
    if let Some(services) = a.find("services") {
        return Text::claim(format!("Running services that change settings: {services}"))
            .why("Interrupt affinity, frequencies or priorities can change during a run.");
    }
    if let Some(cpus) = a.find("spared") {
        return Text::claim(format!("No interrupts routed to these CPUs: {cpus}"));
    }
    match (a.has("lines"), a.find("isolated")) {
        (false, _) => Text::claim("Interrupt affinity not readable"),
        (true, Some(cpus)) => {
            Text::claim(format!("Interrupts may be routed to isolated CPUs ({cpus})")).why(HANDLERS)
        }
        (true, None) => Text::claim(format!(
            "{} may be routed to any CPU",
            a.count("lines", "interrupt line", "interrupt lines")
        ))
        .why(HANDLERS),
    }
}

pub fn heat(a: &Args<'_>) -> Text {
    let text = Text::claim(format!("Temperature of {}: {}", a.get("zone"), a.get("temperature")));
    if a.is("hot") {
        text.why("Processors reduce their frequency at high temperature.")
    } else {
        text
    }
}

pub fn settings_left(a: &Args<'_>) -> Text {
    Text::claim(format!(
        "{} not restored by a terminated latlab: {}",
        a.count("settings", "setting", "settings"),
        a.get("settings")
    ))
    .why("The machine is not in its original configuration.")
}

pub fn settings_held(a: &Args<'_>) -> Text {
    Text::claim(format!("Settings modified by a running latlab: {}", a.get("settings")))
        .why("They are restored when it ends.")
}

pub fn journal(a: &Args<'_>) -> Text {
    Text::claim(format!("Journal of modified settings not readable: {}", a.get("reason")))
}
