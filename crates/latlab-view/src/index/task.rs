//! One task's states over time: put together from all CPUs when it is asked for.

use super::column::{Item, Items, Left, Spans};
use super::cpu_lanes::CpuLanes;
use super::fold::Wake;
use latlab_analysis::timeline::task;
use latlab_model::event::OffCpu;
use latlab_model::units::TraceNs;

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

impl State {
    fn of(state: task::State) -> Self {
        match state {
            task::State::Running => Self::Running,
            task::State::Runnable { .. } => Self::Waiting,
            task::State::Sleeping => Self::Sleeping,
            task::State::Blocked => Self::Blocked,
            task::State::Stopped | task::State::Gone => Self::Gone,
            task::State::New | task::State::Unknown => Self::Unknown,
        }
    }
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
        let mut now: Option<(u64, task::State)> = None;
        let mut cpu = 0;
        for (time, _, step) in steps {
            let before = now.map_or(task::State::Unknown, |(_, state)| state);
            let at = TraceNs(time);
            let state = match step {
                Step::Run(_) => task::State::Running,
                Step::Wake => match before.woken(at) {
                    Some(state) => state,
                    None => continue,
                },
                Step::Leave(Left::Runnable) => task::State::off(OffCpu::Runnable, at),
                Step::Leave(Left::Sleeping) => task::State::off(OffCpu::Sleeping, at),
                Step::Leave(Left::Blocked) => task::State::off(OffCpu::Blocked, at),
                // Stopped or dead: a wake-up tells which.
                Step::Leave(Left::Gone) => task::State::off(OffCpu::Stopped, at),
                Step::Leave(Left::Unknown) => task::State::Unknown,
            };
            if let Some((start, before)) = now {
                if State::of(before) == State::of(state) && !matches!(step, Step::Run(_)) {
                    continue;
                }
                lane.put(start, time, State::of(before), cpu);
            }
            if let Step::Run(on) = step {
                cpu = on;
            }
            now = Some((time, state));
        }
        if let Some((start, state)) = now {
            lane.put(start, end, State::of(state), cpu);
        }
        lane
    }

    fn put(&mut self, start: u64, end: u64, state: State, cpu: u32) {
        if end > start {
            self.spans.push(Item { start, end, id: state as u32, aux: cpu });
        }
    }
}
