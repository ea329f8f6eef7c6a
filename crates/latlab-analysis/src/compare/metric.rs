//! One metric of two sides: its aspects, each with an interval and a p value.

use super::between::{self, Difference, RUNS};
use super::sample::{RunSample, Sample, over};
use latlab_model::compare::{Aspect, Method, Options, UNBOUNDED};
use latlab_stats::bootstrap::{Blocks, percentile_interval};
use latlab_stats::extremal_index::Inflation;
use latlab_stats::histogram::{Histogram, bucket_low};
use latlab_stats::power::{Plan, Rates};
use latlab_stats::quantile::{median, quantile_interval_ranks};
use latlab_stats::rank::rank_test;
use latlab_stats::rng::SplitMix64;
use latlab_stats::student::student_upper;

/// Quantiles that are compared, where both sides support them.
const QUANTILES: [f64; 5] = [0.5, 0.99, 0.999, 0.9999, 0.99999];
/// Independent exceedances of both sides together that a test needs.
const LEAST: f64 = 16.0;
/// Values over a quantile that each of several runs needs for a quantile of its own.
const LEAST_A_RUN: f64 = 5.0;

/// The values of one side.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// A distribution.
    Distribution(Sample),
    /// Independent values of one or two runs (medians of processes).
    Values(Vec<f64>),
    /// Three runs and more: one value a run, and the independent values of all of them.
    Runs(Vec<f64>, Vec<f64>),
    /// One published or summarised figure.
    Figure(f64),
}

/// An aspect before all p values are adjusted together.
#[derive(Clone, Debug, PartialEq)]
pub struct Tested {
    /// The aspect, without verdict.
    pub aspect: Aspect,
    /// The experiment that it was, for its power; level still to be set.
    pub plan: Option<Plan>,
    /// Whether there is a p value.
    pub testable: bool,
    /// Clustering had to be assumed.
    pub assumed: bool,
    /// Whether p value and interval contain the variance between runs.
    pub between: bool,
}

/// All aspects of two sides.
pub fn aspects(a: &Data, b: &Data, options: &Options) -> Vec<Tested> {
    match (a, b) {
        (Data::Distribution(a), Data::Distribution(b)) => distributions(a, b, options),
        (a, b) => single(a, b, options).into_iter().collect(),
    }
}

fn distributions(a: &Sample, b: &Sample, options: &Options) -> Vec<Tested> {
    let step = a.runs.iter().chain(&b.runs).map(|r| r.step).max().unwrap_or(1);
    let coarse = |s: &Sample| Sample { runs: s.runs.iter().map(|r| r.coarsened(step)).collect() };
    let (a, b) = (coarse(a), coarse(b));
    let (all_a, all_b) = (a.all(), b.all());
    if all_a.count == 0 || all_b.count == 0 {
        return Vec::new();
    }
    let mut pooled = all_a.clone();
    pooled.merge(&all_b);
    let censored = [a.censored(), b.censored()].into_iter().flatten().min();
    let repeated = a.runs.len() >= RUNS && b.runs.len() >= RUNS;
    let pair = Pair { a: &a, b: &b, all_a: &all_a, all_b: &all_b, options, repeated };
    let mut out = Vec::new();
    for q in QUANTILES {
        let Some(limit) = pooled.quantile(q) else { continue };
        let within = censored.is_none_or(|c| limit < bucket_low(c));
        if within && !a.is_beyond(q) && !b.is_beyond(q) {
            out.extend(pair.quantile(q, limit));
        }
    }
    intervals(&pair, &mut out);
    if let Some(limit) = options.limit.filter(|l| *l >= 0.0) {
        let limit = limit as u64;
        if censored.is_none_or(|c| limit < c) {
            out.push((0.0, pair.rate(limit)));
        }
    }
    out.into_iter().map(|(_, t)| t).collect()
}

struct Pair<'a> {
    a: &'a Sample,
    b: &'a Sample,
    all_a: &'a Histogram,
    all_b: &'a Histogram,
    options: &'a Options,
    /// Three runs or more on each side.
    repeated: bool,
}

