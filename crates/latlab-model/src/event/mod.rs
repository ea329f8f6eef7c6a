//! The kernel event of all analyses, as plain data.
//!
//! Meanings are those of the kernel's tracepoints of the same names
//! (`include/trace/events/{sched,irq,timer,workqueue,power,lock}.h`,
//! `arch/x86/include/asm/trace/irq_vectors.h`). A kernel that lacks some of them yields fewer
//! kinds, never another meaning. An event is at most 48 bytes, is copied and never allocates: names and stacks are
//! [`Symbol`]s and [`StackId`]s of one [`Names`] table.

mod names;

pub use names::{Comm, Names, StackId, Symbol};

use crate::units::{CpuId, Nanos, Tid, TraceNs};

/// A task as a scheduling event names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Thread id; 0 is the idle task of each CPU.
    pub tid: Tid,
    /// Its `comm` at that moment.
    pub name: Symbol,
    /// The kernel's internal priority: below 0 deadline, 0–99 real-time
    /// (99 − `sched_priority`), 100–139 fair (120 + nice). Smaller runs first.
    pub prio: i32,
}

/// The state in which a task leaves its CPU (`prev_state` of `sched_switch`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OffCpu {
    /// Still runnable.
    Runnable,
    /// Still runnable, and the kernel reports a preemption (`R+`).
    Preempted,
    /// Interruptible sleep, or an idle kernel thread.
    Sleeping,
    /// Uninterruptible sleep (IO, a lock).
    Blocked,
    /// Stopped or traced.
    Stopped,
    /// Dead or a zombie.
    Dead,
}

impl OffCpu {
    /// From the kernel's bits (`TASK_REPORT`): those up to 0x80 are the same on all kernels, one
    /// above them means "preempted".
    #[inline]
    pub fn from_bits(state: u64) -> Self {
        match state & 0xff {
            0 if state >= 0x100 => Self::Preempted,
            0 => Self::Runnable,
            s if s & 0x30 != 0 => Self::Dead,
            s if s & 0x0c != 0 => Self::Stopped,
            s if s & 0x02 != 0 => Self::Blocked,
            _ => Self::Sleeping,
        }
    }

    /// Runnable or preempted.
    pub fn is_runnable(self) -> bool {
        matches!(self, Self::Runnable | Self::Preempted)
    }

    /// Waits for something, interruptibly or not.
    pub fn is_waiting(self) -> bool {
        matches!(self, Self::Sleeping | Self::Blocked)
    }

    /// Stopped or dead: what it had open on the CPU does not come back.
    pub fn is_gone(self) -> bool {
        matches!(self, Self::Stopped | Self::Dead)
    }
}

/// The softirq vectors by number (`include/linux/interrupt.h`).
pub const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// The name of a softirq vector.
pub fn softirq_name(vec: u32) -> &'static str {
    SOFTIRQS.get(vec as usize).copied().unwrap_or("unknown softirq")
}

/// Noise that the kernel's own tracers measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// A `hwlat` sample: no code of this kernel ran.
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

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time in the trace's clock.
    pub time: TraceNs,
    /// The CPU that recorded it.
    pub cpu: CpuId,
    /// The task that was current (`common_pid`).
    pub current: Tid,
    /// What happened.
    pub kind: EventKind,
}

