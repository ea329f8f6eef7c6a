//! Comparisons of simulated pairs, shared by the program and the test of the same name.

use latlab_analysis::compare::metric::{self, Data};
use latlab_analysis::compare::sample::{Order, RunSample, Sample};
use latlab_analysis::compare::verdict::{Ground, contrast};
use latlab_model::compare::{Aspect, Contrast, Options, Verdict};
use latlab_stats::power::{Plan, power};
use latlab_stats::rank::holm;
use latlab_stats::rng::SplitMix64;
use latlab_stats::stretches::Stretch;
use latlab_testkit::latency_sim::{World, gauss, wakeups};

/// Order of the simulated wake-ups that the comparison receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Every value in order.
    Samples,
    /// The distribution, and number and maximum of stretches of time.
    Stretches,
    /// The distribution alone.
    Nothing,
}

/// `n` simulated wake-ups as one side of a comparison.
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

/// Compares two sides of some runs; the p values of all tests are adjusted together.
pub fn judge(a: Vec<RunSample>, b: Vec<RunSample>, options: &Options) -> Contrast {
    let side = |runs| Data::Distribution(Sample { runs });
    let tested = metric::aspects(&side(a), &side(b), options);
    let p: Vec<f64> = tested.iter().filter(|t| t.testable).map(|t| t.aspect.p).collect();
    let mut adjusted = holm(&p).into_iter();
    let each: Vec<f64> = tested
        .iter()
        .map(|t| if t.testable { adjusted.next().unwrap_or(1.0) } else { 1.0 })
        .collect();
    contrast(1, tested, &each, p.len(), &Ground::default(), options)
}

/// Counts over many pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Pairs.
    pub pairs: usize,
    /// Called different.
    pub claims: usize,
    /// Called different to the worse side.
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
                // The rate of the base: the only one that is known when a measurement is planned.
                t.stated +=
                    power(&Plan { level, rate: rate.aspect.a.max(0.5 / n as f64), ..plan }, ratio);
            }
        }
        let c = judge(vec![a], vec![b], &options);
        let differs = |a: &Aspect| a.verdict == Verdict::RunsDiffer && a.towards_worse;
        t.worse += usize::from(c.aspects.iter().any(differs));
        t.claims += usize::from(c.verdict == Verdict::RunsDiffer);
    }
    t
}

/// What verdicts many pairs of repeated runs have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Verdicts {
    /// Pairs.
    pub pairs: usize,
    /// Better or worse.
    pub claims: usize,
    /// Worse.
    pub worse: usize,
    /// No difference larger than 10 %.
    pub equal: usize,
}

/// Compares `pairs` pairs of `runs` + `runs` runs of `n` wake-ups. Runs of one side differ by a factor whose
/// logarithm has the standard deviation `between`; the second side is `factor` times as slow.
pub fn repeated(
    world: &World,
    n: usize,
    (runs, between): (u64, f64),
    factor: f64,
    pairs: usize,
) -> Verdicts {
    let options = Options::default();
    let mut v = Verdicts { pairs, ..Verdicts::default() };
    for i in 0..pairs as u64 {
        let mut rng = SplitMix64::new(i);
        let mut side = |at: u64, factor: f64| -> Vec<RunSample> {
            let mut one = |k: u64| {
                let own = factor * (between * gauss(&mut rng)).exp();
                let world = World {
                    median: world.median * own,
                    late_median: world.late_median * own,
                    ..*world
                };
                sample(&world, n, (2 * i + at) * runs + k, Known::Stretches)
            };
            (0..runs).map(&mut one).collect()
        };
        let (a, b) = (side(0, 1.0), side(1, factor));
        let verdict = judge(a, b, &options).verdict;
        v.claims += usize::from(matches!(verdict, Verdict::Worse | Verdict::Better));
        v.worse += usize::from(verdict == Verdict::Worse);
        v.equal += usize::from(verdict == Verdict::NoDifference);
    }
    v
}