impl Pair<'_> {
    fn rates(&self, limit: u64) -> (Rates, bool) {
        let (ia, known_a) = self.a.inflation(limit, self.options.cluster);
        let (ib, known_b) = self.b.inflation(limit, self.options.cluster);
        let (na, nb) = (self.all_a.count, self.all_b.count);
        let rates = Rates {
            a: (over(self.all_a, limit), na),
            b: (over(self.all_b, limit), nb),
            inflation: weighted(ia, na, ib, nb),
            dof: ia.dof + ib.dof,
        };
        (rates, !(known_a && known_b))
    }

    fn tested(&self, aspect: Aspect, rates: &Rates, limit: u64, assumed: bool) -> Tested {
        let rate = (rates.a.0 + rates.b.0) as f64 / (rates.a.1 + rates.b.1).max(1) as f64;
        let mut plan = Plan {
            a: rates.a.1 as f64,
            b: rates.b.1 as f64,
            rate: rate.max(0.5 / (rates.a.1 + rates.b.1).max(1) as f64),
            inflation: rates.inflation,
            dof: rates.dof,
            level: self.options.level,
        };
        if self.repeated {
            let (factor, dof) = between::inflation([&self.a.counts(limit), &self.b.counts(limit)]);
            if factor > plan.inflation {
                (plan.inflation, plan.dof) = (factor, dof);
            }
        }
        let aspect = Aspect { p: rates.p_value(), ..aspect };
        Tested { aspect, plan: Some(plan), testable: true, assumed, between: false }
    }

    /// The difference of runs' own values, in place of that of all values together.
    fn over_runs(&self, tested: Tested, of: impl Fn(&RunSample) -> Option<(f64, f64)>) -> Tested {
        let side = |s: &Sample| s.runs.iter().map(&of).collect::<Option<Vec<(f64, f64)>>>();
        let of_runs = || {
            let (a, b) = (side(self.a)?, side(self.b)?);
            let step = a.iter().chain(&b).map(|v| v.1).fold(0.0, f64::max);
            let values = |v: &[(f64, f64)]| v.iter().map(|v| v.0).collect::<Vec<f64>>();
            between::difference(&values(&a), &values(&b), step, 1.0 - self.options.level)
        };
        match of_runs() {
            Some(d) => over_runs(tested, &d),
            None => Tested { testable: false, ..tested },
        }
    }

    fn quantile(&self, q: f64, limit: u64) -> Option<(f64, Tested)> {
        let (rates, assumed) = self.rates(limit);
        let below = (rates.a.1 + rates.b.1 - rates.a.0 - rates.b.0) as f64;
        if rates.effective() < LEAST || below / rates.inflation < LEAST {
            return None;
        }
        let (a, b) = (self.all_a.quantile(q)? as f64, self.all_b.quantile(q)? as f64);
        let aspect = Aspect { quantile: Some(q), a, b, change: change(a, b), ..Aspect::default() };
        let tested = self.tested(aspect, &rates, limit, assumed);
        if !self.repeated {
            return Some((q, tested));
        }
        let supported = |r: &RunSample| {
            let n = r.histogram.count as f64;
            n * (1.0 - q) >= LEAST_A_RUN && n * q >= LEAST_A_RUN
        };
        let all = self.a.runs.iter().chain(&self.b.runs).all(supported);
        let value = |r: &RunSample| {
            let v = r.histogram.quantile(q)? as f64;
            // Buckets have a width, too: a part in 1024.
            Some((v, (r.step.max(1) as f64 / v.max(1.0)).max(1.0 / 1024.0)))
        };
        all.then(|| (q, self.over_runs(tested, value)))
    }

    fn rate(&self, limit: u64) -> Tested {
        let (rates, assumed) = self.rates(limit);
        let (ratio, low, high) = rates.ratio_interval(1.0 - self.options.level);
        let of = |(x, n): (u64, u64)| x as f64 / n.max(1) as f64;
        let aspect = Aspect {
            limit: Some(limit as f64),
            a: of(rates.a),
            b: of(rates.b),
            is_rate: true,
            change: ratio - 1.0,
            low: low - 1.0,
            high: high - 1.0,
            method: Method::Score,
            ..Aspect::default()
        };
        let mut tested = self.tested(aspect, &rates, limit, assumed);
        tested.testable = rates.effective() >= 4.0;
        if !self.repeated {
            return tested;
        }
        // Half an event, so that a run without one has a rate.
        let value = |r: &RunSample| {
            let n = r.histogram.count as f64;
            Some(((over(&r.histogram, limit) as f64 + 0.5) / (n + 1.0), 0.0))
        };
        let testable = tested.testable;
        let mut tested = self.over_runs(tested, value);
        tested.testable &= testable;
        (tested.aspect.a, tested.aspect.b) = (of(rates.a), of(rates.b));
        tested
    }
}

