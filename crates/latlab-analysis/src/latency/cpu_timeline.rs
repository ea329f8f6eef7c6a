//! Who ran on each CPU at each moment: the spans of a capture, with its events by CPU and task.

use super::capture::Capture;
pub use crate::timeline::actor::Actor;
pub use crate::timeline::span::Span;
use crate::timeline::span::Spans;
use latlab_model::event::{Event, EventKind, Symbol, Task};
use latlab_model::units::{CpuId, Tid, TraceNs};
use latlab_trace::names::IntMap;
use std::collections::{BTreeMap, HashSet};

/// Functions in which the kernel's handling of an interrupt begins, whatever the interrupt
/// (`arch/{arm,arm64}/kernel/irq.c`, `arch/x86/kernel/{irq,apic/apic}.c`, `kernel/irq/handle.c`).
fn is_interrupt_entry(function: &str) -> bool {
    function.starts_with("sysvec_")
        || [
            "generic_handle_arch_irq",
            "generic_handle_domain_irq",
            "handle_domain_irq",
            "__handle_domain_irq",
            "gic_handle_irq",
            "common_interrupt",
            "do_IRQ",
            "smp_apic_timer_interrupt",
            "handle_IPI",
        ]
        .contains(&function)
}

/// The spans of every CPU, and what is known of each task.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    /// CPU → spans in time order without gaps or overlaps.
    pub cpus: BTreeMap<CpuId, Vec<Span>>,
    /// CPU → indices of its events.
    pub events: BTreeMap<CpuId, Vec<usize>>,
    /// Last seen name and priority of each task.
    pub tasks: IntMap<Tid, Task>,
    /// Task → indices of its scheduling events (waking, wake-up, switch in and out, migration).
    pub scheduling: IntMap<Tid, Vec<usize>>,
    /// Functions alone were traced, and nothing tells when a task was woken: who ran instead of
    /// the measured one is seen, why is not.
    pub blind: bool,
}

impl Lanes {
    /// Folds the events of a capture into spans. Where functions were traced and interrupts were
    /// not, an interrupt is the call of a function that only interrupts call.
    pub fn of_capture(capture: &Capture) -> Self {
        let told = |e: &Event| {
            matches!(
                e.kind,
                EventKind::IrqEntry { .. }
                    | EventKind::VectorEntry { .. }
                    | EventKind::IpiEntry { .. }
            )
        };
        let mut entries = HashSet::new();
        if !capture.events.iter().any(told) {
            for e in &capture.events {
                if let EventKind::FunctionEntry { function, .. } = e.kind
                    && is_interrupt_entry(capture.names.get(function))
                {
                    entries.insert(function);
                }
            }
        }
        let mut lanes = Self::with_entries(&capture.events, entries);
        let wakes = |e: &Event| {
            matches!(
                e.kind,
                EventKind::Waking { .. } | EventKind::Wakeup { .. } | EventKind::WakeupNew { .. }
            )
        };
        let calls = |e: &Event| matches!(e.kind, EventKind::FunctionEntry { .. });
        lanes.blind = capture.events.iter().any(calls) && !capture.events.iter().any(wakes);
        lanes
    }

    /// Folds events, in rising time per CPU, into spans.
    pub fn of(events: &[Event]) -> Self {
        Self::with_entries(events, HashSet::new())
    }

    fn with_entries(events: &[Event], entries: HashSet<Symbol>) -> Self {
        let mut lanes = Self::default();
        let mut contexts = Spans::new(entries);
        let mut cpus: Vec<(CpuId, Vec<Span>, Vec<usize>)> = Vec::new();
        let mut ended: Vec<Span> = Vec::new();
        for (i, event) in events.iter().enumerate() {
            lanes.learn(i, &event.kind);
            let at = contexts.push(i, event, &mut |span| ended.push(span));
            if at == cpus.len() {
                cpus.push((event.cpu, Vec::new(), Vec::new()));
            }
            cpus[at].1.append(&mut ended);
            cpus[at].2.push(i);
        }
        for (cpu, spans, own) in cpus {
            lanes.cpus.insert(cpu, spans);
            lanes.events.insert(cpu, own);
        }
        // A task seen only as `current`, before the first switch or behind lost ones, has no name or priority yet.
        for spans in lanes.cpus.values_mut() {
            for span in spans.iter_mut().filter(|s| s.task.name == Symbol(0)) {
                if let Some(task) = lanes.tasks.get(&span.task.tid) {
                    span.task = *task;
                }
            }
        }
        lanes
    }

    fn learn(&mut self, index: usize, kind: &EventKind) {
        let mut note = |task: Task| {
            if task.tid != Tid(0) {
                self.scheduling.entry(task.tid).or_default().push(index);
            }
            self.tasks.insert(task.tid, task);
        };
        match *kind {
            EventKind::Switch { prev, next, .. } => {
                note(prev);
                note(next);
            }
            EventKind::Waking { task, .. }
            | EventKind::Wakeup { task, .. }
            | EventKind::WakeupNew { task, .. } => note(task),
            _ => {}
        }
    }

    /// The spans of a CPU that overlap `[from, to)`, cut to it.
    pub fn within(
        &self,
        cpu: CpuId,
        from: TraceNs,
        to: TraceNs,
    ) -> impl Iterator<Item = Span> + '_ {
        let spans = self.cpus.get(&cpu).map_or(&[][..], Vec::as_slice);
        let first = spans.partition_point(|s| s.end <= from);
        spans[first..].iter().take_while(move |s| from < to && s.start < to).map(move |s| {
            let mut cut = *s;
            if cut.start < from {
                (cut.start, cut.begins, cut.calls) = (from, false, false);
            }
            cut.end = cut.end.min(to);
            cut
        })
    }

    /// Indices of a CPU's events in `[from, to]`.
    pub fn events_within<'a>(
        &'a self,
        events: &'a [Event],
        cpu: CpuId,
        from: TraceNs,
        to: TraceNs,
    ) -> &'a [usize] {
        let all = self.events.get(&cpu).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|&i| events[i].time < from);
        let last = all.partition_point(|&i| events[i].time <= to);
        &all[first..last.max(first)]
    }
}
