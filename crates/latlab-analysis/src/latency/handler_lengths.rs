//! How long the functions of interrupts, softirqs, timers and work items usually run without an event.

use super::cpu_timeline::{Actor, Span};
use latlab_stats::quantile::median;
use latlab_trace::names::IntMap;

/// So many executions of a function are kept, the first of a capture.
const KEPT: usize = 63;
/// Fewer do not show what is usual.
const LEAST: usize = 3;

/// The longest interval without an event of each execution, function by function, while events go by.
#[derive(Default)]
pub struct HandlerLengths {
    functions: IntMap<u64, Lengths>,
}

#[derive(Default)]
struct Lengths {
    /// Executions, those that are not kept too.
    executions: usize,
    /// ns.
    longest: Vec<f64>,
}

impl HandlerLengths {
    /// Takes a span, in rising time of its CPU.
    #[inline]
    pub fn take(&mut self, span: &Span) {
        let Some(key) = key(span.actor) else { return };
        let of = self.functions.entry(key).or_default();
        let length = span.length().0 as f64;
        of.executions += usize::from(span.begins);
        match of.longest.last_mut() {
            // What goes on behind an event in it is the same execution.
            Some(last) if !span.begins && of.executions <= KEPT => *last = last.max(length),
            _ if span.begins && of.executions <= KEPT => of.longest.push(length),
            _ => {}
        }
    }

    /// Medians of what is kept.
    pub fn finish(self) -> UsualLengths {
        let enough = self.functions.into_iter().filter(|(_, of)| of.longest.len() >= LEAST);
        UsualLengths(enough.filter_map(|(k, of)| Some((k, median(&of.longest)? as u64))).collect())
    }
}

/// How long a function usually runs without an event, in a capture, ns.
#[derive(Clone, Debug, Default)]
pub struct UsualLengths(IntMap<u64, u64>);

impl UsualLengths {
    /// Of a function with enough executions.
    #[inline]
    pub fn of(&self, actor: Actor) -> Option<u64> {
        self.0.get(&key(actor)?).copied()
    }
}

/// What has events at both its ends; a non-maskable interrupt is one event with its length.
fn key(actor: Actor) -> Option<u64> {
    let (kind, number) = match actor {
        Actor::Irq(irq, _) => (1, irq.cast_unsigned()),
        Actor::Vector(name) => (2, name.0),
        Actor::Softirq(vec) => (3, vec),
        Actor::Hrtimer(function) => (4, function.0),
        Actor::Timer(function) => (5, function.0),
        Actor::Work(function) => (6, function.0),
        Actor::Idle | Actor::Task(_) | Actor::Nmi => return None,
    };
    Some(kind << 32 | u64::from(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::cpu_timeline::Lanes;
    use crate::latency::scenario::{RT, Script};
    use latlab_model::event::EventKind;

    /// Executions of 10 µs with an event after 8 µs, and one that takes 300 µs.
    #[test]
    fn one_long_execution_changes_nothing_of_what_is_usual() {
        let mut s = Script::default();
        let function = s.name("on_timer");
        for (i, end) in [(0, 10.0), (1, 10.0), (2, 300.0), (3, 10.0), (4, 10.0)] {
            let begin = f64::from(i) * 1_000.0 + 1.0;
            s.at(begin, EventKind::HrtimerEntry { timer: 1, function, now: 0, preempt_off: false })
                .at(begin + 8.0, EventKind::Other)
                .at(begin + end, EventKind::HrtimerExit { timer: 1 });
            let usual = Lanes::of(&s.capture.events).handlers.of(Actor::Hrtimer(function));
            assert_eq!(usual, (i >= 2).then_some(8_000), "{i}");
        }
        assert_eq!(UsualLengths::default().of(Actor::Task(RT.tid)), None);
    }
}
