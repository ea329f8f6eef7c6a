//! One CPU's events folded into what its lanes show.
//!
//! `latlab_analysis::timeline::cpu` tells who runs and what is open above; a frame is a span when
//! it ends. One that its task takes along at a switch is cut there and goes on when the task comes
//! back to the CPU.

use super::bins::Bins;
use super::column::{Item, Left, Runs, Spans};
use latlab_analysis::timeline::actor::Actor;
use latlab_analysis::timeline::cpu;
use latlab_analysis::timeline::stack::{self, Parked, What};
use latlab_model::event::{Event, EventKind, Names, Symbol, softirq_name};
use latlab_model::latency::Mechanism;
use latlab_model::units::{CpuId, Tid, TraceNs};
use latlab_report::messages;
use latlab_trace::decode::{EventDecoder, Groups};
use latlab_trace::names::IntMap;
use latlab_trace::{Event as Record, Field, Missed, TraceFile};
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
    fn of(what: What) -> Self {
        match what {
            What::Actor(Actor::Irq(..)) => Self::Irq,
            What::Actor(Actor::Softirq(_)) => Self::Softirq,
            What::Actor(Actor::Hrtimer(_)) => Self::Hrtimer,
            What::Actor(Actor::Timer(_)) => Self::Timer,
            What::Actor(Actor::Work(_)) => Self::Work,
            What::Actor(Actor::Vector(_) | Actor::Nmi | Actor::Task(_) | Actor::Idle) => {
                Self::Vector
            }
            What::Function(_) => Self::Function,
        }
    }

    /// The display name of each, in order.
    pub fn names() -> [&'static str; 7] {
        let interrupt = messages::mechanism(Mechanism::InterruptHandler);
        [
            interrupt,
            interrupt,
            messages::mechanism(Mechanism::Softirq),
            messages::mechanism(Mechanism::HrtimerHandler),
            messages::mechanism(Mechanism::TimerCallback),
            messages::mechanism(Mechanism::Workqueue),
            "function",
        ]
    }

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

/// Fields that lanes need of every record, and which records are markers.
#[derive(Debug)]
pub struct Fields {
    pid: Option<Field>,
    flags: Option<Field>,
    marker: Option<u16>,
    stacks: [Option<u16>; 2],
}

impl Fields {
    /// The groups of events that lanes are made of; the others are only counted.
    pub fn groups() -> Groups {
        Groups::SWITCH
            | Groups::WAKE
            | Groups::RENAME
            | Groups::INTERRUPT
            | Groups::EXPIRY
            | Groups::WORK
            | Groups::FUNCTION
            | Groups::FREQUENCY
            | Groups::MARKER
    }

    /// Those of a file.
    pub fn of(file: &TraceFile<'_>) -> Self {
        let flags = file.formats.iter().next().and_then(|f| f.field("common_flags"));
        Self {
            pid: file.common_pid().cloned(),
            flags: flags.cloned(),
            marker: file.formats.find("print").map(|f| f.id),
            stacks: ["kernel_stack", "user_stack"]
                .map(|name| file.formats.find(name).map(|f| f.id)),
        }
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

/// A frame with the number of its name.
type Frame = stack::Frame<u32>;

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
    /// Tasks' names, once it is finished.
    pub names: IntMap<i32, Name>,
    /// Names of spans.
    pub texts: Interner,
    /// Switches seen.
    pub switches: u64,
    on: cpu::Cpu<u32>,
    parked: Parked<u32>,
    waking: bool,
    /// Who was switched in last.
    came: i32,
    softirqs: [Option<u32>; 16],
    by_irq: IntMap<i32, u32>,
    by_symbol: IntMap<Symbol, u32>,
    /// When a task's name was seen last, and the name.
    learnt: IntMap<Tid, (u64, Symbol)>,
}

impl Cpu {
    /// One of `cpus`, of which nothing was read yet.
    pub fn new(cpu: u32, cpus: usize) -> Self {
        Self {
            cpu,
            events: 0,
            first: 0,
            last: 0,
            backwards: 0,
            bins: Bins::of_one_of(cpus),
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
            on: cpu::Cpu::new(CpuId(cpu)),
            parked: Parked::default(),
            waking: false,
            came: -1,
            softirqs: [None; 16],
            by_irq: IntMap::default(),
            by_symbol: IntMap::default(),
            learnt: IntMap::default(),
        }
    }

