//! Histograms of integer values that keep three significant digits and never clip.
//!
//! The bucket layout is HdrHistogram's with 2048 sub-buckets (G. Tene,
//! hdrhistogram.org): values below 2048 are exact, above it the 11 leading bits
//! are kept, so that a value is known to better than 1 part in 1024 over the
//! whole range of `u64`.
//!
//! ```text
//! value        0 .. 2047   2048 .. 4095   4096 .. 8191   …
//! bucket width     1            2              4         …
//! ```
//!
//! [`Recorder`] is dense and preallocated, for measuring loops; [`Histogram`]
//! is sparse, for files and analysis. Minimum, maximum, count and sum are exact in both.

use crate::quantile::quantile_interval_ranks;
use crate::total::Total;
use serde::{Deserialize, Serialize};

/// Leading bits that are kept, less one.
const HALF_BITS: u32 = 10;
const HALF: u64 = 1 << HALF_BITS;
/// Slots that cover all of `u64`.
const SLOTS: usize = (64 - HALF_BITS as usize) * HALF as usize + HALF as usize;

/// Slot of a value in the dense layout.
#[inline]
fn slot(value: u64) -> usize {
    if value < 2 * HALF {
        return value as usize;
    }
    let shift = 63 - value.leading_zeros() - HALF_BITS;
    ((u64::from(shift) << HALF_BITS) + (value >> shift)) as usize
}

/// Smallest value of a slot.
#[inline]
fn slot_low(slot: usize) -> u64 {
    let slot = slot as u64;
    if slot < 2 * HALF {
        return slot;
    }
    let shift = (slot >> HALF_BITS) - 1;
    (slot - (shift << HALF_BITS)) << shift
}

/// Smallest value that shares a bucket with `value`.
pub fn bucket_low(value: u64) -> u64 {
    slot_low(slot(value))
}

/// Largest value that shares a bucket with `value`.
pub fn bucket_high(value: u64) -> u64 {
    if value < 2 * HALF {
        return value;
    }
    let shift = 63 - value.leading_zeros() - HALF_BITS;
    bucket_low(value) + ((1u64 << shift) - 1)
}

/// A dense histogram for a measuring loop: [`Recorder::record`] neither
/// allocates nor branches on the range. 440 KiB; allocate before measuring.
#[derive(Clone, Debug)]
pub struct Recorder {
    slots: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// An empty recorder over all of `u64`. Its pages are written, so that recording does not fault.
    pub fn new() -> Self {
        let mut slots = Vec::with_capacity(SLOTS);
        // A zeroed allocation may be mapped lazily; write a non-zero value first.
        slots.resize(SLOTS, std::hint::black_box(1u64));
        slots.fill(0);
        Self { slots, count: 0, sum: 0, min: u64::MAX, max: 0 }
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts a value `n` times.
    #[inline]
    pub fn record_n(&mut self, value: u64, n: u64) {
        if n == 0 {
            return;
        }
        self.slots[slot(value)] += n;
        self.count += n;
        self.sum += u128::from(value) * u128::from(n);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Forgets all values; its pages stay written.
    pub fn clear(&mut self) {
        self.slots.fill(0);
        (self.count, self.sum, self.min, self.max) = (0, 0, u64::MAX, 0);
    }

    /// Values counted so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The largest value so far, exact; 0 when empty.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The plain data for files and analysis.
    pub fn to_histogram(&self) -> Histogram {
        let buckets = (self.slots.iter().enumerate())
            .filter(|&(_, &n)| n > 0)
            .map(|(i, &n)| (slot_low(i), n))
            .collect();
        Histogram {
            count: self.count,
            min: if self.count == 0 { 0 } else { self.min },
            max: self.max,
            sum: self.sum as f64,
            buckets,
        }
    }
}

/// A histogram as data: buckets in rising order, each with its smallest value and its count.
///
/// One whose fields disagree cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Histogram {
    /// Number of values.
    pub count: u64,
    /// Smallest value, exact; 0 when empty.
    pub min: u64,
    /// Largest value, exact; 0 when empty.
    pub max: u64,
    /// Sum of all values.
    pub sum: f64,
    /// `(smallest value of the bucket, count)`, rising, counts above zero.
    pub buckets: Vec<(u64, u64)>,
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename = "Histogram")]
        struct Fields {
            count: u64,
            min: u64,
            max: u64,
            sum: f64,
            buckets: Vec<(u64, u64)>,
        }
        let Fields { count, min, max, sum, buckets } = Fields::deserialize(deserializer)?;
        let histogram = Self { count, min, max, sum, buckets };
        match histogram.disagreement() {
            Some(what) => Err(serde::de::Error::custom(what)),
            None => Ok(histogram),
        }
    }
}

