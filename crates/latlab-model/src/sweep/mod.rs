//! Latency over a grid of loads.

pub mod axis;
pub mod plan;
mod point;

pub use point::{Place, Point};

use crate::record::Param;
use axis::Value;
use plan::Plan;
use serde::{Deserialize, Serialize};

/// A sweep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SweepDetail {
    /// What was to be measured.
    pub plan: Plan,
    /// What was measured, in order of time.
    pub points: Vec<Point>,
    /// Points that the time did not suffice for.
    pub left: usize,
    /// What follows.
    pub analysis: Analysis,
}

/// What follows from the points.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Analysis {
    /// The quantile that is the response.
    pub quantile: f64,
    /// The response without load: median of the anchors, ns.
    pub unloaded_ns: Option<f64>,
    /// Factor by which the anchors vary (standard deviation of their logarithm, as a factor).
    pub anchor_spread: Option<f64>,
    /// Change of the anchors from the first to the last, as a factor, and the p value of no drift.
    pub drift: Option<(f64, f64)>,
    /// What each axis does over all others.
    pub effects: Vec<Effect>,
    /// Where curves change their law.
    pub knees: Vec<Knee>,
    /// The response over two numeric axes, for each setting of the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub surfaces: Vec<Surface>,
    /// Comparison of the allocation modes, where the plan has them.
    pub statement: Option<Statement>,
}

/// A numeric axis as a coded variable, from −1 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Coded {
    /// Its name.
    pub axis: String,
    /// Whether it is coded by its logarithm to base 2.
    pub logarithmic: bool,
    /// What is coded as 0.
    pub center: f64,
    /// What 1 is away from it.
    pub half: f64,
}

impl Coded {
    /// The coded value.
    pub fn of(&self, value: f64) -> f64 {
        ((if self.logarithmic { value.log2() } else { value }) - self.center) / self.half
    }

    /// The value that is coded so.
    pub fn value(&self, coded: f64) -> f64 {
        let v = self.center + coded * self.half;
        if self.logarithmic { v.exp2() } else { v }
    }
}

/// A second-order response surface of the logarithm of the latency.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Surface {
    /// The first axis.
    pub x: Coded,
    /// The second axis.
    pub y: Coded,
    /// Where the other axes stand.
    pub slice: Place,
    /// Of the terms 1, x, y, x², y², xy in coded variables; the response is ln(ns).
    pub coefficients: [f64; 6],
    /// Share of the variance of ln(ns) that it explains, adjusted for the number of terms.
    pub r_squared: f64,
    /// Standard deviation of measured over fitted latencies, as a factor.
    pub residual_factor: f64,
    /// Points that it is fitted to.
    pub points: usize,
}

impl Surface {
    /// The terms at coded values.
    pub fn terms(x: f64, y: f64) -> [f64; 6] {
        [1.0, x, y, x * x, y * y, x * y]
    }

    /// The fitted latency in ns.
    pub fn ns(&self, x: f64, y: f64) -> f64 {
        let terms = Self::terms(self.x.of(x), self.y.of(y));
        terms.iter().zip(&self.coefficients).map(|(t, c)| t * c).sum::<f64>().exp()
    }
}

/// What one axis does, over all others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Effect {
    /// The axis.
    pub axis: String,
    /// Factor between its mildest and its worst value.
    pub factor: f64,
    /// The worst value.
    pub worst: String,
    /// Share of the variance of the logarithm that it explains alone.
    pub share: f64,
    /// p value of no effect (permutation).
    pub p: f64,
}

/// A change of law along an axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Knee {
    /// The axis.
    pub axis: String,
    /// Where the other axes stand (only those that are words).
    pub slice: Place,
    /// The last value of the old law.
    pub from: f64,
    /// The first value of the new law.
    pub to: f64,
    /// Response up to `from`, ns.
    pub before_ns: f64,
    /// Response from `to` on, ns.
    pub after_ns: f64,
    /// p value of no knee (permutation), for all curves that were looked at.
    pub p: f64,
    /// Capacities of the machine within it (`L2 256K`).
    pub matches: Vec<String>,
}

/// Which part of a memory load raises latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AllocationVerdict {
    /// Allocating and freeing; access to memory that is kept is equivalent to no load.
    AllocationPath,
    /// The access: allocating anew is equivalent to keeping the memory.
    Access,
    /// Both, allocation more.
    Both,
    /// Neither: both are equivalent to no load.
    Neither,
    /// Fewer than three points without load: nothing to compare with.
    TooFewAnchors,
    /// The data do not decide.
    #[default]
    #[serde(alias = "cannot-tell")]
    Inconclusive,
}

/// Comparison of the allocation modes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Statement {
    /// The result.
    pub verdict: AllocationVerdict,
    /// Mode (`alloc`, `keep`, `hang`), factor over no load, p value of no difference.
    pub modes: Vec<(String, f64, f64)>,
    /// The 95 % interval of each mode's factor; `None` with too few points for one.
    pub intervals: Vec<Option<(f64, f64)>>,
    /// Margin of equivalence: factors between 1/margin and margin are as good as none. 0 in runs of earlier
    /// versions, which concluded it from p > 0.05.
    pub margin: f64,
    /// The knee of mode `alloc`, from and to, where there is one: modes are compared beyond it.
    pub knee: Option<(f64, f64)>,
}

/// A value as the parameter of a record.
pub fn param(value: &Value) -> Param {
    match value {
        Value::Number(n) if n.fract() == 0.0 && n.abs() < 1e15 => Param::Int(*n as i64),
        Value::Number(n) => Param::Float(*n),
        Value::Word(w) => Param::Text(w.clone()),
    }
}
