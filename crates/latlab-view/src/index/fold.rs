//! One CPU's events folded into what its lanes show.
//!
//! A CPU has a stack of what interrupts its task. Interrupts cannot survive a
//! switch: one that does lost its exit and ends there. Softirqs, timer functions,
//! work items and traced functions belong to the task where they can be preempted
//! (PREEMPT_RT, a function that sleeps): they are cut at the switch and go on
//! when the task comes back to the CPU.

use super::bins::Bins;
use super::column::{Item, Left, Runs, Spans};
use latlab_trace::events::{Decoder, Typed};
use latlab_trace::names::IntMap;
use latlab_trace::{Event, Field, Missed, TraceFile};
use std::collections::HashMap;

/// What a span in an interrupt or softirq lane is; `aux` of its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A device's handler.
    Irq = 0,
    /// A vector without a number: the local timer, an IPI.
    Vector = 1,
    /// A softirq.
    Softirq = 2,
    /// A high-resolution timer's function.
    Hrtimer = 3,
    /// A timer-wheel timer's function.
    Timer = 4,
    /// A work item.
    Work = 5,
    /// A traced function.
    Function = 6,
}

impl Kind {
    fn class(self) -> usize {
        match self {
            Self::Irq | Self::Vector | Self::Hrtimer => 0,
            Self::Softirq | Self::Timer | Self::Work => 1,
            Self::Function => 2,
        }
    }
}

/// Rows of one class at most; what is nested deeper is drawn in the last.
const DEPTHS: [usize; 3] = [4, 4, 32];
/// Markers' texts of one CPU, bytes in all.
const MARKER_BYTES: usize = 32 << 20;

/// Which kinds of events lanes are made of: the others are only counted, not decoded.
#[derive(Debug)]
pub struct Kinds {
    decoder: Decoder,
    pid: Option<Field>,
    /// By number.
    wanted: Vec<bool>,
}

impl Kinds {
    /// The kinds of a file.
    pub fn of(file: &TraceFile<'_>) -> Self {
        const NAMES: [&str; 20] = [
            "sched_switch",
            "sched_waking",
            "sched_wakeup",
            "sched_wakeup_new",
            "irq_handler_entry",
            "irq_handler_exit",
            "ipi_entry",
            "ipi_exit",
            "softirq_entry",
            "softirq_exit",
            "hrtimer_expire_entry",
            "hrtimer_expire_exit",
            "timer_expire_entry",
            "timer_expire_exit",
            "workqueue_execute_start",
            "workqueue_execute_end",
            "funcgraph_entry",
            "funcgraph_exit",
            "cpu_frequency",
            "task_rename",
        ];
        let mut wanted = Vec::new();
        for format in file.formats.iter() {
            let at = usize::from(format.id);
            if wanted.len() <= at {
                wanted.resize(at + 1, false);
            }
            let name = &*format.name;
            wanted[at] =
                NAMES.contains(&name) || name == "print" || &*format.system == "irq_vectors";
        }
        Self { decoder: Decoder::new(file), pid: file.common_pid().cloned(), wanted }
    }
}

/// Names of one thread's fold, by number.
#[derive(Clone, Debug, Default)]
pub struct Interner {
    /// The names.
    pub names: Vec<String>,
    index: HashMap<String, u32>,
}

impl Interner {
    /// A name's number.
    pub fn put(&mut self, name: &str) -> u32 {
        if let Some(n) = self.index.get(name) {
            return *n;
        }
        let n = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.index.insert(name.to_owned(), n);
        n
    }
}

/// A wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// When.
    pub time: u64,
    /// Who is woken.
    pub pid: i32,
    /// Who was running where it happened.
    pub waker: i32,
    /// Where it happened.
    pub cpu: u16,
    /// Where it is to run.
    pub target: u16,
    /// 1: in an interrupt, 2: in a softirq.
    pub context: u8,
}

/// A line written to `trace_marker` or by `trace_printk`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// When.
    pub time: u64,
    /// On which CPU.
    pub cpu: u32,
    /// By whom.
    pub pid: i32,
    /// Its text.
    pub text: String,
}

/// Events that were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// On which CPU.
    pub cpu: u32,
    /// The last event before.
    pub from: u64,
    /// The first event after.
    pub to: u64,
    /// How many; 0 where the kernel did not count.
    pub count: u64,
}

/// A task's name.
#[derive(Clone, Debug, Default)]
pub struct Name {
    /// When it was seen last.
    pub time: u64,
    /// The name.
    pub comm: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    kind: Kind,
    key: u64,
    name: u32,
    start: u64,
}

