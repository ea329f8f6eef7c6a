//! The budget of a wake-up of the kernel's own timerlat thread, from what timerlat and osnoise say.
//!
//! ```text
//! intended             irq line                    thread line
//!    │ until the interrupt │ until the thread runs      │
//!      irq latency           thread latency − irq latency
//! ```
//!
//! The tracer tells both latencies and who was interrupted, osnoise's events what ran meanwhile, each at
//! its end with its length. What neither tells stays unexplained: without `sched_switch` nobody knows
//! whether the interrupted task ran on or another one was chosen.
//!
//! Source: Linux, `Documentation/trace/timerlat-tracer.rst` and `osnoise-tracer.rst`.

use super::{Cutter, Piece};
use crate::latency::cpu_timeline::Actor;
use latlab_model::event::{Event, EventKind, Noise, Symbol, Task};
use latlab_model::latency::{Cause, Stage};
use latlab_model::units::{Nanos, Tid, TraceNs};

/// Something that osnoise reported: its stretch, and who.
struct Heard {
    start: TraceNs,
    end: TraceNs,
    cause: Cause,
    actor: Actor,
    task: Task,
}

impl Cutter<'_> {
    /// The pieces of a wake-up that ends with a line of timerlat, where no scheduler event tells more.
    pub(super) fn timerlat(&self) -> Option<Vec<Piece>> {
        let (cpu, from, to) = (self.a.cpu, self.a.intended, self.a.actual);
        let inside = || self.capture.back(cpu, from, to);
        let at_end = |e: &Event| {
            e.time == to && e.current == self.a.tid && matches!(e.kind, EventKind::Timerlat { .. })
        };
        inside().find(|e| at_end(e))?;
        let irq = inside().find_map(|e| match e.kind {
            EventKind::Timerlat { context: 0, current, .. } => Some((e, current)),
            _ => None,
        });
        let mut heard = self.heard(inside(), irq.map_or(to, |(e, _)| e.time));
        heard.sort_by_key(|h| (h.start, h.end));
        let mut pieces = Vec::new();
        match irq {
            Some((entry, current)) => {
                let task = Task { tid: entry.current, name: current, prio: i32::MAX };
                let held = match entry.current {
                    Tid(0) => (Cause::IdleExit, Actor::Idle, task),
                    // The thread itself had not gone to sleep.
                    tid if tid == self.a.tid => (Cause::Overrun, Actor::Task(tid), task),
                    tid => (Cause::InterruptsOff, Actor::Task(tid), task),
                };
                self.fill(Stage::Interrupt, from, entry.time, held, &heard, &mut pieces);
                self.fill(Stage::Schedule, entry.time, to, nobody(), &heard, &mut pieces);
            }
            None => self.fill(Stage::Schedule, from, to, nobody(), &heard, &mut pieces),
        }
        Some(pieces)
    }

    /// What osnoise reported within a wake-up.
    fn heard<'e>(&self, inside: impl Iterator<Item = &'e Event>, interrupt: TraceNs) -> Vec<Heard> {
        let one = |e: &Event| {
            let EventKind::Noise { source, name, length } = e.kind else { return None };
            let start = TraceNs(e.time.0.saturating_sub(length.0));
            let (cause, actor) = match source {
                Noise::Nmi => (Cause::Nmi, Actor::Nmi),
                Noise::Irq => (Cause::Interrupt, Actor::Vector(name)),
                Noise::Softirq => (Cause::Softirq, Actor::Softirq(u32::MAX)),
                Noise::Thread if self.capture.names.get(name).starts_with("swapper/") => {
                    (Cause::IdleExit, Actor::Idle)
                }
                // Chosen while the thread waited, or there before and not given way.
                Noise::Thread if start > interrupt => (Cause::HigherPriority, Actor::Task(Tid(-2))),
                Noise::Thread => (Cause::PreemptionOff, Actor::Task(Tid(-2))),
                Noise::Hardware => (Cause::Unexplained, Actor::Task(Tid(-1))),
            };
            let task = Task { tid: Tid(-2), name, prio: i32::MAX };
            Some(Heard { start, end: e.time, cause, actor, task })
        };
        let mut heard: Vec<Heard> = inside.filter_map(one).collect();
        heard.reverse();
        heard
    }

    /// Pieces from `from` to `to`: what was heard, the innermost first, and `rest` between.
    fn fill(
        &self,
        stage: Stage,
        from: TraceNs,
        to: TraceNs,
        rest: (Cause, Actor, Task),
        heard: &[Heard],
        pieces: &mut Vec<Piece>,
    ) {
        let mut cuts: Vec<TraceNs> = heard.iter().flat_map(|h| [h.start, h.end]).collect();
        cuts.extend([from, to]);
        cuts.retain(|t| (from..=to).contains(t));
        cuts.sort_unstable();
        cuts.dedup();
        for pair in cuts.windows(2) {
            let (start, end) = (pair[0], pair[1]);
            // The one that began last runs above the others.
            let by = heard.iter().rev().find(|h| h.start <= start && h.end >= end);
            let (cause, actor, task) = by.map_or(rest, |h| (h.cause, h.actor, h.task));
            let whole = by.map_or(end.since(start), |h| h.end.since(h.start));
            let first = pieces.last().is_none_or(|p: &Piece| (p.cause, p.actor) != (cause, actor));
            pieces.push(Piece {
                waits_for: None,
                start,
                end,
                cpu: self.a.cpu,
                stage,
                cause,
                actor,
                task,
                function: None,
                begins: first,
                calls: false,
                silent: if by.is_some() { Nanos(0) } else { end.since(start) },
                silent_from: start,
                others: self.others(self.a.cpu, start, end),
                whole: if first { whole } else { Nanos(0) },
            });
        }
    }
}

fn nobody() -> (Cause, Actor, Task) {
    let task = Task { tid: Tid(-1), name: Symbol(0), prio: i32::MAX };
    (Cause::Unexplained, Actor::Task(Tid(-1)), task)
}
