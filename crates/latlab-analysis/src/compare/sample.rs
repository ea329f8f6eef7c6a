//! One side of one metric: its values, and what is known of their order.

use latlab_model::compare::KnownOrder;
use latlab_model::wakeup::result::{Timeline, WakeupResult};
use latlab_stats::extremal_index::{Inflation, of_blocks, of_maxima};
use latlab_stats::histogram::{Histogram, bucket_low};

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

/// A stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stretch {
    /// Values in it.
    pub count: u64,
    /// The largest.
    pub max: u64,
    /// Their sum.
    pub sum: f64,
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
        let coarse = |h: &Histogram| {
            let mut out = Histogram { sum: h.sum, count: h.count, ..Histogram::default() };
            let mut buckets = std::collections::BTreeMap::<u64, u64>::new();
            let of = |v: u64| v / step * step + step / 2;
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
        Self { histogram: coarse(&self.histogram), order, step, ..self.clone() }
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

    /// Rate over `limit` of each run.
    pub fn rates(&self, limit: u64) -> Vec<f64> {
        let rate =
            |r: &RunSample| over(&r.histogram, limit) as f64 / r.histogram.count.max(1) as f64;
        self.runs.iter().map(rate).collect()
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
        Order::Stretches(stretches) => of_stretches(stretches, &run.histogram, limit),
    }
}

/// Of stretches: at the limit and at levels above it, of which their maxima speak; below the tail, never less
/// than what their means show.
fn of_stretches(stretches: &[Stretch], h: &Histogram, limit: u64) -> Option<Inflation> {
    let tail = of_tail(stretches, h, limit);
    let means = of_means(stretches, h);
    match (tail, means) {
        // Means say nothing of the far tail, maxima little of the body.
        (Some(t), _) if h.quantile(0.9)? <= limit => Some(t),
        (Some(t), Some(m)) => {
            Some(Inflation { factor: t.factor.max(m.factor), dof: t.dof.min(m.dof) })
        }
        (one, other) => one.or(other),
    }
}

/// Shares of the exceedances whose own clustering is looked at.
const HIGHER: [f64; 7] = [1.0, 0.95, 0.85, 0.7, 0.5, 0.35, 0.25];

/// Exceedances of two kinds, single ones and clusters, vary more than their mean cluster says. Those of a higher
/// level bring their own inflation along, and the rest at least that of independent ones:
/// φ ≥ (φ' n' + n − n') / n for n' of the n exceedances. The largest of these.
fn of_tail(stretches: &[Stretch], h: &Histogram, limit: u64) -> Option<Inflation> {
    let maxima: Vec<(u64, u64)> = stretches.iter().map(|s| (s.count, s.max)).collect();
    let mut sorted: Vec<u64> = maxima.iter().filter(|s| s.0 > 0).map(|s| s.1).collect();
    sorted.sort_unstable();
    // The lowest level that maxima can speak of: below it most stretches have an exceedance.
    let level = limit.max(*sorted.get(sorted.len() / 2)?);
    let (n, there) = (over(h, limit), over(h, level));
    let of_share = |share: f64| {
        let rank = h.count - (there as f64 * share) as u64;
        let above = if share < 1.0 { h.at_rank(rank.max(1)).max(level) } else { level };
        let m = over(h, above);
        let own = of_maxima(&maxima, above, m)?;
        let factor = (own.factor * m as f64 + (n - m) as f64) / n.max(1) as f64;
        Some(Inflation { factor, dof: own.dof })
    };
    HIGHER
        .iter()
        .filter_map(|&share| of_share(share))
        .reduce(|a, b| if b.factor > a.factor { b } else { a })
}

/// The variance of stretches' means over that of independent values, both from quantiles, so that single
/// late wake-ups do not weigh.
fn of_means(stretches: &[Stretch], h: &Histogram) -> Option<Inflation> {
    let group = stretches.len().div_ceil(48).max(1);
    let means: Vec<(f64, f64)> = stretches
        .chunks(group)
        .filter_map(|c| {
            let n: u64 = c.iter().map(|s| s.count).sum();
            let each: Vec<f64> =
                c.iter().filter(|s| s.count > 0).map(|s| s.sum / s.count as f64).collect();
            // The median of means: a few stretches with late wake-ups do not shift it.
            Some((latlab_stats::quantile::median(&each)?, n as f64))
        })
        .collect();
    let spread = (h.quantile(0.75)? - h.quantile(0.25)?) as f64 / 1.349;
    if means.len() < 8 || spread <= 0.0 {
        return None;
    }
    let size = means.iter().map(|m| m.1).sum::<f64>() / means.len() as f64;
    let values: Vec<f64> = means.iter().map(|m| m.0).collect();
    let between = latlab_stats::quantile::mad(&values)? * 1.4826;
    // A median of many means varies π/2 times as much as their mean.
    let blur = if group > 2 { std::f64::consts::FRAC_PI_2 } else { 1.0 };
    let factor = (between / spread).powi(2) * size / blur;
    // The median deviation uses 37 % of what the values say (F. R. Hampel, 1974).
    Some(Inflation { factor: factor.max(1.0), dof: 0.37 * (means.len() - 1) as f64 })
}

/// Stretches of all threads as one series: threads wait for the same machine.
pub fn stretches(result: &WakeupResult) -> Vec<Stretch> {
    let timelines: Vec<&Timeline> = result.threads.iter().map(|t| &t.timeline).collect();
    let Some(width) = timelines.iter().map(|t| t.width_ns).max().filter(|&w| w > 0) else {
        return Vec::new();
    };
    let start = timelines.iter().map(|t| t.start_ns).min().unwrap_or(0);
    let mut out: Vec<Stretch> = Vec::new();
    for t in timelines {
        for (i, slot) in t.slots.iter().enumerate() {
            let at =
                (t.start_ns - start).saturating_add(t.width_ns.saturating_mul(i as u64)) / width;
            let at = usize::try_from(at).unwrap_or(usize::MAX).min(4 * t.slots.len());
            if out.len() <= at {
                out.resize(at + 1, Stretch::default());
            }
            out[at].count += slot.count;
            out[at].max = out[at].max.max(slot.max_ns);
            out[at].sum += slot.sum_ns as f64;
        }
    }
    out
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
