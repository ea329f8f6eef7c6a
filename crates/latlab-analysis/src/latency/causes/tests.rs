use super::*;
use latlab_model::finding::Confidence;
use latlab_model::latency::{CauseEvidence, CounterReadings, Kind, Share};
use latlab_stats::rng::SplitMix64;

mod stalls;

fn window(late: bool, parts: &[(Cause, &str, u64, Kind)], silent: bool) -> Window {
    let shares: Vec<(Group, Share)> = parts
        .iter()
        .map(|&(cause, who, ns, kind)| {
            let share = Share {
                ns,
                times: 1,
                whole_ns: ns,
                silent_ns: if silent { ns } else { 0 },
                kind: Some(kind),
                ..Share::default()
            };
            (Group { cause, who: who.into() }, share)
        })
        .collect();
    let latency_ns = shares.iter().map(|(_, s)| s.ns).sum();
    let at_intended = parts[0].1.to_owned();
    Window { late, latency_ns, shares, at_intended, ..Window::default() }
}

/// On-time windows in which `who` is found running as often as given.
fn controls(occupancy: &[(&str, usize)]) -> Vec<Window> {
    let one = |who: &str| {
        window(
            false,
            &[(Cause::InterruptsOff, who, 500, Kind::Task), (Cause::Path, "", 6_000, Kind::Task)],
            true,
        )
    };
    occupancy.iter().flat_map(|&(who, n)| std::iter::repeat_n(one(who), n)).collect()
}

fn held_off(who: &str, ns: u64) -> Window {
    window(
        true,
        &[(Cause::InterruptsOff, who, ns, Kind::Task), (Cause::Path, "", 6_000, Kind::Task)],
        true,
    )
}

#[test]
fn the_actor_that_is_always_there_is_guilty() {
    let mut windows = controls(&[("app", 40), ("driver", 2)]);
    windows.extend((0..8).map(|i| held_off("driver", 300_000 + i * 100)));
    let e = explain(&windows, &SystemContext::default());
    assert_eq!(e.causes.len(), 1, "{:#?}", e.causes);
    let c = &e.causes[0];
    assert_eq!((c.mechanism, c.who.as_str()), (Mechanism::InterruptsOff, "driver"));
    assert_eq!((c.confidence, c.share_of_late), (Confidence::High, 1.0));
    assert!(c.share_of_lateness > 0.99 && e.unexplained_share < 0.01);
}

/// Where kernel code is not preempted, a section with interrupts off can begin between the interrupt and the switch.
#[test]
fn a_section_behind_the_interrupt_may_be_one_with_interrupts_off() {
    let named = |preempt_rt, before: usize, interrupts_on| {
        let mut windows = controls(&[("app", 80), ("driver", 2)]);
        windows.extend((0..before).map(|_| held_off("driver", 300_000)));
        windows.extend((0..3).map(|_| Window {
            silent_interrupts_on: interrupts_on,
            silent_preemption_on: interrupts_on.map(|_| false),
            ..window(true, &[(Cause::PreemptionOff, "driver", 300_000, Kind::Task)], true)
        }));
        let around = SystemContext { preempt_rt, ..SystemContext::default() };
        let causes = explain(&windows, &around).causes;
        let of = |m| causes.iter().find(|c| c.mechanism == m);
        let listed = of(Mechanism::Alternatives).map(|c| c.alternatives.clone());
        (of(Mechanism::PreemptionOff).is_some(), listed.unwrap_or_default())
    };
    let (named_off, listed) = named(Some(false), 6, None);
    let listed: Vec<_> = listed.iter().map(|a| (a.mechanism, a.who.as_str())).collect();
    assert!(!named_off);
    assert!(listed.contains(&(Mechanism::PreemptionOff, "driver")), "{listed:?}");
    assert!(listed.contains(&(Mechanism::InterruptsOff, "driver")), "{listed:?}");
    // The kernel preempts itself; there are no sections with interrupts off; interrupts were on.
    for (preempt_rt, before, on) in
        [(Some(true), 6, None), (Some(false), 0, None), (Some(false), 6, Some(true))]
    {
        let (named_off, listed) = named(preempt_rt, before, on);
        assert!(named_off && listed.is_empty(), "{preempt_rt:?} {before} {on:?}");
    }
}

