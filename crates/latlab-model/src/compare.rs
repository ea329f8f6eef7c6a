//! Runs compared: metrics, differences and how certain they are.

use crate::cache::detail::{Curve, StridePoint};
use crate::finding::Note;
use crate::record::{Param, Unit};
use latlab_stats::histogram::{Histogram, Summary};
use latlab_stats::pareto_tail::Tail;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What counts as a difference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Options {
    /// Chance of even one false claim of a difference among all of them.
    pub level: f64,
    /// Differences below this share are negligible.
    pub margin: f64,
    /// "No difference" is said when none larger than this share is left.
    pub within: f64,
    /// Count how often this is exceeded, in the unit of the metric.
    pub limit: Option<f64>,
    /// Say whether this difference could be told at that probability: 10 µs at 1e-6.
    pub tell: Option<(f64, f64)>,
    /// Mean size of a cluster of late wake-ups, where the files do not say in which order values came.
    pub cluster: f64,
    /// Replicates of the block bootstrap.
    pub replicates: usize,
    /// Seed of the resampling.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            level: 0.05,
            margin: 0.02,
            within: 0.10,
            limit: None,
            tell: None,
            cluster: 4.0,
            replicates: 400,
            seed: 1,
        }
    }
}

/// What a comparison came to, for one aspect, one metric or all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Better.
    Better,
    /// No difference larger than the one stated.
    NoDifference,
    /// The data do not decide.
    #[default]
    #[serde(alias = "cannot-tell")]
    Inconclusive,
    /// These runs differ; whether the machines or builds do is open, with fewer than three runs a side.
    RunsDiffer,
    /// Worse.
    Worse,
}

impl Verdict {
    /// The verdict on several, of which the worst decides; inconclusive without any.
    pub fn of_all(all: impl Iterator<Item = Self> + Clone) -> Self {
        let order = [Self::Worse, Self::Better, Self::RunsDiffer, Self::Inconclusive];
        let found = order.into_iter().find(|v| all.clone().any(|other| other == *v));
        found.or_else(|| all.clone().next()).unwrap_or(Self::Inconclusive)
    }
}

/// How the interval of an aspect was computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// There is no interval.
    #[default]
    #[serde(alias = "")]
    None,
    /// Bootstrap of blocks of consecutive values.
    #[serde(alias = "block bootstrap")]
    BlockBootstrap,
    /// Order statistics of the effective number of values.
    #[serde(alias = "order statistics")]
    OrderStatistics,
    /// Score interval of a ratio of rates.
    Score,
    /// Order statistics of independent values, tested by ranks.
    Ranks,
    /// Student's t over runs (Welch), on logarithms: contains the variance between runs.
    Runs,
}

/// What is known of the order in which values came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum KnownOrder {
    /// Nothing.
    #[default]
    #[serde(alias = "")]
    Unknown,
    /// Number and maximum of consecutive intervals of time.
    Stretches,
    /// Every value.
    Samples,
}

/// A comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CompareDetail {
    /// What counted as a difference.
    pub options: Options,
    /// What was compared; the first is the base.
    pub subjects: Vec<SubjectInfo>,
    /// In what the machines differ.
    pub machines: Vec<MachineDifference>,
    /// The metrics that at least two have.
    pub metrics: Vec<Metric>,
    /// Minimum, mean, standard deviation and maximum of every latency of each subject, as other tools and studies
    /// have them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Figures>,
    /// Curves of cache measurements, to be drawn over each other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<SubjectCurve>,
    /// Times of the loop `a[i] *= a[i]`, to be drawn over each other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub strides: Vec<SubjectStrides>,
    /// What was not compared, and why.
    pub skipped: Vec<Skipped>,
    /// Number of aspects that were tested together.
    pub tests: usize,
}

/// Figures of one distribution, ns; what is not known is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Figures {
    /// Index of the subject.
    pub subject: usize,
    /// What was measured.
    pub what: String,
    /// Number of values.
    pub count: Option<u64>,
    /// Minimum.
    pub min: Option<f64>,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Standard deviation.
    pub sd: Option<f64>,
    /// Maximum.
    pub max: Option<f64>,
    /// Missed periods or deadlines.
    pub missed: Option<u64>,
}

