//! One side of one metric: its values, and what is known of their order.

use latlab_model::compare::KnownOrder;
use latlab_stats::extremal_index::{Inflation, of_blocks};
use latlab_stats::histogram::{Histogram, bucket_low};
use latlab_stats::stretches::{self, Stretch};

/// Blocks into which a file of samples is cut.
pub const BLOCKS: usize = 64;

/// What is known of the order in which values came.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Order {
    /// Nothing.
    #[default]
    Unknown,
    /// Number and maximum of consecutive stretches of time.
    Stretches(Vec<Stretch>),
    /// Consecutive blocks of all values.
    Blocks(Vec<Histogram>),
}

/// The values of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunSample {
    /// All values.
    pub histogram: Histogram,
    /// Their order.
    pub order: Order,
    /// Step of the values: 1000 for a histogram in whole µs.
    pub step: u64,
    /// Values from here on are only counted; their number is right, their size is not.
    pub censored: Option<u64>,
    /// Values a second, where known.
    pub per_second: Option<f64>,
}

impl RunSample {
    /// Values in the order in which they came.
    pub fn of_values(values: &[u64]) -> Self {
        let size = values.len().div_ceil(BLOCKS).max(1);
        let blocks: Vec<Histogram> =
            values.chunks(size).map(|c| Histogram::of(c.iter().copied())).collect();
        let mut histogram = Histogram::default();
        blocks.iter().for_each(|b| histogram.merge(b));
        Self { histogram, order: Order::Blocks(blocks), step: 1, ..Self::default() }
    }

    /// A distribution of which nothing else is known.
    pub fn of_histogram(histogram: Histogram, step: u64, censored: Option<u64>) -> Self {
        Self { histogram, step, censored, ..Self::default() }
    }

    /// Values in whole steps: what a coarser tool would have seen.
    #[must_use]
    pub fn coarsened(&self, step: u64) -> Self {
        if step <= self.step.max(1) {
            return self.clone();
        }
        let of = |v: u64| (v / step * step).saturating_add(step / 2);
        let coarse = |h: &Histogram| {
            let mut out = Histogram { sum: h.sum, count: h.count, ..Histogram::default() };
            let mut buckets = std::collections::BTreeMap::<u64, u64>::new();
            for &(low, n) in &h.buckets {
                let high = latlab_stats::histogram::bucket_high(low);
                *buckets.entry(bucket_low(of(low + (high - low) / 2))).or_default() += n;
            }
            (out.min, out.max) = (of(h.min), of(h.max));
            out.buckets = buckets.into_iter().collect();
            out
        };
        let order = match &self.order {
            Order::Blocks(blocks) => Order::Blocks(blocks.iter().map(coarse).collect()),
            other => other.clone(),
        };
        let censored = self.censored.map(of);
        Self { histogram: coarse(&self.histogram), order, step, censored, ..self.clone() }
    }
}

/// All runs of one side.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// One entry a run.
    pub runs: Vec<RunSample>,
}

impl Sample {
    /// All values.
    pub fn all(&self) -> Histogram {
        let mut all = Histogram::default();
        self.runs.iter().for_each(|r| all.merge(&r.histogram));
        all
    }

    /// Smallest value that is only counted.
    pub fn censored(&self) -> Option<u64> {
        self.runs.iter().filter_map(|r| r.censored).min()
    }

    /// Whether the quantile of all values, or that of a run, is one of the values that are only counted.
    pub fn is_beyond(&self, q: f64) -> bool {
        let beyond = |h: &Histogram, censored: Option<u64>| {
            h.quantile(q).zip(censored).is_some_and(|(v, c)| v >= bucket_low(c))
        };
        beyond(&self.all(), self.censored())
            || self.runs.iter().any(|r| beyond(&r.histogram, r.censored))
    }

    /// What is known of the order of values in every run.
    pub fn order(&self) -> KnownOrder {
        let all = |f: fn(&Order) -> bool| self.runs.iter().all(|r| f(&r.order));
        if all(|o| matches!(o, Order::Blocks(_))) {
            KnownOrder::Samples
        } else if all(|o| !matches!(o, Order::Unknown)) {
            KnownOrder::Stretches
        } else {
            KnownOrder::Unknown
        }
    }

    /// Consecutive blocks of all runs, where every run has them.
    pub fn blocks(&self) -> Option<Vec<Histogram>> {
        let mut out = Vec::new();
        for run in &self.runs {
            let Order::Blocks(blocks) = &run.order else { return None };
            out.extend(blocks.iter().cloned());
        }
        Some(out)
    }

