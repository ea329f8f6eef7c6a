//! What follows the start of an activation, cut until its end: the task's own code, what interrupts it, who
//! has its CPU while it is runnable, and what it waits for.
//!
//! A wait is followed to its end: the task that ended it ran, was kept from its CPU, or waited itself. Each
//! interval of the wait is attributed to who acted then, so that a consumer that waits for a preempted producer
//! names the task that ran instead. The way is that of F. Giraldeau and M. Dagenais, "Wait analysis of
//! distributed systems using kernel tracing" (2016): only the part inside of the wait is followed.

use super::attribution::interruption;
use super::queued::Queued;
use super::trail::{Link, LinkKind, OffInterval, Standing, Step};
use super::{Cutter, Milestones, Piece, join, joins};
use crate::latency::cpu_timeline::{Actor, Span};
use latlab_model::event::{Event, EventKind, OffCpu, Symbol, Task};
use latlab_model::latency::{Cause, Others, Stage};
use latlab_model::units::{CpuId, Nanos, Tid, TraceNs};

/// Tasks that wait for each other, followed at most.
const DEPTH: u32 = 12;
/// Events of a CPU before a wait among which the reason is looked for.
const BACK: usize = 4_096;

/// What a task does in an interval.
#[derive(Clone, Copy)]
enum Doing {
    /// Has this CPU.
    Running(CpuId),
    /// Waits for this CPU, runnable since then.
    Ready(CpuId, TraceNs),
    /// Waits; it left its CPU then.
    Asleep(CpuId, TraceNs, OffCpu),
}

/// An interval with one state. A wait ends with the event of the wake-up.
struct Interval {
    from: TraceNs,
    to: TraceNs,
    doing: Doing,
    waking: Option<u32>,
}

/// Whose interval is cut.
#[derive(Clone, Copy)]
struct Of {
    tid: Tid,
    prio: i32,
    /// The task that the measured one waits for; `None`: it is the measured one.
    waits_for: Option<Symbol>,
    /// The cause of the time in which its own code runs.
    runs: Cause,
    depth: u32,
}

