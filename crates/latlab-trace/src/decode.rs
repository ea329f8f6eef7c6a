//! Records as [`latlab_model::event::Event`]s: each is decoded once, for all analyses.
//!
//! [`crate::events`] reads the fields of a record; this module gives them the model's meaning and
//! interns their names. Kinds of events that no analysis at hand wants are not decoded: they
//! come as [`EventKind::Other`], with time, CPU and current task.

use crate::events::{Common, Decoder, Typed};
use crate::names::{IntHasher, IntMap};
use crate::ring::{self, Missed};
use crate::{Diagnostics, Select, TraceFile};
use latlab_model::event::{
    Comm, Event, EventKind, Names, Noise, OffCpu, StackId, Symbol, Task, softirq_name,
};
use latlab_model::units::{CpuId, Nanos, Tid, TraceNs};
use std::hash::Hasher;
use std::ops::{BitOr, ControlFlow};

/// The bit of a relative time in an hrtimer's mode (`include/linux/hrtimer.h`).
const HRTIMER_MODE_REL: u32 = 1;

/// Groups of kinds of events, for an analysis to say which it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups(u16);

impl Groups {
    /// Switches.
    pub const SWITCH: Self = Self(1);
    /// Wake-ups, migrations, forks, names, run time, priorities, `sched_yield`.
    pub const SCHED: Self = Self(2);
    /// Interrupts and softirqs.
    pub const INTERRUPT: Self = Self(4);
    /// Calls of timer functions.
    pub const EXPIRY: Self = Self(4096);
    /// Settings of timers, and the tick.
    pub const TIMER: Self = Self(8);
    /// Work items.
    pub const WORK: Self = Self(16);
    /// Functions of the tracer `function_graph`.
    pub const FUNCTION: Self = Self(32);
    /// Markers.
    pub const MARKER: Self = Self(64);
    /// Frequency.
    pub const FREQUENCY: Self = Self(128);
    /// System calls.
    pub const SYSCALL: Self = Self(256);
    /// Everything else that has a meaning: idle states, page faults, locks, stacks, noise.
    pub const REST: Self = Self(512);
    /// `task_rename`.
    pub const RENAME: Self = Self(1024);
    /// `sched_waking`, `sched_wakeup` and `sched_wakeup_new`.
    pub const WAKE: Self = Self(2048);
    /// Calls of the tracer `function`.
    pub const CALL: Self = Self(8192);
    /// All.
    pub const ALL: Self = Self(u16::MAX);

    fn of(system: &str, name: &str) -> Self {
        match name {
            "sched_switch" => Self::SWITCH,
            "sched_waking" | "sched_wakeup" | "sched_wakeup_new" => Self::WAKE,
            "task_rename" => Self::RENAME,
            "sched_migrate_task"
            | "sched_process_fork"
            | "sched_stat_runtime"
            | "sched_pi_setprio"
            | "sys_enter_sched_yield" => Self::SCHED,
            "irq_handler_entry" | "irq_handler_exit" | "ipi_entry" | "ipi_exit" | "ipi_raise"
            | "ipi_send_cpu" | "ipi_send_cpumask" | "csd_queue_cpu" | "softirq_raise"
            | "softirq_entry" | "softirq_exit" => Self::INTERRUPT,
            "funcgraph_entry" | "funcgraph_exit" => Self::FUNCTION,
            "function" if system == "ftrace" => Self::CALL,
            "print" => Self::MARKER,
            "cpu_frequency" => Self::FREQUENCY,
            "tick_stop" => Self::TIMER,
            _ if system == "irq_vectors" => Self::INTERRUPT,
            "timer_expire_entry"
            | "timer_expire_exit"
            | "hrtimer_expire_entry"
            | "hrtimer_expire_exit" => Self::EXPIRY,
            _ if name.starts_with("timer_") || name.starts_with("hrtimer_") => Self::TIMER,
            _ if name.starts_with("workqueue_") => Self::WORK,
            _ if system == "raw_syscalls" || system == "syscalls" => Self::SYSCALL,
            _ => Self::REST,
        }
    }
}

impl BitOr for Groups {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Places of the cache of task names, a power of two.
const COMMS: usize = 1024;
/// Stacks that are known again when they come again; those behind them are stored each time.
const STACKS_MAX: usize = 1 << 16;

/// Decodes the records of one trace; holds the names that its events refer to.
#[derive(Debug)]
pub struct EventDecoder<'a> {
    fields: Decoder,
    /// By number of the event.
    wanted: Vec<bool>,
    meaning: Meaning<'a>,
    /// Least depth of disabled preemption at an hrtimer's function in a hard interrupt: some kernels
    /// count the tracepoint itself.
    least_depth: u8,
}

