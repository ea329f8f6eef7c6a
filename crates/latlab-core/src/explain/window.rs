//! One wake-up reduced to numbers that can be compared across captures:
//! how long, how often and by whom each part of it was.

use super::budget::{Budget, Cause, Others, Piece, Stage};
use super::capture::{Capture, Symbol, What};
use super::lanes::{Actor, Lanes};
use crate::units::{CpuId, TraceNs};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What parts are grouped by: the mechanism and who.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct Group {
    /// Mechanism.
    pub cause: Cause,
    /// Task, interrupt, softirq or function; empty where nobody acts (idle, unexplained).
    pub who: String,
}

/// How much of a wake-up one group was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// Time within the latency, ns.
    pub ns: u64,
    /// How often it began.
    pub times: u32,
    /// Length since its actors began, also before the intended time, ns.
    pub whole_ns: u64,
    /// Longest stretch in it without any event on its CPU, ns.
    pub silent_ns: u64,
    /// Whether other CPUs did something during that stretch.
    pub others: Option<Others>,
    /// The longest of its parts lies in this stage.
    pub stage: Option<Stage>,
    /// Priority of the task that acted, as the kernel counts (smaller runs first).
    pub prio: Option<i32>,
    /// What kind of actor it was in the longest part.
    pub kind: Option<Kind>,
    /// While a lock was waited for: tasks other than its owner that ran, with their time.
    pub instead_ns: BTreeMap<String, u64>,
}

/// The kind of an actor.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Idle.
    Idle,
    /// A task's own code.
    Task,
    /// An interrupt handler.
    Interrupt,
    /// A softirq.
    Softirq,
    /// A high-resolution timer's function.
    Hrtimer,
    /// A timer-wheel timer's function.
    Timer,
    /// A work item.
    Work,
    /// An NMI.
    Nmi,
}

impl Kind {
    fn of(actor: Actor) -> Self {
        match actor {
            Actor::Idle => Self::Idle,
            Actor::Task(_) => Self::Task,
            Actor::Irq(..) | Actor::Vector(_) => Self::Interrupt,
            Actor::Nmi => Self::Nmi,
            Actor::Softirq(_) => Self::Softirq,
            Actor::Hrtimer(_) => Self::Hrtimer,
            Actor::Timer(_) => Self::Timer,
            Actor::Work(_) => Self::Work,
        }
    }
}

/// Self time and calls of a traced function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calls {
    /// Self time, ns: callees taken off.
    pub ns: u64,
    /// Calls that began in the window.
    pub calls: u32,
}

/// A wake-up in numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// The capture it is from.
    pub source: String,
    /// Intended time, ns of the trace's clock.
    pub intended_ns: u64,
    /// Latency, ns. Equals the sum of all shares.
    pub latency_ns: u64,
    /// The CPU that the task ran on.
    pub cpu: u32,
    /// Over the limit.
    pub late: bool,
    /// Events were lost within it: it weighs less.
    pub lost: bool,
    /// The buffer begins after its intended time: it weighs less.
    #[serde(default)]
    pub uncovered: bool,
    /// Steal time that the kernel counted since the capture before, ns, where it was asked.
    #[serde(default)]
    pub steal_ns: Option<u64>,
    /// System-management interrupts counted since the capture before, where the counter is readable.
    #[serde(default)]
    pub smi: Option<u64>,
    /// The parts.
    pub shares: Vec<(Group, Share)>,
    /// Functions inside each group, where functions or stacks were traced.
    pub functions: Vec<(Group, String, Calls)>,
    /// Kernel stacks seen inside a group, innermost first, with the group.
    pub stacks: Vec<(Group, Vec<String>)>,
    /// Who became runnable, was switched in or raised inside it on its CPUs: event name → count.
    pub counts: BTreeMap<String, u32>,
    /// Whether the current code was known to be user code when its longest silent stretch began.
    pub silent_in_user: bool,
    /// Who had the CPU at the intended time: what a stall would have hit.
    pub at_intended: String,
}

impl Window {
    /// How much it counts among others: one, or less where it is known in part only.
    pub fn weight(&self) -> f64 {
        if self.lost || self.uncovered { 0.25 } else { 1.0 }
    }
    /// The share of a group; nothing where it did not occur.
    pub fn share(&self, group: &Group) -> Share {
        self.shares.iter().find(|(g, _)| g == group).map(|(_, s)| s.clone()).unwrap_or_default()
    }
}

/// The name of a softirq vector (`include/linux/interrupt.h`).
pub fn softirq_name(vec: u32) -> &'static str {
    const NAMES: [&str; 10] = [
        "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER",
        "RCU",
    ];
    NAMES.get(vec as usize).copied().unwrap_or("unknown softirq")
}

