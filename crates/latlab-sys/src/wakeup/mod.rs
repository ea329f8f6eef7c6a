//! Measures cyclic wake-up latency: threads that sleep to absolute times and look at the clock.
//!
//! ```text
//! main thread      set-up ── gate ── every 50 ms: drain samples, display, signals ── join
//! measuring thread bind, allocate, prefault, policy ── gate ── cycle, cycle, … ── counters
//! watchdog         (one priority higher) every 250 ms: who takes more than 90% of a CPU?
//! ```
//!
//! With several mechanisms (`mechanism/`) one thread measures them in turns, block by block:
//!
//! ```text
//! sender    (one priority lower) bind, give turn ── sleep, stamp, call ── … ── wait for turn
//! receiver  take turn ── wait, stamp, count ── … ── give turn back
//! ```
//!
//! `cycle` costs one sleep and one reading of the clock; it allocates, locks and
//! prints nothing. SCHED_DEADLINE threads sleep the same way, to the same absolute
//! times, with the interval as period and deadline: the quantity is the same under every policy.

mod core;
mod cycle;
mod error;
mod mechanism;
mod meter;
mod os;
mod path_mark;
mod ring;
mod run;
mod setup;
mod start;
mod timerlat;
mod trace_mark;
mod watchdog;
mod window;

pub use core::{CoreOutput, program as core_program, run_core};
pub use error::WakeupError;
pub(crate) use os::{now_ns, sleep_until};
pub(crate) use path_mark::tell;
pub use ring::Sample;
pub use start::run;
pub use timerlat::run as run_timerlat;
pub use window::Counters;

use latlab_model::wakeup::result::LateWake;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Whether to go on after a late wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Go on measuring.
    Continue,
    /// Stop all threads; what was measured is kept.
    Stop,
}

/// Called inside the measuring loop, on the measuring thread at its priority: it must not
/// allocate, lock, print or sleep. Writing to an open file descriptor of tracefs is fine.
pub type OnLate<'a> = &'a (dyn Fn(&LateWake) -> Next + Sync);
/// Called on the main thread about twenty times a second with each thread's figures so far.
pub type OnTick<'a> = &'a mut dyn FnMut(&[LiveThread]) -> Next;
/// Called on the main thread with samples of one thread, in order.
pub type OnSamples<'a> = &'a mut dyn FnMut(usize, &[Sample]) -> io::Result<()>;

/// What the caller wants to be told while it is measured.
#[derive(Default)]
pub struct Hooks<'a> {
    /// `on_late` is called for wake-ups later than this many ns; may be changed at any time
    /// (0 catches the next wake-up that is not on the dot: an on-time window).
    pub late_ns: Option<&'a AtomicU64>,
    /// Called for each such wake-up.
    pub on_late: Option<OnLate<'a>>,
    /// Called now and then.
    pub on_tick: Option<OnTick<'a>>,
    /// Called with the samples, where [`WakeupConfig::samples`](latlab_model::wakeup::config::WakeupConfig) is set.
    pub on_samples: Option<OnSamples<'a>>,
}

/// One thread's figures so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveThread {
    /// Thread id.
    pub tid: i32,
    /// Static priority.
    pub priority: u32,
    /// Period, ns.
    pub interval_ns: u64,
    /// Wake-ups so far.
    pub wakeups: u64,
    /// Missed periods so far.
    pub missed_periods: u64,
    /// Smallest latency so far, ns.
    pub min_ns: u64,
    /// Last latency, ns.
    pub last_ns: u64,
    /// Sum of latencies, ns.
    pub sum_ns: u64,
    /// Largest latency so far, ns.
    pub max_ns: u64,
    /// Smallest latency since the last tick, ns; `u64::MAX` when there was no wake-up.
    pub recent_min_ns: u64,
    /// Largest latency since the last tick, ns.
    pub recent_max_ns: u64,
}

impl LiveThread {
    /// Arithmetic mean so far, ns.
    pub fn mean_ns(&self) -> u64 {
        self.sum_ns.checked_div(self.wakeups).unwrap_or(0)
    }
}

/// Why the threads end; the first reason is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Stop {
    Signal = 1,
    BreakValue = 2,
    Runaway = 3,
    Hook = 4,
    Sink = 5,
}

/// What all threads share: one atomic word that they look at in each cycle.
#[derive(Default)]
struct Control {
    stop: AtomicU32,
    /// Index of the thread that a break value or a runaway concerns.
    by: AtomicU32,
    /// Per cent of the CPU that a runaway thread took.
    percent: AtomicU32,
    /// The watchdog need not watch any longer.
    finished: AtomicBool,
}

impl Control {
    /// Asks all threads to end; true when this was the first reason.
    fn stop(&self, why: Stop, by: usize) -> bool {
        let first =
            self.stop.compare_exchange(0, why as u32, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if first {
            self.by.store(by as u32, Ordering::Relaxed);
        }
        first
    }

    #[inline]
    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed) != 0
    }

    fn reason(&self) -> Option<Stop> {
        [Stop::Signal, Stop::BreakValue, Stop::Runaway, Stop::Hook, Stop::Sink]
            .into_iter()
            .find(|&why| why as u32 == self.stop.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests;
