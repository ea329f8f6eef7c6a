//! The critical path of a late wake-up or activation as the page gets it.

use latlab_analysis::latency::breakdown::trail::{Link, LinkKind, Standing};
use latlab_analysis::latency::capture::Capture;
use latlab_analysis::latency::cpu_timeline::Actor;
use latlab_analysis::latency::critical_path::{CriticalPath, OffCpu, Segment};
use latlab_model::event::{Symbol, softirq_name};
use latlab_model::latency::{self, Cause, Mechanism};
use latlab_model::units::TraceNs;
use latlab_report::messages;
use serde::Serialize;
use std::collections::HashMap;

/// Different stacks of one answer at most.
const STACKS: usize = 10_000;

/// A part of a wake-up's latency: ns after the intended time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Part {
    /// Start.
    pub from: u64,
    /// End.
    pub to: u64,
    /// Stage of the wake-up.
    pub stage: &'static str,
    /// Cause, named as in reports.
    pub cause: &'static str,
    /// Who had the CPU.
    pub who: String,
    /// What that is.
    pub actor: ActorKind,
    /// The CPU whose events tell it.
    pub cpu: u32,
    /// The task whose time it is: the late one, or one that it waits for.
    pub pid: i32,
    /// What that task does.
    pub state: Doing,
    /// Waits between it and the late task.
    pub depth: u32,
}

/// An interval in which a task of the path had no CPU: a wait, or a preemption of which a stack was recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Off {
    /// Start, ns after the intended time.
    pub from: i64,
    /// End.
    pub to: i64,
    /// The task.
    pub pid: i32,
    /// The CPU that it left.
    pub cpu: u32,
    /// Whether it waits; otherwise it was preempted.
    pub waits: bool,
    /// As of the parts of this task.
    pub depth: u32,
    /// The stack, of kernel and program, with which it left its CPU: its place in [`Late::stacks`](crate::late::Late::stacks).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<usize>,
}

impl Off {
    fn of(off: &OffCpu, intended: TraceNs, capture: &Capture, stacks: &mut Stacks) -> Self {
        let rel = |t: TraceNs| t.0 as i64 - intended.0 as i64;
        let i = &off.interval;
        Self {
            from: rel(i.from),
            to: rel(i.to),
            pid: i.tid.0,
            cpu: i.cpu.0,
            waits: i.waits,
            depth: i.depth,
            stack: stacks.place(&off.stack, capture),
        }
    }
}

/// What a task does during a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    /// It has a CPU.
    Running,
    /// It is runnable and has none.
    Ready,
    /// It waits.
    #[default]
    Waiting,
}

impl From<Standing> for Doing {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Running => Self::Running,
            Standing::Ready => Self::Ready,
            Standing::Waiting => Self::Waiting,
        }
    }
}

/// An event that ended a wait, or let an interrupt or softirq begin that ended one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Arrow {
    /// `wakes`, `hands_on`, `sends` or `raises`.
    pub kind: &'static str,
    /// Time, ns after the intended time.
    pub at: i64,
    /// CPU that recorded it.
    pub cpu: u32,
    /// The task that was current there.
    pub by: i32,
    /// The interrupt or function that acted; empty: the task itself.
    pub who: String,
    /// In which lane that is.
    pub lane: Lane,
    /// The task that is woken in the end.
    pub pid: i32,
    /// The CPU to which it leads.
    pub target: u32,
    /// The interrupt or softirq that begins; empty: a task is woken.
    pub begins: String,
    /// In which lane that is.
    pub begins_lane: Lane,
    /// As of the parts of the task that is woken.
    pub depth: u32,
}

/// The lane of a CPU or task in which something happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// Of the task, or what ran on the CPU.
    #[default]
    Task,
    /// Interrupts of the CPU.
    Irq,
    /// Softirqs and deferred work of the CPU.
    Soft,
}

impl Lane {
    fn of(actor: Option<Actor>) -> Self {
        match actor {
            None | Some(Actor::Task(_) | Actor::Idle) => Self::Task,
            Some(Actor::Irq(..) | Actor::Vector(_) | Actor::Hrtimer(_) | Actor::Nmi) => Self::Irq,
            Some(Actor::Softirq(_) | Actor::Timer(_) | Actor::Work(_)) => Self::Soft,
        }
    }
}

