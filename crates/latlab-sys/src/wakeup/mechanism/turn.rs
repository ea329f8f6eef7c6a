//! Whose turn it is: the sender gives the receiver a row to measure, and waits until it is back.

use crate::wakeup::os;
use rustix::thread::futex::{self, Flags};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const NONE: u32 = 0;
const END: u32 = u32::MAX;

/// A word that both wait for.
#[derive(Default)]
pub struct Turn {
    /// `NONE`, the number of a row plus one, or `END`.
    word: AtomicU32,
    /// Wake-ups of the block that was given.
    count: AtomicU64,
}

impl Turn {
    fn set(&self, value: u32) {
        self.word.store(value, Ordering::Release);
        // A failed wake means that nobody waits.
        let _ = futex::wake(&self.word, Flags::PRIVATE, 1);
    }

    /// Gives the receiver a block of `count` wake-ups of a row.
    pub fn give(&self, row: usize, count: u64) {
        self.count.store(count, Ordering::Relaxed);
        self.set(row as u32 + 1);
    }

    /// Tells the receiver that there is nothing more.
    pub fn end(&self) {
        self.set(END);
    }

    /// The receiver has measured what it was given.
    pub fn back(&self) {
        self.set(NONE);
    }

    /// Waits for a row and its number of wake-ups; `None` at the end.
    pub fn take(&self) -> Option<(usize, u64)> {
        loop {
            match self.word.load(Ordering::Acquire) {
                NONE => drop(futex::wait(&self.word, Flags::PRIVATE, NONE, None)),
                END => return None,
                row => return Some((row as usize - 1, self.count.load(Ordering::Relaxed))),
            }
        }
    }

    /// Whether the receiver is back.
    pub fn is_back(&self) -> bool {
        self.word.load(Ordering::Acquire) == NONE
    }

    /// Waits until the receiver is back, at most so many ns; whether it is.
    pub fn wait_back(&self, ns: u64) -> bool {
        let word = self.word.load(Ordering::Acquire);
        if word != NONE {
            let _ = futex::wait(&self.word, Flags::PRIVATE, word, Some(&os::timespec(ns)));
        }
        self.is_back()
    }
}
