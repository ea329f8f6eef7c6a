//! Latencies with a known distribution, for testing what says which is worse.
//!
//! The body is log-normal round 15 µs; a rare mixture of late wake-ups comes in clusters
//! of geometric size, as those of a disturbed machine do.

use super::metric::{self, Data};
use super::sample::{Order, RunSample, Sample, Stretch};
use super::verdict::{Ground, contrast};
use latlab_model::compare::{Contrast, Options, Verdict};
use latlab_stats::power::{Plan, power};
use latlab_stats::rank::holm;
use latlab_stats::rng::SplitMix64;

/// What is simulated; times in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct World {
    /// Median of the body.
    pub median: f64,
    /// Standard deviation of the body's logarithm.
    pub spread: f64,
    /// Share of wake-ups that are late.
    pub late: f64,
    /// Median of a late wake-up.
    pub late_median: f64,
    /// Mean size of a cluster of late wake-ups.
    pub cluster: f64,
}

impl Default for World {
    fn default() -> Self {
        Self { median: 15_000.0, spread: 0.15, late: 0.004, late_median: 90_000.0, cluster: 3.0 }
    }
}

/// A standard normal value (G. E. P. Box and M. E. Muller, 1958).
pub fn gauss(rng: &mut SplitMix64) -> f64 {
    let uniform =
        |rng: &mut SplitMix64| ((rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let (u, v) = (uniform(rng), uniform(rng));
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// `n` wake-ups in order.
pub fn wakeups(world: &World, n: usize, seed: u64) -> Vec<u64> {
    let mut rng = SplitMix64::new(seed);
    let chance =
        |rng: &mut SplitMix64, p: f64| ((rng.next_u64() >> 11) as f64) < p * (1u64 << 53) as f64;
    // A cluster begins at a rate that makes `late` the share of late wake-ups.
    let begin = world.late / (world.cluster * (1.0 - world.late));
    let mut late = chance(&mut rng, world.late);
    (0..n)
        .map(|_| {
            late =
                if late { !chance(&mut rng, 1.0 / world.cluster) } else { chance(&mut rng, begin) };
            let (median, spread) =
                if late { (world.late_median, 0.35) } else { (world.median, world.spread) };
            (median * (spread * gauss(&mut rng)).exp()) as u64
        })
        .collect()
}

/// What is known of simulated wake-ups to whoever compares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Every value in order.
    Samples,
    /// The distribution, and number and maximum of stretches of time.
    Stretches,
    /// The distribution alone.
    Nothing,
}

/// Wake-ups as a comparison sees them.
pub fn sample(world: &World, n: usize, seed: u64, known: Known) -> RunSample {
    let values = wakeups(world, n, seed);
    let mut sample = RunSample::of_values(&values);
    let stretch = |c: &[u64]| Stretch {
        count: c.len() as u64,
        max: c.iter().copied().max().unwrap_or(0),
        sum: c.iter().map(|&v| v as f64).sum(),
    };
    match known {
        Known::Samples => {}
        Known::Stretches => {
            let size = n.div_ceil(1_000).max(1);
            sample.order = Order::Stretches(values.chunks(size).map(stretch).collect());
        }
        Known::Nothing => sample.order = Order::Unknown,
    }
    sample
}

/// What a comparison of a pair says, with all its tests adjusted together.
pub fn judge(a: RunSample, b: RunSample, options: &Options) -> Contrast {
    let side = |s| Data::Distribution(Sample { runs: vec![s] });
    let tested = metric::aspects(&side(a), &side(b), options);
    let p: Vec<f64> = tested.iter().filter(|t| t.testable).map(|t| t.aspect.p).collect();
    let mut adjusted = holm(&p).into_iter();
    let each: Vec<f64> = tested
        .iter()
        .map(|t| if t.testable { adjusted.next().unwrap_or(1.0) } else { 1.0 })
        .collect();
    contrast(1, tested, &each, p.len(), &Ground::default(), options)
}

/// What many pairs came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Pairs.
    pub pairs: usize,
    /// Called worse or better.
    pub claims: usize,
    /// Called worse.
    pub worse: usize,
    /// In which the rate over the limit was tested and called worse at the level of one of all tests.
    pub seen: usize,
    /// Sum of the stated power of seeing the rate over the limit multiplied by `ratio`.
    pub stated: f64,
}

/// Compares `pairs` pairs of `n` wake-ups; the second of each has `ratio` times as many late ones.
pub fn tally(world: &World, n: usize, ratio: f64, pairs: usize, known: Known) -> Tally {
    let limit = 45_000.0;
    let options = Options { limit: Some(limit), replicates: 40, ..Options::default() };
    let other = World { late: world.late * ratio, ..*world };
    let mut t = Tally { pairs, ..Tally::default() };
    for i in 0..pairs as u64 {
        let (a, b) = (sample(world, n, 2 * i, known), sample(&other, n, 2 * i + 1, known));
        let side = |s: &RunSample| Data::Distribution(Sample { runs: vec![s.clone()] });
        let tested = metric::aspects(&side(&a), &side(&b), &options);
        let tests = tested.iter().filter(|t| t.testable).count().max(1);
        if let Some(rate) = tested.iter().find(|t| t.aspect.is_rate) {
            let level = options.level / tests as f64;
            t.seen += usize::from(rate.aspect.p < level && rate.aspect.change > 0.0);
            if let Some(plan) = rate.plan {
                // The rate of the base, as whoever plans would know it.
                t.stated +=
                    power(&Plan { level, rate: rate.aspect.a.max(0.5 / n as f64), ..plan }, ratio);
            }
        }
        let verdict = judge(a, b, &options).verdict;
        t.worse += usize::from(verdict == Verdict::Worse);
        t.claims += usize::from(matches!(verdict, Verdict::Worse | Verdict::Better));
    }
    t
}
