//! Wording: mitigation tests, captures, limits and trace presets of `why`.

use super::args::Args;
use super::message::{Message, Text, fixed};

/// One wording for each identifier.
pub(super) const MESSAGES: &[Message] = &[
    // Mitigation tests.
    Message { id: "why.mitigation-effective", text: mitigation_effective },
    Message { id: "why.mitigation-no-clear-effect", text: mitigation_no_clear_effect },
    Message { id: "why.mitigation-no-effect", text: mitigation_no_effect },
    Message { id: "why.mitigation-no-late", text: mitigation_no_late },
    Message { id: "why.mitigation-not-tested", text: mitigation_not_tested },
    fixed!("why.test-load-stopped", "Load stopped"),
    Message { id: "why.test-interrupt-moved", text: test_interrupt_moved },
    fixed!("why.test-unbound-work-moved", "Unbound work items moved to other CPUs"),
    fixed!("why.test-rt-runtime", "Real-time tasks allowed 99 % of the CPU"),
    fixed!("why.test-memory-locked", "Memory locked"),
    fixed!("why.test-timer-migration", "Timers migrated to busy CPUs"),
    fixed!("why.test-nmi-watchdog-off", "NMI watchdog off"),
    fixed!("why.test-shallow-idle", "Idle exit latency limited to 0 µs"),
    Message { id: "why.test-other-cpus", text: test_other_cpus },
    fixed!("why.reason-no-other-cpu", "no other CPU is available"),
    fixed!(
        "why.reason-other-program",
        "the test changes no affinity and memory of another program"
    ),
    Message { id: "why.reason-all-cpus-measured", text: reason_all_cpus_measured },
    Message { id: "why.reason-rt-limit", text: reason_rt_limit },
    Message { id: "why.reason-no-such-interrupt", text: reason_no_such_interrupt },
    Message { id: "why.reason-error", text: |a| Text::claim(a.get("error")) },
    Message { id: "why.setting-changed", text: setting_changed },
    // Captures.
    Message { id: "why.capture-begins-late", text: capture_begins_late },
    Message { id: "why.capture-sampled", text: capture_sampled },
    Message { id: "why.capture-damaged", text: capture_damaged },
    fixed!("why.capture-no-marker", "no marker of a late wake-up; --limit selects late wake-ups"),
    fixed!("why.limit-given", "from the command line"),
    Message { id: "why.deadline-period", text: deadline_period },
    Message { id: "why.deadline-slowest", text: deadline_slowest },
    fixed!("why.deadline-none", "no activation was much slower than the median"),
    Message { id: "why.limit-auto", text: limit_auto },
    Message { id: "why.limit-window", text: limit_window },
    Message { id: "why.limit-window-unmapped", text: limit_window_unmapped },
    Message { id: "why.preset-all-functions", text: preset_all_functions },
    Message { id: "why.preset-handler-functions", text: preset_handler_functions },
    Message { id: "why.preset-given-functions", text: preset_given_functions },
    Message { id: "why.preset-stacks", text: preset_stacks },
    Message { id: "why.preset-interrupted", text: preset_interrupted },
    Message { id: "why.preset-events", text: preset_events },
    Message { id: "why.preset-sections", text: preset_sections },
    Message { id: "why.preset-changed-distribution", text: preset_changed_distribution },
    Message { id: "why.preset-error", text: |a| Text::claim(a.get("error")) },
];

/// The sentence of a note whose identifier is a value and whose values stand beside it; a text that
/// is no identifier as it is.
fn nested(a: &Args<'_>, name: &str) -> String {
    a.nested(name).unwrap_or_else(|| a.text(name).to_owned())
}

const BLOCKS: &str = "Blocks with and without the mitigation alternate; nothing else changes.";

fn removed(a: &Args<'_>) -> String {
    let interval = match a.find("low") {
        Some(low) => format!("95 % interval {low} to {}", a.get("high")),
        None => format!("95 % interval up to {}", a.get("high")),
    };
    format!("removes {} of the excess ({interval})", a.get("removed"))
}

fn mitigation_effective(a: &Args<'_>) -> Text {
    Text::claim(format!("{}: {}", nested(a, "mitigation"), removed(a))).why(BLOCKS)
}

fn mitigation_no_clear_effect(a: &Args<'_>) -> Text {
    let mitigation = nested(a, "mitigation");
    Text::claim(format!("{mitigation}: effect unknown, {}", removed(a))).why(BLOCKS)
}

fn mitigation_no_effect(a: &Args<'_>) -> Text {
    let mitigation = nested(a, "mitigation");
    Text::claim(format!("{mitigation}: no effect of 20 % or more, {}", removed(a))).why(BLOCKS)
}

fn mitigation_no_late(a: &Args<'_>) -> Text {
    let mitigation = nested(a, "mitigation");
    Text::claim(format!("{mitigation}: no wake-up was late during the test, effect unknown"))
        .why(BLOCKS)
}