impl<'a> EventDecoder<'a> {
    /// For the events of a file that are in `groups`.
    pub fn new(file: &'a TraceFile<'a>, groups: Groups) -> Self {
        let mut wanted = Vec::new();
        for format in file.formats.iter() {
            let at = usize::from(format.id);
            if wanted.len() <= at {
                wanted.resize(at + 1, false);
            }
            wanted[at] = groups.0 & Groups::of(&format.system, &format.name).0 != 0;
        }
        let meaning = Meaning::new(file, wanted.len());
        Self { fields: Decoder::new(file), wanted, meaning, least_depth: u8::MAX }
    }

    /// The names so far.
    pub fn names(&self) -> &Names {
        &self.meaning.names
    }

    /// The names in the end.
    pub fn into_names(self) -> Names {
        self.meaning.names
    }

    /// Whether events of this number are decoded.
    #[inline]
    pub fn wants(&self, id: u16) -> bool {
        self.wanted.get(usize::from(id)) == Some(&true)
    }

    /// The loss that a record reports, as the event before it.
    #[inline]
    pub fn lost(&self, record: &ring::Event<'_>) -> Option<Event> {
        let count = match record.missed {
            Missed::No => return None,
            Missed::Unknown => None,
            Missed::Count(n) => Some(n),
        };
        Some(self.event(record, EventKind::Lost { count }))
    }

    /// One record.
    #[inline]
    pub fn decode(&mut self, record: &ring::Event<'_>) -> Event {
        let mut kind = if self.wants(record.id) {
            self.meaning.of(record, self.fields.decode(record))
        } else {
            EventKind::Other
        };
        match &mut kind {
            EventKind::HrtimerEntry { preempt_off, .. } => {
                *preempt_off = self.is_preempt_off(record);
            }
            EventKind::Waking { in_interrupt, .. } | EventKind::Wakeup { in_interrupt, .. } => {
                let interrupts = Common::HARDIRQ | Common::SOFTIRQ | Common::NMI;
                *in_interrupt = self.fields.common(record).flags & interrupts != 0;
            }
            _ => {}
        }
        self.event(record, kind)
    }

    /// Whether what an hrtimer's hard interrupt interrupted had preemption off. No lock is held at its
    /// `hrtimer_expire_entry`, so that a depth beyond the least one is the interrupted code's.
    fn is_preempt_off(&mut self, record: &ring::Event<'_>) -> bool {
        let common = self.fields.common(record);
        let depth = common.preempt_count & 0xf;
        if common.flags & Common::HARDIRQ == 0 {
            return false;
        }
        self.least_depth = self.least_depth.min(depth);
        depth > self.least_depth
    }

    #[inline]
    fn event(&self, record: &ring::Event<'_>, kind: EventKind) -> Event {
        let (time, cpu) = (TraceNs(record.time), CpuId(record.cpu));
        Event { time, cpu, current: Tid(self.fields.pid(record)), kind }
    }

    /// The name of a function by its address: its symbol with its module, or the address.
    pub fn function(&mut self, address: u64) -> Symbol {
        self.meaning.function(address)
    }
}

/// What fields mean, and the names in them.
#[derive(Debug)]
struct Meaning<'a> {
    file: &'a TraceFile<'a>,
    names: Names,
    /// Names of the vectors, by number of their event.
    vectors: Vec<Option<Symbol>>,
    /// By thread id: the name that was seen last, and its symbol.
    comms: Box<[(Comm, Symbol)]>,
    /// Function address → name.
    functions: IntMap<u64, Symbol>,
    last_function: (u64, Symbol),
    /// Interrupt number → its name as recorded, and the symbol.
    irqs: IntMap<i32, (Box<[u8]>, Symbol)>,
    /// Stacks by a hash of the addresses in them: the same few come again and again.
    stacks: IntMap<u64, (Box<[u64]>, StackId)>,
    addresses: Vec<u64>,
    frames: Vec<Symbol>,
}

impl<'a> Meaning<'a> {
    fn new(file: &'a TraceFile<'a>, events: usize) -> Self {
        Self {
            file,
            names: Names::default(),
            vectors: vec![None; events],
            comms: vec![(Comm::default(), Symbol(0)); COMMS].into(),
            functions: IntMap::default(),
            last_function: (0, Symbol(0)),
            irqs: IntMap::default(),
            stacks: IntMap::default(),
            addresses: Vec::new(),
            frames: Vec::new(),
        }
    }

