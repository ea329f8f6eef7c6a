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
//! Source: the kernel's `Documentation/trace/ftrace.rst` and `events.rst`, `kernel/sched/core.c`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The CPU went from one task to the next.
    Switch {
        /// The task that left.
        prev: i32,
        /// The task that came.
        next: i32,
    },
    /// The task entered a system call.
    Enter,
    /// The task left it.
    Exit,
    /// A function of the task ended, that lasted so long.
    Function(u64),
}

/// An event of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time of the trace's clock, ns.
    pub ns: u64,
    /// Who ran.
    pub tid: i32,
    /// What happened.
    pub what: What,
}

/// One switch from one of a pair of tasks straight to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// From the entry of the system call to the switch, ns.
    pub choose_ns: u64,
    /// From the switch to the end of the next task's system call, ns.
    pub switch_ns: u64,
}

/// The switches between the two tasks, of one CPU's events in order of time. A switch with anything
/// between its three events (an interrupt's task, a lost event) is none.
pub fn switches(events: &[Event], pair: [i32; 2]) -> Vec<Seen> {
    (events.windows(3))
        .filter_map(|w| {
            let What::Switch { prev, next } = w[1].what else { return None };
            let of_pair = prev != next && pair.contains(&prev) && pair.contains(&next);
            let framed = (w[0].what, w[0].tid) == (What::Enter, prev)
                && (w[2].what, w[2].tid) == (What::Exit, next);
            (of_pair && framed).then(|| Seen {
                choose_ns: w[1].ns.saturating_sub(w[0].ns),
                switch_ns: w[2].ns.saturating_sub(w[1].ns),
            })
        })
        .collect()
}

/// From entry to exit of a task's system calls with no other event between, ns.
pub fn calls(events: &[Event], tid: i32) -> Vec<f64> {
    (events.windows(2))
        .filter(|w| w[0].tid == tid && w[1].tid == tid)
        .filter(|w| (w[0].what, w[1].what) == (What::Enter, What::Exit))
        .map(|w| w[1].ns.saturating_sub(w[0].ns) as f64)
        .collect()
}

/// How long the recorded function of either task lasted, ns.
pub fn functions(events: &[Event], pair: [i32; 2]) -> Vec<f64> {
    (events.iter())
        .filter(|e| pair.contains(&e.tid))
        .filter_map(|e| match e.what {
            What::Function(ns) => Some(ns as f64),
            _ => None,
        })
        .collect()
}

/// A thread that had the CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Ran {
    /// `measuring`, `partner`, or the thread's own name.
    pub name: String,
    /// How often it got the CPU.
    pub turns: u64,
    /// For how long in all, ns.
    pub ns: u64,
}

/// Who really had the CPU while a pair was supposed to alternate on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Alternation {
    /// Operations that were done meanwhile.
    pub operations: u64,
    /// Switches that happened.
    pub switches: u64,
    /// Those of them that went from one of the pair straight to the other.
    pub direct: u64,
    /// Events that the trace lost; the counts are then too small.
    pub lost: u64,
    /// The threads, by the time that they had.
    pub threads: Vec<Ran>,
}

/// A switch with the name of who came, for [`alternation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Time, ns.
    pub ns: u64,
    /// Who left.
    pub prev: i32,
    /// Who came.
    pub next: i32,
    /// The name of who came.
    pub name: String,
}

/// Counts who had the CPU, from its switches in order of time. What the first task had before the
/// first switch and the last after the last one is not counted.
pub fn alternation(turns: &[Turn], pair: [i32; 2], operations: u64) -> Alternation {
    let mut out = Alternation { operations, ..Alternation::default() };
    for (i, turn) in turns.iter().enumerate() {
        out.switches += 1;
        out.direct += u64::from(pair.contains(&turn.prev) && pair.contains(&turn.next));
        let name = match turn.next {
            t if t == pair[0] => "measuring",
            t if t == pair[1] => "partner",
            0 => "idle",
            _ => &turn.name,
        };
        let ns = turns.get(i + 1).map_or(0, |after| after.ns.saturating_sub(turn.ns));
        match out.threads.iter_mut().find(|r| r.name == name) {
            Some(ran) => (ran.turns, ran.ns) = (ran.turns + 1, ran.ns + ns),
            None => out.threads.push(Ran { name: name.to_owned(), turns: 1, ns }),
        }
    }
    out.threads.sort_by_key(|r| std::cmp::Reverse(r.ns));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(ns: u64, tid: i32, what: What) -> Event {
        Event { ns, tid, what }
    }

    #[test]
    fn a_switch_is_enter_switch_exit_and_nothing_between() {
        let to = |prev, next| What::Switch { prev, next };
        let events = [
            event(100, 7, What::Enter),
            event(400, 7, to(7, 8)),
            event(900, 8, What::Exit),
            event(1000, 8, What::Enter),
            // Somebody else comes between: no switch of the pair.
            event(1300, 8, to(8, 3)),
            event(1500, 3, to(3, 7)),
            event(1900, 7, What::Exit),
            event(2000, 7, What::Enter),
            event(2050, 7, What::Exit),
        ];
        assert_eq!(switches(&events, [7, 8]), [Seen { choose_ns: 300, switch_ns: 500 }]);
        assert_eq!(calls(&events, 7), [50.0]);
        assert_eq!(functions(&[event(1, 8, What::Function(70))], [7, 8]), [70.0]);
    }

    #[test]
    fn a_softirq_thread_between_two_sleepers_is_seen() {
        let turn = |ns, prev, next, name: &str| Turn { ns, prev, next, name: name.into() };
        let turns = [
            turn(0, 0, 20, "ksoftirqd/0"),
            turn(30, 20, 7, "latlab"),
            turn(40, 7, 8, "latlab"),
            turn(50, 8, 0, "swapper/0"),
            turn(90, 0, 20, "ksoftirqd/0"),
        ];
        let a = alternation(&turns, [7, 8], 2);
        assert_eq!((a.switches, a.direct, a.operations), (5, 1, 2));
        let of = |name: &str| a.threads.iter().find(|r| r.name == name).map(|r| (r.turns, r.ns));
        assert_eq!(of("ksoftirqd/0"), Some((2, 30)));
        assert_eq!(of("measuring"), Some((1, 10)));
        assert_eq!(of("partner"), Some((1, 10)));
        assert_eq!(of("idle"), Some((1, 40)));
        assert_eq!(a.threads[0].name, "idle");
    }
}