impl Cutter<'_> {
    /// Adds the pieces from another thread's call to the wake-up that it makes: that thread's own code is the ordinary
    /// way.
    pub(super) fn call(&self, m: Milestones, pieces: &mut Vec<Piece>) {
        let Some(waking) = self.waking_at(m.waking) else {
            return self.stage(Stage::Wake, self.a.intended, m.waking, m.waker, Some(m), pieces);
        };
        let (waits_for, runs) = (None, Cause::Path);
        let of = Of { tid: self.a.tid, prio: m.prio, waits_for, runs, depth: 0 };
        let mut way = Vec::new();
        match self.context(waking) {
            // The call only let another machine, or a device, answer.
            Some(actor) if waking.current.0 <= 0 || !matches!(actor, Actor::Softirq(_)) => {
                let wait = self.plain(of, self.a.intended, m.waking, Cause::Wait);
                way.push(Piece { actor, ..wait });
            }
            _ => {
                let caller = Of { runs, ..self.waited_for(of, waking.current) };
                self.path(caller, self.a.intended, m.waking, None, &mut way);
            }
        }
        pieces.extend(way.into_iter().map(|piece| Piece { stage: Stage::Wake, ..piece }));
    }

    /// Adds the pieces from the start of the activation to its end.
    pub(super) fn activation(&self, m: Milestones, pieces: &mut Vec<Piece>) {
        let (waits_for, runs) = (None, Cause::Execution);
        let of = Of { tid: self.a.tid, prio: m.prio, waits_for, runs, depth: 0 };
        let by_event = self.a.began.is_some_and(|began| began.by_event);
        let began = by_event.then(|| self.doing_at(of.tid, m.switch_in)).flatten();
        let began = began.unwrap_or(Doing::Running(m.cpu));
        self.path(of, m.switch_in, self.a.actual, Some(began), pieces);
    }

    /// Whose time an interval is.
    fn stands(&self, of: Of, from: TraceNs, to: TraceNs, standing: Standing) {
        self.step(Step { from, to, tid: of.tid, standing, depth: of.depth });
    }

    fn path(&self, of: Of, from: TraceNs, to: TraceNs, began: Option<Doing>, out: &mut Vec<Piece>) {
        let Some(began) = began.or_else(|| self.doing_at(of.tid, from)) else {
            self.stands(of, from, to, Standing::Waiting);
            return self.put(out, self.plain(of, from, to, Cause::Wait));
        };
        for interval in self.intervals(of.tid, from, to, began) {
            let (from, to) = (interval.from, interval.to);
            match interval.doing {
                Doing::Running(cpu) => self.runs_or_spins(of, cpu, (from, to), out),
                Doing::Ready(cpu, since) => self.is_ready(of, cpu, since, (from, to), out),
                Doing::Asleep(cpu, since, left) => {
                    self.waits(of, (cpu, since, left), &interval, out);
                }
            }
        }
    }

    /// What a task does at a moment, by its last switch and what woke it since.
    fn doing_at(&self, tid: Tid, at: TraceNs) -> Option<Doing> {
        let own = self.lanes.scheduling.of(tid);
        let until = own.partition_point(|&i| self.event(i).time <= at);
        let before = own[..until].iter().rev().map(|&i| self.event(i));
        let mut woken = None;
        for e in before {
            match e.kind {
                EventKind::Switch { next, .. } if next.tid == tid => {
                    return Some(Doing::Running(e.cpu));
                }
                EventKind::Switch { state, .. } if state.is_runnable() => {
                    return Some(Doing::Ready(e.cpu, e.time));
                }
                EventKind::Switch { state, .. } => {
                    return Some(woken.unwrap_or(Doing::Asleep(e.cpu, e.time, state)));
                }
                _ => woken = target(e, tid).map(|cpu| Doing::Ready(cpu, e.time)).or(woken),
            }
        }
        woken
    }

    /// The states of a task from one moment to another.
    fn intervals(&self, tid: Tid, from: TraceNs, to: TraceNs, began: Doing) -> Vec<Interval> {
        let own = self.lanes.scheduling.of(tid);
        let first = own.partition_point(|&i| self.event(i).time <= from);
        let mut all = Vec::new();
        let (mut doing, mut since) = (began, from);
        for &i in &own[first..] {
            let e = self.event(i);
            if e.time >= to {
                break;
            }
            let next = match (e.kind, doing) {
                (EventKind::Switch { prev, state, .. }, _) if prev.tid == tid => {
                    match state.is_runnable() {
                        true => Doing::Ready(e.cpu, e.time),
                        false => Doing::Asleep(e.cpu, e.time, state),
                    }
                }
                (EventKind::Switch { .. }, _) => Doing::Running(e.cpu),
                (_, Doing::Asleep(..)) => match target(e, tid) {
                    Some(cpu) => Doing::Ready(cpu, e.time),
                    None => continue,
                },
                _ => continue,
            };
            let waking = matches!(doing, Doing::Asleep(..)).then_some(i);
            all.push(Interval { from: since, to: e.time, doing, waking });
            (doing, since) = (next, e.time);
        }
        let waking = match doing {
            Doing::Asleep(..) => own[first..].iter().copied().find(|&i| {
                let e = self.event(i);
                e.time >= to && target(e, tid).is_some()
            }),
            _ => None,
        };
        all.push(Interval { from: since, to, doing, waking });
        all.retain(|s| s.from < s.to);
        all
    }

    /// A waiter for a lock with priority inheritance may spin while the owner runs: from the moment at which it
    /// raises the owner's priority until that falls back.
    fn runs_or_spins(
        &self,
        of: Of,
        cpu: CpuId,
        (from, to): (TraceNs, TraceNs),
        out: &mut Vec<Piece>,
    ) {
        let mut at = from;
        let events = self.capture.within(from, to);
        for (i, e) in events.iter().enumerate() {
            let owner = match e.kind {
                EventKind::SetPrio { task, new } if new < task.prio => task,
                _ => continue,
            };
            if e.current != of.tid || owner.tid == of.tid || e.cpu != cpu || e.time < at {
                continue;
            }
            let falls = |e: &&Event| matches!(e.kind, EventKind::SetPrio { task, new } if task.tid == owner.tid && new > task.prio);
            let fallen = events[i..].iter().find(falls);
            let end = fallen.map_or(to, |e| e.time);
            self.runs(of, cpu, at, e.time, out);
            if let Some(e) = fallen {
                self.link(Link {
                    kind: LinkKind::HandsOn,
                    at: e.time,
                    cpu: e.cpu,
                    by: e.current,
                    context: None,
                    to: of.tid,
                    target: cpu,
                    begins: None,
                    depth: of.depth,
                });
            }
            let waits_for = of.waits_for.or(Some(owner.name));
            let known = self.lanes.tasks.get(&owner.tid).map_or(owner.prio, |t| t.prio);
            let depth = of.depth + 1;
            if depth < DEPTH {
                let of = Of { tid: owner.tid, prio: known, waits_for, runs: Cause::Wait, depth };
                self.path(of, e.time, end, None, out);
            } else {
                self.stands(of, e.time, end, Standing::Waiting);
                self.put(out, self.plain(of, e.time, end, Cause::Wait));
            }
            at = end;
        }
        self.runs(of, cpu, at, to, out);
    }

    fn runs(&self, of: Of, cpu: CpuId, from: TraceNs, to: TraceNs, out: &mut Vec<Piece>) {
        self.stands(of, from, to, Standing::Running);
        self.cut(of, cpu, from, to, out, |span| interruption(span).unwrap_or(of.runs));
    }

    fn is_ready(
        &self,
        of: Of,
        cpu: CpuId,
        since: TraceNs,
        (from, to): (TraceNs, TraceNs),
        out: &mut Vec<Piece>,
    ) {
        self.stands(of, from, to, Standing::Ready);
        let (tid, depth) = (of.tid, of.depth);
        self.off(OffInterval { from, to, tid, cpu, since, waits: false, depth });
        let put = (self.woken_by(of.tid, since), self.first_queue(of.tid, cpu, to));
        for q in self.queues(of.tid, put, since, (from, to)) {
            self.is_queued(of, q, out);
        }
    }

    /// The CPU in whose queue a task is that runs next from `to` on: that on which it runs, where the trace has no
    /// event of its way there; `cpu` where it is not seen to run.
    fn first_queue(&self, tid: Tid, cpu: CpuId, to: TraceNs) -> CpuId {
        let own = self.lanes.scheduling.of(tid);
        let first = own.partition_point(|&i| self.event(i).time < to);
        let mut at = own[first..].iter().map(|&i| self.event(i));
        let switch = at.find(|e| matches!(e.kind, EventKind::Switch { .. }));
        let runs = |e: &&Event| matches!(e.kind, EventKind::Switch { next, .. } if next.tid == tid);
        switch.filter(runs).map_or(cpu, |e| e.cpu)
    }

    /// A part of that in the queue of one CPU.
    fn is_queued(&self, of: Of, q: Queued, out: &mut Vec<Piece>) {
        let (cpu, from, to) = (q.cpu, q.from, q.to);
        // It has the CPU, and the switch to it was not recorded.
        let ran = self.lanes.within(cpu, from, to).any(|s| s.task.tid == of.tid);
        if ran && of.waits_for.is_some() {
            return self.put(out, self.plain(of, from, to, Cause::Wait));
        }
        let m = Milestones {
            interrupt: q.since,
            expiry: q.since,
            waking: q.since,
            switch_in: to,
            waker: q.by,
            cpu,
            prio: of.prio,
            switch_unseen: false,
        };
        self.cut(of, cpu, from, to, out, |span| {
            match self.before_switch(of.tid, cpu, span, Some(m)) {
                Cause::Path if of.waits_for.is_some() => Cause::Wait,
                cause => cause,
            }
        });
    }

    /// A wait: of the measured task, or of one that it waits for.
    fn waits(
        &self,
        of: Of,
        (cpu, since, left): (CpuId, TraceNs, OffCpu),
        interval: &Interval,
        out: &mut Vec<Piece>,
    ) {
        let (from, to) = (interval.from, interval.to);
        let last = self.last_own(of.tid, cpu, since);
        let own = of.waits_for.is_none();
        let waking = interval.waking.map(|i| self.event(i));
        if let Some(waking) = waking.filter(|e| e.time <= to) {
            self.woken(waking, of.tid, of.depth, since);
        }
        let (tid, depth) = (of.tid, of.depth);
        self.off(OffInterval { from, to, tid, cpu, since, waits: true, depth });
        let plain = |cause: Cause| self.plain(of, from, to, cause);
        let contended =
            matches!(last, Some(EventKind::LockBegin { .. } | EventKind::SetPrio { .. }));
        let piece = match (last, waking) {
            (Some(EventKind::PageFault { .. }), _) if own => plain(Cause::PageFault),
            _ if own && contended && left.is_waiting() => plain(Cause::Lock),
            (_, None) => plain(Cause::Wait),
            (_, Some(waking)) => match self.context(waking) {
                // Another task that sleeps is what is waited for, not the timer that ends its sleep.
                Some(Actor::Hrtimer(function)) if self.is_sleeper(function) => {
                    plain(if own { Cause::Sleep } else { Cause::Wait })
                }
                Some(actor) => Piece { actor, ..plain(Cause::Wait) },
                None if of.depth < DEPTH
                    && waking.current != of.tid
                    && waking.current.0 > 0
                    && !waking.kind.in_interrupt() =>
                {
                    return self.path(self.waited_for(of, waking.current), from, to, None, out);
                }
                None => plain(Cause::Wait),
            },
        };
        self.stands(of, from, to, Standing::Waiting);
        self.put(out, piece);
    }

    /// The task that wakes another one, as what that one waits for.
    fn waited_for(&self, of: Of, waker: Tid) -> Of {
        let known = self.lanes.tasks.get(&waker);
        let prio = known.map_or(i32::MAX, |t| t.prio);
        let name = known.map_or(Symbol(0), |t| t.name);
        let waits_for = of.waits_for.or(Some(name));
        Of { tid: waker, prio, waits_for, runs: Cause::Wait, depth: of.depth + 1 }
    }

    /// The innermost interrupt or function that was active when a task was woken; `None`: the current task
    /// itself woke it.
    pub(super) fn context(&self, waking: &Event) -> Option<Actor> {
        let before = TraceNs(waking.time.0.saturating_sub(1));
        let span = self.lanes.within(waking.cpu, before, waking.time).last()?;
        let task = matches!(span.actor, Actor::Task(_) | Actor::Idle);
        match span.inside.filter(|_| task) {
            Some(interrupt) => Some(interrupt),
            None => (!task && span.actor != Actor::Nmi).then_some(span.actor),
        }
    }

    /// Whether an interrupt, or a function of one, woke a task.
    pub(super) fn is_by_interrupt(&self, waking: &Event) -> bool {
        waking.kind.in_interrupt() || self.context(waking).is_some()
    }

    pub(super) fn is_sleeper(&self, function: Symbol) -> bool {
        self.capture.names.get(function).starts_with("hrtimer_wakeup")
    }

    /// The last event of a task before it left its CPU that says what for.
    fn last_own(&self, tid: Tid, cpu: CpuId, left: TraceNs) -> Option<EventKind> {
        let own = self.capture.back(cpu, self.a.intended.min(left), left);
        own.take(BACK).filter(|e| e.current == tid).map(|e| e.kind).find(|kind| {
            matches!(
                kind,
                EventKind::PageFault { .. }
                    | EventKind::LockBegin { .. }
                    | EventKind::LockEnd { .. }
                    | EventKind::SetPrio { .. }
                    | EventKind::SyscallEnter { .. }
                    | EventKind::SyscallExit { .. }
                    | EventKind::HrtimerStart { .. }
            )
        })
    }

    /// Adds a piece for each span of a CPU; what no span covers is unexplained.
    fn cut(
        &self,
        of: Of,
        cpu: CpuId,
        from: TraceNs,
        to: TraceNs,
        out: &mut Vec<Piece>,
        cause: impl Fn(&Span) -> Cause,
    ) {
        let mut at = from;
        for span in self.lanes.within(cpu, from, to) {
            if span.start > at {
                self.put(out, self.unknown(Stage::Activation, at, span.start, cpu));
            }
            at = span.end;
            let cause = cause(&span);
            let waits_for = of.waits_for.filter(|_| span.task.tid != of.tid);
            self.put(
                out,
                Piece {
                    start: span.start,
                    end: span.end,
                    cpu,
                    stage: Stage::Activation,
                    cause,
                    actor: span.actor,
                    task: span.task,
                    function: span.function,
                    waits_for,
                    begins: span.begins,
                    calls: span.calls,
                    silent: span.length(),
                    silent_from: span.start,
                    others: self.others(cpu, span.start, span.end),
                    whole: span.length(),
                },
            );
        }
        if at < to {
            self.put(out, self.unknown(Stage::Activation, at, to, cpu));
        }
    }

    /// A piece of a task without spans of a CPU.
    fn plain(&self, of: Of, start: TraceNs, end: TraceNs, cause: Cause) -> Piece {
        let unnamed = Task { tid: of.tid, name: Symbol(0), prio: of.prio };
        Piece {
            start,
            end,
            cpu: self.a.cpu,
            stage: Stage::Activation,
            cause,
            actor: Actor::Task(of.tid),
            task: self.lanes.tasks.get(&of.tid).copied().unwrap_or(unnamed),
            function: None,
            waits_for: None,
            begins: true,
            calls: false,
            silent: Nanos(0),
            silent_from: start,
            others: Others::None,
            whole: end.since(start),
        }
    }

    fn put(&self, out: &mut Vec<Piece>, piece: Piece) {
        match out.last_mut() {
            Some(last) if joins(last, &piece) => join(last, piece),
            _ => out.push(piece),
        }
    }
}

