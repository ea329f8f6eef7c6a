//! Switches, wake-ups and migrations: slices end, waits begin and end.

use super::Analyzer;
use crate::sched::task::{OpenSlice, Throttling};
use crate::timeline::task::State;
use latlab_model::event::{Event, EventKind, Names, OffCpu, Task};
use latlab_model::sched::schedule::{End, KeptSlice, Slice};
use latlab_model::units::{CpuId, TraceNs};

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
        let cpu = &mut self.cpus[c];
        let Some(OpenSlice { row, start, waited, doubtful }) = cpu.slice.take() else { return };
        let task = &mut self.tasks[row];
        let doubtful = doubtful || cut;
        let slice = Slice {
            task: task.as_task(),
            cpu: cpu.line.cpu,
            start,
            end,
            off: waited.off,
            delay: waited.delay,
            woken: waited.woken,
            why,
            next,
            doubtful,
        };
        let account = &mut task.account;
        account.fair.settle(&cpu.clock);
        account.ends.count(why);
        account.end_slice(&slice);
        if doubtful {
            account.doubtful += 1;
            self.doubtful_slices += 1;
        } else if why != End::Open {
            account.slices.add(slice.run(), start);
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

    /// A `sched_switch`; nothing else is to come here.
    pub(super) fn switch(
        &mut self,
        c: usize,
        event: &Event,
        names: &Names,
        sink: &mut impl FnMut(&Slice),
    ) {
        let EventKind::Switch { prev, state: left, next } = event.kind else { return };
        let time = event.time;
        self.switches += 1;
        self.cpus[c].line.switches += 1;
        self.account(c, time);
        let out = (prev.tid.0 != 0).then(|| self.find(prev));
        let yielding = out.is_some_and(|i| self.tasks[i].account.yielding);
        let why = out.map_or(End::Open, |_| reason(prev, left, next, yielding));
        if let (Some(slice), Some(i)) = (self.cpus[c].slice, out)
            && slice.row == i
        {
            self.see_inversions(c, i, slice.start, time);
            self.close(c, time, why, next, false, sink);
        }
        let cpu = &mut self.cpus[c];
        cpu.slice = None;
        cpu.on.switch(time, (prev.tid, left), next, &mut self.parked);
        if let Some(i) = out {
            self.switch_out(c, i, time, left);
            self.note_preemption(c, time, prev, next, why);
        }
        if next.tid.0 != 0 {
            self.switch_in(c, next, time, names);
        }
    }

    fn switch_out(&mut self, c: usize, i: usize, time: TraceNs, left: OffCpu) {
        let cpu = self.cpus[c].on.id;
        if self.tasks[i].cpu != cpu {
            self.leave_queue(i);
        }
        let task = &mut self.tasks[i];
        task.account.yielding = false;
        task.switch_out(time, left, self.holes);
        match task.state {
            State::Runnable { .. } => {
                self.join_queue(i, cpu);
                self.wait_preempted(c, i);
            }
            State::Gone => self.gone(i, time),
            _ => self.leave_queue(i),
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
        let i = self.find(next);
        self.choose(c, i);
        self.take_cpu(c, i);
        self.end_throttle(c, next, time, names);
        let cpu = &mut self.cpus[c];
        let task = &mut self.tasks[i];
        task.account.fair.settle(&cpu.clock);
        let (was, sure) = (task.state, task.epoch == self.holes);
        let waited = task.switch_in(time, self.holes);
        let account = &mut task.account;
        account.end_sleep(waited, time);
        match waited.delay {
            Some(d) => {
                let since = TraceNs(time.0.saturating_sub(d.0));
                account.delay.add(d, since);
                if waited.woken {
                    account.wakeup.add(d, since);
                }
            }
            None => {
                account.unknown_delays += 1;
                self.doubtful_delays += u64::from(!sure && was != State::Unknown);
            }
        }
        super::add(&mut account.off_ns, waited.off.map_or(0, |o| o.0));
        account.yielding = false;
        cpu.slice = Some(OpenSlice { row: i, start: time, waited, doubtful: false });
    }

    /// A task runs on this CPU and does not wait there any more.
    pub(super) fn take_cpu(&mut self, c: usize, i: usize) {
        let cpu = self.cpus[c].on.id;
        if self.tasks[i].cpu != cpu {
            self.leave_queue(i);
        }
        self.join_queue(i, cpu);
        self.cpus[c].waiting.retain(|w| *w != i);
    }

    pub(super) fn wake(&mut self, task: Task, cpu: Option<CpuId>, event: &Event) {
        let i = self.find(task);
        let task = &mut self.tasks[i];
        if matches!(task.state, State::Running | State::Gone) {
            return;
        }
        // The kernel places it anew among those that wait.
        task.account.vruntime.forget();
        task.wake(event.time, event.current, self.holes);
        let from = task.cpu;
        let to = cpu.unwrap_or(from);
        let c = self.queue(to);
        self.account(c, event.time);
        if from != to {
            self.leave_queue(i);
        }
        self.join_queue(i, to);
    }

    pub(super) fn migrate(&mut self, task: Task, cpu: CpuId, time: TraceNs) {
        let i = self.find(task);
        self.tasks[i].account.migrations += 1;
        if self.tasks[i].cpu == cpu || self.tasks[i].state == State::Running {
            return;
        }
        self.tasks[i].account.vruntime.forget();
        let (from, to) = (self.queue(self.tasks[i].cpu), self.queue(cpu));
        self.account(from, time);
        self.account(to, time);
        self.leave_queue(i);
        self.tasks[i].cpu = cpu;
        if matches!(self.tasks[i].state, State::Runnable { .. }) {
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