/// Sections of 500 µs hold wake-ups off for 200, 300 and 400 µs; the task ran since its last event.
#[test]
fn a_section_of_a_busy_task_is_not_as_long_as_the_task_ran() {
    let of = |cause, kind, whole_ns| {
        let mut windows = controls(&[("app", 40), ("driver", 2)]);
        windows.extend((0..3).map(|i| {
            let ns = 200_000 + i * 100_000;
            let mut w = window(true, &[(cause, "driver", ns, kind)], true);
            w.shares[0].1.whole_ns = whole_ns;
            w
        }));
        let e = explain(&windows, &SystemContext::default());
        (e.causes[0].size_ns, e.causes[0].size_interval_ns)
    };
    let is_near = |a: f64, b: f64| (a - b).abs() < 10_000.0;
    let near = |found: (f64, Option<(f64, f64)>), ns: f64, interval: Option<(f64, f64)>| {
        let alike = match (found.1, interval) {
            (Some(a), Some(b)) => is_near(a.0, b.0) && is_near(a.1, b.1),
            (a, b) => a == b,
        };
        assert!(is_near(found.0, ns) && alike, "{found:?}");
    };
    let up_to = |high| Some((400_000.0, high));
    near(of(Cause::InterruptsOff, Kind::Task, 2_000_000), 533_000.0, up_to(1_068_000.0));
    near(of(Cause::PreemptionOff, Kind::Task, 2_000_000), 533_000.0, up_to(1_068_000.0));
    near(of(Cause::InterruptsOff, Kind::Task, 450_000), 450_000.0, up_to(450_000.0));
    // Events at both ends tell the length.
    near(of(Cause::Interrupt, Kind::Interrupt, 2_000_000), 2_000_000.0, None);
    near(of(Cause::InterruptsOff, Kind::Work, 2_000_000), 2_000_000.0, None);
}

/// A thread that is in no on-time window, and was there for 534 µs each time; with the periods of both, only
/// delays of 270 to 370 µs occur.
#[test]
fn a_section_of_a_rare_thread_is_as_long_as_the_thread_was_there() {
    let of = |cause, occupants: &[(&str, usize)], wholes: [u64; 4]| {
        let mut windows = controls(occupants);
        windows.extend(wholes.into_iter().enumerate().map(|(i, whole)| {
            let mut w = held_off("driver", 270_000 + i as u64 * 33_000);
            w.shares[0].0.cause = cause;
            w.shares[0].1.whole_ns = whole;
            w
        }));
        let e = explain(&windows, &SystemContext::default());
        assert_eq!(e.causes[0].who, "driver", "{:#?}", e.causes);
        e.causes[0].size_ns
    };
    let near = |size: f64, ns: f64| assert!((size - ns).abs() < 10_000.0, "{size}");
    let alike = [534_500, 534_600, 534_500, 534_600];
    near(of(Cause::InterruptsOff, &[("app", 40)], alike), 534_500.0);
    near(of(Cause::PreemptionOff, &[("app", 40)], alike), 534_500.0);
    // Somebody who computes as well may do so for the same time before each section.
    near(of(Cause::InterruptsOff, &[("app", 40), ("driver", 1)], alike), 461_000.0);
    near(
        of(Cause::InterruptsOff, &[("app", 40)], [534_500, 700_000, 900_000, 2_000_000]),
        461_000.0,
    );
}

