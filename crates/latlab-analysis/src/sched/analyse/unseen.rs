//! What was not recorded: holes where events were lost, switches that must have been, and who
//! runs as the events of others tell.

use super::Analyzer;
use crate::sched::task::{On, State};
use latlab_model::event::{Event, Symbol, Task};
use latlab_model::sched::schedule::{End, Slice};
use latlab_model::units::{Nanos, Tid, TraceNs};

/// From the event of a switch to the switch itself, at most.
const LEAVING: Nanos = Nanos(50_000);

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
    pub(super) fn runs(&self, c: usize, tid: Tid) -> bool {
        match self.cpus[c].on {
            On::Unknown => false,
            On::Idle => tid.0 == 0,
            On::Task { index, .. } => self.tasks[index].tid == tid,
        }
    }

    /// Between the event of a switch and the switch itself the task that leaves is still the current one.
    pub(super) fn is_leaving(&self, c: usize, event: &Event) -> bool {
        let left = self.cpus[c].left;
        left.is_some_and(|(tid, at)| tid == event.current && event.time.since(at) < LEAVING)
    }

    /// Somebody else runs than who was switched in: a switch was not recorded. Up to the last
    /// event it was the old one; from then on nobody knows.
    pub(super) fn unseen_switch(&mut self, c: usize, time: TraceNs, sink: &mut impl FnMut(&Slice)) {
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
    pub(super) fn seen_running(&mut self, c: usize, tid: Tid, time: TraceNs) {
        if tid.0 == 0 {
            self.cpus[c].on = On::Idle;
            return;
        }
        let cpu = self.cpus[c].line.cpu;
        let i = self.find(Task { tid, name: Symbol(0), prio: i32::MAX });
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
}
