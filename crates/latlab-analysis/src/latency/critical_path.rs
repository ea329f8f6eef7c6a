//! The critical path of a wake-up or activation: the intervals that its time consists of, for whom each counts,
//! and the events that ended the waits.
//!
//! A segment is a part of the latency breakdown within one step of its trail: the breakdown says who acted, the
//! step which task was kept by that. The segments tile the time from the intended to the actual moment.

use super::breakdown::trail::{Link, OffInterval, Standing, Trail};
use super::breakdown::{Budget, Piece};
use super::capture::Capture;
use super::features::label;
#[cfg(feature = "host")]
use super::user_stacks;
use latlab_model::event::{EventKind, Symbol};
use latlab_model::latency::{Cause, Part};
use latlab_model::units::{CpuId, Tid, TraceNs};

/// Segments and links of a path; further segments are merged into the last one, further links left out.
const MOST: usize = 400;
/// Frames of a stack that are kept.
const FRAMES: usize = 64;
/// Events of a CPU behind a switch among which its stack is looked for.
const STACK: usize = 16;

/// An interval of a path with one actor.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// The part of the breakdown.
    pub part: Part,
    /// The CPU whose events tell it.
    pub cpu: CpuId,
    /// The task that acts; 0: idle, or an interrupt of the idle CPU.
    pub actor: Tid,
    /// The task whose time it is: the measured one, or one that it waits for.
    pub of: Tid,
    /// What that task does.
    pub standing: Standing,
    /// Waits between it and the measured task.
    pub depth: u32,
}

/// An interval without a CPU of a task of the path, with the stack with which it left that: innermost function
/// first, those of the kernel before those of the program; empty where no stack was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct OffCpu {
    /// The interval.
    pub interval: OffInterval,
    /// The stack.
    pub stack: Vec<Symbol>,
}

/// A path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CriticalPath {
    /// In order of time; they add up to the latency.
    pub segments: Vec<Segment>,
    /// In order of time.
    pub links: Vec<Link>,
    /// In order of time: the waits, and the preemptions of which a stack was recorded.
    pub off: Vec<OffCpu>,
}

/// The path of a budget.
pub fn critical_path(capture: &Capture, budget: &Budget, trail: Trail) -> CriticalPath {
    let mut segments: Vec<Segment> = Vec::new();
    for piece in &budget.pieces {
        let mut at = piece.start;
        while at < piece.end {
            let step = trail.at(at).copied();
            let end = step.map_or(piece.end, |s| s.to.min(piece.end));
            let (of, standing, depth) = step
                .map_or((budget.activation.tid, Standing::Waiting, 0), |s| {
                    (s.tid, s.standing, s.depth)
                });
            let part = part(capture, budget, piece, (at, end));
            let (cpu, actor) = (piece.cpu, piece.task.tid);
            add(&mut segments, Segment { part, cpu, actor, of, standing, depth });
            at = end;
        }
    }
    let has_stacks = capture.kinds().stacks;
    let off = trail.off.iter().map(|interval| OffCpu {
        interval: *interval,
        stack: if has_stacks { stack(capture, interval) } else { Vec::new() },
    });
    #[cfg(feature = "host")]
    let off = off.map(|mut off| {
        let OffInterval { tid, since, to, .. } = off.interval;
        off.stack.extend(user_stacks::of(capture, tid, since, to));
        off
    });
    let off = off.filter(|o| o.interval.waits || !o.stack.is_empty()).take(MOST).collect();
    let mut links = trail.links;
    links.retain(|l| l.at <= budget.activation.actual);
    links.truncate(MOST);
    CriticalPath { segments, links, off }
}

/// An interval of a piece as a part of the breakdown.
fn part(
    capture: &Capture,
    budget: &Budget,
    piece: &Piece,
    (start, end): (TraceNs, TraceNs),
) -> Part {
    let intended = budget.activation.intended;
    Part {
        start_ns: start.since(intended).0,
        end_ns: end.since(intended).0,
        stage: piece.stage,
        cause: piece.cause,
        who: label(capture, piece).into_owned(),
        merged: false,
    }
}

fn add(segments: &mut Vec<Segment>, next: Segment) {
    let is_full = segments.len() >= MOST;
    match segments.last_mut() {
        Some(last) if joins(last, &next) => last.part.end_ns = next.part.end_ns,
        Some(last) if is_full => {
            let part = &mut last.part;
            part.end_ns = next.part.end_ns;
            (part.cause, part.who, part.merged) = (Cause::Unexplained, String::new(), true);
        }
        _ => segments.push(next),
    }
}

