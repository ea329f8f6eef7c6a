//! The latest events that tell the activations of watched threads: a window that moves over an unending trace.
//!
//! Each part of the trace is decoded once. What stays are the switches and wake-ups of the threads, the timers and locks
//! that they use, and all that runs timers and interrupts, because it tells what woke them.

use crate::latency::capture::{Capture, Lost};
use crate::timeline::from_trace::scan;
use latlab_model::event::{Event, EventKind, Symbol};
use latlab_model::units::{CpuId, Tid, TraceNs};
use latlab_trace::decode::Groups;
use latlab_trace::names::IntMap;
use latlab_trace::{Select, TraceFile};
use std::ops::ControlFlow;

mod held;

/// Events at most; the oldest go. 13 MB.
const EVENTS: usize = 1 << 18;
/// Of those before the window, which activations that have not ended need; the oldest go.
const HELD: usize = 1 << 14;
/// Names of which those that no event has any more are dropped.
const NAMES: usize = 4_096;

/// The window.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    capture: Capture,
}

impl Recent {
    /// Its events, in order of time; `covered_from` is the time of the first one.
    pub fn capture(&self) -> &Capture {
        &self.capture
    }

    /// Adds those of the chosen events of a trace that tell the activations of these threads, which are sorted. How many of
    /// them are too many; those are as lost.
    pub fn add(&mut self, trace: &TraceFile<'_>, select: &Select, tids: &[Tid]) -> u64 {
        let groups = Groups::SWITCH
            | Groups::WAKE
            | Groups::INTERRUPT
            | Groups::EXPIRY
            | Groups::TIMER
            | Groups::REST;
        let own = &mut self.capture;
        let before = own.events.len();
        own.clock_is_monotonic = trace.clock() == "mono";
        let mut known: IntMap<u32, Symbol> = IntMap::default();
        let mut last: IntMap<u32, TraceNs> = IntMap::default();
        scan(trace, select, 1, groups, |event, names| {
            let from = last.insert(event.cpu.0, event.time);
            if let EventKind::Lost { count } = event.kind {
                let from = from.unwrap_or(event.time);
                own.lost.push(Lost { cpu: event.cpu, from, to: event.time, count });
            } else if tells(event, tids) {
                let mut event = *event;
                rename(&mut event.kind, |symbol| {
                    *known.entry(symbol.0).or_insert_with(|| own.names.intern(names.get(symbol)))
                });
                own.events.push(event);
            }
            ControlFlow::Continue(())
        });
        // One CPU is read after the other: the last events of one part are later than the first ones of the next.
        if !own.events.is_sorted_by_key(|e| e.time) {
            own.events.sort_by_key(|e| e.time);
        }
        let surplus = own.events.len().saturating_sub(EVENTS);
        let unseen = surplus.saturating_sub(before);
        if unseen > 0 {
            let (from, to) = (own.events[before].time, own.events[surplus].time);
            own.lost.push(Lost { cpu: CpuId(0), from, to, count: Some(unseen as u64) });
        }
        self.drop_first(surplus);
        unseen as u64
    }

    /// Nothing was recorded in this time: what was before is not connected with what follows.
    pub fn lose(&mut self, from: TraceNs, to: TraceNs) {
        self.capture.lost.push(Lost { cpu: CpuId(0), from, to, count: None });
    }

    /// Drops what is before a time, but for what tells the activations of these threads, which are sorted, from a time of each
    /// on.
    pub fn forget(&mut self, before: TraceNs, held: &[(Tid, TraceNs)]) {
        let events = &mut self.capture.events;
        let end = events.partition_point(|e| e.time < before);
        let mut keeps = held::of(&events[..end], held);
        let surplus = keeps.iter().filter(|keep| **keep).count().saturating_sub(HELD);
        keeps.iter_mut().filter(|keep| **keep).take(surplus).for_each(|keep| *keep = false);
        let mut at = 0;
        events.retain(|_| {
            at += 1;
            keeps.get(at - 1).is_none_or(|keep| *keep)
        });
        self.drop_first(0);
    }

    /// Drops everything: nothing is recorded from one time to another.
    pub fn clear(&mut self, from: TraceNs, to: TraceNs) {
        self.capture = Capture::default();
        self.lose(from, to);
    }

    fn drop_first(&mut self, count: usize) {
        let own = &mut self.capture;
        own.events.drain(..count);
        own.covered_from = own.events.first().map_or(TraceNs(0), |e| e.time);
        own.lost.retain(|lost| lost.to >= own.covered_from);
        if own.names.symbols().count() > NAMES {
            let before = std::mem::take(&mut own.names);
            for event in &mut own.events {
                rename(&mut event.kind, |symbol| own.names.intern(before.get(symbol)));
            }
        }
    }
}

/// Whether an event tells an activation of one of these threads, or may have begun one.
fn tells(event: &Event, tids: &[Tid]) -> bool {
    let is = |tid: Tid| tids.binary_search(&tid).is_ok();
    match event.kind {
        EventKind::Switch { prev, next, .. } => is(prev.tid) || is(next.tid),
        EventKind::Waking { task, .. } => is(task.tid),
        EventKind::HrtimerStart { .. }
        | EventKind::LockBegin { .. }
        | EventKind::LockEnd { .. } => is(event.current),
        EventKind::HrtimerEntry { .. }
        | EventKind::HrtimerExit { .. }
        | EventKind::IrqEntry { .. }
        | EventKind::IrqExit { .. } => true,
        _ => false,
    }
}

