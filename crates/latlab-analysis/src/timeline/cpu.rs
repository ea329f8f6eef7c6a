//! Who runs on one CPU, and what interrupts that task: the one fold of events into contexts.
//!
//! ```text
//!                      ┌ hrtimer function ┐
//!            ┌ interrupt ─────────────────────┐┌ softirq ┐
//! ───── task A ──────────────────────────────────────────────│ task B ───
//! ```
//!
//! On PREEMPT_RT softirqs and work items run in task context and can be
//! preempted: those frames belong to the task and come back with it. Interrupt
//! frames cannot survive a switch; one that does lost its exit event and ends there.
//!
//! An analysis calls [`Cpu::settle`] with each event, then what it needs: [`Cpu::switch`] for who
//! runs, [`Cpu::nest`] for what interrupts. What is kept is bounded by the depth of the stack, and an
//! event allocates nothing once that was reached.

use super::actor::Actor;
use super::stack::{Parked, Stack, What};
use latlab_model::event::{Event, EventKind, OffCpu, Symbol, Task};
use latlab_model::units::{CpuId, Nanos, Tid, TraceNs};
use std::ops::{Deref, DerefMut};

/// From the event of a switch to the switch itself, at most: so long the task that leaves may
/// still be the current one of other events.
const LEAVING: Nanos = Nanos(50_000);

/// A thread id that no task has.
const NOBODY: Tid = Tid(i32::MIN);

/// The current task of an event, against the one that was switched in last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Current {
    /// The same.
    Same,
    /// The one that was switched out, on its way.
    Leaving,
    /// Another one, or nothing was known: a switch was not recorded.
    Other,
}

/// What an event did to the stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nested {
    /// An actor was entered: the innermost frame, or the one beneath its function.
    pub entered: bool,
    /// A function was called: the innermost frame.
    pub called: bool,
    /// Frames ended: [`Stack::ended`].
    pub left: bool,
}

/// One CPU.
#[derive(Clone, Debug)]
pub struct Cpu<M = ()> {
    /// Its number.
    pub id: CpuId,
    task: Task,
    left: (Tid, TraceNs),
    /// A switch was recorded.
    switches: bool,
    /// What is above the task.
    pub stack: Stack<M>,
}

impl<M: Copy + Default> Cpu<M> {
    /// Nothing is known of it.
    pub fn new(id: CpuId) -> Self {
        let (task, left) = (stranger(NOBODY), (NOBODY, TraceNs(0)));
        Self { id, task, left, switches: false, stack: Stack::default() }
    }

    /// The task that runs, as it was switched in; without name and priority where that was not
    /// recorded. `None`: nobody knows.
    #[inline]
    pub fn task(&self) -> Option<Task> {
        (self.task.tid != NOBODY).then_some(self.task)
    }

    /// Innermost actor.
    #[inline]
    pub fn actor(&self) -> Actor {
        match self.stack.actor() {
            Some(actor) => actor,
            None if self.task.tid == Tid(0) => Actor::Idle,
            None => Actor::Task(self.task.tid),
        }
    }

    /// Compares an event's current task with the one that runs. A switch tells itself who leaves.
    #[inline]
    pub fn current(&self, tid: Tid, time: TraceNs, switches: bool) -> Current {
        if tid == self.task.tid {
            Current::Same
        } else if !switches && tid == self.left.0 && time.since(self.left.1) < LEAVING {
            Current::Leaving
        } else {
            Current::Other
        }
    }

    /// Takes over the current task of an event where a switch was not recorded; whether it was so.
    /// The frames of the task before ended then: [`Stack::ended`]. Where switches are recorded, other
    /// events are missing together with this one, so that nothing is kept of either task; where
    /// they are not (a trace of functions alone), this is how a switch shows.
    #[inline]
    pub fn settle(&mut self, event: &Event, parked: &mut Parked<M>) -> bool {
        let switches = matches!(event.kind, EventKind::Switch { .. });
        self.settle_as(event.current, event.time, switches, parked)
    }

