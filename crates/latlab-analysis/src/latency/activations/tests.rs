use super::from_capture::{Chosen, Known, threads};
use super::release::regular;
use super::summary::Gathered;
use super::*;
use crate::latency::breakdown::budget;
use crate::latency::cpu_timeline::Lanes;
use crate::latency::scenario::{FAIR, HIGH, IDLE, RT, Script};
use latlab_model::event::{EventKind, OffCpu, Symbol, Task};
use latlab_model::latency::{Cause, LateBy, Release};

/// A loop of 1 ms: due, interrupt after 2 µs, on its CPU after 6; the body gets the time of the switch.
pub(super) fn periodic(
    s: &mut Script,
    count: u32,
    mut body: impl FnMut(&mut Script, u32, f64) -> f64,
) {
    let function = s.name("hrtimer_wakeup");
    let arm = |due_us: f64| arms(function, due_us);
    s.preempt(10.0, IDLE, RT).at(20.0, arm(1_000.0)).switch(25.0, RT, IDLE);
    let mut end = 25.0;
    for i in 1..=count {
        let due = 1_000.0 * f64::from(i);
        if end > due {
            continue;
        }
        wakes(s, due, IDLE);
        end = body(s, i, due + 6.0);
        let next = ((end / 1_000.0).floor() + 1.0) * 1_000.0;
        s.by(RT, end - 2.0, arm(next)).switch(end, RT, IDLE);
    }
}

/// The task is woken by another one.
pub(super) const WOKEN: EventKind =
    EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false };

/// The task sets its timer to a time.
pub(super) fn arms(function: Symbol, due_us: f64) -> EventKind {
    let due = (due_us * 1e3) as i64;
    let (expires, softexpires) = (due, due);
    EventKind::HrtimerStart { timer: 9, function, relative: false, expires, softexpires }
}

/// Cause and task of the first part of an activation, and its length, µs.
fn first_part(s: &mut Script, found: &Gathered, at: usize) -> (Cause, Tid, f64) {
    let of = |job: &Job| job.activation(RT.tid, Late::Never);
    s.capture.activations = found.jobs.iter().map(of).collect();
    let lanes = Lanes::around(&s.capture, &s.capture.activations);
    let pieces = budget(&s.capture, &lanes, s.capture.activations[at]).pieces;
    (pieces[0].cause, pieces[0].task.tid, us(pieces[0].length()))
}

/// The timer of the task expires 2 µs late while another task runs, and it is switched to.
fn wakes(s: &mut Script, due: f64, on: Task) {
    let (vector, function) = (s.name("local_timer"), s.name("hrtimer_wakeup"));
    let now = (due * 1e3) as i64 + 2_000;
    s.at(due + 1.0, EventKind::VectorEntry { name: vector })
        .at(due + 2.0, EventKind::HrtimerEntry { timer: 9, function, now, preempt_off: false })
        .at(due + 3.0, EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false })
        .at(due + 4.0, EventKind::HrtimerExit { timer: 9 })
        .at(due + 5.0, EventKind::VectorExit { name: vector })
        .preempt(due + 6.0, on, RT);
}

pub(super) fn one(s: &Script) -> Gathered {
    let mut all = threads(&s.capture, &Chosen::Tids(vec![RT.tid]), &Known::default());
    assert_eq!(all.len(), 1);
    let thread = all.remove(0);
    let (task, tid, release) = (thread.name, thread.tid, thread.release);
    let mut gathered = Gathered::new(task, tid, release, None);
    gathered.add(&thread.jobs);
    gathered
}

pub(super) fn us(ns: Nanos) -> f64 {
    ns.0 as f64 / 1e3
}

