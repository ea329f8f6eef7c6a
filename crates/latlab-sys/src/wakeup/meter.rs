//! What a measuring thread counts into: allocated and written before it starts.

use latlab_model::wakeup::config::WakeupConfig;
use latlab_model::wakeup::result::{Slot, Timeline, UsHistogram, Worst};
use latlab_stats::histogram::{Histogram, Recorder};

/// Wake-ups that are remembered one by one.
const WORST: usize = 32;
/// Stretches of the timeline; when they are used up, two become one.
const SLOTS: usize = 1024;
/// Late cycles whose numbers are kept, as cyclictest does.
const OVERFLOWS: usize = 1024;
/// Missed periods of one wake-up that are counted one by one; beyond, in groups.
const MISSED_EXACT: u64 = 20_000;

/// Counters of one thread.
pub struct Meter {
    latency: Recorder,
    missed: Recorder,
    /// Wake-ups that missed further periods.
    pub with_misses: u64,
    /// Missed periods.
    pub missed_periods: u64,
    worst: Vec<Worst>,
    /// Latency from which a wake-up is among the worst.
    bar_ns: u64,
    timeline: Timeline,
    /// Length of a stretch at the start.
    width_ns: u64,
    /// The stretch in use, and where it ends.
    at: usize,
    slot_end_ns: u64,
    us: Option<Exact>,
    /// From the kernel's time stamp on, where there is one.
    since_stamp: Option<Recorder>,
}

/// One bucket a microsecond.
struct Exact {
    counts: Vec<u32>,
    /// Buckets whose count wrapped, once for each time.
    wrapped: Vec<u32>,
    /// Buckets are 1 ns wide, not 1 µs.
    in_ns: bool,
    /// Most cycle numbers that are kept.
    cycles_max: usize,
    overflows: u64,
    overflow_cycles: Vec<u64>,
}

/// A vector of `n` zeros whose pages were written.
fn prefaulted<T: Copy + Default>(n: usize, other: T) -> Option<Vec<T>> {
    let mut v = Vec::new();
    v.try_reserve_exact(n).ok()?;
    v.resize(n, std::hint::black_box(other));
    v.fill(T::default());
    Some(v)
}

impl Meter {
    /// Counters; `expected_ns` is the length of the measurement where it is known. `None` when
    /// memory does not suffice.
    pub fn new(config: &WakeupConfig, interval_ns: u64, expected_ns: Option<u64>) -> Option<Self> {
        let us = match config.histogram_us {
            None => None,
            Some(limit) => Some(Exact {
                counts: prefaulted(limit as usize, 1u32)?,
                wrapped: Vec::with_capacity(64),
                in_ns: config.histogram_in_ns,
                cycles_max: OVERFLOWS.min(limit as usize),
                overflows: 0,
                overflow_cycles: Vec::with_capacity(OVERFLOWS),
            }),
        };
        let width = expected_ns.map_or(interval_ns, |ns| (ns / SLOTS as u64 + 1).max(interval_ns));
        let slot = Slot { count: 1, ..Slot::default() };
        Some(Self {
            latency: Recorder::new(),
            missed: Recorder::new(),
            with_misses: 0,
            missed_periods: 0,
            worst: Vec::with_capacity(WORST),
            bar_ns: 0,
            timeline: Timeline { start_ns: 0, width_ns: width, slots: prefaulted(SLOTS, slot)? },
            width_ns: width,
            at: 0,
            slot_end_ns: 0,
            us,
            since_stamp: None,
        })
    }

    /// Wake-ups will have time stamps of the kernel.
    pub fn count_stamps(&mut self) {
        self.since_stamp = Some(Recorder::new());
    }

    /// Counts the part of a wake-up that follows the kernel's time stamp.
    #[inline]
    pub fn count_since_stamp(&mut self, ns: u64) {
        if let Some(since_stamp) = &mut self.since_stamp {
            since_stamp.record(ns);
        }
    }

    /// Forgets what was counted while the caches warmed up.
    pub fn reset(&mut self) {
        self.latency.clear();
        self.missed.clear();
        if let Some(since_stamp) = &mut self.since_stamp {
            since_stamp.clear();
        }
        (self.with_misses, self.missed_periods, self.bar_ns) = (0, 0, 0);
        self.worst.clear();
        self.timeline.slots.fill(Slot::default());
        (self.at, self.slot_end_ns) = (0, 0);
        self.timeline.width_ns = self.width_ns;
        if let Some(us) = &mut self.us {
            us.counts.fill(0);
            us.wrapped.clear();
            us.overflows = 0;
            us.overflow_cycles.clear();
        }
    }

