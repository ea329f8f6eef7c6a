//! The measuring loop. **Invariant:** nothing in it allocates, locks, prints or faults; a cycle
//! costs one wait and one reading of the clock.

use super::mechanism::Source;
use super::meter::Meter;
use super::ring::{Ring, Sample};
use super::trace_mark::TraceMark;
use super::{Control, Next, OnLate, Stop, os, path_mark};
use crate::shared_lock::SharedLock;
use latlab_model::wakeup::result::LateWake;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Figures so far, for the display: written by the measuring thread only.
#[repr(align(64))]
pub struct Live {
    pub wakeups: AtomicU64,
    pub missed: AtomicU64,
    pub min_ns: AtomicU64,
    pub last_ns: AtomicU64,
    pub sum_ns: AtomicU64,
    pub max_ns: AtomicU64,
    /// Taken and reset by the main thread.
    pub recent_min_ns: AtomicU64,
    pub recent_max_ns: AtomicU64,
    pub done: AtomicBool,
}

impl Default for Live {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            wakeups: zero(),
            missed: zero(),
            min_ns: zero(),
            last_ns: zero(),
            sum_ns: zero(),
            max_ns: zero(),
            recent_min_ns: AtomicU64::new(u64::MAX),
            recent_max_ns: zero(),
            done: AtomicBool::new(false),
        }
    }
}

/// What the loop of one thread needs.
pub struct Cycle<'a> {
    pub index: usize,
    pub tid: i32,
    pub interval_ns: u64,
    pub loops: u64,
    /// Time at which it ends.
    pub end_ns: u64,
    pub break_ns: u64,
    pub late_ns: &'a AtomicU64,
    pub on_late: Option<OnLate<'a>>,
    pub mark: Option<&'a TraceMark>,
    pub control: &'a Control,
    pub live: &'a Live,
    pub ring: Option<&'a Ring>,
    /// Taken after each sleep, with our thread id as it wants it.
    pub lock: Option<(&'a SharedLock, u32)>,
    /// What wakes the thread.
    pub source: &'a Source<'a>,
    /// CPU time that it computes after each wake-up, ns.
    pub compute_ns: u64,
}

/// Figures of the wake-ups so far.
pub struct Progress {
    pub cycle: u64,
    sum: u64,
    min: u64,
    max: u64,
}

impl Default for Progress {
    fn default() -> Self {
        Self { cycle: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Cycle<'_> {
    /// Measures from the wake-up at `next` on until it is told to end. Returns the wake-up that
    /// exceeded the break value, if this thread was the first to see one.
    pub fn run(
        &self,
        meter: &mut Meter,
        so_far: &mut Progress,
        next: &mut u64,
    ) -> Option<LateWake> {
        let mut left = self.loops;
        while left > 0 && *next < self.end_ns {
            let returned = loop {
                match self.source.wait(next, self.interval_ns) {
                    Some(returned) => break returned,
                    None if self.control.stopping() || self.source.ended() => return None,
                    None => {}
                }
            };
            let latency = match self.lock {
                None => returned.at_ns.saturating_sub(*next),
                Some((lock, tid)) => {
                    // Not had: a signal ended the wait, or the holder is dead; the time counts.
                    if lock.lock(tid) {
                        lock.unlock(tid);
                    }
                    os::now_ns().saturating_sub(*next)
                }
            };
            // Woken in order to stop, or too late to count: not a sample.
            if self.control.stopping() {
                return None;
            }
            path_mark::tell(latency);
            left -= 1;
            so_far.cycle += 1;
            let intended = *next;
            *next += self.interval_ns;
            meter.count(latency, intended, so_far.cycle);
            if returned.stamp_ns > 0 {
                meter.count_since_stamp(returned.at_ns.saturating_sub(returned.stamp_ns));
            }
            if latency >= self.interval_ns {
                *next += self.skip(meter, latency, returned.periods);
            }
            self.publish(so_far, latency);
            if let Some(ring) = self.ring {
                ring.push(Sample { intended_ns: intended, latency_ns: latency });
            }
            if latency > self.break_ns || latency > self.late_ns.load(Ordering::Relaxed) {
                let wake = self.wake(so_far.cycle, intended, latency);
                if self.late(&wake) {
                    return Some(wake);
                }
            }
            if self.compute_ns > 0 {
                self.compute();
            }
        }
        None
    }

    /// The work of a task: so much CPU time, however often it is preempted.
    fn compute(&self) {
        let end = os::thread_cpu_ns().saturating_add(self.compute_ns);
        while os::thread_cpu_ns() < end && !self.control.stopping() {
            std::hint::spin_loop();
        }
    }

    #[inline]
    fn publish(&self, so_far: &mut Progress, latency: u64) {
        so_far.sum += latency;
        so_far.min = so_far.min.min(latency);
        so_far.max = so_far.max.max(latency);
        self.live.last_ns.store(latency, Ordering::Relaxed);
        self.live.sum_ns.store(so_far.sum, Ordering::Relaxed);
        self.live.min_ns.store(so_far.min, Ordering::Relaxed);
        self.live.max_ns.store(so_far.max, Ordering::Relaxed);
        self.live.wakeups.store(so_far.cycle, Ordering::Relaxed);
        // An atomic maximum costs more than a comparison, and is seldom needed.
        if latency > self.live.recent_max_ns.load(Ordering::Relaxed) {
            self.live.recent_max_ns.fetch_max(latency, Ordering::Relaxed);
        }
        if latency < self.live.recent_min_ns.load(Ordering::Relaxed) {
            self.live.recent_min_ns.fetch_min(latency, Ordering::Relaxed);
        }
    }

    fn wake(&self, cycle: u64, intended_ns: u64, latency_ns: u64) -> LateWake {
        LateWake { thread: self.index, tid: self.tid, cycle, intended_ns, latency_ns }
    }

    /// Counts the periods that went by while it slept, as far as the timer counts them as over;
    /// returns how far to go on.
    #[cold]
    fn skip(&self, meter: &mut Meter, latency: u64, periods: u64) -> u64 {
        let missed = (latency / self.interval_ns).min(periods.saturating_sub(1));
        if missed == 0 {
            return 0;
        }
        meter.count_missed(latency, self.interval_ns, missed);
        self.live.missed.store(meter.missed_periods, Ordering::Relaxed);
        missed * self.interval_ns
    }

    /// A late wake-up: tells the hook, and ends when it is over the break value.
    /// True when this thread was the first to see that.
    #[cold]
    fn late(&self, wake: &LateWake) -> bool {
        if wake.latency_ns > self.late_ns.load(Ordering::Relaxed)
            && let Some(on_late) = self.on_late
            && on_late(wake) == Next::Stop
        {
            self.control.stop(Stop::Hook, self.index);
        }
        if wake.latency_ns <= self.break_ns || !self.control.stop(Stop::BreakValue, self.index) {
            return false;
        }
        if let Some(mark) = self.mark {
            mark.stop(wake.latency_ns, self.break_ns);
        }
        true
    }
}
