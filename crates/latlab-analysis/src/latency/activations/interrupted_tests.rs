//! Activations of tasks whose sleeps are interrupted.

use super::tests::{WOKEN, arms, causes, one, periodic, time, us};
use super::*;
use crate::latency::scenario::{FAIR, IDLE, RT, Script};
use latlab_model::event::{EventKind, OffCpu};
use latlab_model::latency::{Cause, Release};

/// A signal, or a stop, ends the sleep to the next activation of the loop in `periodic`, `before` µs before its time.
fn interrupted(before: f64, until: f64, state: OffCpu) -> Script {
    let mut s = Script::default();
    let mut first = true;
    periodic(&mut s, 20, |s, i, start| {
        let (end, due) = (start + 100.0, 1_000.0 * f64::from(i + 1));
        if i != 10 {
            return end;
        }
        let function = s.name("hrtimer_wakeup");
        assert!(std::mem::take(&mut first));
        s.by(RT, end - 2.0, arms(function, due)).switch(end, RT, IDLE);
        let at = due - before;
        s.preempt(at - 5.0, IDLE, FAIR).by(FAIR, at, WOKEN);
        s.preempt(at + 1.0, FAIR, RT);
        if state == OffCpu::Stopped {
            let stopped = EventKind::Switch { prev: RT, state, next: FAIR };
            s.at(at + 3.0, stopped).by(FAIR, until, WOKEN);
            s.preempt(until + 2.0, FAIR, RT).by(RT, until + 3.0, arms(function, due));
            s.by(RT, until + 4.0, WOKEN);
        }
        until + 10.0
    });
    s
}

#[test]
fn a_signal_that_interrupts_the_sleep_to_the_next_activation_begins_and_ends_none() {
    let s = interrupted(400.0, 10_620.0, OffCpu::Sleeping);
    let found = one(&s);
    assert_eq!(found.release, Release::Timer { function: "hrtimer_wakeup".into() });
    assert_eq!(found.jobs.len(), 19);
    for job in &found.jobs {
        let parts = job.start_latency() + job.running + job.preempted + job.waiting;
        assert_eq!([job.response(), parts].map(us), [106.0, 106.0], "{job:#?}");
    }
}

#[test]
fn a_task_that_is_stopped_over_its_time_waits_for_who_stops_it() {
    let s = interrupted(400.0, 11_500.0, OffCpu::Stopped);
    let found = one(&s);
    let late = found.jobs.iter().find(|j| j.intended == TraceNs(11_000_000)).unwrap();
    assert_eq!(us(found.jobs[9].response()), 106.0, "{:#?}", found.jobs[9]);
    let parts = late.start_latency() + late.running + late.preempted + late.waiting;
    assert_eq!(parts, late.response(), "{late:#?}");
    assert_eq!(us(late.waiting), 500.0, "{late:#?}");
    let causes = causes(&s, late);
    assert_eq!(time(&causes, Cause::Wait, "worker"), 500.0, "{causes:?}");
    assert_eq!(time(&causes, Cause::InterruptsOff, "worker"), 0.0);
}

/// A frozen control group: the timer of the sleep expires and wakes nobody, 1.5 ms before the group is thawed.
#[test]
fn a_task_that_is_frozen_over_its_time_is_blocked_by_who_thaws_it() {
    let mut s = Script::default();
    periodic(&mut s, 20, |s, i, start| {
        if i != 10 {
            return start + 100.0;
        }
        let function = s.name("hrtimer_wakeup");
        let (arm, now) = (arms(function, 11_000.0), 11_002_000);
        s.by(RT, start + 98.0, arm).switch(start + 100.0, RT, IDLE);
        s.at(11_002.0, EventKind::HrtimerEntry { timer: 9, function, now, preempt_off: false })
            .at(11_003.0, EventKind::HrtimerExit { timer: 9 });
        s.preempt(12_490.0, IDLE, FAIR).by(FAIR, 12_500.0, WOKEN).preempt(12_504.0, FAIR, RT);
        12_600.0
    });
    let found = one(&s);
    let late = found.jobs.iter().find(|j| j.intended == TraceNs(11_000_000)).unwrap();
    assert_eq!([found.jobs[9].response(), late.start_latency()].map(us), [106.0, 1_504.0]);
    let causes = causes(&s, late);
    let blocked: f64 = causes.iter().filter(|c| c.0 == Cause::Lock).map(|c| c.2).sum();
    assert_eq!(blocked, 1_500.0, "{causes:?}");
}

/// Signals that come regularly, several in each period, begin no activation: the sleep is the one to the timer.
#[test]
fn regular_signals_are_not_what_separates_activations() {
    let mut s = Script::default();
    periodic(&mut s, 20, |s, i, start| {
        let function = s.name("hrtimer_wakeup");
        let due = 1_000_000 * i64::from(i + 1);
        let arm = arms(function, 1_000.0 * f64::from(i + 1));
        let mut end = start + 100.0;
        for _ in 0..2 {
            // The tick, which an interrupt starts again after that.
            let tick = EventKind::HrtimerStart {
                timer: 3,
                function: s.name("tick_nohz_handler"),
                relative: false,
                expires: due + 3_000_000,
                softexpires: due + 3_000_000,
            };
            s.by(RT, end - 2.0, arm).by(RT, end - 1.0, tick).switch(end, RT, IDLE);
            s.preempt(end + 245.0, IDLE, FAIR);
            s.by(FAIR, end + 250.0, WOKEN).preempt(end + 251.0, FAIR, RT);
            end += 260.0;
        }
        end
    });
    let found = one(&s);
    assert_eq!(found.release, Release::Timer { function: "hrtimer_wakeup".into() });
    assert_eq!(found.jobs.len(), 19);
    assert!(found.jobs.iter().all(|j| us(j.response()) == 106.0), "{:#?}", found.jobs);
}

/// A signal comes just before the timer: the task is woken by the one and sleeps no more for the other.
#[test]
fn a_signal_at_the_time_of_the_timer_does_not_hide_that() {
    let mut s = Script::default();
    periodic(&mut s, 20, |s, i, start| {
        if i != 10 {
            return start + 100.0;
        }
        let (vector, function) = (s.name("local_timer"), s.name("hrtimer_wakeup"));
        let (arm, now) = (arms(function, 11_000.0), 11_001_000);
        s.by(RT, start + 98.0, arm).switch(start + 100.0, RT, IDLE);
        s.on(1, 10_999.5, WOKEN);
        s.at(11_000.5, EventKind::VectorEntry { name: vector })
            .at(11_001.0, EventKind::HrtimerEntry { timer: 9, function, now, preempt_off: false })
            .at(11_002.0, EventKind::HrtimerExit { timer: 9 })
            .at(11_002.5, EventKind::VectorExit { name: vector });
        s.preempt(11_006.0, IDLE, RT);
        11_100.0
    });
    let found = one(&s);
    assert_eq!(found.jobs.len(), 19);
    assert!(found.jobs.iter().all(|j| us(j.response()) < 110.0), "{:#?}", found.jobs);
}