/// What an event reports. Fields have the kernel's names.
#[expect(missing_docs, reason = "the kernel's own field names, documented with its tracepoints")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// Events of this CPU were lost just before its next event, which has the same time; `None`
    /// where the kernel did not count them.
    Lost { count: Option<u64> },
    /// `sched_switch`.
    Switch { prev: Task, state: OffCpu, next: Task },
    /// `sched_waking`: the task is to run; its CPU may still change. `in_interrupt`: an interrupt or softirq wakes it, as
    /// the record's flags have it, whoever was current; `false` also where they are not recorded.
    Waking { task: Task, target: CpuId, in_interrupt: bool },
    /// `sched_wakeup`: the task is on this CPU's run queue.
    Wakeup { task: Task, target: CpuId, in_interrupt: bool },
    /// `sched_wakeup_new`: a new task is on this CPU's run queue.
    WakeupNew { task: Task, target: CpuId },
    /// `sched_migrate_task`.
    Migrate { task: Task, from: CpuId, to: CpuId },
    /// `sched_process_fork`.
    Fork { child: Task },
    /// `task_rename`.
    Rename { tid: Tid, name: Symbol },
    /// `sched_stat_runtime`: CPU time charged to a task, and its virtual run time after it, ns (0: not told).
    Runtime { tid: Tid, ns: Nanos, vruntime: u64 },
    /// `sched_pi_setprio`: the task with its priority before, and its priority from now on.
    SetPrio { task: Task, new: i32 },
    /// `irq_handler_entry`.
    IrqEntry { irq: i32, name: Symbol },
    /// `irq_handler_exit`.
    IrqExit { irq: i32 },
    /// `irq_vectors:*_entry` (x86): an interrupt without an irq number.
    VectorEntry { name: Symbol },
    /// `irq_vectors:*_exit`.
    VectorExit { name: Symbol },
    /// `ipi_entry` (ARM), with its reason.
    IpiEntry { reason: Symbol },
    /// `ipi_exit`.
    IpiExit { reason: Symbol },
    /// An interrupt is sent to CPUs, or a function is queued for what the interrupt calls there (`ipi_raise`,
    /// `ipi_send_cpu`, `ipi_send_cpumask`, `csd_queue_cpu`): one bit for each of the first 64 CPUs; the
    /// function, or the reason where the kernel has that alone, empty for a reschedule interrupt.
    IpiSend { cpus: u64, function: Symbol },
    /// An NMI, where the kernel reports its handler with its length (`nmi_handler`), at its end.
    Nmi { length: Nanos },
    /// `softirq_raise`.
    SoftirqRaise { vec: u32 },
    /// `softirq_entry`.
    SoftirqEntry { vec: u32 },
    /// `softirq_exit`.
    SoftirqExit { vec: u32 },
    /// `timer_start`: `expires` and `now` in jiffies.
    TimerStart { timer: u64, function: Symbol, expires: u64, now: u64 },
    /// `timer_cancel`.
    TimerCancel { timer: u64 },
    /// `timer_expire_entry`: `now` in jiffies.
    TimerEntry { timer: u64, function: Symbol, now: u64 },
    /// `timer_expire_exit`.
    TimerExit { timer: u64 },
    /// `hrtimer_start`: `expires` and `softexpires` in ns of the timer's clock, `relative`: set to a time from now
    /// on, where the kernel tells the mode.
    HrtimerStart { timer: u64, function: Symbol, relative: bool, expires: i64, softexpires: i64 },
    /// `hrtimer_cancel`.
    HrtimerCancel { timer: u64 },
    /// `hrtimer_expire_entry`; `now` in ns of the timer's clock, `preempt_off`: its interrupt came while
    /// preemption was off.
    HrtimerEntry { timer: u64, function: Symbol, now: i64, preempt_off: bool },
    /// `hrtimer_expire_exit`.
    HrtimerExit { timer: u64 },
    /// `tick_stop`: whether the tick was stopped, and what needs it otherwise (`TICK_DEP_*`).
    TickStop { stopped: bool, dependency: u32 },
    /// `workqueue_execute_start`.
    WorkStart { work: u64, function: Symbol },
    /// `workqueue_execute_end`.
    WorkEnd { work: u64 },
    /// `cpu_idle`: the state entered, or `None` for leaving.
    Idle { state: Option<u32> },
    /// `cpu_frequency`.
    Frequency { cpu: CpuId, khz: u32 },
    /// `funcgraph_entry`.
    FunctionEntry { function: Symbol, depth: u32 },
    /// `funcgraph_exit`; `called` is the time of the call, 0 where it is unknown.
    FunctionExit { function: Symbol, depth: u32, called: TraceNs, length: Nanos },
    /// A call that the tracer `function` recorded.
    FunctionCall { function: Symbol, parent: Symbol },
    /// `irq_disable` and `irq_enable`.
    IrqsOff { off: bool },
    /// `preempt_disable` and `preempt_enable`.
    PreemptOff { off: bool },
    /// A page fault of the current task.
    PageFault { user: bool, address: u64 },
    /// `contention_begin`.
    LockBegin { lock: u64 },
    /// `contention_end`.
    LockEnd { lock: u64 },
    /// Entry to a system call; `yields`: it is `sched_yield`, `futex`: a futex call, as far as the event
    /// has a name.
    SyscallEnter { nr: i64, yields: bool, futex: bool },
    /// Return from a system call to user space.
    SyscallExit { nr: i64 },
    /// `kernel_stack`, which belongs to the event before it on this CPU.
    Stack { stack: StackId },
    /// Noise that the kernel itself measured (osnoise, hwlat), at its end.
    Noise { source: Noise, name: Symbol, length: Nanos },
    /// A sample of the kernel's own measuring thread (timerlat): 0 in its timer's interrupt, 1 in
    /// the thread, 2 in user space; the name of the task that had the CPU.
    Timerlat { context: u32, latency: Nanos, current: Symbol },
    /// Text written to `trace_marker`.
    Marker { text: Symbol },
    /// Any other event: it shows that the CPU was running.
    Other,
}

impl EventKind {
    /// The task that an event wakes, and for which CPU.
    pub fn wakes(&self) -> Option<(Task, CpuId)> {
        match *self {
            Self::Waking { task, target, .. }
            | Self::Wakeup { task, target, .. }
            | Self::WakeupNew { task, target } => Some((task, target)),
            _ => None,
        }
    }

    /// Whether an interrupt or softirq wakes a task with it, as the record's flags have it.
    pub fn in_interrupt(&self) -> bool {
        matches!(
            self,
            Self::Waking { in_interrupt: true, .. } | Self::Wakeup { in_interrupt: true, .. }
        )
    }

    /// Whether it wakes this task.
    pub fn is_waking(&self, tid: Tid) -> bool {
        self.wakes().is_some_and(|(task, _)| task.tid == tid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Captures hold millions of them.
    #[test]
    fn an_event_is_small() {
        assert_eq!((size_of::<EventKind>(), size_of::<Event>()), (32, 48));
    }

    #[test]
    fn states_are_told_by_their_bits() {
        use OffCpu::{Blocked, Dead, Preempted, Runnable, Sleeping, Stopped};
        let bits = [0, 0x100, 1, 2, 0x80, 4, 8, 0x10, 0x20, 0x402];
        assert_eq!(
            bits.map(OffCpu::from_bits),
            [
                Runnable, Preempted, Sleeping, Blocked, Sleeping, Stopped, Stopped, Dead, Dead,
                Blocked
            ]
        );
    }
}
