//! Writes the trail while the pieces are cut: the wake-ups, and what let an interrupt or softirq begin.

use super::trail::{Link, LinkKind, OffInterval, Standing, Step, Trail};
use super::{Cutter, Milestones};
use crate::latency::cpu_timeline::Actor;
use crate::latency::sent;
use latlab_model::event::{Event, EventKind};
use latlab_model::units::{Tid, TraceNs};
use std::cell::RefCell;

/// Events of a CPU before a wake-up among which what raised a softirq is looked for.
const BACK: usize = 1_024;

impl Cutter<'_> {
    pub(super) fn step(&self, step: Step) {
        if step.from < step.to {
            self.write(|trail| trail.steps.push(step));
        }
    }

    pub(super) fn off(&self, off: OffInterval) {
        self.write(|trail| trail.off.push(off));
    }

    pub(super) fn link(&self, link: Link) {
        self.write(|trail| trail.links.push(link));
    }

    fn write(&self, entry: impl FnOnce(&mut Trail)) {
        if let Some(trail) = &self.trail {
            entry(&mut trail.borrow_mut());
        }
    }

    /// A wake-up, with what let the interrupt or softirq begin that it came from; nothing before `since`.
    pub(super) fn woken(&self, waking: &Event, to: Tid, depth: u32, since: TraceNs) {
        let Some((_, target)) = waking.kind.wakes().filter(|_| self.trail.is_some()) else {
            return;
        };
        let context = self.context(waking);
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
            _ => self.sent_by(link, context, since),
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
        self.sent_by(link, context, since);
        self.link(link);
    }

    /// Which CPU sent the interrupt in which something happened, where it was one.
    fn sent_by(&self, then: Link, context: Option<Actor>, since: TraceNs) {
        let Some(vector @ Actor::Vector(name)) = context else { return };
        if !sent::is_ipi(self.capture.names.get(name)) {
            return;
        }
        let Some(sent) = sent::sent(self.capture, then.cpu, since, then.at) else { return };
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
        if let Some(waking) = self.waking_at(m.waking) {
            self.woken(waking, self.a.tid, 0, self.a.intended);
        }
    }

    /// The trail with the steps before the first switch to the task and behind an ordinary wake-up.
    pub(super) fn finish_trail(&self, m: Option<Milestones>) -> Trail {
        let Some(mut trail) = self.trail.as_ref().map(RefCell::take) else {
            return Trail::default();
        };
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
