//! The components of the bound ([`super::bound`]) from a recording, for machines without virtual time: an estimate.
//!
//! | event | tells |
//! |---|---|
//! | `irq_disable`, `irq_enable`, `preempt_disable`, `preempt_enable` (system `preemptirq`) | what postpones the scheduler |
//! | `irq_handler_entry`, and `*_entry` of the system `irq_vectors` | that a section is an interrupt, and which |
//! | `sched_switch`, `sched_waking` | which section schedules, and which task waits for it |
//!
//! An interrupt takes from its entry code, which turns interrupts off, until they are on again; its time is not part of the section that
//! it interrupts. The idle task has preemption off until it schedules: its section begins at the end of the last interrupt, and those without
//! a switch, in which the CPU waits, are none. Where events are lost, what is open is dropped.

use super::arrivals::Source;
use super::bound::BoundFile;
use latlab_model::path::BoundKind;
use latlab_trace::{Diagnostics, EventFormat, Field, Missed, TraceFile};
use std::collections::{BTreeMap, HashMap};

/// A priority below this is real-time.
const REAL_TIME: u64 = 100;

/// Sources of interrupts that are told apart; further ones are one source.
const SOURCES_MAX: usize = 1 << 10;
/// Interrupts that are read: the rest of a longer recording is not.
const INTERRUPTS_MAX: usize = 1 << 20;
/// Bytes of an interrupt's name that are kept.
const NAME_MAX: usize = 64;
/// Tasks that were woken and did not run yet.
const WOKEN_MAX: usize = 1 << 16;

/// Wake-ups of a priority that are a latency to compare with.
const OFTEN: u64 = 10;

/// What a recording tells.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// The components, ns.
    pub file: BoundFile,
    /// Wake-ups of the tasks of the highest priority that wakes up often, and their longest time from the wake-up to the switch, ns.
    pub wakeups: u64,
    /// See [`Recorded::wakeups`].
    pub observed_ns: u64,
}

/// What an event is to the analysis.
#[derive(Clone, Debug)]
enum What {
    Irqs { off: bool, caller: Option<Field> },
    Preemption { off: bool, caller: Option<Field> },
    Handler { irq: Field, name: Option<Field> },
    Vector(String),
    Waking { pid: Field, prio: Field, cpu: Field },
    Switch { prev: Field, next: Field },
}

/// The analysis of a recording, `None` where it lacks the events of sections or of the scheduler; what is damaged.
pub fn read(file: &TraceFile<'_>) -> (Option<Recorded>, Diagnostics) {
    let kinds: HashMap<u16, What> =
        file.formats.iter().filter_map(|f| Some((f.id, what(f)?))).collect();
    let has = |is: fn(&What) -> bool| kinds.values().any(is);
    if !has(|w| matches!(w, What::Irqs { .. })) || !has(|w| matches!(w, What::Switch { .. })) {
        return (None, Diagnostics::default());
    }
    let text_start = text_start(file.symbols.text());
    let mut cpus = BTreeMap::<u32, Cpu>::new();
    let mut all = Found::default();
    let mut events = file.events();
    while let Some(event) = events.next() {
        if all.count >= INTERRUPTS_MAX {
            break;
        }
        let cpu = cpus.entry(event.cpu).or_default();
        if event.missed != Missed::No {
            *cpu = Cpu::default();
        }
        let Some(what) = kinds.get(&event.id) else { continue };
        let of = |field: &Field| field.u64(event.payload);
        let address = |caller: &Option<Field>| match (caller, text_start) {
            (Some(field), Some(start)) => start.saturating_add(of(field)),
            _ => 0,
        };
        let (now, found) = (event.time, &mut all);
        match what {
            What::Irqs { off: true, caller } => cpu.irqs_off(now, address(caller)),
            What::Irqs { off: false, caller } => {
                cpu.irqs_on(event.cpu, now, address(caller), found)
            }
            What::Preemption { off: true, caller } => cpu.preemption_off(now, address(caller)),
            What::Preemption { off: false, caller } => {
                cpu.preemption_on(now, address(caller), found)
            }
            What::Handler { irq, name } => cpu.interrupt(|| {
                let name = name.as_ref().map_or(&[][..], |name| name.text(event.payload));
                let name = &name[..name.len().min(NAME_MAX)];
                (Some(of(irq)), String::from_utf8_lossy(name).into_owned())
            }),
            What::Vector(name) => cpu.interrupt(|| (None, name.clone())),
            What::Waking { pid, prio, cpu: target } => {
                let (pid, prio) = (of(pid), of(prio));
                if prio < REAL_TIME && found.waking.len() < WOKEN_MAX {
                    found.waking.insert(pid, (now, prio));
                    if of(target) == u64::from(event.cpu) {
                        cpu.woken = Some(pid);
                    }
                }
            }
            What::Switch { prev, next } => {
                let next = of(next);
                found.started(next, now);
                cpu.switch(of(prev), next);
            }
        }
        if !matches!(what, What::Irqs { off: true, .. } | What::Preemption { off: true, .. }) {
            cpu.entered = None;
        }
    }
    (Some(all.recorded()), events.diagnostics())
}

