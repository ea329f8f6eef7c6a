//! Inflating compressed chunks ahead of the merge, on other threads.
//!
//! Chunks are independent, so helpers inflate the next few of every CPU while
//! the merge reads. When the merge is faster than they are it inflates what
//! nobody has begun, itself: no core waits for another while there is work.

use super::chunk::CompressedChunk;
use crate::compress::{Codec, InflateError, Inflater};
use crate::file::AHEAD_MAX;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Chunks that are inflated and not yet read, at most, of each CPU.
const WINDOW: usize = 8;

/// An inflated chunk, or why there is none.
pub(crate) type Inflated = Result<Vec<u8>, InflateError>;

#[derive(Debug)]
struct Lane {
    list: Vec<CompressedChunk>,
    codec: Codec,
    /// Begun and not yet taken: `None` while it is being inflated.
    slots: VecDeque<Option<Inflated>>,
    /// Number of the chunk in the first slot.
    first: usize,
}

impl Lane {
    fn next(&self) -> usize {
        self.first + self.slots.len()
    }
}

#[derive(Debug)]
struct State {
    lanes: Vec<Lane>,
    done: bool,
}

/// The chunks of all CPUs.
#[derive(Debug)]
pub(crate) struct ReadAhead<'f> {
    file: &'f [u8],
    state: Mutex<State>,
    /// A slot was filled, or taken.
    moved: Condvar,
}

impl<'f> ReadAhead<'f> {
    pub fn new(file: &'f [u8], lists: Vec<(Vec<CompressedChunk>, Codec)>) -> Self {
        let lane = |(list, codec)| Lane { list, codec, slots: VecDeque::new(), first: 0 };
        let lanes = lists.into_iter().map(lane).collect();
        Self { file, state: Mutex::new(State { lanes, done: false }), moved: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn inflate(&self, inflater: &mut Inflater, codec: Codec, packed: CompressedChunk) -> Inflated {
        let at = packed.at as usize;
        let data = &self.file[at..at + packed.len as usize];
        let mut out = Vec::new();
        inflater.inflate(codec, data, packed.inflated as usize, &mut out).map(|()| out)
    }

    /// The next chunk of a lane, in order; `None` after the last.
    pub fn take(
        &self,
        lane: usize,
        inflater: &mut Inflater,
    ) -> Option<(CompressedChunk, Inflated)> {
        let mut state = self.lock();
        loop {
            let l = &mut state.lanes[lane];
            let packed = *l.list.get(l.first)?;
            match l.slots.front_mut() {
                // Nobody has begun it.
                None => {
                    l.first += 1;
                    let codec = l.codec;
                    drop(state);
                    return Some((packed, self.inflate(inflater, codec, packed)));
                }
                Some(slot) => {
                    if let Some(result) = slot.take() {
                        l.slots.pop_front();
                        l.first += 1;
                        self.moved.notify_all();
                        return Some((packed, result));
                    }
                }
            }
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Inflates until everything is, or [`ReadAhead::stop`] is called.
    pub fn help(&self) {
        let mut inflater = Inflater::default();
        let mut state = self.lock();
        loop {
            if state.done || state.lanes.iter().all(|l| l.next() >= l.list.len()) {
                return;
            }
            let waiting: usize = state.lanes.iter().map(|l| l.slots.len()).sum();
            let open = |l: &&mut Lane| l.next() < l.list.len() && l.slots.len() < WINDOW;
            let lane = (waiting < AHEAD_MAX)
                .then(|| state.lanes.iter_mut().enumerate().filter(|(_, l)| open(l)))
                .and_then(|lanes| lanes.min_by_key(|(_, l)| l.slots.len()));
            let Some((at, l)) = lane else {
                state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let (number, codec) = (l.next(), l.codec);
            let packed = l.list[number];
            l.slots.push_back(None);
            drop(state);
            let result = self.inflate(&mut inflater, codec, packed);
            state = self.lock();
            let l = &mut state.lanes[at];
            if let Some(slot) = number.checked_sub(l.first).and_then(|n| l.slots.get_mut(n)) {
                *slot = Some(result);
            }
            self.moved.notify_all();
        }
    }

    /// Sends the helpers home.
    pub fn stop(&self) {
        self.lock().done = true;
        self.moved.notify_all();
    }
}