/// An activation of the given ms that only runs.
fn job(ms: u64, ns: u64, prio: i32) -> Job {
    let (intended, running, none) = (TraceNs(ms * 1_000_000), Nanos(ns), Nanos(0));
    Job {
        intended,
        woken: intended,
        start: intended,
        end: TraceNs(intended.0 + ns),
        cpu: CpuId(0),
        prio,
        running,
        preempted: none,
        waiting: none,
        unsure: false,
        after: None,
        by_event: false,
    }
}

/// The time of each cause in the breakdown of an activation, which must add up to its response time.
pub(super) fn causes(s: &Script, job: &Job) -> Vec<(Cause, String, f64)> {
    let a = job.activation(RT.tid, Late::Never);
    let lanes = Lanes::around(&s.capture, &[a]);
    let budget = budget(&s.capture, &lanes, a);
    let mut at = a.intended;
    let mut found: Vec<(Cause, String, f64)> = Vec::new();
    for p in &budget.pieces {
        assert_eq!(p.start, at, "{:#?}", budget.pieces);
        at = p.end;
        let who = s.capture.names.get(p.task.name).to_owned();
        match found.iter_mut().find(|f| f.0 == p.cause && f.1 == who) {
            Some(known) => known.2 += us(p.length()),
            None => found.push((p.cause, who, us(p.length()))),
        }
    }
    assert_eq!(at, a.actual);
    found
}

pub(super) fn time(found: &[(Cause, String, f64)], cause: Cause, who: &str) -> f64 {
    found.iter().filter(|f| f.0 == cause && f.1 == who).map(|f| f.2).sum()
}

#[test]
fn the_parts_of_a_periodic_loop_add_up() {
    let mut s = Script::default();
    periodic(&mut s, 20, |s, i, start| {
        if i % 10 == 0 {
            s.preempt(start + 50.0, RT, HIGH).switch(start + 350.0, HIGH, RT);
            return start + 400.0;
        }
        start + 100.0
    });
    let found = one(&s);
    assert_eq!(found.release, Release::Timer { function: "hrtimer_wakeup".into() });
    let period = found.period().unwrap();
    assert_eq!((period.median_ns, period.mad_ns), (1_000_000, 0));
    assert_eq!(found.jobs.len(), 19, "the end of the last one is its last event, not its sleep");
    for job in &found.jobs {
        assert_eq!(us(job.start_latency()), 6.0);
        let parts = job.start_latency() + job.running + job.preempted + job.waiting;
        assert_eq!(parts, job.response());
    }
    let late = &found.jobs[9];
    assert_eq!([late.running, late.preempted, late.response()].map(us), [100.0, 300.0, 406.0]);
    let causes = causes(&s, late);
    assert_eq!(time(&causes, Cause::HigherPriority, "urgent"), 300.0);
    assert_eq!(time(&causes, Cause::Execution, "measured"), 100.0);
    let numbers = found.summarize(Late::Response(Nanos::from_us(300))).counts;
    assert_eq!((numbers.activations, numbers.late), (19, 1));
    assert_eq!(numbers.late_by, LateBy { preempted: 1, ..LateBy::default() });
}

/// It sleeps 100 µs inside of each activation: the long sleep separates activations, the short one does not.
#[test]
fn a_short_sleep_lies_inside_of_an_activation() {
    // Kernels before 4.16 do not tell the mode.
    for (relative, long) in [(false, 200.0), (true, 700.0)] {
        short_sleep(relative, long);
    }
}

