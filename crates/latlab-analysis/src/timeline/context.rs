//! What runs on each CPU: the one fold of events into contexts, in one pass.
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
//!
//! Spans go to the caller as they end: what is kept is bounded by the CPUs and tasks, not by the
//! length of the trace.

use latlab_model::event::{Event, EventKind, OffCpu, Symbol, Task};
use latlab_model::units::{CpuId, Nanos, Tid, TraceNs};
use latlab_trace::names::IntMap;
use std::collections::HashSet;

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

/// The contexts of all CPUs while events go by.
#[derive(Debug, Default)]
pub struct Contexts {
    cpus: Vec<Folder>,
    places: IntMap<CpuId, usize>,
    /// Frames that preempted tasks took with them; tasks migrate, so this is of all CPUs.
    parked: IntMap<Tid, Parked>,
    /// Functions that only interrupts call.
    entries: HashSet<Symbol>,
}

impl Contexts {
    /// Nothing seen yet. A call of one of `entries` counts as an interrupt.
    pub fn new(entries: HashSet<Symbol>) -> Self {
        Self { entries, ..Self::default() }
    }

    /// Takes one event, in rising time per CPU; `index` is its number. Each span that it ends goes to
    /// `sink`. Returns the place of its CPU, counted in order of their first events.
    pub fn push(&mut self, index: usize, event: &Event, sink: &mut impl FnMut(Span)) -> usize {
        let at = *self.places.entry(event.cpu).or_insert_with(|| {
            self.cpus.push(Folder::new(event));
            self.cpus.len() - 1
        });
        self.cpus[at].fold(index, event, &mut self.parked, &self.entries, sink);
        at
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
#[derive(Debug)]
struct Folder {
    task: Task,
    /// Functions of the task itself, then the frames above it.
    base: Vec<Symbol>,
    frames: Vec<Frame>,
    since: TraceNs,
    event: usize,
    begins: bool,
    calls: bool,
}

impl Folder {
    fn new(first: &Event) -> Self {
        let task = Task { tid: first.current, name: Symbol(0), prio: i32::MAX };
        Self {
            task,
            base: Vec::new(),
            frames: Vec::new(),
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
    fn cut(&mut self, time: TraceNs, event: usize, sink: &mut impl FnMut(Span)) {
        if time > self.since {
            let inside =
                self.frames.iter().rev().skip(1).map(|f| f.actor).find(|a| a.is_interrupt());
            let function = match self.frames.last() {
                Some(frame) => frame.functions.last().copied(),
                None => self.base.last().copied(),
            };
            sink(Span {
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
        parked: &mut IntMap<Tid, Parked>,
        entries: &HashSet<Symbol>,
        sink: &mut impl FnMut(Span),
    ) {
        let time = event.time;
        // A stack belongs to the event before it: that of a switch is still recorded as the task's
        // that is switched out.
        if matches!(event.kind, EventKind::Stack { .. }) {
            return;
        }
        // The task underneath changed without a switch event: events were lost.
        if event.current != self.task.tid && !matches!(event.kind, EventKind::Switch { .. }) {
            self.cut(time, index, sink);
            self.task = Task { tid: event.current, name: Symbol(0), prio: i32::MAX };
            self.frames.clear();
            self.base.clear();
        }
        match event.kind {
            EventKind::Switch { prev, state, next } => {
                self.cut(time, index, sink);
                self.switch(prev, state, next, parked);
            }
            EventKind::IrqEntry { irq, name } => {
                self.enter(time, index, sink, Actor::Irq(irq, name))
            }
            EventKind::IrqExit { irq } => {
                self.leave(time, index, sink, |a| matches!(a, Actor::Irq(n, _) if n == irq))
            }
            EventKind::VectorEntry { name } | EventKind::IpiEntry { reason: name } => {
                self.enter(time, index, sink, Actor::Vector(name))
            }
            EventKind::VectorExit { name } | EventKind::IpiExit { reason: name } => {
                self.leave(time, index, sink, |a| a == Actor::Vector(name))
            }
            EventKind::SoftirqEntry { vec } => self.enter(time, index, sink, Actor::Softirq(vec)),
            EventKind::SoftirqExit { vec } => {
                self.leave(time, index, sink, |a| a == Actor::Softirq(vec))
            }
            EventKind::HrtimerEntry { function, .. } => {
                self.enter(time, index, sink, Actor::Hrtimer(function))
            }
            EventKind::HrtimerExit { .. } => {
                self.leave(time, index, sink, |a| matches!(a, Actor::Hrtimer(_)))
            }
            EventKind::TimerEntry { function, .. } => {
                self.enter(time, index, sink, Actor::Timer(function))
            }
            EventKind::TimerExit { .. } => {
                self.leave(time, index, sink, |a| matches!(a, Actor::Timer(_)))
            }
            EventKind::WorkStart { function, .. } => {
                self.enter(time, index, sink, Actor::Work(function))
            }
            EventKind::WorkEnd { .. } => {
                self.leave(time, index, sink, |a| matches!(a, Actor::Work(_)))
            }
            EventKind::Nmi { length } => self.nmi(time, index, length, sink),
            EventKind::FunctionEntry { function, depth } => {
                self.cut(time, index, sink);
                if entries.contains(&function) {
                    self.push(Actor::Vector(function));
                }
                self.call(function, depth);
            }
            EventKind::FunctionExit { function, .. } => {
                self.cut(time, index, sink);
                let stack = self.functions();
                if let Some(at) = stack.iter().rposition(|&f| f == function) {
                    stack.truncate(at);
                }
                if entries.contains(&function) {
                    self.pop(|a| a == Actor::Vector(function));
                }
            }
            _ => self.cut(time, index, sink),
        }
    }

    fn enter(&mut self, time: TraceNs, index: usize, sink: &mut impl FnMut(Span), actor: Actor) {
        self.cut(time, index, sink);
        self.push(actor);
    }

    fn leave(
        &mut self,
        time: TraceNs,
        index: usize,
        sink: &mut impl FnMut(Span),
        is: impl Fn(Actor) -> bool,
    ) {
        self.cut(time, index, sink);
        self.pop(is);
    }

    /// `nmi_handler` is reported at its end, with its length: carve it out of what is before it.
    fn nmi(&mut self, time: TraceNs, index: usize, length: Nanos, sink: &mut impl FnMut(Span)) {
        let start = TraceNs(time.0.saturating_sub(length.0)).max(self.since);
        self.cut(start, index, sink);
        self.push(Actor::Nmi);
        self.cut(time, index, sink);
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

    fn switch(&mut self, prev: Task, state: OffCpu, next: Task, parked: &mut IntMap<Tid, Parked>) {
        if state.is_gone() {
            parked.remove(&prev.tid);
        } else {
            self.park(prev.tid, parked);
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

    /// Keeps what a task that is switched out comes back to.
    fn park(&mut self, tid: Tid, parked: &mut IntMap<Tid, Parked>) {
        let stays = self.frames.iter().any(|f| f.actor.stays_with_task());
        if !stays && self.base.is_empty() {
            parked.remove(&tid);
            return;
        }
        let frames = self.frames.drain(..).filter(|f| f.actor.stays_with_task()).collect();
        let functions = std::mem::take(&mut self.base);
        parked.insert(tid, Parked { functions, frames });
    }
}
