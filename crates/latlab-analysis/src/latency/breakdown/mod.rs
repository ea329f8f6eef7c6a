//! The time budget: one wake-up cut into parts that add up to its latency, exactly.
//!
//! ```text
//! intended       interrupt       expiry      waking        switch-in         actual
//!    │  Interrupt    │   Handlers   │   Wake   │   Schedule    │    Return     │
//! ```
//!
//! | stage | from | to | CPU |
//! |---|---|---|---|
//! | `Interrupt` | the intended time | entry of the interrupt that expires the timer | the waker's |
//! | `Handlers` | | entry of our timer's function | the waker's |
//! | `Wake` | | `sched_waking` of the task | the waker's |
//! | `Schedule` | | `sched_switch` to the task | the task's |
//! | `Return` | | the task reads its clock in user space | the task's |
//! | `Activation` | the first switch to it | the task sleeps until its next activation | its own |
//!
//! Where another thread's call wakes the task, its intended time is the beginning of the call, and `Wake` is all of the
//! way to `sched_waking`: that thread's code, what interrupts it, who has its CPU.
//!
//! Inside a stage every span is attributed to its innermost actor, so a callee's
//! or a nested interrupt's time is never counted twice. What no event accounts
//! for is a part of its own: [`Cause::Unexplained`].

mod activation;
mod attribution;
mod follow;
pub(super) mod interrupt;
mod once;
mod overrun;
mod queued;
mod timerlat;
pub mod trail;

pub(super) use overrun::predecessor;

use once::Once;
use trail::Trail;

use super::capture::{Activation, Began, Capture};
use super::cpu_timeline::{Actor, Lanes, Span};
use latlab_model::event::{Event, EventKind, OffCpu, Symbol, Task};
use latlab_model::latency::{Cause, Others, Stage};
use latlab_model::units::{CpuId, Nanos, Tid, TraceNs};
use std::cell::RefCell;

/// A part of the way with one stage, one cause and one actor.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// Start.
    pub start: TraceNs,
    /// End, where the next part starts.
    pub end: TraceNs,
    /// On which CPU.
    pub cpu: CpuId,
    /// Stage.
    pub stage: Stage,
    /// Cause.
    pub cause: Cause,
    /// Who ran.
    pub actor: Actor,
    /// The task underneath.
    pub task: Task,
    /// Innermost traced function.
    pub function: Option<Symbol>,
    /// The task that the measured one waited for, where another one acted.
    pub waits_for: Option<Symbol>,
    /// The actor began here.
    pub begins: bool,
    /// The function was called here.
    pub calls: bool,
    /// The longest stretch in it without an event on this CPU.
    pub silent: Nanos,
    /// Where that stretch starts.
    pub silent_from: TraceNs,
    /// What other CPUs did during that stretch.
    pub others: Others,
    /// Length since the actor began, also before the intended time: for an
    /// interrupt or softirq since its entry, for a task since its last event.
    pub whole: Nanos,
}

impl Piece {
    /// Length.
    pub fn length(&self) -> Nanos {
        self.end.since(self.start)
    }
}

/// When each stage of a wake-up ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Milestones {
    /// Entry of the interrupt that woke the task.
    pub interrupt: TraceNs,
    /// Entry of its timer's function.
    pub expiry: TraceNs,
    /// `sched_waking`.
    pub waking: TraceNs,
    /// `sched_switch` to it.
    pub switch_in: TraceNs,
    /// The CPU that woke it.
    pub waker: CpuId,
    /// The CPU that it ran on.
    pub cpu: CpuId,
    /// Its priority when it was woken.
    pub prio: i32,
    /// The kernel recorded no switch to it: `switch_in` is when it is first seen on its CPU.
    pub switch_unseen: bool,
}

