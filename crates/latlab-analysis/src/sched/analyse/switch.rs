//! Switches, wake-ups and migrations: slices end, waits begin and end.

use super::Analyzer;
use crate::sched::task::{On, State, Throttling};
use latlab_model::event::{Names, OffCpu, Task};
use latlab_model::sched::schedule::{End, KeptSlice, Slice};
use latlab_model::units::TraceNs;

/// What a `sched_switch` reports.
#[derive(Clone, Copy)]
pub(super) struct Switch {
    pub prev: Task,
    pub state: OffCpu,
    pub next: Task,
}

impl Analyzer {
    /// Ends the slice that runs on this CPU.
    pub(super) fn close(
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
        if !focus.is_empty() && !focus.contains(&slice.task.tid.0) {
            return;
        }
        if self.slices.len() >= self.options.slices {
            self.more_slices += 1;
            return;
        }
        self.slices.push(KeptSlice {
            tid: slice.task.tid.0,
            cpu: slice.cpu,
            at_ns: slice.start.since(self.first()).0,
            run_ns: slice.run().0,
            delay_ns: slice.delay.map(|d| d.0),
            why: slice.why,
            next: slice.next.tid.0,
            doubtful: slice.doubtful,
        });
    }

    pub(super) fn switch(
        &mut self,
        c: usize,
        time: TraceNs,
        switch: Switch,
        names: &Names,
        sink: &mut impl FnMut(&Slice),
    ) {
        let Switch { prev, state: left, next } = switch;
        self.switches += 1;
        self.cpus[c].line.switches += 1;
        self.account(c, time);
        let out = (prev.tid.0 != 0).then(|| self.find(prev));
        let why = out.map_or(End::Open, |i| reason(prev, left, next, self.tasks[i].yielding));
        match (self.cpus[c].on, out) {
            (On::Task { index, start, .. }, Some(i)) if index == i => {
                self.see_inversions(c, i, start, time);
                self.close(c, time, why, next, false, sink);
            }
            _ => {}
        }
        self.cpus[c].left = Some((prev.tid, time));
        self.cpus[c].on = if next.tid.0 == 0 { On::Idle } else { On::Unknown };
        if let Some(i) = out {
            self.switch_out(c, i, time, left);
            self.note_preemption(c, time, prev, next, why);
        }
        if next.tid.0 != 0 {
            self.switch_in(c, next, time, names);
        }
    }

    fn switch_out(&mut self, c: usize, i: usize, time: TraceNs, left: OffCpu) {
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
        } else if left == OffCpu::Dead {
            self.gone(i, time);
        } else {
            task.state = State::Off;
            self.leave_queue(i);
        }
    }

    fn note_preemption(&mut self, c: usize, time: TraceNs, prev: Task, next: Task, why: End) {
        if why == End::Preempted && next.tid.0 != 0 {
            let pair = self.pairs.entry((next.tid, prev.tid)).or_default();
            *pair = (next.name, prev.name, pair.2 + 1);
        }
        if why == End::Throttled && prev.prio < 100 && self.cpus[c].throttle.is_none() {
            let ran_ns = std::mem::take(&mut self.cpus[c].rt_ns);
            let throttle = Throttling { at: time, task: prev, ran_ns, idle_ns: 0 };
            self.cpus[c].throttle = Some(throttle);
        }
    }

    fn switch_in(&mut self, c: usize, next: Task, time: TraceNs, names: &Names) {
        let cpu = self.cpus[c].line.cpu;
        let i = self.find(next);
        if self.tasks[i].cpu != cpu {
            self.leave_queue(i);
        }
        self.join_queue(i, cpu);
        self.cpus[c].waiting.retain(|w| *w != i);
        self.end_throttle(c, next, time, names);
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

    pub(super) fn wake(&mut self, task: Task, cpu: Option<u32>, time: TraceNs) {
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

    pub(super) fn migrate(&mut self, task: Task, cpu: u32, time: TraceNs) {
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
}

/// Why a task lost its CPU to `next`.
fn reason(prev: Task, left: OffCpu, next: Task, yielding: bool) -> End {
    match left {
        OffCpu::Sleeping => End::Slept,
        OffCpu::Blocked => End::Blocked,
        OffCpu::Stopped => End::Stopped,
        OffCpu::Dead => End::Exited,
        OffCpu::Runnable if yielding => End::Yielded,
        OffCpu::Runnable | OffCpu::Preempted => {
            // The idle task has no priority of its own: its event says 120.
            let lower = next.tid.0 == 0 || next.prio > prev.prio.max(-1);
            if lower && (prev.prio < 100 || next.tid.0 == 0) {
                End::Throttled
            } else {
                End::Preempted
            }
        }
    }
}
