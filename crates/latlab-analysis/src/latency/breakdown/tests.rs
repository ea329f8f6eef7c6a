use super::*;
use crate::latency::critical_path::critical_path;
use crate::latency::scenario::{FAIR, HIGH, IDLE, RT, Script};
use latlab_model::event::{Noise, OffCpu, StackId};
use proptest::prelude::*;

mod timer_threads;

fn cut(script: &Script, a: Activation) -> Budget {
    let (budget, trail) = with_trail(&script.capture, &Lanes::of(&script.capture.events), a);
    assert_tiles(&budget);
    let mut at = a.intended.0;
    for segment in critical_path(&script.capture, &budget, trail).segments {
        assert_eq!(a.intended.0 + segment.part.start_ns, at, "a hole in the path");
        at = a.intended.0 + segment.part.end_ns;
    }
    assert_eq!(at, a.actual.0, "the segments do not add up");
    budget
}

fn assert_tiles(b: &Budget) {
    let mut at = b.activation.intended;
    for piece in &b.pieces {
        assert_eq!(piece.start, at, "a hole or an overlap in {b:#?}");
        assert!(piece.end > piece.start);
        at = piece.end;
    }
    assert_eq!(at, b.activation.actual, "the parts do not add up");
}

fn us(b: &Budget, cause: Cause) -> f64 {
    b.sum(|p| p.cause == cause).as_us_f64()
}

#[test]
fn an_on_time_wake_up_is_path_and_giving_way() {
    let mut s = Script::default();
    s.switch(0.0, RT, FAIR).timer(100.0).preempt(106.0, FAIR, RT).at(110.0, EventKind::Other);
    let a = s.wakes(99.5, 108.0, false);
    let b = cut(&s, a);
    assert_eq!(us(&b, Cause::InterruptsOff), 0.5, "the interrupt's own delivery");
    assert_eq!(us(&b, Cause::TimerFunction), 0.0);
    assert_eq!(us(&b, Cause::PreemptionOff), 2.0, "from the interrupt's end to the switch");
    assert_eq!(us(&b, Cause::Path), 6.0);
}

#[test]
fn a_late_interrupt_is_charged_to_who_held_it_off() {
    let mut s = Script::default();
    s.switch(0.0, RT, FAIR).timer(400.0).preempt(406.0, FAIR, RT).at(410.0, EventKind::Other);
    let a = s.wakes(100.0, 408.0, true);
    let b = cut(&s, a);
    assert_eq!(us(&b, Cause::InterruptsOff), 300.0);
    assert_eq!(b.pieces[0].task.tid, FAIR.tid);
}

#[test]
fn an_earlier_handler_is_not_called_interrupts_off() {
    let mut s = Script::default();
    let disk = s.name("disk");
    s.switch(0.0, RT, FAIR)
        .at(90.0, EventKind::IrqEntry { irq: 14, name: disk })
        .at(290.0, EventKind::IrqExit { irq: 14 })
        .timer(291.0)
        .preempt(297.0, FAIR, RT)
        .at(300.0, EventKind::Other);
    let a = s.wakes(100.0, 299.0, true);
    let b = cut(&s, a);
    assert_eq!(us(&b, Cause::Interrupt), 190.0);
    assert_eq!(us(&b, Cause::InterruptsOff), 1.0);
}

#[test]
fn a_timer_function_before_ours_in_the_same_interrupt_is_named() {
    let mut s = Script::default();
    let (vector, slow, ours) = (s.name("local_timer"), s.name("slow_fn"), s.name("hrtimer_wakeup"));
    s.switch(0.0, RT, FAIR)
        .at(100.0, EventKind::VectorEntry { name: vector })
        .at(101.0, EventKind::HrtimerEntry { timer: 9, function: slow, now: 0, preempt_off: false })
        .at(351.0, EventKind::HrtimerExit { timer: 9 })
        .at(352.0, EventKind::HrtimerEntry { timer: 7, function: ours, now: 0, preempt_off: false })
        .at(353.0, EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false })
        .at(354.0, EventKind::HrtimerExit { timer: 7 })
        .at(355.0, EventKind::VectorExit { name: vector })
        .preempt(357.0, FAIR, RT)
        .at(360.0, EventKind::Other);
    let a = s.wakes(100.0, 358.0, true);
    let b = cut(&s, a);
    assert_eq!(us(&b, Cause::TimerFunction), 250.0);
    let piece = b.pieces.iter().find(|p| p.cause == Cause::TimerFunction).unwrap();
    assert_eq!((piece.actor, piece.stage), (Actor::Hrtimer(slow), Stage::Handlers));
}

