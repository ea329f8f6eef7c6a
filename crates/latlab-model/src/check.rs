//! Requirements, and whether measurements meet them.

use crate::finding::Note;
use crate::record::Unit;
use crate::wakeup::mechanism::Mechanism;
use serde::{Deserialize, Serialize};

/// What a requirement is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "kind", content = "name")]
pub enum Subject {
    /// Wake-up latency in user space.
    #[default]
    Wakeup,
    /// OS noise.
    Noise,
    /// Any other record, by its name (`syscall.getppid`, `memory.latency`).
    Record(String),
    /// A finding of `latlab doctor`.
    Doctor,
}

/// The figure that is limited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// A quantile, 0 to 1.
    Quantile(f64),
    /// The largest value.
    Max,
    /// Missed periods.
    Missed,
    /// Share of the time lost to noise.
    Lost,
    /// Interruptions per second.
    PerSecond,
    /// Packets in the longest queue of the model of `latlab noise --queue`.
    Queue,
    /// State of a finding, by its identifier: it has to be ok or informative.
    State(String),
}

/// How value and limit compare where the requirement is met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// Below the limit.
    #[default]
    Below,
    /// Not above the limit.
    AtMost,
    /// Above the limit.
    Above,
}

/// Under which circumstances a requirement holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Circumstances {
    /// Loads, as `--load` takes them; none: without load.
    pub load: Vec<String>,
    /// Interval of the wake-ups, ns.
    pub interval_ns: Option<u64>,
    /// Least duration of the measurement, ns.
    pub duration_ns: Option<u64>,
    /// Real-time priority.
    pub priority: Option<u32>,
    /// CPUs as a list.
    pub cpus: Option<String>,
    /// Threshold of noise, ns.
    pub threshold_ns: Option<u64>,
    /// What wakes the task; none: whatever the measurement has, but one thing only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Mechanism>,
    /// Queue that is served: packets per second, and ns for each.
    pub packets: Option<(u64, u64)>,
}

/// One requirement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Requirement {
    /// Line of the file, from 1.
    pub line: u32,
    /// The condition as written.
    pub text: String,
    /// What it is about.
    pub subject: Subject,
    /// The figure.
    pub statistic: Statistic,
    /// How it compares with the limit.
    pub comparison: Comparison,
    /// The limit, in `unit`.
    pub limit: f64,
    /// Unit of the limit.
    pub unit: Unit,
    /// Where it holds.
    pub circumstances: Circumstances,
}

/// Whether a requirement is met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It is.
    Pass,
    /// The measurements do not decide.
    #[default]
    Undecided,
    /// It is not.
    Fail,
}

/// A requirement with its decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Checked {
    /// The requirement.
    pub requirement: Requirement,
    /// Whether it is met.
    pub decision: Decision,
    /// The measured figure, in the requirement's unit; the worst of several records.
    pub value: Option<f64>,
    /// 95 % interval of the figure, where it has one.
    pub interval: Option<(f64, f64)>,
    /// Samples.
    pub samples: u64,
    /// What the samples count for, as late ones cluster.
    pub effective: f64,
    /// Duration of the measurements, ns.
    pub duration_ns: u64,
    /// Duration of a measurement that decides with a power of 80 %, ns, if the figures stay as they are.
    pub needed_ns: Option<f64>,
    /// Reasons and limits of the decision.
    pub notes: Vec<Note>,
    /// Runs that were used.
    pub runs: Vec<String>,
}

/// What `latlab check` decided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CheckDetail {
    /// Name of the requirements' file or profile.
    pub source: String,
    /// One entry a requirement, in the order of the file.
    pub items: Vec<Checked>,
}

impl CheckDetail {
    /// The decision on all: failed if one is, passed if all are.
    pub fn decision(&self) -> Decision {
        let worst = self.items.iter().map(|i| i.decision).max();
        worst.unwrap_or(Decision::Undecided)
    }
}
