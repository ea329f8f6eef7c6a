//! What the spans of one wake-up ask for again and again, looked for once: a wake-up may have any number of spans.

use crate::latency::cpu_timeline::Actor;
use latlab_model::event::{Symbol, Task};
use latlab_model::latency::Cause;
use latlab_model::units::TraceNs;
use std::cell::{Cell, OnceCell};

/// One for each wake-up.
#[derive(Default)]
pub(super) struct Once {
    pub(super) programmed: OnceCell<Option<TraceNs>>,
    pub(super) timer_thread: OnceCell<Option<(Task, TraceNs)>>,
    pub(super) raised: OnceCell<Option<TraceNs>>,
    pub(super) held: OnceCell<bool>,
    pub(super) timer_late: OnceCell<Option<TraceNs>>,
    pub(super) called_in_idle: OnceCell<Option<Symbol>>,
    /// Of a switch: the timer that gave the task's group runtime.
    pub(super) refill: Cell<Option<(TraceNs, Option<Refill>)>>,
    pub(super) own: OnceCell<OwnEvents>,
    pub(super) interrupted: OnceCell<Option<Interrupted>>,
}

/// A control group gets runtime (`cpu.max`).
#[derive(Clone, Copy)]
pub(super) struct Refill {
    /// When its timer expired.
    pub(super) at: TraceNs,
    /// Nothing but the task that had the CPU then ran until the switch; it may have been chosen again.
    pub(super) resumed: bool,
}

/// Times of the measured task's own events, in order.
#[derive(Default)]
pub(super) struct OwnEvents {
    /// Page faults (true), and events that it was in user space or a system call since.
    pub(super) faults: Vec<(TraceNs, bool)>,
    /// All, and whether a wait for a lock begins.
    pub(super) waits: Vec<(TraceNs, bool)>,
}

/// A run of a task that was interrupted for longer than the task ran.
pub(super) struct Interrupted {
    /// Where the run ends, or the late activation.
    pub(super) end: TraceNs,
    /// How.
    pub(super) cause: Cause,
    /// By whom.
    pub(super) actor: Actor,
}