#[test]
fn who_ran_instead_decides_between_blocking_and_interference() {
    // Preemption off: the fair task that was there runs on.
    let mut s = Script::default();
    s.switch(0.0, RT, FAIR).timer(100.0).preempt(500.0, FAIR, RT).at(510.0, EventKind::Other);
    let a = s.wakes(100.0, 502.0, true);
    assert_eq!(us(&cut(&s, a), Cause::PreemptionOff), 396.0);
    // A higher task is chosen.
    let mut s = Script::default();
    s.switch(0.0, RT, FAIR)
        .timer(100.0)
        .preempt(106.0, FAIR, HIGH)
        .switch(600.0, HIGH, RT)
        .at(610.0, EventKind::Other);
    let a = s.wakes(100.0, 602.0, true);
    assert_eq!(us(&cut(&s, a), Cause::HigherPriority), 494.0);
    // A lower task is chosen although ours waits: throttled.
    let mut s = Script::default();
    s.switch(0.0, RT, HIGH)
        .timer(100.0)
        .preempt(106.0, HIGH, FAIR)
        .preempt(50_000.0, FAIR, RT)
        .at(50_010.0, EventKind::Other);
    let a = s.wakes(100.0, 50_001.0, true);
    let b = cut(&s, a);
    assert_eq!(us(&b, Cause::Throttled), 49_894.0);
}

/// With stack traces each event is followed by one, and that of a switch is still the old task's.
#[test]
fn stacks_behind_events_change_nobody() {
    let mut s = Script::default();
    let stack = || EventKind::Stack { stack: StackId(0) };
    s.switch(0.0, RT, FAIR).by(RT, 1.0, stack());
    s.timer(100.0).preempt(500.0, FAIR, RT).by(FAIR, 501.0, stack());
    s.at(510.0, EventKind::Other);
    let a = s.wakes(100.0, 508.0, true);
    let b = cut(&s, a);
    assert_eq!(us(&b, Cause::PreemptionOff), 396.0);
    let piece = b.pieces.iter().find(|p| p.cause == Cause::PreemptionOff).unwrap();
    assert_eq!(piece.task, FAIR, "with its name and priority");
    assert_eq!(us(&b, Cause::Throttled), 0.0);
}

/// Who had the CPU until the task is seen on it did not give way; nobody throttled it.
#[test]
fn a_switch_that_was_not_recorded_is_no_throttling() {
    let mut s = Script::default();
    s.switch(0.0, RT, FAIR).timer(100.0).by(RT, 510.0, EventKind::Other);
    let a = s.wakes(100.0, 508.0, true);
    let b = cut(&s, a);
    assert_eq!((us(&b, Cause::Throttled), us(&b, Cause::Lock)), (0.0, 0.0));
    assert!(us(&b, Cause::PreemptionOff) > 390.0, "{b:#?}");
}

/// A softirq in the task that did not give way is no second choice of the scheduler's.
#[test]
fn who_runs_on_behind_a_softirq_was_not_chosen_anew() {
    let mut s = Script::default();
    s.switch(0.0, RT, FAIR)
        .timer(100.0)
        .at(300.0, EventKind::SoftirqEntry { vec: 1 })
        .at(310.0, EventKind::SoftirqExit { vec: 1 })
        .preempt(500.0, FAIR, RT)
        .at(510.0, EventKind::Other);
    let a = s.wakes(100.0, 508.0, true);
    let b = cut(&s, a);
    assert_eq!(us(&b, Cause::Throttled), 0.0);
    assert_eq!((us(&b, Cause::Softirq), us(&b, Cause::PreemptionOff)), (10.0, 386.0));
}

/// The task is preempted before it is in user space, by one of higher priority that runs a softirq.
#[test]
fn a_softirq_in_the_task_that_preempts_is_the_softirq() {
    let mut s = Script::default();
    s.switch(0.0, RT, IDLE)
        .timer(100.0)
        .preempt(106.0, IDLE, RT)
        .preempt(110.0, RT, HIGH)
        .at(120.0, EventKind::SoftirqEntry { vec: 3 })
        .at(400.0, EventKind::SoftirqExit { vec: 3 })
        .switch(405.0, HIGH, RT)
        .at(415.0, EventKind::Other);
    let a = s.wakes(100.0, 410.0, true);
    let b = cut(&s, a);
    assert_eq!((us(&b, Cause::Softirq), us(&b, Cause::HigherPriority)), (280.0, 15.0), "{b:#?}");
}