/// A wake-up's time budget. **Invariant:** the pieces tile `[intended, actual)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// The wake-up.
    pub activation: Activation,
    /// Where the stages end; `None` when the task was not asleep at its time.
    pub milestones: Option<Milestones>,
    /// The parts, in order.
    pub pieces: Vec<Piece>,
    /// Events were lost on its CPU within it, or the switch to it was not recorded.
    pub lost: bool,
    /// The buffer begins after the intended time: what happened before is not known.
    pub uncovered: bool,
    /// It is what timerlat tells: no scheduler event shows the way.
    pub by_timerlat: bool,
}

impl Budget {
    /// Length of all pieces for which `is` holds.
    pub fn sum(&self, is: impl Fn(&Piece) -> bool) -> Nanos {
        self.pieces.iter().filter(|p| is(p)).fold(Nanos(0), |sum, p| sum + p.length())
    }
}

/// Cuts a wake-up into its parts.
pub fn budget(capture: &Capture, lanes: &Lanes, activation: Activation) -> Budget {
    budget_of(capture, lanes, activation, 0, None).0
}

/// The same, and for whom each part counts.
pub fn with_trail(capture: &Capture, lanes: &Lanes, activation: Activation) -> (Budget, Trail) {
    budget_of(capture, lanes, activation, 0, Some(Trail::default()))
}

/// `later`: so many activations behind this one are looked at as well, each late by the one before. `trail` is written
/// where there is one.
fn budget_of(
    capture: &Capture,
    lanes: &Lanes,
    activation: Activation,
    later: u32,
    trail: Option<Trail>,
) -> (Budget, Trail) {
    let (once, trail) = (Once::default(), trail.map(RefCell::new));
    let cutter = Cutter { capture, lanes, a: activation, later, once, trail };
    let milestones = cutter.milestones();
    if let Some(m) = milestones {
        cutter.first_link(m);
    }
    let mut pieces = Vec::new();
    let mut by_timerlat = false;
    match milestones {
        Some(m) => {
            let before = activation.began.and_then(|b| b.after).map(|t| t.min(m.waking));
            if let Some(end) = before {
                pieces.push(cutter.overrun(activation.intended, end));
            }
            let from = before.unwrap_or(activation.intended);
            let m =
                Milestones { interrupt: m.interrupt.max(from), expiry: m.expiry.max(from), ..m };
            if activation.called {
                cutter.call(m, &mut pieces);
            } else {
                let stages = [
                    (Stage::Interrupt, from, m.interrupt, m.waker),
                    (Stage::Handlers, m.interrupt, m.expiry, m.waker),
                    (Stage::Wake, m.expiry, m.waking, m.waker),
                ];
                for (stage, from, to, cpu) in stages {
                    cutter.stage(stage, from, to, cpu, Some(m), &mut pieces);
                }
            }
            cutter.queued(m, &mut pieces);
            if activation.began.is_some() {
                cutter.activation(m, &mut pieces);
            } else {
                let (from, to) = (m.switch_in, activation.actual);
                cutter.stage(Stage::Return, from, to, m.cpu, Some(m), &mut pieces);
            }
        }
        None => match cutter.timerlat() {
            Some(told) => (pieces, by_timerlat) = (told, true),
            None => {
                let (from, to) = (activation.intended, activation.actual);
                cutter.stage(Stage::Return, from, to, activation.cpu, None, &mut pieces);
            }
        },
    }
    cutter.reach_back(&mut pieces);
    let concerns = |cpu: CpuId| cpu == activation.cpu || milestones.is_some_and(|m| m.waker == cpu);
    let lost = capture
        .lost
        .iter()
        .any(|l| l.from < activation.actual && l.to > activation.intended && concerns(l.cpu))
        || milestones.is_some_and(|m| m.switch_unseen);
    let uncovered = lanes
        .cpus
        .iter()
        .filter(|(cpu, _)| concerns(**cpu))
        .any(|(_, spans)| spans.first().is_none_or(|s| s.start > activation.intended));
    let trail = cutter.finish_trail(milestones);
    (Budget { activation, milestones, pieces, lost, uncovered, by_timerlat }, trail)
}

struct Cutter<'a> {
    capture: &'a Capture,
    lanes: &'a Lanes,
    a: Activation,
    later: u32,
    once: Once,
    trail: Option<RefCell<Trail>>,
}

