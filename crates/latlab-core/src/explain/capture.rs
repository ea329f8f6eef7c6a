//! The events round one late wake-up, as plain data.
//!
//! Event meanings follow the kernel's tracepoints of the same names
//! (`include/trace/events/{sched,irq,timer,workqueue,power,lock}.h`,
//! `arch/x86/include/asm/trace/irq_vectors.h`); a kernel that lacks some of
//! them yields a capture with fewer kinds, never another meaning.

use crate::units::{CpuId, Nanos, Tid, TraceNs};
use std::collections::HashMap;
use std::sync::Arc;

/// An interned name: of a function, an interrupt, a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(pub u32);

/// Interned names. Symbol 0 is the empty name.
#[derive(Clone, Debug)]
pub struct Names {
    names: Vec<String>,
    index: HashMap<String, Symbol>,
}

impl Default for Names {
    fn default() -> Self {
        Self { names: vec![String::new()], index: HashMap::from([(String::new(), Symbol(0))]) }
    }
}

impl Names {
    /// The symbol of a name, new or known.
    pub fn intern(&mut self, name: &str) -> Symbol {
        if let Some(&known) = self.index.get(name) {
            return known;
        }
        let symbol = Symbol(self.names.len() as u32);
        self.names.push(name.to_owned());
        self.index.insert(name.to_owned(), symbol);
        symbol
    }
    /// The name of a symbol; empty for a symbol of another table.
    pub fn get(&self, symbol: Symbol) -> &str {
        self.names.get(symbol.0 as usize).map_or("", String::as_str)
    }
}

/// A task as a scheduling event names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Thread id; 0 is the idle task.
    pub tid: Tid,
    /// Its `comm`.
    pub name: Symbol,
    /// The kernel's internal priority: below 0 deadline, 0–99 real-time
    /// (99 − `sched_priority`), 100–139 fair. Smaller runs first.
    pub prio: i32,
}

/// Why a task left its CPU (`prev_state` of `sched_switch`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftAs {
    /// Still runnable: preempted or yielded.
    Runnable,
    /// Sleeping (interruptible, or idle kernel thread).
    Sleeping,
    /// Waiting uninterruptibly (a lock, IO).
    Blocked,
    /// Gone (dead, zombie) or stopped.
    Gone,
}

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When.
    pub time: TraceNs,
    /// On which CPU.
    pub cpu: CpuId,
    /// The task that was current (`common_pid`).
    pub tid: Tid,
    /// What.
    pub what: What,
}

