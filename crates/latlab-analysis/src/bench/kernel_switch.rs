//! A context switch as the kernel itself recorded it, and who really ran meanwhile.
//!
//! ```text
//! A: sys_enter ──choose──▶ sched_switch A→B ──switch──▶ B: sys_exit
//! ```
//!
//! *Choose* is the way into the scheduler and its choice of the next task, *switch* the change of
//! address space, stack and registers and the way out. Each stretch between two events holds the
//! recording of one event; what that costs is the time from the entry to the exit of a call that
//! does next to nothing. Where the kernel has `function_graph`, it times `schedule()` itself, less
//! the time that the task was off the CPU (option `nosleep-time`).
//!
//! ```text
//! A: sched_switch A→B ──context_switch()──▶ B: return of finish_task_switch()
//! ```
//!
//! `__schedule()` emits sched_switch and calls `context_switch()`, which changes address space, stack
//! and registers and ends with `finish_task_switch()` of the next task. This interval contains the end of
//! one event and the recording of one function, as does that from `sys_enter` to the return of the
//! function of a call that does next to nothing.
//!
//! Source: the kernel's `Documentation/trace/ftrace.rst` and `events.rst`, `kernel/sched/core.c`.

use latlab_model::bench::{Alternation, Ran, SwitchPart};
use latlab_model::event::{Event, EventKind, Names, Task};
use latlab_model::units::{Tid, TraceNs};
use latlab_stats::quantile::median;

/// Cost of a switch from a batch's events, and how much of that is the recording of events, both in
/// ns. The last `calls` system calls of the batch do next to nothing: they measure the recording.
///
/// `None` without a switch of the pair, or without such calls.
pub fn switch_cost(
    events: &[Event],
    pair: [i32; 2],
    part: SwitchPart,
    calls: usize,
) -> Option<(f64, f64)> {
    let (ns, events_within): (fn(&Seen) -> u64, f64) = match part {
        SwitchPart::Graph => return Some((median(&functions(events, pair))?, 0.0)),
        SwitchPart::Context => {
            let (context, call) = context_switches(events, pair);
            return Some((median(&context)?, median(&call)?));
        }
        SwitchPart::Choose => (|s| s.choose_ns, 1.0),
        SwitchPart::Switch => (|s| s.switch_ns, 1.0),
        SwitchPart::Whole => (|s| s.choose_ns + s.switch_ns, 2.0),
    };
    let mut all = self::calls(events, pair[0]);
    let event = median(&all.split_off(all.len().saturating_sub(calls)))?;
    let values: Vec<f64> = switches(events, pair).iter().map(|s| ns(s) as f64).collect();
    Some((median(&values)?, events_within * event))
}

/// One switch from one of a pair of tasks straight to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// From the entry of the system call to the switch, ns.
    pub choose_ns: u64,
    /// From the switch to the end of the next task's system call, ns.
    pub switch_ns: u64,
}

fn enters(event: &Event) -> bool {
    matches!(event.kind, EventKind::SyscallEnter { .. })
}

fn exits(event: &Event) -> bool {
    matches!(event.kind, EventKind::SyscallExit { .. })
}

/// The switches between the two tasks, of one CPU's events in order of time. A switch with anything
/// between its three events (an interrupt's task, a lost event) is none.
pub fn switches(events: &[Event], pair: [i32; 2]) -> Vec<Seen> {
    (events.windows(3))
        .filter_map(|w| {
            let EventKind::Switch { prev, next, .. } = w[1].kind else { return None };
            let (prev, next) = (prev.tid, next.tid);
            let of_pair = prev != next && pair.contains(&prev.0) && pair.contains(&next.0);
            let framed =
                enters(&w[0]) && w[0].current == prev && exits(&w[2]) && w[2].current == next;
            (of_pair && framed).then(|| Seen {
                choose_ns: w[1].time.since(w[0].time).0,
                switch_ns: w[2].time.since(w[1].time).0,
            })
        })
        .collect()
}

/// From entry to exit of a task's system calls with no other event between, ns.
pub fn calls(events: &[Event], tid: i32) -> Vec<f64> {
    (events.windows(2))
        .filter(|w| w.iter().all(|e| e.current == Tid(tid)))
        .filter(|w| enters(&w[0]) && exits(&w[1]))
        .map(|w| w[1].time.since(w[0].time).0 as f64)
        .collect()
}

