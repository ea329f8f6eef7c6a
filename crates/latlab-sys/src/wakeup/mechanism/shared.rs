//! What the threads of a measurement in turns borrow.

use super::channel::Pair;
use super::turn::Turn;
use crate::wakeup::cycle::Live;
use crate::wakeup::trace_mark::TraceMark;
use crate::wakeup::{Control, OnLate, WakeupError};
use latlab_model::wakeup::config::WakeupConfig;
use latlab_model::wakeup::mechanism::Woken;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::mpsc;

/// How a thread tells that it is set up: its number and its id.
pub type Ready = mpsc::Sender<(usize, Result<i32, WakeupError>)>;

/// Wake-ups at the beginning of a block that do not count.
pub const WARM_UP: u64 = 2;
/// One row of the table.
pub struct Row {
    pub woken: Woken,
    /// None for a timer.
    pub pair: Option<Pair>,
    pub live: Live,
    /// It is measured no longer: a wake-up was lost.
    pub lost: AtomicBool,
}

/// What all threads borrow.
pub struct Shared<'a> {
    pub config: &'a WakeupConfig,
    pub control: &'a Control,
    pub rows: &'a [Row],
    pub turn: &'a Turn,
    /// Thread id of the receiver.
    pub receiver: &'a AtomicI32,
    /// When it begins, ns of CLOCK_MONOTONIC; 0 until that is known.
    pub start_ns: &'a AtomicU64,
    pub late_ns: &'a AtomicU64,
    pub on_late: Option<OnLate<'a>>,
    pub mark: Option<&'a TraceMark>,
}

impl Shared<'_> {
    /// Priority of the sender: one below that of the receiver; 0 where the policy has none.
    pub fn sender_priority(&self) -> u32 {
        match self.config.policy.has_priority() {
            true => self.config.priority.saturating_sub(1).max(1),
            false => 0,
        }
    }

    /// When it ends, ns of CLOCK_MONOTONIC.
    pub fn end_ns(&self) -> u64 {
        let start = self.start_ns.load(Ordering::Acquire);
        self.config.duration_ns.map_or(u64::MAX, |d| start.saturating_add(d))
    }
}