/// One CPU while it is read, and what it came to.
#[derive(Clone, Debug)]
pub struct Cpu {
    /// Its number.
    pub cpu: u32,
    /// Events.
    pub events: u64,
    /// Time of the first event.
    pub first: u64,
    /// Latest time.
    pub last: u64,
    /// Events that are earlier than one before them.
    pub backwards: u64,
    /// Counts by time.
    pub bins: Bins,
    /// Who ran.
    pub runs: Runs,
    /// Interrupts, softirqs and functions: by class, then by depth.
    pub nested: [Vec<Spans>; 3],
    /// Wake-ups by `sched_waking` (and of new tasks).
    pub wakes: Vec<Wake>,
    /// Wake-ups by `sched_wakeup`, until one by `sched_waking` is seen.
    pub wakeups: Vec<Wake>,
    /// Frequencies: time, CPU, kHz.
    pub freq: Vec<(u64, u32, u32)>,
    /// Markers.
    pub markers: Vec<Marker>,
    marker_bytes: usize,
    /// Losses.
    pub lost: Vec<Lost>,
    /// Events by kind.
    pub kinds: Vec<u64>,
    /// Tasks' names.
    pub names: IntMap<i32, Name>,
    /// Names of spans.
    pub texts: Interner,
    /// Switches seen.
    pub switches: u64,
    stack: Vec<Frame>,
    parked: IntMap<i32, Vec<Frame>>,
    current: Option<i32>,
    waking: bool,
    /// Who was switched in last.
    came: i32,
    softirqs: [Option<u32>; 16],
    by_event: IntMap<u32, u32>,
    by_irq: IntMap<i32, u32>,
    by_address: IntMap<u64, u32>,
}

impl Cpu {
    /// Nothing was read yet.
    pub fn new(cpu: u32) -> Self {
        Self {
            cpu,
            events: 0,
            first: 0,
            last: 0,
            backwards: 0,
            bins: Bins::default(),
            runs: Runs::default(),
            nested: Default::default(),
            wakes: Vec::new(),
            wakeups: Vec::new(),
            freq: Vec::new(),
            markers: Vec::new(),
            marker_bytes: 0,
            lost: Vec::new(),
            kinds: Vec::new(),
            names: IntMap::default(),
            texts: Interner::default(),
            switches: 0,
            stack: Vec::new(),
            parked: IntMap::default(),
            current: None,
            waking: false,
            came: -1,
            softirqs: [None; 16],
            by_event: IntMap::default(),
            by_irq: IntMap::default(),
            by_address: IntMap::default(),
        }
    }

    /// Reads one event. `origin` is the time that bins count from.
    #[inline]
    pub fn fold(&mut self, f: &TraceFile<'_>, d: &Kinds, event: &Event<'_>, origin: u64) {
        if self.events == 0 {
            self.first = event.time;
        }
        self.events += 1;
        self.backwards += u64::from(event.time < self.last);
        if event.missed != Missed::No {
            self.lose(event);
        }
        let time = event.time.max(self.last);
        self.last = time;
        self.bins.add(time.saturating_sub(origin));
        let id = usize::from(event.id);
        if id >= self.kinds.len() {
            self.kinds.resize(id + 1, 0);
        }
        self.kinds[id] += 1;
        let pid = d.pid.as_ref().map_or(0, |p| p.i64(event.payload) as i32);
        if self.current != Some(pid) {
            self.run(time, pid, Left::Unknown);
        }
        if d.wanted.get(id) == Some(&true) {
            self.wanted(f, &d.decoder, event, time, pid);
        }
    }

    /// An event that lanes are made of.
    fn wanted(&mut self, f: &TraceFile<'_>, d: &Decoder, event: &Event<'_>, time: u64, pid: i32) {
        match d.decode(event) {
            Typed::SchedSwitch(s) => {
                self.switches += 1;
                // The name of who leaves was learnt when it came.
                if s.prev_pid != self.came {
                    self.learn(s.prev_pid, s.prev_comm, time);
                }
                self.learn(s.next_pid, s.next_comm, time);
                self.came = s.next_pid;
                if s.next_pid != s.prev_pid {
                    self.run(time, s.next_pid, Left::of(s.prev_state));
                }
            }
            Typed::SchedWaking(s) => {
                if !self.waking {
                    self.waking = true;
                    self.wakeups = Vec::new();
                }
                self.learn(s.pid, s.comm, time);
                self.wakes.push(self.wake(time, s.pid, pid, s.target_cpu, d.common(event).flags));
            }
            Typed::SchedWakeup(s) if !self.waking => {
                let wake = self.wake(time, s.pid, pid, s.target_cpu, d.common(event).flags);
                self.wakeups.push(wake);
            }
            Typed::SchedWakeupNew(s) => {
                self.learn(s.pid, s.comm, time);
                self.wakes.push(self.wake(time, s.pid, pid, s.target_cpu, d.common(event).flags));
            }
            Typed::Other | Typed::SchedWakeup(_) => {}
            other => self.rarer(f, event, time, pid, other),
        }
    }

