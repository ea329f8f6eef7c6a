//! Who ran on each CPU at each moment: events folded into spans.
//!
//! A CPU's context is a stack: the task at the bottom, and above it what
//! interrupted it, innermost last.
//!
//! ```text
//!                      ┌ hrtimer function ┐
//!            ┌ interrupt ─────────────────────┐┌ softirq ┐
//! ───── task A ──────────────────────────────────────────────│ task B ───
//! ```
//!
//! On PREEMPT_RT softirqs and work items run in task context and can be
//! preempted: those frames belong to the task and come back with it. Interrupt
//! frames cannot survive a switch; one that does lost its exit event and is dropped.

use super::capture::{Capture, Event, LeftAs, Symbol, Task, What};
use crate::units::{CpuId, Nanos, Tid, TraceNs};
use std::collections::{BTreeMap, HashMap, HashSet};

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

/// What ran, as far as the events tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Actor {
    /// Nothing to run.
    Idle,
    /// A task's own code, in user space or in the kernel on its behalf.
    Task(Tid),
    /// An interrupt handler.
    Irq(i32, Symbol),
    /// An interrupt without a number: a timer tick, an IPI.
    Vector(Symbol),
    /// A non-maskable interrupt.
    Nmi,
    /// A softirq.
    Softirq(u32),
    /// The function of a high-resolution timer, in hard-irq or softirq context.
    Hrtimer(Symbol),
    /// The function of a timer-wheel timer.
    Timer(Symbol),
    /// A work item.
    Work(Symbol),
}

impl Actor {
    /// Frames that belong to the task and are preempted with it.
    fn stays_with_task(self) -> bool {
        matches!(self, Self::Softirq(_) | Self::Timer(_) | Self::Work(_))
    }
    /// Whether it runs in interrupt context whatever the kernel.
    pub fn is_interrupt(self) -> bool {
        matches!(self, Self::Irq(..) | Self::Vector(_) | Self::Nmi)
    }
}

/// A stretch of time on one CPU with one innermost actor and one innermost traced function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Start.
    pub start: TraceNs,
    /// End, exclusive; the next span starts here.
    pub end: TraceNs,
    /// The task underneath.
    pub task: Task,
    /// Innermost actor.
    pub actor: Actor,
    /// The interrupt that the actor runs inside of, if any (an hrtimer function inside the timer interrupt).
    pub inside: Option<Actor>,
    /// Innermost function, where functions were traced.
    pub function: Option<Symbol>,
    /// Events that mark this span's beginning: the index of the event in the capture.
    pub event: usize,
    /// The actor's frame began here (false: it went on after a nested one).
    pub begins: bool,
    /// The function was called here (false: a callee returned to it).
    pub calls: bool,
    /// Where it started before it was cut to a window.
    pub uncut_start: TraceNs,
}

impl Span {
    /// Length.
    pub fn length(&self) -> Nanos {
        self.end.since(self.start)
    }
}

/// The spans of every CPU, and what is known of each task.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    /// CPU → spans in time order without gaps or overlaps.
    pub cpus: BTreeMap<CpuId, Vec<Span>>,
    /// CPU → indices of its events.
    pub events: BTreeMap<CpuId, Vec<usize>>,
    /// Last seen name and priority of each task.
    pub tasks: HashMap<Tid, Task>,
    /// Task → indices of its scheduling events (waking, wake-up, switch in and out, migration).
    pub scheduling: HashMap<Tid, Vec<usize>>,
    /// Functions alone were traced, and nothing tells when a task was woken: who ran instead of
    /// the measured one is seen, why is not.
    pub blind: bool,
}

impl Lanes {
    /// Folds the events of a capture into spans. Where functions were traced and interrupts were
    /// not, an interrupt is the call of a function that only interrupts call.
    pub fn of_capture(capture: &Capture) -> Self {
        let told = |e: &Event| matches!(e.what, What::IrqEntry { .. } | What::VectorEntry { .. });
        let mut entries = HashSet::new();
        if !capture.events.iter().any(told) {
            for e in &capture.events {
                if let What::FunctionEntry { function, .. } = e.what
                    && is_interrupt_entry(capture.names.get(function))
                {
                    entries.insert(function);
                }
            }
        }
        let mut lanes = Self::with_entries(&capture.events, &entries);
        let wakes = |e: &Event| matches!(e.what, What::Waking { .. } | What::Wakeup { .. });
        let calls = |e: &Event| matches!(e.what, What::FunctionEntry { .. });
        lanes.blind = capture.events.iter().any(calls) && !capture.events.iter().any(wakes);
        lanes
    }

