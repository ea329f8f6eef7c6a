//! What the events tell of a stretch without any event on its CPU: whether code could have run in it.
//!
//! | recorded | tells |
//! |---|---|
//! | return from a system call before it | user code, which cannot hold off interrupts |
//! | `preemptirq:irq_disable`, `irq_enable` | whether interrupts were enabled when it began |
//! | `preemptirq:preempt_disable`, `preempt_enable` | the same of preemption |
//! | depth of disabled preemption in the interrupt before it | whether the interrupted code, which goes on, can be preempted |
//! | the hwlat tracer's samples | a gap that no code of this kernel filled |
//! | another CPU's timer that was due in it | whether that CPU served it meanwhile, though both were idle |
//! | interrupts without a number | that none came from another CPU, unless an idle CPU had left its idle state: it calls what others have put into its queue, without an interrupt |

use super::breakdown::Piece;
use super::capture::Capture;
use super::cpu_timeline::{Actor, Lanes};
use latlab_model::event::{EventKind, Noise};
use latlab_model::latency::Cause;
use latlab_model::units::TraceNs;

/// Events before a stretch that are searched.
const BACK: usize = 4_096;
/// A timer that was held off with the stretch expires at most so much after it, ns.
const AT_ITS_END: u64 = 50_000;

/// Facts of the longest stretch without events of a wake-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Silence {
    /// It began in user code.
    pub(super) in_user: bool,
    /// Interrupts were enabled when it began; `None`: not recorded.
    pub(super) interrupts_on: Option<bool>,
    /// Preemption was enabled when it began; `None`: not recorded.
    pub(super) preemption_on: Option<bool>,
    /// The hardware-latency tracer reported a gap in it.
    pub(super) hwlat: bool,
    /// A timer of another CPU was due in it and expired at its end, and both CPUs were idle.
    pub(super) other_timer: bool,
    /// A function that another CPU called in it would not be in the events.
    pub(super) ipi: bool,
}

/// The facts of a piece's longest stretch.
pub(super) fn of(capture: &Capture, lanes: &Lanes, piece: &Piece) -> Silence {
    let (from, to) = (piece.silent_from, TraceNs(piece.silent_from.0 + piece.silent.0));
    let before = || capture.before(piece.cpu, from).take(BACK);
    let kinds = capture.kinds();
    let state = |of: &dyn Fn(&EventKind) -> Option<bool>| {
        if kinds.sections { before().find_map(|e| of(&e.kind)) } else { None }
    };
    let irqs = |kind: &EventKind| match *kind {
        EventKind::IrqsOff { off } => Some(!off),
        _ => None,
    };
    let preemption = |kind: &EventKind| match *kind {
        EventKind::PreemptOff { off } => Some(!off),
        _ => None,
    };
    let gap = |kind: &EventKind| matches!(kind, EventKind::Noise { source: Noise::Hardware, .. });
    let until = TraceNs(to.0.saturating_add(AT_ITS_END));
    let after = || {
        let first = capture.events.partition_point(|e| e.time <= from);
        capture.events[first..].iter().take_while(|e| e.time <= until)
    };
    Silence {
        in_user: kinds.returns && in_user(capture, piece),
        interrupts_on: state(&irqs),
        preemption_on: state(&preemption).or_else(|| interrupted_section(capture, piece)),
        hwlat: kinds.noise && after().any(|e| gap(&e.kind)),
        other_timer: other_timer(lanes, piece, to),
        ipi: capture.cpus.len() > 1 && (!kinds.vectors || has_left_idle_state(capture, piece)),
    }
}

/// `Some(false)`: a timer's interrupt that came since the task was switched in, the one that woke the
/// measured task or a later one, found preemption off in what it interrupted.
fn interrupted_section(capture: &Capture, piece: &Piece) -> Option<bool> {
    if piece.cause != Cause::PreemptionOff {
        return None;
    }
    let last = capture.before(piece.cpu, piece.silent_from).take(BACK).find_map(|e| match e.kind {
        EventKind::HrtimerEntry { preempt_off, .. } => Some(preempt_off),
        EventKind::Switch { .. } => Some(false),
        _ => None,
    });
    (last == Some(true)).then_some(false)
}

