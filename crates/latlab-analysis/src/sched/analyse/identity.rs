//! Who a thread id is: names, priorities, forks and ends.

use super::Analyzer;
use crate::timeline::task::{Found, State};
use latlab_model::event::{Symbol, Task};
use latlab_model::units::TraceNs;

impl Analyzer {
    /// The task's row: known, or new. Learns its name and priority.
    #[inline]
    pub(super) fn find(&mut self, task: Task) -> usize {
        let found = self.tasks.find(task, self.holes);
        if found.new || found.renamed || found.new_prio {
            self.learn(found, task);
        }
        found.row
    }

    fn learn(&mut self, Found { row, renamed, new_prio, .. }: Found, task: Task) {
        let known = &mut self.tasks[row];
        if known.account.first_name == Symbol(0) && known.tid == task.tid {
            known.account.first_name = task.name;
        } else {
            self.renamed += u64::from(renamed);
        }
        if new_prio {
            self.set_prio(row, task.prio);
        }
    }

    pub(super) fn set_prio(&mut self, i: usize, prio: i32) {
        let joined = self.tasks[i].account.fair.joined.is_some();
        self.tasks[i].prio = prio;
        if joined {
            let cpu = self.tasks[i].cpu;
            self.leave_queue(i);
            self.join_queue(i, cpu);
        }
    }

    /// `sched_process_fork`: whoever had this id is gone, even if its end was not seen.
    pub(super) fn fork(&mut self, task: Task, time: TraceNs) {
        if let Some(i) = self.tasks.get(task.tid) {
            if self.tasks[i].state == State::Running {
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
    pub(super) fn newborn(&mut self, task: Task) {
        if let Some(i) = self.tasks.get(task.tid)
            && !matches!(self.tasks[i].state, State::New | State::Unknown | State::Gone)
        {
            self.gone(i, self.last);
        }
    }

    pub(super) fn gone(&mut self, i: usize, time: TraceNs) {
        self.leave_queue(i);
        self.end_boost(i, time);
        let in_focus = self.options.focus.contains(&self.tasks[i].tid.0);
        if let Some(was) = self.tasks.end(i, !in_focus) {
            self.folded.0 += 1;
            super::add(&mut self.folded.1, was.account.run_ns);
        }
    }
}