    fn rarer(&mut self, f: &TraceFile<'_>, e: &Event<'_>, time: u64, pid: i32, typed: Typed<'_>) {
        match typed {
            Typed::IrqHandlerEntry(i) => {
                let name = match self.by_irq.get(&i.irq) {
                    Some(n) => *n,
                    None => {
                        let text = format!("irq {} {}", i.irq, String::from_utf8_lossy(i.name));
                        let n = self.texts.put(&text);
                        self.by_irq.insert(i.irq, n);
                        n
                    }
                };
                self.enter(Kind::Irq, i.irq as u64, name, time);
            }
            Typed::IrqHandlerExit(i) => self.leave(Kind::Irq, i.irq as u64, time),
            Typed::VectorEntry(v) => {
                let name = self.vector(e.id, v.name);
                self.enter(Kind::Vector, u64::from(name), name, time);
            }
            Typed::VectorExit(v) => {
                let name = self.vector(e.id, v.name);
                self.leave(Kind::Vector, u64::from(name), time);
            }
            Typed::IpiEntry(_) => {
                let name = self.texts.put("IPI");
                self.enter(Kind::Vector, u64::MAX, name, time);
            }
            Typed::IpiExit(_) => self.leave(Kind::Vector, u64::MAX, time),
            Typed::SoftirqEntry(s) => {
                let name = match self.softirqs.get(s.vec as usize).copied().flatten() {
                    Some(name) => name,
                    None => self.softirq(s.vec),
                };
                self.enter(Kind::Softirq, s.vec.into(), name, time);
            }
            Typed::SoftirqExit(s) => self.leave(Kind::Softirq, s.vec.into(), time),
            Typed::HrtimerExpireEntry(t) => {
                let name = self.place(f, t.function);
                self.enter(Kind::Hrtimer, t.hrtimer, name, time);
            }
            Typed::HrtimerExpireExit(t) => self.leave(Kind::Hrtimer, t.hrtimer, time),
            Typed::TimerExpireEntry(t) => {
                let name = self.place(f, t.function);
                self.enter(Kind::Timer, t.timer, name, time);
            }
            Typed::TimerExpireExit(t) => self.leave(Kind::Timer, t.timer, time),
            Typed::WorkqueueExecuteStart(w) => {
                let name = self.place(f, w.function);
                self.enter(Kind::Work, w.work, name, time);
            }
            Typed::WorkqueueExecuteEnd(w) => self.leave(Kind::Work, w.work, time),
            Typed::FuncgraphEntry(g) => {
                let name = self.place(f, g.func);
                self.enter(Kind::Function, g.func, name, time);
            }
            Typed::FuncgraphExit(g) => self.function_exit(f, g.func, g.calltime, time),
            Typed::CpuFrequency(p) => self.freq.push((time, p.cpu_id, p.state)),
            Typed::Print(p) => self.marker(time, pid, p.buf),
            Typed::TaskRename(r) => self.learn(r.pid, r.newcomm, time),
            _ => {}
        }
    }

    fn wake(&self, time: u64, pid: i32, waker: i32, target: u32, flags: u8) -> Wake {
        Wake {
            time,
            pid,
            waker,
            cpu: self.cpu as u16,
            target: target as u16,
            context: flags >> 3 & 3,
        }
    }

    /// The number of a softirq's name.
    fn softirq(&mut self, vec: u32) -> u32 {
        let name = self.texts.put(latlab_core::explain::window::softirq_name(vec));
        if let Some(known) = self.softirqs.get_mut(vec as usize) {
            *known = Some(name);
        }
        name
    }

    /// The number of an interrupt vector's name, by its event.
    fn vector(&mut self, event: u16, name: &str) -> u32 {
        match self.by_event.get(&u32::from(event)) {
            Some(n) => *n,
            None => {
                let n = self.texts.put(name);
                self.by_event.insert(event.into(), n);
                n
            }
        }
    }

    fn place(&mut self, f: &TraceFile<'_>, address: u64) -> u32 {
        if let Some(n) = self.by_address.get(&address) {
            return *n;
        }
        let name = match f.symbols.find(address) {
            Some(s) => String::from_utf8_lossy(s.name).into_owned(),
            None => format!("{address:#x}"),
        };
        let n = self.texts.put(&name);
        self.by_address.insert(address, n);
        n
    }

