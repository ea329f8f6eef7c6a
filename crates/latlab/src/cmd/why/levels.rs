//! How much to trace: levels from the richest to the cheapest, as far as this kernel has them.

use crate::cli::why::Trace;
use latlab_model::finding::{Note, Quantity};
use latlab_sys::recorder::{EventSpec, RecordConfig};
use latlab_sys::tracefs::{Tracefs, TracefsError};

/// The events that a time budget is cut from, and what else disturbs a task.
/// A kernel has those that its version and configuration bring.
const EVENTS: &[&str] = &[
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_migrate_task",
    "sched:sched_pi_setprio",
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
    "irq:softirq_raise",
    "irq:softirq_entry",
    "irq:softirq_exit",
    "timer:hrtimer_start",
    "timer:hrtimer_expire_entry",
    "timer:hrtimer_expire_exit",
    "timer:timer_expire_entry",
    "timer:timer_expire_exit",
    "workqueue:workqueue_execute_start",
    "workqueue:workqueue_execute_end",
    "lock:contention_begin",
    "lock:contention_end",
    "syscalls:sys_enter_futex",
    "syscalls:sys_enter_futex_time32",
    "syscalls:sys_enter_sched_yield",
    "ipi:ipi_entry",
    "ipi:ipi_exit",
    "ipi:ipi_raise",
    "ipi:ipi_send_cpu",
    "ipi:ipi_send_cpumask",
    "csd:csd_queue_cpu",
    "exceptions:page_fault_user",
    "exceptions:page_fault_kernel",
    "nmi:nmi_handler",
    "power:cpu_idle",
];

/// What tells code with interrupts or preemption disabled from a stall. Kernels with `IRQSOFF_TRACER` or
/// `PREEMPT_TRACER` have them; they are frequent.
const SECTIONS: &[&str] = &[
    "preemptirq:irq_disable",
    "preemptirq:irq_enable",
    "preemptirq:preempt_disable",
    "preemptirq:preempt_enable",
];

/// Where the kernel's code begins that runs before a woken task: interrupts, timers, softirqs,
/// work items. Kernels have some of these, by version and architecture; all that they call is drawn.
const HANDLERS: &[&str] = &[
    "generic_handle_domain_irq",
    "generic_handle_arch_irq",
    "handle_domain_irq",
    "__handle_domain_irq",
    "handle_IPI",
    "do_handle_IPI",
    "common_interrupt",
    "sysvec_apic_timer_interrupt",
    "sysvec_reschedule_ipi",
    "sysvec_call_function",
    "sysvec_call_function_single",
    "smp_apic_timer_interrupt",
    "hrtimer_interrupt",
    "__do_softirq",
    "handle_softirqs",
    "do_softirq_own_stack",
    "run_ksoftirqd",
    "run_ktimerd",
    "irq_thread_fn",
    "process_one_work",
];

/// A level with what it records.
#[derive(Clone, Debug)]
pub struct Level {
    /// What it traces.
    pub name: Note,
    /// For the recorder.
    pub config: RecordConfig,
}

