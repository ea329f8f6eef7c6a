//! Scripted captures for tests: a few words an event, times in microseconds.

use super::capture::{Activation, Capture, End};
use latlab_model::event::{Event, EventKind, Names, OffCpu, Symbol, Task};
use latlab_model::units::{CpuId, Tid, TraceNs};

/// The measured task.
pub const RT: Task = Task { tid: Tid(100), name: Symbol(1), prio: 9 };
/// An ordinary task.
pub const FAIR: Task = Task { tid: Tid(200), name: Symbol(2), prio: 120 };
/// A real-time task above the measured one.
pub const HIGH: Task = Task { tid: Tid(300), name: Symbol(3), prio: 4 };
/// The idle task.
pub const IDLE: Task = Task { tid: Tid(0), name: Symbol(4), prio: 120 };

/// A capture that is being written.
pub struct Script {
    /// The capture so far.
    pub capture: Capture,
    current: std::collections::HashMap<CpuId, Tid>,
}

impl Default for Script {
    fn default() -> Self {
        let mut names = Names::default();
        for name in ["measured", "worker", "urgent", "swapper", "local_timer", "hrtimer_wakeup"] {
            names.intern(name);
        }
        let capture = Capture { names, clock_is_monotonic: true, ..Capture::default() };
        Self { capture, current: std::collections::HashMap::new() }
    }
}

impl Script {
    /// Interns a name.
    pub fn name(&mut self, name: &str) -> Symbol {
        self.capture.names.intern(name)
    }

    /// Adds an event at `us` on CPU 0.
    pub fn at(&mut self, us: f64, kind: EventKind) -> &mut Self {
        self.on(0, us, kind)
    }

    /// Adds an event on CPU 0 that names another current task than the switches so far do.
    pub fn by(&mut self, task: Task, us: f64, kind: EventKind) -> &mut Self {
        self.at(us, kind);
        if let Some(last) = self.capture.events.last_mut() {
            last.current = task.tid;
        }
        self
    }

    /// Adds an event on a CPU.
    pub fn on(&mut self, cpu: u32, us: f64, kind: EventKind) -> &mut Self {
        let cpu = CpuId(cpu);
        let tid = match kind {
            EventKind::Switch { prev, .. } => prev.tid,
            _ => self.current.get(&cpu).copied().unwrap_or(Tid(0)),
        };
        if let EventKind::Switch { next, .. } = kind {
            self.current.insert(cpu, next.tid);
        }
        let time = TraceNs((us * 1000.0) as u64);
        self.capture.events.push(Event { time, cpu, current: tid, kind });
        if !self.capture.cpus.contains(&cpu) {
            self.capture.cpus.push(cpu);
        }
        self
    }

    /// A switch from one task to another, the first sleeping.
    pub fn switch(&mut self, us: f64, prev: Task, next: Task) -> &mut Self {
        self.at(us, EventKind::Switch { prev, state: OffCpu::Sleeping, next })
    }

    /// A switch from a task that could run on.
    pub fn preempt(&mut self, us: f64, prev: Task, next: Task) -> &mut Self {
        self.at(us, EventKind::Switch { prev, state: OffCpu::Runnable, next })
    }

    /// The ordinary timer interrupt from `us` on: entry, +1 expiry, +2 waking, +3 expiry's end, +4 exit.
    pub fn timer(&mut self, us: f64) -> &mut Self {
        let (vector, function) = (self.name("local_timer"), self.name("hrtimer_wakeup"));
        self.at(us, EventKind::VectorEntry { name: vector })
            .at(
                us + 1.0,
                EventKind::HrtimerEntry { timer: 7, function, now: 0, preempt_off: false },
            )
            .at(us + 2.0, EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false })
            .at(us + 3.0, EventKind::HrtimerExit { timer: 7 })
            .at(us + 4.0, EventKind::VectorExit { name: vector })
    }

    /// The softirq of the timers in a thread, from `us` on: entry, +1 expiry, +2 waking of `task`, +3 expiry's end, +4 exit.
    pub fn timer_softirq(&mut self, us: f64, task: Task) -> &mut Self {
        let function = self.name("hrtimer_wakeup");
        self.at(us, EventKind::SoftirqEntry { vec: 8 })
            .at(
                us + 1.0,
                EventKind::HrtimerEntry { timer: 7, function, now: 0, preempt_off: false },
            )
            .at(us + 2.0, EventKind::Waking { task, target: CpuId(0), in_interrupt: false })
            .at(us + 3.0, EventKind::HrtimerExit { timer: 7 })
            .at(us + 4.0, EventKind::SoftirqExit { vec: 8 })
    }

    /// Declares a wake-up of the measured task.
    pub fn wakes(&mut self, intended_us: f64, actual_us: f64, late: bool) -> Activation {
        let ns = |us: f64| TraceNs((us * 1000.0) as u64);
        let (intended, actual) = (ns(intended_us), ns(actual_us));
        let end = End::Clock;
        let (tid, cpu, called, began) = (RT.tid, CpuId(0), false, None);
        let activation = Activation { tid, cpu, intended, actual, end, late, called, began };
        self.capture.activations.push(activation);
        activation
    }
}
