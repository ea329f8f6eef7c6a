//! What each task does: runs, is runnable, waits; who woke it, and which priority it has.
//!
//! [`State`] has the transitions; [`Tasks`] is a dense table of the tasks of a trace, with an account
//! of the analysis in each row. A thread id that is used again gets another row.

use latlab_model::event::{OffCpu, Symbol, Task};
use latlab_model::units::{CpuId, Nanos, Tid, TraceNs};
use latlab_trace::names::IntMap;
use std::ops::{Index, IndexMut};

/// What a task does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Not seen yet.
    #[default]
    Unknown,
    /// Forked and not yet woken.
    New,
    /// Has a CPU.
    Running,
    /// Runnable since then without a CPU: by a wake-up, or still.
    Runnable {
        /// Since when.
        since: TraceNs,
        /// By a wake-up.
        woken: bool,
    },
    /// Waits for something, interruptibly.
    Sleeping,
    /// Waits uninterruptibly: I/O, a lock.
    Blocked,
    /// Stopped or traced.
    Stopped,
    /// Is no more.
    Gone,
}

impl State {
    /// In which state a task leaves its CPU.
    #[inline]
    pub fn off(left: OffCpu, since: TraceNs) -> Self {
        match left {
            OffCpu::Runnable | OffCpu::Preempted => Self::Runnable { since, woken: false },
            OffCpu::Sleeping => Self::Sleeping,
            OffCpu::Blocked => Self::Blocked,
            OffCpu::Stopped => Self::Stopped,
            OffCpu::Dead => Self::Gone,
        }
    }

    /// The state after a wake-up; `None` where it changes nothing: the task has a CPU (it was on its
    /// way to sleep), is runnable already, or is no more.
    #[inline]
    pub fn woken(self, since: TraceNs) -> Option<Self> {
        match self {
            Self::Running | Self::Runnable { .. } | Self::Gone => None,
            _ => Some(Self::Runnable { since, woken: true }),
        }
    }
}

/// How a task waited until it got a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// Since it was runnable; `None` where that was not recorded.
    pub delay: Option<Nanos>,
    /// It was runnable by a wake-up.
    pub woken: bool,
    /// Since it left a CPU.
    pub off: Option<Nanos>,
}

/// One task.
#[derive(Clone, Debug, Default)]
pub struct Row<A> {
    /// Its thread id.
    pub tid: Tid,
    /// Last name that was seen.
    pub name: Symbol,
    /// The kernel's priority, as last seen.
    pub prio: i32,
    /// What it does.
    pub state: State,
    /// How often events had been lost anywhere when it entered the state.
    pub epoch: u32,
    /// The CPU whose queue it is on, or was last.
    pub cpu: CpuId,
    /// Who woke it last.
    pub waker: Tid,
    /// When it last left a CPU.
    pub last_out: Option<TraceNs>,
    /// Counts the tasks that had this thread id, from 1.
    pub incarnation: u32,
    /// The analysis's own.
    pub account: A,
}

impl<A> Row<A> {
    /// As events name it.
    #[inline]
    pub fn as_task(&self) -> Task {
        Task { tid: self.tid, name: self.name, prio: self.prio }
    }

    /// A wake-up; whether it is runnable by it. What was known before events were lost does not count.
    #[inline]
    pub fn wake(&mut self, time: TraceNs, waker: Tid, losses: u32) -> bool {
        let state = match self.state {
            State::Runnable { .. } if self.epoch != losses => State::Unknown,
            known => known,
        };
        let Some(next) = state.woken(time) else { return false };
        (self.state, self.epoch, self.waker) = (next, losses, waker);
        true
    }

    /// It leaves its CPU.
    #[inline]
    pub fn switch_out(&mut self, time: TraceNs, left: OffCpu, losses: u32) {
        (self.last_out, self.epoch) = (Some(time), losses);
        self.state = State::off(left, time);
    }

