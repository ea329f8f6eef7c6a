//! Who a thread id is: names, priorities, ids that are used again, and the bound on accounts.

use super::Analyzer;
use crate::sched::task::{State, TaskState};
use latlab_model::event::{Symbol, Task};
use latlab_model::units::{Tid, TraceNs};

/// Tasks of which an account is kept at the same time; the others share one.
const TASKS_MAX: usize = 1 << 18;
/// From so many on, the accounts of ended tasks are given to new ones.
const TASKS_MANY: usize = 1 << 14;

impl Analyzer {
    /// The task's place: known, or new. Learns its name and priority.
    pub(super) fn find(&mut self, task: Task) -> usize {
        match self.index.get(&task.tid) {
            Some(&i) if self.tasks[i].state != State::Gone => {
                if task.name != Symbol(0) && task.name != self.tasks[i].name {
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
            let name = Symbol(0);
            self.tasks.push(TaskState::new(Task { tid: Tid(-1), name, prio: task.prio }, 1, 0));
            self.tasks.len() - 1
        };
        self.index.insert(task.tid, i);
        i
    }

    fn rename(&mut self, i: usize, name: Symbol) {
        let task = &mut self.tasks[i];
        if task.first_name == Symbol(0) {
            task.first_name = name;
        } else {
            self.renamed += 1;
        }
        task.name = name;
    }

    pub(super) fn set_prio(&mut self, i: usize, prio: i32) {
        let joined = self.tasks[i].fair.joined.is_some();
        self.tasks[i].prio = prio;
        if joined {
            let cpu = self.tasks[i].cpu;
            self.leave_queue(i);
            self.join_queue(i, cpu);
        }
    }

    /// `sched_process_fork`: whoever had this id is gone, even if its end was not seen.
    pub(super) fn fork(&mut self, task: Task, time: TraceNs) {
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
    pub(super) fn newborn(&mut self, task: Task) {
        if let Some(&i) = self.index.get(&task.tid)
            && !matches!(self.tasks[i].state, State::New | State::Unknown | State::Gone)
        {
            self.gone(i, self.last);
        }
    }

    pub(super) fn gone(&mut self, i: usize, time: TraceNs) {
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
        self.options.focus.contains(&self.tasks[i].tid.0)
    }
}
