//! On which CPU a runnable task waits: the kernel may move it from one queue to another before it runs
//! (`sched_migrate_task`, `sched_wakeup`).

use super::Cutter;
use super::once::Refill;
use crate::latency::class::{FAIR, is_fair};
use crate::latency::cpu_timeline::{Actor, Span};
use latlab_model::event::{Event, EventKind, Symbol};
use latlab_model::latency::Cause;
use latlab_model::units::{CpuId, Tid, TraceNs};

/// Events before a switch among which the timer of a control group is looked for.
const BACK: usize = 1_024;

/// An interval in the queue of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queued {
    /// Since when the task is in this queue, also before `from`.
    pub(super) since: TraceNs,
    /// Start.
    pub(super) from: TraceNs,
    /// End.
    pub(super) to: TraceNs,
    /// Whose queue.
    pub(super) cpu: CpuId,
    /// The CPU that put it there.
    pub(super) by: CpuId,
}

impl Cutter<'_> {
    /// The queues of a task that is runnable since `since` and runs, or is looked at, until `to`; `waker` woke it,
    /// `None`: it was preempted. It is put into the queue of `cpu` where no event says otherwise.
    pub(super) fn queues(
        &self,
        tid: Tid,
        (waker, cpu): (Option<CpuId>, CpuId),
        since: TraceNs,
        (from, to): (TraceNs, TraceNs),
    ) -> Vec<Queued> {
        let by = waker.unwrap_or(cpu);
        let mut all = vec![Queued { since, from: since, to, cpu, by }];
        // What chooses a CPU for a task that is woken has no event of its CPU in between.
        let mut chooses = waker.is_some();
        let mut placed = false;
        for e in self.capture.within(since, to) {
            let (old, new) = match e.kind {
                EventKind::Migrate { task, from, to } if task.tid == tid => (Some(from), to),
                EventKind::Wakeup { task, target, .. } if task.tid == tid => (None, target),
                EventKind::Switch { next, .. } if next.tid == tid && e.time > since => break,
                _ => {
                    chooses &= e.cpu != by || e.time == since;
                    continue;
                }
            };
            let last = all.len() - 1;
            match old {
                Some(_) if chooses && e.cpu == by => all[last].cpu = new,
                Some(old) => {
                    if !placed {
                        all[last].cpu = old;
                    }
                    all[last].to = e.time;
                    let (since, by) = (e.time, e.cpu);
                    all.push(Queued { since, from: since, to, cpu: new, by });
                }
                None if !placed => all[last].cpu = new,
                None => {}
            }
            (chooses, placed) = (false, true);
        }
        all.iter_mut().for_each(|q| (q.from, q.to) = (q.from.max(from), q.to.min(to)));
        all.retain(|q| q.from < q.to);
        all
    }

    /// The cause where a fair task that is runnable while an idle CPU or another fair task runs waits for its control group
    /// to have runtime again (`cpu.max`): the timer that gives it some is the last thing before the switch to it. Where the
    /// task that the timer interrupted goes on, the scheduler may have chosen that one before as well.
    pub(super) fn waits_for_runtime(&self, tid: Tid, prio: i32, span: &Span) -> Option<Cause> {
        let may = matches!(span.actor, Actor::Task(_) | Actor::Idle) && span.task.prio >= FAIR;
        if !is_fair(prio) || !may {
            return None;
        }
        let own = self.lanes.scheduling.of(tid);
        let first = own.partition_point(|&i| self.event(i).time < span.end);
        let mut behind = own[first..].iter().map(|&i| self.event(i));
        let switch = behind.find_map(|e| match e.kind {
            EventKind::Switch { next, .. } => Some(e).filter(|_| next.tid == tid),
            _ => None,
        })?;
        let refill = self.refill_before(switch).filter(|refill| refill.at >= span.start)?;
        // An idle CPU has no other task that it could run.
        let either = refill.resumed && span.actor != Actor::Idle;
        Some(if either { Cause::FairOrBandwidth } else { Cause::Throttled })
    }

    /// The timer that gave a group of a CPU's task runtime, where nothing but that task was chosen since, or the task
    /// that it interrupted.
    fn refill_before(&self, switch: &Event) -> Option<Refill> {
        if let Some((_, known)) = self.once.refill.get().filter(|(of, _)| *of == switch.time) {
            return known;
        }
        let until = self.capture.events.partition_point(|e| e.time <= switch.time);
        let refills = |e: &&Event| match e.kind {
            EventKind::HrtimerEntry { function, .. } => self.is_refill(function),
            _ => false,
        };
        let refill = self.capture.events[..until].iter().rev().take(BACK).find(refills);
        let found = refill.and_then(|e| self.refill_at(e.time, switch));
        self.once.refill.set(Some((switch.time, found)));
        found
    }

    /// The timer that expired at a moment, by what had the CPU from then on.
    fn refill_at(&self, at: TraceNs, switch: &Event) -> Option<Refill> {
        let fair = |s: &Span| matches!(s.actor, Actor::Task(_)) && s.task.prio >= FAIR;
        let spans = self.lanes.cpus.get(&switch.cpu).map_or(&[][..], Vec::as_slice);
        let before = &spans[..spans.partition_point(|s| s.start < at)];
        let found = before.iter().rev().find(|s| fair(s)).map(|s| s.task.tid);
        let mut resumed = false;
        for s in self.lanes.within(switch.cpu, at, switch.time).filter(fair) {
            // What the timer's interrupt found is there until the switch.
            if self.lanes.run_start(switch.cpu, s.start) > at {
                if found != Some(s.task.tid) {
                    return None;
                }
                resumed = true;
            }
        }
        Some(Refill { at, resumed })
    }

    fn is_refill(&self, function: Symbol) -> bool {
        let name = self.capture.names.get(function);
        name.starts_with("sched_cfs_period_timer") || name.starts_with("sched_cfs_slack_timer")
    }

    /// The CPU that woke a task at a moment; `None`: no event does.
    pub(super) fn woken_by(&self, tid: Tid, time: TraceNs) -> Option<CpuId> {
        let own = self.lanes.scheduling.of(tid);
        let first = own.partition_point(|&i| self.event(i).time < time);
        let at = own[first..].iter().map(|&i| self.event(i)).take_while(|e| e.time == time);
        at.into_iter().find(|e| e.kind.is_waking(tid)).map(|e| e.cpu)
    }
}

