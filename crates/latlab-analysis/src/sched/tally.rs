//! Counting durations of one task: exact count, sum and extremes, and a sparse histogram.

use latlab_model::sched::schedule::Durations;
use latlab_model::units::{Nanos, TraceNs};
use latlab_stats::histogram::{Histogram, bucket_low};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A hasher for small whole numbers: one multiplication.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.write_u64(u64::from(*b));
        }
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write_i32(&mut self, n: i32) {
        self.write_u64(n as u32 as u64);
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }
}

/// A map keyed by small numbers.
pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;

/// Durations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub count: u64,
    pub sum: u64,
    min: u64,
    pub max: u64,
    /// When the longest began.
    pub max_at: TraceNs,
    buckets: Map<u64, u64>,
}

impl Tally {
    /// As a result; times from `base` on.
    pub fn durations(&self, base: TraceNs) -> Durations {
        let h = self.histogram();
        Durations {
            count: self.count,
            sum_ns: self.sum,
            median_ns: h.quantile(0.5).unwrap_or(0),
            p99_ns: h.quantile(0.99).unwrap_or(0),
            max_ns: self.max,
            max_at_ns: self.max_at.since(base).0,
        }
    }

    #[inline]
    pub fn add(&mut self, length: Nanos, at: TraceNs) {
        let ns = length.0;
        if self.count == 0 || ns < self.min {
            self.min = ns;
        }
        if self.count == 0 || ns > self.max {
            (self.max, self.max_at) = (ns, at);
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(ns);
        *self.buckets.entry(bucket_low(ns)).or_default() += 1;
    }

    pub fn histogram(&self) -> Histogram {
        let mut buckets: Vec<(u64, u64)> = self.buckets.iter().map(|(k, v)| (*k, *v)).collect();
        buckets.sort_unstable();
        Histogram { count: self.count, min: self.min, max: self.max, sum: self.sum as f64, buckets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_is_a_histogram() {
        let values = [5_000u64, 7, 123_456_789, 5_001, 0];
        let mut t = Tally::default();
        for (n, v) in values.into_iter().enumerate() {
            t.add(Nanos(v), TraceNs(n as u64));
        }
        assert_eq!(t.histogram(), Histogram::of(values));
        assert_eq!((t.max, t.max_at), (123_456_789, TraceNs(2)));
    }
}