    /// It gets a CPU: how it waited, as far as no events were lost since.
    #[inline]
    pub fn switch_in(&mut self, time: TraceNs, losses: u32) -> Waited {
        let sure = self.epoch == losses;
        let (delay, woken) = match self.state {
            State::Runnable { since, woken } => (Some(time.since(since)).filter(|_| sure), woken),
            _ => (None, false),
        };
        let off = self.last_out.filter(|_| sure).map(|out| time.since(out));
        (self.state, self.epoch) = (State::Running, losses);
        Waited { delay, woken, off }
    }
}

/// Tasks of which a row is kept at the same time; the others share one.
const ROWS_MAX: usize = 1 << 18;
/// From so many on, the rows of ended tasks are given to new ones.
const ROWS_MANY: usize = 1 << 14;
/// Places of the cache of rows by thread id, a power of two.
const RECENT: usize = 1024;
/// No row.
const NONE: u32 = u32::MAX;

/// A task's row, and what an event told anew of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The row.
    pub row: usize,
    /// It is new.
    pub new: bool,
    /// It had another name.
    pub renamed: bool,
    /// It has another priority in the row.
    pub new_prio: bool,
}

/// The tasks of a trace.
#[derive(Clone, Debug)]
pub struct Tasks<A> {
    rows: Vec<Row<A>>,
    rows_of: IntMap<Tid, u32>,
    /// The rows that were looked up last, by the low bits of the thread id.
    recent: Box<[(Tid, u32)]>,
    free: Vec<usize>,
    others: Option<usize>,
    reused: IntMap<Tid, ()>,
}

impl<A> Default for Tasks<A> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            rows_of: IntMap::default(),
            recent: vec![(Tid(0), NONE); RECENT].into(),
            free: Vec::new(),
            others: None,
            reused: IntMap::default(),
        }
    }
}

impl<A: Default> Tasks<A> {
    /// All rows.
    pub fn rows(&self) -> &[Row<A>] {
        &self.rows
    }

    /// All rows, for good.
    pub fn into_rows(self) -> Vec<Row<A>> {
        self.rows
    }

    /// How many thread ids had more than one task.
    pub fn reused(&self) -> usize {
        self.reused.len()
    }

    /// Whether a thread id had more than one task.
    pub fn is_reused(&self, tid: Tid) -> bool {
        self.reused.contains_key(&tid)
    }

    /// The row of a thread id.
    #[inline]
    pub fn get(&mut self, tid: Tid) -> Option<usize> {
        let (known, row) = self.recent[tid.0 as usize % RECENT];
        if known == tid && row != NONE {
            return Some(row as usize);
        }
        let row = *self.rows_of.get(&tid)?;
        self.recent[tid.0 as usize % RECENT] = (tid, row);
        Some(row as usize)
    }

    /// The row of a task, known or new, with the name and the priority that the event gives, if any
    /// (`Symbol(0)`, `i32::MAX`: none). `epoch` is that of a new row.
    #[inline]
    pub fn find(&mut self, task: Task, epoch: u32) -> Found {
        match self.get(task.tid) {
            Some(row) if self.rows[row].state != State::Gone => {
                let known = &mut self.rows[row];
                let renamed = task.name != known.name && task.name != Symbol(0);
                if renamed {
                    known.name = task.name;
                }
                let new_prio = task.prio != known.prio && task.prio != i32::MAX;
                Found { row, new: false, renamed, new_prio }
            }
            known => {
                let row = self.create(task, known, epoch);
                Found { row, new: true, renamed: false, new_prio: false }
            }
        }
    }

    #[cold]
    fn create(&mut self, task: Task, old: Option<usize>, epoch: u32) -> usize {
        let incarnation = old.map_or(1, |old| self.rows[old].incarnation + 1);
        if old.is_some() {
            self.reused.insert(task.tid, ());
        }
        let Task { tid, name, prio } = task;
        let fresh = Row { tid, name, prio, epoch, incarnation, ..Row::default() };
        let row = if let Some(row) = self.free.pop() {
            self.rows[row] = fresh;
            row
        } else if self.rows.len() < ROWS_MAX {
            self.rows.push(fresh);
            self.rows.len() - 1
        } else if let Some(others) = self.others {
            others
        } else {
            self.others = Some(self.rows.len());
            self.rows.push(Row { tid: Tid(-1), prio, incarnation: 1, ..Row::default() });
            self.rows.len() - 1
        };
        self.rows_of.insert(tid, row as u32);
        self.recent[tid.0 as usize % RECENT] = (tid, row as u32);
        row
    }