/// How long the recorded function of either task lasted, ns.
pub fn functions(events: &[Event], pair: [i32; 2]) -> Vec<f64> {
    (events.iter())
        .filter(|e| pair.contains(&e.current.0))
        .filter_map(|e| match e.kind {
            EventKind::FunctionExit { length, .. } => Some(length.0 as f64),
            _ => None,
        })
        .collect()
}

/// From each switch of the pair to the return of the next task's `finish_task_switch()`, and from each entry of a
/// system call of the first task to the return of its function, where nothing else is recorded between, ns.
pub fn context_switches(events: &[Event], pair: [i32; 2]) -> (Vec<f64>, Vec<f64>) {
    let (mut context, mut call) = (Vec::new(), Vec::new());
    for w in events.windows(2) {
        let EventKind::FunctionExit { called, length, .. } = w[1].kind else { continue };
        let ns = (called + length).since(w[0].time).0 as f64;
        match w[0].kind {
            EventKind::Switch { prev, next, .. }
                if pair.contains(&prev.tid.0)
                    && pair.contains(&next.tid.0)
                    && w[1].current == next.tid =>
            {
                context.push(ns);
            }
            EventKind::SyscallEnter { .. }
                if w[0].current == Tid(pair[0]) && w[1].current == Tid(pair[0]) =>
            {
                call.push(ns);
            }
            _ => {}
        }
    }
    (context, call)
}

