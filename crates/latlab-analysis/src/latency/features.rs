//! One wake-up reduced to numbers that can be compared across captures:
//! how long, how often and by whom each part of it was.

use super::breakdown::{Budget, Piece, interrupt};
use super::capture::Capture;
use super::class::is_fair;
use super::cpu_timeline::{Actor, Lanes};
use super::family::family;
use super::{ipi, locks, silence};
use latlab_model::event::{EventKind, Symbol, softirq_name};
use latlab_model::latency::Cause;
use latlab_model::latency::{Calls, Group, Kind, Share, Window};
use latlab_model::units::TraceNs;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Reduces a time budget. On-time windows of its task end at `compared`, where that is before its end.
pub fn window(
    capture: &Capture,
    lanes: &Lanes,
    budget: &Budget,
    compared: Option<TraceNs>,
) -> Window {
    // A wake-up has few groups: a list is faster than a tree of names.
    let mut shares: Vec<(Occupation<'_>, (Share, u64))> = Vec::with_capacity(8);
    let mut functions: BTreeMap<(Occupation<'_>, &str), Calls> = BTreeMap::new();
    let mut longest_silence: Option<&Piece> = None;
    for piece in &budget.pieces {
        let group = group_of(capture, lanes, budget, piece);
        if let Some(function) = piece.function {
            let calls = functions.entry((group.clone(), capture.names.get(function))).or_default();
            calls.ns = calls.ns.saturating_add(piece.length().0);
            calls.calls += u32::from(piece.calls);
        }
        let at = shares.iter().position(|(g, _)| is_same(g, &group)).unwrap_or_else(|| {
            shares.push((group, Default::default()));
            shares.len() - 1
        });
        let (share, longest) = &mut shares[at].1;
        add(share, longest, piece, lanes);
        let from = compared.map_or(piece.end, |t| t.clamp(piece.start, piece.end));
        let not_compared = piece.end.since(from).0;
        share.not_compared_ns = share.not_compared_ns.saturating_add(not_compared);
        if piece.length().0 == *longest && piece.task.tid.0 > 0 {
            let thread = capture.names.get(piece.task.name);
            if share.thread.as_deref() != Some(thread) {
                share.thread = Some(thread.to_owned());
            }
        }
        if piece.length().0 == *longest {
            let waits_for = piece.waits_for.map(|s| family(capture.names.get(s)).to_owned());
            share.waited_for = waits_for.or(share.waited_for.take());
        }
        if piece.cause == Cause::IdleExit && share.idle_state.is_none() {
            share.idle_state = silence::idle_state(capture, piece);
        }
        for sender in ipi::senders(capture, lanes, piece) {
            if !share.senders.contains(&sender) {
                share.senders.push(sender);
            }
        }
        if piece.cause == Cause::Lock {
            share.contended |= locks::is_contended(capture, budget, piece);
            if let Some(owner) = locks::owner(capture, lanes, budget, piece) {
                for (who, ns) in locks::instead(capture, lanes, budget, piece, owner) {
                    let who = family(capture.names.get(who)).to_owned();
                    let sum = share.instead_ns.entry(who).or_default();
                    *sum = sum.saturating_add(ns.0);
                }
            }
        }
        if longest_silence.is_none_or(|p| piece.silent > p.silent) {
            longest_silence = Some(piece);
        }
    }
    shares.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let a = &budget.activation;
    let interrupted = budget.milestones.and_then(|m| interrupt::interrupted(capture, &m));
    let interrupted = interrupted.map(|f| f.map_or("", |f| capture.names.get(f)).to_owned());
    let silence = longest_silence.map(|p| silence::of(capture, lanes, p)).unwrap_or_default();
    Window {
        source: capture.source.clone(),
        intended_ns: a.intended.0,
        latency_ns: a.latency().0,
        cpu: a.cpu.0,
        prio: budget.milestones.map(|m| m.prio).filter(|p| *p != i32::MAX),
        without_work: a.began.is_none(),
        late: a.late,
        lost: budget.lost,
        uncovered: budget.uncovered,
        steal_ns: None,
        smi: None,
        shares: shares.into_iter().map(|(g, (s, _))| (owned(g), s)).collect(),
        functions: functions.into_iter().map(|((g, f), c)| (owned(g), f.to_owned(), c)).collect(),
        stacks: stacks(capture, lanes, budget),
        silent_in_user: silence.in_user,
        silent_interrupts_on: silence.interrupts_on,
        silent_preemption_on: silence.preemption_on,
        silent_hwlat: silence.hwlat,
        silent_other_timer: silence.other_timer,
        silent_ipi: silence.ipi,
        interrupted,
        at_intended: budget
            .pieces
            .first()
            .map_or_else(String::new, |p| occupant(capture, p).into_owned()),
    }
}

fn add(share: &mut Share, longest: &mut u64, piece: &Piece, lanes: &Lanes) {
    let length = piece.length().0;
    share.ns = share.ns.saturating_add(length);
    share.whole_ns = share.whole_ns.saturating_add(piece.whole.0);
    share.times += u32::from(piece.begins);
    if length >= *longest {
        *longest = length;
        share.stage = Some(piece.stage);
        share.kind = Some(kind_of(piece.actor));
        if let Actor::Task(_) = piece.actor {
            share.prio = (piece.task.prio != i32::MAX).then_some(piece.task.prio);
        }
    }
    if piece.silent.0 >= share.silent_ns {
        share.silent_ns = piece.silent.0;
        share.usual_silent_ns = lanes.handlers.of(piece.actor);
        share.others = Some(piece.others);
    }
}

/// A cause and who: a [`Group`] of borrowed names, in the same order.
type Occupation<'a> = (Cause, Cow<'a, str>);

/// Whether two are equal; most names are one string of the capture.
fn is_same(a: &Occupation<'_>, b: &Occupation<'_>) -> bool {
    a.0 == b.0 && (std::ptr::eq::<str>(&*a.1, &*b.1) || a.1 == b.1)
}

fn owned((cause, who): Occupation<'_>) -> Group {
    Group { cause, who: who.into_owned() }
}

fn group_of<'a>(
    capture: &'a Capture,
    lanes: &Lanes,
    budget: &Budget,
    piece: &Piece,
) -> Occupation<'a> {
    let is_fair = budget.milestones.is_some_and(|m| is_fair(m.prio));
    let who = match piece.cause {
        // Without runtime it does not matter who has the CPU.
        Cause::Throttled if is_fair => Cow::default(),
        Cause::Path
        | Cause::IdleExit
        | Cause::Unexplained
        | Cause::ProgrammedLate
        | Cause::PageFault
        | Cause::Sleep => Cow::default(),
        Cause::Lock => {
            let owner = locks::owner(capture, lanes, budget, piece);
            let task = owner.and_then(|tid| lanes.tasks.get(&tid));
            task.map_or("", |t| family(capture.names.get(t.name))).into()
        }
        _ => occupant(capture, piece),
    };
    (piece.cause, who)
}