    /// As [`Self::settle`], with the current task and the time of an event that is no switch.
    #[inline]
    pub fn settle_on(&mut self, current: Tid, time: TraceNs, parked: &mut Parked<M>) -> bool {
        self.settle_as(current, time, false, parked)
    }

    #[inline]
    fn settle_as(
        &mut self,
        current: Tid,
        time: TraceNs,
        switches: bool,
        parked: &mut Parked<M>,
    ) -> bool {
        self.stack.settle();
        if self.current(current, time, switches) != Current::Other {
            return false;
        }
        if self.switches {
            parked.forget(current);
            self.stack.clear();
            self.task = stranger(current);
        } else {
            parked.park(self.task.tid, self.stack.open());
            self.replace(stranger(current), time, parked);
        }
        true
    }

    /// In place of [`Self::settle`]: the current task of an event runs, also one that leaves: its
    /// functions go on until the CPU has left its stack. Frames stay with their tasks.
    #[inline]
    pub fn follow(&mut self, current: Tid, time: TraceNs, parked: &mut Parked<M>) -> bool {
        self.stack.settle();
        if current == self.task.tid {
            return false;
        }
        parked.park(self.task.tid, self.stack.open());
        self.replace(stranger(current), time, parked);
        true
    }

    /// A switch: another task runs from now on, and the frames of the one before ended.
    #[inline]
    pub fn switch(
        &mut self,
        time: TraceNs,
        (prev, state): (Tid, OffCpu),
        next: Task,
        parked: &mut Parked<M>,
    ) {
        self.stack.settle();
        (self.left, self.switches) = ((prev, time), true);
        if state.is_gone() {
            parked.forget(prev);
        } else {
            parked.park(prev, self.stack.open());
        }
        self.replace(next, time, parked);
    }

    #[inline]
    fn replace(&mut self, next: Task, time: TraceNs, parked: &mut Parked<M>) {
        self.stack.clear();
        self.task = next;
        if let Some(frames) = parked.take(next.tid) {
            self.stack.restore(&frames, time);
            parked.reuse(frames);
        }
    }

    /// Nobody knows who runs.
    pub fn forget_task(&mut self) {
        self.task = stranger(NOBODY);
    }

    /// Events were lost: nobody knows who runs, and what was open ended.
    pub fn lose(&mut self, parked: &mut Parked<M>) {
        self.stack.settle();
        self.stack.clear();
        parked.clear();
        (self.task, self.left) = (stranger(NOBODY), (NOBODY, TraceNs(0)));
    }

    /// Entry to and exit from what interrupts the task. NMIs are reported at their end, with their
    /// length, and are no frames.
    #[inline]
    pub fn nest(&mut self, time: TraceNs, kind: &EventKind) -> Nested {
        self.stack.settle();
        use Actor::{Hrtimer, Irq, Softirq, Timer, Vector, Work};
        match *kind {
            EventKind::IrqEntry { irq, name } => self.enter(Irq(irq, name), irq as u64, time),
            EventKind::IrqExit { irq } => self.leave(|a, _| matches!(a, Irq(n, _) if n == irq)),
            EventKind::VectorEntry { name } | EventKind::IpiEntry { reason: name } => {
                self.enter(Vector(name), name.0.into(), time)
            }
            EventKind::VectorExit { name } | EventKind::IpiExit { reason: name } => {
                self.leave(|a, _| a == Vector(name))
            }
            EventKind::SoftirqEntry { vec } => self.enter(Softirq(vec), vec.into(), time),
            EventKind::SoftirqExit { vec } => self.leave(|a, _| a == Softirq(vec)),
            EventKind::HrtimerEntry { timer, function, .. } => {
                self.enter(Hrtimer(function), timer, time)
            }
            EventKind::HrtimerExit { timer } => {
                self.leave(|a, key| matches!(a, Hrtimer(_)) && key == timer)
            }
            EventKind::TimerEntry { timer, function, .. } => {
                self.enter(Timer(function), timer, time)
            }
            EventKind::TimerExit { timer } => {
                self.leave(|a, key| matches!(a, Timer(_)) && key == timer)
            }
            EventKind::WorkStart { work, function } => self.enter(Work(function), work, time),
            EventKind::WorkEnd { work } => self.leave(|a, key| matches!(a, Work(_)) && key == work),
            EventKind::FunctionEntry { function, depth } => self.call(function, depth, time),
            EventKind::FunctionExit { function, .. } => {
                let left = self.stack.leave_function(function);
                Nested { left, ..Nested::default() }
            }
            _ => Nested::default(),
        }
    }

