//! Who should have run: inherited priorities, inversions, and the end of a throttling.

use super::Analyzer;
use crate::sched::task::{Boost, FoundInversion, Throttling};
use crate::timeline::task::State;
use latlab_model::event::{Event, Names, Task};
use latlab_model::sched::schedule::InversionKind;
use latlab_model::units::{Nanos, TraceNs};

/// Inversions and throttlings that are listed; all are counted.
const LISTED_MAX: usize = 1_000;
/// A task that is ready while one of lower priority runs on for less than this has met an
/// ordinary preemption, not an inversion.
pub const INVERSION: Nanos = Nanos(100_000);

impl Analyzer {
    pub(super) fn set_prio_event(&mut self, c: usize, event: &Event, task: Task, new: i32) {
        let i = self.find(Task { prio: i32::MAX, ..task });
        let own = task.prio;
        if new < own && self.tasks[i].account.boost.is_none() && event.current != task.tid {
            let waiter = self.tasks.get(event.current).map(|w| self.tasks[w].as_task());
            if let Some(waiter) = waiter {
                let cpu = self.cpus[c].line.cpu;
                self.tasks[i].account.boost = Some(Boost { since: event.time, own, waiter, cpu });
            }
        } else if self.tasks[i].account.boost.is_some_and(|b| new >= b.own) {
            self.end_boost(i, event.time);
        }
        self.set_prio(i, new);
    }

    pub(super) fn end_boost(&mut self, i: usize, time: TraceNs) {
        let Some(boost) = self.tasks[i].account.boost.take() else { return };
        let low = Task { prio: boost.own, ..self.tasks[i].as_task() };
        self.invert(InversionKind::Boosted, boost.waiter, low, boost.cpu, boost.since, time);
    }

    /// Those who were ready while this one, of lower priority, ran on.
    pub(super) fn see_inversions(&mut self, c: usize, low: usize, start: TraceNs, time: TraceNs) {
        if self.cpus[c].waiting.is_empty() || self.cpus[c].throttle.is_some() || !self.saw.wakeup {
            return;
        }
        let cpu = self.cpus[c].line.cpu;
        let low = self.tasks[low].as_task();
        for n in 0..self.cpus[c].waiting.len() {
            let high = &self.tasks[self.cpus[c].waiting[n]];
            if let State::Runnable { since, .. } = high.state
                && high.prio < low.prio
            {
                let (high, from) = (high.as_task(), since.max(start));
                if time.since(from) >= INVERSION {
                    self.invert(InversionKind::Ready, high, low, cpu, from, time);
                }
            }
        }
    }

    fn invert(
        &mut self,
        kind: InversionKind,
        high: Task,
        low: Task,
        cpu: u32,
        from: TraceNs,
        to: TraceNs,
    ) {
        self.inversion_count += 1;
        let inversion = FoundInversion { kind, high, low, cpu, from, to };
        if self.inversions.len() < LISTED_MAX {
            self.inversions.push(inversion);
        } else if let Some(least) = self.inversions.iter_mut().min_by_key(|i| i.length())
            && least.length() < inversion.length()
        {
            *least = inversion;
        }
    }

    pub(super) fn end_throttle(&mut self, c: usize, next: Task, time: TraceNs, names: &Names) {
        let back = |of: &Throttling| match of.task.prio {
            ..0 => next.prio < 0,
            _ => next.prio < 100,
        };
        if !self.cpus[c].throttle.as_ref().is_some_and(back) || is_stopper(next, names) {
            return;
        }
        let Some(over) = self.cpus[c].throttle.take() else { return };
        self.throttle_count += 1;
        if self.throttles.len() < LISTED_MAX {
            self.throttles.push((self.cpus[c].line.cpu, over, time));
        }
    }
}

/// The kernel's own highest thread, which runs whatever is throttled.
fn is_stopper(task: Task, names: &Names) -> bool {
    names.get(task.name).starts_with("migration/")
}