#[test]
fn a_culprit_is_counted_among_all_silent_windows() {
    let mut windows = controls(&[("app", 40), ("driver", 2)]);
    windows.extend((0..8).map(|i| held_off("driver", 300_000 + i * 100)));
    windows.extend((0..4).map(|_| held_off("app", 300_000)));
    let e = explain(&windows, &SystemContext::default());
    let driver = e.causes.iter().find(|c| c.who == "driver").expect("the driver");
    let hit = driver.evidence.iter().find_map(|g| match g {
        CauseEvidence::Victim { hits, of, .. } => Some((*hits, *of)),
        _ => None,
    });
    assert_eq!(hit, Some((8, 12)));
}

/// The occupancy of the CPU never shows that nothing ran.
#[test]
fn victims_that_follow_the_occupancy_are_alternatives() {
    let mut windows = controls(&[("app", 20), ("logger", 10), ("net", 10)]);
    for who in ["app", "net", "app", "logger", "app", "app", "logger", "net"] {
        windows.push(held_off(who, 28_000_000));
    }
    let e = explain(&windows, &SystemContext::default());
    assert_eq!(e.causes.len(), 1, "{:#?}", e.causes);
    let c = &e.causes[0];
    assert_eq!((c.mechanism, c.confidence), (Mechanism::Alternatives, Confidence::Medium));
    let named: Vec<_> = c.alternatives.iter().map(|a| (a.mechanism, a.who.as_str())).collect();
    let off = |who| (Mechanism::InterruptsOff, who);
    assert_eq!(named, [off("app"), off("logger"), off("net"), (Mechanism::Stall, "")]);
    assert!(c.evidence.iter().any(|g| matches!(g, CauseEvidence::AlikeLengths { .. })));
}

/// A thread that has most of the CPU and keeps interrupts off for 800 µs: whatever its share and the
/// number of captures, it is not called a stall.
#[test]
fn a_culprit_with_most_of_the_cpu_is_no_stall() {
    for captures in [1, 2, 3, 5, 12, 40] {
        for busy in [10, 60, 90, 110, 119] {
            let mut windows = controls(&[("kthread", busy), ("sh", 120 - busy)]);
            windows.extend((0..captures).map(|i| held_off("kthread", 800_000 + i)));
            let e = explain(&windows, &SystemContext::default());
            let c = &e.causes[0];
            assert_eq!(e.causes.len(), 1, "{:#?}", e.causes);
            let first = match c.mechanism {
                Mechanism::Alternatives => (c.alternatives[0].mechanism, &c.alternatives[0].who),
                own => (own, &c.who),
            };
            assert_eq!(first, (Mechanism::InterruptsOff, &"kthread".to_owned()), "{c:#?}");
            if captures >= 3 && busy == 10 {
                assert_eq!(c.mechanism, Mechanism::InterruptsOff);
            }
            if captures == 5 && busy >= 90 {
                assert_eq!(c.mechanism, Mechanism::Alternatives);
                assert_ne!(c.confidence, Confidence::High);
            }
        }
    }
}

#[test]
fn a_stall_is_named_by_evidence_of_its_own_windows() {
    let made = |change: &dyn Fn(&mut Window)| {
        let mut windows = controls(&[("app", 110), ("sh", 10)]);
        for i in 0..5 {
            let mut w = held_off("app", 800_000 + i);
            change(&mut w);
            windows.push(w);
        }
        explain(&windows, &SystemContext::default()).causes.remove(0)
    };
    let user = made(&|w| w.silent_in_user = true);
    assert_eq!((user.mechanism, user.confidence), (Mechanism::Stall, Confidence::High));
    let enabled = made(&|w| w.silent_interrupts_on = Some(true));
    assert_eq!((enabled.mechanism, enabled.confidence), (Mechanism::Stall, Confidence::High));
    assert_eq!(made(&|w| w.silent_hwlat = true).mechanism, Mechanism::Stall);
    // A section that was recorded is none, whoever has the CPU.
    let off = made(&|w| w.silent_interrupts_on = Some(false));
    assert_eq!((off.mechanism, off.who.as_str()), (Mechanism::InterruptsOff, "app"));
    // With preemption disabled and interrupts enabled the interrupt would have come.
    let both = made(&|w| {
        (w.silent_interrupts_on, w.silent_preemption_on) = (Some(false), Some(false));
    });
    assert_eq!(both.mechanism, Mechanism::InterruptsOff);
}