/// What an event says. Fields bear the names that the kernel gives them.
#[allow(missing_docs, reason = "the kernel's own field names, documented with its tracepoints")]
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum What {
    /// `sched_switch`.
    Switch { prev: Task, left_as: LeftAs, next: Task },
    /// `sched_waking`: someone wants this task to run.
    Waking { task: Task, target: CpuId },
    /// `sched_wakeup`, `sched_wakeup_new`: it is on a run queue.
    Wakeup { task: Task, target: CpuId },
    /// `sched_migrate_task`.
    Migrate { tid: Tid, from: CpuId, to: CpuId },
    /// `sched_pi_setprio`: priority inheritance changed a priority.
    SetPrio { tid: Tid, old: i32, new: i32 },
    /// `irq_handler_entry`.
    IrqEntry { irq: i32, name: Symbol },
    /// `irq_handler_exit`.
    IrqExit { irq: i32 },
    /// `irq_vectors:*_entry`, `ipi_entry`: an interrupt without an irq number.
    VectorEntry { name: Symbol },
    /// `irq_vectors:*_exit`, `ipi_exit`.
    VectorExit { name: Symbol },
    /// An NMI, where the kernel reports its handler with its length (`nmi_handler`), at its end.
    Nmi { length: Nanos },
    /// `softirq_raise`.
    SoftirqRaise { vec: u32 },
    /// `softirq_entry`.
    SoftirqEntry { vec: u32 },
    /// `softirq_exit`.
    SoftirqExit { vec: u32 },
    /// `hrtimer_start`: `expires` and `softexpires` in ns of the timer's clock.
    HrtimerStart { timer: u64, function: Symbol, expires: i64, softexpires: i64 },
    /// `hrtimer_expire_entry`; `now` in ns of the timer's clock.
    HrtimerEntry { timer: u64, function: Symbol, now: i64 },
    /// `hrtimer_expire_exit`.
    HrtimerExit { timer: u64 },
    /// `timer_expire_entry`.
    TimerEntry { timer: u64, function: Symbol },
    /// `timer_expire_exit`.
    TimerExit { timer: u64 },
    /// `workqueue_execute_start`.
    WorkStart { function: Symbol },
    /// `workqueue_execute_end`.
    WorkEnd,
    /// `cpu_idle`: the state entered, or `None` for leaving.
    Idle { state: Option<u32> },
    /// `funcgraph_entry`.
    FunctionEntry { function: Symbol, depth: u32 },
    /// `funcgraph_exit`, with the time of the call where it is known.
    FunctionExit { function: Symbol, depth: u32, called: Option<TraceNs> },
    /// `irq_disable` / `irq_enable` (preemptirq).
    IrqsOff { off: bool, caller: Symbol },
    /// `preempt_disable` / `preempt_enable` (preemptirq).
    PreemptOff { off: bool, caller: Symbol },
    /// A page fault taken by the current task.
    PageFault { user: bool, address: u64 },
    /// `contention_begin`.
    LockBegin { lock: u64, caller: Symbol },
    /// `contention_end`.
    LockEnd { lock: u64 },
    /// `cpu_frequency`.
    Frequency { khz: u64 },
    /// Entry to a system call.
    SyscallEnter { nr: i64 },
    /// Return from a system call to user space.
    SyscallExit { nr: i64 },
    /// `kernel_stack` that belongs to the event before it on this CPU, innermost first.
    Stack { frames: Arc<[Symbol]> },
    /// Noise that the kernel itself measured (osnoise, hwlat), at its end.
    Noise { kind: Noise, name: Symbol, length: Nanos },
    /// The kernel's own measuring thread (timerlat): 0 in its timer's interrupt, 1 in the thread, 2 in
    /// user space; who had the CPU.
    Timerlat { context: u32, latency: Nanos, current: Symbol },
    /// Text from `trace_marker`.
    Marker { text: String },
    /// Any other event: it shows that the CPU was running.
    Other { name: Symbol },
}

/// Whose noise the kernel's own tracers measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// `hwlat` sample, or osnoise's hardware residual: no code of this kernel ran.
    Hardware,
    /// `osnoise:nmi_noise`.
    Nmi,
    /// `osnoise:irq_noise`.
    Irq,
    /// `osnoise:softirq_noise`.
    Softirq,
    /// `osnoise:thread_noise`.
    Thread,
}

/// Events that the ring buffer dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// On which CPU.
    pub cpu: CpuId,
    /// Last event before the hole.
    pub from: TraceNs,
    /// First event after it.
    pub to: TraceNs,
    /// How many, where the kernel counted.
    pub count: Option<u64>,
}

/// A window of a trace with the wake-ups in it.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    /// The file it came from.
    pub source: String,
    /// Kernel release, where the file says: captures of different kernels are not mixed.
    pub kernel: Option<String>,
    /// Names of all symbols.
    pub names: Names,
    /// Rising in time (per CPU strictly so as the file had them).
    pub events: Vec<Event>,
    /// CPUs that were recorded.
    pub cpus: Vec<CpuId>,
    /// Whether the trace's clock is CLOCK_MONOTONIC, the clock of the sleepers' timers.
    pub clock_is_monotonic: bool,
    /// What was dropped.
    pub lost: Vec<Lost>,
    /// From when on every CPU's buffer holds everything.
    pub covered_from: TraceNs,
    /// Wake-ups of measured tasks, late and on time.
    pub activations: Vec<Activation>,
    /// What was odd when they were looked for, in sentences.
    pub notes: Vec<String>,
}

/// One wake-up of a measured task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activation {
    /// The task.
    pub tid: Tid,
    /// The CPU that it ran on when it read its clock, where known.
    pub cpu: CpuId,
    /// When it wanted to run.
    pub intended: TraceNs,
    /// When it did, by its own clock.
    pub actual: TraceNs,
    /// Over the limit.
    pub late: bool,
}

impl Activation {
    /// Intended to actual time.
    pub fn latency(&self) -> Nanos {
        self.actual.since(self.intended)
    }
}
