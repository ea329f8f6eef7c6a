//! What the breakdown of an activation goes along: whose time each interval is, and which event ended each wait.
//!
//! The pieces of a budget say who acted; the trail says for whom that counts. It is written while the pieces are
//! cut, so that both are one analysis.

use crate::latency::cpu_timeline::Actor;
use latlab_model::units::{CpuId, Tid, TraceNs};

/// What a task does in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has a CPU.
    Running,
    /// It is runnable and has none.
    Ready,
    /// It waits.
    Waiting,
}

/// An interval of one task that the activation waits for, or of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Start.
    pub from: TraceNs,
    /// End.
    pub to: TraceNs,
    /// Whose time it is.
    pub tid: Tid,
    /// What that task does.
    pub standing: Standing,
    /// How many waits lie between it and the measured task, which has 0.
    pub depth: u32,
}

/// An interval without a CPU of a task of the path: it waits, whether that is followed or not, or was preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffInterval {
    /// Start.
    pub from: TraceNs,
    /// End.
    pub to: TraceNs,
    /// The task.
    pub tid: Tid,
    /// The CPU that it left.
    pub cpu: CpuId,
    /// When it left that, or was woken: also before `from`.
    pub since: TraceNs,
    /// Whether it waits; otherwise it is runnable.
    pub waits: bool,
    /// As of [`Step`].
    pub depth: u32,
}

/// What a link stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// A task is woken.
    Wakes,
    /// A lock is handed on to a task that spins for it.
    HandsOn,
    /// An interrupt is sent to another CPU.
    Sends,
    /// A softirq is raised.
    Raises,
}

/// An event that ends a wait, or lets an interrupt or softirq begin that ends one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// What it is.
    pub kind: LinkKind,
    /// Time of the event.
    pub at: TraceNs,
    /// CPU that recorded it.
    pub cpu: CpuId,
    /// The task that was current there.
    pub by: Tid,
    /// The interrupt or function that acted; `None`: the task itself.
    pub context: Option<Actor>,
    /// The task that is woken; for an interrupt or softirq the one that it wakes in the end.
    pub to: Tid,
    /// The CPU to which it leads.
    pub target: CpuId,
    /// The interrupt or softirq that begins, for [`LinkKind::Sends`] and [`LinkKind::Raises`].
    pub begins: Option<Actor>,
    /// As of [`Step`], of the task that is woken.
    pub depth: u32,
}

/// The steps and links of one activation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// In order of time, without overlaps.
    pub steps: Vec<Step>,
    /// In order of time.
    pub links: Vec<Link>,
    /// In order of time, those of a waiter before those of the task that it waits for.
    pub off: Vec<OffInterval>,
}

impl Trail {
    /// The step that a moment lies in.
    pub fn at(&self, time: TraceNs) -> Option<&Step> {
        let next = self.steps.partition_point(|s| s.to <= time);
        self.steps.get(next).filter(|s| s.from <= time)
    }
}
