//! From events to slices, waits and accounts, in one pass.
//!
//! A hole (lost events) on a CPU makes the slice that was running there doubtful, and every
//! delay that began before it: a wake-up may have been recorded on any CPU. Both are counted,
//! and kept out of the distributions.

mod identity;
mod priority;
mod switch;
mod unseen;
mod vruntime;
mod windows;

pub use crate::sched::analyse::priority::INVERSION;

use super::fair::weight_of_prio;
use super::tally::Map;
use super::task::{Account, CpuState, FoundInversion, Throttling};
use crate::timeline::cpu::{Current, PerCpu};
use crate::timeline::stack::Parked;
use crate::timeline::task::Tasks;
use latlab_model::event::{Event, EventKind, Names, Symbol, Task};
use latlab_model::sched::schedule::{End, FairWindow, KeptSlice, Slice, VruntimeChoices};
use latlab_model::units::{CpuId, Tid, TraceNs};

/// What is to be kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// Keep slices of these tasks only; empty for all.
    pub focus: Vec<i32>,
    /// Slices to keep.
    pub slices: usize,
    /// Tasks to list.
    pub tasks: usize,
    /// Length of a window of fairness, ns.
    pub window_ns: u64,
    /// Weights that the priority does not tell (SCHED_IDLE, groups), by thread id.
    pub weights: Vec<(i32, f64)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            focus: Vec::new(),
            slices: 2_000,
            tasks: 200,
            window_ns: 1_000_000_000,
            weights: Vec::new(),
        }
    }
}

/// Takes events in order of time.
#[derive(Debug, Default)]
pub struct Analyzer {
    pub(super) options: Options,
    pub(super) tasks: Tasks<Account>,
    /// Ended tasks whose rows others have: how many, and their run time.
    pub(super) folded: (u64, u64),
    pub(super) cpus: PerCpu<CpuState>,
    parked: Parked<()>,
    holes: u32,
    pub(super) first: Option<TraceNs>,
    pub(super) last: TraceNs,
    pub(super) events: u64,
    pub(super) switches: u64,
    pub(super) saw: Saw,
    pub(super) pairs: Map<(Tid, Tid), (Symbol, Symbol, u64)>,
    pub(super) inversions: Vec<FoundInversion>,
    pub(super) inversion_count: u64,
    pub(super) throttles: Vec<(u32, Throttling, TraceNs)>,
    pub(super) throttle_count: u64,
    pub(super) slices: Vec<KeptSlice>,
    pub(super) more_slices: u64,
    /// Choices between fair tasks whose virtual run time is known.
    pub(super) choices: VruntimeChoices,
    pub(super) doubtful_slices: u64,
    pub(super) doubtful_delays: u64,
    pub(super) unseen: u64,
    pub(super) renamed: u64,
    window_start: TraceNs,
    listed: Vec<usize>,
    pub(super) windows: Vec<FairWindow>,
}

/// Which kinds of events there were.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Saw {
    pub wakeup: bool,
    pub waking: bool,
    pub charged: bool,
}

impl Analyzer {
    /// Nothing seen yet.
    pub fn new(options: Options) -> Self {
        Self { options, ..Self::default() }
    }

    /// Time of the first event.
    pub fn first(&self) -> TraceNs {
        self.first.unwrap_or_default()
    }

    /// Switches so far.
    pub fn switches(&self) -> u64 {
        self.switches
    }

    /// Takes one event; every slice that it ends goes to `sink`.
    pub fn push(&mut self, event: &Event, names: &Names, sink: &mut impl FnMut(&Slice)) {
        let lost = matches!(event.kind, EventKind::Lost { .. });
        self.events += u64::from(!lost);
        if self.first.is_none() {
            (self.first, self.window_start) = (Some(event.time), event.time);
        }
        self.last = self.last.max(event.time);
        if event.time.since(self.window_start).0 >= self.options.window_ns {
            self.roll(event.time);
        }
        let c = self.cpu(event.cpu, event.time);
        if let EventKind::Lost { count } = event.kind {
            return self.hole(c, count.unwrap_or(0), event.time, sink);
        }
        let (running, switches) = match event.kind {
            EventKind::Switch { prev, .. } => (prev.tid, true),
            _ => (event.current, false),
        };
        if self.cpus[c].on.current(running, event.time, switches) == Current::Other {
            self.unseen_switch(c, event.time, sink);
            if !switches {
                self.seen_running(c, running, event.time);
            }
        }
        match event.kind {
            EventKind::Switch { .. } => self.switch(c, event, names, sink),
            EventKind::Waking { task, .. } => {
                self.saw.waking = true;
                self.wake(task, None, event);
            }
            EventKind::Wakeup { task, target, .. } => {
                self.saw.wakeup = true;
                self.wake(task, Some(target), event);
            }
            EventKind::WakeupNew { task, target } => {
                self.newborn(task);
                self.wake(task, Some(target), event);
            }
            EventKind::Migrate { task, to, .. } => self.migrate(task, to, event.time),
            EventKind::Fork { child: task } => self.fork(task, event.time),
            EventKind::Rename { tid, name } => {
                let task = Task { tid, name, prio: i32::MAX };
                self.find(task);
            }
            EventKind::Runtime { tid, ns, vruntime } => {
                self.saw.charged = true;
                let i = self.find(Task { tid, name: Symbol(0), prio: i32::MAX });
                let account = &mut self.tasks[i].account;
                add(&mut account.charged_ns, ns.0);
                account.vruntime.update(ns, vruntime);
            }
            EventKind::SetPrio { task, new } => self.set_prio_event(c, event, task, new),
            EventKind::SyscallEnter { yields: true, .. } => {
                if let Some(i) = self.tasks.get(event.current) {
                    self.tasks[i].account.yielding = true;
                }
            }
            _ => {}
        }
        let cpu = &mut self.cpus[c];
        cpu.last = cpu.last.max(event.time);
    }

