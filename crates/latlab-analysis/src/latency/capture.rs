//! The events round one late wake-up, as plain data.

use latlab_model::event::{Event, EventKind, Names};
#[cfg(feature = "host")]
use latlab_model::event::{StackId, Symbol};
use latlab_model::finding::Note;
#[cfg(feature = "host")]
use latlab_model::latency::UserFrame;
use latlab_model::units::{CpuId, Nanos, Tid, TraceNs};
#[cfg(feature = "host")]
use latlab_trace::names::IntMap;
#[cfg(feature = "host")]
use std::collections::HashMap;

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

/// Kinds of events that occur: where one does not, nothing looks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// Latencies that the kernel measured.
    pub timerlat: bool,
    /// Returns from system calls.
    pub returns: bool,
    /// Interrupts or preemption switched off or on.
    pub sections: bool,
    /// Samples of the osnoise and hwlat tracers.
    pub noise: bool,
    /// Stacks.
    pub stacks: bool,
    /// Interrupts without a number, among them those of other CPUs.
    pub vectors: bool,
    /// Functions of high-resolution timers.
    pub hrtimers: bool,
}

impl Kinds {
    /// Adds an event's kind.
    #[inline]
    pub fn add(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Timerlat { .. } => self.timerlat = true,
            EventKind::SyscallExit { .. } => self.returns = true,
            EventKind::IrqsOff { .. } | EventKind::PreemptOff { .. } => self.sections = true,
            EventKind::Noise { .. } => self.noise = true,
            EventKind::Stack { .. } => self.stacks = true,
            EventKind::VectorEntry { .. } | EventKind::IpiEntry { .. } => self.vectors = true,
            EventKind::HrtimerEntry { .. } => self.hrtimers = true,
            _ => {}
        }
    }
}

/// User stacks that were sampled when threads left their CPUs.
#[cfg(feature = "host")]
#[derive(Clone, Debug, Default)]
pub struct UserSamples {
    /// Of each thread, rising in time.
    pub threads: IntMap<Tid, Vec<(TraceNs, StackId)>>,
    /// What is known of their functions.
    pub frames: HashMap<Symbol, UserFrame>,
}

/// A window of a trace with the wake-ups in it.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    /// The file it came from.
    pub source: String,
    /// Number in its capture session, as the marker has it.
    pub number: Option<u32>,
    /// Kernel release, where the file says: captures of different kernels are not mixed.
    pub kernel: Option<String>,
    /// Whether that kernel is PREEMPT_RT, where the file says.
    pub preempt_rt: Option<bool>,
    /// Names of all symbols.
    pub names: Names,
    /// Rising in time (per CPU strictly so as the file had them).
    pub events: Vec<Event>,
    /// Kinds of these events, where they were noted as the events were read.
    pub kinds: Option<Kinds>,
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
    /// Threads of latlab that recorded it, as its marker has them; the measured ones are among them.
    pub recorders: Vec<Tid>,
    /// User stacks that were recorded beside it; boards record none.
    #[cfg(feature = "host")]
    pub user_stacks: UserSamples,
    /// Irregularities of the wake-ups and their markers.
    pub notes: Vec<Note>,
}

/// Events of all CPUs that a search for a state of one CPU looks at, at most.
const BACK: usize = 1 << 18;

impl Capture {
    /// Events in `[from, to]`.
    pub fn within(&self, from: TraceNs, to: TraceNs) -> &[Event] {
        let first = self.events.partition_point(|e| e.time < from);
        let last = self.events.partition_point(|e| e.time <= to);
        &self.events[first..last.max(first)]
    }

    /// A CPU's events in `[from, to]`, the last one first.
    pub fn back(&self, cpu: CpuId, from: TraceNs, to: TraceNs) -> impl Iterator<Item = &Event> {
        self.within(from, to).iter().rev().filter(move |e| e.cpu == cpu)
    }

    /// A CPU's events up to `to`, the last one first, as far back as a search for its state goes.
    pub fn before(&self, cpu: CpuId, to: TraceNs) -> impl Iterator<Item = &Event> {
        let last = self.events.partition_point(|e| e.time <= to);
        self.events[..last].iter().rev().take(BACK).filter(move |e| e.cpu == cpu)
    }

    /// Kinds of the events.
    pub fn kinds(&self) -> Kinds {
        self.kinds.unwrap_or_else(|| {
            let mut kinds = Kinds::default();
            self.events.iter().for_each(|e| kinds.add(&e.kind));
            kinds
        })
    }
}

/// The event at which a wake-up is taken to have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// `sched_switch` to the task.
    Switch,
    /// Its return from the system call.
    Syscall,
    /// The task's own clock reading, or what it wrote at once.
    Clock,
    /// The end of the activation: the task sleeps until the next one.
    Completion,
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
    /// When it did.
    pub actual: TraceNs,
    /// By what.
    pub end: End,
    /// Over the limit.
    pub late: bool,
    /// Another thread wakes the task, by a system call that begins at the intended time.
    pub called: bool,
    /// Where the whole activation is measured: when the task was woken for it and when it began.
    pub began: Option<Began>,
}

/// The beginning of an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Began {
    /// `sched_waking`, or when the task went on without a sleep.
    pub woken: TraceNs,
    /// The first switch to the task.
    pub start: TraceNs,
    /// The end of the activation before, where it is after the intended time.
    pub after: Option<TraceNs>,
    /// An event of another task begins it, whatever the task does at that moment.
    pub by_event: bool,
}

impl Activation {
    /// Intended to actual time.
    pub fn latency(&self) -> Nanos {
        self.actual.since(self.intended)
    }
}