/// The CPU for which an event wakes a task.
fn target(e: &Event, tid: Tid) -> Option<CpuId> {
    let (task, target) = e.kind.wakes()?;
    (task.tid == tid).then_some(target)
}

#[cfg(test)]
mod tests {
    use crate::latency::breakdown::{Budget, with_trail};
    use crate::latency::capture::Activation;
    use crate::latency::cpu_timeline::Lanes;
    use crate::latency::critical_path::critical_path;
    use crate::latency::scenario::{FAIR, HIGH, IDLE, RT, Script};
    use latlab_model::event::{EventKind, OffCpu, Symbol, Task};
    use latlab_model::latency::{Cause, Stage};
    use latlab_model::units::{CpuId, Tid};

    /// The thread whose call wakes the measured one.
    const WAKER: Task = Task { tid: Tid(400), name: Symbol(2), prio: 10 };

    fn called(s: &mut Script, intended: f64, actual: f64) -> Budget {
        let a = Activation { called: true, ..s.wakes(intended, actual, true) };
        s.capture.events.sort_by_key(|e| e.time);
        let (b, trail) = with_trail(&s.capture, &Lanes::of(&s.capture.events), a);
        let mut at = a.intended;
        for p in &b.pieces {
            assert_eq!(p.start, at, "{b:#?}");
            at = p.end;
        }
        assert_eq!(at, a.actual, "{b:#?}");
        let path = critical_path(&s.capture, &b, trail);
        let sum: u64 = path.segments.iter().map(|s| s.part.length_ns()).sum();
        assert_eq!(sum, a.latency().0, "{path:#?}");
        b
    }