/// Whether a timer of another CPU was due in the first half of the interval and expired at its end, while both
/// CPUs were idle. Code on one of them may hold up the other: by a lock, by `stop_machine()`, or as the CPU
/// that wakes the other one for its timer (tick broadcast). An idle CPU runs none.
fn other_timer(lanes: &Lanes, piece: &Piece, to: TraceNs) -> bool {
    let from = piece.silent_from;
    let middle = TraceNs(from.0 + piece.silent.0 / 2);
    let early = TraceNs(to.0 - piece.silent.0 / 20);
    let late = TraceNs(to.0.saturating_add(AT_ITS_END.min(piece.silent.0 / 5)));
    let is_idle = |cpu, due: TraceNs| {
        let mut then = lanes.within(cpu, due, TraceNs(due.0.saturating_add(1)));
        then.any(|s| s.actor == Actor::Idle)
    };
    piece.actor == Actor::Idle
        && lanes.late_timers.iter().any(|&(cpu, due, expired)| {
            let together = (from..=middle).contains(&due) && (early..=late).contains(&expired);
            cpu != piece.cpu && together && is_idle(cpu, due)
        })
}

/// Whether an idle CPU had left its idle state before a piece's longest interval without events.
fn has_left_idle_state(capture: &Capture, piece: &Piece) -> bool {
    if piece.actor != Actor::Idle {
        return false;
    }
    let mut before = capture.before(piece.cpu, piece.silent_from).take(64);
    let last = before.find(|e| matches!(e.kind, EventKind::Idle { .. }));
    last.is_some_and(|e| matches!(e.kind, EventKind::Idle { state: None }))
}

/// Whether the last system-call event of the piece's task before it was a return to user space.
fn in_user(capture: &Capture, piece: &Piece) -> bool {
    let Actor::Task(tid) = piece.actor else { return false };
    capture
        .before(piece.cpu, piece.silent_from)
        .take(256)
        .filter(|e| e.current == tid)
        .find_map(|e| match e.kind {
            EventKind::SyscallExit { .. } => Some(true),
            EventKind::SyscallEnter { .. } | EventKind::PageFault { .. } => Some(false),
            _ => None,
        })
        .unwrap_or(false)
}