/// Replaces the names of an event that [`tells`] lets pass.
fn rename(kind: &mut EventKind, mut name: impl FnMut(Symbol) -> Symbol) {
    match kind {
        EventKind::Switch { prev, next, .. } => {
            (prev.name, next.name) = (name(prev.name), name(next.name));
        }
        EventKind::Waking { task, .. } => task.name = name(task.name),
        EventKind::HrtimerStart { function, .. } | EventKind::HrtimerEntry { function, .. } => {
            *function = name(*function);
        }
        EventKind::IrqEntry { name: own, .. } => *own = name(*own),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::activations::Job;
    use crate::latency::activations::from_capture::{Chosen, Known, threads};
    use crate::latency::from_trace;
    use crate::watch::follow::Follow;
    use latlab_model::units::Nanos;

    /// A periodic task that waits for two others, recorded on two CPUs with other programs.
    const CHAIN: &[u8] = include_bytes!("../../../../fixtures/trace/chain7.dat");

    /// What a whole trace tells of a task is told part by part as well, each activation once.
    #[test]
    fn parts_of_a_trace_tell_what_the_whole_tells() {
        let file = latlab_trace::open(CHAIN).unwrap();
        let whole = from_trace::capture(&file, "whole");
        let by_name = threads(&whole, &Chosen::Name("task".into()), &Known::default());
        let tids: Vec<Tid> = by_name.iter().map(|thread| thread.tid).collect();
        let expected: Vec<_> = by_name.iter().flat_map(|thread| &thread.jobs).copied().collect();
        let (first, last) = (whole.events[0].time.0, whole.events[whole.events.len() - 1].time.0);
        for (step, overlap) in [(7_000_000, 60_000_000), (2_000_000, 100_000)] {
            let (found, most) = by_parts(&file, (first, last), &tids, (step, overlap));
            assert_eq!(found, expected, "parts of {step} ns, {overlap} ns of overlap");
            assert!(most * 2 < whole.events.len(), "{most} of {}", whole.events.len());
        }
        assert!(expected.len() >= 15, "{}", expected.len());
        let longest = expected.iter().map(Job::response).max();
        assert!(longest > Some(Nanos(3_000_000)), "one is longer than a part: {longest:?}");
    }

    /// The activations that parts of a length, ns, tell, and the most events at a time. From the sixth activation on a window
    /// begins `overlap` before its part: until then what begins one is not known.
    fn by_parts(
        file: &TraceFile<'_>,
        (first, last): (u64, u64),
        tids: &[Tid],
        (step, overlap): (u64, u64),
    ) -> (Vec<Job>, usize) {
        let (mut recent, mut follow) = (Recent::default(), Follow::default());
        let (mut found, mut most) = (Vec::new(), 0);
        let mut from = first;
        while from <= last {
            let to = from + step - 1;
            let overlap = if found.len() < 6 { 60_000_000 } else { overlap };
            recent.forget(TraceNs(from.saturating_sub(overlap)), &follow.held());
            let select = Select { from: Some(from), to: Some(to), ..Select::default() };
            assert_eq!(recent.add(file, &select, tids), 0);
            most = most.max(recent.capture().events.len());
            let chosen = Chosen::Tids(tids.to_vec());
            let fresh = follow.take(recent.capture(), &chosen, TraceNs(to));
            found.extend(fresh.threads.into_iter().flat_map(|(thread, _)| {
                assert_eq!(thread.name, "task");
                thread.jobs
            }));
            from += step;
        }
        (found, most)
    }

    /// A time without recording makes no activation that takes as long.
    #[test]
    fn what_is_not_recorded_is_no_delay() {
        let file = latlab_trace::open(CHAIN).unwrap();
        let whole = from_trace::capture(&file, "whole");
        let by_name = threads(&whole, &Chosen::Name("task".into()), &Known::default());
        let (tid, jobs) = (by_name[0].tid, &by_name[0].jobs);
        // From the middle of a job to the middle of the one after the next.
        let middle = |i: usize| jobs[i].start.0.midpoint(jobs[i].end.0);
        let (from, to) = (middle(4), middle(6));
        let mut recent = Recent::default();
        let before = Select { to: Some(from), ..Select::default() };
        recent.add(&file, &before, &[tid]);
        let found = |is_known: bool| {
            let mut recent = recent.clone();
            if is_known {
                recent.lose(TraceNs(from), TraceNs(to));
            }
            recent.add(&file, &Select { from: Some(to), ..Select::default() }, &[tid]);
            let found = threads(recent.capture(), &Chosen::Tids(vec![tid]), &Known::default());
            found.iter().flat_map(|thread| &thread.jobs).copied().collect::<Vec<_>>()
        };
        assert!(found(false).iter().any(|job| !jobs.contains(job)), "it would be one");
        let found = found(true);
        assert!(found.len() >= jobs.len() - 5, "{} of {}", found.len(), jobs.len());
        assert!(found.iter().all(|job| jobs.contains(job)), "{found:#?}");
    }

    /// Weeks bring new names of other tasks; those that no event has any more go.
    #[test]
    fn names_of_events_that_went_are_dropped() {
        let file = latlab_trace::open(CHAIN).unwrap();
        let mut recent = Recent::default();
        recent.add(&file, &Select::default(), &[]);
        let functions = |recent: &Recent| -> Vec<String> {
            let own = recent.capture();
            let function = |e: &Event| match e.kind {
                EventKind::HrtimerEntry { function, .. } => {
                    Some(own.names.get(function).to_owned())
                }
                _ => None,
            };
            own.events.iter().filter_map(function).collect()
        };
        let before = functions(&recent);
        assert!(before.iter().any(|name| name == "hrtimer_wakeup"), "{before:?}");
        for i in 0..=NAMES {
            recent.capture.names.intern(&format!("gone-{i}"));
        }
        recent.forget(TraceNs(0), &[]);
        assert_eq!(functions(&recent), before);
        assert!(recent.capture.names.symbols().count() < 100);
    }
}