/// Latency over the size of the array, of one subject.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SubjectCurve {
    /// Index of the subject.
    pub subject: usize,
    /// The curve, as measured.
    pub curve: Curve,
}

/// Time of the loop `a[i] *= a[i]` over the stride, of one subject.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SubjectStrides {
    /// Index of the subject.
    pub subject: usize,
    /// Strides in rising order.
    pub points: Vec<StridePoint>,
    /// Line of its caches, bytes; 0 where it is not known.
    pub line_bytes: u32,
}

/// One of the things compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SubjectInfo {
    /// `A`, `B`, `C`…
    pub letter: String,
    /// What the user called it.
    pub label: String,
    /// The files.
    pub files: Vec<String>,
    /// Host and kernel, where known.
    pub machine: String,
    /// Limitations of its data.
    pub notes: Vec<Note>,
}

/// Something in which the machines differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MachineDifference {
    /// Identifier: `kernel`, `command-line`, `governor`…
    pub what: String,
    /// One entry a subject.
    pub values: Vec<String>,
}

/// What was not compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Skipped {
    /// Name and parameters.
    pub metric: String,
    /// Why.
    pub reason: Note,
}

/// One metric of all that have it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Metric {
    /// Part and name, parameters, as people write them.
    pub label: String,
    /// Record name.
    pub name: String,
    /// Parameters that all share.
    pub params: BTreeMap<String, Param>,
    /// Unit of all figures.
    pub unit: Unit,
    /// One entry a subject; `None` where it has no such metric.
    pub sides: Vec<Option<Side>>,
    /// Each of the others against the base.
    pub contrasts: Vec<Contrast>,
}

/// One subject's figures of a metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Side {
    /// Runs that it is from.
    pub runs: usize,
    /// Figures over all of them.
    pub summary: Summary,
    /// The distribution, where there is one.
    pub histogram: Option<Histogram>,
    /// What is known of the order of values.
    pub order: KnownOrder,
    /// The fitted tail.
    pub tail: Option<Tail>,
    /// Values a second, where known.
    pub per_second: Option<f64>,
}

/// One subject against the base.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Contrast {
    /// Index of the subject.
    pub other: usize,
    /// What was tested.
    pub aspects: Vec<Aspect>,
    /// What follows.
    pub verdict: Verdict,
    /// What difference could have been detected, where `tell` asks for it or the verdict is inconclusive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<Note>,
    /// Limitations of the data.
    pub notes: Vec<Note>,
    /// The sentence of a run of schema version 1; empty otherwise.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sentence: String,
}

/// Upper end of an interval of a change that has none: a factor of 10¹² (JSON has no infinity).
pub const UNBOUNDED: f64 = 1e12 - 1.0;

/// One number that may differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Aspect {
    /// The quantile (0.5 is the median); `None` for a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantile: Option<f64>,
    /// The limit of a rate, in the metric's unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// The name in a run of schema version 1 (`p99.9`, `rate over 100 µs`); empty otherwise.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub what: String,
    /// In the base.
    pub a: f64,
    /// In the other.
    pub b: f64,
    /// True when `a` and `b` are shares of the values (rates over a limit), not in the metric's unit.
    pub is_rate: bool,
    /// b/a − 1.
    pub change: f64,
    /// True when the change is to the worse side.
    pub towards_worse: bool,
    /// Interval of the change, at the comparison's level.
    pub low: f64,
    /// Upper end; 999999999999, a factor of 10¹², is none.
    pub high: f64,
    /// How the interval was computed.
    pub method: Method,
    /// p value of no difference.
    pub p: f64,
    /// The same, for all that was tested.
    pub p_adjusted: f64,
    /// What follows.
    pub verdict: Verdict,
    /// Chance that a rate of twice the base's would have been seen.
    pub power_of_double: Option<f64>,
    /// Factor by which both have to be longer to see one that is doubled, with 80 %.
    pub longer: Option<f64>,
}

impl CompareDetail {
    /// The worst verdict of all.
    pub fn verdict(&self) -> Verdict {
        Verdict::of_all(self.metrics.iter().flat_map(|m| &m.contrasts).map(|c| c.verdict))
    }
}
