//! The events of interrupts and timers, as plain data.

use crate::explain::capture::Symbol;
use crate::sched::Comm;
use crate::units::TraceNs;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// When.
    pub time: TraceNs,
    /// On which CPU.
    pub cpu: u32,
    /// The task that was running (`common_pid`).
    pub current: i32,
    /// Whether this CPU lost events just before this one.
    pub lost: bool,
    /// What.
    pub what: What,
}

/// What an event says. Fields bear the kernel's names; functions are addresses.
#[allow(missing_docs, reason = "the kernel's own field names, documented with its tracepoints")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    TimerStart {
        timer: u64,
        function: u64,
        expires: u64,
        now: u64,
    },
    TimerCancel {
        timer: u64,
    },
    TimerEntry {
        timer: u64,
        function: u64,
        now: u64,
    },
    TimerExit {
        timer: u64,
    },
    HrtimerStart {
        timer: u64,
        function: u64,
        expires: i64,
    },
    HrtimerCancel {
        timer: u64,
    },
    HrtimerEntry {
        timer: u64,
        function: u64,
        now: i64,
    },
    HrtimerExit {
        timer: u64,
    },
    SoftirqRaise {
        vec: u32,
    },
    SoftirqEntry {
        vec: u32,
    },
    SoftirqExit {
        vec: u32,
    },
    IrqEntry {
        irq: i32,
        name: Symbol,
    },
    IrqExit {
        irq: i32,
    },
    VectorEntry {
        name: Symbol,
    },
    VectorExit {
        name: Symbol,
    },
    /// `tick_stop`: whether it could be stopped, and what needs it otherwise.
    TickStop {
        stopped: bool,
        dependency: u32,
    },
    /// A task by its name, from `sched_switch`.
    Runs {
        tid: i32,
        name: Comm,
    },
    Other,
}

/// Name of a softirq.
pub fn softirq(vec: u32) -> &'static str {
    const NAMES: [&str; 10] = [
        "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER",
        "RCU",
    ];
    NAMES.get(vec as usize).copied().unwrap_or("?")
}

/// What keeps a tick from being stopped (`TICK_DEP_*`), by the first bit that is set.
pub fn dependency(bits: u32) -> &'static str {
    match bits.trailing_zeros() {
        0 => "POSIX timers of processes",
        1 => "perf events",
        2 => "the scheduler (more than one task)",
        3 => "an unstable clock",
        4 | 5 => "RCU",
        _ => "nothing",
    }
}