/// Counts who had the CPU, from its switches in order of time; other events are passed over. What
/// the first task had before the first switch and the last after the last one is not counted. A task that leaves
/// the CPU without a switch to it had a turn of unknown length, and so had the one before it: there are kernels that do
/// not record each switch from the idle task.
pub fn alternation(
    events: &[Event],
    names: &Names,
    pair: [i32; 2],
    operations: u64,
) -> Alternation {
    let mut out = Alternation { operations, ..Alternation::default() };
    let mut turn = |task: Task, ns: u64| {
        let name = match task.tid.0 {
            t if t == pair[0] => "measuring",
            t if t == pair[1] => "partner",
            0 => "idle",
            _ => names.get(task.name),
        };
        match out.threads.iter_mut().find(|r| r.name == name) {
            Some(ran) => (ran.turns, ran.ns) = (ran.turns + 1, ran.ns + ns),
            None => out.threads.push(Ran { name: name.to_owned(), turns: 1, ns }),
        }
    };
    // Since when the task runs that the last switch was to.
    let mut running: Option<(TraceNs, Task)> = None;
    for event in events {
        let EventKind::Switch { prev, next, .. } = event.kind else { continue };
        out.switches += 1;
        out.direct += u64::from(pair.contains(&prev.tid.0) && pair.contains(&next.tid.0));
        match running {
            Some((since, task)) if task.tid == prev.tid => turn(task, event.time.since(since).0),
            Some((_, task)) => [task, prev].into_iter().for_each(|t| turn(t, 0)),
            None => {}
        }
        running = Some((event.time, next));
    }
    // The last task's turn has begun.
    running.into_iter().for_each(|(_, task)| turn(task, 0));
    out.threads.sort_by_key(|r| std::cmp::Reverse(r.ns));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::event::{OffCpu, Symbol};
    use latlab_model::units::{CpuId, Nanos};

    const ENTER: EventKind = EventKind::SyscallEnter { nr: 24, yields: true, futex: false };
    const EXIT: EventKind = EventKind::SyscallExit { nr: 24 };

    fn event(ns: u64, tid: i32, kind: EventKind) -> Event {
        Event { time: TraceNs(ns), cpu: CpuId(0), current: Tid(tid), kind }
    }

    fn to(prev: i32, next: i32, name: Symbol) -> EventKind {
        let task = |tid| Task { tid: Tid(tid), name, prio: 98 };
        EventKind::Switch { prev: task(prev), state: OffCpu::Runnable, next: task(next) }
    }

    #[test]
    fn a_switch_is_enter_switch_exit_and_nothing_between() {
        let to = |prev, next| to(prev, next, Symbol(0));
        let length = Nanos(70);
        let (function, called) = (Symbol(0), TraceNs(0));
        let schedule = EventKind::FunctionExit { function, depth: 0, called, length };
        let events = [
            event(100, 7, ENTER),
            event(400, 7, to(7, 8)),
            event(900, 8, EXIT),
            event(1000, 8, ENTER),
            // Somebody else comes between: no switch of the pair.
            event(1300, 8, to(8, 3)),
            event(1500, 3, to(3, 7)),
            event(1900, 7, EXIT),
            event(2000, 7, ENTER),
            event(2050, 7, EXIT),
        ];
        assert_eq!(switches(&events, [7, 8]), [Seen { choose_ns: 300, switch_ns: 500 }]);
        assert_eq!(calls(&events, 7), [50.0]);
        assert_eq!(functions(&[event(1, 8, schedule)], [7, 8]), [70.0]);
    }

    #[test]
    fn context_switch_ends_with_the_return_of_finish_task_switch_of_the_next_task() {
        let to = |prev, next| to(prev, next, Symbol(0));
        let exit = |ns, tid, called, length| {
            let (function, called) = (Symbol(0), TraceNs(called));
            event(
                ns,
                tid,
                EventKind::FunctionExit { function, depth: 0, called, length: Nanos(length) },
            )
        };
        let events = [
            event(100, 7, ENTER),
            event(400, 7, to(7, 8)),
            exit(990, 8, 700, 200),
            event(1000, 8, ENTER),
            // To a task of somebody else, and from there.
            event(1300, 8, to(8, 3)),
            exit(1500, 3, 1400, 50),
            event(1600, 3, to(3, 7)),
            exit(1700, 7, 1650, 20),
            // A call that does next to nothing, and one of the other task.
            event(2000, 7, ENTER),
            exit(2120, 7, 2060, 40),
            event(3000, 8, ENTER),
            exit(3120, 8, 3060, 40),
        ];
        assert_eq!(context_switches(&events, [7, 8]), (vec![500.0], vec![100.0]));
        let cost = |part| switch_cost(&events, [7, 8], part, 1);
        assert_eq!(cost(SwitchPart::Context), Some((500.0, 100.0)));
        assert_eq!(switch_cost(&events[..3], [7, 8], SwitchPart::Context, 1), None, "no call");
    }

    #[test]
    fn a_softirq_thread_between_two_sleepers_is_seen() {
        let mut names = Names::default();
        let mut turn =
            |ns, prev, next, name: &str| event(ns, prev, to(prev, next, names.intern(name)));
        let turns = [
            turn(0, 0, 20, "ksoftirqd/0"),
            turn(30, 20, 7, "latlab"),
            turn(40, 7, 8, "latlab"),
            turn(50, 8, 0, "swapper/0"),
            turn(90, 0, 20, "ksoftirqd/0"),
        ];
        let a = alternation(&turns, &names, [7, 8], 2);
        assert_eq!((a.switches, a.direct, a.operations), (5, 1, 2));
        let of = |name: &str| a.threads.iter().find(|r| r.name == name).map(|r| (r.turns, r.ns));
        assert_eq!(of("ksoftirqd/0"), Some((2, 30)));
        assert_eq!(of("measuring"), Some((1, 10)));
        assert_eq!(of("partner"), Some((1, 10)));
        assert_eq!(of("idle"), Some((1, 40)));
        assert_eq!(a.threads[0].name, "idle");
    }

    #[test]
    fn a_task_without_a_switch_to_it_had_a_turn_all_the_same() {
        let names = Names::default();
        let to = |prev, next| to(prev, next, Symbol(0));
        // The switches from the idle task to 8 are missing.
        let turns = [
            event(0, 8, to(8, 7)),
            event(10, 7, to(7, 0)),
            event(90, 8, to(8, 7)),
            event(95, 7, to(7, 0)),
        ];
        let a = alternation(&turns, &names, [7, 8], 2);
        assert_eq!((a.switches, a.direct), (4, 2));
        let of = |name: &str| a.threads.iter().find(|r| r.name == name).map(|r| (r.turns, r.ns));
        assert_eq!(of("measuring"), Some((2, 15)));
        assert_eq!(of("partner"), Some((1, 0)));
        assert_eq!(of("idle"), Some((2, 0)));
    }
}
