//! Samples on their way from a measuring thread to the main thread: a ring that
//! neither waits for the other. When it is full, samples are counted as lost.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// One wake-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// When it was meant to wake, ns of CLOCK_MONOTONIC.
    pub intended_ns: u64,
    /// How late it was, ns.
    pub latency_ns: u64,
}

/// One writer, one reader.
pub struct Ring {
    slots: Vec<(AtomicU64, AtomicU64)>,
    /// Samples written, ever.
    head: AtomicUsize,
    /// Samples read, ever.
    tail: AtomicUsize,
    lost: AtomicU64,
}

impl Ring {
    /// A ring for `capacity` samples, rounded up to a power of two; its pages are written.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(2).next_power_of_two();
        let slots = (0..capacity).map(|_| (AtomicU64::new(1), AtomicU64::new(1))).collect();
        Self {
            slots,
            head: AtomicUsize::new(0),
            tail: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
        }
    }

    /// Adds a sample; only the measuring thread calls it.
    #[inline]
    pub fn push(&self, sample: Sample) {
        let head = self.head.load(Ordering::Relaxed);
        if head.wrapping_sub(self.tail.load(Ordering::Acquire)) == self.slots.len() {
            self.lost.store(self.lost.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            return;
        }
        let slot = &self.slots[head & (self.slots.len() - 1)];
        slot.0.store(sample.intended_ns, Ordering::Relaxed);
        slot.1.store(sample.latency_ns, Ordering::Relaxed);
        self.head.store(head.wrapping_add(1), Ordering::Release);
    }

    /// Moves what is there to `out`; only the main thread calls it.
    pub fn drain(&self, out: &mut Vec<Sample>) {
        let head = self.head.load(Ordering::Acquire);
        let mut tail = self.tail.load(Ordering::Relaxed);
        while tail != head {
            let slot = &self.slots[tail & (self.slots.len() - 1)];
            out.push(Sample {
                intended_ns: slot.0.load(Ordering::Relaxed),
                latency_ns: slot.1.load(Ordering::Relaxed),
            });
            tail = tail.wrapping_add(1);
        }
        self.tail.store(tail, Ordering::Release);
    }

    /// Samples that found the ring full.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(n: u64) -> Sample {
        Sample { intended_ns: n, latency_ns: n * 2 }
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let ring = Ring::new(4);
        (0..6).for_each(|n| ring.push(sample(n)));
        let mut out = Vec::new();
        ring.drain(&mut out);
        assert_eq!((out.len(), ring.lost()), (4, 2));
        ring.push(sample(9));
        out.clear();
        ring.drain(&mut out);
        assert_eq!(out, [sample(9)]);
    }

    #[test]
    fn order_is_kept_between_threads() {
        let ring = Ring::new(64);
        let mut out = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..10_000).for_each(|n| ring.push(sample(n))));
            while out.last().is_none_or(|s: &Sample| s.intended_ns < 9_000)
                && out.len() + (ring.lost() as usize) < 10_000
            {
                ring.drain(&mut out);
            }
        });
        ring.drain(&mut out);
        assert_eq!(out.len() as u64 + ring.lost(), 10_000);
        assert!(out.windows(2).all(|w| w[0].intended_ns < w[1].intended_ns));
        assert!(out.iter().all(|s| s.latency_ns == s.intended_ns * 2));
    }
}
