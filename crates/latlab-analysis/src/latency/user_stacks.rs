//! User stacks that were recorded beside a capture: of a thread, where in its program it was when it left its CPU.
//!
//! A stack is sampled behind the switch with which the thread leaves its CPU, so it belongs to the last switch
//! before it. A switch whose sample is missing has none: the next sample is behind the thread's next switch.

use super::capture::{Activation, Capture};
use latlab_model::event::{EventKind, StackId, Symbol};
use latlab_model::latency::{UserFrame, UserStacks, WaitSite, WaitSites, Waits};
use latlab_model::units::{Tid, TraceNs};
use std::collections::BTreeMap;

/// Frames of a stack that are kept.
const FRAMES: usize = 64;
/// Places that are kept.
const SITES: usize = 32;

/// Adds user stacks to the capture that they were recorded with.
pub fn attach(capture: &mut Capture, stacks: &UserStacks) {
    let frames: Vec<Symbol> =
        stacks.frames.iter().map(|f| capture.names.intern(&f.to_string())).collect();
    let ids: Vec<StackId> = (stacks.stacks.iter())
        .map(|stack| {
            let known = |place: &u32| frames.get(*place as usize).copied();
            let own: Vec<Symbol> = stack.iter().take(FRAMES).filter_map(known).collect();
            capture.names.add_stack(&own)
        })
        .collect();
    let sampled = &mut capture.user_stacks;
    sampled.frames = frames.into_iter().zip(stacks.frames.iter().cloned()).collect();
    for left in &stacks.left {
        let Some(&id) = ids.get(left.stack as usize) else { continue };
        sampled.threads.entry(Tid(left.tid)).or_default().push((TraceNs(left.at_ns), id));
    }
    sampled.threads.values_mut().for_each(|samples| samples.sort_by_key(|s| s.0));
}

/// The user stack with which a thread left its CPU at `since`, where it is back at `until`; empty where none is known.
pub fn of(capture: &Capture, tid: Tid, since: TraceNs, until: TraceNs) -> &[Symbol] {
    let Some(samples) = capture.user_stacks.threads.get(&tid) else { return &[] };
    let next = samples.partition_point(|s| s.0 < since);
    let own = samples.get(next).filter(|s| s.0 <= until);
    own.map_or(&[], |s| capture.names.stack(s.1))
}

/// Where the activations of a capture waited; nothing where no user stack was recorded.
pub fn wait_sites(capture: &Capture) -> WaitSites {
    let mut all = WaitSites::default();
    if capture.user_stacks.threads.is_empty() {
        return all;
    }
    let mut sites: BTreeMap<&[Symbol], WaitSite> = BTreeMap::new();
    for activation in &capture.activations {
        *(if activation.late { &mut all.late } else { &mut all.on_time }) += 1;
        for (left, back) in waits(capture, activation) {
            let stack = of(capture, activation.tid, left, back);
            if stack.is_empty() {
                all.without_stack += u64::from(activation.late);
                continue;
            }
            let site = sites.entry(stack).or_default();
            let waits = if activation.late { &mut site.late } else { &mut site.on_time };
            waits.add(back.since(left).0);
        }
    }
    let named = |(stack, site): (&[Symbol], WaitSite)| {
        let known = &capture.user_stacks.frames;
        let stack = stack.iter().filter_map(|f| known.get(f).cloned()).collect();
        WaitSite { stack, ..site }
    };
    all.sites = sites.into_iter().map(named).collect();
    all
}

/// From when to when an activation has no CPU and is not runnable, between its start and its end.
fn waits(capture: &Capture, activation: &Activation) -> Vec<(TraceNs, TraceNs)> {
    let from = activation.began.map_or(activation.intended, |b| b.start);
    let (mut found, mut left) = (Vec::new(), None);
    for e in capture.within(from, activation.actual) {
        match e.kind {
            EventKind::Switch { prev, state, .. } if prev.tid == activation.tid => {
                left =
                    (!state.is_runnable()).then_some(e.time).filter(|_| e.time < activation.actual);
            }
            EventKind::Switch { next, .. } if next.tid == activation.tid => {
                found.extend(left.take().map(|left| (left, e.time)));
            }
            kind if kind.is_waking(activation.tid) => {
                found.extend(left.take().map(|left| (left, e.time)));
            }
            _ => {}
        }
    }
    found
}

