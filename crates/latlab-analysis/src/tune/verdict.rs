//! What is decided from the responses of blocks: paired differences, tests and intervals.

use latlab_model::finding::{Confidence, Finding, Quantity, Severity};
use latlab_model::tune::{SideEffect, SideMetric, Tried, TuneDetail, TuneEffect};
use latlab_stats::histogram::Histogram;
use latlab_stats::quantile::median;
use latlab_stats::rank::holm;
use latlab_stats::student::{student_tail, student_upper};

/// Probability of a false claim over all settings.
pub(super) const LEVEL: f64 = 0.05;
/// Rounds from which something is decided.
pub const ROUNDS_LEAST: usize = 4;

/// What a block measured.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Latencies of all wake-ups.
    pub latency: Histogram,
    /// Median of each of [`TuneDetail::side`]; `None` where it was not measured.
    pub side: Vec<Option<f64>>,
}

/// What a test decides.
pub(super) struct Verdict {
    pub change: f64,
    pub interval: (f64, f64),
    pub p: f64,
    pub effect: TuneEffect,
}

impl Verdict {
    /// With the p value that is adjusted for the family, and the probability of error of one interval.
    pub fn of(test: &Test, p: f64, margin: f64, error: f64) -> Self {
        let (low, high) = test.interval(error);
        let within = test.interval(2.0 * error);
        let limits = ((1.0 - margin).ln(), (1.0 + margin).ln());
        let nothing = within.0 > limits.0 && within.1 < limits.1;
        let effect = if test.rounds < ROUNDS_LEAST {
            TuneEffect::Undecided
        } else if nothing {
            // Proven or not, a difference below the margin is negligible.
            TuneEffect::NoEffect
        } else if p >= LEVEL {
            TuneEffect::Undecided
        } else if test.mean < 0.0 {
            TuneEffect::Improves
        } else {
            TuneEffect::Worsens
        };
        let interval = (low.exp_m1(), high.exp_m1());
        Self { change: test.mean.exp_m1(), interval, p, effect }
    }
}

/// Paired differences of logarithms.
pub(super) struct Test {
    pub mean: f64,
    error: f64,
    freedom: f64,
    pub p: f64,
    pub responses: (f64, f64),
    rounds: usize,
}

impl Test {
    /// Of the responses without and with the setting in each round.
    pub fn of(rounds: impl Iterator<Item = (f64, f64)>) -> Option<Self> {
        let (without, with): (Vec<f64>, Vec<f64>) = rounds.unzip();
        let differences: Vec<f64> = without.iter().zip(&with).map(|(a, b)| (b / a).ln()).collect();
        Self::of_differences(&differences, (median(&without)?, median(&with)?))
    }

    /// Of one difference of logarithms for each round.
    pub fn of_differences(d: &[f64], responses: (f64, f64)) -> Option<Self> {
        let n = d.len() as f64;
        if d.len() < 2 {
            return None;
        }
        let mean = d.iter().sum::<f64>() / n;
        let variance = d.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
        // The clock and the histogram's buckets resolve about a thousandth.
        let error = (variance / n).sqrt().max(1e-3);
        let p = (2.0 * student_tail((mean / error).abs(), n - 1.0)).min(1.0);
        Some(Self { mean, error, freedom: n - 1.0, p, responses, rounds: d.len() })
    }

    fn interval(&self, error: f64) -> (f64, f64) {
        let half = student_upper(error / 2.0, self.freedom) * self.error;
        (self.mean - half, self.mean + half)
    }
}

/// All tests of an experiment: their p values are adjusted together, and their intervals hold together.
pub(super) struct Family {
    adjusted: std::vec::IntoIter<f64>,
    level: f64,
    error: f64,
    margin: f64,
}

impl Family {
    /// Of these tests, with this probability of a false claim.
    pub fn of<'a>(tests: impl Iterator<Item = &'a Test>, level: f64, margin: f64) -> Self {
        let p: Vec<f64> = tests.map(|t| t.p).collect();
        let error = level / p.len().max(1) as f64;
        Self { adjusted: holm(&p).into_iter(), level, error, margin }
    }

    /// The verdicts of the next tests; all are asked for in the order of [`Self::of`].
    pub fn verdicts(&mut self, tests: &[Option<Test>]) -> Vec<Option<Verdict>> {
        let mut one = |test: &Option<Test>| {
            let test = test.as_ref()?;
            // As the p value of all looks together.
            let p = self.adjusted.next().unwrap_or(1.0) * (LEVEL / self.level);
            Some(Verdict::of(test, p.min(1.0), self.margin, self.error))
        };
        tests.iter().map(&mut one).collect()
    }
}

/// Fills in what a test decides about a setting.
pub(super) fn fill(tried: &mut Tried, test: Option<&Test>, verdict: Option<&Verdict>) {
    if let (Some(test), Some(v)) = (test, verdict) {
        tried.response_ns = test.responses;
        (tried.change, tried.interval, tried.p, tried.effect) =
            (v.change, v.interval, v.p, v.effect);
    } else {
        tried.p = 1.0;
    }
}

/// How many blocks meet the requirement; `None` without one.
pub(super) fn met<'a>(
    detail: &TuneDetail,
    blocks: impl Iterator<Item = &'a Block>,
) -> Option<usize> {
    detail.requirement.as_ref()?;
    let response = |b: &Block| b.latency.quantile(detail.quantile);
    let is_met = |b: &&Block| response(b).and_then(|ns| detail.is_met(ns as f64)) == Some(true);
    Some(blocks.filter(is_met).count())
}

/// What a setting does to a benchmark.
pub(super) fn side_effect(verdict: Option<&Verdict>, metric: &SideMetric) -> SideEffect {
    let Some(v) = verdict else { return SideEffect { p: 1.0, ..SideEffect::default() } };
    let effect = match v.effect {
        TuneEffect::Improves if metric.unit.larger_is_better() => TuneEffect::Worsens,
        TuneEffect::Worsens if metric.unit.larger_is_better() => TuneEffect::Improves,
        effect => effect,
    };
    SideEffect { change: v.change, interval: v.interval, p: v.p, effect }
}

/// Whether settings together do what their single effects give.
pub(super) fn interaction_finding(
    settings: &str,
    effect: TuneEffect,
    change: f64,
    interval: (f64, f64),
) -> Finding {
    let (id, severity) = match effect {
        TuneEffect::Improves | TuneEffect::Worsens => ("tune.interaction", Severity::Info),
        TuneEffect::NoEffect => ("tune.no-interaction", Severity::Info),
        _ => ("tune.interaction-undecided", Severity::Inconclusive),
    };
    Finding::typed(id, severity, Confidence::High)
        .value("setting", settings)
        .value("change", Quantity::Ratio(change))
        .value("low", Quantity::Ratio(interval.0))
        .value("high", Quantity::Ratio(interval.1))
}