    #[inline]
    fn learn(&mut self, pid: i32, comm: &[u8], time: u64) {
        if pid == 0 || comm.is_empty() {
            return;
        }
        let name = self.names.entry(pid).or_default();
        name.time = time;
        if name.comm != comm {
            name.comm.clear();
            name.comm.extend_from_slice(comm);
        }
    }

    /// From now on `pid` runs.
    fn run(&mut self, time: u64, pid: i32, left: Left) {
        let before = self.current.replace(pid);
        self.runs.push(time, pid, left);
        if !self.stack.is_empty() {
            let stack = std::mem::take(&mut self.stack);
            self.cut(&stack, time);
            let stays: Vec<Frame> = stack.into_iter().filter(|f| f.kind.class() != 0).collect();
            if let Some(before) = before.filter(|p| *p > 0)
                && !stays.is_empty()
                && self.parked.len() < 4096
            {
                self.parked.insert(before, stays);
            }
        }
        if pid > 0
            && !self.parked.is_empty()
            && let Some(mut frames) = self.parked.remove(&pid)
        {
            frames.iter_mut().for_each(|f| f.start = time);
            self.stack = frames;
        }
    }

    /// Ends spans where they are interrupted.
    fn cut(&mut self, stack: &[Frame], time: u64) {
        for n in (0..stack.len()).rev() {
            self.emit(&stack[..n], stack[n], time);
        }
    }

    fn emit(&mut self, below: &[Frame], frame: Frame, end: u64) {
        let class = frame.kind.class();
        let depth = below.iter().filter(|f| f.kind.class() == class).count();
        let depth = depth.min(DEPTHS[class] - 1);
        let rows = &mut self.nested[class];
        if rows.len() <= depth {
            rows.resize_with(depth + 1, Spans::default);
        }
        rows[depth].push(Item { start: frame.start, end, id: frame.name, aux: frame.kind as u32 });
    }

    #[inline]
    fn enter(&mut self, kind: Kind, key: u64, name: u32, start: u64) {
        if self.stack.len() < 256 {
            self.stack.push(Frame { kind, key, name, start });
        }
    }

    fn leave(&mut self, kind: Kind, key: u64, time: u64) {
        let Some(at) = self.stack.iter().rposition(|f| f.kind == kind && f.key == key) else {
            return;
        };
        // What is above lost its exit.
        while self.stack.len() > at {
            let Some(frame) = self.stack.pop() else { break };
            let below = std::mem::take(&mut self.stack);
            self.emit(&below, frame, time);
            self.stack = below;
        }
    }

    fn function_exit(&mut self, f: &TraceFile<'_>, func: u64, called: u64, time: u64) {
        if self.stack.iter().any(|s| s.kind == Kind::Function && s.key == func) {
            return self.leave(Kind::Function, func, time);
        }
        // Its entry was not recorded; the exit may know when it was.
        if called > 0 && called <= time && called >= self.first {
            let name = self.place(f, func);
            let below = std::mem::take(&mut self.stack);
            let frame = Frame { kind: Kind::Function, key: func, name, start: called };
            self.emit(&below, frame, time);
            self.stack = below;
        }
    }

    fn marker(&mut self, time: u64, pid: i32, text: &[u8]) {
        if self.marker_bytes > MARKER_BYTES {
            return;
        }
        let text = String::from_utf8_lossy(&text[..text.len().min(200)]);
        let text = text.trim_end().to_owned();
        self.marker_bytes += text.len() + 64;
        self.markers.push(Marker { time, cpu: self.cpu, pid, text });
    }

    fn lose(&mut self, event: &Event<'_>) {
        let count = match event.missed {
            Missed::Count(n) => n,
            _ => 0,
        };
        let from = if self.events > 1 { self.last } else { event.time };
        self.lost.push(Lost { cpu: self.cpu, from, to: event.time.max(from), count });
        let stack = std::mem::take(&mut self.stack);
        self.cut(&stack, from);
        self.parked.clear();
        if self.events > 1 {
            self.runs.push(from, -1, Left::Unknown);
        }
        self.current = None;
    }

    /// After the last event.
    pub fn finish(&mut self) {
        let stack = std::mem::take(&mut self.stack);
        self.cut(&stack, self.last);
        self.runs.end = self.last;
        self.parked = IntMap::default();
        if !self.waking {
            self.wakes.append(&mut self.wakeups);
            self.wakes.sort_by_key(|w| w.time);
        }
    }
}