    /// The time from which the timeline counts.
    pub fn start_at(&mut self, ns: u64) {
        self.timeline.start_ns = ns;
    }

    /// Counts a wake-up.
    #[inline]
    pub fn count(&mut self, latency_ns: u64, intended_ns: u64, cycle: u64) {
        self.latency.record(latency_ns);
        if let Some(us) = &mut self.us {
            us.count(latency_ns, cycle);
        }
        if latency_ns > self.bar_ns {
            self.remember(Worst { latency_ns, intended_ns, cycle });
        }
        self.slot(latency_ns, intended_ns);
    }

    /// Counts the periods that a wake-up missed: `n` of them, the first `interval` after it was meant to wake.
    #[cold]
    pub fn count_missed(&mut self, latency_ns: u64, interval_ns: u64, n: u64) {
        self.with_misses += 1;
        self.missed_periods += n;
        // After minutes of SIGSTOP there are millions: then in groups, each at its middle.
        let group = n.div_ceil(MISSED_EXACT).max(1);
        let mut first = 1;
        while first <= n {
            let last = (first + group - 1).min(n);
            let middle = first + (last - first) / 2;
            self.missed.record_n(latency_ns - middle * interval_ns, last - first + 1);
            first = last + 1;
        }
    }

    /// Keeps the worst wake-ups, largest latency first.
    fn remember(&mut self, w: Worst) {
        if self.worst.len() == WORST {
            self.worst.pop();
        }
        let at = self.worst.partition_point(|x| x.latency_ns >= w.latency_ns);
        self.worst.insert(at, w);
        if self.worst.len() == WORST {
            self.bar_ns = self.worst[WORST - 1].latency_ns;
        }
    }

    #[inline]
    fn slot(&mut self, latency_ns: u64, intended_ns: u64) {
        if intended_ns >= self.slot_end_ns {
            self.turn_to(intended_ns);
        }
        let slot = &mut self.timeline.slots[self.at];
        slot.min_ns = if slot.count == 0 { latency_ns } else { slot.min_ns.min(latency_ns) };
        slot.max_ns = slot.max_ns.max(latency_ns);
        slot.count += 1;
        slot.sum_ns += latency_ns;
    }

    /// Finds the stretch of a time: the only place that divides, which 32-bit boards do slowly.
    #[cold]
    fn turn_to(&mut self, intended_ns: u64) {
        let since = intended_ns.saturating_sub(self.timeline.start_ns);
        while since / self.timeline.width_ns >= SLOTS as u64 {
            self.halve();
        }
        self.at = (since / self.timeline.width_ns) as usize;
        self.slot_end_ns = self.timeline.start_ns + (self.at as u64 + 1) * self.timeline.width_ns;
    }

    /// Makes one stretch of two.
    #[cold]
    fn halve(&mut self) {
        let slots = &mut self.timeline.slots;
        for i in 0..SLOTS / 2 {
            let (a, b) = (slots[2 * i], slots[2 * i + 1]);
            slots[i] = match (a.count, b.count) {
                (_, 0) => a,
                (0, _) => b,
                _ => Slot {
                    count: a.count + b.count,
                    min_ns: a.min_ns.min(b.min_ns),
                    max_ns: a.max_ns.max(b.max_ns),
                    sum_ns: a.sum_ns + b.sum_ns,
                },
            };
        }
        slots[SLOTS / 2..].fill(Slot::default());
        self.timeline.width_ns *= 2;
    }

    /// The plain data.
    pub fn finish(mut self) -> Counted {
        let used = if self.latency.count() == 0 { 0 } else { self.at + 1 };
        self.timeline.slots.truncate(used);
        Counted {
            latency: self.latency.to_histogram(),
            missed: self.missed.to_histogram(),
            missed_periods: self.missed_periods,
            with_misses: self.with_misses,
            worst: self.worst,
            timeline: self.timeline,
            us: self.us.map(Exact::finish),
            since_stamp: self.since_stamp.map(|s| s.to_histogram()),
        }
    }
}

