//! An operation that somebody else answers: a process of this machine, or a server on another.

use super::peer::{Peer, Placement};
use super::{Probe, ProbeError};
use latlab_model::finding::Note;

/// A closed TCP connection keeps its port for a minute: 28,000 ports have to last for all trials.
pub(super) const PORTS: u64 = 50;

/// An operation with whoever answers it, here or on another machine.
pub(super) struct Operation {
    // Not generic: each kind would have a probe of its own, and the board build is small.
    pub(super) once: Box<dyn FnMut() -> Result<(), ProbeError>>,
    pub(super) most: Option<u64>,
    pub(super) peer: Option<Peer>,
    pub(super) placement: Placement,
}

impl Operation {
    /// Answered by another machine.
    pub(super) fn new(
        once: impl FnMut() -> Result<(), ProbeError> + 'static,
        placement: Placement,
    ) -> Self {
        Self { once: Box::new(once), most: None, peer: None, placement }
    }
    /// Answered by a process of this one, where there is one.
    pub(super) fn with(self, peer: impl Into<Option<Peer>>) -> Self {
        Self { peer: peer.into(), ..self }
    }
    /// With batches of at most `most` operations.
    pub(super) fn at_most(self, most: u64) -> Self {
        Self { most: Some(most), ..self }
    }
    pub(super) fn boxed(self) -> Box<dyn Probe> {
        Box::new(self)
    }
}

impl Probe for Operation {
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        for _ in 0..n {
            (self.once)()?;
        }
        Ok(())
    }

    fn batch_max(&self) -> Option<u64> {
        self.most
    }

    fn is_fifo(&self) -> bool {
        self.placement.fifo && self.peer.is_none()
    }

    fn notes(&self) -> Vec<Note> {
        let note = self.peer.as_ref().and_then(|_| self.placement.note());
        note.into_iter().collect()
    }
}
