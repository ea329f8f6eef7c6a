//! Settings of a recording.

use std::collections::BTreeSet;

/// What to record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordConfig {
    /// Events, each with what belongs to it.
    pub events: Vec<EventSpec>,
    /// Tracer (`function_graph`); `None` for events alone.
    pub tracer: Option<String>,
    /// Functions that `function_graph` draws.
    pub graph_functions: Vec<String>,
    /// Functions that are traced, all others not.
    pub functions: Vec<String>,
    /// Functions that are not traced.
    pub notrace_functions: Vec<String>,
    /// How deep `function_graph` descends.
    pub max_graph_depth: Option<u32>,
    /// Options to set, `no…` to clear.
    pub options: Vec<String>,
    /// Processes to trace; empty for all.
    pub pids: Vec<u32>,
    /// Whether the processes' children are traced too.
    pub follow_children: bool,
    /// CPUs to trace; `None` for all.
    pub cpus: Option<BTreeSet<u32>>,
    /// Size of each CPU's buffer in KiB; `None` for what suits this machine's free memory.
    pub buffer_kb: Option<u64>,
    /// Size of all CPUs' buffers together in KiB, instead of `buffer_kb`.
    pub buffer_total_kb: Option<u64>,
    /// Clock; `None` for the kernel's default (`local`).
    pub clock: Option<String>,
    /// Whether each event brings the kernel's stack.
    pub stack: bool,
}

/// Events by pattern (see [`Control::select`](crate::tracefs::Control::select)), with their filter and triggers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventSpec {
    /// `sched`, `irq:*_entry`, `all`.
    pub pattern: String,
    /// `prev_prio < 100`.
    pub filter: Option<String>,
    /// `traceoff if …`.
    pub triggers: Vec<String>,
}

impl EventSpec {
    /// Events without filter or trigger.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self { pattern: pattern.into(), filter: None, triggers: Vec::new() }
    }
}
