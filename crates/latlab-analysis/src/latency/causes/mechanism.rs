//! Which mechanism the parts of one cause and actor amount to.

use crate::latency::sent::is_ipi;
use latlab_model::latency::{Cause, Group, Kind, Mechanism, Share};

/// What decides a mechanism beside the parts: the measured task's priority, and the kernel.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    /// Kernel priority of the measured task.
    pub(super) prio: Option<i32>,
    /// The task has no work of its own.
    pub(super) without_work: bool,
    /// The kernel has the fair server.
    pub(super) fair_server: bool,
}

impl Setting {
    fn is_fair(self) -> bool {
        self.prio.is_some_and(|p| p >= 100)
    }
}

/// Whether a release (`6.12.1-rt`) is of at least this version.
pub(super) fn is_from(release: Option<&str>, version: (u32, u32)) -> bool {
    let mut parts = release.unwrap_or("").split(|c: char| !c.is_ascii_digit());
    let mut next = || parts.next().and_then(|p| p.parse::<u32>().ok()).unwrap_or(0);
    (next(), next()) >= version
}

/// The mechanism of a group: by cause, kind of actor, and setting.
pub(super) fn mechanism(
    group: &Group,
    share: &Share,
    instead: &[String],
    setting: Setting,
) -> Mechanism {
    let fair_actor = share.prio.is_some_and(|p| p >= 100) && share.kind == Some(Kind::Task);
    match (group.cause, share.kind) {
        // Also within the function of the timer that woke the task.
        (Cause::Path, _) => Mechanism::SlowPath,
        (Cause::ProgrammedLate, _) => Mechanism::TimerSlack,
        (Cause::Nmi, _) => Mechanism::Nmi,
        (Cause::IdleExit, _) => Mechanism::IdleExit,
        // It was disturbed, by what has no event: it has nothing to do that could be less.
        (Cause::Overrun, _) if setting.without_work => Mechanism::SlowPath,
        (Cause::Overrun, _) => Mechanism::Overrun,
        (Cause::Execution, _) => Mechanism::Execution,
        (Cause::Wait, _) => Mechanism::Wait,
        (Cause::Sleep, _) => Mechanism::Sleep,
        (Cause::PageFault, _) => Mechanism::PageFault,
        (Cause::Throttled, _) => throttled(group, setting),
        (Cause::Lock, _) if !share.contended => Mechanism::Blocked,
        (Cause::Lock, _) if instead.is_empty() => Mechanism::Lock,
        (Cause::Lock, _) => Mechanism::PriorityInversion,
        // The section is the function's own: that it ran would not have delayed the interrupt or the switch.
        (Cause::InterruptsOff, Some(Kind::Work | Kind::Timer | Kind::Hrtimer)) => {
            Mechanism::InterruptsOff
        }
        (Cause::PreemptionOff, Some(Kind::Work)) => Mechanism::PreemptionOff,
        // The scheduler ranks tasks of one class by their shares, whatever their nice values.
        (Cause::PreemptionOff | Cause::HigherPriority, _) if fair_actor && setting.is_fair() => {
            Mechanism::EqualPriority
        }
        (Cause::TimerFunction, Some(Kind::Timer)) | (_, Some(Kind::Timer)) => {
            Mechanism::TimerCallback
        }
        (Cause::TimerFunction, _) | (_, Some(Kind::Hrtimer)) => Mechanism::HrtimerHandler,
        (_, Some(Kind::Work)) => Mechanism::Workqueue,
        (Cause::Interrupt, _) if is_ipi(&group.who) => Mechanism::Ipi,
        (Cause::Interrupt, _) => Mechanism::InterruptHandler,
        (Cause::Softirq, _) | (Cause::InterruptsOff, Some(Kind::Softirq)) => Mechanism::Softirq,
        (Cause::InterruptsOff, _) => Mechanism::InterruptsOff,
        (Cause::PreemptionOff, _) => Mechanism::PreemptionOff,
        (Cause::HigherPriority, _) => Mechanism::HigherPriority,
        (Cause::FairOrBandwidth, _) => Mechanism::Alternatives,
        (Cause::EqualPriority, _) => Mechanism::EqualPriority,
        (Cause::Measurement, _) => Mechanism::Measurement,
        (Cause::Stall, _) => Mechanism::Stall,
        (Cause::Unexplained, _) => Mechanism::Unexplained,
    }
}

/// A runnable task that the scheduler passed over: for a fair task of the same class, for the fair server,
/// or because it had no runtime left.
fn throttled(group: &Group, setting: Setting) -> Mechanism {
    match setting.prio {
        Some(p) if p >= 100 && !group.who.is_empty() => Mechanism::EqualPriority,
        Some(p) if !(0..100).contains(&p) => Mechanism::Bandwidth,
        _ if setting.fair_server && !group.who.is_empty() => Mechanism::FairServer,
        _ => Mechanism::Throttling,
    }
}
