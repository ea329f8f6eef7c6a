//! The search for the worst wake-up over the times at which faults and loads begin.

use serde::{Deserialize, Serialize};

/// How starting times are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Scan and climb in turns.
    #[default]
    Combined,
    /// One input after the other in steps, then bisection at the largest latency.
    Scan,
    /// Random changes of 2⁴ to 2¹⁹ ns, kept unless the latency falls: a (1+1) evolution strategy.
    Climb,
    /// Every evaluation at random.
    Random,
}

/// What delays the task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum InputKind {
    /// A fault of the kernel module.
    #[default]
    Fault,
    /// One round of a load, by an ordinary process.
    Load,
    /// The expiry of the measured task itself, from the last tick.
    Tick,
}

/// One thing whose time is searched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Input {
    /// What it is.
    pub kind: InputKind,
    /// Name of the fault or the load.
    pub name: String,
    /// How long it takes, ns; 0 for a load: its rounds are timed before the search.
    pub ns: u64,
    /// Its period, ns: at random it begins anywhere in it.
    pub every_ns: u64,
}

/// What is searched: with the machine it determines the result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SearchPlan {
    /// Start of the random numbers.
    pub seed: u64,
    /// How.
    pub method: Method,
    /// Wake-ups of the search.
    pub wakeups: u64,
    /// Wake-ups with random times after it, to compare with.
    pub random: u64,
    /// SCHED_FIFO priority of the measured task.
    pub priority: u32,
    /// What delays the task.
    pub inputs: Vec<Input>,
}

/// One evaluation: the largest latency so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Growth {
    /// Number of the wake-up, from 1.
    pub wakeup: u64,
    /// Its latency, ns.
    pub latency_ns: u64,
}

/// What one search measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Trail {
    /// Wake-ups.
    pub wakeups: u64,
    /// Wake-ups whose latency exceeded all before.
    pub growth: Vec<Growth>,
    /// Of the worst wake-up: when each input began, ns before the expiry; negative: after it. Empty for an
    /// input that did not begin near it. For the tick: how long before the expiry it was.
    pub before_ns: Vec<Option<i64>>,
}

impl Trail {
    /// The worst wake-up.
    pub fn worst(&self) -> Option<&Growth> {
        self.growth.last()
    }

    /// The largest latency of the first so many wake-ups, ns.
    pub fn after(&self, wakeups: u64) -> u64 {
        self.growth.iter().take_while(|g| g.wakeup <= wakeups).last().map_or(0, |g| g.latency_ns)
    }
}

/// What the search program in the machine measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Searched {
    /// How long each input takes, ns: of a load as timed.
    pub ns: Vec<u64>,
    /// The search.
    pub search: Trail,
    /// Random times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random: Option<Trail>,
    /// The times of the worst wake-up again, after the search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again: Option<Again>,
}

/// Wake-ups with all inputs a little earlier or later than at the worst one. The kernel's state is another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Again {
    /// Wake-ups.
    pub wakeups: u64,
    /// How much earlier or later at most, ns.
    pub within_ns: u64,
    /// The largest latency, ns.
    pub latency_ns: u64,
}

/// What the search program prints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// What it measured.
    pub searched: Searched,
    /// Where.
    pub machine: crate::machine::Machine,
}

/// What `latlab worst` found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WorstDetail {
    /// The machine as the user named it, and the faults and loads.
    pub inputs: WorstInputs,
    /// What is searched.
    pub plan: SearchPlan,
    /// Release of the kernel.
    pub release: String,
    /// What was measured.
    pub searched: Searched,
    /// Host time from boot to result, ns.
    pub host_ns: u64,
    /// The latency that was replayed, where this run is a replay, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay_of_ns: Option<u64>,
    /// The functions of the worst wake-up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<crate::path::WakePath>,
    /// The bound, from all that was executed during the search and the random wake-ups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<Box<crate::path::BoundDetail>>,
}

/// Options that make the machine again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WorstInputs {
    /// Name and options.
    pub machine: String,
    /// The kernel's file, where it is the user's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Its modules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modules_from: Option<String>,
    /// Its RAM disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initrd: Option<String>,
    /// Its device tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtb: Option<String>,
    /// Faults.
    pub faults: Vec<String>,
    /// Loads.
    pub loads: Vec<String>,
}
