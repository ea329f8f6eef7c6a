//! A wait of the measured task after it was switched in: was it for a lock, who held that, and did its
//! owner run?
//!
//! A wait is for a lock if an event of the task shows it: `lock:contention_begin`, a futex call, or a
//! priority that it lent to another task (`sched_pi_setprio`). Its owner is who woke it, unless an
//! interrupt did. Priority inversion is the owner's time as runnable and not running, while a task of
//! priority between the two had its CPU (L. Sha, R. Rajkumar and J. P. Lehoczky, 1990).

use super::breakdown::{Budget, Piece};
use super::capture::Capture;
use super::cpu_timeline::{Actor, Lanes};
use latlab_model::event::{Event, EventKind, Symbol};
use latlab_model::units::{CpuId, Nanos, Tid, TraceNs};

/// Whether an event shows that the measured task waits for a lock in a piece.
pub(super) fn is_contended(capture: &Capture, budget: &Budget, piece: &Piece) -> bool {
    let own = budget.activation.tid;
    let (cpu, from) = budget
        .milestones
        .map_or((budget.activation.cpu, budget.activation.intended), |m| (m.cpu, m.switch_in));
    let own_events = capture.back(cpu, from, piece.start).filter(|e| e.current == own);
    let told = |e: &Event| match e.kind {
        EventKind::LockBegin { .. } | EventKind::SetPrio { .. } => Some(true),
        EventKind::SyscallEnter { futex, .. } => Some(futex),
        EventKind::LockEnd { .. } | EventKind::SyscallExit { .. } => Some(false),
        _ => None,
    };
    own_events.filter_map(told).next().unwrap_or(false)
}

/// Who ended a wait: the task that woke the waiter, with the time; `None` where an interrupt did.
pub(super) fn owner(
    capture: &Capture,
    lanes: &Lanes,
    budget: &Budget,
    piece: &Piece,
) -> Option<Tid> {
    let own = budget.activation.tid;
    let events = lanes.scheduling.of(own);
    let after = events.partition_point(|&i| capture.events[i as usize].time <= piece.start);
    let is_waking = |e: &&Event| e.kind.is_waking(own);
    let waking = events[after..].iter().map(|&i| &capture.events[i as usize]).find(is_waking)?;
    let before = TraceNs(waking.time.0.saturating_sub(1));
    let ran = lanes.within(waking.cpu, before, waking.time).last();
    let is_interrupt = |s: &super::cpu_timeline::Span| {
        s.inside.is_some() || s.actor.is_interrupt() || matches!(s.actor, Actor::Hrtimer(_))
    };
    let by_task = waking.current != Tid(0) && !waking.kind.in_interrupt();
    (by_task && !ran.is_some_and(|s| is_interrupt(&s))).then_some(waking.current)
}

/// Where the owner of a lock is.
#[derive(Clone, Copy)]
struct State {
    since: TraceNs,
    /// The CPU on whose queue it waits; `None`: it runs or is blocked.
    waits_on: Option<CpuId>,
    prio: i32,
}

/// Tasks of priority between waiter and owner that ran on the owner's CPU while that was runnable, with
/// their time in a piece.
pub(super) fn instead(
    capture: &Capture,
    lanes: &Lanes,
    budget: &Budget,
    piece: &Piece,
    owner: Tid,
) -> Vec<(Symbol, Nanos)> {
    let waiter = budget.milestones.map_or(i32::MIN, |m| m.prio);
    let events = lanes.scheduling.of(owner);
    let until = events.partition_point(|&i| capture.events[i as usize].time <= piece.end);
    let first = events.partition_point(|&i| capture.events[i as usize].time < piece.start);
    let mut state = State { since: piece.start, waits_on: None, prio: i32::MAX };
    let mut found = Vec::new();
    // From the last event before the piece on.
    for &i in &events[first.saturating_sub(1)..until] {
        let e = &capture.events[i as usize];
        collect(lanes, piece, state, e.time, (waiter, owner), &mut found);
        state.since = e.time;
        match e.kind {
            EventKind::Switch { prev, state: left, .. } if prev.tid == owner => {
                (state.waits_on, state.prio) = (left.is_runnable().then_some(e.cpu), prev.prio);
            }
            EventKind::Switch { .. } => state.waits_on = None,
            EventKind::Waking { task, target, .. }
            | EventKind::Wakeup { task, target, .. }
            | EventKind::WakeupNew { task, target }
                if task.tid == owner =>
            {
                (state.waits_on, state.prio) = (Some(target), task.prio);
            }
            _ => {}
        }
    }
    collect(lanes, piece, state, piece.end, (waiter, owner), &mut found);
    found
}

