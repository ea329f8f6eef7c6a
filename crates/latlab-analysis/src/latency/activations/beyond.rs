//! Activations of which there are too many to be kept: they are counted.

use super::counts::{Usual, count, merge, usual};
use super::{Job, Late};
use latlab_model::finding::Note;
use latlab_model::latency::{ActivationCounts, LateBy};

/// Activations that were counted and not kept.
#[derive(Clone, Debug)]
pub(super) struct Beyond {
    /// What is late of them, and why that.
    pub(super) limit: (Late, Note),
    usual: Usual,
    counts: ActivationCounts,
}

impl Beyond {
    /// Behind those that were kept.
    pub(super) fn new(kept: &[Job], limit: (Late, Note)) -> Self {
        let usual = usual(kept, limit.0);
        Self { limit, usual, counts: ActivationCounts::default() }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.counts.activations
    }

    /// How many of them are late; with another limit than theirs none is.
    pub(super) fn late(&self, late: Late) -> u64 {
        if late == self.limit.0 { self.counts.late } else { 0 }
    }

    /// Counts further ones.
    pub(super) fn add(&mut self, jobs: &[Job]) {
        merge(&mut self.counts, &count(jobs.iter(), self.limit.0, self.usual));
    }

    /// Adds them to the counts of those that were kept. With another limit than theirs none is late.
    pub(super) fn add_to(&self, into: &mut ActivationCounts, late: Late) {
        let mut own = self.counts.clone();
        if late != self.limit.0 {
            (own.late, own.late_by) = (0, LateBy::default());
        }
        merge(into, &own);
    }
}