fn short_sleep(relative: bool, long: f64) {
    let mut s = Script::default();
    let function = s.name("hrtimer_wakeup");
    periodic(&mut s, 30, |s, i, start| {
        let rare = if i == 20 { long } else { 0.0 };
        let due = ((start + 150.0 + rare) * 1e3) as i64;
        let inner = EventKind::HrtimerStart {
            timer: 8,
            function,
            relative,
            expires: due,
            softexpires: due,
        };
        s.by(RT, start + 50.0, inner).switch(start + 51.0, RT, IDLE);
        let entry = EventKind::HrtimerEntry { timer: 8, function, now: due, preempt_off: false };
        let end = start + 150.0 + rare;
        s.at(end, entry)
            .at(end + 1.0, EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false });
        s.at(end + 2.0, EventKind::HrtimerExit { timer: 8 }).preempt(end + 3.0, IDLE, RT);
        end + 50.0
    });
    let found = one(&s);
    assert_eq!(found.period().unwrap().median_ns, 1_000_000);
    let job = &found.jobs[5];
    assert_eq!([job.waiting, job.running, job.response()].map(us), [100.0, 98.0, 206.0]);
    assert_eq!(time(&causes(&s, job), Cause::Sleep, "measured"), 100.0);
    assert_eq!(us(found.jobs[19].waiting), 100.0 + long);
}

/// A job of 1.5 ms in a period of 1 ms: the next one is due before its end, and the kernel does not let the
/// task sleep at all.
#[test]
fn an_overrun_delays_the_next_activation() {
    let mut s = Script::default();
    let function = s.name("hrtimer_wakeup");
    periodic(&mut s, 12, |s, i, start| {
        if i == 6 {
            let due = 1_000_000 * 7;
            let passed = EventKind::HrtimerStart {
                timer: 9,
                function,
                relative: false,
                expires: due,
                softexpires: due,
            };
            s.by(RT, start + 1_494.0, passed);
            s.by(
                RT,
                start + 1_496.0,
                EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false },
            );
        }
        start + if i == 6 { 1_600.0 } else { 100.0 }
    });
    let found = one(&s);
    let (long, next) = (&found.jobs[5], &found.jobs[6]);
    assert_eq!(us(long.response()), 1_502.0);
    assert_eq!(next.after, Some(long.end));
    assert_eq!(us(next.start_latency()), 502.0);
    let causes = causes(&s, next);
    assert_eq!(time(&causes, Cause::Overrun, "measured"), 502.0);
    assert_eq!(found.summarize(Late::Never).counts.overruns, 1);
}

/// The same overrun of 502 µs where a task of higher priority had the CPU for 1.3 ms, or for 400 µs, of it: the
/// activation would have ended in time without the first, and not without the second.
#[test]
fn an_overrun_is_of_who_kept_the_activation_before_from_its_cpu() {
    let cause_of_next = |kept: f64| {
        let mut s = Script::default();
        let function = s.name("hrtimer_wakeup");
        periodic(&mut s, 12, |s, i, start| {
            if i == 6 {
                s.preempt(start + 50.0, RT, HIGH).switch(start + 50.0 + kept, HIGH, RT);
                s.by(RT, start + 1_494.0, arms(function, 7_000.0)).by(RT, start + 1_496.0, WOKEN);
            }
            start + if i == 6 { 1_600.0 } else { 100.0 }
        });
        let found = one(&s);
        assert_eq!(us(found.jobs[6].start_latency()), 502.0);
        first_part(&mut s, &found, 6)
    };
    assert_eq!(cause_of_next(1_300.0), (Cause::HigherPriority, HIGH.tid, 502.0));
    assert_eq!(cause_of_next(400.0), (Cause::Overrun, RT.tid, 502.0));
}