#[test]
fn waiting_for_a_lock_after_the_switch_is_not_interference() {
    let mut s = Script::default();
    s.switch(0.0, RT, IDLE)
        .timer(100.0)
        .preempt(106.0, IDLE, RT)
        .at(110.0, EventKind::Switch { prev: RT, state: OffCpu::Blocked, next: FAIR })
        .at(400.0, EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false })
        .preempt(402.0, FAIR, RT)
        .at(410.0, EventKind::Other);
    let a = s.wakes(100.0, 405.0, true);
    let b = cut(&s, a);
    assert_eq!(us(&b, Cause::Lock), 290.0, "until its owner woke it");
}

/// The task waits from 110 µs on, for a page with `faults`; a disk's interrupt from 300 to 360 wakes it at 320, on
/// CPU 0 or, by a task there, from CPU 1.
fn completed(faults: bool, waker: u32) -> Budget {
    let mut s = Script::default();
    let disk = s.name("disk");
    let waking = EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false };
    s.switch(0.0, RT, FAIR).timer(100.0).preempt(106.0, FAIR, RT);
    if faults {
        s.at(108.0, EventKind::PageFault { user: true, address: 1 });
    }
    s.switch(110.0, RT, IDLE).at(200.0, EventKind::IrqEntry { irq: 9, name: disk });
    s.at(240.0, EventKind::IrqExit { irq: 9 });
    s.at(300.0, EventKind::IrqEntry { irq: 14, name: disk }).on(waker, 320.0, waking);
    s.at(360.0, EventKind::IrqExit { irq: 14 })
        .preempt(364.0, IDLE, RT)
        .at(372.0, EventKind::Other);
    let a = s.wakes(100.0, 370.0, true);
    cut(&s, a)
}

#[test]
fn the_interrupt_that_ends_a_wait_is_a_part_of_it() {
    let of = |b: &Budget| [Cause::PageFault, Cause::Lock, Cause::Interrupt].map(|c| us(b, c));
    // From 110 to 200, 240 to 300, and the interrupt of 60 µs; of the page also the 2 µs before and 6 after.
    assert_eq!(of(&completed(true, 0)), [90.0 + 60.0 + 60.0 + 8.0, 0.0, 40.0]);
    assert_eq!(of(&completed(false, 0)), [0.0, 90.0 + 60.0 + 60.0, 40.0]);
    // Woken by another CPU, an interrupt here is one that comes in between.
    assert_eq!(of(&completed(false, 1)), [0.0, 90.0 + 60.0, 100.0]);
}

/// The kernel left out the switch from the idle task: the task is seen at 400 µs, and may have run before.
#[test]
fn a_switch_from_idle_that_was_not_recorded_explains_nothing() {
    let mut s = Script::default();
    s.switch(0.0, RT, IDLE).timer(100.0).by(
        RT,
        400.0,
        EventKind::SyscallEnter { nr: 1, yields: false, futex: false },
    );
    let a = s.wakes(100.0, 400.0, true);
    let b = cut(&s, a);
    assert!(b.lost, "an event is missing");
    assert_eq!(us(&b, Cause::IdleExit) + us(&b, Cause::Throttled), 0.0, "{:#?}", b.pieces);
    assert_eq!(us(&b, Cause::Unexplained), 296.0, "since the end of the timer's interrupt");
}

#[test]
fn a_task_that_did_not_sleep_overran() {
    let mut s = Script::default();
    s.preempt(0.0, FAIR, RT)
        .at(400.0, EventKind::SyscallEnter { nr: 1, yields: false, futex: false });
    let a = s.wakes(100.0, 300.0, true);
    let b = cut(&s, a);
    assert!(b.milestones.is_none());
    assert_eq!(us(&b, Cause::Overrun), 200.0);
}

/// Interrupts of another CPU from `from` on, 7 µs of each 10, until `to`; the task runs between them.
fn interrupt(s: &mut Script, from: u32, to: u32) -> latlab_model::event::Symbol {
    let name = s.name("call_function_single");
    for us in (from..to).step_by(10).map(f64::from) {
        s.at(us, EventKind::VectorEntry { name }).at(us + 7.0, EventKind::VectorExit { name });
    }
    name
}