fn mitigation_not_tested(a: &Args<'_>) -> Text {
    Text::claim(format!("{}: not tested: {}", nested(a, "mitigation"), nested(a, "reason")))
}

fn test_interrupt_moved(a: &Args<'_>) -> Text {
    Text::claim(format!("Interrupt {} moved to other CPUs", a.get("irq")))
}

fn test_other_cpus(a: &Args<'_>) -> Text {
    Text::claim(match a.find("cpus") {
        Some(cpus) => format!("Task moved to {cpus}"),
        None => "Task moved to another CPU".into(),
    })
}

fn reason_all_cpus_measured(a: &Args<'_>) -> Text {
    let cpu = a.number("cpu").unwrap_or(0.0);
    Text::claim(format!("tasks are measured on all other CPUs; use -a {cpu} -t 1"))
}

fn reason_rt_limit(a: &Args<'_>) -> Text {
    let (runtime, period) = (a.get("runtime_us"), a.get("period_us"));
    Text::claim(format!("runtime is already {runtime} of {period} µs"))
}

fn reason_no_such_interrupt(a: &Args<'_>) -> Text {
    Text::claim(format!("/proc/interrupts has no interrupt {} with a number", a.get("irq")))
}

fn setting_changed(a: &Args<'_>) -> Text {
    Text::claim(format!("{}: {} → {}", a.get("file"), a.get("before"), a.get("during")))
}

fn capture_begins_late(a: &Args<'_>) -> Text {
    let wakeups = a.count("wakeups", "late wake-up", "late wake-ups");
    Text::claim(format!("buffer begins after the intended time of {wakeups}"))
}

fn capture_sampled(a: &Args<'_>) -> Text {
    Text::claim(format!("{} of {} late wake-ups analysed", a.get("used"), a.get("late")))
}

fn capture_damaged(a: &Args<'_>) -> Text {
    let more = a.find("more").map_or_else(String::new, |n| format!(" (and {n} more)"));
    Text::claim(format!("damaged: {}{more}", a.get("what")))
}

fn deadline_period(a: &Args<'_>) -> Text {
    Text::claim(format!("no --deadline: the period, {}", a.get("period")))
}

fn deadline_slowest(a: &Args<'_>) -> Text {
    Text::claim(format!(
        "no --deadline: the slowest {} of {} activations are compared with the others",
        a.get("late"),
        a.get("of")
    ))
}

fn limit_auto(a: &Args<'_>) -> Text {
    let quantile = crate::values::quantile_name(a.number("quantile").unwrap_or(0.0));
    let mut text = format!(
        "larger of {quantile} and twice the median of {} untraced wake-ups",
        a.get("wakeups")
    );
    if let Some(from) = a.find("lowered_from") {
        text.push_str(&format!("; lowered from {from}, which no wake-up exceeded"));
    }
    Text::claim(text)
}

fn limit_window(a: &Args<'_>) -> Text {
    Text::claim(format!(
        "from the command line: {} to {} untraced, mapped to {} to {} traced",
        a.get("low"),
        a.get("high"),
        a.get("traced_low"),
        a.get("traced_high")
    ))
}

fn limit_window_unmapped(a: &Args<'_>) -> Text {
    let window = a.find("low").zip(a.find("high"));
    let window = window.map_or_else(String::new, |(low, high)| format!(": {low} to {high}"));
    Text::claim(format!("from the command line{window}; not mapped to the traced distribution"))
}

/// What a preset traces, and the buffer.
fn preset(a: &Args<'_>, what: &str) -> Text {
    let buffer = if a.is("top_level") { " (top-level buffer)" } else { "" };
    Text::claim(format!("{what}{}{buffer}", a.count("events", "event", "events")))
}

fn preset_all_functions(a: &Args<'_>) -> Text {
    preset(a, "function graph of all kernel functions, ")
}

fn preset_handler_functions(a: &Args<'_>) -> Text {
    preset(a, "function graph of interrupts, timers, softirqs and work items, ")
}

fn preset_given_functions(a: &Args<'_>) -> Text {
    preset(a, &format!("function graph of {}, ", a.get("functions")))
}

fn preset_stacks(a: &Args<'_>) -> Text {
    preset(a, "kernel stacks of ")
}

fn preset_interrupted(a: &Args<'_>) -> Text {
    preset(a, "kernel stacks of expiring timers, ")
}

fn preset_events(a: &Args<'_>) -> Text {
    preset(a, "")
}

fn preset_sections(a: &Args<'_>) -> Text {
    preset(a, "sections with interrupts or preemption disabled, ")
}

fn preset_changed_distribution(a: &Args<'_>) -> Text {
    Text::claim(format!("tracing changes the distribution (limit {})", a.get("limit")))
}
