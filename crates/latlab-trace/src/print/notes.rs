//! A batch of events with what is known of each from those beside it on its CPU.

use crate::Event;
use crate::ring::Batch;

/// What is known of an event from those beside it on its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// A call that returned before anything else happened on its CPU, after so many ns.
    Leaf(u64),
    /// The return of a [`Note::Leaf`]: it has no line of its own.
    FoldedReturn,
    /// A function, so many callers deep.
    Below(u16),
}

/// Events in order of time, some of them with a note.
#[derive(Debug, Default)]
pub(super) struct NotedBatch<'f> {
    pub events: Batch<'f>,
    /// By the event's place in the batch, in order.
    notes: Vec<(u32, Note)>,
}

impl<'f> NotedBatch<'f> {
    /// Drops all notes; the events are replaced when the batch is filled.
    pub fn clear_notes(&mut self) {
        self.notes.clear();
    }

    /// The batch to fill, and the notes on it.
    pub fn parts(&mut self) -> (&mut Batch<'f>, &mut Vec<(u32, Note)>) {
        (&mut self.events, &mut self.notes)
    }

    /// Notes events that have none, by their place in the batch.
    pub fn add_notes(&mut self, notes: impl IntoIterator<Item = (u32, Note)>) {
        self.notes.extend(notes);
        self.notes.sort_by_key(|(at, _)| *at);
    }

    /// The events with their notes, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Event<'_>, Option<Note>)> {
        let mut notes = self.notes.iter().peekable();
        self.events.events().enumerate().map(move |(n, event)| {
            (event, notes.next_if(|(at, _)| *at as usize == n).map(|(_, note)| *note))
        })
    }
}