    #[inline]
    fn function(&mut self, address: u64) -> Symbol {
        if self.last_function.0 == address && address != 0 {
            return self.last_function.1;
        }
        let symbol = match self.functions.get(&address) {
            Some(&known) => known,
            None => self.new_function(address),
        };
        self.last_function = (address, symbol);
        symbol
    }

    #[cold]
    fn new_function(&mut self, address: u64) -> Symbol {
        let name = match self.file.symbols.find(address) {
            Some(s) if s.module.is_empty() => String::from_utf8_lossy(s.name).into_owned(),
            Some(s) => format!(
                "{} [{}]",
                String::from_utf8_lossy(s.name),
                String::from_utf8_lossy(s.module)
            ),
            None => format!("{address:#x}"),
        };
        let symbol = self.names.intern(&name);
        self.functions.insert(address, symbol);
        symbol
    }

    fn text(&mut self, bytes: &[u8]) -> Symbol {
        self.names.intern(&String::from_utf8_lossy(bytes))
    }

    #[inline]
    fn comm(&mut self, pid: i32, bytes: &[u8]) -> Symbol {
        let comm = Comm::new(bytes);
        let place = pid as usize % COMMS;
        let (known, symbol) = self.comms[place];
        if known == comm {
            return symbol;
        }
        let symbol = self.names.intern(&comm.to_string());
        self.comms[place] = (comm, symbol);
        symbol
    }

    #[inline]
    fn task(&mut self, pid: i32, comm: &[u8], prio: i32) -> Task {
        Task { tid: Tid(pid), name: self.comm(pid, comm), prio }
    }

    fn irq(&mut self, irq: i32, name: &[u8]) -> Symbol {
        if let Some((known, symbol)) = self.irqs.get(&irq)
            && **known == *name
        {
            return *symbol;
        }
        let symbol = self.text(name);
        self.irqs.insert(irq, (name.into(), symbol));
        symbol
    }

    fn vector(&mut self, id: u16, name: &str) -> Symbol {
        if let Some(Some(known)) = self.vectors.get(usize::from(id)) {
            return *known;
        }
        let symbol = self.names.intern(name);
        if let Some(place) = self.vectors.get_mut(usize::from(id)) {
            *place = Some(symbol);
        }
        symbol
    }

    fn stack(&mut self, addresses: impl Iterator<Item = u64>) -> StackId {
        self.addresses.clear();
        self.addresses.extend(addresses);
        let mut hasher = IntHasher::default();
        self.addresses.iter().for_each(|&a| hasher.write_u64(a));
        let key = hasher.finish();
        if let Some((known, id)) = self.stacks.get(&key)
            && **known == *self.addresses
        {
            return *id;
        }
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        for i in 0..self.addresses.len() {
            frames.push(self.function(self.addresses[i]));
        }
        let id = self.names.add_stack(&frames);
        self.frames = frames;
        if self.stacks.len() < STACKS_MAX {
            self.stacks.insert(key, (self.addresses.as_slice().into(), id));
        }
        id
    }

