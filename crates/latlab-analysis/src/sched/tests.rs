//! The analysis against schedules of which everything is known.

use super::analyse::Options;
use super::pattern::{Truth, analyse, event, names, random, switch, task};
use latlab_model::event::{Event, EventKind, OffCpu, Task};
use latlab_model::sched::schedule::{End, InversionKind, Slice, Totals};
use latlab_model::units::{CpuId, Nanos, Tid, TraceNs};
use proptest::prelude::*;

fn found(slice: &Slice) -> Truth {
    Truth {
        tid: slice.task.tid.0,
        cpu: slice.cpu,
        start: slice.start.0,
        end: slice.end.0,
        delay: slice.delay.map_or(u64::MAX, |d| d.0),
        woken: slice.woken,
        why: slice.why,
    }
}

proptest! {
    /// Slices, reasons, delays and sums are those that were put in, to the nanosecond.
    #[test]
    fn known_schedules_are_found_exactly(seed: u64, cpus in 1u32..4, tasks in 1i32..6) {
        let (events, mut truth) = random(seed, cpus, tasks, 200);
        let (schedule, slices) = analyse(&events, Options::default());
        let mut seen: Vec<Truth> =
            slices.iter().filter(|s| s.why != End::Open).map(found).collect();
        let key = |t: &Truth| (t.cpu, t.start);
        truth.sort_by_key(key);
        seen.sort_by_key(key);
        prop_assert_eq!(&seen, &truth);
        let length = schedule.length_ns;
        for cpu in &schedule.cpus {
            let sum = cpu.busy_ns + cpu.idle_ns + cpu.unknown_ns;
            let begin = events.iter().find(|e| e.cpu.0 == cpu.cpu).map_or(0, |e| e.time.0);
            prop_assert_eq!(sum, schedule.first_ns + length - begin);
        }
        for line in &schedule.tasks {
            let of = |s: &&Slice| s.task.tid.0 == line.tid;
            let run: u64 = slices.iter().filter(of).map(|s| s.run().0).sum();
            prop_assert_eq!(line.run_ns, run);
            let waits: u64 =
                slices.iter().filter(of).filter_map(|s| s.delay).map(|d| d.0).sum();
            prop_assert_eq!(line.delay.sum_ns, waits);
            // Each known sleep ends one burst at most, and bursts are made of slices.
            let ends = line.ends.slept + line.ends.blocked + line.ends.exited + line.ends.stopped;
            prop_assert!(line.bursts.count <= ends && line.bursts.sum_ns <= run);
            prop_assert!(line.sleeps.sum_ns <= line.off_ns && line.blocked.sum_ns <= line.sleeps.sum_ns);
        }
    }

    /// What fair tasks got is what the ideal would have given them, all together.
    #[test]
    fn the_ideal_shares_out_what_there_was(seed: u64, tasks in 1i32..6) {
        let (events, _) = random(seed, 1, tasks, 200);
        let (schedule, _) = analyse(&events, Options { window_ns: 10_000_000, ..Options::default() });
        let got: u64 = schedule.tasks.iter().map(|t| t.fair_ns).sum();
        let ideal: u64 = schedule.tasks.iter().map(|t| t.ideal_ns).sum();
        prop_assert!(got.abs_diff(ideal) <= schedule.tasks.len() as u64 + got / 1_000_000);
        let windows = &schedule.windows;
        prop_assert!(windows.iter().all(|w| w.jain > 0.0 && w.jain <= 1.0 + 1e-9));
    }

    /// Holes anywhere: nothing is made up, whatever remains is a slice that there was, or is marked.
    #[test]
    fn lost_events_mark_what_they_touch(seed: u64, from in 50usize..300, n in 1usize..100) {
        let (mut events, truth) = random(seed, 2, 3, 200);
        let on: Vec<usize> =
            (0..events.len()).filter(|&i| events[i].cpu == CpuId(0)).skip(from).take(n + 1).collect();
        prop_assume!(on.len() == n + 1);
        let first = events[on[n]];
        let hole = Event { kind: EventKind::Lost { count: Some(n as u64) }, ..first };
        events.insert(on[n], hole);
        for &i in on[..n].iter().rev() {
            events.remove(i);
        }
        let (schedule, slices) = analyse(&events, Options::default());
        for s in slices.iter().filter(|s| !s.doubtful && s.why != End::Open) {
            let mut f = found(s);
            let real = truth.iter().find(|t| t.start == f.start && t.cpu == f.cpu);
            prop_assert!(real.is_some(), "{:?}", f);
            let real = real.unwrap();
            if s.delay.is_none() {
                (f.delay, f.woken) = (real.delay, real.woken);
            }
            prop_assert_eq!(&f, real);
        }
        prop_assert_eq!(schedule.cpus[0].holes, 1);
        prop_assert_eq!(schedule.cpus[0].lost, n as u64);
        prop_assert!(schedule.notes.iter().any(|n| n.id() == Some("sched.holes")));
    }

    /// Any order of any events: no panic, and the accounts are finite.
    #[test]
    fn nonsense_is_survived(kinds in prop::collection::vec((0u8..9, 0i32..5, 0u32..3, prop_oneof![0u64..1_000_000_000_000, any::<u64>()], any::<bool>()), 0..200)) {
        let events: Vec<Event> = kinds.into_iter().flat_map(|(kind, tid, cpu, time, lost)| {
            let (a, b) = (task(tid), Task { prio: tid * 40 - 1, ..task((tid + 1) % 5) });
            let of = match kind {
                0 | 1 => EventKind::Switch { prev: a, state: if lost { OffCpu::Dead } else { OffCpu::Preempted }, next: b },
                2 => EventKind::Wakeup { task: b, target: CpuId(cpu + 1), in_interrupt: false },
                3 => EventKind::Waking { task: a, target: CpuId(cpu), in_interrupt: false },
                4 => EventKind::WakeupNew { task: a, target: CpuId(cpu) },
                5 => EventKind::Migrate { task: b, from: CpuId(0), to: CpuId(cpu) },
                6 => EventKind::Fork { child: a },
                7 => EventKind::SetPrio { task: a, new: tid },
                _ => EventKind::Runtime { tid: Tid(tid), ns: Nanos(u64::MAX), vruntime: time },
            };
            let event = |kind| Event { time: TraceNs(time), cpu: CpuId(cpu), current: Tid(tid), kind };
            let hole = lost.then(|| event(EventKind::Lost { count: Some(1) }));
            [hole, Some(event(of))]
        }).flatten().collect();
        let (schedule, _) = analyse(&events, Options { window_ns: 1, ..Options::default() });
        let text = serde_json::to_string(&schedule).unwrap();
        prop_assert_eq!(serde_json::from_str::<latlab_model::sched::schedule::Schedule>(&text).unwrap().slices, schedule.slices);
    }
}

