//! A trace file as a capture that `latlab_core::explain` can work on.

use crate::TraceFile;
use crate::events::{Decoder, Typed};
use crate::names::IntMap;
use crate::ring::Missed;
use latlab_core::explain::capture::{
    Capture, Event, LeftAs, Lost, Names, Noise, Symbol, Task, What,
};
use latlab_core::explain::window::softirq_name;
use latlab_core::units::{CpuId, Nanos, Tid, TraceNs};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Largest number of events of one capture: a capture is a window, not a day.
pub const EVENTS_MAX: usize = 20_000_000;

/// Reads a whole file as one capture. Wake-ups are found afterwards, by
/// [`latlab_core::explain::activations::find`].
pub fn capture(file: &TraceFile<'_>, source: &str) -> Capture {
    let decoder = Decoder::new(file);
    let mut reader = Reader {
        file,
        decoder: &decoder,
        names: Names::default(),
        places: IntMap::default(),
        stacks: IntMap::default(),
        scratch: Vec::new(),
    };
    let mut capture = Capture {
        source: source.to_owned(),
        kernel: kernel(file),
        clock_is_monotonic: file.clock() == "mono",
        ..Capture::default()
    };
    // First and last event of each CPU.
    let mut ends: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    let mut events = file.events();
    while let Some(event) = events.next() {
        if capture.events.len() == EVENTS_MAX {
            break;
        }
        let ends = ends.entry(event.cpu).or_insert((event.time, event.time));
        if !matches!(event.missed, Missed::No) {
            let from = ends.1;
            let count = match event.missed {
                Missed::Count(n) => Some(n),
                _ => None,
            };
            let (from, to) = (TraceNs(from), TraceNs(event.time));
            capture.lost.push(Lost { cpu: CpuId(event.cpu), from, to, count });
        }
        ends.1 = event.time;
        let tid = Tid(decoder.common(&event).pid);
        let what = reader.what(&event);
        capture.events.push(Event { time: TraceNs(event.time), cpu: CpuId(event.cpu), tid, what });
    }
    capture.cpus = ends.keys().map(|&c| CpuId(c)).collect();
    capture.covered_from = TraceNs(ends.values().map(|e| e.0).max().unwrap_or(0));
    capture.names = reader.names;
    capture
}

/// `uname -r` as trace-cmd's `uname` option keeps it (`uname -a`'s third word).
fn kernel(file: &TraceFile<'_>) -> Option<String> {
    let release = file.options.uname.split_whitespace().nth(2)?;
    Some(release.to_owned())
}

struct Reader<'a> {
    file: &'a TraceFile<'a>,
    decoder: &'a Decoder,
    names: Names,
    /// Function address → name.
    places: IntMap<u64, Symbol>,
    /// Stacks by a hash of the addresses in them: the same few come again and again.
    stacks: IntMap<u64, KnownStack>,
    /// Addresses of the stack at hand.
    scratch: Vec<u64>,
}

/// A stack's addresses and frames.
type KnownStack = (Box<[u64]>, Arc<[Symbol]>);

/// Different stacks that are kept; those behind them are made anew each time.
const STACKS_MAX: usize = 1 << 16;

