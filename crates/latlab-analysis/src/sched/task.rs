//! What is known of one task, and of one CPU, while events go by.

use super::fair::VirtualTime;
use super::tally::Tally;
use super::vruntime::Vruntime;
use crate::timeline::cpu::Cpu;
use crate::timeline::task::{Row, State, Waited};
use latlab_model::event::{Names, Symbol, Task};
use latlab_model::sched::schedule::{CpuLine, End, Ends, InversionKind, Slice, TaskLine, Totals};
use latlab_model::units::{CpuId, Nanos, Tid, TraceNs};

/// One task.
pub(super) type TaskState = Row<Account>;

/// What is counted of one task.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    pub first_name: Symbol,
    pub yielding: bool,
    pub run_ns: u64,
    pub charged_ns: u64,
    pub vruntime: Vruntime,
    pub slices: Tally,
    pub delay: Tally,
    pub wakeup: Tally,
    /// Times of these three are the trace's.
    pub bursts: Totals,
    pub sleeps: Totals,
    pub blocked: Totals,
    /// The burst that goes on: when it began, and its run time so far, ns.
    burst: Option<(TraceNs, u64)>,
    /// Why its last slice ended.
    last_end: Option<End>,
    pub off_ns: u64,
    pub unknown_delays: u64,
    pub ends: Ends,
    pub migrations: u64,
    pub doubtful: u64,
    pub fair: FairState,
    /// Priority that it had of its own, and since when it has another's.
    pub boost: Option<Boost>,
}

/// A priority inherited from a waiter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Boost {
    pub since: TraceNs,
    pub own: i32,
    pub waiter: Task,
    pub cpu: u32,
}

/// A task that kept one of higher priority from running.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundInversion {
    pub kind: InversionKind,
    pub high: Task,
    pub low: Task,
    pub cpu: u32,
    pub from: TraceNs,
    pub to: TraceNs,
}

impl FoundInversion {
    pub fn length(&self) -> Nanos {
        self.to.since(self.from)
    }
}

/// A fair task's account.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FairState {
    /// Weight, while it is in some CPU's sum.
    pub joined: Option<f64>,
    /// Virtual time up to which `ideal` counts.
    pub since: f64,
    pub ideal: f64,
    pub actual: u64,
    pub lag_max: f64,
    pub lag_min: f64,
    /// Both at the beginning of the window.
    pub ideal_then: f64,
    pub actual_then: u64,
    /// In the list of those that the window is about.
    pub listed: bool,
}

impl FairState {
    /// Brings the ideal up to now.
    pub fn settle(&mut self, clock: &VirtualTime) {
        if let Some(weight) = self.joined {
            self.ideal += clock.served(weight, self.since);
            self.since = clock.now();
            let lag = self.ideal - self.actual as f64;
            self.lag_max = self.lag_max.max(lag);
            self.lag_min = self.lag_min.min(lag);
        }
    }
    pub fn join(&mut self, clock: &mut VirtualTime, weight: f64) {
        if self.joined.is_none() {
            self.since = clock.join(weight);
            self.joined = Some(weight);
        }
    }
    pub fn leave(&mut self, clock: &mut VirtualTime) {
        self.settle(clock);
        if let Some(weight) = self.joined.take() {
            clock.leave(weight);
        }
    }
}

impl Account {
    /// Counts a slice to the burst that it is a part of; a sleep ends the burst.
    pub fn end_slice(&mut self, slice: &Slice) {
        self.last_end = Some(slice.why);
        if slice.woken && slice.delay.is_some() {
            self.burst = Some((slice.start, 0));
        }
        let Some((start, run_ns)) = &mut self.burst else { return };
        *run_ns = run_ns.saturating_add(slice.run().0);
        let (start, run_ns) = (*start, *run_ns);
        let goes_on = matches!(slice.why, End::Preempted | End::Yielded | End::Throttled);
        if slice.doubtful || matches!(slice.why, End::Lost | End::Open) {
            self.burst = None;
        } else if !goes_on {
            self.burst = None;
            self.bursts.add(Nanos(run_ns), start.0);
        }
    }

