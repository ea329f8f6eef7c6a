//! Who ran on each CPU at each moment: the spans of a capture, with its events by CPU and task.

use super::capture::{Activation, Capture};
use super::handler_lengths::{HandlerLengths, UsualLengths};
pub use crate::timeline::actor::Actor;
pub use crate::timeline::span::Span;
use crate::timeline::span::Spans;
use crate::timeline::task::Tasks;
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

/// Stretches of time in order, overlapping ones as one.
fn merged(stretches: impl Iterator<Item = (TraceNs, TraceNs)>) -> Vec<(TraceNs, TraceNs)> {
    let mut all: Vec<_> = stretches.collect();
    all.sort_unstable();
    let mut merged: Vec<(TraceNs, TraceNs)> = Vec::new();
    for (from, to) in all {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// The spans of one CPU that are kept.
struct Lane {
    spans: Vec<Span>,
    /// So many are kept for good; what follows is of the task that runs, behind at most one span that
    /// parts it from what is kept.
    kept: usize,
    /// When that task was switched in.
    since: TraceNs,
    /// The first of the wanted stretches that has not ended before.
    next: usize,
}

impl Lane {
    fn new(since: TraceNs) -> Self {
        Self { spans: Vec::new(), kept: 0, since, next: 0 }
    }

    /// The task that runs is switched out: its spans are kept if it ran in a wanted stretch.
    fn end_run(&mut self, time: TraceNs, wanted: &[(TraceNs, TraceNs)]) {
        while wanted.get(self.next).is_some_and(|(_, to)| *to < self.since) {
            self.next += 1;
        }
        let is_wanted = wanted.get(self.next).is_some_and(|(from, _)| *from <= time);
        if is_wanted || self.kept == 0 {
            self.kept = self.spans.len();
        } else if self.spans.len() > self.kept + 1 {
            let last = self.spans.len() - 1;
            self.spans.swap(self.kept, last);
            self.spans.truncate(self.kept + 1);
        }
        self.since = time;
    }
}

/// Indices of each task's scheduling events (waking, wake-up, switch in and out), in order of time.
#[derive(Clone, Debug, Default)]
pub struct Scheduling {
    /// Of one task after the other.
    events: Vec<u32>,
    /// First and last place + 1 in `events`.
    places: IntMap<Tid, (u32, u32)>,
}

impl Scheduling {
    /// Those of a task; none of the idle tasks.
    pub fn of(&self, task: Tid) -> &[u32] {
        self.places.get(&task).map_or(&[], |&(from, to)| &self.events[from as usize..to as usize])
    }
}

/// Tasks while events go by: rows as they were named last, with the number of their scheduling events.
#[derive(Default)]
struct Seen {
    tasks: Tasks<(Task, u32)>,
    /// Row and index of each scheduling event: about one of two events is one.
    events: Vec<(u32, u32)>,
}

impl Seen {
    #[inline]
    fn note(&mut self, task: Task, index: usize) {
        let row = self.tasks.find(task, 0).row;
        let (last, count) = &mut self.tasks[row].account;
        *last = task;
        if task.tid != Tid(0) {
            *count += 1;
            self.events.push((row as u32, index as u32));
        }
    }

    #[inline]
    fn take(&mut self, index: usize, kind: &EventKind) {
        use EventKind::{Switch, Wakeup, WakeupNew, Waking};
        match *kind {
            Switch { prev, next, .. } => {
                self.note(prev, index);
                self.note(next, index);
            }
            Waking { task, .. } | Wakeup { task, .. } | WakeupNew { task, .. } => {
                self.note(task, index);
            }
            _ => {}
        }
    }

    /// Name and priority of each task, and its events, sorted by counting.
    fn finish(self) -> (IntMap<Tid, Task>, Scheduling) {
        let rows = self.tasks.into_rows();
        let mut scheduling =
            Scheduling { events: vec![0; self.events.len()], places: IntMap::default() };
        let (mut next, mut from) = (Vec::with_capacity(rows.len()), 0);
        let mut tasks = IntMap::default();
        for row in &rows {
            let (last, count) = row.account;
            tasks.insert(row.tid, last);
            scheduling.places.insert(row.tid, (from, from + count));
            next.push(from as usize);
            from += count;
        }
        for (row, index) in self.events {
            let place = &mut next[row as usize];
            scheduling.events[*place] = index;
            *place += 1;
        }
        (tasks, scheduling)
    }
}

/// Lateness from which a timer is kept in [`Lanes::late_timers`].
const LATE_TIMER: u64 = 20_000;

/// Timers that expired late. Both times are of the trace's clock: `hrtimer_expire_entry` has the timer's.
#[derive(Default)]
struct LateTimers {
    due: IntMap<u64, i64>,
    late: Vec<(CpuId, TraceNs, TraceNs)>,
}

impl LateTimers {
    #[inline]
    fn take(&mut self, e: &Event) {
        match e.kind {
            EventKind::HrtimerStart { timer, expires, .. } => {
                self.due.insert(timer, expires);
            }
            EventKind::HrtimerEntry { timer, now, .. } => {
                let by = self.due.remove(&timer).map_or(0, |due| now.saturating_sub(due));
                let by = u64::try_from(by).unwrap_or(0);
                if by >= LATE_TIMER && by <= e.time.0 {
                    self.late.push((e.cpu, TraceNs(e.time.0 - by), e.time));
                }
            }
            _ => {}
        }
    }
}

/// For each span the start of the first one of its task without another task between.
fn run_starts(spans: &[Span]) -> Vec<TraceNs> {
    let mut starts: Vec<TraceNs> = Vec::with_capacity(spans.len());
    for (i, span) in spans.iter().enumerate() {
        let before = i.checked_sub(1).filter(|&k| spans[k].task.tid == span.task.tid);
        starts.push(before.map_or(span.start, |k| starts[k]));
    }
    starts
}

/// The spans of every CPU, and what is known of each task.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    /// CPU → spans in time order without overlaps: its first span, and without gaps those of each task
    /// that ran while a wake-up was under way, from when it was switched in.
    pub cpus: BTreeMap<CpuId, Vec<Span>>,
    /// For each of these spans, since when its task has the CPU, as far as spans are kept.
    runs: BTreeMap<CpuId, Vec<TraceNs>>,
    /// Last seen name and priority of each task.
    pub tasks: IntMap<Tid, Task>,
    /// Scheduling events of each task.
    pub scheduling: Scheduling,
    /// High-resolution timers that expired late: CPU, when one was due and when it expired.
    pub late_timers: Vec<(CpuId, TraceNs, TraceNs)>,
    /// How long the functions of handlers usually run, in the whole capture.
    pub handlers: UsualLengths,
    /// Functions alone were traced, and nothing tells when a task was woken: who ran instead of
    /// the measured one is seen, why is not.
    pub blind: bool,
}

impl Lanes {
    /// Folds the events of a capture into spans, those around the given wake-ups. Where functions
    /// were traced and interrupts were not, an interrupt is the call of a function that only
    /// interrupts call.
    pub fn around(capture: &Capture, wakeups: &[Activation]) -> Self {
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
        let wanted = merged(wakeups.iter().map(|a| (a.intended, a.actual)));
        Self::with_entries(&capture.events, entries, &wanted, capture.cpus.len() != 1)
    }

    /// Folds events, in rising time per CPU, into all their spans.
    #[cfg(test)]
    pub fn of(events: &[Event]) -> Self {
        Self::with_entries(events, HashSet::new(), &[(TraceNs(0), TraceNs(u64::MAX))], true)
    }

    fn with_entries(
        events: &[Event],
        entries: HashSet<Symbol>,
        wanted: &[(TraceNs, TraceNs)],
        several: bool,
    ) -> Self {
        let mut lanes = Self::default();
        let mut spans = Spans::new(entries);
        let mut cpus: Vec<(CpuId, Lane)> = Vec::new();
        let mut seen = Seen { events: Vec::with_capacity(events.len() / 2), ..Seen::default() };
        let mut timers = LateTimers::default();
        let mut handlers = HandlerLengths::default();
        let (mut calls, mut wakes) = (false, false);
        for (i, event) in events.iter().enumerate() {
            seen.take(i, &event.kind);
            // Those of other CPUs than the late one are looked for.
            if several {
                timers.take(event);
            }
            calls |= matches!(event.kind, EventKind::FunctionEntry { .. });
            wakes |= event.kind.wakes().is_some();
            let at = spans.place(event);
            if at == cpus.len() {
                cpus.push((event.cpu, Lane::new(event.time)));
            }
            let lane = &mut cpus[at].1;
            spans.push(at, i as u32, event, &mut |span| {
                handlers.take(&span);
                lane.spans.push(span);
            });
            if let EventKind::Switch { .. } = event.kind {
                lane.end_run(event.time, wanted);
            }
        }
        lanes.blind = calls && !wakes;
        lanes.late_timers = timers.late;
        lanes.handlers = handlers.finish();
        for (cpu, mut lane) in cpus {
            lane.end_run(TraceNs(u64::MAX), wanted);
            lanes.cpus.insert(cpu, lane.spans);
        }
        (lanes.tasks, lanes.scheduling) = seen.finish();
        // A task seen only as `current`, before the first switch or behind lost ones, has no name or priority yet.
        for spans in lanes.cpus.values_mut() {
            for span in spans.iter_mut().filter(|s| s.task.name == Symbol(0)) {
                if let Some(task) = lanes.tasks.get(&span.task.tid) {
                    span.task = *task;
                }
            }
        }
        lanes.runs = lanes.cpus.iter().map(|(cpu, spans)| (*cpu, run_starts(spans))).collect();
        lanes
    }

    /// Since when the task of the span that begins at `start`, or goes on there, has the CPU without another one between.
    pub fn run_start(&self, cpu: CpuId, start: TraceNs) -> TraceNs {
        let spans = self.cpus.get(&cpu).map_or(&[][..], Vec::as_slice);
        let at = spans.partition_point(|s| s.start <= start).checked_sub(1);
        let runs = self.runs.get(&cpu);
        at.and_then(|at| runs?.get(at).copied()).unwrap_or(start)
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
}