fn what(format: &EventFormat) -> Option<What> {
    let field = |name: &str| format.field(name).cloned();
    let caller = field("caller_offs");
    Some(match &*format.name {
        "irq_disable" => What::Irqs { off: true, caller },
        "irq_enable" => What::Irqs { off: false, caller },
        "preempt_disable" => What::Preemption { off: true, caller },
        "preempt_enable" => What::Preemption { off: false, caller },
        "irq_handler_entry" => What::Handler { irq: field("irq")?, name: field("name") },
        "sched_waking" => {
            What::Waking { pid: field("pid")?, prio: field("prio")?, cpu: field("target_cpu")? }
        }
        "sched_switch" => What::Switch { prev: field("prev_pid")?, next: field("next_pid")? },
        name if &*format.system == "irq_vectors" => {
            What::Vector(name.strip_suffix("_entry")?.into())
        }
        _ => return None,
    })
}

/// The address from which `caller_offs` counts.
fn text_start(kallsyms: &[u8]) -> Option<u64> {
    let line = kallsyms.split(|b| *b == b'\n').find(|line| line.ends_with(b" _stext"))?;
    let address = std::str::from_utf8(line).ok()?.split(' ').next()?;
    u64::from_str_radix(address, 16).ok()
}

/// A thread's section with interrupts or preemption off.
#[derive(Clone, Copy, Debug)]
struct Open {
    from: u64,
    begins: u64,
    /// Time of interrupts in it.
    interrupts: u64,
    /// Time for which the scheduler was to run before it.
    pending: Option<u64>,
    /// The task that it switched to.
    next: Option<u64>,
}

/// The kernel's number of an interrupt, and its name; the vector's name only; neither: all further ones.
type Name = (Option<u64>, String);

/// An interrupt that is served.
#[derive(Clone, Debug)]
struct Interrupt {
    start: u64,
    source: Name,
    /// When it turned preemption off the last time, and where, unless it is on again: it returns by way of the scheduler.
    preemption_off: Option<(u64, u64)>,
}

/// What is known of a CPU.
#[derive(Clone, Debug, Default)]
struct Cpu {
    irqs_are_off: bool,
    preemption_is_off: bool,
    is_idle: bool,
    open: Option<Open>,
    /// When the events before turned interrupts off, and whether preemption was: an interrupt's entry, if its handler follows.
    entered: Option<(u64, bool)>,
    interrupt: Option<Interrupt>,
    interrupted_until: u64,
    /// A real-time task that was woken for this CPU, and since when nothing keeps the scheduler from running.
    woken: Option<u64>,
    waits_since: Option<u64>,
}

impl Cpu {
    fn opens(&mut self, now: u64, begins: u64) {
        if self.open.is_none() {
            let pending = self.waits_since.take().map(|since| now.saturating_sub(since));
            self.open = Some(Open { from: now, begins, interrupts: 0, pending, next: None });
        }
    }

    fn closes(&mut self, now: u64, ends: u64, found: &mut Found) {
        let Some(open) = self.open.take() else { return };
        let length = now.saturating_sub(open.from).saturating_sub(open.interrupts);
        match open.next {
            Some(next) => {
                found.longest(BoundKind::Scheduler, length, open.begins, ends);
                if let Some(pending) = open.pending.filter(|_| self.woken == Some(next)) {
                    found.longest(BoundKind::Pending, pending, 0, open.begins);
                }
                self.woken = None;
            }
            None if !self.is_idle => found.longest(BoundKind::Postponed, length, open.begins, ends),
            None => {}
        }
        self.waits_since = self.woken.map(|_| now);
    }

    fn irqs_off(&mut self, now: u64, caller: u64) {
        if self.interrupt.is_some() || self.irqs_are_off {
            return;
        }
        self.irqs_are_off = true;
        self.entered = Some((now, self.preemption_is_off));
        self.opens(now, caller);
    }

    fn irqs_on(&mut self, cpu: u32, now: u64, caller: u64, found: &mut Found) {
        self.interrupt_ends(cpu, now, found);
        self.irqs_are_off = false;
        if !self.preemption_is_off || self.is_idle {
            self.closes(now, caller, found);
        }
    }