#[test]
fn a_task_that_interrupts_keep_awake_did_not_overrun() {
    let mut s = Script::default();
    s.switch(10.0, FAIR, RT);
    let name = interrupt(&mut s, 20, 300);
    s.at(400.0, EventKind::Other);
    let a = s.wakes(200.0, 300.0, true);
    let b = cut(&s, a);
    assert_eq!(us(&b, Cause::Overrun), 0.0);
    assert_eq!(us(&b, Cause::Interrupt), 100.0);
    assert!(b.pieces.iter().all(|p| p.actor == Actor::Vector(name)));
}

#[test]
fn a_task_that_ran_longer_than_it_was_interrupted_overran() {
    let mut s = Script::default();
    s.switch(10.0, FAIR, RT);
    interrupt(&mut s, 120, 300);
    s.at(400.0, EventKind::Other);
    let a = s.wakes(200.0, 300.0, true);
    let b = cut(&s, a);
    assert_eq!(us(&b, Cause::Overrun), 30.0);
    assert_eq!(us(&b, Cause::Interrupt), 70.0);
}

#[test]
fn a_timer_that_was_programmed_late_says_so() {
    let mut s = Script::default();
    let function = s.name("hrtimer_wakeup");
    let start = EventKind::HrtimerStart {
        timer: 7,
        function,
        relative: false,
        expires: 150_000,
        softexpires: 100_000,
    };
    s.at(0.0, start)
        .switch(1.0, RT, IDLE)
        .timer(151.0)
        .preempt(157.0, IDLE, RT)
        .at(160.0, EventKind::Other);
    let a = s.wakes(100.0, 158.0, true);
    let b = cut(&s, a);
    assert_eq!(us(&b, Cause::ProgrammedLate), 50.0);
    assert_eq!(us(&b, Cause::IdleExit), 3.0, "1 before the interrupt, 2 after it");
}

/// What kept the interrupt away goes on for as long as it does, whenever the timer was programmed for.
#[test]
fn a_delay_is_as_long_as_what_caused_it_also_behind_a_late_timer() {
    let mut s = Script::default();
    let function = s.name("hrtimer_wakeup");
    let start = EventKind::HrtimerStart {
        timer: 7,
        function,
        relative: false,
        expires: 150_000,
        softexpires: 100_000,
    };
    s.at(0.0, start).switch(20.0, RT, FAIR).timer(400.0).preempt(406.0, FAIR, RT);
    let a = s.wakes(100.0, 408.0, true);
    let b = cut(&s, a);
    let whole = |cause: Cause| -> f64 {
        b.pieces.iter().filter(|p| p.cause == cause).map(|p| p.whole.as_us_f64()).sum()
    };
    assert_eq!((us(&b, Cause::ProgrammedLate), whole(Cause::ProgrammedLate)), (50.0, 50.0));
    assert_eq!((us(&b, Cause::InterruptsOff), whole(Cause::InterruptsOff)), (250.0, 380.0));
}

#[test]
fn time_without_events_is_unexplained_not_invented() {
    let mut s = Script::default();
    s.timer(400.0).preempt(406.0, FAIR, RT);
    let a = s.wakes(100.0, 500.0, true);
    let b = cut(&s, a);
    assert_eq!(us(&b, Cause::Unexplained), 300.0 + 94.0);
}

proptest! {
    /// Whatever the events, also nonsense: the parts tile the latency.
    #[test]
    fn parts_always_add_up(steps in prop::collection::vec((1u32..40, 0u8..14), 1..120), from in 0u32..400, len in 1u32..2_000) {
        let mut s = Script::default();
        let name = s.name("x");
        let mut us = 0.0;
        for (step, kind) in steps {
            us += f64::from(step);
            match kind {
                0 => s.switch(us, RT, FAIR),
                1 => s.preempt(us, FAIR, RT),
                2 => s.preempt(us, HIGH, IDLE),
                3 => s.at(us, EventKind::IrqEntry { irq: 1, name }),
                4 => s.at(us, EventKind::IrqExit { irq: 1 }),
                5 => s.at(us, EventKind::SoftirqEntry { vec: 1 }),
                6 => s.at(us, EventKind::SoftirqExit { vec: 1 }),
                7 => s.timer(us),
                8 => s.at(us, EventKind::Nmi { length: Nanos(20_000) }),
                9 => s.at(us, EventKind::FunctionEntry { function: name, depth: 3 }),
                10 => s.at(us, EventKind::FunctionExit { function: name, depth: 3, called: TraceNs(0), length: Nanos(0) }),
                11 => s.on(1, us, EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false }),
                12 => s.on(1, us, EventKind::Switch { prev: FAIR, state: OffCpu::Dead, next: RT }),
                _ => s.at(us, EventKind::HrtimerExit { timer: 1 }),
            };
        }
        s.capture.events.sort_by_key(|e| e.time);
        let a = s.wakes(f64::from(from), f64::from(from + len), true);
        cut(&s, a);
    }
}