/// Fills in the intervals of quantiles: by block bootstrap where the order is known, else from order
/// statistics of as many values as the clustered ones count for.
fn intervals(pair: &Pair, all: &mut [(f64, Tested)]) {
    if pair.repeated {
        return;
    }
    let confidence = 1.0 - pair.options.level;
    let of = |s: &Sample| s.blocks().and_then(|b| Blocks::new(&b));
    if let (Some(a), Some(b)) = (of(pair.a), of(pair.b)) {
        let quantiles: Vec<f64> = all.iter().map(|t| t.0).collect();
        let mut rng = SplitMix64::new(pair.options.seed);
        let qa = a.quantiles(&quantiles, pair.options.replicates, &mut rng);
        let qb = b.quantiles(&quantiles, pair.options.replicates, &mut rng);
        for (i, (_, t)) in all.iter_mut().enumerate() {
            let mut ratios: Vec<f64> =
                qa[i].iter().zip(&qb[i]).map(|(a, b)| change(*a, *b)).collect();
            let (low, high) = percentile_interval(&mut ratios, confidence);
            (t.aspect.low, t.aspect.high) = (low.min(t.aspect.change), high.max(t.aspect.change));
            t.aspect.method = Method::BlockBootstrap;
        }
        return;
    }
    for (q, t) in all {
        let phi = t.plan.map_or(1.0, |p| p.inflation);
        let side = |s: &Sample, h: &Histogram, v: f64| {
            let z = student_upper(pair.options.level / 2.0, 1e6);
            let half = z * (phi * *q * (1.0 - *q) * h.count as f64).sqrt();
            let at = |rank: f64| h.at_rank(rank.round().clamp(1.0, h.count as f64) as u64) as f64;
            let middle = *q * h.count as f64;
            let high = at(middle + half + 1.0);
            // What is only counted has no upper end.
            let open = s.censored().is_some_and(|c| high >= bucket_low(c) as f64);
            (v, at(middle - half), if open { f64::INFINITY } else { high })
        };
        let a = side(pair.a, pair.all_a, t.aspect.a);
        let (low, high) = of_ratio(a, side(pair.b, pair.all_b, t.aspect.b));
        (t.aspect.low, t.aspect.high) = (low, high.min(UNBOUNDED));
        t.aspect.method = Method::OrderStatistics;
    }
}

/// Interval of b/a − 1 from an interval of each (A. Donner and G. Y. Zou, 2012, on logarithms).
fn of_ratio(a: (f64, f64, f64), b: (f64, f64, f64)) -> (f64, f64) {
    let ln = |(v, l, h): (f64, f64, f64)| (v.max(1e-9).ln(), l.max(1e-9).ln(), h.max(1e-9).ln());
    let ((a, al, ah), (b, bl, bh)) = (ln(a), ln(b));
    let d = b - a;
    let low = d - ((b - bl).powi(2) + (ah - a).powi(2)).sqrt();
    let high = d + ((bh - b).powi(2) + (a - al).powi(2)).sqrt();
    (low.exp_m1(), high.exp_m1())
}