impl Reader<'_> {
    fn text(&mut self, bytes: &[u8]) -> Symbol {
        self.names.intern(&String::from_utf8_lossy(bytes))
    }

    fn place(&mut self, address: u64) -> Symbol {
        if let Some(&known) = self.places.get(&address) {
            return known;
        }
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
        self.places.insert(address, symbol);
        symbol
    }

    fn stack(&mut self, addresses: &[u64]) -> Arc<[Symbol]> {
        let mix =
            |hash: u64, a: &u64| (hash ^ a).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let key = addresses.iter().fold(0, mix);
        if let Some((known, frames)) = self.stacks.get(&key)
            && **known == *addresses
        {
            return Arc::clone(frames);
        }
        let frames: Arc<[Symbol]> = addresses.iter().map(|&a| self.place(a)).collect();
        if self.stacks.len() < STACKS_MAX {
            self.stacks.insert(key, (addresses.into(), Arc::clone(&frames)));
        }
        frames
    }

    fn task(&mut self, pid: i32, comm: &[u8], prio: i32) -> Task {
        Task { tid: Tid(pid), name: self.text(comm), prio }
    }

    fn what(&mut self, event: &crate::Event<'_>) -> What {
        let decoder = self.decoder;
        match decoder.decode(event) {
            Typed::SchedSwitch(s) => What::Switch {
                prev: self.task(s.prev_pid, s.prev_comm, s.prev_prio),
                left_as: left_as(s.prev_state),
                next: self.task(s.next_pid, s.next_comm, s.next_prio),
            },
            Typed::SchedWaking(s) => {
                What::Waking { task: self.task(s.pid, s.comm, s.prio), target: CpuId(s.target_cpu) }
            }
            Typed::SchedWakeup(s) | Typed::SchedWakeupNew(s) => {
                What::Wakeup { task: self.task(s.pid, s.comm, s.prio), target: CpuId(s.target_cpu) }
            }
            Typed::SchedMigrateTask(s) => {
                What::Migrate { tid: Tid(s.pid), from: CpuId(s.orig_cpu), to: CpuId(s.dest_cpu) }
            }
            Typed::SchedPiSetprio(s) => {
                What::SetPrio { tid: Tid(s.pid), old: s.oldprio, new: s.newprio }
            }
            Typed::IrqHandlerEntry(i) => What::IrqEntry { irq: i.irq, name: self.text(i.name) },
            Typed::IrqHandlerExit(i) => What::IrqExit { irq: i.irq },
            Typed::VectorEntry(v) => What::VectorEntry { name: self.names.intern(v.name) },
            Typed::VectorExit(v) => What::VectorExit { name: self.names.intern(v.name) },
            Typed::IpiEntry(r) => What::VectorEntry { name: self.reason(r.reason) },
            Typed::IpiExit(r) => What::VectorExit { name: self.reason(r.reason) },
            Typed::SoftirqRaise(s) => What::SoftirqRaise { vec: s.vec },
            Typed::SoftirqEntry(s) => What::SoftirqEntry { vec: s.vec },
            Typed::SoftirqExit(s) => What::SoftirqExit { vec: s.vec },
            Typed::HrtimerStart(t) => What::HrtimerStart {
                timer: t.hrtimer,
                function: self.place(t.function),
                expires: t.expires,
                softexpires: t.softexpires,
            },
            Typed::HrtimerExpireEntry(t) => What::HrtimerEntry {
                timer: t.hrtimer,
                function: self.place(t.function),
                now: t.now,
            },
            Typed::HrtimerExpireExit(t) => What::HrtimerExit { timer: t.hrtimer },
            Typed::TimerExpireEntry(t) => {
                What::TimerEntry { timer: t.timer, function: self.place(t.function) }
            }
            Typed::TimerExpireExit(t) => What::TimerExit { timer: t.timer },
            Typed::WorkqueueExecuteStart(w) => What::WorkStart { function: self.place(w.function) },
            Typed::WorkqueueExecuteEnd(_) => What::WorkEnd,
            other => self.rarer(event, other),
        }
    }

    fn rarer(&mut self, event: &crate::Event<'_>, typed: Typed<'_>) -> What {
        match typed {
            Typed::CpuIdle(p) => What::Idle { state: (p.state != u32::MAX).then_some(p.state) },
            Typed::CpuFrequency(p) => What::Frequency { khz: u64::from(p.state) },
            Typed::FuncgraphEntry(f) => What::FunctionEntry {
                function: self.place(f.func),
                depth: u32::try_from(f.depth).unwrap_or(0),
            },
            Typed::FuncgraphExit(f) => What::FunctionExit {
                function: self.place(f.func),
                depth: u32::try_from(f.depth).unwrap_or(0),
                called: (f.calltime > 0).then_some(TraceNs(f.calltime)),
            },
            Typed::IrqDisable(_) => What::IrqsOff { off: true, caller: Symbol(0) },
            Typed::IrqEnable(_) => What::IrqsOff { off: false, caller: Symbol(0) },
            Typed::PreemptDisable(_) => What::PreemptOff { off: true, caller: Symbol(0) },
            Typed::PreemptEnable(_) => What::PreemptOff { off: false, caller: Symbol(0) },
            Typed::PageFaultUser(f) => What::PageFault { user: true, address: f.address },
            Typed::PageFaultKernel(f) => What::PageFault { user: false, address: f.address },
            Typed::ContentionBegin(l) => What::LockBegin { lock: l.lock_addr, caller: Symbol(0) },
            Typed::ContentionEnd(l) => What::LockEnd { lock: l.lock_addr },
            Typed::SysEnter(s) => What::SyscallEnter { nr: s.nr },
            Typed::SysExit(s) => What::SyscallExit { nr: s.nr },
            Typed::KernelStack(stack) => {
                let mut addresses = std::mem::take(&mut self.scratch);
                addresses.clear();
                addresses.extend(stack.addresses());
                let frames = self.stack(&addresses);
                self.scratch = addresses;
                What::Stack { frames }
            }
            Typed::Print(p) => What::Marker { text: String::from_utf8_lossy(p.buf).into_owned() },
            Typed::Timerlat(t) => What::Timerlat {
                context: t.context,
                latency: Nanos(t.timer_latency),
                current: self.current(event),
            },
            Typed::Hwlat(h) => noise(Noise::Hardware, Symbol(0), h.duration.max(h.outer_duration)),
            Typed::NmiNoise(n) => noise(Noise::Nmi, Symbol(0), n.duration),
            Typed::IrqNoise(n) => noise(Noise::Irq, self.text(n.desc), n.duration),
            Typed::SoftirqNoise(n) => {
                let name = self.names.intern(softirq_name(n.vector.unsigned_abs()));
                noise(Noise::Softirq, name, n.duration)
            }
            Typed::ThreadNoise(n) => noise(Noise::Thread, self.text(n.comm), n.duration),
            _ => {
                let name = self.file.formats.get(event.id).map_or("", |f| &f.name);
                What::Other { name: self.names.intern(name) }
            }
        }
    }

    /// Name of the task that was current at an event.
    fn current(&mut self, event: &crate::Event<'_>) -> Symbol {
        let name = self.file.comms.name(self.decoder.common(event).pid).to_vec();
        self.text(&name)
    }

    fn reason(&mut self, address: u64) -> Symbol {
        match self.file.printk.get(address) {
            Some(text) => {
                let text = text.to_vec();
                self.text(&text)
            }
            None => self.names.intern("IPI"),
        }
    }
}

fn noise(kind: Noise, name: Symbol, ns: u64) -> What {
    What::Noise { kind, name, length: Nanos(ns) }
}

/// `prev_state` as the scheduler reports it (`TASK_REPORT` bits; the bit above them says
/// "preempted"): the low bits are the same on all kernels.
fn left_as(state: u64) -> LeftAs {
    const INTERRUPTIBLE: u64 = 1;
    const UNINTERRUPTIBLE: u64 = 2;
    const GONE: u64 = 0x10 | 0x20 | 0x04 | 0x08;
    match state & 0xff {
        s if s & GONE != 0 => LeftAs::Gone,
        s if s & UNINTERRUPTIBLE != 0 => LeftAs::Blocked,
        s if s & INTERRUPTIBLE != 0 => LeftAs::Sleeping,
        0 => LeftAs::Runnable,
        _ => LeftAs::Sleeping,
    }
}
