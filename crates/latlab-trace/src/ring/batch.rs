//! A run of events that outlives the merge: places, and the chunks that they lie in.

use super::chunk::Chunk;
use super::cursor::Cursor;
use super::{Event, Missed};

/// Events in order of time, kept until the batch is filled again.
#[derive(Debug, Default)]
pub struct Batch<'f> {
    places: Vec<Place>,
    chunks: Vec<Chunk<'f>>,
    /// By cursor: number of its chunk, and where that is in `chunks`.
    current: Vec<Option<(usize, u32)>>,
    missed: Vec<(u32, Missed)>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    time: u64,
    at: usize,
    len: u32,
    chunk: u32,
    cpu: u32,
    buffer: u16,
    id: u16,
}

impl<'f> Batch<'f> {
    pub(super) fn clear(&mut self, cursors: usize) {
        self.places.clear();
        self.chunks.clear();
        self.missed.clear();
        self.current.clear();
        self.current.resize(cursors, None);
    }

    #[inline]
    pub(super) fn push(&mut self, index: usize, c: &Cursor<'f>, id: u16) {
        let chunk = match self.current[index] {
            Some((number, at)) if number == c.chunk_number => at,
            _ => {
                let at = self.chunks.len() as u32;
                self.chunks.push(c.chunk.clone());
                self.current[index] = Some((c.chunk_number, at));
                at
            }
        };
        if c.missed != Missed::No {
            self.missed.push((self.places.len() as u32, c.missed));
        }
        let len = u32::try_from(c.len).unwrap_or(u32::MAX);
        self.places.push(Place {
            time: c.time,
            at: c.at,
            len,
            chunk,
            cpu: c.cpu,
            buffer: c.buffer,
            id,
        });
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.places.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The events, in order.
    pub fn events(&self) -> impl Iterator<Item = Event<'_>> {
        let mut missed = self.missed.iter().peekable();
        self.places.iter().enumerate().map(move |(n, p)| {
            let bytes = self.chunks[p.chunk as usize].bytes();
            let missed = missed.next_if(|(at, _)| *at as usize == n).map_or(Missed::No, |m| m.1);
            Event {
                time: p.time,
                cpu: p.cpu,
                buffer: p.buffer,
                id: p.id,
                missed,
                payload: &bytes[p.at..p.at + p.len as usize],
            }
        })
    }
}