    #[inline]
    fn of(&mut self, record: &ring::Event<'_>, typed: Typed<'_>) -> EventKind {
        match typed {
            Typed::SchedSwitch(s) => EventKind::Switch {
                prev: self.task(s.prev_pid, s.prev_comm, s.prev_prio),
                state: OffCpu::from_bits(s.prev_state),
                next: self.task(s.next_pid, s.next_comm, s.next_prio),
            },
            Typed::SchedWaking(s) => {
                let task = self.task(s.pid, s.comm, s.prio);
                EventKind::Waking { task, target: CpuId(s.target_cpu), in_interrupt: false }
            }
            Typed::SchedWakeup(s) => {
                let task = self.task(s.pid, s.comm, s.prio);
                EventKind::Wakeup { task, target: CpuId(s.target_cpu), in_interrupt: false }
            }
            Typed::SchedWakeupNew(s) => {
                let task = self.task(s.pid, s.comm, s.prio);
                EventKind::WakeupNew { task, target: CpuId(s.target_cpu) }
            }
            Typed::SoftirqRaise(s) => EventKind::SoftirqRaise { vec: s.vec },
            Typed::SoftirqEntry(s) => EventKind::SoftirqEntry { vec: s.vec },
            Typed::SoftirqExit(s) => EventKind::SoftirqExit { vec: s.vec },
            Typed::IrqHandlerEntry(i) => {
                EventKind::IrqEntry { irq: i.irq, name: self.irq(i.irq, i.name) }
            }
            Typed::IrqHandlerExit(i) => EventKind::IrqExit { irq: i.irq },
            Typed::VectorEntry(v) => {
                EventKind::VectorEntry { name: self.vector(record.id, v.name) }
            }
            Typed::VectorExit(v) => EventKind::VectorExit { name: self.vector(record.id, v.name) },
            Typed::TimerStart(_)
            | Typed::TimerCancel(_)
            | Typed::TimerExpireEntry(_)
            | Typed::TimerExpireExit(_)
            | Typed::HrtimerStart(_)
            | Typed::HrtimerCancel(_)
            | Typed::HrtimerExpireEntry(_)
            | Typed::HrtimerExpireExit(_)
            | Typed::TickStop(_) => self.timer(typed),
            Typed::FuncgraphEntry(f) => EventKind::FunctionEntry {
                function: self.function(f.func),
                depth: u32::try_from(f.depth).unwrap_or(0),
            },
            Typed::FuncgraphExit(f) => EventKind::FunctionExit {
                function: self.function(f.func),
                depth: u32::try_from(f.depth).unwrap_or(0),
                called: TraceNs(f.calltime),
                length: Nanos(f.rettime.saturating_sub(f.calltime)),
            },
            Typed::SysEnter(s) => {
                let futex = s.name.starts_with("futex");
                EventKind::SyscallEnter { nr: s.nr, yields: s.name == "sched_yield", futex }
            }
            Typed::SysExit(s) => EventKind::SyscallExit { nr: s.nr },
            other => self.rarer(record, other),
        }
    }

    fn timer(&mut self, typed: Typed<'_>) -> EventKind {
        match typed {
            Typed::TimerStart(t) => EventKind::TimerStart {
                timer: t.timer,
                function: self.function(t.function),
                expires: t.expires,
                now: t.now,
            },
            Typed::TimerCancel(t) => EventKind::TimerCancel { timer: t.timer },
            Typed::TimerExpireEntry(t) => {
                let function = self.function(t.function);
                EventKind::TimerEntry { timer: t.timer, function, now: t.now }
            }
            Typed::TimerExpireExit(t) => EventKind::TimerExit { timer: t.timer },
            Typed::HrtimerStart(t) => EventKind::HrtimerStart {
                timer: t.hrtimer,
                function: self.function(t.function),
                relative: t.mode & HRTIMER_MODE_REL != 0,
                expires: t.expires,
                softexpires: t.softexpires,
            },
            Typed::HrtimerCancel(t) => EventKind::HrtimerCancel { timer: t.hrtimer },
            Typed::HrtimerExpireEntry(t) => {
                let function = self.function(t.function);
                EventKind::HrtimerEntry {
                    timer: t.hrtimer,
                    function,
                    now: t.now,
                    preempt_off: false,
                }
            }
            Typed::HrtimerExpireExit(t) => EventKind::HrtimerExit { timer: t.hrtimer },
            Typed::TickStop(t) => {
                EventKind::TickStop { stopped: t.success != 0, dependency: t.dependency }
            }
            _ => EventKind::Other,
        }
    }