    /// Reads one event. `origin` is the time that bins count from.
    #[inline]
    pub fn fold(
        &mut self,
        fields: &Fields,
        decoder: &mut EventDecoder<'_>,
        event: &Record<'_>,
        origin: u64,
    ) {
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
        let pid = fields.pid.as_ref().map_or(0, |p| p.i64(event.payload) as i32);
        // A stack belongs to the event before it: behind a switch to the task that leaves.
        let is_stack = fields.stacks.contains(&Some(event.id));
        if !is_stack && self.on.follow(Tid(pid), TraceNs(time), &mut self.parked) {
            self.run(time, pid, Left::Unknown);
        }
        let full = fields.marker == Some(event.id) && self.marker_bytes > MARKER_BYTES;
        if decoder.wants(event.id) && !full {
            let flags = fields.flags.as_ref().map_or(0, |f| f.u64(event.payload) as u8);
            let event = decoder.decode(event);
            self.wanted(&event, decoder.names(), flags);
        }
    }

    /// An event that lanes are made of.
    fn wanted(&mut self, event: &Event, names: &Names, flags: u8) {
        let (time, pid) = (self.last, event.current.0);
        match event.kind {
            EventKind::Switch { prev, state, next } => {
                self.switches += 1;
                // The name of who leaves was learnt when it came.
                if prev.tid.0 != self.came {
                    self.learn(prev.tid, prev.name, time);
                }
                self.learn(next.tid, next.name, time);
                self.came = next.tid.0;
                if next.tid != prev.tid {
                    let left = (prev.tid, state);
                    self.on.switch(TraceNs(time), left, next, &mut self.parked);
                    self.run(time, next.tid.0, Left::of(state));
                }
            }
            EventKind::Waking { task, target, .. } => {
                if !self.waking {
                    self.waking = true;
                    self.wakeups = Vec::new();
                }
                self.learn(task.tid, task.name, time);
                self.wakes.push(self.wake(task.tid.0, pid, target, flags));
            }
            EventKind::Wakeup { task, target, .. } if !self.waking => {
                self.wakeups.push(self.wake(task.tid.0, pid, target, flags));
            }
            EventKind::WakeupNew { task, target } => {
                self.learn(task.tid, task.name, time);
                self.wakes.push(self.wake(task.tid.0, pid, target, flags));
            }
            EventKind::Frequency { cpu, khz } => self.freq.push((time, cpu.0, khz)),
            EventKind::Marker { text } => self.marker(time, pid, names.get(text)),
            EventKind::Rename { tid, name } => self.learn(tid, name, time),
            EventKind::Other | EventKind::Wakeup { .. } => {}
            other => self.nests(other, names, time),
        }
    }

    fn nests(&mut self, kind: EventKind, names: &Names, time: u64) {
        let nested = self.on.nest(TraceNs(time), &kind);
        if nested.left {
            let open = self.on.stack.open();
            let beneath = open.len() - usize::from(nested.called);
            emit(&mut self.nested, &open[..beneath], self.on.stack.ended(), time);
        }
        if nested.entered || nested.called {
            let name = self.name(kind, names);
            if let Some(frame) = self.on.stack.open_mut().last_mut() {
                frame.mark = name;
            }
        }
        if let EventKind::FunctionExit { function, called, .. } = kind
            && !nested.left
        {
            // Its entry was not recorded; the exit may know when it was.
            let TraceNs(called) = called;
            if called > 0 && called <= time && called >= self.first {
                let (kind, id) = (Kind::Function, self.text(names, function));
                let item = Item { start: called, end: time, id, aux: kind as u32 };
                let depth = depths(self.on.stack.open())[kind.class()];
                put(&mut self.nested, depth, kind, item);
            }
        }
    }

    /// The number of the name of what an event enters.
    fn name(&mut self, kind: EventKind, names: &Names) -> u32 {
        match kind {
            EventKind::IrqEntry { irq, name } => match self.by_irq.get(&irq) {
                Some(n) => *n,
                None => {
                    let n = self.texts.put(&format!("irq {irq} {}", names.get(name)));
                    self.by_irq.insert(irq, n);
                    n
                }
            },
            EventKind::IpiEntry { .. } => self.texts.put("IPI"),
            EventKind::SoftirqEntry { vec } => {
                match self.softirqs.get(vec as usize).copied().flatten() {
                    Some(name) => name,
                    None => self.softirq(vec),
                }
            }
            EventKind::VectorEntry { name: symbol }
            | EventKind::HrtimerEntry { function: symbol, .. }
            | EventKind::TimerEntry { function: symbol, .. }
            | EventKind::WorkStart { function: symbol, .. }
            | EventKind::FunctionEntry { function: symbol, .. } => self.text(names, symbol),
            _ => 0,
        }
    }