impl Arrow {
    pub(crate) fn of(link: &Link, intended: TraceNs, capture: &Capture) -> Self {
        let words = |actor: Option<Actor>| actor.map_or_else(String::new, |a| said(a, capture));
        Self {
            kind: match link.kind {
                LinkKind::Wakes => "wakes",
                LinkKind::HandsOn => "hands_on",
                LinkKind::Sends => "sends",
                LinkKind::Raises => "raises",
            },
            at: link.at.0 as i64 - intended.0 as i64,
            cpu: link.cpu.0,
            by: link.by.0,
            who: words(link.context),
            lane: Lane::of(link.context),
            pid: link.to.0,
            target: link.target.0,
            begins: words(link.begins),
            begins_lane: Lane::of(link.begins),
            depth: link.depth,
        }
    }
}

/// What had the CPU during a part: the page colours by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    /// The ordinary code of a wake-up.
    Path,
    /// A task.
    Task,
    /// An interrupt, a softirq, idle, or nobody that is known.
    #[default]
    Other,
}

impl ActorKind {
    fn of(part: &latency::Part) -> Self {
        match part.cause {
            Cause::Path => Self::Path,
            Cause::Execution | Cause::Wait | Cause::Overrun => Self::Task,
            cause if cause.is_in_place() => Self::Task,
            _ => Self::Other,
        }
    }
}

/// The stacks of an answer, each once.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    list: Vec<Vec<String>>,
    known: HashMap<Vec<String>, usize>,
}

impl Stacks {
    /// The place of a stack; `None` for an empty one, and beyond the most.
    fn place(&mut self, frames: &[Symbol], capture: &Capture) -> Option<usize> {
        if frames.is_empty() {
            return None;
        }
        let frames: Vec<String> = frames.iter().map(|f| capture.names.get(*f).to_owned()).collect();
        if let Some(known) = self.known.get(&frames) {
            return Some(*known);
        }
        if self.list.len() >= STACKS {
            return None;
        }
        self.list.push(frames.clone());
        self.known.insert(frames, self.list.len() - 1);
        Some(self.list.len() - 1)
    }

    /// All of them, by place.
    pub fn into_list(self) -> Vec<Vec<String>> {
        self.list
    }
}

/// A path as the page gets it.
pub(crate) struct Path {
    pub parts: Vec<Part>,
    pub arrows: Vec<Arrow>,
    pub off: Vec<Off>,
}

impl Path {
    pub fn of(
        path: &CriticalPath,
        intended: TraceNs,
        capture: &Capture,
        stacks: &mut Stacks,
    ) -> Self {
        let off = path.off.iter().map(|o| Off::of(o, intended, capture, stacks)).collect();
        Self {
            parts: path.segments.iter().map(Part::of).collect(),
            arrows: path.links.iter().map(|l| Arrow::of(l, intended, capture)).collect(),
            off,
        }
    }
}

impl Part {
    fn of(segment: &Segment) -> Self {
        let part = &segment.part;
        Self {
            from: part.start_ns,
            to: part.end_ns,
            stage: messages::wakeup_stage(part.stage),
            cause: messages::part_cause(part),
            who: part.who.clone(),
            actor: ActorKind::of(part),
            cpu: segment.cpu.0,
            pid: segment.of.0,
            state: segment.standing.into(),
            depth: segment.depth,
        }
    }
}

/// An actor in words.
fn said(actor: Actor, capture: &Capture) -> String {
    let (mechanism, who) = named(actor, capture);
    let mechanism = messages::mechanism(mechanism);
    if who.is_empty() { mechanism.to_owned() } else { format!("{mechanism}: {who}") }
}

/// The mechanism that an actor stands for, and its name.
pub(crate) fn named(actor: Actor, capture: &Capture) -> (Mechanism, String) {
    // A function without its module.
    let name = |symbol: Symbol| {
        let name = capture.names.get(symbol);
        name.split_once(" [").map_or(name, |(name, _)| name).to_owned()
    };
    match actor {
        Actor::Irq(irq, symbol) => {
            let name = capture.names.get(symbol);
            (Mechanism::InterruptHandler, format!("irq {irq} {name}"))
        }
        Actor::Vector(symbol) => (Mechanism::InterruptHandler, name(symbol)),
        Actor::Hrtimer(symbol) => (Mechanism::HrtimerHandler, name(symbol)),
        Actor::Nmi => (Mechanism::Nmi, String::new()),
        Actor::Softirq(vec) => (Mechanism::Softirq, softirq_name(vec).into()),
        Actor::Timer(symbol) => (Mechanism::TimerCallback, name(symbol)),
        Actor::Work(symbol) => (Mechanism::Workqueue, name(symbol)),
        Actor::Idle | Actor::Task(_) => (Mechanism::Unexplained, String::new()),
    }
}