#[cfg(test)]
mod tests {
    use crate::latency::breakdown::{Budget, budget};
    use crate::latency::capture::{Activation, Began, End};
    use crate::latency::cpu_timeline::Lanes;
    use crate::latency::scenario::{FAIR, HIGH, IDLE, RT, Script};
    use latlab_model::event::{EventKind, OffCpu, Symbol, Task};
    use latlab_model::latency::Cause;
    use latlab_model::units::{CpuId, Tid, TraceNs};

    const OTHER: Task = Task { tid: Tid(600), name: Symbol(2), prio: 120 };
    const HELPER: Task = Task { tid: Tid(400), name: Symbol(2), prio: 60 };

    fn cut(s: &mut Script, a: Activation) -> Budget {
        s.capture.events.sort_by_key(|e| e.time);
        budget(&s.capture, &Lanes::of(&s.capture.events), a)
    }

    fn us(b: &Budget, cause: Cause) -> f64 {
        b.sum(|p| p.cause == cause).as_us_f64()
    }

    fn runs(prev: Task, state: OffCpu, next: Task) -> EventKind {
        EventKind::Switch { prev, state, next }
    }

    fn moves(from: u32, to: u32) -> EventKind {
        EventKind::Migrate { task: RT, from: CpuId(from), to: CpuId(to) }
    }

    /// It is woken for CPU 0, where a task of higher priority runs, and CPU 1, which another task has, takes it at 500 µs.
    #[test]
    fn a_task_that_is_moved_waited_where_it_was() {
        let mut s = Script::default();
        s.switch(0.0, RT, HIGH).timer(100.0);
        s.on(1, 0.0, runs(IDLE, OffCpu::Runnable, FAIR)).on(
            1,
            300.0,
            runs(FAIR, OffCpu::Sleeping, OTHER),
        );
        s.on(1, 500.0, moves(0, 1)).on(1, 505.0, runs(OTHER, OffCpu::Runnable, RT));
        s.at(510.0, EventKind::Other).on(1, 520.0, EventKind::Other);
        let a = Activation { cpu: CpuId(1), ..s.wakes(100.0, 507.0, true) };
        let b = cut(&mut s, a);
        assert_eq!(us(&b, Cause::HigherPriority), 396.0, "{b:#?}");
        assert_eq!((us(&b, Cause::Throttled), us(&b, Cause::PreemptionOff)), (0.0, 5.0));
        assert!(
            b.pieces.iter().all(|p| p.cause != Cause::HigherPriority || p.task.tid == HIGH.tid)
        );
    }

