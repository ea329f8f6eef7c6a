//! A virtual machine that repeats what made a task of another machine late.

use crate::latency::Mechanism;
use serde::{Deserialize, Serialize};

/// What `latlab vm twin` replayed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TwinDetail {
    /// Where the causes were recorded.
    pub recorded: TwinSide,
    /// The virtual machine; without causes where it did not run.
    pub replayed: Option<TwinSide>,
    /// What runs in the virtual machine, as a command line of this program.
    pub command: Vec<String>,
    /// The causes of the recording, the one of most late wake-ups first.
    pub causes: Vec<TwinCause>,
    /// Causes in the virtual machine that are none of the recording's.
    pub others: Vec<MainCause>,
    /// Pairs of replayed causes whose order the recording determines.
    pub pairs: u32,
    /// Those of them that the virtual machine determines to be in the same order.
    pub same: u32,
    /// Those that it determines to be in the other one.
    pub reversed: u32,
}

/// One of both machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TwinSide {
    /// Its name: host and board, or the virtual machine.
    pub machine: String,
    /// Release of its kernel.
    pub release: String,
    /// Wake-ups while tracing was armed.
    pub wakeups: u64,
    /// Late ones.
    pub late: u64,
    /// Late ones in the captures: the causes are theirs.
    pub captured: u64,
    /// A wake-up later than this is late, ns.
    pub limit_ns: u64,
    /// Distance of the intended times, ns.
    pub interval_ns: u64,
}

/// A cause of the recording, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TwinCause {
    /// The cause in the recording.
    #[serde(flatten)]
    pub recorded: MainCause,
    /// The fault that stands for it (docs/reference/faults.md), or why there is none.
    pub replay: Replay,
    /// The same mechanism in the virtual machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<MainCause>,
}

/// How a cause is replayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Replay {
    /// By this fault.
    Fault(String),
    /// No fault has this mechanism in virtual time.
    NoFault,
    /// The virtual machine's processor has no such interrupt.
    OtherProcessor,
    /// The fault of a larger cause of this mechanism stands for this one too.
    Taken,
    /// It has most of the CPU: a fault is shorter than its period.
    Continuous,
    /// It is the main cause of no late wake-up.
    NeverMain,
}

/// A cause in one of both machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MainCause {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Who acted; empty where nobody does.
    pub who: String,
    /// What the events do not distinguish, each mechanism once, the most frequent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Mechanism>,
    /// It is the main cause of so many captured wake-ups.
    pub main_of: u64,
    /// Median length, ns.
    pub size_ns: f64,
}
