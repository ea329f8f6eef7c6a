//! What was not recorded: holes where events were lost, switches that must have been, and who
//! runs as the events of others tell.

use super::Analyzer;
use crate::sched::task::OpenSlice;
use crate::timeline::task::{State, Waited};
use latlab_model::event::{Symbol, Task};
use latlab_model::sched::schedule::{End, Slice};
use latlab_model::units::{Tid, TraceNs};

impl Analyzer {
    pub(super) fn hole(
        &mut self,
        c: usize,
        lost: u64,
        time: TraceNs,
        sink: &mut impl FnMut(&Slice),
    ) {
        self.holes += 1;
        let from = self.cpus[c].last;
        self.account(c, from);
        self.interrupt_slice(c, from, sink);
        let cpu = &mut self.cpus[c];
        cpu.line.holes += 1;
        super::add(&mut cpu.line.lost, lost);
        super::add(&mut cpu.line.unknown_ns, time.since(from).0);
        cpu.on.lose(&mut self.parked);
        (cpu.since, cpu.throttle) = (time, None);
        cpu.waiting.clear();
    }

    /// The end of the slice was not recorded: what the task does is not known.
    fn interrupt_slice(&mut self, c: usize, at: TraceNs, sink: &mut impl FnMut(&Slice)) {
        if let Some(OpenSlice { row, .. }) = self.cpus[c].slice {
            self.close(c, at, End::Lost, Task::default(), true, sink);
            self.leave_queue(row);
            self.tasks[row].state = State::Unknown;
        }
    }

    /// Somebody else runs than who was switched in: a switch was not recorded. Up to the last
    /// event it was the old one; from then on nobody knows.
    pub(super) fn unseen_switch(&mut self, c: usize, time: TraceNs, sink: &mut impl FnMut(&Slice)) {
        let last = self.cpus[c].last.min(time);
        self.account(c, last);
        self.unseen += u64::from(self.cpus[c].on.task().is_some());
        self.interrupt_slice(c, last, sink);
        self.cpus[c].on.forget_task();
        self.account(c, time);
    }

    /// An event says who runs. Since when is not known, so that its slice is doubtful.
    pub(super) fn seen_running(&mut self, c: usize, tid: Tid, time: TraceNs) {
        self.cpus[c].on.settle_on(tid, time, &mut self.parked);
        if tid.0 == 0 {
            return;
        }
        let i = self.find(Task { tid, name: Symbol(0), prio: i32::MAX });
        self.take_cpu(c, i);
        (self.tasks[i].state, self.tasks[i].epoch) = (State::Running, self.holes);
        let waited = Waited::default();
        self.cpus[c].slice = Some(OpenSlice { row: i, start: time, waited, doubtful: true });
    }
}
