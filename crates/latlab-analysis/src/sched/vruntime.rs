//! Virtual run time of a task of CFS.
//!
//! It is known from `sched_stat_runtime` while the task runs, and while it waits after a preemption. A wake-up or a
//! migration gives it another one, which no event has.

use super::fair::weight_of_prio;
use latlab_model::sched::schedule::VruntimeLine;
use latlab_model::units::Nanos;

/// The virtual run time of a task.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Vruntime {
    now: Option<u64>,
    grown: VruntimeLine,
}

impl Vruntime {
    /// After `ns` of run time; 0 is not told.
    pub fn update(&mut self, ns: Nanos, now: u64) {
        if now == 0 {
            return;
        }
        if let Some(before) = self.now.filter(|&before| before <= now) {
            let grown = &mut self.grown;
            grown.gained_ns = grown.gained_ns.saturating_add(now - before);
            grown.charged_ns = grown.charged_ns.saturating_add(ns.0);
        }
        self.now = Some(now);
    }

    /// The present one, where it is known.
    pub fn now(&self) -> Option<u64> {
        self.now
    }

    /// It may have changed without an event.
    pub fn forget(&mut self) {
        self.now = None;
    }

    /// What is known of it, for a task of this priority.
    pub fn told(&self, prio: i32) -> Option<VruntimeLine> {
        let weight = weight_of_prio(prio)? as u64;
        (self.grown.charged_ns > 0).then_some(VruntimeLine { weight, ..self.grown })
    }
}