    /// Folds events, in rising time per CPU, into spans.
    pub fn of(events: &[Event]) -> Self {
        Self::with_entries(events, &HashSet::new())
    }

    fn with_entries(events: &[Event], entries: &HashSet<Symbol>) -> Self {
        let mut folders: BTreeMap<CpuId, Folder> = BTreeMap::new();
        let mut lanes = Self::default();
        // Frames that preempted tasks took with them; tasks migrate, so this is global.
        let mut parked: HashMap<Tid, Parked> = HashMap::new();
        for (i, event) in events.iter().enumerate() {
            lanes.learn(i, &event.what);
            lanes.events.entry(event.cpu).or_default().push(i);
            folders.entry(event.cpu).or_insert_with(|| Folder::new(event)).fold(
                i,
                event,
                &mut parked,
                entries,
            );
        }
        for (cpu, folder) in folders {
            lanes.cpus.insert(cpu, folder.finish());
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

    fn learn(&mut self, index: usize, what: &What) {
        let mut note = |task: Task| {
            if task.tid != Tid(0) {
                self.scheduling.entry(task.tid).or_default().push(index);
            }
            self.tasks.insert(task.tid, task);
        };
        match *what {
            What::Switch { prev, next, .. } => {
                note(prev);
                note(next);
            }
            What::Waking { task, .. } | What::Wakeup { task, .. } => note(task),
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

/// A frame above the task: an actor with the functions called inside it.
#[derive(Clone, Debug)]
struct Frame {
    actor: Actor,
    functions: Vec<Symbol>,
}

/// What a task that was switched out comes back to.
#[derive(Clone, Debug)]
struct Parked {
    functions: Vec<Symbol>,
    frames: Vec<Frame>,
}

/// Folds one CPU's events.
struct Folder {
    task: Task,
    /// Functions of the task itself, then the frames above it.
    base: Vec<Symbol>,
    frames: Vec<Frame>,
    spans: Vec<Span>,
    since: TraceNs,
    event: usize,
    begins: bool,
    calls: bool,
}

impl Folder {
    fn new(first: &Event) -> Self {
        let task = Task { tid: first.tid, name: Symbol(0), prio: i32::MAX };
        Self {
            task,
            base: Vec::new(),
            frames: Vec::new(),
            spans: Vec::new(),
            since: first.time,
            event: 0,
            begins: false,
            calls: false,
        }
    }

    fn actor(&self) -> Actor {
        match self.frames.last() {
            Some(frame) => frame.actor,
            None if self.task.tid == Tid(0) => Actor::Idle,
            None => Actor::Task(self.task.tid),
        }
    }

    fn functions(&mut self) -> &mut Vec<Symbol> {
        match self.frames.last_mut() {
            Some(frame) => &mut frame.functions,
            None => &mut self.base,
        }
    }

    /// Ends the current span at `time`; an empty one is dropped, its beginnings are not.
    fn cut(&mut self, time: TraceNs, event: usize) {
        if time > self.since {
            let inside =
                self.frames.iter().rev().skip(1).map(|f| f.actor).find(|a| a.is_interrupt());
            let function = match self.frames.last() {
                Some(frame) => frame.functions.last().copied(),
                None => self.base.last().copied(),
            };
            self.spans.push(Span {
                start: self.since,
                end: time,
                task: self.task,
                actor: self.actor(),
                inside,
                function,
                event: self.event,
                begins: self.begins,
                calls: self.calls,
                uncut_start: self.since,
            });
            self.since = time;
        }
        (self.event, self.begins, self.calls) = (event, false, false);
    }

    fn push(&mut self, actor: Actor) {
        self.frames.push(Frame { actor, functions: Vec::new() });
        self.begins = true;
    }

    /// Leaves the innermost frame for which `is` holds, and any above it whose exit was lost.
    fn pop(&mut self, is: impl Fn(Actor) -> bool) {
        if let Some(at) = self.frames.iter().rposition(|f| is(f.actor)) {
            self.frames.truncate(at);
        }
    }

    fn fold(
        &mut self,
        index: usize,
        event: &Event,
        parked: &mut HashMap<Tid, Parked>,
        entries: &HashSet<Symbol>,
    ) {
        let time = event.time;
        // A stack belongs to the event before it: that of a switch is still recorded as the task's
        // that is switched out.
        if matches!(event.what, What::Stack { .. }) {
            return;
        }
        // The task underneath changed without a switch event: events were lost.
        if event.tid != self.task.tid && !matches!(event.what, What::Switch { .. }) {
            self.cut(time, index);
            self.task = Task { tid: event.tid, name: Symbol(0), prio: i32::MAX };
            self.frames.clear();
            self.base.clear();
        }
        match event.what {
            What::Switch { prev, left_as, next } => {
                self.cut(time, index);
                self.switch(prev, left_as, next, parked);
            }
            What::IrqEntry { irq, name } => self.enter(time, index, Actor::Irq(irq, name)),
            What::IrqExit { irq } => {
                self.leave(time, index, |a| matches!(a, Actor::Irq(n, _) if n == irq))
            }
            What::VectorEntry { name } => self.enter(time, index, Actor::Vector(name)),
            What::VectorExit { name } => self.leave(time, index, |a| a == Actor::Vector(name)),
            What::SoftirqEntry { vec } => self.enter(time, index, Actor::Softirq(vec)),
            What::SoftirqExit { vec } => self.leave(time, index, |a| a == Actor::Softirq(vec)),
            What::HrtimerEntry { function, .. } => {
                self.enter(time, index, Actor::Hrtimer(function))
            }
            What::HrtimerExit { .. } => self.leave(time, index, |a| matches!(a, Actor::Hrtimer(_))),
            What::TimerEntry { function, .. } => self.enter(time, index, Actor::Timer(function)),
            What::TimerExit { .. } => self.leave(time, index, |a| matches!(a, Actor::Timer(_))),
            What::WorkStart { function } => self.enter(time, index, Actor::Work(function)),
            What::WorkEnd => self.leave(time, index, |a| matches!(a, Actor::Work(_))),
            What::Nmi { length } => self.nmi(time, index, length),
            What::FunctionEntry { function, depth } => {
                self.cut(time, index);
                if entries.contains(&function) {
                    self.push(Actor::Vector(function));
                }
                self.call(function, depth);
            }
            What::FunctionExit { function, .. } => {
                self.cut(time, index);
                let stack = self.functions();
                if let Some(at) = stack.iter().rposition(|&f| f == function) {
                    stack.truncate(at);
                }
                if entries.contains(&function) {
                    self.pop(|a| a == Actor::Vector(function));
                }
            }
            _ => self.cut(time, index),
        }
    }

    fn enter(&mut self, time: TraceNs, index: usize, actor: Actor) {
        self.cut(time, index);
        self.push(actor);
    }

    fn leave(&mut self, time: TraceNs, index: usize, is: impl Fn(Actor) -> bool) {
        self.cut(time, index);
        self.pop(is);
    }

    /// `nmi_handler` is reported at its end, with its length: carve it out of what is before it.
    fn nmi(&mut self, time: TraceNs, index: usize, length: Nanos) {
        let start = TraceNs(time.0.saturating_sub(length.0)).max(self.since);
        self.cut(start, index);
        self.push(Actor::Nmi);
        self.cut(time, index);
        self.pop(|a| a == Actor::Nmi);
    }

    fn call(&mut self, function: Symbol, depth: u32) {
        // `depth` counts from the outermost traced function of the *task*, also inside
        // an interrupt: only a depth that is too small for the stack tells of lost exits.
        let above: usize =
            self.base.len() + self.frames.iter().map(|f| f.functions.len()).sum::<usize>();
        let surplus = above.saturating_sub(depth as usize);
        let stack = self.functions();
        let keep = stack.len().saturating_sub(surplus);
        stack.truncate(keep);
        stack.push(function);
        self.calls = true;
    }

    fn switch(
        &mut self,
        prev: Task,
        left_as: LeftAs,
        next: Task,
        parked: &mut HashMap<Tid, Parked>,
    ) {
        if left_as == LeftAs::Gone {
            parked.remove(&prev.tid);
        } else {
            let frames = self.frames.drain(..).filter(|f| f.actor.stays_with_task()).collect();
            let functions = std::mem::take(&mut self.base);
            parked.insert(prev.tid, Parked { functions, frames });
        }
        self.frames.clear();
        self.base.clear();
        if let Some(back) = parked.remove(&next.tid) {
            self.base = back.functions;
            self.frames = back.frames;
        }
        self.task = next;
        self.begins = true;
    }

    fn finish(self) -> Vec<Span> {
        self.spans
    }
}
