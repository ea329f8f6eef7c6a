//! Activations of tasks whose sleeps are interrupted.

use super::tests::{causes, one, periodic, time, us};
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
        let arm = |due_us: f64| {
            let due = (due_us * 1e3) as i64;
            let (expires, softexpires) = (due, due);
            EventKind::HrtimerStart { timer: 9, function, relative: false, expires, softexpires }
        };
        assert!(std::mem::take(&mut first));
        s.by(RT, end - 2.0, arm(due)).switch(end, RT, IDLE);
        let at = due - before;
        s.preempt(at - 5.0, IDLE, FAIR).by(
            FAIR,
            at,
            EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false },
        );
        s.preempt(at + 1.0, FAIR, RT);
        if state == OffCpu::Stopped {
            let stopped = EventKind::Switch { prev: RT, state, next: FAIR };
            s.at(at + 3.0, stopped).by(
                FAIR,
                until,
                EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false },
            );
            s.preempt(until + 2.0, FAIR, RT).by(RT, until + 3.0, arm(due));
            s.by(
                RT,
                until + 4.0,
                EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false },
            );
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