    fn us(b: &Budget, cause: Cause) -> f64 {
        b.sum(|p| p.cause == cause).as_us_f64()
    }

    fn waking() -> EventKind {
        EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false }
    }

    /// A timer's waiter that another task wakes would wait for a lock.
    #[test]
    fn the_code_of_the_call_is_the_ordinary_way() {
        let mut s = Script::default();
        s.switch(0.0, RT, WAKER).at(103.0, waking()).preempt(108.0, WAKER, RT);
        s.at(111.0, EventKind::Other);
        let b = called(&mut s, 100.0, 110.0);
        assert_eq!(us(&b, Cause::Path), 10.0, "{b:#?}");
        assert_eq!(b.sum(|p| p.stage == Stage::Wake).as_us_f64(), 3.0, "{b:#?}");
    }

    #[test]
    fn who_keeps_the_calling_thread_from_its_cpu_is_named() {
        let mut s = Script::default();
        s.switch(0.0, RT, IDLE).at(501.0, EventKind::Other);
        let run = |prev, next| EventKind::Switch { prev, state: OffCpu::Runnable, next };
        s.on(1, 0.0, run(FAIR, WAKER)).on(1, 101.0, run(WAKER, HIGH));
        s.on(1, 401.0, run(HIGH, WAKER)).on(1, 404.0, waking());
        s.preempt(409.0, IDLE, RT).at(412.0, EventKind::Other);
        let b = called(&mut s, 100.0, 411.0);
        let high = |p: &&super::Piece| p.cause == Cause::HigherPriority;
        let delayed = b.pieces.iter().find(high).unwrap();
        assert_eq!((delayed.task.tid, delayed.stage), (HIGH.tid, Stage::Wake), "{b:#?}");
        assert_eq!(delayed.length().as_us_f64(), 300.0);
        assert_eq!(delayed.waits_for, Some(WAKER.name));
        assert_eq!(us(&b, Cause::IdleExit), 5.0, "{b:#?}");
        assert_eq!(us(&b, Cause::Lock), 0.0, "{b:#?}");
    }

    /// The call lets another machine answer, whose answer comes by an interrupt.
    #[test]
    fn an_answer_from_outside_is_waited_for() {
        let mut s = Script::default();
        let vector = s.name("eth0");
        s.switch(0.0, RT, WAKER).switch(105.0, WAKER, IDLE);
        s.at(300.0, EventKind::VectorEntry { name: vector });
        s.at(302.0, EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: true });
        s.at(304.0, EventKind::VectorExit { name: vector }).preempt(306.0, IDLE, RT);
        s.at(311.0, EventKind::Other);
        let b = called(&mut s, 100.0, 310.0);
        assert_eq!(us(&b, Cause::Wait), 202.0, "{b:#?}");
    }
}