/// Only windows with evidence are stalls; the others stay with who had the CPU.
#[test]
fn one_stall_does_not_make_the_others_stalls() {
    let mut windows = controls(&[("app", 110), ("sh", 10)]);
    windows.extend((0..6).map(|i| held_off("app", 800_000 + i)));
    windows[120].silent_in_user = true;
    let e = explain(&windows, &SystemContext::default());
    let stall = e.causes.iter().find(|c| c.mechanism == Mechanism::Stall).unwrap();
    assert_eq!(stall.part_of, [120]);
    let rest = e.causes.iter().find(|c| c.mechanism == Mechanism::Alternatives).unwrap();
    assert_eq!(rest.part_of.len(), 5);
}

/// Steal time of the whole measurement is no evidence; a rise round the captures is, where rises are rare.
#[test]
fn counters_count_between_the_readings_of_a_capture() {
    let made = |rose: u64, total: Option<u64>, readings: CounterReadings| {
        let mut windows = controls(&[("app", 110), ("sh", 10)]);
        for i in 0..5 {
            windows.push(Window { steal_ns: Some(rose), ..held_off("app", 800_000 + i) });
        }
        let readings = Some(readings);
        let around = SystemContext { steal_ns: total, readings, ..SystemContext::default() };
        explain(&windows, &around).causes.remove(0).mechanism
    };
    let rare = CounterReadings { intervals: 200, steal: 2, smi: 0 };
    let often = CounterReadings { intervals: 200, steal: 150, smi: 0 };
    assert_eq!(made(10_000_000, Some(50_000_000), rare), Mechanism::Stall);
    assert_eq!(made(10_000_000, Some(50_000_000), often), Mechanism::Alternatives);
    assert_eq!(made(0, Some(50_000_000), rare), Mechanism::Alternatives);
}

/// A firmware interrupt on an idle CPU whose deep states are declared at 890 µs.
#[test]
fn an_idle_state_explains_what_its_exit_takes() {
    let idle = |late: bool, ns: u64, state: Option<u32>| {
        let parts = [(Cause::IdleExit, "", ns, Kind::Idle), (Cause::Path, "", 6_000, Kind::Task)];
        let mut w = window(late, &parts, true);
        w.shares[0].1.idle_state = state;
        w
    };
    let made = |late_ns: u64, state: Option<u32>, usual: u64| {
        let mut windows: Vec<Window> = (0..40).map(|_| idle(false, usual, state)).collect();
        windows.extend((0..6).map(|i| idle(true, late_ns + i, state)));
        let around = SystemContext {
            idle_exit_ns: Some(890_000),
            idle_exits_ns: vec![0, 2_000, 890_000],
            ..SystemContext::default()
        };
        explain(&windows, &around).causes.remove(0).mechanism
    };
    assert_eq!(made(600_000, Some(2), 400_000), Mechanism::IdleExit);
    // From a state that takes 2 µs, or from one that is left in 50 µs otherwise.
    assert_eq!(made(300_000, Some(1), 2_000), Mechanism::Alternatives);
    assert_eq!(made(600_000, Some(2), 50_000), Mechanism::Alternatives);
}

