//! Who is to blame: why the time of one span passed, by the stage in which it lies and by what ran.

use super::once::OwnEvents;
use super::{Cutter, Milestones};
use crate::latency::class::FAIR;
use crate::latency::cpu_timeline::{Actor, Span};
use latlab_model::event::{Event, EventKind, OffCpu, Task};
use latlab_model::latency::{Cause, Stage};
use latlab_model::units::{CpuId, Tid, TraceNs};
use std::cmp::Ordering;

/// Events before our timer's function among which its softirq's raise is looked for.
const BACK: usize = 4_096;
/// The softirq of high-resolution timers that no hard interrupt runs (`include/linux/interrupt.h`).
const HRTIMER_SOFTIRQ: u32 = 8;

impl Cutter<'_> {
    /// The cause of a span that lies within one stage.
    pub(super) fn cause(
        &self,
        stage: Stage,
        span: &Span,
        cpu: CpuId,
        m: Option<Milestones>,
    ) -> Cause {
        let cause = match stage {
            Stage::Interrupt | Stage::Handlers | Stage::Wake if self.is_held(m) => Cause::Lock,
            Stage::Interrupt => self.before_interrupt(span, m),
            Stage::Handlers | Stage::Wake => self.in_interrupt(span, stage),
            Stage::Schedule => self.before_switch(self.a.tid, cpu, span, m),
            Stage::Return | Stage::Activation => self.after_switch(cpu, span, m),
        };
        match cause {
            Cause::HigherPriority | Cause::EqualPriority if self.is_recorder(span) => {
                Cause::Measurement
            }
            cause => cause,
        }
    }

    /// Whether the task did not sleep until its time when that came: another task wakes it, where a timer would have
    /// woken it. So does who stops a process, traces it, or freezes its control group.
    fn is_held(&self, m: Option<Milestones>) -> bool {
        let find = |m: Milestones| {
            let waking = self.waking_at(m.waking)?;
            let by_task = waking.current.0 > 0 && waking.current != self.a.tid;
            Some(by_task && !self.is_by_interrupt(waking))
        };
        let timed = !self.a.called && self.a.began.is_none_or(|b| !b.by_event);
        let asks = timed && self.capture.kinds().hrtimers;
        let held = || m.filter(|_| asks).and_then(find).unwrap_or(false);
        *self.once.held.get_or_init(held)
    }

    /// Whether a thread of latlab itself ran, other than the measured one.
    fn is_recorder(&self, span: &Span) -> bool {
        matches!(span.actor, Actor::Task(tid) if tid != self.a.tid && self.capture.recorders.contains(&tid))
    }

    /// The time for which the timer that woke the task was programmed, where it is later than intended.
    pub(super) fn programmed(&self, m: Milestones) -> Option<TraceNs> {
        *self.once.programmed.get_or_init(|| self.find_programmed(m))
    }

    fn find_programmed(&self, m: Milestones) -> Option<TraceNs> {
        if !self.capture.clock_is_monotonic {
            return None;
        }
        let mut expired = self.capture.back(m.waker, m.expiry, m.waking);
        let (timer, function) = expired.find_map(|e| match e.kind {
            EventKind::HrtimerEntry { timer, function, .. } => Some((timer, function)),
            _ => None,
        })?;
        // Slack is for sleeps; a timer of a device that ends a wait was never meant for this time.
        if !self.is_sleeper(function) {
            return None;
        }
        let mut started = self.capture.back(m.waker, TraceNs(0), m.expiry);
        let expires = started.find_map(|e| match e.kind {
            EventKind::HrtimerStart { timer: t, expires, .. } if t == timer => Some(expires),
            _ => None,
        })?;
        let expires = TraceNs(u64::try_from(expires).ok()?);
        (expires > self.a.intended && expires <= m.interrupt).then_some(expires)
    }

    /// The thread in which the timer expired that woke the task, as it was woken, and when:
    /// PREEMPT_RT leaves the timers of ordinary tasks to one (`ktimers`, `ksoftirqd`).
    pub(super) fn timer_thread(&self, m: Milestones) -> Option<(Task, TraceNs)> {
        *self.once.timer_thread.get_or_init(|| self.find_timer_thread(m))
    }

    fn find_timer_thread(&self, m: Milestones) -> Option<(Task, TraceNs)> {
        let expired = self.lanes.within(m.waker, m.expiry, m.waking).next()?;
        if expired.inside.is_some() || expired.actor.is_interrupt() {
            return None;
        }
        let thread = expired.task.tid;
        let own = self.lanes.scheduling.of(thread);
        let until = own.partition_point(|&i| self.event(i).time <= m.expiry);
        let mut woken = None;
        for &i in own[..until].iter().rev().take(BACK) {
            let e = self.event(i);
            match e.kind {
                // It went on after a lock that it waited for: the interrupt had woken it before.
                EventKind::Switch { prev, state: OffCpu::Blocked, .. } if prev.tid == thread => {}
                EventKind::Switch { prev, state, .. } if prev.tid == thread => {
                    if !state.is_runnable() && woken.is_some() {
                        break;
                    }
                }
                kind => {
                    if let Some((task, _)) = kind.wakes().filter(|(task, _)| task.tid == thread) {
                        woken = Some((task, e.time));
                    }
                }
            }
        }
        woken
    }

    /// A task that ran before our timer's turn. Where a thread runs the timers, the interrupt has
    /// long come, and it is that thread which is kept from running.
    fn before_timer(&self, span: &Span, m: Option<Milestones>) -> Cause {
        match m.and_then(|m| self.timer_thread(m)) {
            Some((thread, woken)) if span.start >= woken => {
                match span.task.prio.cmp(&thread.prio) {
                    _ if span.task.tid == thread.tid => Cause::Path,
                    Ordering::Less => Cause::HigherPriority,
                    // Of the thread's priority, which may be above the measured task's.
                    Ordering::Equal if m.is_some_and(|m| span.task.prio < m.prio) => {
                        Cause::HigherPriority
                    }
                    Ordering::Equal => Cause::EqualPriority,
                    Ordering::Greater => Cause::PreemptionOff,
                }
            }
            _ => match m.and_then(|m| self.timer_late_since(m)) {
                Some(since) if span.start >= since => Cause::Unexplained,
                _ => Cause::InterruptsOff,
            },
        }
    }

    fn before_interrupt(&self, span: &Span, m: Option<Milestones>) -> Cause {
        match span.actor {
            Actor::Nmi => Cause::Nmi,
            Actor::Hrtimer(_) | Actor::Timer(_) if span.inside.is_some() => Cause::TimerFunction,
            _ if span.inside.is_some() || span.actor.is_interrupt() => Cause::Interrupt,
            Actor::Idle => Cause::IdleExit,
            Actor::Task(tid) if tid == self.a.tid => Cause::Overrun,
            Actor::Task(_) => self.before_timer(span, m),
            Actor::Hrtimer(_) | Actor::Timer(_) if self.waits_in_thread(span, m) => {
                Cause::TimerFunction
            }
            Actor::Softirq(_) if self.waits_in_thread(span, m) => Cause::Softirq,
            _ => Cause::InterruptsOff,
        }
    }

    /// Whether our timer's interrupt has come before a span, and left the timer to a thread that does
    /// other things first.
    fn waits_in_thread(&self, span: &Span, m: Option<Milestones>) -> bool {
        let Some(m) = m.filter(|m| self.timer_thread(*m).is_some()) else { return false };
        let raised =
            |e: &&Event| matches!(e.kind, EventKind::SoftirqRaise { vec: HRTIMER_SOFTIRQ });
        let find = || self.capture.before(m.waker, m.expiry).take(BACK).find(raised);
        let last = *self.once.raised.get_or_init(|| find().map(|e| e.time));
        last.is_some_and(|time| time <= span.start)
    }

    fn in_interrupt(&self, span: &Span, stage: Stage) -> Cause {
        match span.actor {
            Actor::Nmi => Cause::Nmi,
            Actor::Hrtimer(_) | Actor::Timer(_) if stage == Stage::Handlers => Cause::TimerFunction,
            _ => Cause::Path,
        }
    }

    /// The same of a task that is runnable, the measured one or one that it waits for.
    pub(super) fn before_switch(
        &self,
        of: Tid,
        cpu: CpuId,
        span: &Span,
        m: Option<Milestones>,
    ) -> Cause {
        let (prio, waking, own) =
            m.map_or((i32::MAX, TraceNs(0), TraceNs(0)), |m| (m.prio, m.waking, m.interrupt));
        // What this CPU was doing when another one put the task into its queue did not wake it.
        let remote = m.is_some_and(|m| m.waker != cpu);
        match span.actor {
            Actor::Nmi => Cause::Nmi,
            // The rest of the interrupt that woke it is the ordinary way; another one is not.
            Actor::Hrtimer(_) | Actor::Timer(_) => {
                if remote || span.begins && span.start > waking {
                    Cause::TimerFunction
                } else {
                    self.own_timer(cpu, span, waking)
                }
            }
            _ if span.inside.is_some() || span.actor.is_interrupt() => {
                if !remote && self.interrupt_began(cpu, span) <= own.max(waking) {
                    Cause::Path
                } else {
                    Cause::Interrupt
                }
            }
            Actor::Softirq(_) => Cause::Softirq,
            // Some kernels leave out switches from the idle task: since when the task ran is not known.
            Actor::Idle if m.is_some_and(|m| m.switch_unseen) => Cause::Unexplained,
            Actor::Idle => {
                if self.chosen_after(cpu, span, waking) {
                    Cause::Throttled
                } else {
                    Cause::IdleExit
                }
            }
            _ if span.task.tid == self.a.tid => Cause::Path,
            // The rest of the call that woke it.
            _ if self.a.called && !remote && span.start <= waking && of == self.a.tid => {
                Cause::Path
            }
            _ => self.in_place_of((of, prio), cpu, span, waking, remote),
        }
    }

    /// A task that has the CPU while one of priority `prio` is runnable since `waking`.
    fn in_place_of(
        &self,
        (of, prio): (Tid, i32),
        cpu: CpuId,
        span: &Span,
        waking: TraceNs,
        remote: bool,
    ) -> Cause {
        match self.waits_for_runtime(of, prio, span) {
            Some(cause) => cause,
            _ if span.task.prio < prio => Cause::HigherPriority,
            _ if span.task.prio == prio => Cause::EqualPriority,
            // The scheduler ranks tasks of one class by their shares, whatever their nice values.
            _ if prio >= FAIR && self.chosen_after(cpu, span, waking) => Cause::EqualPriority,
            _ if self.chosen_after(cpu, span, waking) => Cause::Throttled,
            _ if remote && prio < FAIR && self.ends_with_interrupt(cpu, span, waking) => {
                Cause::InterruptsOff
            }
            _ => Cause::PreemptionOff,
        }
    }

    /// Whether a task's span ends with the first interrupt that its CPU takes since another CPU woke a task of higher
    /// priority for it, not a fair one. That CPU sent an interrupt at once, which comes as soon as interrupts are enabled:
    /// what ran before had them off.
    fn ends_with_interrupt(&self, cpu: CpuId, span: &Span, waking: TraceNs) -> bool {
        if !self.capture.kinds().vectors {
            return false;
        }
        let spans = self.lanes.cpus.get(&cpu).map_or(&[][..], Vec::as_slice);
        let at = spans.partition_point(|s| s.end <= waking);
        let interrupts = |s: &&Span| s.inside.is_some() || s.actor.is_interrupt();
        let first = spans[at..].iter().find(interrupts);
        first.is_some_and(|s| s.start == span.end && s.start > waking)
    }

    /// A timer function that was active at `waking` is the one that woke the task.
    fn own_timer(&self, cpu: CpuId, span: &Span, waking: TraceNs) -> Cause {
        let began = self.began(cpu, span, |s| s.actor == span.actor);
        if began <= waking { Cause::Path } else { Cause::TimerFunction }
    }

    fn interrupt_began(&self, cpu: CpuId, span: &Span) -> TraceNs {
        let interrupt = |s: &Span| if s.actor.is_interrupt() { Some(s.actor) } else { s.inside };
        let own = interrupt(span);
        self.began(cpu, span, move |s| interrupt(s) == own)
    }

    /// Start of the run of spans up to `span` for which `same` holds, not going past a beginning of the outermost actor.
    fn began(&self, cpu: CpuId, span: &Span, same: impl Fn(&Span) -> bool) -> TraceNs {
        let spans = self.lanes.cpus.get(&cpu).map_or(&[][..], Vec::as_slice);
        let at = spans.partition_point(|s| s.end <= span.start);
        if at == spans.len() {
            return span.start;
        }
        let mut start = span.start;
        for s in spans[..=at].iter().rev().take_while(|s| same(s)) {
            start = s.start;
            if s.begins && (s.actor.is_interrupt() || s.inside.is_none()) {
                break;
            }
        }
        start
    }

    /// When the actor of the first span of a window began.
    pub(super) fn first_began(&self, cpu: CpuId, span: &Span) -> TraceNs {
        match span.actor {
            Actor::Task(_) | Actor::Idle => span.uncut_start,
            _ => self.began(cpu, span, |s| s.actor == span.actor),
        }
    }

    /// Whether this span's task was switched in after the measured task was woken.
    fn chosen_after(&self, cpu: CpuId, span: &Span, waking: TraceNs) -> bool {
        // What interrupts it, or runs on its back, is no choice of the scheduler's.
        self.lanes.run_start(cpu, span.start) > waking
    }

    fn after_switch(&self, cpu: CpuId, span: &Span, m: Option<Milestones>) -> Cause {
        let interruption = interruption(span);
        let is_hard = span.inside.is_some() || span.actor.is_interrupt();
        match interruption {
            Some(_) if is_hard && self.ends_wait(cpu, span, m) => {
                let faulted = self.faulted(m, span.start);
                return if faulted { Cause::PageFault } else { Cause::Lock };
            }
            Some(cause) if is_hard || cause == Cause::Nmi => return cause,
            _ if self.lanes.blind => return Cause::Unexplained,
            _ => {}
        }
        if span.task.tid == self.a.tid {
            return match (interruption, &self.event(span.event).kind) {
                (Some(cause), _) => cause,
                (None, EventKind::LockBegin { .. }) => Cause::Lock,
                _ if self.faulted(m, span.start) => Cause::PageFault,
                _ if m.is_none() => Cause::Overrun,
                _ => Cause::Path,
            };
        }
        // Somebody else runs: how did the measured task leave?
        let prio = m.map(|m| m.prio).or_else(|| self.lanes.tasks.get(&self.a.tid).map(|t| t.prio));
        let prio = prio.unwrap_or(i32::MAX);
        let left = self.left_as(m, span.start);
        let is_idle = span.actor == Actor::Idle;
        let is_runnable = match left {
            Left::As(state) => state.is_runnable(),
            Left::Woken(_) => true,
            Left::Unseen => false,
        };
        // What is done in that task's time for others is not the task's: as before the switch.
        let limit = || self.waits_for_runtime(self.a.tid, prio, span);
        if is_runnable && let Some(cause) = interruption.or_else(limit) {
            return cause;
        }
        match left {
            Left::As(OffCpu::Blocked | OffCpu::Sleeping) | Left::Unseen
                if self.faulted(m, span.start) =>
            {
                Cause::PageFault
            }
            Left::As(OffCpu::Blocked | OffCpu::Sleeping | OffCpu::Stopped) => Cause::Lock,
            Left::Unseen if self.waits_for_lock(m, span.start) => Cause::Lock,
            // It can run: an idle CPU has to come back, and a task that ran before has to be preempted.
            Left::Woken(at) if is_idle && !self.chosen_after(cpu, span, at) => Cause::IdleExit,
            _ if !is_idle && span.task.prio < prio => Cause::HigherPriority,
            _ if !is_idle && span.task.prio == prio => Cause::EqualPriority,
            Left::Woken(at) if !self.chosen_after(cpu, span, at) => Cause::PreemptionOff,
            Left::Unseen => Cause::Unexplained,
            _ if !is_idle && prio >= FAIR => Cause::EqualPriority,
            _ => Cause::Throttled,
        }
    }

    /// Whether a span lies in the interrupt that wakes the measured task from a wait which it began after it was
    /// switched in: the completion of what it waits for is a part of the wait, as it is where a softirq completes it.
    fn ends_wait(&self, cpu: CpuId, span: &Span, m: Option<Milestones>) -> bool {
        match self.left_as(m, span.start) {
            Left::As(state) if state.is_waiting() => {
                let own = self.lanes.scheduling.of(self.a.tid);
                let next = own.partition_point(|&i| self.event(i).time < span.end);
                own.get(next).map(|&i| self.event(i)).is_some_and(|e| {
                    let wakes = e.cpu == cpu && e.kind.is_waking(self.a.tid);
                    wakes && self.interrupt_of(cpu, e.time).0 <= span.start
                })
            }
            Left::Woken(at) => {
                let here = self.waking_at(at).is_some_and(|e| e.cpu == cpu);
                here && self.interrupt_began(cpu, span) < at
            }
            _ => false,
        }
    }

    /// Whether the measured task took a page fault since it was switched in and was not seen in
    /// user space since: what it does or waits for then is the fault's doing. A wait in the activation before has no
    /// beginning that is known.
    fn faulted(&self, m: Option<Milestones>, time: TraceNs) -> bool {
        let decides = &self.own_events(m).faults;
        let until = decides.partition_point(|(at, _)| *at <= time);
        until.checked_sub(1).is_some_and(|last| decides[last].1)
    }

    /// The measured task's own events on its CPU from the switch to it until the wake-up ended; where no switch is known,
    /// from as far before the intended time as is searched.
    fn own_events(&self, m: Option<Milestones>) -> &OwnEvents {
        self.once.own.get_or_init(|| {
            let mut own = OwnEvents::default();
            let earliest = || {
                let before = self.capture.before(self.a.cpu, self.a.intended).take(BACK);
                before.last().map_or(self.a.intended, |e| e.time)
            };
            let (cpu, from) = m.map_or_else(|| (self.a.cpu, earliest()), |m| (m.cpu, m.switch_in));
            let is_own = |e: &&Event| e.cpu == cpu && e.current == self.a.tid;
            for e in self.capture.within(from, self.a.actual).iter().filter(is_own) {
                let waits = matches!(
                    e.kind,
                    EventKind::LockBegin { .. }
                        | EventKind::SetPrio { .. }
                        | EventKind::SyscallEnter { futex: true, .. }
                );
                own.waits.push((e.time, waits));
                match e.kind {
                    EventKind::PageFault { .. } => own.faults.push((e.time, true)),
                    EventKind::SyscallEnter { .. } | EventKind::SyscallExit { .. } => {
                        own.faults.push((e.time, false));
                    }
                    _ => {}
                }
            }
            own
        })
    }

    /// How the measured task last left its CPU before or at `time`, since it was switched in.
    fn left_as(&self, m: Option<Milestones>, time: TraceNs) -> Left {
        let own = self.lanes.scheduling.of(self.a.tid);
        let first = m.map_or(0, |m| own.partition_point(|&i| self.event(i).time <= m.switch_in));
        let until = own.partition_point(|&i| self.event(i).time <= time).max(first);
        let mut woken = None;
        for &i in own[first..until].iter().rev().take(BACK) {
            let e = self.event(i);
            match e.kind {
                EventKind::Switch { prev, state, .. } if prev.tid == self.a.tid => {
                    return woken.map_or(Left::As(state), Left::Woken);
                }
                EventKind::Switch { .. } => break,
                kind if kind.is_waking(self.a.tid) => woken = Some(e.time),
                _ => {}
            }
        }
        woken.map_or(Left::Unseen, Left::Woken)
    }

    /// Whether its last event since it was switched in is the beginning of a wait for a lock.
    fn waits_for_lock(&self, m: Option<Milestones>, time: TraceNs) -> bool {
        if m.is_none() {
            return false;
        }
        let own = &self.own_events(m).waits;
        let until = own.partition_point(|(at, _)| *at <= time);
        until.checked_sub(1).is_some_and(|last| own[last].1)
    }
}

/// How a span interrupts the task underneath; `None`: that task runs itself.
pub(super) fn interruption(span: &Span) -> Option<Cause> {
    match span.actor {
        Actor::Nmi => Some(Cause::Nmi),
        Actor::Hrtimer(_) | Actor::Timer(_) => Some(Cause::TimerFunction),
        actor if span.inside.is_some() || actor.is_interrupt() => Some(Cause::Interrupt),
        Actor::Softirq(_) => Some(Cause::Softirq),
        _ => None,
    }
}

/// How a task left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// In this state.
    As(OffCpu),
    /// It was woken since, first then.
    Woken(TraceNs),
    /// The kernel did not record it.
    Unseen,
}