    /// Enters an actor that no event of its own reports.
    #[inline]
    pub fn enter(&mut self, actor: Actor, key: u64, time: TraceNs) -> Nested {
        let entered = self.stack.enter(What::Actor(actor), key, time);
        Nested { entered, ..Nested::default() }
    }

    /// Leaves the innermost actor for which `is` holds, and those above it whose exits were lost.
    #[inline]
    pub fn leave(&mut self, is: impl Fn(Actor, u64) -> bool) -> Nested {
        Nested { left: self.stack.leave(is), ..Nested::default() }
    }

    #[inline]
    fn call(&mut self, function: Symbol, depth: u32, time: TraceNs) -> Nested {
        // `depth` counts from the outermost traced function of the *task*, also inside
        // an interrupt: only a depth that is too small for the stack tells of lost exits.
        self.stack.limit_functions(depth as usize);
        let called = self.stack.enter(What::Function(function), function.0.into(), time);
        let left = !self.stack.ended().is_empty();
        Nested { called, left, entered: false }
    }
}

/// A task of which only the id is known.
fn stranger(tid: Tid) -> Task {
    Task { tid, name: Symbol(0), prio: i32::MAX }
}

/// Rows by CPU, in order of the CPUs' first events.
#[derive(Clone, Debug)]
pub struct PerCpu<T> {
    rows: Vec<T>,
    ids: Vec<CpuId>,
    /// Row + 1 by number of the CPU, for the low ones.
    places: Vec<u32>,
}

/// CPUs whose rows are found by one look-up; damaged events may name others.
const LOW: usize = 1 << 14;

impl<T> Default for PerCpu<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), ids: Vec::new(), places: Vec::new() }
    }
}

impl<T> PerCpu<T> {
    /// The number of a CPU's row, which is made where there is none yet.
    #[inline]
    pub fn place(&mut self, id: CpuId, make: impl FnOnce() -> T) -> usize {
        match self.places.get(id.0 as usize) {
            Some(&place) if place > 0 => place as usize - 1,
            _ => self.find(id, make),
        }
    }

    #[cold]
    fn find(&mut self, id: CpuId, make: impl FnOnce() -> T) -> usize {
        if let Some(known) = self.ids.iter().position(|i| *i == id) {
            return known;
        }
        self.rows.push(make());
        self.ids.push(id);
        let low = id.0 as usize;
        if low < LOW {
            self.places.resize(self.places.len().max(low + 1), 0);
            self.places[low] = self.rows.len() as u32;
        }
        self.rows.len() - 1
    }
}

impl<T> Deref for PerCpu<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        &self.rows
    }
}

