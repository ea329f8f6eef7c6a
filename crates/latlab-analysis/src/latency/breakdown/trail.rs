//! What the breakdown of an activation goes along: whose time each interval is, and which event ended each wait.
//!
//! The pieces of a budget say who acted; the trail says for whom that counts. It is written while the pieces are
//! cut, so that both are one analysis.

use super::{Cutter, Milestones};
use crate::latency::cpu_timeline::Actor;
use crate::latency::ipi;
use latlab_model::event::{Event, EventKind};
use latlab_model::units::{CpuId, Tid, TraceNs};

/// Events of a CPU before a wake-up among which what raised a softirq is looked for.
const BACK: usize = 1_024;

/// What a task does in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has a CPU.
    Running,
    /// It is runnable and has none.
    Ready,
    /// It waits.
    Waiting,
}

/// An interval of one task that the activation waits for, or of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Start.
    pub from: TraceNs,
    /// End.
    pub to: TraceNs,
    /// Whose time it is.
    pub tid: Tid,
    /// What that task does.
    pub standing: Standing,
    /// How many waits lie between it and the measured task, which has 0.
    pub depth: u32,
}

/// An interval without a CPU of a task of the path: it waits, whether that is followed or not, or was preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffInterval {
    /// Start.
    pub from: TraceNs,
    /// End.
    pub to: TraceNs,
    /// The task.
    pub tid: Tid,
    /// The CPU that it left.
    pub cpu: CpuId,
    /// When it left that, or was woken: also before `from`.
    pub since: TraceNs,
    /// Whether it waits; otherwise it is runnable.
    pub waits: bool,
    /// As of [`Step`].
    pub depth: u32,
}

/// What a link stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// A task is woken.
    Wakes,
    /// A lock is handed on to a task that spins for it.
    HandsOn,
    /// An interrupt is sent to another CPU.
    Sends,
    /// A softirq is raised.
    Raises,
}

/// An event that ends a wait, or lets an interrupt or softirq begin that ends one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// What it is.
    pub kind: LinkKind,
    /// Time of the event.
    pub at: TraceNs,
    /// CPU that recorded it.
    pub cpu: CpuId,
    /// The task that was current there.
    pub by: Tid,
    /// The interrupt or function that acted; `None`: the task itself.
    pub context: Option<Actor>,
    /// The task that is woken; for an interrupt or softirq the one that it wakes in the end.
    pub to: Tid,
    /// The CPU to which it leads.
    pub target: CpuId,
    /// The interrupt or softirq that begins, for [`LinkKind::Sends`] and [`LinkKind::Raises`].
    pub begins: Option<Actor>,
    /// As of [`Step`], of the task that is woken.
    pub depth: u32,
}

/// The steps and links of one activation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// In order of time, without overlaps.
    pub steps: Vec<Step>,
    /// In order of time.
    pub links: Vec<Link>,
    /// In order of time, those of a waiter before those of the task that it waits for.
    pub off: Vec<OffInterval>,
}

impl Trail {
    /// The step that a moment lies in.
    pub fn at(&self, time: TraceNs) -> Option<&Step> {
        let next = self.steps.partition_point(|s| s.to <= time);
        self.steps.get(next).filter(|s| s.from <= time)
    }
}