fn rt(tid: i32, prio: i32) -> Task {
    Task { tid: Tid(tid), name: names().1[2], prio }
}

#[test]
fn a_thread_id_that_is_used_again_is_another_task() {
    let idle = task(0);
    let second = names().1[0];
    let events = [
        event(0, 0, 0, EventKind::Fork { child: task(7) }),
        event(10, 0, 0, EventKind::WakeupNew { task: task(7), target: CpuId(0) }),
        switch(1_000, 0, idle, OffCpu::Runnable, task(7)),
        switch(5_000, 0, task(7), OffCpu::Dead, idle),
        event(6_000, 0, 0, EventKind::Fork { child: Task { name: second, ..task(7) } }),
        event(
            6_500,
            0,
            0,
            EventKind::WakeupNew { task: Task { name: second, ..task(7) }, target: CpuId(0) },
        ),
        switch(7_000, 0, idle, OffCpu::Runnable, Task { name: second, ..task(7) }),
        switch(9_000, 0, Task { name: second, ..task(7) }, OffCpu::Sleeping, idle),
    ];
    let (schedule, slices) = analyse(&events, Options::default());
    assert_eq!(slices[0].why, End::Exited);
    assert_eq!(schedule.reused, 1);
    let labels: Vec<String> = schedule.tasks.iter().map(|t| t.label()).collect();
    assert_eq!(labels, ["task7:7 #1", "second:7 #2"]);
    assert_eq!((schedule.tasks[0].run_ns, schedule.tasks[1].run_ns), (4_000, 2_000));
    assert!(schedule.tasks[0].ended && !schedule.tasks[1].ended);
    assert_eq!(schedule.tasks[1].wakeup.max_ns, 500);
}