    fn rarer(&mut self, record: &ring::Event<'_>, typed: Typed<'_>) -> EventKind {
        match typed {
            Typed::SchedMigrateTask(s) => EventKind::Migrate {
                task: self.task(s.pid, s.comm, s.prio),
                from: CpuId(s.orig_cpu),
                to: CpuId(s.dest_cpu),
            },
            Typed::SchedProcessFork(s) => {
                EventKind::Fork { child: self.task(s.child_pid, s.child_comm, i32::MAX) }
            }
            Typed::TaskRename(s) => {
                EventKind::Rename { tid: Tid(s.pid), name: self.comm(s.pid, s.newcomm) }
            }
            Typed::SchedStatRuntime(s) => {
                EventKind::Runtime { tid: Tid(s.pid), ns: Nanos(s.runtime), vruntime: s.vruntime }
            }
            Typed::SchedPiSetprio(s) => {
                EventKind::SetPrio { task: self.task(s.pid, s.comm, s.oldprio), new: s.newprio }
            }
            Typed::WorkqueueExecuteStart(w) => {
                EventKind::WorkStart { work: w.work, function: self.function(w.function) }
            }
            Typed::WorkqueueExecuteEnd(w) => EventKind::WorkEnd { work: w.work },
            Typed::IpiEntry(r) => EventKind::IpiEntry { reason: self.reason(r.reason) },
            Typed::IpiExit(r) => EventKind::IpiExit { reason: self.reason(r.reason) },
            Typed::IpiRaise(r) => {
                EventKind::IpiSend { cpus: r.target_cpus, function: self.reason(r.reason) }
            }
            Typed::IpiSendCpu(i) => self.ipi(CpuId(i.cpu).bit(), i.callback),
            Typed::IpiSendCpumask(i) => self.ipi(i.cpumask, i.callback),
            Typed::CsdQueueCpu(c) => self.ipi(CpuId(c.cpu).bit(), c.func),
            Typed::NmiHandler(n) => {
                EventKind::Nmi { length: Nanos(u64::try_from(n.delta_ns).unwrap_or(0)) }
            }
            Typed::CpuIdle(p) => {
                EventKind::Idle { state: (p.state != u32::MAX).then_some(p.state) }
            }
            Typed::CpuFrequency(p) => EventKind::Frequency { cpu: CpuId(p.cpu_id), khz: p.state },
            Typed::IrqDisable(_) => EventKind::IrqsOff { off: true },
            Typed::IrqEnable(_) => EventKind::IrqsOff { off: false },
            Typed::PreemptDisable(_) => EventKind::PreemptOff { off: true },
            Typed::PreemptEnable(_) => EventKind::PreemptOff { off: false },
            Typed::PageFaultUser(f) => EventKind::PageFault { user: true, address: f.address },
            Typed::PageFaultKernel(f) => EventKind::PageFault { user: false, address: f.address },
            Typed::ContentionBegin(l) => EventKind::LockBegin { lock: l.lock_addr },
            Typed::ContentionEnd(l) => EventKind::LockEnd { lock: l.lock_addr },
            Typed::Function(f) => EventKind::FunctionCall {
                function: self.function(f.ip),
                parent: self.function(f.parent_ip),
            },
            Typed::KernelStack(stack) => EventKind::Stack { stack: self.stack(stack.addresses()) },
            Typed::Print(p) => {
                EventKind::Marker { text: self.names.add(&String::from_utf8_lossy(p.buf)) }
            }
            Typed::Timerlat(t) => EventKind::Timerlat {
                context: t.context,
                latency: Nanos(t.timer_latency),
                current: self.current(record),
            },
            other => self.noise(other),
        }
    }

    /// A reschedule interrupt calls nothing.
    fn ipi(&mut self, cpus: u64, function: u64) -> EventKind {
        let function = if function == 0 { Symbol(0) } else { self.function(function) };
        EventKind::IpiSend { cpus, function }
    }

    fn noise(&mut self, typed: Typed<'_>) -> EventKind {
        let (source, name, ns) = match typed {
            Typed::Hwlat(h) => (Noise::Hardware, Symbol(0), h.duration.max(h.outer_duration)),
            Typed::NmiNoise(n) => (Noise::Nmi, Symbol(0), n.duration),
            Typed::IrqNoise(n) => (Noise::Irq, self.text(n.desc), n.duration),
            Typed::SoftirqNoise(n) => {
                let name = self.names.intern(softirq_name(n.vector.unsigned_abs()));
                (Noise::Softirq, name, n.duration)
            }
            Typed::ThreadNoise(n) => (Noise::Thread, self.comm(n.pid, n.comm), n.duration),
            _ => return EventKind::Other,
        };
        EventKind::Noise { source, name, length: Nanos(ns) }
    }

    /// Name of the task that was current at a record, as the file has it.
    fn current(&mut self, record: &ring::Event<'_>) -> Symbol {
        let file = self.file;
        let pid = file.common_pid().map_or(0, |p| p.i64(record.payload) as i32);
        self.text(file.comms.name(pid))
    }

    fn reason(&mut self, address: u64) -> Symbol {
        let file = self.file;
        self.text(file.printk.get(address).unwrap_or(b"IPI"))
    }
}

/// Calls `each` with every chosen event in order of time, a loss before the event that reports
/// it, until it breaks; returns the names too.
pub fn scan<'a>(
    file: &'a TraceFile<'a>,
    select: &Select,
    threads: usize,
    decoder: &mut EventDecoder<'a>,
    mut each: impl FnMut(&Event, &Names) -> ControlFlow<()>,
) -> Diagnostics {
    file.scan(select, threads, |record| {
        if let Some(lost) = decoder.lost(record) {
            each(&lost, &decoder.meaning.names)?;
        }
        let event = decoder.decode(record);
        each(&event, &decoder.meaning.names)
    })
}
