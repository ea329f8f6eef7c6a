//! One task's states over time: put together from all CPUs when it is asked for.

use super::column::{Item, Items, Left, Spans};
use super::cpu_lanes::CpuLanes;
use super::fold::Wake;

/// What a task is doing; `id` of its lane's items. `aux` is the CPU, where it runs or ran last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Has a CPU.
    Running = 0,
    /// Runnable, waiting for a CPU.
    Waiting = 1,
    /// Sleeping.
    Sleeping = 2,
    /// Waiting uninterruptibly: a lock, I/O.
    Blocked = 3,
    /// Ended.
    Gone = 4,
    /// No event says.
    Unknown = 5,
}

/// The states of one task.
#[derive(Debug, Default)]
pub struct TaskLane {
    /// In order, without gaps from its first to its last event.
    pub spans: Spans,
}

#[derive(Clone, Copy)]
enum Step {
    Run(u32),
    Leave(Left),
    Wake,
}

impl TaskLane {
    /// The states of `pid`, from the lanes of all CPUs and the wake-ups in order of time; the last
    /// state lasts until `end`.
    pub fn of(cpus: &[CpuLanes], wakes: &[Wake], end: u64, pid: i32) -> Self {
        let mut steps: Vec<(u64, u8, Step)> = Vec::new();
        for c in cpus {
            for (i, p) in c.runs.pid.iter().enumerate() {
                if *p == pid {
                    let item = c.runs.get(i);
                    steps.push((item.start, 2, Step::Run(c.cpu)));
                    if i + 1 < c.runs.len() {
                        steps.push((item.end, 0, Step::Leave(c.runs.left[i + 1])));
                    }
                }
            }
        }
        for w in wakes.iter().filter(|w| w.pid == pid) {
            steps.push((w.time, 1, Step::Wake));
        }
        steps.sort_by_key(|s| (s.0, s.1));
        let mut lane = Self::default();
        let mut now: Option<(u64, State)> = None;
        let mut cpu = 0;
        for (time, _, step) in steps {
            let state = match step {
                Step::Run(_) => State::Running,
                // Woken while it runs: it was on its way to sleep, or it was no real wake-up.
                Step::Wake if matches!(now, Some((_, State::Running))) => continue,
                Step::Wake => State::Waiting,
                Step::Leave(Left::Runnable) => State::Waiting,
                Step::Leave(Left::Sleeping) => State::Sleeping,
                Step::Leave(Left::Blocked) => State::Blocked,
                Step::Leave(Left::Gone) => State::Gone,
                Step::Leave(Left::Unknown) => State::Unknown,
            };
            if let Some((start, before)) = now {
                if before == state && !matches!(step, Step::Run(_)) {
                    continue;
                }
                lane.put(start, time, before, cpu);
            }
            if let Step::Run(on) = step {
                cpu = on;
            }
            now = Some((time, state));
        }
        if let Some((start, state)) = now {
            lane.put(start, end, state, cpu);
        }
        lane
    }

    fn put(&mut self, start: u64, end: u64, state: State, cpu: u32) {
        if end > start {
            self.spans.push(Item { start, end, id: state as u32, aux: cpu });
        }
    }
}
