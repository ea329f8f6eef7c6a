//! From events to slices, waits and accounts, in one pass.
//!
//! A hole (lost events) on a CPU makes the slice that was running there doubtful, and every
//! delay that began before it: a wake-up may have been recorded on any CPU. Both are counted,
//! and kept out of the distributions.

use super::event::{Comm, Event, Left, Task, What};
use super::fair::weight_of_prio;
use super::result::{End, FairWindow, Inversion, InversionKind, KeptSlice, Slice, Throttle};
use super::tally::Map;
use super::task::{Boost, CpuState, On, State, TaskState, Throttling};
use crate::units::{Nanos, TraceNs};

/// Tasks of which an account is kept at the same time; the others share one.
const TASKS_MAX: usize = 1 << 18;
/// From so many on, the accounts of ended tasks are given to new ones.
const TASKS_MANY: usize = 1 << 14;
/// Windows of fairness at most.
const WINDOWS_MAX: usize = 10_000;
/// Inversions and throttlings that are listed; all are counted.
const LISTED_MAX: usize = 1_000;
/// A task that is ready while one of lower priority runs on for less than this has met an
/// ordinary preemption, not an inversion.
pub const INVERSION: Nanos = Nanos(100_000);

/// From the event of a switch to the switch itself, at most.
const LEAVING: Nanos = Nanos(50_000);

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
    pub(super) tasks: Vec<TaskState>,
    index: Map<i32, usize>,
    free: Vec<usize>,
    others: Option<usize>,
    pub(super) folded: (u64, u64),
    pub(super) cpus: Vec<CpuState>,
    cpu_index: Map<u32, usize>,
    holes: u32,
    pub(super) first: Option<TraceNs>,
    pub(super) last: TraceNs,
    pub(super) events: u64,
    pub(super) switches: u64,
    pub(super) saw: Saw,
    pub(super) pairs: Map<(i32, i32), (Comm, Comm, u64)>,
    pub(super) inversions: Vec<Inversion>,
    pub(super) inversion_count: u64,
    pub(super) throttles: Vec<Throttle>,
    pub(super) throttle_count: u64,
    pub(super) slices: Vec<KeptSlice>,
    pub(super) more_slices: u64,
    pub(super) doubtful_slices: u64,
    pub(super) doubtful_delays: u64,
    pub(super) unseen: u64,
    pub(super) reused: Map<i32, ()>,
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
    pub fn push(&mut self, event: &Event, sink: &mut impl FnMut(&Slice)) {
        self.events += 1;
        if self.first.is_none() {
            (self.first, self.window_start) = (Some(event.time), event.time);
        }
        self.last = self.last.max(event.time);
        if event.time.since(self.window_start).0 >= self.options.window_ns {
            self.roll(event.time);
        }
        let c = self.cpu(event.cpu, event.time);
        if let Some(lost) = event.lost {
            self.hole(c, lost, event.time, sink);
        }
        let (running, leaving) = match event.what {
            What::Switch { prev, .. } => (prev.tid, false),
            _ => (event.current, self.is_leaving(c, event)),
        };
        if !leaving && !self.runs(c, running) {
            self.unseen_switch(c, event.time, sink);
            if !matches!(event.what, What::Switch { .. }) {
                self.seen_running(c, running, event.time);
            }
        }
        match event.what {
            What::Switch { prev, left, next } => self.switch(c, event.time, prev, left, next, sink),
            What::Waking(task) => {
                self.saw.waking = true;
                self.wake(task, None, event.time);
            }
            What::Wakeup(task, cpu) => {
                self.saw.wakeup = true;
                self.wake(task, Some(cpu), event.time);
            }
            What::WakeupNew(task, cpu) => {
                self.newborn(task);
                self.wake(task, Some(cpu), event.time);
            }
            What::Migrate(task, cpu) => self.migrate(task, cpu, event.time),
            What::Fork(task) => self.fork(task, event.time),
            What::Rename(tid, name) => {
                let task = Task { tid, name, prio: i32::MAX };
                self.find(task);
            }
            What::Charged(tid, ns) => {
                self.saw.charged = true;
                let i = self.find(Task { tid, name: Comm::default(), prio: i32::MAX });
                self.tasks[i].charged_ns = self.tasks[i].charged_ns.saturating_add(ns);
            }
            What::SetPrio(task, new) => self.set_prio_event(c, event, task, new),
            What::Yield => {
                if let Some(&i) = self.index.get(&event.current) {
                    self.tasks[i].yielding = true;
                }
            }
            What::Other => {}
        }
        let cpu = &mut self.cpus[c];
        cpu.last = cpu.last.max(event.time);
    }

    /// The CPU's place; it is counted from its first event on.
    fn cpu(&mut self, cpu: u32, time: TraceNs) -> usize {
        let c = self.queue(cpu);
        let state = &mut self.cpus[c];
        if !state.seen {
            (state.seen, state.since, state.last) = (true, time, time);
        }
        c
    }

    fn queue(&mut self, cpu: u32) -> usize {
        if let Some(&c) = self.cpu_index.get(&cpu) {
            return c;
        }
        let mut state = CpuState::default();
        state.line.cpu = cpu;
        self.cpus.push(state);
        self.cpu_index.insert(cpu, self.cpus.len() - 1);
        self.cpus.len() - 1
    }

    /// The task's place: known, or new. Learns its name and priority.
    fn find(&mut self, task: Task) -> usize {
        match self.index.get(&task.tid) {
            Some(&i) if self.tasks[i].state != State::Gone => {
                if !task.name.is_empty() && task.name != self.tasks[i].name {
                    self.rename(i, task.name);
                }
                if task.prio != self.tasks[i].prio && task.prio != i32::MAX {
                    self.set_prio(i, task.prio);
                }
                i
            }
            Some(&i) => self.again(i, task),
            None => self.create(task, 1),
        }
    }

    /// A thread id that had an owner.
    fn again(&mut self, old: usize, task: Task) -> usize {
        let incarnation = self.tasks[old].incarnation + 1;
        self.reused.insert(task.tid, ());
        self.create(task, incarnation)
    }

    fn create(&mut self, task: Task, incarnation: u32) -> usize {
        let fresh = TaskState::new(task, incarnation, self.holes);
        let i = if let Some(i) = self.free.pop() {
            self.tasks[i] = fresh;
            i
        } else if self.tasks.len() < TASKS_MAX {
            self.tasks.push(fresh);
            self.tasks.len() - 1
        } else if let Some(others) = self.others {
            others
        } else {
            self.others = Some(self.tasks.len());
            let name = Comm::new(b"(others)");
            self.tasks.push(TaskState::new(Task { tid: -1, name, prio: task.prio }, 1, 0));
            self.tasks.len() - 1
        };
        self.index.insert(task.tid, i);
        i
    }

    fn rename(&mut self, i: usize, name: Comm) {
        let task = &mut self.tasks[i];
        if task.first_name.is_empty() {
            task.first_name = name;
        } else {
            self.renamed += 1;
        }
        task.name = name;
    }

    fn set_prio(&mut self, i: usize, prio: i32) {
        let joined = self.tasks[i].fair.joined.is_some();
        self.tasks[i].prio = prio;
        if joined {
            let cpu = self.tasks[i].cpu;
            self.leave_queue(i);
            self.join_queue(i, cpu);
        }
    }

    /// `sched_process_fork`: whoever had this id is gone, even if its end was not seen.
    fn fork(&mut self, task: Task, time: TraceNs) {
        if let Some(&i) = self.index.get(&task.tid) {
            if matches!(self.tasks[i].state, State::Running) {
                return;
            }
            if self.tasks[i].state != State::Gone {
                self.gone(i, time);
            }
        }
        let i = self.find(task);
        self.tasks[i].state = State::New;
    }

    /// `sched_wakeup_new` without the fork having been seen.
    fn newborn(&mut self, task: Task) {
        if let Some(&i) = self.index.get(&task.tid)
            && !matches!(self.tasks[i].state, State::New | State::Unknown | State::Gone)
        {
            self.gone(i, self.last);
        }
    }

    fn gone(&mut self, i: usize, time: TraceNs) {
        self.leave_queue(i);
        self.end_boost(i, time);
        self.tasks[i].state = State::Gone;
        if self.tasks.len() >= TASKS_MANY && self.others != Some(i) && !self.in_focus(i) {
            self.folded.0 += 1;
            self.folded.1 += self.tasks[i].run_ns;
            let tid = self.tasks[i].tid;
            if self.index.get(&tid) == Some(&i) {
                self.index.remove(&tid);
            }
            self.tasks[i] = TaskState::default();
            self.free.push(i);
        }
    }

    fn in_focus(&self, i: usize) -> bool {
        self.options.focus.contains(&self.tasks[i].tid)
    }

    /// It waits for, or has, a CPU: whatever depends on that.
    fn join_queue(&mut self, i: usize, cpu: u32) {
        let c = self.queue(cpu);
        let task = &mut self.tasks[i];
        task.cpu = cpu;
        let given = self.options.weights.iter().find(|(tid, _)| *tid == task.tid).map(|(_, w)| *w);
        let fair = (100..=139).contains(&task.prio);
        if let Some(weight) = given.filter(|_| fair).or_else(|| weight_of_prio(task.prio)) {
            task.fair.join(&mut self.cpus[c].clock, weight);
            if !task.fair.listed {
                task.fair.listed = true;
                self.listed.push(i);
            }
        } else if task.prio < 100 && !self.cpus[c].waiting.contains(&i) {
            self.cpus[c].waiting.push(i);
        }
    }

    fn leave_queue(&mut self, i: usize) {
        let c = self.queue(self.tasks[i].cpu);
        self.tasks[i].fair.leave(&mut self.cpus[c].clock);
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
        match cpu.on {
            On::Unknown => cpu.line.unknown_ns += ns,
            On::Idle => {
                cpu.line.idle_ns += ns;
                if let Some(throttle) = &mut cpu.throttle {
                    throttle.idle_ns += ns;
                }
            }
            On::Task { index, .. } => {
                cpu.line.busy_ns += ns;
                let task = &mut self.tasks[index];
                task.run_ns += ns;
                if task.fair.joined.is_some() {
                    cpu.clock.advance(ns);
                    task.fair.actual += ns;
                } else if task.prio < 100 {
                    cpu.rt_ns += ns;
                }
            }
        }
    }

    fn hole(&mut self, c: usize, lost: u64, time: TraceNs, sink: &mut impl FnMut(&Slice)) {
        self.holes += 1;
        let from = self.cpus[c].last;
        self.account(c, from);
        if let On::Task { index, .. } = self.cpus[c].on {
            self.close(c, from, End::Lost, Task::default(), true, sink);
            self.leave_queue(index);
            self.tasks[index].state = State::Unknown;
        }
        let cpu = &mut self.cpus[c];
        cpu.line.holes += 1;
        cpu.line.lost += lost;
        cpu.line.unknown_ns += time.since(from).0;
        (cpu.on, cpu.since, cpu.throttle) = (On::Unknown, time, None);
        cpu.waiting.clear();
    }

    /// Whether this is the task that runs there, as far as is known.
    fn runs(&self, c: usize, tid: i32) -> bool {
        match self.cpus[c].on {
            On::Unknown => false,
            On::Idle => tid == 0,
            On::Task { index, .. } => self.tasks[index].tid == tid,
        }
    }

    /// Between the event of a switch and the switch itself the task that leaves is still the current one.
    fn is_leaving(&self, c: usize, event: &Event) -> bool {
        let left = self.cpus[c].left;
        left.is_some_and(|(tid, at)| tid == event.current && event.time.since(at) < LEAVING)
    }

    /// Somebody else runs than who was switched in: a switch was not recorded. Up to the last
    /// event it was the old one; from then on nobody knows.
    fn unseen_switch(&mut self, c: usize, time: TraceNs, sink: &mut impl FnMut(&Slice)) {
        let last = self.cpus[c].last.min(time);
        self.account(c, last);
        self.unseen += u64::from(self.cpus[c].on != On::Unknown);
        if let On::Task { index, .. } = self.cpus[c].on {
            self.close(c, last, End::Lost, Task::default(), true, sink);
            self.leave_queue(index);
            self.tasks[index].state = State::Unknown;
        }
        self.cpus[c].on = On::Unknown;
        self.account(c, time);
    }

    /// An event says who runs. Since when is not known, so that its slice is doubtful.
    fn seen_running(&mut self, c: usize, tid: i32, time: TraceNs) {
        if tid == 0 {
            self.cpus[c].on = On::Idle;
            return;
        }
        let cpu = self.cpus[c].line.cpu;
        let i = self.find(Task { tid, name: Comm::default(), prio: i32::MAX });
        if self.tasks[i].cpu != cpu {
            self.leave_queue(i);
        }
        self.join_queue(i, cpu);
        self.cpus[c].waiting.retain(|w| *w != i);
        (self.tasks[i].state, self.tasks[i].epoch) = (State::Running, self.holes);
        self.cpus[c].on = On::Task {
            index: i,
            start: time,
            off: None,
            delay: None,
            woken: false,
            doubtful: true,
        };
    }

    /// Ends the slice that runs on this CPU.
    fn close(
        &mut self,
        c: usize,
        end: TraceNs,
        why: End,
        next: Task,
        cut: bool,
        sink: &mut impl FnMut(&Slice),
    ) {
        let On::Task { index, start, off, delay, woken, doubtful } = self.cpus[c].on else {
            return;
        };
        let cpu = self.cpus[c].line.cpu;
        let clock = self.cpus[c].clock;
        let task = &mut self.tasks[index];
        task.fair.settle(&clock);
        let doubtful = doubtful || cut;
        let slice =
            Slice { task: task.as_task(), cpu, start, end, off, delay, woken, why, next, doubtful };
        task.ends.count(why);
        if doubtful {
            task.doubtful += 1;
            self.doubtful_slices += 1;
        } else if why != End::Open {
            task.slices.add(slice.run(), start);
        }
        self.keep(&slice);
        sink(&slice);
    }

    fn keep(&mut self, slice: &Slice) {
        let focus = &self.options.focus;
        if !focus.is_empty() && !focus.contains(&slice.task.tid) {
            return;
        }
        if self.slices.len() >= self.options.slices {
            self.more_slices += 1;
            return;
        }
        self.slices.push(KeptSlice {
            tid: slice.task.tid,
            cpu: slice.cpu,
            at_ns: slice.start.since(self.first()).0,
            run_ns: slice.run().0,
            delay_ns: slice.delay.map(|d| d.0),
            why: slice.why,
            next: slice.next.tid,
            doubtful: slice.doubtful,
        });
    }

    fn switch(
        &mut self,
        c: usize,
        time: TraceNs,
        prev: Task,
        left: Left,
        next: Task,
        sink: &mut impl FnMut(&Slice),
    ) {
        self.switches += 1;
        self.cpus[c].line.switches += 1;
        self.account(c, time);
        let out = (prev.tid != 0).then(|| self.find(prev));
        let why = out.map_or(End::Open, |i| reason(prev, left, next, self.tasks[i].yielding));
        match (self.cpus[c].on, out) {
            (On::Task { index, start, .. }, Some(i)) if index == i => {
                self.see_inversions(c, i, start, time);
                self.close(c, time, why, next, false, sink);
            }
            _ => {}
        }
        self.cpus[c].left = Some((prev.tid, time));
        self.cpus[c].on = if next.tid == 0 { On::Idle } else { On::Unknown };
        if let Some(i) = out {
            self.switch_out(c, i, time, left);
            self.note_preemption(c, time, prev, next, why);
        }
        if next.tid != 0 {
            self.switch_in(c, next, time);
        }
    }

    fn switch_out(&mut self, c: usize, i: usize, time: TraceNs, left: Left) {
        let cpu = self.cpus[c].line.cpu;
        if self.tasks[i].cpu != cpu {
            self.leave_queue(i);
        }
        let task = &mut self.tasks[i];
        task.last_out = Some(time);
        task.epoch = self.holes;
        task.yielding = false;
        if left.is_runnable() {
            task.state = State::Ready { since: time, woken: false };
            self.join_queue(i, cpu);
        } else if left == Left::Dead {
            self.gone(i, time);
        } else {
            task.state = State::Off;
            self.leave_queue(i);
        }
    }

    fn note_preemption(&mut self, c: usize, time: TraceNs, prev: Task, next: Task, why: End) {
        if why == End::Preempted && next.tid != 0 {
            let pair = self.pairs.entry((next.tid, prev.tid)).or_default();
            *pair = (next.name, prev.name, pair.2 + 1);
        }
        if why == End::Throttled && prev.prio < 100 && self.cpus[c].throttle.is_none() {
            let ran_ns = std::mem::take(&mut self.cpus[c].rt_ns);
            let throttle = Throttling { at: time, task: prev, ran_ns, idle_ns: 0 };
            self.cpus[c].throttle = Some(throttle);
        }
    }

    fn switch_in(&mut self, c: usize, next: Task, time: TraceNs) {
        let cpu = self.cpus[c].line.cpu;
        let i = self.find(next);
        if self.tasks[i].cpu != cpu {
            self.leave_queue(i);
        }
        self.join_queue(i, cpu);
        self.cpus[c].waiting.retain(|w| *w != i);
        self.end_throttle(c, next, time);
        let clock = self.cpus[c].clock;
        let holes = self.holes;
        let task = &mut self.tasks[i];
        task.fair.settle(&clock);
        let sure = task.epoch == holes;
        let (delay, woken) = match task.state {
            State::Ready { since, woken } if sure => (Some(time.since(since)), woken),
            State::Ready { woken, .. } => (None, woken),
            _ => (None, false),
        };
        let off = task.last_out.filter(|_| sure).map(|out| time.since(out));
        match delay {
            Some(d) => {
                let since = TraceNs(time.0.saturating_sub(d.0));
                task.delay.add(d, since);
                if woken {
                    task.wakeup.add(d, since);
                }
            }
            None => {
                task.unknown_delays += 1;
                self.doubtful_delays += u64::from(!sure && task.state != State::Unknown);
            }
        }
        task.off_ns += off.map_or(0, |o| o.0);
        (task.state, task.epoch, task.yielding) = (State::Running, holes, false);
        self.cpus[c].on = On::Task { index: i, start: time, off, delay, woken, doubtful: false };
    }

    fn wake(&mut self, task: Task, cpu: Option<u32>, time: TraceNs) {
        let i = self.find(task);
        match self.tasks[i].state {
            State::Running | State::Gone => return,
            State::Ready { .. } if self.tasks[i].epoch == self.holes => {}
            _ => {
                self.tasks[i].state = State::Ready { since: time, woken: true };
                self.tasks[i].epoch = self.holes;
            }
        }
        let to = cpu.unwrap_or(self.tasks[i].cpu);
        let c = self.queue(to);
        self.account(c, time);
        if self.tasks[i].cpu != to {
            self.leave_queue(i);
        }
        self.join_queue(i, to);
    }

    fn migrate(&mut self, task: Task, cpu: u32, time: TraceNs) {
        let i = self.find(task);
        self.tasks[i].migrations += 1;
        if self.tasks[i].cpu == cpu || self.tasks[i].state == State::Running {
            return;
        }
        let (from, to) = (self.queue(self.tasks[i].cpu), self.queue(cpu));
        self.account(from, time);
        self.account(to, time);
        self.leave_queue(i);
        self.tasks[i].cpu = cpu;
        if matches!(self.tasks[i].state, State::Ready { .. }) {
            self.join_queue(i, cpu);
        }
    }

    fn set_prio_event(&mut self, c: usize, event: &Event, task: Task, new: i32) {
        let i = self.find(Task { prio: i32::MAX, ..task });
        let own = task.prio;
        if new < own && self.tasks[i].boost.is_none() && event.current != task.tid {
            let waiter = self.index.get(&event.current).map(|&w| self.tasks[w].as_task());
            if let Some(waiter) = waiter {
                let cpu = self.cpus[c].line.cpu;
                self.tasks[i].boost = Some(Boost { since: event.time, own, waiter, cpu });
            }
        } else if self.tasks[i].boost.is_some_and(|b| new >= b.own) {
            self.end_boost(i, event.time);
        }
        self.set_prio(i, new);
    }

    fn end_boost(&mut self, i: usize, time: TraceNs) {
        let Some(boost) = self.tasks[i].boost.take() else { return };
        let low = Task { prio: boost.own, ..self.tasks[i].as_task() };
        self.invert(InversionKind::Boosted, boost.waiter, low, boost.cpu, boost.since, time);
    }

    /// Those who were ready while this one, of lower priority, ran on.
    fn see_inversions(&mut self, c: usize, low: usize, start: TraceNs, time: TraceNs) {
        if self.cpus[c].waiting.is_empty() || self.cpus[c].throttle.is_some() || !self.saw.wakeup {
            return;
        }
        let cpu = self.cpus[c].line.cpu;
        let low = self.tasks[low].as_task();
        for n in 0..self.cpus[c].waiting.len() {
            let high = &self.tasks[self.cpus[c].waiting[n]];
            if let State::Ready { since, .. } = high.state
                && high.prio < low.prio
            {
                let (high, from) = (high.as_task(), since.max(start));
                if time.since(from) >= INVERSION {
                    self.invert(InversionKind::Ready, high, low, cpu, from, time);
                }
            }
        }
    }

    fn invert(
        &mut self,
        kind: InversionKind,
        high: Task,
        low: Task,
        cpu: u32,
        from: TraceNs,
        to: TraceNs,
    ) {
        self.inversion_count += 1;
        let inversion = Inversion {
            kind,
            high: high.tid,
            high_name: high.name.to_string(),
            high_prio: high.prio,
            low: low.tid,
            low_name: low.name.to_string(),
            low_prio: low.prio,
            cpu,
            at_ns: from.since(self.first()).0,
            ns: to.since(from).0,
        };
        if self.inversions.len() < LISTED_MAX {
            self.inversions.push(inversion);
        } else if let Some(least) = self.inversions.iter_mut().min_by_key(|i| i.ns)
            && least.ns < inversion.ns
        {
            *least = inversion;
        }
    }

    fn end_throttle(&mut self, c: usize, next: Task, time: TraceNs) {
        let back = |of: &Throttling| match of.task.prio {
            ..0 => next.prio < 0,
            _ => next.prio < 100,
        };
        if !self.cpus[c].throttle.as_ref().is_some_and(back) || is_stopper(next) {
            return;
        }
        let Some(over) = self.cpus[c].throttle.take() else { return };
        self.throttle_count += 1;
        if self.throttles.len() < LISTED_MAX {
            self.throttles.push(Throttle {
                tid: over.task.tid,
                name: over.task.name.to_string(),
                prio: over.task.prio,
                cpu: self.cpus[c].line.cpu,
                at_ns: over.at.since(self.first()).0,
                ns: time.since(over.at).0,
                ran_ns: over.ran_ns,
                idle_ns: over.idle_ns,
            });
        }
    }

    /// Ends every window of fairness that is over at `time`.
    fn roll(&mut self, time: TraceNs) {
        let length = self.options.window_ns.max(1_000_000);
        while time.since(self.window_start).0 >= length {
            let end = self.window_start + Nanos(length);
            if self.windows.len() < WINDOWS_MAX {
                self.end_window(end);
            }
            // Over a long silence nothing changes: one window stands for it.
            let silent = time.since(end).0 / length;
            let skip = if self.windows.len() >= WINDOWS_MAX || silent > 1000 { silent } else { 0 };
            self.window_start = end + Nanos(skip.saturating_mul(length));
        }
    }

    pub(super) fn end_window(&mut self, end: TraceNs) {
        for c in 0..self.cpus.len() {
            self.account(c, end);
        }
        let mut shares = Vec::new();
        let listed = std::mem::take(&mut self.listed);
        for i in listed {
            let c = self.queue(self.tasks[i].cpu);
            let clock = self.cpus[c].clock;
            let fair = &mut self.tasks[i].fair;
            fair.settle(&clock);
            let ideal = fair.ideal - fair.ideal_then;
            let actual = fair.actual.saturating_sub(fair.actual_then) as f64;
            (fair.ideal_then, fair.actual_then) = (fair.ideal, fair.actual);
            fair.listed = fair.joined.is_some();
            if fair.listed {
                self.listed.push(i);
            }
            if ideal * 100.0 >= self.options.window_ns as f64 {
                shares.push(actual / ideal);
            }
        }
        let at_ns = self.window_start.since(self.first()).0;
        let tasks = shares.len() as u32;
        if let Some(jain) = super::fair::jain(shares).filter(|_| tasks > 1) {
            self.windows.push(FairWindow { at_ns, jain, tasks });
        }
    }

    /// Ends everything that is open.
    pub(super) fn end(&mut self, sink: &mut impl FnMut(&Slice)) {
        for c in 0..self.cpus.len() {
            self.account(c, self.last);
            self.close(c, self.last, End::Open, Task::default(), false, sink);
        }
        for i in 0..self.tasks.len() {
            self.end_boost(i, self.last);
            let c = self.queue(self.tasks[i].cpu);
            let clock = self.cpus[c].clock;
            self.tasks[i].fair.settle(&clock);
        }
    }
}

/// Why a task lost its CPU to `next`.
fn reason(prev: Task, left: Left, next: Task, yielding: bool) -> End {
    match left {
        Left::Sleeping => End::Slept,
        Left::Blocked => End::Blocked,
        Left::Stopped => End::Stopped,
        Left::Dead => End::Exited,
        Left::Runnable if yielding => End::Yielded,
        Left::Runnable | Left::Preempted => {
            // The idle task has no priority of its own: its event says 120.
            let lower = next.tid == 0 || next.prio > prev.prio.max(-1);
            if lower && (prev.prio < 100 || next.tid == 0) {
                End::Throttled
            } else {
                End::Preempted
            }
        }
    }
}

/// The kernel's own highest thread, which runs whatever is throttled.
fn is_stopper(task: Task) -> bool {
    task.name.to_string().starts_with("migration/")
}