    /// What chooses a CPU for it is no move: it waits on CPU 1 from the beginning.
    #[test]
    fn a_task_waits_where_its_waker_put_it() {
        let mut s = Script::default();
        s.switch(0.0, RT, IDLE).timer(100.0).at(102.5, moves(0, 1));
        s.on(1, 0.0, runs(IDLE, OffCpu::Runnable, HIGH)).on(
            1,
            400.0,
            runs(HIGH, OffCpu::Sleeping, RT),
        );
        s.at(410.0, EventKind::Other).on(1, 410.0, EventKind::Other);
        let a = Activation { cpu: CpuId(1), ..s.wakes(100.0, 402.0, true) };
        let b = cut(&mut s, a);
        assert_eq!(us(&b, Cause::HigherPriority), 298.0, "{b:#?}");
        assert_eq!(us(&b, Cause::IdleExit), 0.0);
    }

    /// Its helper is preempted on CPU 0 and moved to CPU 1, behind another task.
    #[test]
    fn a_task_that_is_waited_for_is_followed_to_the_queue_that_it_is_in() {
        let mut s = Script::default();
        let wakes = |task: Task, cpu: u32| EventKind::Waking {
            task,
            target: CpuId(cpu),
            in_interrupt: false,
        };
        let to = |task: Task| EventKind::Migrate { task, from: CpuId(0), to: CpuId(1) };
        s.preempt(0.0, IDLE, FAIR).timer(100.0).preempt(110.0, FAIR, RT);
        s.at(150.0, wakes(HELPER, 0)).at(150.5, to(HELPER)).switch(160.0, RT, IDLE);
        s.on(1, 0.0, runs(IDLE, OffCpu::Runnable, HIGH));
        s.on(1, 400.0, runs(HIGH, OffCpu::Sleeping, HELPER)).on(1, 420.0, wakes(RT, 0));
        s.preempt(430.0, IDLE, RT).switch(450.0, RT, FAIR).at(500.0, EventKind::Other);
        let at = |us: f64| TraceNs((us * 1e3) as u64);
        let began = Began { woken: at(102.0), start: at(110.0), after: None, by_event: false };
        let a = Activation {
            actual: at(450.0),
            end: End::Completion,
            began: Some(began),
            ..s.wakes(100.0, 450.0, true)
        };
        let b = cut(&mut s, a);
        let high = b.sum(|p| p.cause == Cause::HigherPriority && p.task.tid == HIGH.tid);
        assert_eq!(high.as_us_f64(), 240.0, "{b:#?}");
    }