/// The sites of several captures together.
pub fn merge(all: Vec<WaitSites>) -> Option<WaitSites> {
    let mut merged = WaitSites::default();
    let mut sites: BTreeMap<Vec<UserFrame>, (Waits, Waits)> = BTreeMap::new();
    for one in all {
        merged.late += one.late;
        merged.on_time += one.on_time;
        merged.without_stack += one.without_stack;
        for site in one.sites {
            let (late, on_time) = sites.entry(site.stack).or_default();
            late.merge(&site.late);
            on_time.merge(&site.on_time);
        }
    }
    if merged.late + merged.on_time == 0 {
        return None;
    }
    let site = |(stack, (late, on_time))| WaitSite { stack, late, on_time };
    merged.sites = sites.into_iter().map(site).collect();
    merged.sites.sort_by_key(|s| std::cmp::Reverse((s.late.total_ns, s.on_time.total_ns)));
    merged.sites.truncate(SITES);
    Some(merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::capture::{Began, End};
    use crate::latency::scenario::{FAIR, RT, Script};
    use latlab_model::latency::LeftCpu;
    use latlab_model::units::CpuId;

    fn ns(us: u64) -> TraceNs {
        TraceNs(us * 1_000)
    }

    fn activation(start: u64, end: u64, late: bool) -> Activation {
        let began = Began { woken: ns(start), start: ns(start), after: None, by_event: false };
        Activation {
            tid: RT.tid,
            cpu: CpuId(0),
            intended: ns(start),
            actual: ns(end),
            end: End::Completion,
            late,
            called: false,
            began: Some(began),
        }
    }

    fn frame(function: &str) -> UserFrame {
        UserFrame { function: function.into(), object: "loop".into(), ..UserFrame::default() }
    }

    /// Two activations: one waits 30 µs on time, the late one 30 and 400 µs, for other reasons.
    fn capture() -> Capture {
        let mut s = Script::default();
        s.switch(0.0, FAIR, RT);
        let waiting = |s: &mut Script, from: f64, to: f64| {
            let waking = EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false };
            s.switch(from, RT, FAIR).at(to, waking).switch(to + 5.0, FAIR, RT);
        };
        waiting(&mut s, 110.0, 140.0);
        waiting(&mut s, 200.0, 1_000.0);
        waiting(&mut s, 1_110.0, 1_140.0);
        waiting(&mut s, 1_200.0, 1_600.0);
        s.switch(1_700.0, RT, FAIR);
        s.capture.events.sort_by_key(|e| e.time);
        s.capture.activations = vec![activation(100, 200, false), activation(1_005, 1_700, true)];
        s.capture
    }

    fn stacks(left: &[(u64, u32)]) -> UserStacks {
        let left = left.iter().map(|&(us, stack)| {
            let at_ns = us * 1_000 + 1;
            LeftCpu { tid: RT.tid.0, at_ns, stack }
        });
        UserStacks {
            frames: vec![frame("wait"), frame("lock"), frame("sensor"), frame("sleep")],
            // A function that is not there is left out.
            stacks: vec![vec![0, 1], vec![0, 2, 77], vec![3]],
            left: left.collect(),
        }
    }

    #[test]
    fn waits_are_compared_by_the_place_in_the_program() {
        let mut capture = capture();
        attach(&mut capture, &stacks(&[(110, 0), (200, 2), (1_110, 0), (1_200, 1), (1_700, 2)]));
        let sites = merge(vec![wait_sites(&capture), wait_sites(&capture)]).unwrap();
        assert_eq!((sites.late, sites.on_time, sites.without_stack), (2, 2, 0));
        let waits =
            |count, us: u64| Waits { count, total_ns: count * us * 1_000, longest_ns: us * 1_000 };
        let found: Vec<_> =
            sites.sites.iter().map(|s| (s.stack.as_slice(), s.late, s.on_time)).collect();
        let (sensor, lock) = ([frame("wait"), frame("sensor")], [frame("wait"), frame("lock")]);
        let none = Waits::default();
        // The sleep to the next activation is none.
        assert_eq!(
            found,
            [(&sensor[..], waits(2, 400), none), (&lock[..], waits(2, 30), waits(2, 30))]
        );
    }

    /// A sample that is missing is not replaced by that of another switch.
    #[test]
    fn a_switch_without_its_sample_has_no_stack() {
        let mut capture = capture();
        attach(&mut capture, &stacks(&[(1_110, 0), (1_700, 2), (1_750, 9)]));
        let sites = wait_sites(&capture);
        assert_eq!((sites.sites.len(), sites.without_stack), (1, 1), "{sites:?}");
        assert!(of(&capture, RT.tid, ns(1_200), ns(1_600)).is_empty());
        assert_eq!(of(&capture, RT.tid, ns(1_110), ns(1_140)).len(), 2);
        assert!(of(&capture, FAIR.tid, ns(1_110), ns(1_140)).is_empty());
        assert_eq!(merge(vec![wait_sites(&Capture::default())]), None);
    }
}