    /// How much counts over `limit` cluster; the second is false where it had to be assumed.
    pub fn inflation(&self, limit: u64, assumed_cluster: f64) -> (Inflation, bool) {
        let known: Option<Vec<Inflation>> =
            self.runs.iter().map(|r| inflation_of(r, limit)).collect();
        let assumed = Inflation { factor: (2.0 * assumed_cluster - 1.0).max(1.0), dof: 1e6 };
        let Some(all) = known.filter(|all| !all.is_empty()) else { return (assumed, false) };
        let weights: Vec<f64> = self.runs.iter().map(|r| r.histogram.count as f64).collect();
        let sum: f64 = weights.iter().sum();
        let factor = all.iter().zip(&weights).map(|(i, w)| i.factor * w).sum::<f64>() / sum;
        (Inflation { factor, dof: all.iter().map(|i| i.dof).sum() }, true)
    }

    /// The inflation for an interval, cautious where the order is known by stretches.
    pub fn cautious_inflation(&self, limit: u64, assumed_cluster: f64) -> f64 {
        let usual = self.inflation(limit, assumed_cluster).0.factor;
        let of = |r: &RunSample| match &r.order {
            Order::Stretches(s) => stretches::cautious_inflation(s, &r.histogram, limit),
            Order::Unknown | Order::Blocks(_) => None,
        };
        self.runs.iter().filter_map(of).map(|i| i.factor).fold(usual, f64::max)
    }

    /// Values over `limit`, and all values, of each run.
    pub fn counts(&self, limit: u64) -> Vec<(u64, u64)> {
        self.runs.iter().map(|r| (over(&r.histogram, limit), r.histogram.count)).collect()
    }
}

/// Values over `limit`, by the buckets' lower ends; the same rule for blocks and for wholes.
pub fn over(h: &Histogram, limit: u64) -> u64 {
    h.count_above(limit)
}

fn inflation_of(run: &RunSample, limit: u64) -> Option<Inflation> {
    match &run.order {
        Order::Unknown => None,
        Order::Blocks(blocks) => {
            of_blocks(&blocks.iter().map(|b| (over(b, limit), b.count)).collect::<Vec<_>>())
        }
        Order::Stretches(stretches) => stretches::inflation(stretches, &run.histogram, limit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coarser_look_sees_whole_steps() {
        let s = RunSample::of_values(&[1_200, 1_900, 2_100]).coarsened(1_000);
        assert_eq!(s.histogram.buckets, [(1_500, 2), (2_500 / 2 * 2, 1)]);
        assert_eq!(s.histogram.count, 3);
        let Order::Blocks(blocks) = s.order else { panic!("blocks stay blocks") };
        assert_eq!(blocks.iter().map(|b| b.count).sum::<u64>(), 3);
    }

    #[test]
    fn order_is_only_known_when_every_run_tells_it() {
        let known = RunSample::of_values(&[1, 2, 3]);
        let unknown = RunSample::of_histogram(Histogram::of([1, 2]), 1, None);
        assert_eq!(Sample { runs: vec![known.clone()] }.order(), KnownOrder::Samples);
        let both = Sample { runs: vec![known, unknown] };
        assert_eq!(both.order(), KnownOrder::Unknown);
        assert!(both.blocks().is_none());
        assert!(!both.inflation(1, 4.0).1);
    }

    /// p99 lies where single wake-ups of the body's end and clusters of late ones are mixed.
    #[test]
    fn a_mixture_of_single_ones_and_clusters_weighs_as_much_from_stretches_as_from_samples() {
        use latlab_testkit::latency_sim::{World, wakeups};
        let stretch = |values: &[u64]| Stretch {
            count: values.len() as u64,
            max: values.iter().copied().max().unwrap(),
            sum: values.iter().map(|&v| v as f64).sum(),
        };
        let mean = |by_stretch: bool| {
            let of = |seed| {
                let values = wakeups(&World::default(), 10_000, seed);
                let mut run = RunSample::of_values(&values);
                if by_stretch {
                    run.order = Order::Stretches(values.chunks(10).map(stretch).collect());
                }
                let limit = run.histogram.quantile(0.99).unwrap();
                Sample { runs: vec![run] }.inflation(limit, 3.0).0.factor
            };
            (0..60).map(of).sum::<f64>() / 60.0
        };
        let (samples, stretches) = (mean(false), mean(true));
        assert!((0.8..1.2).contains(&(stretches / samples)), "{stretches} {samples}");
    }
}