/// Who had the CPU during a piece, also on the ordinary path.
pub fn label<'a>(capture: &'a Capture, piece: &Piece) -> Cow<'a, str> {
    occupant(capture, piece)
}

/// Who had the CPU during a piece.
fn occupant<'a>(capture: &'a Capture, piece: &Piece) -> Cow<'a, str> {
    let name = |s: Symbol| Cow::Borrowed(capture.names.get(s));
    match piece.actor {
        Actor::Irq(irq, s) if capture.names.get(s).is_empty() => {
            ["irq ", &irq.to_string()].concat().into()
        }
        Actor::Irq(_, s) | Actor::Vector(s) => name(s),
        Actor::Hrtimer(s) | Actor::Timer(s) | Actor::Work(s) => name(s),
        // As osnoise reports it, with its name.
        Actor::Softirq(u32::MAX) => name(piece.task.name),
        Actor::Softirq(vec) => softirq_name(vec).into(),
        Actor::Nmi => "NMI".into(),
        Actor::Idle => Cow::default(),
        Actor::Task(_) => family(capture.names.get(piece.task.name)).into(),
    }
}

/// Stacks that events inside each piece carried.
fn stacks(capture: &Capture, lanes: &Lanes, budget: &Budget) -> Vec<(Group, Vec<String>)> {
    let mut found = Vec::new();
    if !capture.kinds().stacks {
        return found;
    }
    for piece in &budget.pieces {
        // The stack event follows the event that ends the piece, too: `end` is inclusive.
        let own = capture.within(piece.start, piece.end).iter().filter(|e| e.cpu == piece.cpu);
        for e in own {
            if let EventKind::Stack { stack } = e.kind {
                let frames = capture.names.stack(stack);
                let names = frames.iter().map(|&f| capture.names.get(f).to_owned()).collect();
                found.push((owned(group_of(capture, lanes, budget, piece)), names));
            }
        }
    }
    found
}

fn kind_of(actor: Actor) -> Kind {
    match actor {
        Actor::Idle => Kind::Idle,
        Actor::Task(_) => Kind::Task,
        Actor::Irq(..) | Actor::Vector(_) => Kind::Interrupt,
        Actor::Nmi => Kind::Nmi,
        Actor::Softirq(_) => Kind::Softirq,
        Actor::Hrtimer(_) => Kind::Hrtimer,
        Actor::Timer(_) => Kind::Timer,
        Actor::Work(_) => Kind::Work,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::breakdown::budget;
    use crate::latency::scenario::{FAIR, RT, Script};

    #[test]
    fn shares_add_up_to_the_latency() {
        let mut s = Script::default();
        s.switch(0.0, RT, FAIR).timer(400.0).preempt(406.0, FAIR, RT);
        s.at(500.0, EventKind::Other);
        let a = s.wakes(100.0, 410.0, true);
        let lanes = Lanes::of(&s.capture.events);
        let w = window(&s.capture, &lanes, &budget(&s.capture, &lanes, a), None);
        assert_eq!(w.shares.iter().map(|(_, s)| s.ns).sum::<u64>(), w.latency_ns);
        let off = w.share(&Group { cause: Cause::InterruptsOff, who: "worker".into() });
        assert_eq!((off.ns, off.prio), (300_000, Some(120)));
        assert_eq!(off.whole_ns, 400_000, "it began when the worker was switched in");
    }
}
