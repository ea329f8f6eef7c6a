//! Late wake-ups compared with on-time wake-ups.

use super::window::Group;
use serde::{Deserialize, Serialize};

/// How a group differs between late and on-time windows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Row {
    /// The group.
    pub group: Group,
    /// A function inside it, or `None` for the whole group.
    pub function: Option<String>,
    /// Median time in late windows, ns.
    pub late_ns: f64,
    /// Median time in on-time windows, ns.
    pub on_time_ns: f64,
    /// Median number of beginnings or calls in late windows.
    pub late_times: f64,
    /// The same in on-time windows.
    pub on_time_times: f64,
    /// Cliff's delta of the times, −1 to 1, with its 95% interval.
    pub delta: f64,
    /// Lower and upper end.
    pub delta_interval: (f64, f64),
    /// What the difference consists of.
    pub kind: Difference,
}

/// What a difference consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// It occurs only in late windows.
    OnlyLate,
    /// It occurs more often, each about as long.
    MoreOften,
    /// It takes longer each time, about as often.
    Longer,
    /// Both.
    Both,
    /// No difference worth naming.
    Neither,
}

/// Late windows against on-time windows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Contrast {
    /// Late windows.
    pub late: usize,
    /// On-time windows.
    pub on_time: usize,
    /// Median latency of the on-time windows, ns: what the way costs when nothing is wrong.
    pub baseline_ns: f64,
    /// Groups and functions, largest excess first.
    pub rows: Vec<Row>,
}
