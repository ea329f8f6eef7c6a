//! How much to trace: levels from the richest to the cheapest, as far as this kernel has them.

use crate::cli::why::Trace;
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
    "ipi:ipi_entry",
    "ipi:ipi_exit",
    "exceptions:page_fault_user",
    "exceptions:page_fault_kernel",
    "nmi:nmi_handler",
    "power:cpu_idle",
    "power:cpu_frequency",
];

/// A level with what it records.
#[derive(Clone, Debug)]
pub struct Level {
    /// In words, for the report.
    pub name: String,
    /// For the recorder.
    pub config: RecordConfig,
}

/// The levels to try, richest first.
///
/// # Errors
/// When tracefs cannot be read.
pub fn levels(tracefs: &Tracefs, asked: Trace) -> Result<Vec<Level>, TracefsError> {
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
    let level = |name: String, config| Level { name, config };
    let graph = tracefs.tracers()?.iter().any(|t| t == "function_graph").then(|| {
        let config = RecordConfig { tracer: Some("function_graph".into()), ..base.clone() };
        level(format!("every kernel function and {count} kinds of events"), config)
    });
    let stacks = level(
        format!("{count} kinds of events, each with the kernel's stack"),
        RecordConfig { stack: true, ..base.clone() },
    );
    let events = level(format!("{count} kinds of events"), base);
    Ok(match asked {
        Trace::Auto => graph.into_iter().chain([stacks, events]).collect(),
        Trace::Graph => graph.into_iter().collect(),
        Trace::Stacks => vec![stacks],
        Trace::Events => vec![events],
    })
}