#[test]
fn bursts_last_from_wake_up_to_sleep_and_sleeps_to_the_next_wake_up() {
    let (idle, mine, other) = (task(0), task(7), task(8));
    let wake = |at| {
        event(at, 0, 0, EventKind::Wakeup { task: mine, target: CpuId(0), in_interrupt: false })
    };
    let events = [
        // Where a burst began before the first event, its length is not known.
        switch(0, 0, idle, OffCpu::Runnable, mine),
        switch(5_000, 0, mine, OffCpu::Sleeping, idle),
        wake(9_000),
        switch(10_000, 0, idle, OffCpu::Runnable, mine),
        switch(20_000, 0, mine, OffCpu::Preempted, other),
        switch(25_000, 0, other, OffCpu::Sleeping, mine),
        switch(30_000, 0, mine, OffCpu::Sleeping, idle),
        wake(50_000),
        switch(52_000, 0, idle, OffCpu::Runnable, mine),
        switch(60_000, 0, mine, OffCpu::Blocked, idle),
        wake(100_000),
        switch(101_000, 0, idle, OffCpu::Runnable, mine),
        switch(110_000, 0, mine, OffCpu::Blocked, idle),
    ];
    let (schedule, _) = analyse(&events, Options::default());
    let line = schedule.tasks.iter().find(|t| t.tid == 7).unwrap();
    let of = |d: &Totals| (d.count, d.sum_ns, d.max_ns, d.max_at_ns);
    assert_eq!(of(&line.bursts), (3, 15_000 + 8_000 + 9_000, 15_000, 10_000));
    assert_eq!(of(&line.sleeps), (3, 4_000 + 20_000 + 40_000, 40_000, 60_000));
    assert_eq!(of(&line.blocked), (1, 40_000, 40_000, 60_000));
}

#[test]
fn a_task_that_is_renamed_stays_the_same_task() {
    let idle = task(0);
    let after = names().1[1];
    let named = Task { name: after, ..task(7) };
    let events = [
        switch(0, 0, idle, OffCpu::Runnable, task(7)),
        event(500, 0, 7, EventKind::Rename { tid: Tid(7), name: after }),
        switch(1_000, 0, named, OffCpu::Sleeping, idle),
    ];
    let (schedule, _) = analyse(&events, Options::default());
    assert_eq!(schedule.tasks.len(), 1);
    let t = &schedule.tasks[0];
    assert_eq!((t.name.as_str(), t.was.as_deref(), t.run_ns), ("after", Some("task7"), 1_000));
    assert_eq!((schedule.renamed, schedule.reused), (1, 0));
}

#[test]
fn a_real_time_task_that_loses_its_cpu_to_less_is_throttled() {
    let (high, other) = (rt(5, 9), task(8));
    let events = [
        switch(0, 0, task(0), OffCpu::Runnable, high),
        switch(950_000_000, 0, high, OffCpu::Runnable, other),
        switch(990_000_000, 0, other, OffCpu::Sleeping, task(0)),
        switch(1_000_000_000, 0, task(0), OffCpu::Runnable, high),
        switch(1_950_000_000, 0, high, OffCpu::Runnable, task(0)),
        switch(2_000_000_000, 0, task(0), OffCpu::Runnable, high),
    ];
    let (schedule, slices) = analyse(&events, Options::default());
    assert_eq!(slices[0].why, End::Throttled);
    let t = &schedule.throttles;
    assert_eq!(
        (schedule.throttle_count, t[0].ns, t[0].ran_ns, t[0].idle_ns),
        (2, 50_000_000, 950_000_000, 10_000_000)
    );
    assert_eq!((t[1].ns, t[1].ran_ns, t[1].idle_ns), (50_000_000, 950_000_000, 50_000_000));
    assert!(schedule.inversions.is_empty(), "throttling is no inversion");
}

#[test]
fn inversions_are_seen_by_who_waits_and_by_inheritance() {
    let (high, low) = (rt(5, 9), task(8));
    let events = [
        switch(0, 0, task(0), OffCpu::Runnable, low),
        event(
            1_000_000,
            0,
            8,
            EventKind::Wakeup { task: high, target: CpuId(0), in_interrupt: false },
        ),
        switch(4_000_000, 0, low, OffCpu::Preempted, high),
        event(5_000_000, 0, 5, EventKind::SetPrio { task: low, new: 9 }),
        switch(5_000_000, 0, high, OffCpu::Blocked, Task { prio: 9, ..low }),
        event(7_000_000, 0, 8, EventKind::SetPrio { task: Task { prio: 9, ..low }, new: 120 }),
        event(
            7_000_000,
            0,
            8,
            EventKind::Wakeup { task: high, target: CpuId(0), in_interrupt: false },
        ),
        switch(7_010_000, 0, low, OffCpu::Preempted, high),
    ];
    let (schedule, _) = analyse(&events, Options::default());
    let seen: Vec<_> = schedule.inversions.iter().map(|i| (i.kind, i.high, i.low, i.ns)).collect();
    assert_eq!(
        seen,
        [(InversionKind::Ready, 5, 8, 3_000_000), (InversionKind::Boosted, 5, 8, 2_000_000)]
    );
}