fn joins(last: &Segment, next: &Segment) -> bool {
    let (a, b) = (&last.part, &next.part);
    (a.stage, a.cause, &a.who, a.merged) == (b.stage, b.cause, &b.who, b.merged)
        && (last.cpu, last.actor, last.of, last.standing, last.depth)
            == (next.cpu, next.actor, next.of, next.standing, next.depth)
}

/// The kernel stack of the switch with which the task left its CPU; empty if it became runnable otherwise.
fn stack(capture: &Capture, off: &OffInterval) -> Vec<Symbol> {
    let first = capture.events.partition_point(|e| e.time < off.since);
    let mut own = capture.events[first..].iter().filter(|e| e.cpu == off.cpu).take(STACK);
    let left = own.find(|e| {
        matches!(e.kind, EventKind::Switch { prev, .. } if prev.tid == off.tid && e.time == off.since)
    });
    let Some(left) = left else { return Vec::new() };
    let found = own.take_while(|e| e.current == left.current).find_map(|e| match e.kind {
        EventKind::Stack { stack } => Some(stack),
        _ => None,
    });
    let Some(found) = found else { return Vec::new() };
    capture.names.stack(found).iter().take(FRAMES).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::breakdown::trail::LinkKind;
    use crate::latency::breakdown::with_trail;
    use crate::latency::capture::{Activation, Began, End};
    use crate::latency::cpu_timeline::{Actor, Lanes};
    use crate::latency::scenario::{FAIR, HIGH, IDLE, RT, Script};
    use latlab_model::event::{OffCpu as Left, StackId, Task};

    const HELPER: Task = Task { tid: Tid(400), name: Symbol(2), prio: 60 };
    const SECOND: Task = Task { tid: Tid(500), name: Symbol(3), prio: 60 };

    fn ns(us: f64) -> TraceNs {
        TraceNs((us * 1_000.0) as u64)
    }

    /// An activation from 100 µs on; the task runs at 110.
    fn activation(end: f64) -> Activation {
        let began = Began { woken: ns(102.0), start: ns(110.0), after: None, by_event: false };
        Activation {
            tid: RT.tid,
            cpu: CpuId(0),
            intended: ns(100.0),
            actual: ns(end),
            end: End::Completion,
            late: true,
            called: false,
            began: Some(began),
        }
    }

    fn path(s: &mut Script, a: Activation) -> CriticalPath {
        s.capture.events.sort_by_key(|e| e.time);
        let lanes = Lanes::around(&s.capture, &[a]);
        let (budget, trail) = with_trail(&s.capture, &lanes, a);
        let path = critical_path(&s.capture, &budget, trail);
        let sum: u64 = path.segments.iter().map(|s| s.part.length_ns()).sum();
        assert_eq!(sum, a.latency().0, "{path:#?}");
        path
    }

    fn waking(task: Task, target: u32) -> EventKind {
        EventKind::Waking { task, target: CpuId(target), in_interrupt: false }
    }

    fn asleep(prev: Task, next: Task) -> EventKind {
        EventKind::Switch { prev, state: Left::Sleeping, next }
    }

    /// The task asks `helper` on CPU 1, which asks `second` there, which a task above it keeps from its CPU.
    fn chain() -> Script {
        let mut s = Script::default();
        s.preempt(0.0, IDLE, FAIR).timer(100.0).preempt(110.0, FAIR, RT);
        s.on(1, 0.0, asleep(HELPER, IDLE));
        s.at(150.0, waking(HELPER, 1)).switch(160.0, RT, FAIR);
        s.on(1, 155.0, EventKind::Switch { prev: IDLE, state: Left::Runnable, next: HELPER });
        s.on(1, 200.0, waking(SECOND, 1)).on(1, 205.0, asleep(HELPER, HIGH));
        s.on(1, 305.0, asleep(HIGH, SECOND)).on(1, 350.0, waking(HELPER, 1));
        s.on(1, 355.0, asleep(SECOND, HELPER)).on(1, 400.0, waking(RT, 0));
        s.preempt(410.0, FAIR, RT).switch(450.0, RT, FAIR).at(500.0, EventKind::Other);
        s
    }

    #[test]
    fn a_chain_of_waits_is_followed_to_who_kept_the_last_one_from_its_cpu() {
        let mut s = chain();
        let path = path(&mut s, activation(450.0));
        let links: Vec<_> = path.links.iter().map(|l| (l.by, l.to, l.cpu.0, l.depth)).collect();
        // By the timer's interrupt; from the last one of the chain back to the task.
        let expected =
            [(FAIR.tid, RT.tid, 0, 0), (SECOND.tid, HELPER.tid, 1, 1), (HELPER.tid, RT.tid, 1, 0)];
        assert_eq!(links.iter().filter(|l| expected.contains(l)).count(), 3, "{links:#?}");
        assert!(matches!(path.links[0].context, Some(Actor::Hrtimer(_))), "{:#?}", path.links[0]);
        assert_eq!(path.links.last().map(|l| (l.at, l.kind)), Some((ns(400.0), LinkKind::Wakes)));
        let kept: Vec<_> = path.segments.iter().filter(|s| s.of == SECOND.tid).collect();
        let ready = kept.iter().find(|s| s.actor == HIGH.tid).expect("the task above it");
        assert_eq!(
            (ready.standing, ready.depth, ready.part.length_ns()),
            (Standing::Ready, 2, 100_000)
        );
        assert_eq!(ready.part.cause, Cause::HigherPriority);
        // Both waits, which are followed, are known as such.
        let waits = path.off.iter().map(|o| (o.interval.tid, o.interval.from, o.interval.to));
        let expected = [(RT.tid, ns(160.0), ns(400.0)), (HELPER.tid, ns(205.0), ns(350.0))];
        assert_eq!(waits.collect::<Vec<_>>(), expected);
    }

    /// The stack with which a task left its CPU belongs to its wait.
    #[test]
    fn a_wait_has_the_stack_of_the_switch() {
        let mut s = Script::default();
        let (futex, schedule) = (s.name("futex_wait"), s.name("schedule"));
        let stack = s.capture.names.add_stack(&[schedule, futex]);
        assert_eq!(stack, StackId(0));
        s.preempt(0.0, IDLE, FAIR).timer(100.0).preempt(110.0, FAIR, RT).switch(160.0, RT, FAIR);
        s.by(RT, 160.0, EventKind::Stack { stack });
        s.on(1, 400.0, waking(RT, 0)).preempt(410.0, FAIR, RT).switch(450.0, RT, FAIR);
        s.at(500.0, EventKind::Other);
        s.capture.kinds = None;
        let path = path(&mut s, activation(450.0));
        let [off] = &path.off[..] else { panic!("{:#?}", path.off) };
        let OffInterval { from, to, tid, waits, .. } = off.interval;
        assert_eq!((from, to, tid, waits), (ns(160.0), ns(400.0), RT.tid, true));
        assert_eq!(off.stack, [schedule, futex]);
    }

    /// A softirq that an interrupt of another CPU raised wakes the task: the way leads to that CPU.
    #[test]
    fn a_wake_up_by_a_softirq_leads_to_who_sent_the_interrupt() {
        let mut s = Script::default();
        let vector = s.name("call_function_single");
        s.preempt(0.0, IDLE, FAIR).timer(100.0).preempt(110.0, FAIR, RT).switch(160.0, RT, FAIR);
        s.on(1, 10.0, EventKind::Switch { prev: IDLE, state: Left::Runnable, next: HELPER });
        s.on(1, 300.0, EventKind::IpiSend { cpus: 1, function: vector });
        s.at(310.0, EventKind::VectorEntry { name: vector })
            .at(312.0, EventKind::SoftirqRaise { vec: 3 })
            .at(314.0, EventKind::VectorExit { name: vector })
            .at(315.0, EventKind::SoftirqEntry { vec: 3 })
            .at(320.0, waking(RT, 0))
            .at(325.0, EventKind::SoftirqExit { vec: 3 })
            .preempt(330.0, FAIR, RT)
            .switch(450.0, RT, FAIR)
            .at(500.0, EventKind::Other);
        let path = path(&mut s, activation(450.0));
        let kinds: Vec<_> = path.links.iter().map(|l| (l.kind, l.cpu.0, l.at)).collect();
        assert_eq!(
            kinds[1..],
            [
                (LinkKind::Sends, 1, ns(300.0)),
                (LinkKind::Raises, 0, ns(312.0)),
                (LinkKind::Wakes, 0, ns(320.0)),
            ]
        );
        assert_eq!(path.links[1].by, HELPER.tid);
    }

    #[test]
    fn a_path_of_very_many_segments_is_merged_and_adds_up() {
        let mut s = Script::default();
        s.preempt(0.0, IDLE, FAIR).timer(100.0).preempt(110.0, FAIR, RT);
        let disk = s.name("disk");
        for i in 0..1_000 {
            let at = 120.0 + f64::from(i) * 10.0;
            s.at(at, EventKind::IrqEntry { irq: 5, name: disk })
                .at(at + 2.0, EventKind::IrqExit { irq: 5 });
        }
        s.switch(11_000.0, RT, FAIR).at(11_010.0, EventKind::Other);
        let path = path(&mut s, activation(11_000.0));
        assert_eq!(path.segments.len(), MOST);
        assert!(path.segments[MOST - 1].part.merged);
    }
}
