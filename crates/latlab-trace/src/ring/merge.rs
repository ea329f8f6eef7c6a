//! Events of all CPUs in order of time.
//!
//! Each CPU's records are in order already (nearly: small steps back are kept
//! as they are), so it is a merge of as many runs as there are CPUs. The
//! cursor that is being read is kept outside of the heap of the others: as
//! long as it is older than the heap's top, an event costs one comparison.
//! Of equal times the lower CPU comes first, as in `trace-cmd report`.

use super::batch::Batch;
use super::cursor::Cursor;
use super::read_ahead::ReadAhead;
use super::{Event, TimeFix};
use crate::{Diagnostics, Field, TraceFile};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Which events to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Select {
    /// Only these CPUs.
    pub cpus: Option<Vec<u32>>,
    /// Only these of the file's buffers, by their place in it.
    pub buffers: Option<Vec<u16>>,
    /// Not before this time (after corrections).
    pub from: Option<u64>,
    /// Not after this time.
    pub to: Option<u64>,
}

/// Events in order of time. A lending iterator: an event lives until the next call.
#[derive(Debug)]
pub struct Events<'f> {
    cursors: Vec<Cursor<'f>>,
    /// Time and number of every cursor but the current one.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    current: usize,
    /// The current cursor is read on while its (time, number) is below this.
    limit: (u64, usize),
    started: bool,
    done: bool,
    from: u64,
    to: u64,
    type_at: usize,
}

/// An event that was just added to a batch, and the record that follows it on its CPU.
pub(crate) struct Filled<'e, 'f> {
    events: &'e Events<'f>,
    /// Number of the CPU's stream in the merge.
    pub stream: usize,
    /// Kind: number of an [`crate::EventFormat`].
    pub id: u16,
}

impl Filled<'_, '_> {
    /// The event.
    pub fn event(&self) -> Event<'_> {
        self.events.event(self.stream)
    }

    /// What `look` returns for kind and payload of the CPU's next record; `None` when there is
    /// none, or something between cannot be read.
    pub fn peek<R>(&self, look: impl FnOnce(u16, &[u8]) -> R) -> Option<R> {
        let c = &self.events.cursors[self.stream];
        c.peek(|next| look(self.events.id_of(next, c), next))
    }
}

impl<'a> TraceFile<'a> {
    /// Every event in order of time.
    pub fn events(&self) -> Events<'_> {
        self.select(&Select::default())
    }

    /// The events that `select` asks for, in order of time.
    pub fn select(&self, select: &Select) -> Events<'_> {
        let mut cursors = Vec::new();
        for (number, buffer) in self.buffers.iter().enumerate() {
            let number = number as u16;
            if select.buffers.as_ref().is_some_and(|b| !b.contains(&number)) {
                continue;
            }
            for cpu in &buffer.cpus {
                if select.cpus.as_ref().is_none_or(|c| c.contains(&cpu.cpu)) {
                    cursors.push(Cursor::new(self, number, buffer, *cpu));
                }
            }
        }
        let from = select.from.unwrap_or(0);
        if from > 0 {
            cursors.iter_mut().for_each(|c| c.seek(from));
        }
        let type_at = self.common_type().map_or(0, |f| f.offset as usize);
        Events {
            cursors,
            heap: BinaryHeap::new(),
            current: 0,
            limit: (u64::MAX, usize::MAX),
            started: false,
            done: false,
            from,
            to: select.to.unwrap_or(u64::MAX),
            type_at,
        }
    }

    /// Calls `each` with every chosen event in order of time, until it breaks.
    /// Compressed data are inflated ahead by `threads` − 1 other threads.
    pub fn scan(
        &self,
        select: &Select,
        threads: usize,
        mut each: impl FnMut(&Event<'_>) -> ControlFlow<()>,
    ) -> Diagnostics {
        let mut events = self.select(select);
        let mut lists = Vec::new();
        let mut lanes = Vec::new();
        for (n, cursor) in events.cursors.iter().enumerate() {
            if let Some(list) = cursor.chunks_left().filter(|_| threads > 1) {
                lists.push(list);
                lanes.push(n);
            }
        }
        let ahead = Arc::new(ReadAhead::new(&self.data, lists));
        for (lane, n) in lanes.iter().enumerate() {
            events.cursors[*n].read_ahead(ahead.clone(), lane);
        }
        std::thread::scope(|scope| {
            for _ in 1..if lanes.is_empty() { 1 } else { threads } {
                scope.spawn(|| ahead.help());
            }
            while let Some(event) = events.next() {
                if each(&event).is_break() {
                    break;
                }
            }
            ahead.stop();
        });
        events.diagnostics()
    }

    /// The field `common_type`, which every event has.
    pub fn common_type(&self) -> Option<&Field> {
        self.formats.iter().next()?.field("common_type")
    }

    /// The field `common_pid`, which every event has.
    pub fn common_pid(&self) -> Option<&Field> {
        self.formats.iter().next()?.field("common_pid")
    }

    /// Whether order of time is the order of recorded time stamps.
    pub fn clock_is_plain(&self) -> bool {
        TimeFix::new(self, 0).is_constant()
    }
}