/// What `rtla timerlat` leaves: two lines an activation, and osnoise's events where they were on.
#[test]
fn what_timerlat_tells_adds_up_and_names_what_osnoise_heard() {
    let mut s = Script::default();
    let (urgent, worker, disk) = (s.name("urgent"), s.name("worker"), s.name("disk"));
    let line = |context, us, current| EventKind::Timerlat {
        context,
        latency: Nanos::from_us(us),
        current,
    };
    let noise = |source, name, us| EventKind::Noise { source, name, length: Nanos::from_us(us) };
    s.by(FAIR, 320.0, noise(Noise::Irq, disk, 120))
        .by(FAIR, 330.0, line(0, 230, worker))
        .by(HIGH, 540.0, noise(Noise::Thread, urgent, 200))
        .by(RT, 545.0, line(1, 445, Symbol(1)));
    crate::latency::wakeups::find(&mut s.capture, Nanos::from_us(150));
    let a = s.capture.activations[0];
    assert_eq!((a.intended, a.actual, a.late), (TraceNs(100_000), TraceNs(545_000), true));
    let b = cut(&s, a);
    assert!(b.by_timerlat);
    assert_eq!(us(&b, Cause::Interrupt), 120.0);
    assert_eq!(us(&b, Cause::InterruptsOff), 110.0, "of the worker that was interrupted");
    assert_eq!(us(&b, Cause::HigherPriority), 200.0);
    assert_eq!(us(&b, Cause::Unexplained), 15.0, "nobody says who ran then");
}

/// A work item that began at 50 µs keeps preemption off until 399; the timer's interrupt takes 4 µs of that.
#[test]
fn a_work_item_is_as_long_as_it_ran_before_the_task_was_woken_too() {
    let mut s = Script::default();
    let function = s.name("poll");
    s.switch(0.0, RT, FAIR).at(50.0, EventKind::WorkStart { work: 1, function });
    s.timer(100.0).at(399.0, EventKind::WorkEnd { work: 1 });
    s.preempt(400.0, FAIR, RT).at(410.0, EventKind::Other);
    let a = s.wakes(100.0, 405.0, true);
    let b = cut(&s, a);
    let work: Vec<_> = b.pieces.iter().filter(|p| p.actor == Actor::Work(function)).collect();
    assert!(work.iter().all(|p| p.cause == Cause::PreemptionOff), "{work:#?}");
    assert_eq!(work.iter().map(|p| p.length().as_us_f64()).sum::<f64>(), 295.0);
    assert_eq!(work.iter().map(|p| p.whole.as_us_f64()).sum::<f64>(), 345.0);
}

/// A thread of latlab itself keeps the measured task waiting: an effect of the measurement. A task of the
/// same priority that is none of latlab's threads is not.
#[test]
fn a_thread_of_latlab_itself_is_an_effect_of_the_measurement() {
    let main = Task { tid: Tid(90), ..RT };
    let mut s = Script::default();
    s.switch(0.0, RT, FAIR).preempt(50.0, FAIR, main).timer(100.0);
    s.switch(340.0, main, HIGH).switch(400.0, HIGH, RT).at(405.0, EventKind::Other);
    let a = s.wakes(100.0, 404.0, true);
    for (recorders, is_own) in
        [(vec![], false), (vec![RT.tid], false), (vec![Tid(90), RT.tid], true)]
    {
        s.capture.recorders = recorders;
        let b = cut(&s, a);
        let (own, equal) = (us(&b, Cause::Measurement), us(&b, Cause::EqualPriority));
        assert_eq!(
            if is_own { (own, equal) } else { (equal, own) },
            (236.0, 0.0),
            "{:#?}",
            b.pieces
        );
        assert_eq!(us(&b, Cause::HigherPriority), 60.0);
    }
}