/// It waits for a producer on another CPU, which a task of higher priority keeps from running.
#[test]
fn a_wait_names_what_kept_the_other_task_from_running() {
    let producer = Task { prio: 89, ..FAIR };
    let hog = Task { prio: 49, ..HIGH };
    let mut s = Script::default();
    s.on(1, 5.0, EventKind::Switch { prev: IDLE, state: OffCpu::Runnable, next: producer });
    periodic(&mut s, 10, |s, i, start| {
        s.switch(start + 20.0, RT, IDLE);
        let on = |prev, state, next| EventKind::Switch { prev, state, next };
        let kept = if i == 7 { 400.0 } else { 0.0 };
        if i == 7 {
            s.on(1, start + 30.0, on(producer, OffCpu::Preempted, hog));
            s.on(1, start + 430.0, on(hog, OffCpu::Sleeping, producer));
        }
        s.on(
            1,
            start + 60.0 + kept,
            EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false },
        );
        s.preempt(start + 65.0 + kept, IDLE, RT);
        start + 100.0 + kept
    });
    let found = one(&s);
    assert_eq!(found.period().unwrap().median_ns, 1_000_000);
    let usual = causes(&s, &found.jobs[3]);
    assert_eq!(time(&usual, Cause::Wait, "worker"), 40.0);
    let late = causes(&s, &found.jobs[6]);
    assert_eq!(time(&late, Cause::HigherPriority, "urgent"), 400.0);
    assert_eq!(time(&late, Cause::Wait, "worker"), 40.0);
    let numbers = found.summarize(Late::Response(Nanos::from_us(300))).counts;
    assert_eq!(numbers.late_by, LateBy { waited: 1, ..LateBy::default() });

    // Without the switch back to the producer nothing tells how long it was kept; that it ran is seen.
    let back = |e: &latlab_model::event::Event| matches!(e.kind, EventKind::Switch { prev, .. } if prev == hog);
    s.capture.events.retain(|e| !back(e));
    s.on(1, 7_440.0, EventKind::Other);
    s.capture.events.last_mut().unwrap().current = producer.tid;
    s.capture.events.sort_by_key(|e| e.time);
    let late = causes(&s, &one(&s).jobs[6]);
    assert_eq!(time(&late, Cause::Wait, "worker"), 440.0);
}

/// The owner of a lock sleeps with it: the owner is waited for, not the timer that wakes it.
#[test]
fn a_wait_for_a_task_that_sleeps_names_the_task() {
    let owner = Task { prio: 120, ..FAIR };
    let mut s = Script::default();
    let (vector, function) = (s.name("local_timer"), s.name("hrtimer_wakeup"));
    let on = |prev, state, next| EventKind::Switch { prev, state, next };
    s.on(1, 5.0, on(IDLE, OffCpu::Runnable, owner));
    periodic(&mut s, 10, |s, i, start| {
        if i != 7 {
            return start + 100.0;
        }
        s.switch(start + 20.0, RT, IDLE);
        s.on(1, start + 30.0, on(owner, OffCpu::Sleeping, IDLE));
        let due = ((start + 430.0) * 1e3) as i64;
        let entry = EventKind::HrtimerEntry { timer: 8, function, now: due, preempt_off: false };
        s.on(1, start + 430.0, EventKind::VectorEntry { name: vector });
        s.on(1, start + 431.0, entry);
        s.on(
            1,
            start + 432.0,
            EventKind::Waking { task: owner, target: CpuId(1), in_interrupt: false },
        );
        s.on(1, start + 433.0, EventKind::HrtimerExit { timer: 8 });
        s.on(1, start + 434.0, EventKind::VectorExit { name: vector });
        s.on(1, start + 436.0, on(IDLE, OffCpu::Runnable, owner));
        s.on(
            1,
            start + 440.0,
            EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false },
        );
        s.preempt(start + 445.0, IDLE, RT);
        start + 500.0
    });
    s.capture.events.sort_by_key(|e| e.time);
    let late = causes(&s, &one(&s).jobs[6]);
    assert!((400.0..=420.0).contains(&time(&late, Cause::Wait, "worker")), "{late:?}");
    assert_eq!(time(&late, Cause::Wait, "hrtimer_wakeup"), 0.0);
}