impl Cutter<'_> {
    fn event(&self, index: u32) -> &Event {
        &self.capture.events[index as usize]
    }

    /// The event of this time that wakes the measured task.
    fn waking_at(&self, time: TraceNs) -> Option<&Event> {
        let own = self.lanes.scheduling.of(self.a.tid);
        let first = own.partition_point(|&i| self.event(i).time < time);
        let at = own[first..].iter().map(|&i| self.event(i)).take_while(|e| e.time == time);
        at.into_iter().find(|e| e.kind.is_waking(self.a.tid))
    }

    /// Where an activation began, its milestones are known but for the interrupt.
    fn milestones_of(&self, began: Began) -> Milestones {
        let woken = self.waking_at(began.woken).and_then(|e| Some((e.cpu, e.kind.wakes()?.0.prio)));
        let prio = self.lanes.tasks.get(&self.a.tid).map_or(i32::MAX, |t| t.prio);
        let (waker, prio) = woken.unwrap_or((self.a.cpu, prio));
        let (interrupt, expiry) = self.interrupt_of(waker, began.woken);
        let clamp = |t: TraceNs| t.clamp(self.a.intended, began.woken);
        Milestones {
            interrupt: clamp(interrupt),
            expiry: clamp(expiry),
            waking: began.woken,
            switch_in: began.start,
            waker,
            cpu: self.a.cpu,
            prio,
            switch_unseen: false,
        }
    }

    fn milestones(&self) -> Option<Milestones> {
        if let Some(began) = self.a.began {
            return Some(self.milestones_of(began));
        }
        let own = self.lanes.scheduling.of(self.a.tid);
        let after = own.partition_point(|&i| self.event(i).time < self.a.intended);
        let mine =
            || own[after..].iter().copied().take_while(|&i| self.event(i).time <= self.a.actual);
        let waking = mine().find(|&i| self.event(i).kind.is_waking(self.a.tid))?;
        // A call, or the wake-up itself, begins at the intended time, whatever the task waits for.
        let begins = self.a.called || self.event(waking).time == self.a.intended;
        if !begins && self.is_blocked_before(waking) {
            return None;
        }
        let (waker, woken) = (self.event(waking).cpu, self.event(waking).time);
        let prio = self.event(waking).kind.wakes().map_or(i32::MAX, |(task, _)| task.prio);
        let switch = mine().filter(|&i| i > waking).find(
            |&i| matches!(self.event(i).kind, EventKind::Switch { next, .. } if next.tid == self.a.tid),
        );
        let (switch_in, cpu) = match switch {
            // Its timer expired before it had left the CPU to sleep: it went on, whatever it waits for later.
            _ if self.event(waking).current == self.a.tid => (woken, waker),
            Some(i) => (self.event(i).time, self.event(i).cpu),
            None => (self.seen_running(woken), self.a.cpu),
        };
        let (interrupt, expiry) = match self.a.called {
            true => (self.a.intended, self.a.intended),
            false => self.interrupt_of(waker, woken),
        };
        let clamp = |t: TraceNs| t.clamp(self.a.intended, woken);
        Some(Milestones {
            interrupt: clamp(interrupt),
            expiry: clamp(expiry),
            waking: woken,
            switch_in,
            waker,
            cpu,
            prio,
            switch_unseen: switch.is_none() && switch_in > woken,
        })
    }

    /// Whether the wake-up ends a wait that no signal ends, for a page or a lock: its sleep to this activation is still to
    /// come, and the activation before goes on.
    fn is_blocked_before(&self, waking: u32) -> bool {
        let own = self.lanes.scheduling.of(self.a.tid);
        let before = own[..own.partition_point(|&i| i < waking)].iter().rev();
        let left = before.map(|&i| self.event(i).kind).find_map(|kind| match kind {
            EventKind::Switch { prev, state, .. } if prev.tid == self.a.tid => Some(state),
            _ => None,
        });
        left == Some(OffCpu::Blocked)
    }

    /// When a task that was woken and whose switch was not recorded ran: at once where it was still
    /// on its CPU, otherwise when it is seen there.
    fn seen_running(&self, woken: TraceNs) -> TraceNs {
        let mut spans = self.lanes.within(self.a.cpu, woken, self.a.actual);
        spans.find(|s| s.task.tid == self.a.tid).map_or(self.a.actual, |s| s.start)
    }

    /// Entry of the interrupt, and of the timer function in it, that were active at `woken`.
    fn interrupt_of(&self, cpu: CpuId, woken: TraceNs) -> (TraceNs, TraceNs) {
        let spans = self.lanes.cpus.get(&cpu).map_or(&[][..], Vec::as_slice);
        let until = spans.partition_point(|s| s.start < woken);
        let before = &spans[..until];
        let Some(last) = before.last() else { return (woken, woken) };
        let interrupt = |s: &Span| if s.actor.is_interrupt() { Some(s.actor) } else { s.inside };
        let begin_of = |is: &dyn Fn(&Span) -> bool, begun: &dyn Fn(&Span) -> bool| {
            let mut start = woken;
            for span in before.iter().rev().take_while(|s| is(s)) {
                start = span.start;
                if begun(span) {
                    break;
                }
            }
            start
        };
        let expiry = match last.actor {
            actor @ (Actor::Hrtimer(_) | Actor::Timer(_)) => {
                begin_of(&|s| s.actor == actor, &|s| s.begins)
            }
            _ => woken,
        };
        let entry = match interrupt(last) {
            Some(i) => begin_of(&|s| interrupt(s) == Some(i), &|s| s.actor == i && s.begins),
            None => expiry,
        };
        (entry.min(expiry), expiry)
    }

    /// Adds the pieces from the wake-up to the switch, in each queue that the task is in.
    fn queued(&self, m: Milestones, pieces: &mut Vec<Piece>) {
        let wait = (m.waking, m.switch_in);
        for q in self.queues(self.a.tid, (Some(m.waker), m.cpu), m.waking, wait) {
            let there = Milestones { waking: q.since, waker: q.by, ..m };
            self.stage(Stage::Schedule, q.from, q.to, q.cpu, Some(there), pieces);
        }
    }

    /// Adds the pieces of one stage.
    fn stage(
        &self,
        stage: Stage,
        from: TraceNs,
        to: TraceNs,
        cpu: CpuId,
        m: Option<Milestones>,
        pieces: &mut Vec<Piece>,
    ) {
        let mut at = from;
        for span in self.lanes.within(cpu, from, to) {
            if span.start > at {
                pieces.push(self.unknown(stage, at, span.start, cpu));
            }
            at = span.end;
            for piece in self.classify(stage, span, cpu, m) {
                match pieces.last_mut() {
                    Some(last) if joins(last, &piece) => join(last, piece),
                    _ => pieces.push(piece),
                }
            }
        }
        if at < to {
            pieces.push(self.unknown(stage, at, to, cpu));
        }
    }

    fn unknown(&self, stage: Stage, start: TraceNs, end: TraceNs, cpu: CpuId) -> Piece {
        let task = Task { tid: Tid(-1), name: Symbol(0), prio: i32::MAX };
        Piece {
            start,
            end,
            cpu,
            stage,
            cause: Cause::Unexplained,
            actor: Actor::Task(Tid(-1)),
            task,
            function: None,
            waits_for: None,
            begins: false,
            calls: false,
            silent: end.since(start),
            silent_from: start,
            others: self.others(cpu, start, end),
            whole: end.since(start),
        }
    }

    fn classify(&self, stage: Stage, span: Span, cpu: CpuId, m: Option<Milestones>) -> Vec<Piece> {
        let (cause, actor) = match self.cause(stage, &span, cpu, m) {
            Cause::Overrun => match self.once.interrupted.get_or_init(|| self.interrupted(cpu)) {
                Some(run) if span.start < run.end => (run.cause, run.actor),
                _ => (Cause::Overrun, span.actor),
            },
            Cause::IdleExit if stage == Stage::Interrupt => {
                let last = m.filter(|m| span.end >= m.interrupt);
                match last.and_then(|m| self.called_in_idle(m)) {
                    Some(function) => (Cause::Interrupt, Actor::Vector(function)),
                    None => (Cause::IdleExit, span.actor),
                }
            }
            cause => (cause, span.actor),
        };
        let piece = |start: TraceNs, end: TraceNs, cause: Cause| Piece {
            start,
            end,
            cpu,
            stage,
            cause,
            actor,
            task: span.task,
            function: span.function,
            waits_for: None,
            begins: span.begins && start == span.start,
            calls: span.calls && start == span.start,
            silent: end.since(start),
            silent_from: start,
            others: self.others(cpu, start, end),
            whole: end.since(match cause {
                Cause::ProgrammedLate => start,
                _ if span.start == self.a.intended => self.first_began(cpu, &span),
                _ => span.start,
            }),
        };
        if stage == Stage::Interrupt
            && let Some(programmed) = m.and_then(|m| self.programmed(m))
            && programmed > span.start
        {
            let split = programmed.min(span.end);
            let mut parts = vec![piece(span.start, split, Cause::ProgrammedLate)];
            if split < span.end {
                parts.push(piece(split, span.end, cause));
            }
            return parts;
        }
        vec![piece(span.start, span.end, cause)]
    }

    /// Who keeps the measured task waiting began before that was woken: the `whole` of a task goes back
    /// to when it was switched in, and that of a work item or a softirq's function to its start, without
    /// what interrupted it.
    fn reach_back(&self, pieces: &mut [Piece]) {
        let mut seen: Vec<(Tid, Actor)> = Vec::new();
        for piece in pieces {
            let (waits, is_known) = match piece.actor {
                Actor::Task(_) | Actor::Work(_) => {
                    (piece.cause == Cause::PreemptionOff || piece.cause.is_in_place(), false)
                }
                // Of an interrupt's or softirq's span at the intended time the beginning is known; a
                // second span of it, in another function, goes on from there.
                Actor::Hrtimer(_) | Actor::Timer(_) | Actor::Softirq(_) => (
                    matches!(piece.cause, Cause::TimerFunction | Cause::Softirq),
                    piece.start <= self.a.intended,
                ),
                _ => (false, false),
            };
            let who = (piece.task.tid, piece.actor);
            if !waits || seen.contains(&who) {
                continue;
            }
            seen.push(who);
            if piece.begins || is_known {
                continue;
            }
            let spans = self.lanes.cpus.get(&piece.cpu).map_or(&[][..], Vec::as_slice);
            let until = spans.partition_point(|s| s.end <= piece.start);
            for s in spans[..until].iter().rev().take_while(|s| s.task.tid == piece.task.tid) {
                if s.actor != piece.actor {
                    continue;
                }
                piece.whole = piece.whole + s.length();
                if s.begins {
                    break;
                }
            }
        }
    }

    /// What the other CPUs did strictly inside a stretch.
    fn others(&self, cpu: CpuId, start: TraceNs, end: TraceNs) -> Others {
        if self.lanes.cpus.keys().all(|c| *c == cpu) {
            return Others::None;
        }
        let ran = |e: &Event| e.time > start && e.time < end && e.cpu != cpu;
        if self.capture.within(start, end).iter().any(ran) { Others::Ran } else { Others::Silent }
    }
}

/// Whether a piece goes on where the last one ended.
fn joins(last: &Piece, next: &Piece) -> bool {
    last.end == next.start
        && last.waits_for == next.waits_for
        && (last.stage, last.cause, last.actor, last.function, last.cpu)
            == (next.stage, next.cause, next.actor, next.function, next.cpu)
        && last.task.tid == next.task.tid
        && !next.begins
        && !next.calls
}

fn join(last: &mut Piece, next: Piece) {
    last.end = next.end;
    last.whole = last.whole + next.whole;
    if next.silent > last.silent {
        (last.silent, last.silent_from) = (next.silent, next.silent_from);
        last.others = next.others;
    }
}

#[cfg(test)]
mod tests;