    fn wake(&self, pid: i32, waker: i32, target: CpuId, flags: u8) -> Wake {
        Wake {
            time: self.last,
            pid,
            waker,
            cpu: self.cpu as u16,
            target: target.0 as u16,
            context: flags >> 3 & 3,
        }
    }

    /// The number of a softirq's name.
    fn softirq(&mut self, vec: u32) -> u32 {
        let name = self.texts.put(softirq_name(vec));
        if let Some(known) = self.softirqs.get_mut(vec as usize) {
            *known = Some(name);
        }
        name
    }

    /// The number of a name: of a vector, or of a function without its module.
    fn text(&mut self, names: &Names, symbol: Symbol) -> u32 {
        if let Some(n) = self.by_symbol.get(&symbol) {
            return *n;
        }
        let name = names.get(symbol);
        let n = self.texts.put(name.split_once(" [").map_or(name, |(name, _)| name));
        self.by_symbol.insert(symbol, n);
        n
    }

    #[inline]
    fn learn(&mut self, tid: Tid, comm: Symbol, time: u64) {
        if tid.0 != 0 && comm != Symbol(0) {
            self.learnt.insert(tid, (time, comm));
        }
    }

    /// From now on `pid` runs, and what ended with that is cut.
    fn run(&mut self, time: u64, pid: i32, left: Left) {
        self.runs.push(time, pid, left);
        emit(&mut self.nested, &[], self.on.stack.ended(), time);
    }

    fn marker(&mut self, time: u64, pid: i32, text: &str) {
        let text = text[..text.floor_char_boundary(200)].trim_end().to_owned();
        self.marker_bytes += text.len() + 64;
        self.markers.push(Marker { time, cpu: self.cpu, pid, text });
    }

    fn lose(&mut self, event: &Record<'_>) {
        let count = match event.missed {
            Missed::Count(n) => n,
            _ => 0,
        };
        let from = if self.events > 1 { self.last } else { event.time };
        self.lost.push(Lost { cpu: self.cpu, from, to: event.time.max(from), count });
        self.on.lose(&mut self.parked);
        emit(&mut self.nested, &[], self.on.stack.ended(), from);
        if self.events > 1 {
            self.runs.push(from, -1, Left::Unknown);
        }
    }

    /// After the last event; `names` are those of its decoder.
    pub fn finish(&mut self, names: &Names) {
        for (tid, (time, comm)) in std::mem::take(&mut self.learnt) {
            let comm = names.get(comm).as_bytes().to_vec();
            self.names.insert(tid.0, Name { time, comm });
        }
        emit(&mut self.nested, &[], self.on.stack.open(), self.last);
        self.runs.end = self.last;
        if !self.waking {
            self.wakes.append(&mut self.wakeups);
            self.wakes.sort_by_key(|w| w.time);
        }
    }
}

type Nested = [Vec<Spans>; 3];

/// Frames that end above `beneath`, as spans: the innermost first.
fn emit(nested: &mut Nested, beneath: &[Frame], ended: &[Frame], end: u64) {
    let (below, mut depths) = (depths(beneath), depths(ended));
    for frame in ended.iter().rev() {
        let kind = Kind::of(frame.what);
        let item = Item { start: frame.since.0, end, id: frame.mark, aux: kind as u32 };
        let class = kind.class();
        depths[class] -= 1;
        put(nested, below[class] + depths[class], kind, item);
    }
}

/// How many frames there are of each class.
fn depths(frames: &[Frame]) -> [usize; DEPTHS.len()] {
    let mut depths = [0; DEPTHS.len()];
    for frame in frames {
        depths[Kind::of(frame.what).class()] += 1;
    }
    depths
}

fn put(nested: &mut Nested, depth: usize, kind: Kind, item: Item) {
    let class = kind.class();
    let last = DEPTHS[class] - 1;
    let row = depth.min(last);
    let rows = &mut nested[class];
    if rows.len() <= row {
        rows.resize_with(row + 1, Spans::default);
    }
    // A frame that ends together with one inside of it has no length in the last row.
    if row < last || rows[row].end.last().is_none_or(|end| *end < item.end) {
        rows[row].push(item);
    }
}