/// The kernel did not record the switch to the task: that it ran is seen, since when is not.
#[test]
fn a_missing_switch_makes_an_activation_unsure_and_ends_none() {
    let mut s = Script::default();
    periodic(&mut s, 12, |_, _, start| start + 100.0);
    let to_rt = |e: &latlab_model::event::Event| {
        matches!(e.kind, EventKind::Switch { next, .. } if next == RT) && e.time.0 == 5_006_000
    };
    s.capture.events.retain(|e| !to_rt(e));
    let found = one(&s);
    let unsure: Vec<usize> =
        found.jobs.iter().enumerate().filter(|(_, j)| j.unsure).map(|(i, _)| i).collect();
    assert_eq!((found.jobs.len(), unsure), (11, vec![4]));
    assert_eq!(us(found.jobs[4].response()), 106.0);
    let numbers = found.summarize(Late::Never).counts;
    assert_eq!((numbers.unsure, numbers.response.count, numbers.start.count), (1, 11, 10));
}

#[test]
fn lost_events_connect_nothing() {
    let mut s = Script::default();
    periodic(&mut s, 12, |_, _, start| start + 100.0);
    let (from, to) = (TraceNs(5_010_000), TraceNs(5_060_000));
    let lost = crate::latency::capture::Lost { cpu: CpuId(0), from, to, count: None };
    s.capture.lost.push(lost);
    let found = one(&s);
    let intended: Vec<u64> = found.jobs.iter().map(|j| j.intended.0 / 1_000_000).collect();
    assert!(
        !intended.contains(&5) && intended.contains(&4) && intended.contains(&7),
        "{intended:?}"
    );
}

#[test]
fn times_are_regular_also_with_missing_ones() {
    let with = |missing: u64| (0..60).filter(move |i| i % missing != 3).map(|i| i * 1_000 + i % 7);
    assert_eq!(regular(&with(20).collect::<Vec<_>>()).unwrap().median_ns / 10, 100);
    let irregular: Vec<u64> = (0..60).map(|i| i * i * 100).collect();
    assert_eq!(regular(&irregular), None);
    assert_eq!(regular(&[0, 1_000, 2_000, 3_000]), None, "too few");
}

#[test]
fn a_deadline_is_proposed_where_something_is_slow() {
    let jobs = |slow: u64| {
        let job = |i: u64| job(i, if i % 50 == 49 { slow } else { 100_000 }, 49);
        let mut gathered = Gathered::default();
        gathered.add(&(0..500).map(job).collect::<Vec<_>>());
        gathered
    };
    let proposed = |slow| jobs(slow).propose().0;
    assert_eq!(proposed(105_000), Late::Never);
    assert_eq!(proposed(2_000_000), Late::Response(Nanos(1_000_000)), "the period");
    let Late::Response(limit) = proposed(500_000) else { panic!("nothing is late") };
    assert!((120_000..500_000).contains(&limit.0), "{limit:?}");
}

/// Another task begins each period, and the task sleeps for a fixed time inside: both distances are regular.
#[test]
fn the_longest_of_regular_sleeps_separates_activations() {
    let mut s = Script::default();
    let (vector, function) = (s.name("local_timer"), s.name("hrtimer_wakeup"));
    let on = |prev, state, next| EventKind::Switch { prev, state, next };
    s.on(1, 1.0, on(IDLE, OffCpu::Runnable, FAIR));
    s.preempt(10.0, IDLE, RT).switch(25.0, RT, IDLE);
    for i in 1..20 {
        let t = 1_000.0 * f64::from(i);
        s.on(1, t, EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false }).preempt(
            t + 4.0,
            IDLE,
            RT,
        );
        // The same task wakes it once more.
        s.switch(t + 10.0, RT, IDLE);
        s.on(1, t + 20.0, EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false });
        s.preempt(t + 24.0, IDLE, RT);
        let due = ((t + 150.0) * 1e3) as i64;
        let (relative, expires) = (true, due);
        let inner =
            EventKind::HrtimerStart { timer: 8, function, relative, expires, softexpires: due };
        s.by(RT, t + 50.0, inner).switch(t + 51.0, RT, IDLE);
        let entry = EventKind::HrtimerEntry { timer: 8, function, now: due, preempt_off: false };
        s.at(t + 149.0, EventKind::VectorEntry { name: vector }).at(t + 150.0, entry);
        s.at(t + 151.0, EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false });
        s.at(t + 152.0, EventKind::HrtimerExit { timer: 8 });
        s.at(t + 152.5, EventKind::VectorExit { name: vector });
        s.preempt(t + 153.0, IDLE, RT).switch(t + 200.0, RT, IDLE);
    }
    s.capture.events.sort_by_key(|e| e.time);
    let found = one(&s);
    assert_eq!(found.release, Release::Task { waker: "worker".into() });
    let job = &found.jobs[4];
    assert_eq!([job.start_latency(), job.waiting, job.response()].map(us), [4.0, 110.0, 200.0]);
}