impl Cutter<'_> {
    pub(super) fn step(&self, step: Step) {
        if step.from < step.to {
            self.trail.borrow_mut().steps.push(step);
        }
    }

    pub(super) fn off(&self, off: OffInterval) {
        self.trail.borrow_mut().off.push(off);
    }

    pub(super) fn link(&self, link: Link) {
        self.trail.borrow_mut().links.push(link);
    }

    /// A wake-up, with what let the interrupt or softirq begin that it came from; nothing before `since`.
    pub(super) fn woken(&self, waking: &Event, to: Tid, depth: u32, since: TraceNs) {
        let (target, context) = match waking.kind {
            EventKind::Waking { target, .. }
            | EventKind::Wakeup { target, .. }
            | EventKind::WakeupNew { target, .. } => (target, self.context(waking)),
            _ => return,
        };
        let link = Link {
            kind: LinkKind::Wakes,
            at: waking.time,
            cpu: waking.cpu,
            by: waking.current,
            context,
            to,
            target,
            begins: None,
            depth,
        };
        match context {
            Some(Actor::Softirq(vec)) => self.raised_by(link, vec, since),
            Some(vector @ Actor::Vector(_)) => self.sent_by(link, vector, since),
            _ => {}
        }
        self.link(link);
    }

    /// Who raised the softirq that a wake-up came from.
    fn raised_by(&self, woken: Link, vec: u32, since: TraceNs) {
        let before = self.capture.back(woken.cpu, since, woken.at).take(BACK);
        let raise = |e: &&Event| matches!(e.kind, EventKind::SoftirqRaise { vec: v } if v == vec);
        let Some(raise) = before.into_iter().find(raise) else { return };
        let context = self.context(raise);
        // What a softirq raises anew while it runs began earlier.
        if context == woken.context {
            return;
        }
        let link = Link {
            kind: LinkKind::Raises,
            at: raise.time,
            by: raise.current,
            context,
            target: woken.cpu,
            begins: woken.context,
            ..woken
        };
        if let Some(vector @ Actor::Vector(_)) = context {
            self.sent_by(link, vector, since);
        }
        self.link(link);
    }

    /// Which CPU sent the interrupt in which something happened.
    fn sent_by(&self, then: Link, vector: Actor, since: TraceNs) {
        let Actor::Vector(name) = vector else { return };
        if !ipi::is_ipi(self.capture.names.get(name)) {
            return;
        }
        let Some(sent) = ipi::sent(self.capture, then.cpu, since, then.at) else { return };
        self.link(Link {
            kind: LinkKind::Sends,
            at: sent.time,
            cpu: sent.cpu,
            by: sent.current,
            context: self.context(sent),
            target: then.cpu,
            begins: Some(vector),
            ..then
        });
    }

    /// The wake-up with which the activation began.
    pub(super) fn first_link(&self, m: Milestones) {
        let own = self.lanes.scheduling.of(self.a.tid);
        let first = own.partition_point(|&i| self.event(i).time < m.waking);
        let at = own[first..].iter().map(|&i| self.event(i));
        let is_waking = |e: &&Event| {
            matches!(e.kind,
                EventKind::Waking { task, .. } | EventKind::Wakeup { task, .. } | EventKind::WakeupNew { task, .. }
                    if task.tid == self.a.tid)
        };
        if let Some(waking) = at.take_while(|e| e.time == m.waking).find(is_waking) {
            self.woken(waking, self.a.tid, 0, self.a.intended);
        }
    }

    /// The trail with the steps before the first switch to the task and behind an ordinary wake-up.
    pub(super) fn finish_trail(&self, m: Option<Milestones>) -> Trail {
        let mut trail = self.trail.take();
        let mut own = |from: TraceNs, to: TraceNs, standing| {
            if from < to {
                let (tid, depth) = (self.a.tid, 0);
                trail.steps.push(Step { from, to, tid, standing, depth });
            }
        };
        let (intended, actual) = (self.a.intended, self.a.actual);
        match m {
            Some(m) => {
                let after =
                    self.a.began.and_then(|b| b.after).map_or(intended, |t| t.min(m.waking));
                own(intended, after, Standing::Running);
                own(after.max(intended), m.waking, Standing::Waiting);
                own(m.waking.max(intended), m.switch_in, Standing::Ready);
                if self.a.began.is_none() {
                    own(m.switch_in, actual, Standing::Running);
                }
            }
            None => own(intended, actual, Standing::Running),
        }
        trail.steps.sort_by_key(|s| s.from);
        trail.links.sort_by_key(|l| l.at);
        trail.off.sort_by_key(|o| (o.from, o.depth));
        trail.links.dedup();
        trail
    }
}
