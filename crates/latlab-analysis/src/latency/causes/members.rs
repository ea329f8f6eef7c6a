//! The late windows of one group of parts, and which groups could as well be a stall.

use latlab_model::latency::{Cause, Group, Share};
use std::collections::BTreeMap;

/// Fewer on-time windows do not show how the CPU's time is spread.
pub(super) const CONTROLS: usize = 5;

/// The function that most interrupts of a group interrupted.
pub(super) struct Place {
    pub(super) function: String,
    /// Interrupts in it of the group, and on time.
    pub(super) hits: usize,
    pub(super) on_time: usize,
    /// Chance of so many.
    pub(super) p: f64,
}

/// What the windows of a group amount to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The group's own mechanism.
    #[default]
    Own,
    /// Positive evidence shows that no code of this kernel ran.
    Stall,
    /// One of several mechanisms.
    Alternatives,
}

/// The windows that a group contributed to, with its excess in each.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    pub(super) main: Vec<usize>,
    pub(super) excess: BTreeMap<usize, f64>,
    /// What it amounts to.
    pub(super) kind: Verdict,
    /// The groups of which these windows are.
    pub(super) merged: Vec<Group>,
}

/// Whether most of a group's excess in a late wake-up is one interval without events, and a function that runs then
/// does not usually run so long: what it needs in each execution is no stall.
pub(super) fn is_silent(share: &Share, excess: f64) -> bool {
    share.silent_ns as f64 >= 0.7 * excess && !is_usual(share)
}

/// Whether the longest interval without events in a function is as long as usual for it.
pub(super) fn is_usual(share: &Share) -> bool {
    share.usual_silent_ns.is_some_and(|usual| share.silent_ns as f64 <= 1.5 * usual as f64)
}

/// Causes for which silence could as well be a stall. A task that had the CPU in place of the measured one was
/// there, but on a guest the machine may have been stopped meanwhile.
pub(super) fn could_be_stall(cause: Cause, is_guest: bool) -> bool {
    match cause {
        Cause::InterruptsOff
        | Cause::PreemptionOff
        | Cause::IdleExit
        | Cause::Path
        | Cause::Interrupt
        | Cause::Softirq
        | Cause::Overrun
        | Cause::TimerFunction => true,
        _ => is_guest && cause.is_in_place(),
    }
}

/// What has events at both its ends.
pub(super) fn is_bracketed(cause: Cause) -> bool {
    matches!(cause, Cause::Interrupt | Cause::Softirq | Cause::TimerFunction)
}
