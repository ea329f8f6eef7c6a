//! Calls that return before anything else happens on their CPU, each folded with its return.

use super::graph::Graph;
use super::notes::{Note, NotedBatch};
use crate::Event;
use crate::ring::{Events, Filled};

/// Whether a call was folded, kept from batch to batch.
#[derive(Debug, Default)]
pub(super) struct LeafFold {
    /// By stream of the merge: whether the next funcgraph_exit is part of the line of its call.
    folded: Vec<bool>,
}

impl LeafFold {
    /// Fills the batch with the next events, at most `max`; returns their number. A return whose
    /// call is not `printed` has a line of its own.
    pub fn fill<'f>(
        &mut self,
        graph: &Graph<'_>,
        printed: impl Fn(&Event<'_>) -> bool,
        events: &mut Events<'f>,
        batch: &mut NotedBatch<'f>,
        max: usize,
    ) -> usize {
        let (batch, notes) = batch.parts();
        let mut place = 0;
        events.fill_with(batch, max, |filled| {
            if let Some(note) = self.note(graph, &printed, &filled) {
                notes.push((place, note));
            }
            place += 1;
        })
    }

    fn note(
        &mut self,
        graph: &Graph<'_>,
        printed: impl Fn(&Event<'_>) -> bool,
        filled: &Filled<'_, '_>,
    ) -> Option<Note> {
        if self.folded.len() <= filled.stream {
            self.folded.resize(filled.stream + 1, false);
        }
        if std::mem::take(&mut self.folded[filled.stream]) {
            return (filled.id == graph.exit).then_some(Note::FoldedReturn);
        }
        if filled.id != graph.entry {
            return None;
        }
        let call = filled.event();
        let leaf = filled.peek(|id, next| graph.leaf(&call, id, next)).flatten();
        let ns = leaf.filter(|_| printed(&call))?;
        self.folded[filled.stream] = true;
        Some(Note::Leaf(ns))
    }
}