/// A deadline task gives the rest of its period away with sched_yield: it stays runnable, and a timer begins the
/// next period without a wake-up.
#[test]
fn a_yield_of_a_deadline_task_ends_an_activation() {
    let task = Task { prio: -1, ..RT };
    let mut s = Script::default();
    let function = s.name("dl_task_timer");
    s.preempt(10.0, IDLE, task);
    for i in 1..20 {
        let due = 1_000_000 * i64::from(i);
        let t = 1_000.0 * f64::from(i);
        let start = EventKind::HrtimerStart {
            timer: 9,
            function,
            relative: false,
            expires: due,
            softexpires: due,
        };
        s.by(task, t - 810.0, EventKind::SyscallEnter { nr: 24, yields: true, futex: false });
        s.by(task, t - 805.0, start).preempt(t - 800.0, task, IDLE);
        let entry =
            EventKind::HrtimerEntry { timer: 9, function, now: due + 2_000, preempt_off: false };
        s.at(t + 2.0, entry).at(t + 3.0, EventKind::HrtimerExit { timer: 9 }).preempt(
            t + 6.0,
            IDLE,
            task,
        );
    }
    let found = one(&s);
    assert_eq!(found.period().unwrap().median_ns, 1_000_000);
    assert_eq!([found.jobs[3].start_latency(), found.jobs[3].response()].map(us), [6.0, 200.0]);
}

/// A waiter for a lock with priority inheritance spins on its CPU while the owner, whose priority it raised, runs.
#[test]
fn a_spinning_waiter_waits_for_the_owner() {
    let owner = Task { prio: 79, ..FAIR };
    let mut s = Script::default();
    let on = |prev, state, next| EventKind::Switch { prev, state, next };
    s.on(1, 5.0, on(IDLE, OffCpu::Runnable, owner));
    periodic(&mut s, 10, |s, i, start| {
        if i != 6 {
            return start + 100.0;
        }
        s.by(RT, start + 50.0, EventKind::SetPrio { task: owner, new: 9 });
        s.on(1, start + 350.0, EventKind::SetPrio { task: Task { prio: 9, ..owner }, new: 79 });
        start + 400.0
    });
    s.capture.events.sort_by_key(|e| e.time);
    let found = causes(&s, &one(&s).jobs[5]);
    assert_eq!(time(&found, Cause::Wait, "worker"), 300.0);
    assert_eq!(time(&found, Cause::Execution, "measured"), 100.0);
}

#[test]
fn of_several_threads_the_one_that_a_user_means_is_explained() {
    let thread = |task: &str, tid: i32, prio: i32, release: Release, late: u64| {
        let job = |i: u64| job(i, if i < late { 900_000 } else { 100_000 }, prio);
        let (task, tid) = (task.to_owned(), Tid(tid));
        let mut gathered = Gathered::new(task, tid, release, None);
        gathered.add(&(0..100).map(job).collect::<Vec<_>>());
        gathered
    };
    let timer = || Release::Timer { function: "hrtimer_wakeup".into() };
    let by = |waker: &str| Release::Task { waker: waker.into() };
    let mut all = vec![
        thread("logger", 1, 120, timer(), 100),
        thread("helper", 2, 69, by("task"), 20),
        thread("producer", 3, 29, timer(), 1),
        thread("task", 4, 49, by("producer"), 20),
    ];
    super::summary::rank(&mut all, Late::Response(Nanos::from_us(500)));
    let order: Vec<&str> = all.iter().map(|t| t.task.as_str()).collect();
    assert_eq!(order, ["task", "helper", "producer", "logger"]);
}