/// The idle state that was entered before a piece ended, as the kernel counts them.
pub(super) fn idle_state(capture: &Capture, piece: &Piece) -> Option<u32> {
    capture.before(piece.cpu, piece.end).take(64).find_map(|e| match e.kind {
        EventKind::Idle { state: Some(state) } => Some(state),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::breakdown::budget;
    use crate::latency::scenario::{FAIR, IDLE, RT, Script};
    use latlab_model::event::{OffCpu, Task};
    use latlab_model::units::Tid;

    fn silence(script: &Script) -> Silence {
        let lanes = Lanes::around(&script.capture, &script.capture.activations);
        let budget = budget(&script.capture, &lanes, script.capture.activations[0]);
        let longest = budget.pieces.iter().max_by_key(|p| p.silent).unwrap();
        of(&script.capture, &lanes, longest)
    }

    /// The worker runs without an event from 110 to 400 µs; the timer was due at 100.
    fn late(before: &[(f64, EventKind)]) -> Script {
        let mut s = Script::default();
        s.switch(0.0, RT, FAIR);
        for (at, kind) in before {
            s.at(*at, *kind);
        }
        s.timer(400.0).preempt(406.0, FAIR, RT).at(410.0, EventKind::Other);
        s.wakes(100.0, 408.0, true);
        s
    }

    #[test]
    fn interrupts_that_were_recorded_decide() {
        assert_eq!(silence(&late(&[])).interrupts_on, None);
        let off = |off| EventKind::IrqsOff { off };
        assert_eq!(silence(&late(&[(90.0, off(true))])).interrupts_on, Some(false));
        let on = late(&[(20.0, off(true)), (30.0, off(false))]);
        assert_eq!(silence(&on).interrupts_on, Some(true));
        let on = late(&[(20.0, EventKind::PreemptOff { off: true })]);
        assert_eq!(silence(&on).preemption_on, Some(false));
    }

    /// The interrupt comes in time, at 100 µs, and the worker goes on until 400.
    #[test]
    fn an_interrupt_tells_whether_it_came_into_a_section_without_preemption() {
        let on = |preempt_off| {
            let mut s = Script::default();
            s.switch(0.0, RT, FAIR).timer(100.0);
            for e in &mut s.capture.events {
                if let EventKind::HrtimerEntry { preempt_off: off, .. } = &mut e.kind {
                    *off = preempt_off;
                }
            }
            s.preempt(400.0, FAIR, RT).at(410.0, EventKind::Other);
            s.wakes(100.0, 408.0, true);
            silence(&s).preemption_on
        };
        assert_eq!((on(true), on(false)), (Some(false), None));
    }

    #[test]
    fn user_code_cannot_hold_off_interrupts() {
        assert!(silence(&late(&[(110.0, EventKind::SyscallExit { nr: 1 })])).in_user);
        let enter = EventKind::SyscallEnter { nr: 1, yields: false, futex: false };
        assert!(!silence(&late(&[(110.0, enter)])).in_user);
    }

    /// CPU 0 is silent from 110 to 400 µs; a timer of CPU 1, due at 150 µs, expires then, or in time.
    #[test]
    fn a_timer_of_another_idle_cpu_tells_whether_that_one_ran() {
        let with = |expired: f64, idle: (bool, bool)| {
            let mut s = Script::default();
            let on = |next| EventKind::Switch { prev: RT, state: OffCpu::Sleeping, next };
            let runs = |is_idle: bool| if is_idle { IDLE } else { FAIR };
            let before = Task { tid: Tid(700), ..runs(idle.1) };
            let other = if idle.1 { IDLE } else { before };
            s.on(1, 0.0, on(other)).switch(0.5, RT, runs(idle.0));
            let function = s.name("tick");
            let start = EventKind::HrtimerStart {
                timer: 5,
                function,
                relative: false,
                expires: 150_000,
                softexpires: 0,
            };
            let now = (expired * 1e3) as i64;
            let entry = EventKind::HrtimerEntry { timer: 5, function, now, preempt_off: false };
            s.on(1, 1.0, start).on(1, expired, entry);
            s.at(110.0, EventKind::Other).timer(400.0).preempt(406.0, runs(idle.0), RT);
            s.at(410.0, EventKind::Other).wakes(100.0, 408.0, true);
            s.capture.events.sort_by_key(|e| e.time);
            silence(&s).other_timer
        };
        let both = (true, true);
        assert!(with(401.0, both));
        assert!(!with(151.0, both) && !with(250.0, both) && !with(900.0, both));
        // Code on one CPU holds up the other.
        for idle in [(false, true), (true, false), (false, false)] {
            assert!(!with(401.0, idle), "{idle:?}");
        }
    }

    #[test]
    fn an_interrupt_of_another_cpu_is_excluded_where_it_would_be_recorded() {
        let ipi = |other: bool, vectors: bool| {
            let mut s = Script::default();
            s.switch(0.0, RT, FAIR);
            if other {
                s.on(1, 1.0, EventKind::Other);
            }
            s.at(110.0, EventKind::Other).timer(400.0).preempt(406.0, FAIR, RT);
            s.at(410.0, EventKind::Other).wakes(100.0, 408.0, true);
            if !vectors {
                let is_vector = |kind: &EventKind| {
                    matches!(kind, EventKind::VectorEntry { .. } | EventKind::VectorExit { .. })
                };
                s.capture.events.retain(|e| !is_vector(&e.kind));
            }
            silence(&s).ipi
        };
        assert!(ipi(true, false));
        assert!(!ipi(true, true), "its entry would be there");
        assert!(!ipi(false, false), "there is no other CPU");
    }

    #[test]
    fn an_idle_cpu_that_has_left_its_idle_state_may_call_functions_of_others() {
        let ipi = |state: Option<u32>| {
            let mut s = Script::default();
            s.on(1, 1.0, EventKind::Other).switch(2.0, RT, IDLE);
            s.at(90.0, EventKind::Idle { state: Some(1) }).at(95.0, EventKind::Idle { state });
            s.timer(400.0).preempt(406.0, IDLE, RT).at(410.0, EventKind::Other);
            s.wakes(100.0, 408.0, true);
            silence(&s).ipi
        };
        assert!(ipi(None));
        assert!(!ipi(Some(1)), "its interrupt would be there");
    }
}