/// The task waits for a lock from 110 µs on. It is woken at 300, and gets its CPU at 500.
fn woken_again(left: bool, idle_from: f64) -> Vec<(Cause, f64)> {
    let mut s = Script::default();
    s.switch(0.0, RT, IDLE).timer(100.0).preempt(106.0, IDLE, RT);
    s.at(108.0, EventKind::SyscallEnter { nr: 0, yields: false, futex: true });
    if left {
        s.switch(110.0, RT, if idle_from > 110.0 { FAIR } else { IDLE });
    }
    s.on(1, 300.0, EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false });
    if idle_from > 110.0 {
        s.switch(idle_from, FAIR, IDLE);
    } else {
        s.by(IDLE, 200.0, EventKind::Other);
    }
    s.by(IDLE, 320.0, EventKind::Other).preempt(500.0, IDLE, RT).at(510.0, EventKind::Other);
    s.capture.events.sort_by_key(|e| e.time);
    let a = s.wakes(100.0, 505.0, true);
    let lanes = Lanes::around(&s.capture, &[a]);
    let pieces = budget(&s.capture, &lanes, a).pieces;
    let behind = pieces.iter().filter(|p| p.stage == Stage::Return && p.actor == Actor::Idle);
    let mut sums: Vec<(Cause, f64)> = Vec::new();
    for p in behind {
        let us = p.length().0 as f64 / 1e3;
        match sums.iter_mut().find(|s| s.0 == p.cause) {
            Some(sum) => sum.1 += us,
            None => sums.push((p.cause, us)),
        }
    }
    sums
}

/// An idle CPU that was asleep when the task was woken has to come back; only one that became idle afterwards
/// passed the task over.
#[test]
fn an_idle_cpu_after_a_wait_is_no_throttling() {
    let lock_and_exit = [(Cause::Lock, 210.0), (Cause::IdleExit, 180.0)];
    assert_eq!(woken_again(true, 110.0), lock_and_exit);
    assert_eq!(woken_again(true, 310.0), [(Cause::Throttled, 190.0)]);
    // The kernel did not record that the task left its CPU: its last event tells.
    assert_eq!(woken_again(false, 110.0), [(Cause::Lock, 120.0), (Cause::IdleExit, 180.0)]);
}

/// The timer expires while the task is on its way to sleep; it goes on, and waits for a lock.
#[test]
fn a_task_that_is_woken_before_it_sleeps_is_not_switched_to() {
    let mut s = Script::default();
    s.switch(0.0, IDLE, RT).timer(150.0);
    s.at(160.0, EventKind::SyscallEnter { nr: 0, yields: false, futex: true });
    s.switch(170.0, RT, IDLE).on(
        1,
        400.0,
        EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false },
    );
    s.preempt(401.0, IDLE, RT).at(410.0, EventKind::Other);
    s.capture.events.sort_by_key(|e| e.time);
    let a = s.wakes(100.0, 405.0, true);
    let budget = cut(&s, a);
    let of = |cause: Cause| budget.sum(|p| p.cause == cause).0 / 1_000;
    assert_eq!((of(Cause::Overrun), of(Cause::Lock), of(Cause::Throttled)), (50, 231, 0));
    assert_eq!(budget.milestones.map(|m| m.switch_in), Some(TraceNs(152_000)));
}

/// What is asked of each span is looked for once: with 200,000 interrupts in one wake-up anything else takes minutes.
#[test]
fn a_wake_up_with_very_many_interrupts_is_cut() {
    let mut s = Script::default();
    let disk = s.name("disk");
    let storm = |s: &mut Script, from: f64| {
        for i in 0..100_000 {
            let at = from + 3.0 * f64::from(i);
            s.at(at, EventKind::IrqEntry { irq: 14, name: disk });
            s.at(at + 1.0, EventKind::IrqExit { irq: 14 });
        }
    };
    s.switch(0.0, RT, FAIR).timer(100.0);
    storm(&mut s, 200.0);
    s.preempt(300_300.0, FAIR, RT).preempt(300_310.0, RT, HIGH);
    storm(&mut s, 300_400.0);
    s.preempt(600_500.0, HIGH, RT).at(600_510.0, EventKind::Other);
    let a = s.wakes(99.5, 600_505.0, true);
    let b = cut(&s, a);
    assert_eq!(us(&b, Cause::Interrupt), 200_000.0);
    assert_eq!(us(&b, Cause::HigherPriority), 200_190.0);
    assert_eq!(us(&b, Cause::PreemptionOff), 200_196.0);
}
