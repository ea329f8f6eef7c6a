//! A scheduler of whose slices and waits everything is known, and the events that it would leave behind.

use super::analyse::{Analyzer, Options};
use latlab_model::event::{Event, EventKind, Names, OffCpu, Symbol, Task};
use latlab_model::sched::schedule::{End, Schedule, Slice};
use latlab_model::units::{CpuId, Tid, TraceNs};
use latlab_stats::rng::SplitMix64 as Rng;
use std::collections::VecDeque;

/// What the analysis must find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truth {
    pub tid: i32,
    pub cpu: u32,
    pub start: u64,
    pub end: u64,
    pub delay: u64,
    pub woken: bool,
    pub why: End,
}

/// A CPU whose tasks (100 × CPU + 1, 2, …) take turns, sleep and wake in whole microseconds.
struct Cpu {
    cpu: u32,
    now: u64,
    ready: VecDeque<(i32, u64, bool)>,
    asleep: Vec<(i32, u64)>,
    running: Option<(i32, u64, u64, bool)>,
    events: Vec<Event>,
    truth: Vec<Truth>,
}

/// Names of [`task`]s, and `second`, `after` and `rt` behind them.
pub fn names() -> (Names, [Symbol; 3]) {
    let mut names = Names::default();
    names.add("swapper");
    (1..400).for_each(|tid| _ = names.add(&format!("task{tid}")));
    let more = ["second", "after", "rt"].map(|n| names.intern(n));
    (names, more)
}

pub fn task(tid: i32) -> Task {
    Task { tid: Tid(tid), name: Symbol(tid as u32 + 1), prio: 120 }
}

pub fn event(time: u64, cpu: u32, current: i32, kind: EventKind) -> Event {
    Event { time: TraceNs(time), cpu: CpuId(cpu), current: Tid(current), kind }
}

pub fn switch(time: u64, cpu: u32, prev: Task, state: OffCpu, next: Task) -> Event {
    event(time, cpu, prev.tid.0, EventKind::Switch { prev, state, next })
}

impl Cpu {
    fn new(cpu: u32, tasks: i32, rng: &mut Rng) -> Self {
        let first = cpu as i32 * 100 + 1;
        let asleep = (first..first + tasks).map(|t| (t, us(rng, 500))).collect();
        let (ready, events, truth) = (VecDeque::new(), Vec::new(), Vec::new());
        Self { cpu, now: 1_000, ready, asleep, running: None, events, truth }
    }

    fn current(&self) -> i32 {
        self.running.map_or(0, |r| r.0)
    }

    /// Everybody whose time has come by `until` is woken, in order.
    fn wake(&mut self, until: u64) {
        self.asleep.sort_by_key(|s| s.1);
        while self.asleep.first().is_some_and(|s| s.1 <= until) {
            let (tid, at) = self.asleep.remove(0);
            let at = at.max(self.now);
            self.events.push(event(
                at,
                self.cpu,
                self.current(),
                EventKind::Waking { task: task(tid), target: CpuId(self.cpu), in_interrupt: false },
            ));
            self.events.push(event(
                at,
                self.cpu,
                self.current(),
                EventKind::Wakeup { task: task(tid), target: CpuId(self.cpu), in_interrupt: false },
            ));
            self.ready.push_back((tid, at, true));
        }
    }

    /// Switches from whoever runs to whoever is first.
    fn switch(&mut self, state: OffCpu, why: End) {
        let prev = self.current();
        let next = self.ready.pop_front();
        if let Some((tid, start, delay, woken)) = self.running.take() {
            let (cpu, end) = (self.cpu, self.now);
            self.truth.push(Truth { tid, cpu, start, end, delay, woken, why });
            if state.is_runnable() {
                self.ready.push_back((tid, self.now, false));
            }
        }
        let to = task(next.map_or(0, |n| n.0));
        self.events.push(switch(self.now, self.cpu, task(prev), state, to));
        self.running = next.map(|(tid, since, woken)| (tid, self.now, self.now - since, woken));
    }

    fn step(&mut self, rng: &mut Rng) {
        let until = self.now + us(rng, 4_000);
        self.wake(until);
        self.now = until;
        if self.running.is_none() {
            if !self.ready.is_empty() {
                self.switch(OffCpu::Runnable, End::Open);
            }
            return;
        }
        let tid = self.current();
        match rng.below(4) {
            0 => {
                self.asleep.push((tid, self.now + us(rng, 9_000)));
                self.switch(OffCpu::Sleeping, End::Slept);
            }
            1 => {
                self.asleep.push((tid, self.now + us(rng, 900)));
                self.switch(OffCpu::Blocked, End::Blocked);
            }
            _ if !self.ready.is_empty() => self.switch(OffCpu::Preempted, End::Preempted),
            _ => {}
        }
    }
}

/// At least one microsecond, in ns.
fn us(rng: &mut Rng, most: usize) -> u64 {
    (1 + rng.below(most)) as u64 * 1_000
}

/// Events of all CPUs in order of time, and what they mean.
pub fn random(seed: u64, cpus: u32, tasks: i32, steps: u32) -> (Vec<Event>, Vec<Truth>) {
    let mut rng = Rng::new(seed);
    let mut all: Vec<Cpu> = (0..cpus).map(|c| Cpu::new(c, tasks, &mut rng)).collect();
    for cpu in &mut all {
        // The first event says that the CPU is idle.
        cpu.events.push(event(cpu.now, cpu.cpu, 0, EventKind::Other));
        for _ in 0..steps {
            cpu.step(&mut rng);
        }
    }
    let mut events: Vec<Event> = all.iter().flat_map(|c| c.events.clone()).collect();
    events.sort_by_key(|e| e.time);
    (events, all.into_iter().flat_map(|c| c.truth).collect())
}

/// The analysis of events, with every slice.
pub fn analyse(events: &[Event], options: Options) -> (Schedule, Vec<Slice>) {
    let mut slices = Vec::new();
    let mut analyzer = Analyzer::new(options);
    let (names, _) = names();
    for e in events {
        analyzer.push(e, &names, &mut |s| slices.push(*s));
    }
    let schedule = analyzer.finish("pattern", &names, &mut |s| slices.push(*s));
    (schedule, slices)
}