    /// Marks a task as ended. Where there are many tasks and `may_go`, its row is free for another
    /// one, and what it was is returned.
    pub fn end(&mut self, row: usize, may_go: bool) -> Option<Row<A>> {
        self.rows[row].state = State::Gone;
        if self.rows.len() < ROWS_MANY || self.others == Some(row) || !may_go {
            return None;
        }
        let tid = self.rows[row].tid;
        if self.rows_of.get(&tid) == Some(&(row as u32)) {
            self.rows_of.remove(&tid);
            self.recent[tid.0 as usize % RECENT] = (tid, NONE);
        }
        self.free.push(row);
        Some(std::mem::take(&mut self.rows[row]))
    }
}

impl<A> Index<usize> for Tasks<A> {
    type Output = Row<A>;
    #[inline]
    fn index(&self, row: usize) -> &Row<A> {
        &self.rows[row]
    }
}

impl<A> IndexMut<usize> for Tasks<A> {
    #[inline]
    fn index_mut(&mut self, row: usize) -> &mut Row<A> {
        &mut self.rows[row]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: Task = Task { tid: Tid(7), name: Symbol(1), prio: 120 };

    #[test]
    fn a_task_waits_from_the_wake_up_to_the_switch() {
        let mut tasks = Tasks::<()>::default();
        let at = tasks.find(TASK, 0).row;
        let task = &mut tasks[at];
        task.switch_out(TraceNs(100), OffCpu::Blocked, 0);
        assert_eq!(task.state, State::Blocked);
        assert!(task.wake(TraceNs(150), Tid(3), 0) && !task.wake(TraceNs(160), Tid(4), 0));
        assert_eq!(task.waker, Tid(3));
        let waited = task.switch_in(TraceNs(170), 0);
        let [delay, off] = [20, 70].map(|ns| Some(Nanos(ns)));
        assert_eq!(waited, Waited { delay, woken: true, off });
        assert!(!task.wake(TraceNs(180), Tid(3), 0), "woken while it runs");
    }

    #[test]
    fn what_was_before_lost_events_is_not_counted() {
        let mut tasks = Tasks::<()>::default();
        let at = tasks.find(TASK, 0).row;
        tasks[at].switch_out(TraceNs(100), OffCpu::Runnable, 0);
        assert_eq!(tasks[at].switch_in(TraceNs(200), 1), Waited::default());
    }

    #[test]
    fn a_thread_id_that_is_used_again_is_another_task() {
        let mut tasks = Tasks::<u32>::default();
        let first = tasks.find(TASK, 0);
        tasks[first.row].account = 5;
        let again = tasks.find(Task { name: Symbol(2), prio: 99, ..TASK }, 0);
        assert_eq!(again, Found { row: first.row, new: false, renamed: true, new_prio: true });
        assert!(tasks.end(first.row, true).is_none());
        let second = tasks.find(TASK, 0).row;
        assert_ne!(second, first.row);
        assert_eq!((tasks[second].incarnation, tasks.reused()), (2, 1));
        assert_eq!(tasks.get(TASK.tid), Some(second));
    }

    #[test]
    fn rows_of_ended_tasks_are_used_again_where_there_are_many() {
        let mut tasks = Tasks::<()>::default();
        for tid in 1..100_000 {
            let row = tasks.find(Task { tid: Tid(tid), ..TASK }, 0).row;
            tasks.end(row, true);
            assert_eq!(tasks[row].state == State::Gone, tid < ROWS_MANY as i32);
        }
        assert!(tasks.rows().len() <= ROWS_MANY, "{}", tasks.rows().len());
    }
}