/// A task's name without the numbers that tell instances of one kernel thread
/// apart: `kworker/1:2-events` and `kworker/u4:0` are both `kworker`,
/// `ksoftirqd/3` is `ksoftirqd`. Interrupt threads (`irq/34-eth0`) keep theirs.
pub fn family(comm: &str) -> &str {
    match comm.split_once('/') {
        Some((head, _)) if head != "irq" && !head.is_empty() => head,
        _ => comm,
    }
}

/// Reduces a time budget.
pub fn window(capture: &Capture, lanes: &Lanes, budget: &Budget) -> Window {
    let mut shares: BTreeMap<Group, (Share, u64)> = BTreeMap::new();
    let mut functions: BTreeMap<(Group, String), Calls> = BTreeMap::new();
    let mut longest_silence: Option<&Piece> = None;
    for piece in &budget.pieces {
        let group = group_of(capture, lanes, budget, piece);
        if let Some(function) = piece.function {
            let calls = functions
                .entry((group.clone(), capture.names.get(function).to_owned()))
                .or_default();
            calls.ns += piece.length().0;
            calls.calls += u32::from(piece.calls);
        }
        let instead = (piece.cause == Cause::Lock && piece.task.tid.0 > 0)
            .then(|| family(capture.names.get(piece.task.name)))
            .filter(|who| *who != group.who);
        let (share, longest) = shares.entry(group).or_default();
        add(share, longest, piece);
        if let Some(who) = instead {
            *share.instead_ns.entry(who.to_owned()).or_default() += piece.length().0;
        }
        if longest_silence.is_none_or(|p| piece.silent > p.silent) {
            longest_silence = Some(piece);
        }
    }
    let a = &budget.activation;
    Window {
        source: capture.source.clone(),
        intended_ns: a.intended.0,
        latency_ns: a.latency().0,
        cpu: a.cpu.0,
        late: a.late,
        lost: budget.lost,
        uncovered: budget.uncovered,
        steal_ns: None,
        smi: None,
        shares: shares.into_iter().map(|(g, (s, _))| (g, s)).collect(),
        functions: functions.into_iter().map(|((g, f), c)| (g, f, c)).collect(),
        stacks: stacks(capture, lanes, budget),
        counts: counts(capture, lanes, budget),
        silent_in_user: longest_silence.is_some_and(|p| in_user(capture, lanes, p)),
        at_intended: budget.pieces.first().map_or_else(String::new, |p| occupant(capture, p)),
    }
}

fn add(share: &mut Share, longest: &mut u64, piece: &Piece) {
    let length = piece.length().0;
    share.ns += length;
    share.whole_ns += piece.whole.0;
    share.times += u32::from(piece.begins);
    if length >= *longest {
        *longest = length;
        share.stage = Some(piece.stage);
        share.kind = Some(Kind::of(piece.actor));
        if let Actor::Task(_) = piece.actor {
            share.prio = (piece.task.prio != i32::MAX).then_some(piece.task.prio);
        }
    }
    if piece.silent.0 >= share.silent_ns {
        share.silent_ns = piece.silent.0;
        share.others = Some(piece.others);
    }
}

fn group_of(capture: &Capture, lanes: &Lanes, budget: &Budget, piece: &Piece) -> Group {
    let who = match piece.cause {
        Cause::Path
        | Cause::IdleExit
        | Cause::Unexplained
        | Cause::ProgrammedLate
        | Cause::PageFault => String::new(),
        Cause::Lock => owner(capture, lanes, budget, piece),
        _ => occupant(capture, piece),
    };
    Group { cause: piece.cause, who }
}

/// Who ended a wait for a lock: the task that woke the waiter.
fn owner(capture: &Capture, lanes: &Lanes, budget: &Budget, piece: &Piece) -> String {
    let own = budget.activation.tid;
    let events = lanes.scheduling.get(&own).map_or(&[][..], Vec::as_slice);
    let after = events.partition_point(|&i| capture.events[i].time <= piece.start);
    let waker = events[after..].iter().map(|&i| &capture.events[i]).find_map(|e| match e.what {
        What::Waking { task, .. } | What::Wakeup { task, .. } if task.tid == own => Some(e.tid),
        _ => None,
    });
    let task = waker.and_then(|tid| lanes.tasks.get(&tid));
    task.map_or_else(String::new, |t| family(capture.names.get(t.name)).to_owned())
}

/// Who had the CPU during a piece, for pictures: also on the ordinary way.
pub fn label(capture: &Capture, piece: &Piece) -> String {
    occupant(capture, piece)
}

