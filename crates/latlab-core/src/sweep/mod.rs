//! Which load, of which size, hurts, and where is the knee?
//!
//! ```text
//! axes ─▶ plan (random order, anchors) ─▶ points ─▶ knees, main effects, what the modes say ─▶ findings
//!             ▲                              │
//!             └── refinement round knees ────┘
//! ```
//!
//! A *point* is one setting of every axis and the wake-up latencies measured under that load. An
//! *anchor* is a point without load, repeated all along, so that drift of the machine shows. The
//! *response* is the logarithm of a tail quantile: factors, not differences, are what loads do.

pub mod analyse;
pub mod axis;
pub mod effects;
pub mod knee;
pub mod plan;
pub mod simulate;

use crate::histogram::Histogram;
use crate::run::Param;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use axis::{Axis, Value};
pub use plan::{Job, Plan};

/// Where a point lies: axis → value.
pub type Place = BTreeMap<String, Value>;

/// A sweep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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

/// One measured point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Point {
    /// Number of its job in the plan.
    pub job: usize,
    /// Where it lies; empty for an anchor.
    pub place: Place,
    /// The loads, as `latlab load` takes them.
    pub load: Vec<String>,
    /// Whether it was added round a knee.
    pub refined: bool,
    /// Start, ns of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Length, ns.
    pub length_ns: u64,
    /// Latencies of all wake-ups and missed periods, ns.
    pub latency: Histogram,
    /// Steal time meanwhile, ns, where readable.
    pub steal_ns: Option<u64>,
    /// Why it is not to be used (the load died), in a sentence.
    pub failed: Option<String>,
    /// The first cause that `latlab why` named under this load, or why it named none.
    pub why: Option<String>,
}

impl Point {
    /// Whether it is one without load.
    pub fn is_anchor(&self) -> bool {
        self.place.is_empty()
    }

    /// Whether it counts.
    pub fn is_good(&self) -> bool {
        self.failed.is_none() && self.latency.count > 0
    }
}

/// What follows from the points.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// What the modes of allocation say of its path.
    pub statement: Option<Statement>,
}

/// What one axis does, over all others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// What of the machine lies in it (`L2 256K`).
    pub matches: Vec<String>,
}

/// What the modes of allocation say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Statement {
    /// `allocation-path`, `access`, `both`, `neither`, `cannot-tell`: stable, for scripts.
    pub verdict: String,
    /// The same in a sentence.
    pub sentence: String,
    /// Factor of each mode over no load, and the p value of none.
    pub modes: Vec<(String, f64, f64)>,
}

/// A value as the parameter of a record.
pub fn param(value: &Value) -> Param {
    match value {
        Value::Number(n) if n.fract() == 0.0 && n.abs() < 1e15 => Param::Int(*n as i64),
        Value::Number(n) => Param::Float(*n),
        Value::Word(w) => Param::Text(w.clone()),
    }
}