    fn preemption_off(&mut self, now: u64, caller: u64) {
        if let Some(interrupt) = &mut self.interrupt {
            interrupt.preemption_off = Some((now, caller));
            return;
        }
        self.preemption_is_off = true;
        self.opens(now, caller);
    }

    fn preemption_on(&mut self, now: u64, caller: u64, found: &mut Found) {
        if let Some(interrupt) = &mut self.interrupt {
            interrupt.preemption_off = None;
            return;
        }
        self.preemption_is_off = false;
        if !self.irqs_are_off {
            self.closes(now, caller, found);
        }
    }

    fn interrupt(&mut self, source: impl Fn() -> Name) {
        if self.interrupt.is_some() {
            return;
        }
        let Some((start, preemption_was_off)) = self.entered else { return };
        if self.open.is_some_and(|open| open.from == start) {
            // What it interrupts waits no longer than before.
            let pending = self.open.take().and_then(|open| open.pending);
            self.waits_since = pending.map(|pending| start.saturating_sub(pending));
        }
        // The interrupt's own count of preemption is not its thread's.
        self.preemption_is_off = preemption_was_off;
        self.interrupt = Some(Interrupt { start, source: source(), preemption_off: None });
    }

    fn interrupt_ends(&mut self, cpu: u32, now: u64, found: &mut Found) {
        let Some(Interrupt { start, source, preemption_off }) = self.interrupt.take() else {
            return;
        };
        let end = preemption_off.map_or(now, |(at, _)| at);
        let length = end.saturating_sub(start);
        found.interrupted(source, cpu, (start, length));
        self.interrupted_until = end;
        match &mut self.open {
            Some(open) => open.interrupts += length,
            None => self.waits_since = self.woken.map(|_| end),
        }
        if let Some((at, caller)) = preemption_off {
            self.preemption_is_off = true;
            self.opens(at, caller);
        }
    }

    fn switch(&mut self, prev: u64, next: u64) {
        let interrupted_until = self.interrupted_until;
        if let Some(open) = &mut self.open {
            open.next = Some(next);
            if prev == 0 && interrupted_until > open.from {
                (open.from, open.interrupts, open.pending) = (interrupted_until, 0, None);
            }
        }
        // The scheduler's own section: both are off until the next task has left it.
        (self.irqs_are_off, self.preemption_is_off) = (true, true);
        self.is_idle = next == 0;
        if self.is_idle {
            self.open = None;
        }
        self.interrupt = None;
    }
}

/// What was found on all CPUs.
#[derive(Debug, Default)]
struct Found {
    /// Length, number, beginning and end.
    longest: BTreeMap<BoundKind, (u64, u64, u64, u64)>,
    /// Beginnings and lengths by source and CPU.
    interrupts: BTreeMap<Name, BTreeMap<u32, Vec<(u64, u64)>>>,
    count: usize,
    /// Time and priority of wake-ups.
    waking: HashMap<u64, (u64, u64)>,
    /// Number and longest by priority.
    latencies: BTreeMap<u64, (u64, u64)>,
}

impl Found {
    fn longest(&mut self, kind: BoundKind, length: u64, begins: u64, ends: u64) {
        let known = self.longest.entry(kind).or_default();
        known.1 += 1;
        if length >= known.0 {
            *known = (length, known.1, begins, ends);
        }
    }

    fn interrupted(&mut self, source: Name, cpu: u32, time: (u64, u64)) {
        let is_known = self.interrupts.len() < SOURCES_MAX || self.interrupts.contains_key(&source);
        let source = if is_known { source } else { Name::default() };
        self.count += 1;
        self.interrupts.entry(source).or_default().entry(cpu).or_default().push(time);
    }

    fn started(&mut self, pid: u64, now: u64) {
        // Priority 0 is that of the kernel's threads which stop a CPU.
        if let Some((woken, prio)) = self.waking.remove(&pid).filter(|w| w.1 > 0) {
            let of = self.latencies.entry(prio).or_default();
            *of = (of.0 + 1, of.1.max(now.saturating_sub(woken)));
        }
    }

    fn recorded(self) -> Recorded {
        let often = self.latencies.values().find(|(n, _)| *n >= OFTEN);
        let (wakeups, observed_ns) = *often.or(self.latencies.values().next()).unwrap_or(&(0, 0));
        let mut file = BoundFile::default();
        for (kind, (length, count, begins, ends)) in self.longest {
            file.add(kind, length, count, (begins, ends));
        }
        for (name, cpus) in self.interrupts {
            let mut source = Source::named(name.0, name.1);
            for (start, length) in cpus.into_values().flat_map(spans) {
                match length {
                    Some(length) => drop(source.push(start, length)),
                    None => source.wait(),
                }
            }
            file.add_source(source);
        }
        Recorded { file, wakeups, observed_ns }
    }
}