impl<T> DerefMut for PerCpu<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Task = Task { tid: Tid(1), name: Symbol(1), prio: 120 };
    const B: Task = Task { tid: Tid(2), name: Symbol(2), prio: 120 };

    fn event(ns: u64, current: Task, kind: EventKind) -> Event {
        Event { time: TraceNs(ns), cpu: CpuId(0), current: current.tid, kind }
    }

    fn nest(cpu: &mut Cpu, ns: u64, kind: EventKind) -> Nested {
        cpu.nest(TraceNs(ns), &kind)
    }

    #[test]
    fn a_softirq_comes_back_with_its_task_and_an_interrupt_ends_at_the_switch() {
        let (mut cpu, mut parked) = (Cpu::<()>::new(CpuId(0)), Parked::default());
        cpu.settle(&event(0, A, EventKind::Other), &mut parked);
        nest(&mut cpu, 10, EventKind::SoftirqEntry { vec: 3 });
        nest(&mut cpu, 20, EventKind::IrqEntry { irq: 5, name: Symbol(0) });
        assert_eq!(cpu.stack.inside(), None);
        assert_eq!(cpu.stack.interrupt(), Some(Actor::Irq(5, Symbol(0))));
        cpu.switch(TraceNs(30), (A.tid, OffCpu::Runnable), B, &mut parked);
        assert_eq!((cpu.actor(), cpu.stack.ended().len()), (Actor::Task(B.tid), 2));
        cpu.switch(TraceNs(40), (B.tid, OffCpu::Sleeping), A, &mut parked);
        assert_eq!(cpu.actor(), Actor::Softirq(3));
        let back = cpu.stack.open()[0];
        assert_eq!((back.start, back.since), (TraceNs(10), TraceNs(40)));
        assert!(nest(&mut cpu, 50, EventKind::SoftirqExit { vec: 3 }).left);
        assert_eq!((cpu.actor(), cpu.stack.ended()[0].start), (Actor::Task(A.tid), TraceNs(10)));
    }

    #[test]
    fn the_task_that_leaves_is_no_unseen_switch_and_a_stranger_is() {
        let (mut cpu, mut parked) = (Cpu::<()>::new(CpuId(0)), Parked::default());
        assert!(cpu.settle(&event(0, A, EventKind::Other), &mut parked));
        cpu.switch(TraceNs(100), (A.tid, OffCpu::Sleeping), B, &mut parked);
        assert!(!cpu.settle(&event(200, A, EventKind::Other), &mut parked));
        assert_eq!(cpu.task(), Some(B));
        assert!(cpu.settle(&event(60_000, A, EventKind::Other), &mut parked));
        assert_eq!(cpu.task().map(|t| t.tid), Some(A.tid));
        cpu.lose(&mut parked);
        assert_eq!(cpu.task(), None);
    }

    #[test]
    fn what_lost_its_exit_ends_with_what_is_beneath() {
        let mut cpu = Cpu::<()>::new(CpuId(0));
        let (handler, timer) = (Symbol(7), Symbol(8));
        nest(&mut cpu, 1, EventKind::VectorEntry { name: timer });
        nest(
            &mut cpu,
            2,
            EventKind::HrtimerEntry { timer: 9, function: handler, now: 0, preempt_off: false },
        );
        assert_eq!(cpu.actor(), Actor::Hrtimer(handler));
        assert_eq!(cpu.stack.inside(), Some(Actor::Vector(timer)));
        assert!(nest(&mut cpu, 3, EventKind::VectorExit { name: timer }).left);
        let ended: Vec<What> = cpu.stack.ended().iter().map(|f| f.what).collect();
        let actors = [Actor::Vector(timer), Actor::Hrtimer(handler)].map(What::Actor);
        assert_eq!((ended.as_slice(), cpu.stack.open().len()), (&actors[..], 0));
        assert!(!nest(&mut cpu, 4, EventKind::HrtimerExit { timer: 9 }).left);
    }

    #[test]
    fn a_call_at_a_small_depth_ends_functions_without_exits() {
        let mut cpu = Cpu::<()>::new(CpuId(0));
        for (function, depth) in [(1, 0), (2, 1), (3, 2)] {
            let function = Symbol(function);
            nest(&mut cpu, 1, EventKind::FunctionEntry { function, depth });
        }
        let called = nest(&mut cpu, 2, EventKind::FunctionEntry { function: Symbol(4), depth: 1 });
        assert_eq!((called.called, called.left, cpu.stack.ended().len()), (true, true, 2));
        assert_eq!((cpu.stack.function(), cpu.stack.open().len()), (Some(Symbol(4)), 2));
    }

    #[test]
    fn rows_of_cpus_are_found_by_any_number() {
        let mut rows = PerCpu::default();
        for cpu in [3, u32::MAX, 0, 3, u32::MAX] {
            let at = rows.place(CpuId(cpu), || cpu);
            assert_eq!(rows[at], cpu);
        }
        assert_eq!(&rows[..], [3, u32::MAX, 0]);
    }
}
