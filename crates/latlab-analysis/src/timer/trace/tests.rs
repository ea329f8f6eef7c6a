use super::*;

use latlab_model::event::{OffCpu, Task};
use latlab_model::units::CpuId;

const PROCESS: Symbol = Symbol(1);
const TICK: Symbol = Symbol(2);
const TASK: Task = Task { tid: Tid(7), name: Symbol(3), prio: 120 };

fn names() -> Names {
    let mut names = Names::default();
    for name in ["process_timeout", "tick_sched_timer", "sleeper"] {
        names.intern(name);
    }
    names
}

fn ev(us: u64, current: i32, kind: EventKind) -> Event {
    Event { time: TraceNs(us * 1_000), cpu: CpuId(0), current: Tid(current), kind }
}

/// The way of a timer of the wheel: set for two jiffies, served with the third tick.
fn way(start: u64, irq: Option<Symbol>, names: Symbol) -> Vec<Event> {
    let irq_entry = irq.map_or(EventKind::IrqEntry { irq: 18, name: names }, |name| {
        EventKind::VectorEntry { name }
    });
    let irq_exit =
        irq.map_or(EventKind::IrqExit { irq: 18 }, |name| EventKind::VectorExit { name });
    vec![
        ev(
            start,
            7,
            EventKind::TimerStart { timer: 1, function: PROCESS, expires: 1002, now: 1000 },
        ),
        ev(start + 8_000, 9, irq_entry),
        ev(
            start + 8_002,
            9,
            EventKind::HrtimerEntry { timer: 2, function: TICK, now: 8, preempt_off: false },
        ),
        ev(start + 8_005, 9, EventKind::SoftirqRaise { vec: 1 }),
        ev(start + 8_006, 9, EventKind::HrtimerExit { timer: 2 }),
        ev(start + 8_010, 9, irq_exit),
        ev(start + 8_013, 9, EventKind::SoftirqEntry { vec: 1 }),
        ev(start + 8_015, 9, EventKind::TimerCancel { timer: 1 }),
        ev(start + 8_015, 9, EventKind::TimerEntry { timer: 1, function: PROCESS, now: 1003 }),
        ev(start + 8_019, 9, EventKind::TimerExit { timer: 1 }),
        ev(start + 8_025, 9, EventKind::SoftirqExit { vec: 1 }),
    ]
}

#[test]
fn a_timers_way_is_followed_on_both_architectures() {
    let mut names = names();
    let (arch, local) = (names.intern("arch_timer"), names.intern("local_timer"));
    for vector in [None, Some(local)] {
        let mut a = Analyzer::default();
        a.push(
            &ev(
                0,
                7,
                EventKind::Switch { prev: Task::default(), state: OffCpu::Runnable, next: TASK },
            ),
            &names,
        );
        way(100, vector, arch).iter().for_each(|e| a.push(e, &names));
        let t = a.finish("test", &names);
        let chain = t.chains.iter().find(|c| !c.highres).unwrap();
        assert_eq!(chain.function, "process_timeout");
        assert_eq!(chain.irq_name, if vector.is_some() { "local_timer" } else { "arch_timer" });
        let us = |n: Option<u64>| n.map(|n| n / 1_000);
        assert_eq!(
            [
                us(chain.start),
                us(chain.irq),
                us(chain.raise),
                us(chain.irq_exit),
                us(chain.softirq),
                us(chain.softirq_exit)
            ],
            [100, 8_100, 8_105, 8_110, 8_113, 8_125].map(Some)
        );
        assert_eq!((chain.expire, chain.expire_exit), (8_115_000, 8_119_000));
        assert_eq!((chain.set_for_jiffies, chain.late), (Some(2), Some(1)));
        let steps: Vec<u64> = t.wheel_steps.iter().map(|s| s.spread.max_ns / 1_000).collect();
        assert_eq!(steps, [8_000, 5, 5, 3, 2, 4]);
        let function = t.functions.iter().find(|f| f.name == "process_timeout").unwrap();
        assert_eq!((function.cost.count, function.cost.sum_ns), (1, 4_000));
        assert_eq!(function.waited_jiffies.max_ns, 3);
        assert_eq!(function.set_by, [("sleeper:7".to_owned(), 1)]);
        assert_eq!(function.interrupted, [("9".to_owned(), 1)]);
        let cost = t.ticks[0].clone();
        assert_eq!(
            (cost.ticks, cost.interrupt_ns, cost.tick_ns, cost.softirq_ns),
            (1, 10_000, 10_000, 12_000)
        );
        assert!((cost.share - 22.0 / 8_125.0).abs() < 1e-9);
        assert_eq!(t.softirqs[0].latency.max_ns, 8_000);
        assert!(t.handlers[0].timer && t.handlers[0].cost.max_ns == 10_000);
    }
}