    /// CPU 1 wakes the task for CPU 0, whose task takes the interrupt at once or after 300 µs.
    fn remote(interrupt: f64) -> Budget {
        let mut s = Script::default();
        let vector = s.name("reschedule");
        s.switch(0.0, RT, FAIR);
        s.on(1, 0.0, runs(IDLE, OffCpu::Runnable, OTHER));
        s.on(1, 100.0, EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false });
        s.at(interrupt, EventKind::VectorEntry { name: vector });
        s.at(interrupt + 1.0, EventKind::VectorExit { name: vector });
        s.preempt(405.0, FAIR, RT).at(410.0, EventKind::Other);
        let a = s.wakes(100.0, 407.0, true);
        cut(&mut s, a)
    }

    #[test]
    fn a_cpu_that_takes_the_interrupt_of_a_wake_up_late_had_interrupts_off() {
        let b = remote(400.0);
        assert_eq!(
            (us(&b, Cause::InterruptsOff), us(&b, Cause::PreemptionOff)),
            (300.0, 4.0),
            "{b:#?}"
        );
        let b = remote(101.0);
        assert_eq!(
            (us(&b, Cause::InterruptsOff), us(&b, Cause::PreemptionOff)),
            (1.0, 303.0),
            "{b:#?}"
        );
    }

    /// Another CPU wakes the task while this one is in a handler, which is not on the way of the wake-up.
    #[test]
    fn a_handler_of_the_cpu_for_which_another_one_wakes_the_task_is_named() {
        let mut s = Script::default();
        let disk = s.name("disk");
        s.switch(0.0, RT, FAIR).at(90.0, EventKind::IrqEntry { irq: 14, name: disk });
        s.on(1, 0.0, runs(IDLE, OffCpu::Runnable, OTHER));
        s.on(1, 100.0, EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false });
        s.at(400.0, EventKind::IrqExit { irq: 14 });
        s.preempt(405.0, FAIR, RT).at(410.0, EventKind::Other);
        let a = s.wakes(100.0, 407.0, true);
        assert_eq!(us(&cut(&mut s, a), Cause::Interrupt), 300.0);
    }

    const MINE: Task = Task { prio: 120, ..RT };

    /// A fair task is woken while its group has no runtime; another fair task has the CPU until the group's timer.
    fn without_runtime(chosen_after: Option<Task>) -> Budget {
        let mut s = Script::default();
        let (vector, function) = (s.name("local_timer"), s.name("sched_cfs_period_timer"));
        s.switch(0.0, MINE, FAIR).timer(100.0);
        s.capture.events.iter_mut().for_each(|e| {
            if let EventKind::Waking { task, .. } = &mut e.kind {
                *task = MINE;
            }
        });
        s.at(3_000.0, EventKind::VectorEntry { name: vector });
        let entry = EventKind::HrtimerEntry { timer: 8, function, now: 0, preempt_off: false };
        s.at(3_001.0, entry).at(3_003.0, EventKind::HrtimerExit { timer: 8 });
        s.at(3_004.0, EventKind::VectorExit { name: vector });
        if let Some(task) = chosen_after {
            s.preempt(3_005.0, FAIR, HIGH)
                .preempt(3_006.0, HIGH, task)
                .preempt(4_000.0, task, MINE);
        } else {
            s.preempt(3_005.0, FAIR, MINE);
        }
        s.at(4_010.0, EventKind::Other);
        let a = s.wakes(100.0, 4_002.0, true);
        cut(&mut s, a)
    }

    #[test]
    fn a_fair_task_whose_group_gets_runtime_just_before_it_runs_waited_for_that() {
        let b = without_runtime(None);
        assert!(us(&b, Cause::Throttled) > 2_800.0, "{b:#?}");
        let b = without_runtime(Some(OTHER));
        assert_eq!(us(&b, Cause::Throttled), 0.0, "another task came before it: {b:#?}");
        assert!(us(&b, Cause::EqualPriority) > 3_800.0);
    }

    #[test]
    fn the_task_that_goes_on_after_the_groups_timer_may_have_been_chosen_before() {
        let b = without_runtime(Some(FAIR));
        assert!(us(&b, Cause::FairOrBandwidth) > 2_800.0, "{b:#?}");
        let behind = us(&b, Cause::EqualPriority);
        assert!((900.0..1_000.0).contains(&behind) && us(&b, Cause::Throttled) == 0.0, "{b:#?}");
    }

    /// A process that another one stopped sleeps over its time, and goes on when that one wakes it.
    #[test]
    fn a_task_that_another_one_lets_go_on_was_not_held_up_by_interrupts() {
        let cut_with = |timers: bool| {
            let mut s = Script::default();
            let function = s.name("tick");
            s.switch(0.0, RT, IDLE);
            if timers {
                s.at(
                    50.0,
                    EventKind::HrtimerEntry { timer: 3, function, now: 0, preempt_off: false },
                )
                .at(51.0, EventKind::HrtimerExit { timer: 3 });
            }
            s.preempt(390.0, IDLE, FAIR)
                .at(400.0, EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false });
            s.preempt(402.0, FAIR, RT).at(410.0, EventKind::Other);
            let a = s.wakes(100.0, 404.0, true);
            cut(&mut s, a)
        };
        let b = cut_with(true);
        assert_eq!((us(&b, Cause::Lock), us(&b, Cause::IdleExit)), (300.0, 0.0), "{b:#?}");
        // Without events of timers it is not known what woke the task.
        assert_eq!(us(&cut_with(false), Cause::Lock), 0.0);
    }

    /// PREEMPT_RT: the thread of the timers waits for the task that has softirqs disabled, and lends it its priority.
    #[test]
    fn the_thread_of_the_timers_that_waits_for_a_lock_was_woken_before() {
        let thread = Task { tid: Tid(400), name: Symbol(2), prio: 98 };
        let (own, lent) = (Task { prio: 120, ..RT }, Task { prio: 98, ..FAIR });
        let mut s = Script::default();
        let vector = s.name("local_timer");
        let wakes = |task| EventKind::Waking { task, target: CpuId(0), in_interrupt: false };
        s.switch(0.0, own, FAIR)
            .at(100.0, EventKind::VectorEntry { name: vector })
            .at(101.0, EventKind::SoftirqRaise { vec: 8 })
            .at(102.0, wakes(thread))
            .at(103.0, EventKind::VectorExit { name: vector })
            .preempt(105.0, FAIR, thread)
            .at(110.0, runs(thread, OffCpu::Blocked, lent))
            .at(600.0, wakes(thread))
            .preempt(601.0, FAIR, thread)
            .timer_softirq(602.0, own)
            .switch(607.0, thread, own)
            .at(610.0, EventKind::Other);
        let a = s.wakes(100.0, 609.0, true);
        let b = cut(&mut s, a);
        let lent = b.sum(|p| p.cause == Cause::HigherPriority && p.task.tid == FAIR.tid);
        assert_eq!(lent.as_us_f64(), 491.0, "{b:#?}");
        assert!(us(&b, Cause::InterruptsOff) < 5.0, "{b:#?}");
    }
}