fn collect(
    lanes: &Lanes,
    piece: &Piece,
    state: State,
    to: TraceNs,
    (waiter, owner): (i32, Tid),
    found: &mut Vec<(Symbol, Nanos)>,
) {
    let Some(cpu) = state.waits_on else { return };
    let (from, to) = (state.since.max(piece.start), to.min(piece.end));
    for span in lanes.within(cpu, from, to) {
        let between = waiter < span.task.prio && span.task.prio < state.prio;
        if between && span.task.tid != owner && span.task.tid != Tid(0) {
            found.push((span.task.name, span.length()));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::latency::breakdown::budget;
    use crate::latency::cpu_timeline::Lanes;
    use crate::latency::features::window;
    use crate::latency::scenario::{FAIR, IDLE, RT, Script};
    use latlab_model::event::{EventKind, OffCpu, Task};
    use latlab_model::latency::{Cause, Share};
    use latlab_model::units::{CpuId, Tid};

    const OWNER: Task = Task { prio: 89, ..FAIR };

    /// The task takes its turn at 106 µs, blocks until 400, and the owner on CPU 1 wakes it; there
    /// `middle` runs from 150 to 350, and the owner is runnable or blocked meanwhile.
    fn waits(enter: Option<EventKind>, left: OffCpu, middle_prio: i32) -> Share {
        let mut s = Script::default();
        let name = s.name("middle");
        let middle = Task { tid: Tid(400), name, prio: middle_prio };
        let on = |prev, state, next| EventKind::Switch { prev, state, next };
        s.switch(0.0, RT, IDLE).on(1, 1.0, on(IDLE, OffCpu::Runnable, OWNER));
        s.timer(100.0).preempt(106.0, IDLE, RT);
        if let Some(kind) = enter {
            s.at(108.0, kind);
        }
        s.at(110.0, on(RT, OffCpu::Sleeping, IDLE));
        s.on(1, 150.0, on(OWNER, left, middle)).on(1, 350.0, on(middle, OffCpu::Sleeping, OWNER));
        s.on(1, 398.0, EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false });
        s.preempt(400.0, IDLE, RT).at(405.0, EventKind::Other);
        s.capture.events.sort_by_key(|e| e.time);
        let a = s.wakes(100.0, 404.0, true);
        let lanes = Lanes::around(&s.capture, &[a]);
        let w = window(&s.capture, &lanes, &budget(&s.capture, &lanes, a), None);
        let lock = w.shares.iter().find(|(g, _)| g.cause == Cause::Lock);
        let (group, share) = lock.unwrap_or_else(|| panic!("{:#?}", w.shares));
        assert_eq!(group.who, "worker");
        share.clone()
    }

    #[test]
    fn a_lock_needs_an_event_that_shows_it() {
        let futex = |futex| Some(EventKind::SyscallEnter { nr: 0, yields: false, futex });
        assert!(waits(futex(true), OffCpu::Runnable, 49).contended);
        assert!(waits(Some(EventKind::LockBegin { lock: 1 }), OffCpu::Runnable, 49).contended);
        assert!(!waits(futex(false), OffCpu::Runnable, 49).contended);
        // A page fault without an event for it, as on ARM.
        assert!(!waits(None, OffCpu::Runnable, 49).contended);
    }

    #[test]
    fn an_inversion_needs_a_runnable_owner_and_a_priority_between() {
        let lock = Some(EventKind::LockBegin { lock: 1 });
        let instead = |left, prio| waits(lock, left, prio).instead_ns;
        assert_eq!(instead(OffCpu::Runnable, 49)["middle"], 200_000);
        assert!(instead(OffCpu::Sleeping, 49).is_empty(), "the owner itself was blocked");
        assert!(instead(OffCpu::Runnable, 4).is_empty(), "it would have run before the waiter too");
        assert!(instead(OffCpu::Runnable, 120).is_empty(), "of lower priority than the owner");
    }
}