/// Causes behind the switch are compared only with on-time windows that go as far.
#[test]
fn what_lies_behind_the_end_of_on_time_windows_is_not_compared() {
    let mut windows = controls(&[("app", 30)]);
    for i in 0..6 {
        let parts = [
            (Cause::Path, "", 56_000, Kind::Task),
            (Cause::PageFault, "", 200_000 + i, Kind::Task),
        ];
        let mut w = window(true, &parts, false);
        w.shares[0].1.not_compared_ns = 50_000;
        w.shares[1].1.not_compared_ns = 200_000 + i;
        windows.push(w);
    }
    let e = explain(&windows, &SystemContext::default());
    assert_eq!(e.causes.len(), 1, "the way back is no excess: {:#?}", e.causes);
    let c = &e.causes[0];
    assert_eq!((c.mechanism, c.confidence), (Mechanism::PageFault, Confidence::Medium));
    assert!((c.share_of_lateness - 1.0).abs() < 0.01, "{c:#?}");
    assert!(c.evidence.contains(&CauseEvidence::NotCompared { share: 1.0 }), "{c:#?}");
    assert!(!c.evidence.iter().any(|f| matches!(f, CauseEvidence::Separates { .. })));
}

#[test]
fn two_causes_at_once_are_both_named() {
    let mut windows = controls(&[("app", 30)]);
    for i in 0..6 {
        windows.push(window(
            true,
            &[
                (Cause::HigherPriority, "urgent", 200_000 + i, Kind::Task),
                (Cause::TimerFunction, "poll_fn", 150_000 + i, Kind::Hrtimer),
                (Cause::Path, "", 6_000, Kind::Task),
            ],
            false,
        ));
    }
    let e = explain(&windows, &SystemContext::default());
    let named: Vec<Mechanism> = e.causes.iter().map(|c| c.mechanism).collect();
    assert_eq!(named, [Mechanism::HigherPriority, Mechanism::HrtimerHandler]);
    assert!(e.unexplained_share < 0.05);
}

#[test]
fn no_cause_is_invented() {
    let on_time = controls(&[("app", 30)]);
    let e = explain(&on_time, &SystemContext::default());
    assert!(e.causes.is_empty() && e.unexplained_share == 0.0);

    let mut windows = on_time;
    windows.push(window(true, &[(Cause::Path, "", 300_000, Kind::Task)], false));
    let e = explain(&windows, &SystemContext::default());
    assert_eq!(e.causes[0].mechanism, Mechanism::SlowPath);
    assert_eq!(e.causes[0].confidence, Confidence::Low);
    assert!(e.unexplained_share > 0.9);
}

#[test]
fn one_spike_is_an_anecdote() {
    let mut windows = controls(&[("app", 30)]);
    windows.push(window(
        true,
        &[
            (Cause::HigherPriority, "urgent", 200_000, Kind::Task),
            (Cause::Path, "", 6_000, Kind::Task),
        ],
        false,
    ));
    let e = explain(&windows, &SystemContext::default());
    assert_eq!(e.causes[0].mechanism, Mechanism::HigherPriority);
    assert_eq!(e.causes[0].confidence, Confidence::Medium);
}

/// Half of its windows have events in it all the time: it ran, and no stall did it.
#[test]
fn what_has_events_in_it_is_no_stall() {
    let mut windows = controls(&[("app", 6)]);
    let part = |ns| [(Cause::TimerFunction, "poll_fn", ns, Kind::Hrtimer)];
    for (ns, silent) in
        [(5_000_000, true), (5_100_000, true), (9_000_000, false), (9_900_000, false)]
    {
        windows.push(window(true, &part(ns), silent));
    }
    windows.extend((0..3).map(|i| held_off("app", 4_000_000 + i)));
    let e = explain(&windows, &SystemContext::default());
    let first = &e.causes[0];
    assert_eq!((first.mechanism, first.who.as_str()), (Mechanism::HrtimerHandler, "poll_fn"));
}