/// The levels to try, richest first.
///
/// # Errors
/// When tracefs cannot be read.
pub fn levels(
    tracefs: &Tracefs,
    asked: Trace,
    functions: &[String],
) -> Result<Vec<Level>, TracefsError> {
    let known = tracefs.events()?;
    let has = |name: &str| known.iter().any(|e| format!("{}:{}", e.system, e.name) == name);
    let mut events: Vec<EventSpec> =
        EVENTS.iter().filter(|name| has(name)).map(|name| EventSpec::new(*name)).collect();
    if known.iter().any(|e| e.system == "irq_vectors") {
        events.push(EventSpec::new("irq_vectors:*"));
    }
    let count = events.len();
    let base = RecordConfig {
        events,
        clock: tracefs.clocks()?.0.iter().any(|c| c == "mono").then(|| "mono".to_owned()),
        ..RecordConfig::default()
    };
    let level = |name: Note, config| Level { name, config };
    let preset = |id: &str| Note::new(id).value("events", Quantity::Count(count as u64));
    let has_graph = tracefs.tracers()?.iter().any(|t| t == "function_graph");
    let drawn = if has_graph { graph_functions(tracefs, functions) } else { Vec::new() };
    let graph_of = |graph_functions: Vec<String>| RecordConfig {
        tracer: Some("function_graph".into()),
        graph_functions,
        ..base.clone()
    };
    let filtered = (!drawn.is_empty()).then(|| {
        let what = match functions {
            [] => preset("why.preset-handler-functions"),
            given => preset("why.preset-given-functions").value("functions", given.to_vec()),
        };
        level(what, graph_of(drawn))
    });
    let whole = has_graph.then(|| level(preset("why.preset-all-functions"), graph_of(Vec::new())));
    let stacks = level(preset("why.preset-stacks"), RecordConfig { stack: true, ..base.clone() });
    let known_sections: Vec<EventSpec> =
        SECTIONS.iter().filter(|name| has(name)).map(|name| EventSpec::new(*name)).collect();
    let sections = (!known_sections.is_empty()).then(|| {
        let config = RecordConfig {
            events: base.events.iter().cloned().chain(known_sections).collect(),
            ..base.clone()
        };
        level(preset("why.preset-sections"), config)
    });
    let interrupted = has_stacks_of_instances(&latlab_sys::init::release())
        .then(|| level(preset("why.preset-interrupted"), with_interrupted(&base)));
    let events = level(preset("why.preset-events"), base);
    Ok(match asked {
        Trace::Auto => {
            let graph = whole.filter(|_| functions.is_empty()).into_iter().chain(filtered);
            graph.chain(sections).chain([stacks]).chain(interrupted).chain([events]).collect()
        }
        Trace::Graph => whole.into_iter().collect(),
        Trace::GraphFilter => filtered.into_iter().collect(),
        Trace::Interrupted => interrupted.into_iter().collect(),
        Trace::Stacks => vec![stacks],
        Trace::Events => vec![sections.unwrap_or(events)],
    })
}

/// Whether the trigger `stacktrace` of an instance writes to that instance: before, it wrote to the
/// top-level buffer, which is not ours.
fn has_stacks_of_instances(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse().ok());
    (numbers.next(), numbers.next()) >= (Some(5u32), Some(18))
}

/// The same with the stack of each timer that expires: it shows what the interrupt interrupted.
fn with_interrupted(base: &RecordConfig) -> RecordConfig {
    let mut config = base.clone();
    for event in &mut config.events {
        if event.pattern == "timer:hrtimer_expire_entry" {
            event.triggers.push("stacktrace".into());
        }
    }
    config
}

/// The functions that are asked for, or those of [`HANDLERS`] that this kernel can trace.
fn graph_functions(tracefs: &Tracefs, asked: &[String]) -> Vec<String> {
    if !asked.is_empty() {
        return asked.to_vec();
    }
    let known = tracefs.functions().unwrap_or_default();
    let has = |name: &&&str| known.iter().any(|k| k.split(' ').next() == Some(**name));
    HANDLERS.iter().filter(has).map(|name| (*name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_written_to_an_instance_since_5_18() {
        let known = |release| has_stacks_of_instances(release);
        assert!(known("5.18.0") && known("6.1.0-50-rt-armmp") && known("10.0-rc1"));
        assert!(!known("5.4.0") && !known("5.17.3") && !known("4.19.0") && !known(""));
    }

    #[test]
    fn timers_that_expire_bring_a_stack_and_nothing_else_does() {
        let events = EVENTS.iter().map(|name| EventSpec::new(*name)).collect();
        let config = with_interrupted(&RecordConfig { events, ..RecordConfig::default() });
        let brings = config.events.iter().filter(|e| !e.triggers.is_empty());
        let brings: Vec<_> = brings.map(|e| (e.pattern.as_str(), e.triggers.as_slice())).collect();
        assert_eq!(brings, [("timer:hrtimer_expire_entry", &["stacktrace".to_owned()][..])]);
    }
}