/// The most values that a histogram of a file may have: all smaller counts are exact as `f64`, and those of a
/// thousand histograms can be added.
pub const MOST_READ: u64 = 1 << 53;

impl Histogram {
    /// What in its fields no histogram has: buckets that do not rise, a count that is not the sum of the buckets
    /// or more than 2⁵³, a minimum above the maximum.
    fn disagreement(&self) -> Option<&'static str> {
        let values = self.buckets.iter().try_fold(0u64, |sum, &(_, n)| sum.checked_add(n));
        if values != Some(self.count) {
            return Some("a histogram's count is not the sum of its buckets");
        }
        if self.count > MOST_READ {
            return Some("a histogram has more than 2^53 values");
        }
        if !self.buckets.is_sorted_by(|a, b| a.0 < b.0) {
            return Some("a histogram's buckets do not rise");
        }
        (self.min > self.max).then_some("a histogram's minimum is above its maximum")
    }

    /// A histogram of some values.
    pub fn of(values: impl IntoIterator<Item = u64>) -> Self {
        let mut buckets = std::collections::BTreeMap::<u64, u64>::new();
        let mut h = Self { min: u64::MAX, ..Self::default() };
        for v in values {
            *buckets.entry(bucket_low(v)).or_default() += 1;
            h.count += 1;
            h.sum += v as f64;
            h.min = h.min.min(v);
            h.max = h.max.max(v);
        }
        if h.count == 0 {
            h.min = 0;
        }
        h.buckets = buckets.into_iter().collect();
        h
    }

    /// Arithmetic mean; `None` when empty.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// Standard deviation of the values (divided by n − 1), each taken as the middle of its bucket: within
    /// 0.1 % of the exact one where it is more than a thousandth of the values. `None` below two values.
    pub fn standard_deviation(&self) -> Option<f64> {
        let mean = self.mean().filter(|_| self.count > 1)?;
        let squares: f64 = (self.buckets.iter())
            .map(|&(low, n)| {
                let middle = low + (bucket_high(low) - low) / 2;
                n as f64 * (middle.clamp(self.min, self.max) as f64 - mean).powi(2)
            })
            .sum();
        Some((squares / (self.count - 1) as f64).sqrt())
    }

    /// The value of 1-based rank `rank` in rising order: the middle of its
    /// bucket, but never outside `min..=max`.
    pub fn at_rank(&self, rank: u64) -> u64 {
        if rank <= 1 {
            return self.min;
        }
        if rank >= self.count {
            return self.max;
        }
        let mut seen: u64 = 0;
        for &(low, n) in &self.buckets {
            seen = seen.saturating_add(n);
            if seen >= rank {
                let high = bucket_high(low);
                return (low + (high - low) / 2).clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// The `q` quantile (0 ≤ q ≤ 1): the smallest value with at least `q·count`
    /// values at or below it (inverse of the empirical distribution; Hyndman and
    /// Fan 1996, type 1). `None` when empty.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        (self.count > 0).then(|| self.at_rank(quantile_rank(self.count, q)))
    }

    /// Values strictly above `limit`, to the resolution of the buckets (a
    /// bucket counts when its smallest value is above).
    pub fn count_above(&self, limit: u64) -> u64 {
        self.buckets.iter().filter(|&&(low, _)| low > limit).map(|&(_, n)| n).total()
    }

    /// Values strictly above `low` and not above `high`, to the resolution of the buckets.
    pub fn count_between(&self, low: u64, high: u64) -> u64 {
        self.count_above(low).saturating_sub(self.count_above(high))
    }

    /// Adds another histogram's values.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let mut all: std::collections::BTreeMap<u64, u64> = self.buckets.drain(..).collect();
        for &(low, n) in &other.buckets {
            let count = all.entry(low).or_default();
            *count = count.saturating_add(n);
        }
        self.buckets = all.into_iter().collect();
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count = self.count.saturating_add(other.count);
        self.sum += other.sum;
    }

    /// The `q` quantile with its interval of order statistics of a confidence (0.95); `None` when there are
    /// too few values for one.
    pub fn quantile_with_interval(&self, q: f64, confidence: f64) -> Option<Quantile> {
        let (low, high) = quantile_interval_ranks(self.count, q, confidence)?;
        Some(Quantile {
            q,
            value: self.at_rank(quantile_rank(self.count, q)) as f64,
            low: self.at_rank(low) as f64,
            high: self.at_rank(high) as f64,
        })
    }

    /// The figures to quote: quantiles that the number of values supports, with 95% intervals.
    pub fn summary(&self) -> Summary {
        if self.count == 0 {
            return Summary::default();
        }
        let with_interval = |&q: &f64| self.quantile_with_interval(q, 0.95);
        let quantiles = QUANTILES.iter().filter_map(with_interval).collect();
        Summary {
            count: self.count,
            min: Some(self.min as f64),
            mean: self.mean(),
            sd: self.standard_deviation(),
            median: self.quantile(0.5).map(|v| v as f64),
            max: Some(self.max as f64),
            mad: None,
            quantiles,
        }
    }
}

