//! Wording: remedies of the doctor that depend on values.

use super::super::args::Args;
use super::super::message::Text;
use super::options::reason;

/// What a tracer is for.
fn purpose(tracer: &str) -> &'static str {
    match tracer {
        "function_graph" => "duration of each kernel function",
        "function" => "calls of kernel functions",
        "irqsoff" => "longest section with interrupts disabled",
        "preemptoff" => "longest section with preemption disabled",
        "wakeup_rt" => "longest wake-up latency of a real-time task",
        "hwlat" => "hardware and firmware stalls",
        "osnoise" => "OS noise by source",
        "timerlat" => "wake-up latency inside the kernel",
        _ => "",
    }
}

pub fn tracer(a: &Args<'_>) -> Text {
    let (tracer, option) = (a.get("tracer"), a.get("option"));
    let what = match purpose(&tracer) {
        "" => tracer.clone(),
        what => format!("{tracer} ({what})"),
    };
    Text::claim(match a.is("built_in") {
        true => format!("{what}: {option} is built in but the kernel does not offer it; see dmesg"),
        false => format!("{option}=y for {what}"),
    })
}

/// `CONFIG_X=y: reason`.
pub fn kernel_option(a: &Args<'_>) -> Text {
    let why = match reason(a.text("option")) {
        "" => String::new(),
        // The claim of a remedy has no full stop at its end.
        why => format!(": {}", why.trim_end_matches('.')),
    };
    let known = match a.has("known") && !a.is("known") {
        true => {
            " (not in this configuration: older kernel, other architecture, or unmet dependency)"
        }
        false => "",
    };
    Text::claim(format!("{}{why}{known}", a.get("line")))
}

pub fn clock_source(a: &Args<'_>) -> Text {
    const DIR: &str = "/sys/devices/system/clocksource/clocksource0";
    Text::claim(match a.find("source") {
        Some(source) => format!(
            "echo {source} > {DIR}/current_clocksource, unless dmesg reports it as unstable"
        ),
        None => format!("Select another clock source: cat {DIR}/available_clocksource"),
    })
}

pub fn dma_latency(a: &Args<'_>) -> Text {
    Text::claim(match a.is("root") {
        true => "As root: hold /dev/cpu_dma_latency at 0, or boot with cpuidle.off=1",
        false => {
            "Hold /dev/cpu_dma_latency at 0 during the measurement, and report it with the results"
        }
    })
}

pub fn rt_runtime(a: &Args<'_>) -> Text {
    let tail = match a.number("runtime_us") {
        Some(us) if us < 0.0 => ", with console access at hand",
        _ => "",
    };
    Text::claim(format!("sysctl kernel.sched_rt_runtime_us={}{tail}", a.get("runtime_us")))
}

pub fn stop_services(a: &Args<'_>) -> Text {
    Text::claim(format!("systemctl stop {}", a.list("services").join(" ")))
}
