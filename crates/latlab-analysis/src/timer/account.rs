//! What is counted while events go by.

use crate::sched::tally::{Map, Tally};
use crate::timeline::actor::Actor;
use crate::timeline::cpu::Cpu;
use crate::timeline::stack::{Frame, Parked, What};
use latlab_model::event::Symbol;
use latlab_model::units::{CpuId, Nanos, Tid, TraceNs};

/// Softirqs whose timers these are.
pub(super) const TIMER_SOFTIRQ: u32 = 1;
pub(super) const HRTIMER_SOFTIRQ: u32 = 8;

/// Distances that are kept of one timer, to tell its period.
const DISTANCES: usize = 512;
/// Timers that are told apart.
pub(super) const TIMERS_MAX: usize = 1 << 16;
/// Tasks that are told apart for one function.
const TASKS: usize = 64;

/// One function.
#[derive(Clone, Debug, Default)]
pub(super) struct FunctionAccount {
    /// It is the tick.
    pub tick: bool,
    pub cost: Tally,
    pub late: Tally,
    pub waited: Tally,
    pub interrupted: Map<Tid, u64>,
    pub set_by: Map<Tid, u64>,
}

/// Counts for a task, of which only so many are told apart.
pub(super) fn note(map: &mut Map<Tid, u64>, tid: Tid) {
    if map.len() < TASKS || map.contains_key(&tid) {
        *map.entry(tid).or_default() += 1;
    }
}

/// One timer.
#[derive(Clone, Debug, Default)]
pub(super) struct TimerAccount {
    pub function: Symbol,
    pub highres: bool,
    /// When it was last set, by whom, for when (jiffies or ns of its clock), and what its clock said then.
    pub start: Option<Started>,
    pub last: Option<TraceNs>,
    pub times: u64,
    pub cpu: u32,
    pub distances: Vec<u64>,
}

/// The setting of a timer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Started {
    pub at: TraceNs,
    pub by: Tid,
    pub expires: u64,
    pub now: u64,
}

impl TimerAccount {
    /// It was called.
    pub fn called(&mut self, time: TraceNs, cpu: u32) {
        if let Some(last) = self.last
            && self.distances.len() < DISTANCES
        {
            self.distances.push(time.since(last).0);
        }
        self.last = Some(time);
        self.times += 1;
        self.cpu = cpu;
    }

    /// Median distance, median and largest deviation from it, where it comes regularly: half of
    /// the distances within a tenth of their median.
    pub fn period(&self) -> Option<(u64, u64, u64)> {
        if self.distances.len() < 5 {
            return None;
        }
        let median = |values: &mut Vec<u64>| {
            values.sort_unstable();
            values[values.len() / 2]
        };
        let period = median(&mut self.distances.clone());
        let mut off: Vec<u64> = self.distances.iter().map(|d| d.abs_diff(period)).collect();
        let jitter = median(&mut off);
        let max = off.last().copied().unwrap_or(0);
        (period > 0 && jitter * 10 <= period).then_some((period, jitter, max))
    }
}

/// Which interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct IrqKey {
    /// Number; −1 for a vector.
    pub irq: i32,
    /// Name.
    pub name: Symbol,
}

impl IrqKey {
    /// Of an interrupt's frame; `None` for others.
    #[inline]
    pub fn of(what: What) -> Option<Self> {
        match what {
            What::Actor(Actor::Irq(irq, name)) => Some(Self { irq, name }),
            What::Actor(Actor::Vector(name)) => Some(Self { irq: -1, name }),
            _ => None,
        }
    }
}

/// One kind of interrupt.
#[derive(Clone, Debug, Default)]
pub(super) struct IrqAccount {
    pub cost: Tally,
    pub cpus: Map<u32, u64>,
    pub timer: bool,
}

/// What is known of an open interrupt, softirq or timer function.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    /// Of an interrupt: whether a timer's function ran in it, and whether the tick's did.
    pub timer: bool,
    pub tick: bool,
    /// Of a timer's function: the setting that it answers.
    pub start: Option<Started>,
    pub late: Option<i64>,
}

/// One CPU.
#[derive(Clone, Debug)]
pub(super) struct CpuAccount {
    pub on: Cpu<Mark>,
    /// The last interrupt: entry, exit, which.
    pub last_irq: Option<(TraceNs, Option<TraceNs>, IrqKey)>,
    /// First raise of each softirq that has not been entered yet.
    pub raised: [Option<TraceNs>; 10],
    /// The softirq that was entered last and has not ended, its entry, and the raise that it
    /// answers; also while its task is preempted (PREEMPT_RT).
    pub softirq: Option<(u32, TraceNs, Option<TraceNs>)>,
    pub ticks: u64,
    pub interrupt_ns: u64,
    pub tick_ns: u64,
    pub softirq_ns: u64,
}

impl CpuAccount {
    /// Nothing seen yet.
    pub fn new(id: CpuId) -> Self {
        Self {
            on: Cpu::new(id),
            last_irq: None,
            raised: [None; 10],
            softirq: None,
            ticks: 0,
            interrupt_ns: 0,
            tick_ns: 0,
            softirq_ns: 0,
        }
    }

    /// Events were lost: whatever is open may have ended.
    pub fn forget(&mut self, parked: &mut Parked<Mark>) {
        self.on.lose(parked);
        self.last_irq = None;
        self.raised = [None; 10];
        self.softirq = None;
    }

    /// The innermost open interrupt.
    pub fn irq(&mut self) -> Option<&mut Frame<Mark>> {
        self.on.stack.open_mut().iter_mut().rev().find(|f| IrqKey::of(f.what).is_some())
    }
}

/// The distance of two moments.
pub(super) fn between(from: TraceNs, to: TraceNs) -> Nanos {
    to.since(from)
}
