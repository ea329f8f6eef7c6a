//! An activation that was due before the one before it ended: who made that one end so late?
//!
//! Who kept the activation before from its CPU for at least as long as it overran is the cause: without them it
//! would have ended in time. So are interrupts, where they took longer than the task itself: a task whose work fills
//! its period overruns by interrupts of any length. So is a wait, where it took as long as the time between the two:
//! shorter ones may be usual. Otherwise it is the task's own work.

use super::attribution::interruption;
use super::once::Interrupted;
use super::{Cutter, Piece, budget_of};
use crate::latency::capture::{Activation, Capture, End};
use crate::latency::cpu_timeline::{Actor, Span};
use latlab_model::event::{Symbol, Task};
use latlab_model::latency::{Cause, Stage};
use latlab_model::units::{CpuId, Nanos, TraceNs};

/// Activations that are late by each other, followed at most.
const DEPTH: u32 = 32;
/// Spans of a run before its intended time that are looked at.
const BACK: usize = 4_096;

/// The activation that still ran when this one was due, to its end.
pub(in crate::latency) fn predecessor(capture: &Capture, of: &Activation) -> Option<Activation> {
    let actual = of.began?.after?;
    let before = |a: &&Activation| a.tid == of.tid && a.began.is_some() && a.intended < of.intended;
    let last = capture.activations.iter().filter(before).max_by_key(|a| a.intended);
    last.map(|a| Activation { actual, end: End::Completion, ..*a })
}

/// Whether a part kept the task from its CPU.
fn keeps_off(cause: Cause) -> bool {
    cause.is_in_place()
        || matches!(cause, Cause::PreemptionOff | Cause::InterruptsOff | Cause::Throttled)
}

/// Whether a part interrupted the task.
fn interrupts(cause: Cause) -> bool {
    matches!(cause, Cause::Interrupt | Cause::Nmi | Cause::Softirq | Cause::TimerFunction)
}

/// Whether a part is a wait of the task.
fn waits(cause: Cause) -> bool {
    matches!(cause, Cause::Wait | Cause::Lock | Cause::PageFault | Cause::Sleep)
}

impl Cutter<'_> {
    /// The run in which the task went past its intended time on a CPU, where one interrupt took, before that time,
    /// at least as long as the task ran behind it, and longer than the task ran in all. Entry and exit of an
    /// interrupt lie outside of its events, and count for the task.
    pub(super) fn interrupted(&self, cpu: CpuId) -> Option<Interrupted> {
        let spans = self.lanes.cpus.get(&cpu).map_or(&[][..], Vec::as_slice);
        let at = spans.partition_point(|s| s.end <= self.a.intended);
        let is_own = |s: &&Span| s.task.tid == self.a.tid;
        let later = spans[at..].iter().take_while(|s| s.start < self.a.actual).take_while(is_own);
        let end = later.clone().last()?.end;
        let earlier = spans[..at].iter().rev().take(BACK).take_while(is_own);
        let (mut ran, mut behind) = (Nanos(0), Nanos(0));
        let mut others: Vec<((Cause, Actor), Nanos)> = Vec::new();
        for s in earlier.chain(later) {
            let before = s.end.min(self.a.intended).since(s.start);
            let after = s.end.min(self.a.actual).since(s.start.max(self.a.intended));
            match interruption(s) {
                None => (ran, behind) = (ran + before + after, behind + after),
                Some(cause) => {
                    let interrupt = s.inside.filter(|_| cause == Cause::Interrupt);
                    let who = (cause, interrupt.unwrap_or(s.actor));
                    match others.iter_mut().find(|(other, _)| *other == who) {
                        Some((_, sum)) => *sum = *sum + before,
                        None => others.push((who, before)),
                    }
                }
            }
        }
        let ((cause, actor), sum) = others.into_iter().max_by_key(|(_, sum)| *sum)?;
        (sum >= behind && sum > ran).then_some(Interrupted { end, cause, actor })
    }

    /// The end of the activation before, behind the intended time.
    pub(super) fn overrun(&self, start: TraceNs, end: TraceNs) -> Piece {
        let unnamed = Task { tid: self.a.tid, name: Symbol(0), prio: i32::MAX };
        let task = self.lanes.tasks.get(&self.a.tid).copied().unwrap_or(unnamed);
        let actor = Actor::Task(self.a.tid);
        let (begins, silent) = (true, Nanos(0));
        let unknown = self.unknown(Stage::Interrupt, start, end, self.a.cpu);
        let own = Piece { cause: Cause::Overrun, actor, task, begins, silent, ..unknown };
        match self.kept_off(end.since(start)) {
            Some(Piece { cause, actor, task, whole, .. }) => {
                Piece { cause, actor, task, whole, ..own }
            }
            None => own,
        }
    }

    /// Who kept the activation before from its CPU for at least so long, with their whole time.
    fn kept_off(&self, least: Nanos) -> Option<Piece> {
        let before = predecessor(self.capture, &self.a).filter(|_| self.later < DEPTH)?;
        let (budget, _) = budget_of(self.capture, self.lanes, before, self.later + 1, None);
        let work = budget.sum(|p| p.cause == Cause::Execution);
        let mut sums: Vec<Piece> = Vec::new();
        let counts = |p: &Piece| keeps_off(p.cause) || interrupts(p.cause) || waits(p.cause);
        for piece in budget.pieces.into_iter().filter(counts) {
            let length = piece.length();
            // What made that one begin late is told apart from its own waits.
            let of = |p: &Piece| {
                let inherited = waits(p.cause) && p.stage == Stage::Interrupt;
                (p.cause, p.actor, p.task.tid, inherited)
            };
            let same = |s: &&mut Piece| of(s) == of(&piece);
            match sums.iter_mut().find(same) {
                Some(sum) => sum.whole = sum.whole + length,
                None => sums.push(Piece { whole: length, ..piece }),
            }
        }
        let apart = self.a.intended.since(before.intended);
        let enough = |s: &Piece| match s.cause {
            cause if waits(cause) && s.stage != Stage::Interrupt => s.whole >= apart.max(least),
            cause if keeps_off(cause) || waits(cause) => s.whole >= least,
            _ => s.whole >= least && s.whole > work,
        };
        sums.into_iter().filter(enough).max_by_key(|s| s.whole)
    }
}