impl Exact {
    #[inline]
    fn count(&mut self, latency_ns: u64, cycle: u64) {
        // Dividing 32 bits is a multiplication everywhere; longer than 4 s is an overflow.
        let us = u32::try_from(latency_ns)
            .map_or(u32::MAX, |ns| if self.in_ns { ns } else { ns / 1_000 });
        if let Some(count) = self.counts.get_mut(us as usize) {
            *count = count.wrapping_add(1);
            if *count == 0 && self.wrapped.len() < self.wrapped.capacity() {
                self.wrapped.push(us);
            }
        } else {
            self.overflows += 1;
            if self.overflow_cycles.len() < self.cycles_max {
                self.overflow_cycles.push(cycle - 1);
            }
        }
    }

    fn finish(self) -> UsHistogram {
        let wraps = |us: u32| self.wrapped.iter().filter(|&&w| w == us).count() as u64;
        let buckets = (0u32..)
            .zip(&self.counts)
            .map(|(us, &n)| (us, u64::from(n)))
            .map(|(us, n)| (us, if self.wrapped.is_empty() { n } else { n + (wraps(us) << 32) }))
            .filter(|&(_, n)| n > 0)
            .collect();
        UsHistogram {
            limit: self.counts.len() as u32,
            unit_ns: if self.in_ns { 1 } else { 1_000 },
            buckets,
            overflows: self.overflows,
            overflow_cycles: self.overflow_cycles,
        }
    }
}

/// What a thread counted.
pub struct Counted {
    /// Latency of each wake-up.
    pub latency: Histogram,
    /// Lateness of each missed period.
    pub missed: Histogram,
    /// Number of missed periods.
    pub missed_periods: u64,
    /// Wake-ups that missed further periods.
    pub with_misses: u64,
    /// The worst wake-ups, largest latency first.
    pub worst: Vec<Worst>,
    /// Latency over time.
    pub timeline: Timeline,
    /// Exact microseconds.
    pub us: Option<UsHistogram>,
    /// From the kernel's time stamp on.
    pub since_stamp: Option<Histogram>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_periods_have_their_own_lateness() {
        let mut m = Meter::new(&WakeupConfig::default(), 1_000, None).unwrap();
        m.count(3_500, 0, 1);
        m.count_missed(3_500, 1_000, 3);
        let c = m.finish();
        assert_eq!((c.latency.count, c.missed.count, c.missed_periods), (1, 3, 3));
        assert_eq!((c.missed.min, c.missed.max), (500, 2_500));
    }

    #[test]
    fn a_stop_of_an_hour_is_counted_in_bounded_time_and_none_is_lost() {
        let mut m = Meter::new(&WakeupConfig::default(), 100_000, None).unwrap();
        let n = 36_000_000;
        m.count_missed(n * 100_000 + 7, 100_000, n);
        let c = m.finish();
        assert_eq!((c.missed.count, c.missed_periods, c.with_misses), (n, n, 1));
    }

    #[test]
    fn the_worst_are_kept_largest_first() {
        let mut m = Meter::new(&WakeupConfig::default(), 1_000, None).unwrap();
        for cycle in 1..=100 {
            m.count((cycle * 37) % 101, cycle * 1_000, cycle);
        }
        let worst: Vec<u64> = m.finish().worst.iter().map(|w| w.latency_ns).collect();
        assert_eq!(worst, (69..=100).rev().collect::<Vec<_>>());
    }

    #[test]
    fn the_timeline_keeps_every_wake_up_however_long_it_takes() {
        let mut m = Meter::new(&WakeupConfig::default(), 1_000, None).unwrap();
        m.start_at(50_000);
        for cycle in 0..100_000u64 {
            m.count(cycle % 7, 50_000 + cycle * 1_000, cycle + 1);
        }
        let t = m.finish().timeline;
        assert_eq!(t.slots.iter().map(|s| s.count).sum::<u64>(), 100_000);
        assert_eq!(t.width_ns, 128_000);
        assert!(t.slots.len() <= SLOTS && t.slots.iter().all(|s| s.max_ns <= 6));
    }

    #[test]
    fn exact_microseconds_and_overflows_are_those_of_cyclictest() {
        let mut m = Meter::new(
            &WakeupConfig { histogram_us: Some(10), ..WakeupConfig::default() },
            1_000,
            None,
        )
        .unwrap();
        for (i, ns) in [999, 1_000, 9_999, 10_000, 50_000].into_iter().enumerate() {
            m.count(ns, 0, i as u64 + 1);
        }
        let us = m.finish().us.unwrap();
        assert_eq!(us.buckets, [(0, 1), (1, 1), (9, 1)]);
        assert_eq!((us.overflows, us.overflow_cycles), (2, vec![3, 4]));
    }
}
