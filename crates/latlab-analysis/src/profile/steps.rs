//! Where the time of the longest latency passed: from each recorded function or event to the next one on its CPU.

use crate::timeline::cpu::PerCpu;
use latlab_model::event::{Event, EventKind, Names, Symbol};
use latlab_model::profile::Step;
use std::cmp::Reverse;

/// Steps that are listed, and at most so many times as many while events are read.
const LISTED: usize = 20;
const WHILE_READING: usize = 10;

/// A function or an event.
#[derive(Clone, Copy, Debug)]
struct Place {
    time_ns: u64,
    tid: i32,
    function: Symbol,
    caller: Symbol,
    /// An event that is no call.
    event: &'static str,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    length_ns: u64,
    from: Place,
    to: Place,
    cpu: u32,
}

/// The longest steps.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    last: PerCpu<Option<Place>>,
    kept: Vec<Kept>,
}

impl Steps {
    /// Takes the next event in order of time.
    pub(super) fn push(&mut self, event: &Event) {
        let none = Symbol::default();
        let (function, caller, name) = match event.kind {
            EventKind::FunctionCall { function, parent } => (function, parent, ""),
            EventKind::Switch { .. } => (none, none, "sched_switch"),
            EventKind::Waking { .. } => (none, none, "wake-up"),
            _ => (none, none, "event"),
        };
        let (time_ns, tid, cpu) = (event.time.0, event.current.0, event.cpu.0);
        let to = Place { time_ns, tid, function, caller, event: name };
        let place = self.last.place(event.cpu, || None);
        if let Some(from) = self.last[place].replace(to) {
            let length_ns = time_ns.saturating_sub(from.time_ns);
            self.kept.push(Kept { length_ns, from, to, cpu });
            if self.kept.len() == WHILE_READING * LISTED {
                self.forget_shorter();
            }
        }
    }

    fn forget_shorter(&mut self) {
        self.kept.sort_by_key(|k| (Reverse(k.length_ns), k.from.time_ns));
        self.kept.truncate(LISTED);
    }

    /// The longest first.
    pub(super) fn finish(mut self, names: &Names, task: &dyn Fn(i32) -> String) -> Vec<Step> {
        self.forget_shorter();
        let name = |p: &Place| match p.event {
            "" => names.get(p.function).to_owned(),
            event => event.to_owned(),
        };
        let step = |k: &Kept| Step {
            from: name(&k.from),
            caller: names.get(k.from.caller).to_owned(),
            to: name(&k.to),
            length_ns: k.length_ns,
            start_ns: k.from.time_ns,
            cpu: k.cpu,
            tid: k.from.tid,
            task: task(k.from.tid),
        };
        self.kept.iter().filter(|k| k.length_ns > 0).map(step).collect()
    }
}
