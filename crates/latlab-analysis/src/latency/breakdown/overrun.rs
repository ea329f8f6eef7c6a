//! An activation that was due before the one before it ended: who made that one end so late?
//!
//! Who kept the activation before from its CPU for at least as long as it overran is the cause: without them it
//! would have ended in time. Otherwise it is the task's own work.

use super::{Cutter, Piece, budget_of};
use crate::latency::capture::{Activation, Capture, End};
use crate::latency::cpu_timeline::Actor;
use latlab_model::event::{Symbol, Task};
use latlab_model::latency::Cause;
use latlab_model::units::{Nanos, TraceNs};

/// Activations that are late by each other, followed at most.
const DEPTH: u32 = 8;

/// The activation that still ran when this one was due, to its end.
pub(in crate::latency) fn predecessor(capture: &Capture, of: &Activation) -> Option<Activation> {
    let actual = of.began?.after?;
    let before = |a: &&Activation| a.tid == of.tid && a.began.is_some() && a.intended < of.intended;
    let last = capture.activations.iter().filter(before).max_by_key(|a| a.intended);
    last.map(|a| Activation { actual, end: End::Completion, ..*a })
}

/// Whether a part kept the task from its CPU.
fn keeps_off(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::HigherPriority
            | Cause::EqualPriority
            | Cause::Measurement
            | Cause::PreemptionOff
            | Cause::InterruptsOff
            | Cause::Throttled
    )
}

impl Cutter<'_> {
    /// The end of the activation before, behind the intended time.
    pub(super) fn overrun(&self, start: TraceNs, end: TraceNs) -> Piece {
        let unnamed = Task { tid: self.a.tid, name: Symbol(0), prio: i32::MAX };
        let task = self.lanes.tasks.get(&self.a.tid).copied().unwrap_or(unnamed);
        let actor = Actor::Task(self.a.tid);
        let (begins, silent) = (true, Nanos(0));
        let unknown = self.unknown(super::Stage::Interrupt, start, end, self.a.cpu);
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
        let pieces = budget_of(self.capture, self.lanes, before, self.later + 1).pieces;
        let mut sums: Vec<Piece> = Vec::new();
        for piece in pieces.into_iter().filter(|p| keeps_off(p.cause)) {
            let length = piece.length();
            let same = |s: &&mut Piece| {
                (s.cause, s.actor, s.task.tid) == (piece.cause, piece.actor, piece.task.tid)
            };
            match sums.iter_mut().find(same) {
                Some(sum) => sum.whole = sum.whole + length,
                None => sums.push(Piece { whole: length, ..piece }),
            }
        }
        sums.into_iter().max_by_key(|s| s.whole).filter(|s| s.whole >= least)
    }
}