/// Nearly all wake-ups are late: six that are not do not tell who usually has the CPU.
#[test]
fn few_on_time_windows_make_nobody_guilty() {
    let mut windows = controls(&[("app", 6)]);
    for i in 0..300 {
        let who = ["app", "app", "logger", "net"][i % 4];
        windows.push(held_off(who, 70_000 + i as u64));
    }
    let e = explain(&windows, &SystemContext::default());
    let named: Vec<_> = e.causes.iter().map(|c| (c.mechanism, c.who.as_str())).collect();
    assert!(named.iter().all(|n| n.0 == Mechanism::Alternatives), "{named:?}");
    // And none at all tell nothing, neither a culprit nor a stall.
    windows.retain(|w| w.late);
    let e = explain(&windows, &SystemContext::default());
    assert!(e.causes.iter().all(|c| c.mechanism == Mechanism::Alternatives), "{:#?}", e.causes);
}

/// Six windows with one part each, of a task of this priority, on this kernel.
fn named(part: (Cause, &str, Kind), actor: Option<i32>, own: i32, kernel: &str) -> Mechanism {
    let mut windows = controls(&[("app", 30)]);
    for i in 0..6 {
        let parts = [(part.0, part.1, 300_000 + i, part.2), (Cause::Path, "", 6_000, Kind::Task)];
        let mut w = window(true, &parts, false);
        (w.shares[0].1.prio, w.prio) = (actor, Some(own));
        windows.push(w);
    }
    let around = SystemContext { kernel: Some(kernel.into()), ..SystemContext::default() };
    explain(&windows, &around).causes[0].mechanism
}

/// Throttling of real-time tasks, the fair server, a group's cpu.max, and the order of fair tasks.
#[test]
fn a_runnable_task_that_is_passed_over_has_several_reasons() {
    let chosen = (Cause::Throttled, "make", Kind::Task);
    let idle = (Cause::Throttled, "", Kind::Idle);
    assert_eq!(named(chosen, Some(120), 9, "6.1.0-rt"), Mechanism::Throttling);
    assert_eq!(named(chosen, Some(120), 9, "6.12.5-rt"), Mechanism::FairServer);
    assert_eq!(named(idle, None, 9, "6.12.5-rt"), Mechanism::Throttling);
    assert_eq!(named(idle, None, 120, "6.1.0"), Mechanism::Bandwidth);
    assert_eq!(named(idle, None, -1, "6.1.0"), Mechanism::Bandwidth);
    assert_eq!(named(chosen, Some(130), 120, "6.1.0"), Mechanism::EqualPriority);
    let ran_on = (Cause::PreemptionOff, "make", Kind::Task);
    assert_eq!(named(ran_on, Some(130), 120, "6.1.0"), Mechanism::EqualPriority);
    assert_eq!(named(ran_on, Some(130), 9, "6.1.0"), Mechanism::PreemptionOff);
}

/// A work item that keeps interrupts off is no matter of the workqueue's priority.
#[test]
fn a_section_inside_a_work_item_is_a_section() {
    let of = |cause, kind| named((cause, "scan", kind), Some(120), 9, "6.1.0");
    assert_eq!(of(Cause::InterruptsOff, Kind::Work), Mechanism::InterruptsOff);
    assert_eq!(of(Cause::InterruptsOff, Kind::Timer), Mechanism::InterruptsOff);
    assert_eq!(of(Cause::PreemptionOff, Kind::Work), Mechanism::PreemptionOff);
    assert_eq!(of(Cause::HigherPriority, Kind::Work), Mechanism::Workqueue);
}

#[test]
fn a_wait_without_an_event_of_contention_is_no_lock() {
    let mechanism = |contended: bool, instead: u64| {
        let mut windows = controls(&[("app", 30)]);
        for i in 0..6 {
            let parts = [(Cause::Lock, "logger", 300_000 + i, Kind::Idle)];
            let mut w = window(true, &parts, false);
            w.shares[0].1.contended = contended;
            if instead > 0 {
                w.shares[0].1.instead_ns.insert("make".into(), instead);
            }
            windows.push(w);
        }
        explain(&windows, &SystemContext::default()).causes[0].mechanism
    };
    assert_eq!(mechanism(false, 0), Mechanism::Blocked);
    assert_eq!(mechanism(true, 0), Mechanism::Lock);
    assert_eq!(mechanism(true, 200_000), Mechanism::PriorityInversion);
}