/// 1-based rank of the `q` quantile among `count` values.
fn quantile_rank(count: u64, q: f64) -> u64 {
    // A hair less before rounding up: 0.99 · 100 is 99.00000000000001 in f64.
    let exact = q * count as f64;
    ((exact - exact * 1e-12).ceil() as u64).clamp(1, count)
}

/// The quantiles that are quoted where the number of values supports them.
pub const QUANTILES: [f64; 8] = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999];

/// A quantile with its 95% confidence interval (order statistics).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quantile {
    /// Which: 0.99 is p99.
    pub q: f64,
    /// The estimate, in the record's unit.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// The figures to quote of a record, in the record's unit. `None`: not known or not supported by the sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Summary {
    /// Number of samples.
    pub count: u64,
    /// Smallest.
    pub min: Option<f64>,
    /// Arithmetic mean; for comparison with other tools, never the figure to quote.
    pub mean: Option<f64>,
    /// Standard deviation, divided by n − 1; for comparison with other tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sd: Option<f64>,
    /// Median.
    pub median: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
    /// Median absolute deviation from the median, not scaled.
    pub mad: Option<f64>,
    /// Quantiles with intervals, rising.
    pub quantiles: Vec<Quantile>,
}

impl Summary {
    /// The quantile `q`, where the sample supports it.
    pub fn quantile(&self, q: f64) -> Option<&Quantile> {
        self.quantiles.iter().find(|x| (x.q - q).abs() < 1e-12)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn layout_is_continuous_to_the_end_of_the_range() {
        for v in [0, 1, 2047, 2048, 2049, 4095, 4096, 1 << 40, u64::MAX] {
            assert!(bucket_low(v) <= v && v <= bucket_high(v), "{v}");
            assert!(slot(v) < SLOTS, "{v}");
        }
        assert_eq!(slot(2048), 2048);
        assert_eq!(slot(4096), 3072);
    }

    #[test]
    fn the_standard_deviation_is_that_of_the_values() {
        let values = [2u64, 4, 4, 4, 5, 5, 7, 9];
        let sd = Histogram::of(values).standard_deviation().unwrap();
        assert!((sd - (32.0f64 / 7.0).sqrt()).abs() < 1e-12, "{sd}");
        // Buckets of 16 ns at 20 µs: 0 and 40 µs are 20 µs from their mean.
        let sd = Histogram::of([0, 40_000]).standard_deviation().unwrap();
        assert!((sd / (2.0f64.sqrt() * 20_000.0) - 1.0).abs() < 1e-3, "{sd}");
        assert_eq!(Histogram::of([7]).standard_deviation(), None);
        let summary = Histogram::of(values).summary();
        assert_eq!(summary.sd, Histogram::of(values).standard_deviation());
    }

    #[test]
    fn the_maximum_is_never_clipped() {
        let mut r = Recorder::new();
        r.record(3);
        r.record(u64::MAX);
        let h = r.to_histogram();
        assert_eq!((h.min, h.max, h.count), (3, u64::MAX, 2));
        assert_eq!(h.quantile(1.0), Some(u64::MAX));
    }

    #[test]
    fn quantiles_are_quoted_only_where_the_sample_supports_them() {
        let hundred = Histogram::of(1..=100).summary();
        assert_eq!(hundred.median, Some(50.0));
        assert!(hundred.quantile(0.9).is_some());
        assert!(hundred.quantile(0.999).is_none(), "100 values say nothing about p99.9");
        let many = Histogram::of(1..=100_000).summary();
        assert!(many.quantile(0.999).is_some());
    }

    #[test]
    fn a_histogram_whose_fields_disagree_is_not_read() {
        let read = |json: &str| serde_json::from_str::<Histogram>(json);
        let whole = Histogram::of([1, 1, 7]);
        assert_eq!(read(&serde_json::to_string(&whole).unwrap()).unwrap(), whole);
        for (fields, words) in [
            (r#""count":2,"min":1,"max":7,"sum":9,"buckets":[[1,2],[7,1]]"#, "sum of its buckets"),
            (
                r#""count":1,"min":1,"max":7,"sum":9,"buckets":[[1,2],[7,18446744073709551615]]"#,
                "sum of",
            ),
            (
                r#""count":9007199254740993,"min":1,"max":1,"sum":9,"buckets":[[1,9007199254740993]]"#,
                "2^53",
            ),
            (r#""count":3,"min":1,"max":7,"sum":9,"buckets":[[7,1],[1,2]]"#, "rise"),
            (r#""count":3,"min":7,"max":1,"sum":9,"buckets":[[1,2],[7,1]]"#, "minimum"),
        ] {
            let error = read(&format!("{{{fields}}}")).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    proptest! {
        #[test]
        fn buckets_keep_three_digits(v in any::<u64>()) {
            let width = bucket_high(v) - bucket_low(v);
            prop_assert!(bucket_low(v) <= v && v <= bucket_high(v));
            prop_assert!(width as f64 <= v as f64 / 1024.0);
        }

        #[test]
        fn merging_equals_recording_together(a in prop::collection::vec(0u64..1 << 45, 0..200),
                                             b in prop::collection::vec(0u64..1 << 45, 0..200)) {
            let mut merged = Histogram::of(a.iter().copied());
            merged.merge(&Histogram::of(b.iter().copied()));
            let mut recorder = Recorder::new();
            a.iter().chain(&b).for_each(|&v| recorder.record(v));
            let together = recorder.to_histogram();
            prop_assert_eq!(&merged.buckets, &together.buckets);
            prop_assert_eq!((merged.count, merged.min, merged.max), (together.count, together.min, together.max));
        }

        #[test]
        fn quantiles_agree_with_sorting(mut v in prop::collection::vec(0u64..1 << 40, 1..300), q in 0.0f64..1.0) {
            let h = Histogram::of(v.iter().copied());
            v.sort_unstable();
            let exact = v[((q * v.len() as f64).ceil() as usize).clamp(1, v.len()) - 1];
            let ours = h.quantile(q).unwrap();
            prop_assert!(bucket_low(ours) == bucket_low(exact) || ours == h.min || ours == h.max);
        }
    }

    /// A file may have any counts: sums of them stop at the largest number.
    #[test]
    fn counts_of_a_damaged_file_do_not_wrap() {
        let mut h = Histogram { count: 5, min: 1, max: 9, ..Histogram::default() };
        h.buckets = vec![(1, u64::MAX), (5, u64::MAX)];
        assert_eq!((h.at_rank(2), h.count_above(0)), (1, u64::MAX));
        h.merge(&h.clone());
        assert_eq!(h.buckets, [(1, u64::MAX), (5, u64::MAX)]);
    }
}
