//! What is counted while events go by.

use crate::sched::tally::{Map, Tally};
use latlab_model::event::Symbol;
use latlab_model::units::{Nanos, Tid, TraceNs};

/// Distances that are kept of one timer, to tell its period.
const DISTANCES: usize = 512;
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

/// An interrupt that is open.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenIrq {
    pub key: IrqKey,
    pub at: TraceNs,
    /// Whether a timer's function ran in it, and whether the tick's did.
    pub timer: bool,
    pub tick: bool,
}

/// Which interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct IrqKey {
    /// Number; −1 for a vector.
    pub irq: i32,
    /// Name.
    pub name: Symbol,
}

/// One kind of interrupt.
#[derive(Clone, Debug, Default)]
pub(super) struct IrqAccount {
    pub cost: Tally,
    pub cpus: Map<u32, u64>,
    pub timer: bool,
}

/// A function that runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenTimer {
    pub timer: u64,
    pub function: Symbol,
    pub highres: bool,
    pub at: TraceNs,
    pub start: Option<Started>,
    pub late: Option<i64>,
}

/// One CPU.
#[derive(Clone, Debug, Default)]
pub(super) struct CpuAccount {
    pub cpu: u32,
    /// Open interrupts, innermost last.
    pub irqs: Vec<OpenIrq>,
    /// The last interrupt: entry, exit, which.
    pub last_irq: Option<(TraceNs, Option<TraceNs>, IrqKey)>,
    /// First raise of each softirq that has not been entered yet.
    pub raised: [Option<TraceNs>; 10],
    /// The raise that the open softirq answers, its number and entry.
    pub softirq: Option<(u32, TraceNs, Option<TraceNs>)>,
    pub open: Vec<OpenTimer>,
    pub ticks: u64,
    pub interrupt_ns: u64,
    pub tick_ns: u64,
    pub softirq_ns: u64,
}

impl CpuAccount {
    /// Events were lost: whatever is open may have ended.
    pub fn forget(&mut self) {
        self.irqs.clear();
        self.last_irq = None;
        self.raised = [None; 10];
        self.softirq = None;
        self.open.clear();
    }
}

/// The distance of two moments.
pub(super) fn between(from: TraceNs, to: TraceNs) -> Nanos {
    to.since(from)
}