/// A task with most of the CPU is interrupted in one function on time, and in another one each time that
/// it was late: there it enables interrupts. A stall would have hit it in the first one.
#[test]
fn where_the_interrupt_came_tells_a_busy_tasks_section_from_a_stall() {
    let made = |late_in: &str| {
        let mut windows = controls(&[("busy", 38), ("app", 2)]);
        windows.extend((0..5).map(|i| held_off("busy", 200_000 + i * 20_000)));
        for w in &mut windows {
            w.interrupted = Some(if w.late { late_in } else { "compute" }.into());
        }
        explain(&windows, &SystemContext::default()).causes.remove(0)
    };
    let section = made("end_of_section");
    assert_eq!(section.mechanism, Mechanism::InterruptsOff, "{:#?}", section.evidence);
    let place = |e: &CauseEvidence| matches!(e, CauseEvidence::Place { hits: 5, on_time: 0, .. });
    assert!(section.evidence.iter().any(place), "{:#?}", section.evidence);
    // What was recorded and does not decide it is told, and is no remedy any more.
    let unclear = made("compute");
    assert_eq!(unclear.mechanism, Mechanism::Alternatives);
    let place = |e: &CauseEvidence| matches!(e, CauseEvidence::Place { hits: 5, on_time: 38, .. });
    assert!(unclear.evidence.iter().any(place), "{:#?}", unclear.evidence);
}

/// An idle CPU: late by 300 µs each time, or by what is left of a stall that began at any time before.
#[test]
fn delays_that_begin_with_the_interrupt_are_an_exit_from_idle() {
    let made = |delay: &dyn Fn(u64) -> u64, turns: &dyn Fn(u64) -> u64| {
        let idle = |late, ns| {
            let parts =
                [(Cause::IdleExit, "", ns, Kind::Idle), (Cause::Path, "", 6_000, Kind::Task)];
            window(late, &parts, true)
        };
        let mut windows: Vec<Window> = (0..40).map(|_| idle(false, 500)).collect();
        windows.extend(
            (0..10).map(|i| Window { intended_ns: turns(i) * 1_037_000, ..idle(true, delay(i)) }),
        );
        let around = SystemContext {
            limit_ns: 150_000,
            interval_ns: Some(1_037_000),
            ..SystemContext::default()
        };
        explain(&windows, &around).causes.remove(0).mechanism
    };
    let irregular = |i: u64| i * 9 + i * i % 4;
    assert_eq!(made(&|i| 300_000 + i * 100, &irregular), Mechanism::IdleExit);
    assert_eq!(made(&|i| 160_000 + i * 14_000, &irregular), Mechanism::Alternatives);
    // A stall that is much longer than the interval delays each first wake-up by almost all of it.
    let long = |i: u64| 20_000_000 + i * 100_000;
    assert_eq!(made(&long, &irregular), Mechanism::Alternatives);
    // What keeps step with the task begins at the same time before each wake-up that it delays.
    assert_eq!(made(&|i| 300_000 + i * 100, &|i| i * 10), Mechanism::Alternatives);
}

/// Work items and timers' functions have events at both ends, as handlers have.
#[test]
fn one_late_wake_up_behind_a_work_item_names_it() {
    let made = |kind| {
        let mut windows = controls(&[("app", 20)]);
        let parts =
            [(Cause::InterruptsOff, "poll", 300_000, kind), (Cause::Path, "", 6_000, Kind::Task)];
        windows.push(window(true, &parts, true));
        explain(&windows, &SystemContext::default()).causes.remove(0).mechanism
    };
    assert_eq!(made(Kind::Work), Mechanism::InterruptsOff);
    assert_eq!(made(Kind::Task), Mechanism::Alternatives);
}