#[test]
fn yields_and_preemptions_are_told_apart() {
    let events = [
        switch(0, 0, task(0), OffCpu::Runnable, task(1)),
        event(500, 0, 1, EventKind::SyscallEnter { nr: 0, yields: true, futex: false }),
        switch(1_000, 0, task(1), OffCpu::Runnable, task(2)),
        switch(2_000, 0, task(2), OffCpu::Preempted, task(1)),
        switch(3_000, 0, task(1), OffCpu::Stopped, task(0)),
    ];
    let (schedule, slices) = analyse(&events, Options::default());
    let why: Vec<End> = slices.iter().map(|s| s.why).collect();
    assert_eq!(why, [End::Yielded, End::Preempted, End::Stopped]);
    assert_eq!(slices[2].delay, Some(Nanos(1_000)));
    assert_eq!((schedule.pairs[0].by, schedule.pairs[0].of, schedule.pairs[0].times), (1, 2, 1));
}

#[test]
fn a_nice_task_gets_its_weight_and_lag_tells_when_it_does_not() {
    // 3:1 by weight, served 3:1 in rounds of 4 ms; then 1:1.
    let (a, b) = (task(1), Task { prio: 125, ..task(2) });
    let mut events = vec![
        event(0, 0, 0, EventKind::Wakeup { task: a, target: CpuId(0), in_interrupt: false }),
        event(0, 0, 0, EventKind::Wakeup { task: b, target: CpuId(0), in_interrupt: false }),
    ];
    events.push(switch(0, 0, task(0), OffCpu::Runnable, a));
    let mut now = 0;
    for round in 0..200 {
        now += 3_000_000;
        events.push(switch(now, 0, a, OffCpu::Preempted, b));
        now += if round < 100 { 1_000_000 } else { 3_000_000 };
        events.push(switch(now, 0, b, OffCpu::Preempted, a));
    }
    let (fair, _) =
        analyse(&events[..203], Options { window_ns: 40_000_000, ..Options::default() });
    assert!(fair.jain.unwrap() > 0.999, "{:?}", fair.jain);
    assert!(fair.tasks[0].lag_max_ns < 4_000_000);
    let (unfair, _) = analyse(&events, Options { window_ns: 40_000_000, ..Options::default() });
    assert!(unfair.windows.last().unwrap().jain < 0.9, "{:?}", unfair.windows.last());
    assert!(unfair.tasks[0].lag_max_ns > 100_000_000);
}

#[test]
fn who_runs_is_learnt_from_any_event_when_a_switch_is_missing() {
    // The switch from 2 back to 1 is missing; events of 1 show that it runs.
    let events = [
        event(0, 0, 1, EventKind::Other),
        switch(1_000_000, 0, task(1), OffCpu::Preempted, task(2)),
        event(1_010_000, 0, 1, EventKind::Other),
        event(1_200_000, 0, 2, EventKind::Other),
        event(2_000_000, 0, 1, EventKind::Other),
        event(5_000_000, 0, 1, EventKind::Other),
        switch(6_000_000, 0, task(1), OffCpu::Sleeping, task(0)),
    ];
    let (schedule, slices) = analyse(&events, Options::default());
    let seen: Vec<_> =
        slices.iter().map(|s| (s.task.tid.0, s.run().0, s.why, s.doubtful)).collect();
    assert_eq!(
        seen,
        [
            (1, 1_000_000, End::Preempted, true),
            (2, 200_000, End::Lost, true),
            (1, 4_000_000, End::Slept, true)
        ]
    );
    assert_eq!((schedule.unseen, schedule.cpus[0].unknown_ns), (1, 800_000));
    assert_eq!(schedule.task(1).unwrap().run_ns, 5_000_000);
}