impl<'f> Events<'f> {
    /// The next event; `None` after the last.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "an event borrows from the iterator")]
    pub fn next(&mut self) -> Option<Event<'_>> {
        loop {
            let index = self.step()?;
            let c = &self.cursors[index];
            if c.time < self.from {
                continue;
            }
            if c.time > self.to {
                // Other CPUs are later still, but for small steps back.
                self.done = true;
                return None;
            }
            return Some(self.event(index));
        }
    }

    #[inline]
    fn event(&self, index: usize) -> Event<'_> {
        let c = &self.cursors[index];
        let payload = c.payload();
        Event {
            time: c.time,
            cpu: c.cpu,
            buffer: c.buffer,
            id: self.id_of(payload, c),
            missed: c.missed,
            payload,
        }
    }

    #[inline(always)]
    fn id_of(&self, payload: &[u8], c: &Cursor<'_>) -> u16 {
        let bytes = payload.get(self.type_at..).and_then(|p| p.first_chunk::<2>());
        let bytes = bytes.copied().unwrap_or_default();
        if c.is_big() { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    /// To the next event: the number of its cursor.
    #[inline]
    fn step(&mut self) -> Option<usize> {
        if !self.started {
            return self.start();
        }
        if self.done {
            return None;
        }
        let c = &mut self.cursors[self.current];
        if c.advance() {
            if (c.time, self.current) < self.limit {
                return Some(self.current);
            }
            return Some(self.switch());
        }
        match self.heap.pop() {
            Some(Reverse((_, next))) => {
                self.make_current(next);
                Some(next)
            }
            None => {
                self.done = true;
                None
            }
        }
    }

    fn start(&mut self) -> Option<usize> {
        self.started = true;
        for (n, c) in self.cursors.iter_mut().enumerate() {
            if c.advance() {
                self.heap.push(Reverse((c.time, n)));
            }
        }
        match self.heap.pop() {
            Some(Reverse((_, first))) => {
                self.make_current(first);
                Some(first)
            }
            None => {
                self.done = true;
                None
            }
        }
    }

    /// The current cursor is no longer the oldest.
    fn switch(&mut self) -> usize {
        let key = (self.cursors[self.current].time, self.current);
        let next = match self.heap.peek_mut() {
            Some(mut top) => std::mem::replace(&mut *top, Reverse(key)).0.1,
            None => self.current,
        };
        self.make_current(next);
        next
    }

    #[inline]
    fn make_current(&mut self, next: usize) {
        self.current = next;
        self.limit = self.heap.peek().map_or((u64::MAX, usize::MAX), |Reverse(key)| *key);
    }

    /// Replaces the batch's content by the next events, at most `max`; how many there were.
    pub fn fill(&mut self, batch: &mut Batch<'f>, max: usize) -> usize {
        self.fill_with(batch, max, |_| {})
    }

    /// The same; calls `each` with every event after it was added.
    pub(crate) fn fill_with(
        &mut self,
        batch: &mut Batch<'f>,
        max: usize,
        mut each: impl FnMut(Filled<'_, 'f>),
    ) -> usize {
        batch.clear(self.cursors.len());
        while batch.len() < max {
            let Some(index) = self.step() else { break };
            let c = &self.cursors[index];
            if c.time < self.from {
                continue;
            }
            if c.time > self.to {
                self.done = true;
                break;
            }
            let id = self.id_of(c.payload(), c);
            batch.push(index, c, id);
            each(Filled { events: self, stream: index, id });
        }
        batch.len()
    }

    /// What was found damaged so far, CPU by CPU.
    pub fn diagnostics(&self) -> Diagnostics {
        let mut all = Diagnostics::default();
        self.cursors.iter().for_each(|c| all.extend(&c.diagnostics));
        all
    }
}