#[test]
fn periods_and_hz_are_found() {
    let names = names();
    let mut a = Analyzer::default();
    for n in 0..300u64 {
        let at = n * 4_000 + (n % 3);
        let entry = EventKind::TimerEntry {
            timer: 5,
            function: PROCESS,
            now: (0xffff_fff0 + n) & 0xffff_ffff,
        };
        a.push(&ev(at, 0, entry), &names);
        a.push(&ev(at + 1, 0, EventKind::TimerExit { timer: 5 }), &names);
    }
    let t = a.finish("test", &names);
    assert!((t.jiffies_hz.unwrap() - 250.0).abs() < 0.5, "{:?}", t.jiffies_hz);
    let p = &t.periodic[0];
    assert_eq!((p.times, p.function.as_str()), (300, "process_timeout"));
    assert!(p.period_ns.abs_diff(4_000_000) <= 2_000 && p.jitter_max_ns <= 3_000);
    assert!(t.notes.iter().any(|n| n.id() == Some("timer.no-interrupts-recorded")));
}

#[test]
fn a_high_resolution_timer_is_late_by_what_it_was_programmed_for() {
    let names = names();
    let mut a = Analyzer::default();
    a.push(
        &ev(
            10,
            7,
            EventKind::HrtimerStart {
                timer: 3,
                function: PROCESS,
                relative: false,
                expires: 500_000,
                softexpires: 0,
            },
        ),
        &names,
    );
    a.push(&ev(500, 0, EventKind::IrqEntry { irq: 1, name: Symbol(0) }), &names);
    a.push(
        &ev(
            503,
            0,
            EventKind::HrtimerEntry {
                timer: 3,
                function: PROCESS,
                now: 502_000,
                preempt_off: false,
            },
        ),
        &names,
    );
    a.push(&ev(505, 0, EventKind::HrtimerExit { timer: 3 }), &names);
    // Set anew by its own function without an event: nothing is known of its programming.
    a.push(
        &ev(
            900,
            0,
            EventKind::HrtimerEntry {
                timer: 3,
                function: PROCESS,
                now: 902_000,
                preempt_off: false,
            },
        ),
        &names,
    );
    a.push(&ev(901, 0, EventKind::HrtimerExit { timer: 3 }), &names);
    let t = a.finish("test", &names);
    let f = &t.functions[0];
    assert_eq!((f.late.count, f.late.max_ns, f.cost.count), (1, 2_000, 2));
    assert_eq!(t.chains[0].irq, Some(490_000));
}

#[test]
fn what_was_open_when_events_were_lost_is_not_counted() {
    let mut names = names();
    let arch = names.intern("arch_timer");
    let mut a = Analyzer::default();
    let mut events = way(100, None, arch);
    let hole = Event { kind: EventKind::Lost { count: None }, ..events[5] };
    events.insert(5, hole);
    events.iter().for_each(|e| a.push(e, &names));
    let t = a.finish("test", &names);
    assert_eq!((t.holes, t.handlers.len()), (1, 0));
    assert_eq!(t.softirqs[0].latency.count, 0);
    assert!(t.notes[0].id() == Some("timer.lost-events"));
}