/// Who had the CPU during a piece.
fn occupant(capture: &Capture, piece: &Piece) -> String {
    let name = |s: Symbol| capture.names.get(s).to_owned();
    match piece.actor {
        Actor::Irq(irq, s) if capture.names.get(s).is_empty() => format!("irq {irq}"),
        Actor::Irq(_, s) | Actor::Vector(s) => name(s),
        Actor::Hrtimer(s) | Actor::Timer(s) | Actor::Work(s) => name(s),
        // As osnoise reports it, with its name.
        Actor::Softirq(u32::MAX) => name(piece.task.name),
        Actor::Softirq(vec) => softirq_name(vec).to_owned(),
        Actor::Nmi => "NMI".to_owned(),
        Actor::Idle => String::new(),
        Actor::Task(_) => family(capture.names.get(piece.task.name)).to_owned(),
    }
}

/// Stacks that events inside each piece carried.
fn stacks(capture: &Capture, lanes: &Lanes, budget: &Budget) -> Vec<(Group, Vec<String>)> {
    let mut found = Vec::new();
    for piece in &budget.pieces {
        // The stack event follows the event that ends the piece, too: `end` is inclusive.
        for &i in lanes.events_within(&capture.events, piece.cpu, piece.start, piece.end) {
            if let What::Stack { frames } = &capture.events[i].what {
                let names = frames.iter().map(|&f| capture.names.get(f).to_owned()).collect();
                found.push((group_of(capture, lanes, budget, piece), names));
            }
        }
    }
    found
}

fn counts(capture: &Capture, lanes: &Lanes, budget: &Budget) -> BTreeMap<String, u32> {
    let mut cpus: Vec<CpuId> = budget.pieces.iter().map(|p| p.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let (from, to) = (budget.activation.intended, budget.activation.actual);
    let mut counts = BTreeMap::new();
    for cpu in cpus {
        for &i in lanes.events_within(&capture.events, cpu, from, to) {
            let name = |s: Symbol| capture.names.get(s);
            let key = match &capture.events[i].what {
                What::IrqEntry { name: n, .. } => format!("irq {}", name(*n)),
                What::VectorEntry { name: n } => format!("interrupt {}", name(*n)),
                What::SoftirqRaise { vec } => format!("raise {}", softirq_name(*vec)),
                What::HrtimerEntry { function, .. } => format!("hrtimer {}", name(*function)),
                What::TimerEntry { function, .. } => format!("timer {}", name(*function)),
                What::WorkStart { function } => format!("work {}", name(*function)),
                What::PageFault { .. } => "page fault".to_owned(),
                What::Switch { next, .. } => format!("run {}", family(name(next.name))),
                _ => continue,
            };
            *counts.entry(key).or_default() += 1;
        }
    }
    counts
}

/// Whether the last system-call event of the piece's task before it was a return to user space.
fn in_user(capture: &Capture, lanes: &Lanes, piece: &Piece) -> bool {
    let Actor::Task(tid) = piece.actor else { return false };
    let before = lanes.events_within(&capture.events, piece.cpu, TraceNs(0), piece.start);
    before
        .iter()
        .rev()
        .take(256)
        .map(|&i| &capture.events[i])
        .filter(|e| e.tid == tid)
        .find_map(|e| match e.what {
            What::SyscallExit { .. } => Some(true),
            What::SyscallEnter { .. } | What::PageFault { .. } => Some(false),
            _ => None,
        })
        .unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::super::budget::budget;
    use super::super::scenario::{FAIR, RT, Script};
    use super::*;

    #[test]
    fn shares_add_up_to_the_latency() {
        let mut s = Script::default();
        s.switch(0.0, RT, FAIR).timer(400.0).preempt(406.0, FAIR, RT);
        s.at(500.0, What::Other { name: Symbol(0) });
        let a = s.wakes(100.0, 410.0, true);
        let lanes = Lanes::of(&s.capture.events);
        let w = window(&s.capture, &lanes, &budget(&s.capture, &lanes, a));
        assert_eq!(w.shares.iter().map(|(_, s)| s.ns).sum::<u64>(), w.latency_ns);
        let off = w.share(&Group { cause: Cause::InterruptsOff, who: "worker".into() });
        assert_eq!((off.ns, off.prio), (300_000, Some(120)));
        assert_eq!(off.whole_ns, 400_000, "it began when the worker was switched in");
    }

    #[test]
    fn instances_of_a_kernel_thread_are_one_family() {
        assert_eq!(family("kworker/1:2-events"), "kworker");
        assert_eq!(family("ksoftirqd/0"), "ksoftirqd");
        assert_eq!(family("irq/34-eth0"), "irq/34-eth0");
        assert_eq!(family("stress"), "stress");
    }
}
