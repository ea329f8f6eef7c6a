//! Wording: clocks, processors, memory.

use super::super::args::Args;
use super::super::message::Text;

pub fn clock_step(a: &Args<'_>) -> Text {
    match a.number("step") {
        None => Text::claim("Resolution of CLOCK_MONOTONIC not measured"),
        Some(ns) => {
            let text = Text::claim(format!("Resolution of CLOCK_MONOTONIC: {}", a.get("step")));
            if ns < 1e3 { text } else { text.why("Shorter latencies cannot be resolved.") }
        }
    }
}

pub fn clock_cost(a: &Args<'_>) -> Text {
    if !a.has("cost") {
        return Text::claim("Cost of a clock read not measured");
    }
    let source = a.find("source").unwrap_or_else(|| "clock source unknown".to_owned());
    let text = Text::claim(format!("Cost of a clock read: {} ({source})", a.get("cost")));
    if !a.is("expensive") {
        return text;
    }
    text.why("Each time stamp enters the kernel or reads a slow device; operations shorter than this are not resolved.")
}

pub fn high_resolution(a: &Args<'_>) -> Text {
    if !a.has("high_resolution") {
        return Text::claim("High-resolution timers: state not readable");
    }
    if a.is("high_resolution") {
        return Text::claim("High-resolution timers active");
    }
    Text::claim("High-resolution timers inactive: a sleep ends at a tick")
        .why("A periodic task wakes up to one tick late, at any priority.")
}

pub fn virtualization(a: &Args<'_>) -> Text {
    match a.find("kind") {
        None => Text::claim("No hypervisor or container detected"),
        Some(kind) if a.is("container") => Text::claim(format!("Container ({kind})")).why(
            "The kernel is shared with the host; its settings may not be accessible from the container.",
        ),
        Some(kind) => Text::claim(format!("Virtual machine ({kind})")).why(
            "The hypervisor can preempt the guest for milliseconds at any guest priority; the guest kernel does not see the cause.",
        ),
    }
}

pub fn governor(a: &Args<'_>) -> Text {
    if a.is("scaling") {
        return Text::claim(format!("CPU frequency scaling active (governor: {})", a.get("governors")))
            .why("A task that wakes on an idle CPU starts at a low frequency, and results vary from run to run.");
    }
    match (a.has("scaling"), a.find("governors")) {
        (true, Some(governors)) => {
            Text::claim(format!("CPU frequency held by the governor ({governors})"))
        }
        (true, None) => Text::claim("No CPU frequency scaling (no cpufreq)"),
        (false, _) => Text::claim("CPU frequency scaling unknown: no cpufreq in the guest"),
    }
}

pub fn idle(a: &Args<'_>) -> Text {
    if a.text("driver") == "haltpoll" && a.has("state") {
        return Text::claim(format!(
            "Idle CPUs return to the hypervisor (haltpoll, {} exit latency declared)",
            a.get("exit")
        ))
        .why("The wake-up cost depends on scheduler and idle states of the host, which the guest cannot read.");
    }
    if a.has("state") {
        let text = Text::claim(format!(
            "Deepest enabled idle state: {}, exit latency {}",
            a.get("state"),
            a.get("exit")
        ));
        return match a.is("deep") {
            true => text.why("A wake-up on an idle CPU can be late by the exit latency; on a busy CPU it is not."),
            false => text,
        };
    }
    match a.find("driver") {
        Some(driver) => {
            Text::claim(format!("Idle driver {driver} declares no state with an exit latency"))
        }
        None if a.has("cpuidle") => {
            Text::claim("No cpuidle: idle CPUs wait for the next interrupt")
        }
        None => Text::claim("Idle states not readable"),
    }
}

pub fn smt(a: &Args<'_>) -> Text {
    match a.number("threads") {
        None => Text::claim("SMT unknown: the CPU topology is not reported"),
        Some(n) if n <= 1.0 => Text::claim("No SMT: one thread per core"),
        Some(_) => Text::claim(format!("SMT: {} threads per core", a.get("threads"))).why(
            "A task on the sibling thread uses shared core resources, independent of priority.",
        ),
    }
}

pub fn mitigations(a: &Args<'_>) -> Text {
    match a.number("active") {
        None => Text::claim("CPU vulnerability mitigations not reported"),
        Some(0.0) => Text::claim("No CPU vulnerability mitigations active"),
        Some(_) => Text::claim(format!(
            "{}: {}",
            a.count("active", "CPU vulnerability mitigation active", "CPU vulnerability mitigations active"),
            a.get("active")
        ))
        .why("Mitigations make system calls, interrupts and context switches slower; compare only runs with the same set."),
    }
}

pub fn huge_pages(a: &Args<'_>) -> Text {
    match a.text("mode") {
        "always" => Text::claim("Transparent huge pages: always").why(
            "khugepaged and compaction take locks and CPU time for all tasks, and timings of arrays depend on page allocation.",
        ),
        "" if a.has("supported") => Text::claim("No transparent huge pages"),
        "" => Text::claim("Transparent huge pages: mode not readable"),
        mode => Text::claim(format!("Transparent huge pages: {mode}")),
    }
}

pub fn swap(a: &Args<'_>) -> Text {
    match (a.number("size"), a.number("used")) {
        (None, _) => Text::claim("Swap space not readable"),
        (Some(0.0), _) => Text::claim("No swap space"),
        (Some(_), Some(used)) if used > 0.0 => {
            Text::claim(format!("Swap in use: {} of {}", a.get("used"), a.get("size")))
                .why("Reading a page back from disk takes milliseconds.")
        }
        _ => Text::claim(format!("Swap space of {}, unused", a.get("size"))),
    }
}

pub fn counters(a: &Args<'_>) -> Text {
    match (a.has("available"), a.is("available")) {
        (false, _) => Text::claim("Hardware performance counters: availability not readable"),
        (true, true) if a.is("restricted") => {
            Text::claim("Hardware performance counters not accessible to this user")
        }
        (true, true) => Text::claim("Hardware performance counters available"),
        (true, false) => Text::claim("No hardware performance counters").why(
            "Instructions and cache misses cannot be counted; causes are inferred from timings.",
        ),
    }
}

pub fn single_cpu(_: &Args<'_>) -> Text {
    Text::claim("Single-CPU machine").why(
        "Load, measurement and recording share the CPU: keep real-time throttling enabled so that the machine stays accessible, and expect tracing to change the traced behaviour.",
    )
}