/// Single values a side: the median of processes, or a published figure.
fn single(a: &Data, b: &Data, options: &Options) -> Option<Tested> {
    let middle = |d: &Data| match d {
        Data::Distribution(s) => s.all().quantile(0.5).map(|v| v as f64),
        Data::Values(v) | Data::Runs(v, _) => median(v),
        Data::Figure(v) => Some(*v),
    };
    let (ma, mb) = (middle(a)?, middle(b)?);
    let mut aspect = Aspect {
        quantile: Some(0.5),
        a: ma,
        b: mb,
        change: change(ma, mb),
        p: 1.0,
        ..Aspect::default()
    };
    let untested =
        |aspect| Tested { aspect, plan: None, testable: false, assumed: false, between: false };
    let confidence = 1.0 - options.level;
    let (va, vb) = match (a, b) {
        (Data::Runs(a, _), Data::Runs(b, _)) => {
            let tested = untested(aspect);
            return Some(match between::difference(a, b, 0.0, confidence) {
                Some(d) => over_runs(Tested { testable: true, ..tested }, &d),
                None => tested,
            });
        }
        (Data::Values(a) | Data::Runs(_, a), Data::Values(b) | Data::Runs(_, b)) => (a, b),
        _ => return Some(untested(aspect)),
    };
    let interval = |v: &[f64], m: f64| {
        let (low, high) = quantile_interval_ranks(v.len() as u64, 0.5, confidence)?;
        let mut sorted = v.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        Some((m, *sorted.get(low as usize - 1)?, *sorted.get(high as usize - 1)?))
    };
    let (Some(ia), Some(ib)) = (interval(va, ma), interval(vb, mb)) else {
        return Some(untested(aspect));
    };
    let Some(test) = rank_test(vb, va) else { return Some(untested(aspect)) };
    (aspect.low, aspect.high) = of_ratio(ia, ib);
    aspect.p = test.p;
    aspect.method = Method::Ranks;
    Some(Tested { aspect, plan: None, testable: true, assumed: false, between: false })
}

/// An aspect with the difference that runs show. The weaker of both p values counts.
fn over_runs(tested: Tested, d: &Difference) -> Tested {
    let Aspect { p, .. } = tested.aspect;
    let aspect = Aspect {
        a: d.a,
        b: d.b,
        change: d.change,
        low: d.low,
        high: d.high,
        p: if tested.plan.is_some() { p.max(d.p) } else { d.p },
        method: Method::Runs,
        ..tested.aspect
    };
    Tested { aspect, between: true, ..tested }
}

fn change(a: f64, b: f64) -> f64 {
    if a > 0.0 { b / a - 1.0 } else { 0.0 }
}

fn weighted(a: Inflation, na: u64, b: Inflation, nb: u64) -> f64 {
    (a.factor * na as f64 + b.factor * nb as f64) / (na + nb).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of 10 to 90 µs, and late ones that are only known to be over 100 µs.
    fn side(n: u64, late: u64, runs: usize) -> Data {
        let value = |i: u64| 10_000 + (80_000.0 * ((i % 1_000) as f64 / 1e3).powi(6)) as u64;
        let body = (0..n).map(value);
        let histogram = Histogram::of(body.chain((0..late).map(|_| 100_500)));
        let run = RunSample::of_histogram(histogram, 1_000, Some(100_500));
        Data::Distribution(Sample { runs: vec![run; runs] })
    }

    fn quantiles(tested: &[Tested]) -> Vec<f64> {
        tested.iter().filter_map(|t| t.aspect.quantile).collect()
    }

    #[test]
    fn a_quantile_beyond_the_histogram_of_one_side_is_not_compared() {
        // 3 % of A, 0.3 % of both: the pooled p99 is known, that of A is not.
        let (a, b) = (side(9_700, 300, 1), side(90_000, 0, 1));
        let tested = aspects(&a, &b, &Options::default());
        assert_eq!(quantiles(&tested), [0.5]);
        assert_eq!(quantiles(&aspects(&b, &b, &Options::default())), [0.5, 0.99, 0.999]);
        // One run of three, of which all together have 0.7 % late ones.
        let mixed = |late: [u64; 3]| {
            let runs = late.map(|n| match side(10_000 - n, n, 1) {
                Data::Distribution(s) => s.runs.into_iter().next().unwrap(),
                _ => panic!("a distribution"),
            });
            Data::Distribution(Sample { runs: runs.into() })
        };
        let tested = aspects(&mixed([0, 0, 210]), &mixed([0, 0, 0]), &Options::default());
        assert_eq!(quantiles(&tested), [0.5]);
    }

    #[test]
    fn an_interval_that_reaches_beyond_the_histogram_has_no_upper_end() {
        // The p99 of B is among the last known values, and the interval of its rank reaches further.
        let (a, b) = (side(9_990, 10, 1), side(9_910, 90, 1));
        let tested = aspects(&a, &b, &Options::default());
        let p99 = tested.iter().find(|t| t.aspect.quantile == Some(0.99)).unwrap();
        assert_eq!(p99.aspect.high, UNBOUNDED);
        assert!((-0.5..0.1).contains(&p99.aspect.low), "{p99:?}");
    }
}
