//! Wake-ups whose timers expire in a thread (PREEMPT_RT), and timer callbacks before them.

use super::*;

/// PREEMPT_RT: an ordinary task's timer expires in a thread, which a task above it keeps waiting. The
/// interrupt came in time: nobody had interrupts off, and nothing stood still.
#[test]
fn a_task_above_the_thread_that_runs_the_timers_is_interference() {
    // Above the thread; of its priority, which is above the measured task's; and of both's.
    for (prio, measured, cause) in [
        (HIGH.prio, RT.prio, Cause::HigherPriority),
        (98, 120, Cause::HigherPriority),
        (98, 98, Cause::EqualPriority),
    ] {
        timer_thread_waits_for(prio, measured, cause);
    }
}

fn timer_thread_waits_for(prio: i32, measured: i32, cause: Cause) {
    let thread = Task { tid: Tid(400), name: Symbol(2), prio: 98 };
    let (other, own) = (Task { prio, ..HIGH }, Task { prio: measured, ..RT });
    let mut s = Script::default();
    let vector = s.name("local_timer");
    s.switch(0.0, own, FAIR)
        .preempt(90.0, FAIR, other)
        .at(100.0, EventKind::VectorEntry { name: vector })
        .at(101.0, EventKind::SoftirqRaise { vec: 8 })
        .at(102.0, EventKind::VectorExit { name: vector })
        .at(103.0, EventKind::Waking { task: thread, target: CpuId(0), in_interrupt: false })
        .switch(600.0, other, thread)
        .timer_softirq(601.0, own)
        .switch(607.0, thread, own)
        .at(610.0, EventKind::Other);
    let a = s.wakes(100.0, 609.0, true);
    let b = cut(&s, a);
    let of_other = b.sum(|p| p.cause == cause && p.task.tid == HIGH.tid);
    assert_eq!(of_other.as_us_f64(), 497.0, "{prio}, {measured}: {:#?}", b.pieces);
    assert!(us(&b, Cause::InterruptsOff) <= 3.0, "{:#?}", b.pieces);
}

/// PREEMPT_RT: the thread of the timers is in another timer's callback when the interrupt of an ordinary
/// task's timer comes, in time. The callback delays that timer; it keeps no interrupt off.
#[test]
fn a_callback_before_ours_in_the_thread_of_the_timers_is_a_timer_function() {
    let thread = Task { tid: Tid(400), name: Symbol(2), prio: 98 };
    let own = Task { prio: 120, ..RT };
    let mut s = Script::default();
    let (irq, callback) = (s.name("arch_timer"), s.name("on_timer"));
    s.switch(0.0, own, FAIR)
        .at(40.0, EventKind::Waking { task: thread, target: CpuId(0), in_interrupt: false })
        .preempt(45.0, FAIR, thread)
        .at(48.0, EventKind::SoftirqEntry { vec: 1 })
        .at(50.0, EventKind::TimerEntry { timer: 3, function: callback, now: 0 })
        .at(102.0, EventKind::IrqEntry { irq: 18, name: irq })
        .at(103.0, EventKind::SoftirqRaise { vec: 8 })
        .at(104.0, EventKind::IrqExit { irq: 18 })
        .at(340.0, EventKind::TimerExit { timer: 3 })
        .at(341.0, EventKind::SoftirqExit { vec: 1 })
        .timer_softirq(342.0, own)
        .switch(348.0, thread, own)
        .at(350.0, EventKind::Other);
    let a = s.wakes(100.0, 349.0, true);
    let b = cut(&s, a);
    let of_callback = |cause| b.sum(|p| p.actor == Actor::Timer(callback) && p.cause == cause);
    assert_eq!(of_callback(Cause::TimerFunction).as_us_f64(), 236.0, "{:#?}", b.pieces);
    assert_eq!(of_callback(Cause::InterruptsOff).as_us_f64(), 2.0, "before the interrupt");
}

/// Without PREEMPT_RT a callback in a softirq goes on after the interrupt that woke the task, as long as
/// it ran before as well.
#[test]
fn a_callback_is_as_long_as_it_ran_before_the_task_was_woken_too() {
    let mut s = Script::default();
    let callback = s.name("on_timer");
    s.switch(0.0, RT, FAIR)
        .at(48.0, EventKind::SoftirqEntry { vec: 1 })
        .at(50.0, EventKind::TimerEntry { timer: 3, function: callback, now: 0 });
    s.timer(100.0).at(350.0, EventKind::TimerExit { timer: 3 });
    s.at(351.0, EventKind::SoftirqExit { vec: 1 }).preempt(352.0, FAIR, RT);
    s.at(360.0, EventKind::Other);
    let a = s.wakes(100.0, 354.0, true);
    let b = cut(&s, a);
    let after = |p: &&Piece| p.actor == Actor::Timer(callback) && p.cause == Cause::TimerFunction;
    let whole: f64 = b.pieces.iter().filter(after).map(|p| p.whole.as_us_f64()).sum();
    assert_eq!(whole, 296.0, "{:#?}", b.pieces);
}

/// The tick comes while the measured task returns, and a callback runs in the softirq behind it.
#[test]
fn a_callback_behind_an_interrupt_of_the_measured_task_is_no_ordinary_path() {
    let mut s = Script::default();
    let (tick, callback) = (s.name("local_timer"), s.name("on_timer"));
    s.switch(0.0, RT, FAIR).timer(100.0).preempt(106.0, FAIR, RT);
    s.at(107.0, EventKind::VectorEntry { name: tick })
        .at(109.0, EventKind::VectorExit { name: tick })
        .at(110.0, EventKind::SoftirqEntry { vec: 1 })
        .at(111.0, EventKind::TimerEntry { timer: 3, function: callback, now: 0 })
        .at(231.0, EventKind::TimerExit { timer: 3 })
        .at(232.0, EventKind::SoftirqExit { vec: 1 })
        .at(240.0, EventKind::Other);
    let a = s.wakes(100.0, 234.0, true);
    let b = cut(&s, a);
    assert_eq!(us(&b, Cause::TimerFunction), 120.0, "{:#?}", b.pieces);
}

/// A handler that is traced function by function, and runs at the intended time: it is as long as it ran, not as long as
/// each of its functions and all before.
#[test]
fn a_handler_in_pieces_is_as_long_as_it_ran() {
    let mut s = Script::default();
    let [vector, handler, inner] = ["local_timer", "on_hrtimer", "spin"].map(|n| s.name(n));
    let expiry =
        EventKind::HrtimerEntry { timer: 3, function: handler, now: 0, preempt_off: false };
    let (called, length) = (TraceNs(2_000), Nanos(128_000));
    let exit = EventKind::FunctionExit { function: inner, depth: 3, called, length };
    s.at(0.0, EventKind::VectorEntry { name: vector })
        .at(1.0, expiry)
        .at(2.0, EventKind::FunctionEntry { function: inner, depth: 3 })
        .at(130.0, exit)
        .at(133.0, EventKind::HrtimerExit { timer: 3 })
        .at(134.0, EventKind::VectorExit { name: vector });
    s.timer(135.0).preempt(141.0, FAIR, RT);
    s.at(150.0, EventKind::Other);
    let a = s.wakes(60.0, 145.0, true);
    let b = cut(&s, a);
    let own = |p: &&Piece| p.actor == Actor::Hrtimer(handler);
    assert!(b.pieces.iter().filter(own).count() > 1, "{:#?}", b.pieces);
    let whole: f64 = b.pieces.iter().filter(own).map(|p| p.whole.as_us_f64()).sum();
    assert_eq!(whole, 132.0, "{:#?}", b.pieces);
}