/// The interrupts of a CPU, and what parts them from those of another one.
fn spans(all: Vec<(u64, u64)>) -> impl Iterator<Item = (u64, Option<u64>)> {
    all.into_iter().map(|(start, length)| (start, Some(length))).chain([(0, None)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::bound::{Measured, detail};

    /// µs, event and fields, of task 7 at first.
    const EVENTS: &[(u32, &str)] = &[
        (0, "preempt_disable: caller=a parent=b"),
        (30, "preempt_enable: caller=a parent=b"),
        // An interrupt in a section takes nothing of it.
        (40, "preempt_disable: caller=a parent=b"),
        (50, "irq_disable: caller=a parent=b"),
        (51, "irq_handler_entry: irq=26 name=disk"),
        (57, "irq_enable: caller=a parent=b"),
        (65, "preempt_enable: caller=a parent=b"),
        // One that wakes a task and returns by way of the scheduler, 2 µs later.
        (100, "irq_disable: caller=a parent=b"),
        (101, "preempt_disable: caller=a parent=b"),
        (102, "irq_handler_entry: irq=26 name=disk"),
        (104, "sched_waking: comm=loop pid=41 prio=19 target_cpu=000"),
        (110, "preempt_enable: caller=a parent=b"),
        (111, "irq_enable: caller=a parent=b"),
        (113, "preempt_disable: caller=a parent=b"),
        (114, "irq_disable: caller=a parent=b"),
        (
            116,
            "sched_switch: prev_comm=sh prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=loop next_pid=41 next_prio=19",
        ),
        (117, "irq_enable: caller=a parent=b"),
        (121, "preempt_enable: caller=a parent=b"),
        // The idle task sleeps with preemption off: that is no section.
        (200, "preempt_disable: caller=a parent=b"),
        (
            201,
            "sched_switch: prev_comm=loop prev_pid=41 prev_prio=19 prev_state=S ==> next_comm=swapper next_pid=0 next_prio=120",
        ),
        (202, "irq_enable: caller=a parent=b"),
        (300, "irq_disable: caller=a parent=b"),
        (301, "irq_handler_entry: irq=26 name=disk"),
        (302, "sched_waking: comm=loop pid=41 prio=19 target_cpu=000"),
        (305, "irq_enable: caller=a parent=b"),
        (306, "irq_disable: caller=a parent=b"),
        (
            309,
            "sched_switch: prev_comm=swapper prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=loop next_pid=41 next_prio=19",
        ),
        (310, "irq_enable: caller=a parent=b"),
        (312, "preempt_enable: caller=a parent=b"),
    ];

    fn text(events: &[(u32, &str)]) -> String {
        let line = |(us, event): &(u32, &str)| {
            format!("              sh-7       [000] d..1.   10.{us:06}: {event}\n")
        };
        events.iter().map(line).collect()
    }

    #[test]
    fn sections_interrupts_and_switches_of_a_recording_are_a_bound() {
        let text = text(EVENTS);
        let file = latlab_trace::open(text.as_bytes()).unwrap();
        let recorded = read(&file).0.unwrap();
        assert_eq!((recorded.wakeups, recorded.observed_ns), (2, 12_000));
        let measured = Measured { insn_ns: 1, ..Measured::default() };
        let detail = detail(&recorded.file, &measured, &[]);
        let of = |kind| {
            let found = detail.components.iter().find(|c| c.kind == kind);
            found.map_or((0, 0), |c| (c.longest, c.count))
        };
        // 30 and 19 µs, and 1 µs behind the interrupt's own.
        assert_eq!(of(BoundKind::Postponed).0, 30_000);
        assert_eq!(of(BoundKind::Scheduler), (8_000, 2));
        // 2 µs before the first switch, 1 µs before that of the idle task.
        assert_eq!(of(BoundKind::Pending), (2_000, 2));
        let interrupts = &detail.interrupts[0];
        assert_eq!(
            (interrupts.number, interrupts.count, interrupts.longest),
            (Some(26), 3, 11_000)
        );
        assert_eq!(interrupts.least_distance, Some(50_000));
        // The first and the second interrupt lie in one window of that length.
        assert_eq!(detail.bound, Some(30_000 + 8_000 + 2_000 + 7_000 + 11_000));
    }

    #[test]
    fn without_its_events_a_recording_has_no_bound() {
        let switches = &EVENTS[15..16];
        let without = [text(switches), text(&EVENTS[..2])];
        for text in without {
            let file = latlab_trace::open(text.as_bytes()).unwrap();
            assert!(read(&file).0.is_none(), "{text}");
        }
    }
}