    /// Counts the sleep before a wake-up.
    pub fn end_sleep(&mut self, waited: Waited, time: TraceNs) {
        let (Some(delay), Some(off), true) = (waited.delay, waited.off, waited.woken) else {
            return;
        };
        let (slept, since) =
            (Nanos(off.0.saturating_sub(delay.0)), TraceNs(time.0.saturating_sub(off.0)));
        match self.last_end {
            Some(End::Slept) => self.sleeps.add(slept, since.0),
            Some(End::Blocked) => {
                self.sleeps.add(slept, since.0);
                self.blocked.add(slept, since.0);
            }
            _ => {}
        }
    }

    /// Its totals, for those that are summed up.
    pub fn line(
        &self,
        task: &TaskState,
        base: TraceNs,
        names: &Names,
        reused: bool,
        charged: bool,
        histograms: bool,
    ) -> TaskLine {
        let ns = |x: f64| x.clamp(i64::MIN as f64, i64::MAX as f64) as i64;
        let from_first = |t: Totals| Totals { max_at_ns: t.max_at_ns.saturating_sub(base.0), ..t };
        let was = (self.first_name != task.name && self.first_name != Symbol(0))
            .then(|| names.get(self.first_name).to_owned());
        TaskLine {
            tid: task.tid.0,
            name: if task.tid == Tid(-1) { "(others)" } else { names.get(task.name) }.to_owned(),
            was,
            incarnation: reused.then_some(task.incarnation),
            prio: task.prio,
            run_ns: self.run_ns,
            charged_ns: charged.then_some(self.charged_ns),
            vruntime: self.vruntime.told(task.prio),
            slices: self.slices.durations(base),
            delay: self.delay.durations(base),
            wakeup: self.wakeup.durations(base),
            bursts: from_first(self.bursts),
            sleeps: from_first(self.sleeps),
            blocked: from_first(self.blocked),
            off_ns: self.off_ns,
            unknown_delays: self.unknown_delays,
            ends: self.ends,
            migrations: self.migrations,
            ideal_ns: ns(self.fair.ideal).max(0) as u64,
            fair_ns: self.fair.actual,
            lag_max_ns: ns(self.fair.lag_max),
            lag_min_ns: ns(self.fair.lag_min),
            doubtful: self.doubtful,
            ended: task.state == State::Gone,
            histogram: histograms.then(|| self.slices.histogram()),
            delays: histograms.then(|| self.delay.histogram()),
        }
    }
}

/// One CPU.
#[derive(Clone, Debug)]
pub(super) struct CpuState {
    pub line: CpuLine,
    pub seen: bool,
    /// Last event of it.
    pub last: TraceNs,
    /// Who has it.
    pub on: Cpu,
    /// The slice of the task that has it, where that is known.
    pub slice: Option<OpenSlice>,
    /// From when on the time is counted.
    pub since: TraceNs,
    pub clock: VirtualTime,
    /// Ready tasks of the real-time and deadline classes on its queue, by row.
    pub waiting: Vec<usize>,
    /// Fair tasks that were preempted here and wait, by row.
    pub preempted: Vec<usize>,
    pub throttle: Option<Throttling>,
    /// Run time of those classes since the last throttling.
    pub rt_ns: u64,
}

impl CpuState {
    /// Nothing seen yet.
    pub fn new(cpu: CpuId) -> Self {
        Self {
            line: CpuLine { cpu: cpu.0, ..CpuLine::default() },
            seen: false,
            last: TraceNs(0),
            on: Cpu::new(cpu),
            slice: None,
            since: TraceNs(0),
            clock: VirtualTime::default(),
            waiting: Vec::new(),
            preempted: Vec::new(),
            throttle: None,
            rt_ns: 0,
        }
    }
}

/// A slice that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpenSlice {
    /// The task's row.
    pub row: usize,
    pub start: TraceNs,
    pub waited: Waited,
    pub doubtful: bool,
}

/// A throttling that goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Throttling {
    pub at: TraceNs,
    pub task: Task,
    pub ran_ns: u64,
    pub idle_ns: u64,
}