    /// The CPU's place; it is counted from its first event on.
    #[inline]
    fn cpu(&mut self, cpu: CpuId, time: TraceNs) -> usize {
        let c = self.queue(cpu);
        let state = &mut self.cpus[c];
        if !state.seen {
            (state.seen, state.since, state.last) = (true, time, time);
        }
        c
    }

    #[inline]
    fn queue(&mut self, cpu: CpuId) -> usize {
        self.cpus.place(cpu, || CpuState::new(cpu))
    }

    /// It waits for, or has, a CPU: whatever depends on that.
    fn join_queue(&mut self, i: usize, cpu: CpuId) {
        let c = self.queue(cpu);
        let task = &mut self.tasks[i];
        task.cpu = cpu;
        let given =
            self.options.weights.iter().find(|(tid, _)| *tid == task.tid.0).map(|(_, w)| *w);
        let fair = (100..=139).contains(&task.prio);
        if let Some(weight) = given.filter(|_| fair).or_else(|| weight_of_prio(task.prio)) {
            let fair = &mut task.account.fair;
            fair.join(&mut self.cpus[c].clock, weight);
            if !fair.listed {
                fair.listed = true;
                self.listed.push(i);
            }
        } else if task.prio < 100 && !self.cpus[c].waiting.contains(&i) {
            self.cpus[c].waiting.push(i);
        }
    }

    fn leave_queue(&mut self, i: usize) {
        let c = self.queue(self.tasks[i].cpu);
        self.tasks[i].account.fair.leave(&mut self.cpus[c].clock);
        self.cpus[c].waiting.retain(|w| *w != i);
    }

    /// Counts what the CPU did until now.
    fn account(&mut self, c: usize, time: TraceNs) {
        let cpu = &mut self.cpus[c];
        let ns = time.since(cpu.since).0;
        if ns == 0 || !cpu.seen {
            return;
        }
        cpu.since = time;
        match (cpu.slice, cpu.on.task()) {
            (Some(slice), _) => {
                add(&mut cpu.line.busy_ns, ns);
                let task = &mut self.tasks[slice.row];
                let (account, prio) = (&mut task.account, task.prio);
                add(&mut account.run_ns, ns);
                if account.fair.joined.is_some() {
                    cpu.clock.advance(ns);
                    add(&mut account.fair.actual, ns);
                } else if prio < 100 {
                    add(&mut cpu.rt_ns, ns);
                }
            }
            (None, Some(Task { tid: Tid(0), .. })) => {
                add(&mut cpu.line.idle_ns, ns);
                if let Some(throttle) = &mut cpu.throttle {
                    add(&mut throttle.idle_ns, ns);
                }
            }
            (None, _) => add(&mut cpu.line.unknown_ns, ns),
        }
    }

    /// Ends everything that is open.
    pub(super) fn end(&mut self, sink: &mut impl FnMut(&Slice)) {
        for c in 0..self.cpus.len() {
            self.account(c, self.last);
            self.close(c, self.last, End::Open, Task::default(), false, sink);
        }
        for i in 0..self.tasks.rows().len() {
            self.end_boost(i, self.last);
            let c = self.queue(self.tasks[i].cpu);
            let clock = self.cpus[c].clock;
            self.tasks[i].account.fair.settle(&clock);
        }
    }
}

/// Adds to a sum of times. In a damaged trace, in which time goes back again and again, it may be any number.
fn add(sum: &mut u64, ns: u64) {
    *sum = sum.saturating_add(ns);
}
