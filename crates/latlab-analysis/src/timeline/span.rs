//! Spans: stretches of one CPU's time with one innermost actor and one innermost function.
//!
//! Spans go to the caller as they end: what is kept is bounded by the CPUs and tasks, not by the
//! length of the trace.

use super::actor::Actor;
use super::cpu::{Cpu, PerCpu};
use super::stack::Parked;
use latlab_model::event::{Event, EventKind, Symbol, Task};
use latlab_model::units::{Nanos, Tid, TraceNs};
use std::collections::HashSet;

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
    /// The outermost interrupt, or function of a high-resolution timer, that is open; without one the
    /// outermost actor above the task.
    pub outermost: Option<Actor>,
    /// Innermost function, where functions were traced.
    pub function: Option<Symbol>,
    /// Events that mark this span's beginning: the index of the event in the capture.
    pub event: u32,
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

/// The spans of all CPUs while events go by.
#[derive(Debug, Default)]
pub struct Spans {
    cpus: PerCpu<OpenSpan>,
    /// Frames that preempted tasks took with them; tasks migrate, so this is of all CPUs.
    parked: Parked<()>,
    /// Functions that only interrupts call.
    entries: HashSet<Symbol>,
}

/// One CPU with the span that has not ended.
#[derive(Debug)]
struct OpenSpan {
    cpu: Cpu,
    since: TraceNs,
    event: u32,
    begins: bool,
    calls: bool,
}

impl Spans {
    /// Nothing seen yet. A call of one of `entries` counts as an interrupt.
    pub fn new(entries: HashSet<Symbol>) -> Self {
        Self { entries, ..Self::default() }
    }

    /// The place of an event's CPU, counted in order of their first events.
    #[inline]
    pub fn place(&mut self, event: &Event) -> usize {
        let (cpu, since) = (event.cpu, event.time);
        let open = || OpenSpan { cpu: Cpu::new(cpu), since, event: 0, begins: false, calls: false };
        self.cpus.place(cpu, open)
    }

    /// Takes one event of the CPU at a place, in rising time; `index` is its number. Each span that it
    /// ends goes to `sink`.
    #[inline]
    pub fn push(&mut self, at: usize, index: u32, event: &Event, sink: &mut impl FnMut(Span)) {
        self.cpus[at].fold(index, event, &mut self.parked, &self.entries, sink);
    }
}

impl OpenSpan {
    /// Ends the current span at `time`; an empty one is dropped, its beginnings are not.
    #[inline]
    fn cut(&mut self, time: TraceNs, event: u32, sink: &mut impl FnMut(Span)) {
        if time > self.since {
            sink(self.span(time, self.cpu.actor(), self.cpu.stack.inside()));
            self.since = time;
        }
        (self.event, self.begins, self.calls) = (event, false, false);
    }

    #[inline]
    fn span(&self, end: TraceNs, actor: Actor, inside: Option<Actor>) -> Span {
        let stranger = Task { tid: Tid(0), name: Symbol(0), prio: i32::MAX };
        Span {
            start: self.since,
            end,
            task: self.cpu.task().unwrap_or(stranger),
            actor,
            inside,
            outermost: self.cpu.stack.outermost(),
            function: self.cpu.stack.function(),
            event: self.event,
            begins: self.begins,
            calls: self.calls,
            uncut_start: self.since,
        }
    }

    fn fold(
        &mut self,
        index: u32,
        event: &Event,
        parked: &mut Parked<()>,
        entries: &HashSet<Symbol>,
        sink: &mut impl FnMut(Span),
    ) {
        let time = event.time;
        match event.kind {
            // A stack belongs to the event before it.
            EventKind::Stack { .. } => {}
            EventKind::Nmi { length } => {
                // It is reported at its end: carve it out of what is before it.
                let start = TraceNs(time.0.saturating_sub(length.0)).max(self.since);
                self.cut(start, index, sink);
                self.cpu.settle(event, parked);
                if time > start {
                    let above = self.cpu.stack.interrupt();
                    let nmi = self.span(time, Actor::Nmi, above);
                    let outermost = nmi.outermost.or(Some(Actor::Nmi));
                    sink(Span { begins: true, function: None, outermost, ..nmi });
                    self.since = time;
                }
            }
            EventKind::Switch { prev, state, next } => {
                self.cut(time, index, sink);
                self.cpu.settle(event, parked);
                self.cpu.switch(time, (prev.tid, state), next, parked);
                self.begins = true;
            }
            EventKind::FunctionEntry { function, .. } if entries.contains(&function) => {
                self.cut(time, index, sink);
                self.cpu.settle(event, parked);
                self.cpu.enter(Actor::Vector(function), function.0.into(), time);
                self.cpu.nest(time, &event.kind);
                (self.begins, self.calls) = (true, true);
            }
            EventKind::FunctionExit { function, .. } if entries.contains(&function) => {
                self.cut(time, index, sink);
                self.cpu.settle(event, parked);
                self.cpu.nest(time, &event.kind);
                self.cpu.leave(|a, _| a == Actor::Vector(function));
            }
            ref kind => {
                self.cut(time, index, sink);
                self.cpu.settle(event, parked);
                let nested = self.cpu.nest(time, kind);
                (self.begins, self.calls) = (nested.entered, nested.called);
            }
        }
    }
}