/// Of a recording without events of timers and interrupts, the flags of the wake-up alone tell that no task woke it.
#[test]
fn a_task_that_an_interrupt_interrupts_is_not_the_one_that_wakes() {
    let of = |in_interrupt: bool| {
        let mut s = Script::default();
        s.preempt(10.0, IDLE, RT).switch(25.0, RT, IDLE);
        for i in 1..=20 {
            let due = 1_000.0 * f64::from(i);
            let on = if i % 4 == 0 { FAIR } else { IDLE };
            s.preempt(due - 10.0, IDLE, on);
            s.at(due, EventKind::Waking { task: RT, target: CpuId(0), in_interrupt });
            s.preempt(due + 5.0, on, RT).switch(due + 100.0, RT, IDLE);
        }
        one(&s)
    };
    let found = of(true);
    assert_eq!((found.release, found.jobs.len()), (Release::Wakeup, 19));
    assert_eq!(of(false).release, Release::Task { waker: "worker".into() }, "of every fourth");
}

/// The activation before waits for the worker, so long that the next one is due in it: a wait of more than the period is
/// the cause of both; one that each activation may have is not.
#[test]
fn an_overrun_is_of_a_wait_that_took_a_whole_period() {
    let cause_of_next = |kept: f64| {
        let mut s = Script::default();
        let function = s.name("hrtimer_wakeup");
        periodic(&mut s, 12, |s, i, start| {
            if i == 6 {
                s.switch(start + 50.0, RT, FAIR).by(FAIR, start + 50.0 + kept, WOKEN);
                s.preempt(start + 51.0 + kept, FAIR, RT);
                s.by(RT, start + 1_494.0, arms(function, 7_000.0)).by(RT, start + 1_496.0, WOKEN);
            }
            start + if i == 6 { 1_600.0 } else { 100.0 }
        });
        let found = one(&s);
        first_part(&mut s, &found, 6)
    };
    assert_eq!(cause_of_next(1_300.0), (Cause::Wait, FAIR.tid, 502.0));
    assert_eq!(cause_of_next(700.0), (Cause::Overrun, RT.tid, 502.0));
}

/// The bound of kept activations is that of tests.
#[test]
fn activations_that_are_not_kept_are_counted() {
    let late = Late::Response(Nanos::from_us(500));
    let slow = |i: u64| i % 100 == 99;
    let part = |n: u64| -> Vec<Job> {
        let one = |i: u64| job(n * 600 + i, if slow(i) { 900_000 } else { 100_000 + i }, 49);
        (0..600).map(one).collect()
    };
    let gathered = |limit: Option<Late>| {
        let mut gathered = Gathered::new("loop".into(), Tid(7), Release::Wakeup, limit);
        (0..5).for_each(|n| gathered.add(&part(n)));
        gathered
    };
    let given = gathered(Some(late));
    assert_eq!(given.jobs.len(), 1_200);
    let numbers = given.summarize(late);
    let counts = &numbers.counts;
    assert_eq!((numbers.beyond, counts.activations, counts.late), (1_800, 3_000, 30));
    assert_eq!(counts.late_by, LateBy { ran_long: 30, ..LateBy::default() });
    assert_eq!((counts.response.count, counts.running.count), (3_000, 3_000));
    assert_eq!(given.summarize(Late::Never).counts.late, 0);
    // Without a limit by the one that those that are kept suggest.
    let free = gathered(None);
    let (limit, _) = free.propose();
    let counts = free.summarize(limit).counts;
    assert_eq!((counts.activations, counts.late), (3_000, 30), "{limit:?}");
}