/// Stalls strike at random; who has the CPU then is one task with 88 % of it or one of twelve with 1 %.
/// One to three late wake-ups name a rare task in hardly any session.
#[test]
fn stalls_at_random_name_no_rare_task() {
    let mut random = SplitMix64::new(20);
    let names: Vec<String> = (0..12).map(|n| format!("rare{n}")).collect();
    let mut who = || {
        let at = random.next_u64() % 100;
        names.get(at as usize).map_or("busy", String::as_str)
    };
    let sessions = 400;
    for late in [1, 2, 3] {
        let mut named = 0;
        for _ in 0..sessions {
            let mut windows: Vec<Window> = (0..300).flat_map(|_| controls(&[(who(), 1)])).collect();
            windows.extend((0..late).map(|i| held_off(who(), 400_000 + i)));
            let e = explain(&windows, &SystemContext::default());
            let own = |c: &RootCause| c.mechanism == Mechanism::InterruptsOff;
            named += usize::from(e.causes.iter().any(own));
        }
        assert!(named <= 8, "{named} of {sessions} sessions of {late}");
    }
}

/// The way through the function of the timer that woke the task is the ordinary way.
#[test]
fn a_slow_way_through_the_own_timer_is_no_other_timers_function() {
    assert_eq!(named((Cause::Path, "", Kind::Hrtimer), None, 9, "6.1.0"), Mechanism::SlowPath);
}

/// Two late wake-ups are too few to name a task by its share of the CPU while steal time was counted.
#[test]
fn two_hits_with_steal_time_are_alternatives() {
    let made = |late: u64, steal_ns: u64| {
        let mut windows = controls(&[("app", 110), ("sh", 10)]);
        let windows_of = |i| Window { steal_ns: Some(steal_ns), ..held_off("driver", 400_000 + i) };
        windows.extend((0..late).map(windows_of));
        let readings = Some(CounterReadings { intervals: 40, steal: 20, smi: 0 });
        let around = SystemContext { readings, ..SystemContext::default() };
        explain(&windows, &around).causes.remove(0).mechanism
    };
    assert_eq!(made(2, 10_000_000), Mechanism::Alternatives);
    assert_eq!(made(2, 0), Mechanism::InterruptsOff);
    assert_eq!(made(3, 10_000_000), Mechanism::InterruptsOff);
}

/// An interrupt that is a third of one late wake-up, and a higher-priority task that is the rest of it; then of three.
#[test]
fn a_third_of_a_single_late_wake_up_has_low_confidence() {
    let of = |n: usize| {
        let mut windows = controls(&[("app", 40)]);
        let parts = [
            (Cause::HigherPriority, "thread", 200_000, Kind::Task),
            (Cause::Interrupt, "eth0", 100_000, Kind::Interrupt),
        ];
        windows.extend((0..n).map(|_| window(true, &parts, false)));
        let e = explain(&windows, &SystemContext::default());
        let of = |who: &str| e.causes.iter().find(|c| c.who == who).unwrap().confidence;
        (of("thread"), of("eth0"))
    };
    assert_eq!(of(1), (Confidence::Medium, Confidence::Low));
    assert_eq!(of(3), (Confidence::High, Confidence::Medium));
}

/// In one of three windows most of the lateness is that the task still ran, with events in between.
#[test]
fn a_loop_without_work_is_not_told_to_shorten_it() {
    let named = |without_work: bool| {
        let mut windows = controls(&[("app", 40)]);
        windows.extend((0..3).map(|i| {
            let parts = [(Cause::Overrun, "wakeup", 400_000 + i * 10_000, Kind::Task)];
            Window { without_work, ..window(true, &parts, false) }
        }));
        explain(&windows, &SystemContext::default()).causes.remove(0).mechanism
    };
    assert_eq!(named(false), Mechanism::Overrun);
    assert_eq!(named(true), Mechanism::SlowPath);
}
