//! Interruptions of known content.

use super::attribute::{CpuPieces, Piece, Pieces, explain};
use super::{Sum, Window};
use crate::timeline::from_trace::Analysis;
use latlab_model::event::{Event, EventKind, Names, OffCpu, Task};
use latlab_model::noise::{CpuWindow, Interruption, NoiseKind};
use latlab_model::units::{CpuId, Tid, TraceNs};
use latlab_stats::histogram::Histogram;
use std::collections::BTreeMap;

const LOOP: Tid = Tid(100);

fn window(gaps: &[(u64, u64)]) -> CpuWindow {
    let listed: Vec<_> =
        gaps.iter().map(|&(start_ns, length_ns)| Interruption { start_ns, length_ns }).collect();
    CpuWindow {
        tid: LOOP,
        threshold_ns: 5_000,
        end_ns: 1_000_000_000,
        count: gaps.len() as u64,
        lost_ns: gaps.iter().map(|g| g.1).sum(),
        distances: Histogram::of(gaps.iter().map(|g| g.1)),
        listed,
        ..CpuWindow::default()
    }
}

fn event(time: u64, current: Tid, kind: EventKind) -> Event {
    Event { time: TraceNs(time), cpu: CpuId(0), current, kind }
}

/// A tick with softirq, a preemption by a thread that is interrupted itself, and an interruption without events.
#[test]
fn each_interruption_goes_to_what_ran_in_it() {
    let mut names = Names::default();
    let (timer, eth) = (names.intern("local_timer"), names.intern("eth0"));
    let task =
        |tid, name: &str, names: &mut Names| Task { tid, name: names.intern(name), prio: 120 };
    let (own, other) = (task(LOOP, "latlab", &mut names), task(Tid(7), "worker", &mut names));
    let switch = |prev, next| EventKind::Switch { prev, state: OffCpu::Runnable, next };
    let events = [
        event(10_500, LOOP, EventKind::VectorEntry { name: timer }),
        event(14_000, LOOP, EventKind::VectorExit { name: timer }),
        event(14_200, LOOP, EventKind::SoftirqEntry { vec: 9 }),
        event(19_200, LOOP, EventKind::SoftirqExit { vec: 9 }),
        event(50_300, LOOP, switch(own, other)),
        event(60_000, Tid(7), EventKind::IrqEntry { irq: 24, name: eth }),
        event(64_000, Tid(7), EventKind::IrqExit { irq: 24 }),
        event(90_000, Tid(7), switch(other, own)),
        event(300_000, LOOP, EventKind::VectorEntry { name: timer }),
    ];
    let mut pieces = Pieces::new([(CpuId(0), LOOP)]);
    events.iter().for_each(|e| pieces.take(e, &names));
    let mut sum = Sum::default();
    let loops = [window(&[(10_000, 10_000), (50_000, 41_000), (200_000, 30_000)])];
    sum.add(&Window { loops: &loops, pieces: Some(&pieces), overrun: BTreeMap::new() });
    let cpu = sum.so_far().remove(0);
    let of = |kind, name: &str| {
        let s = cpu.sources.iter().find(|s| s.kind == kind && s.name == name);
        s.map(|s| (s.total_ns, s.count))
    };
    // Entry and exit of an interruption are charged to what took most of it: 1,300 ns here.
    assert_eq!(of(NoiseKind::Softirq, "RCU"), Some((5_000 + 1_500, 1)));
    assert_eq!(of(NoiseKind::Interrupt, "local_timer"), Some((3_500, 1)));
    assert_eq!(of(NoiseKind::Thread, "worker"), Some((35_700 + 1_300, 1)));
    assert_eq!(of(NoiseKind::Interrupt, "24 eth0"), Some((4_000, 1)));
    assert_eq!(of(NoiseKind::OutsideKernel, ""), Some((30_000, 1)));
    let all: u64 = cpu.sources.iter().map(|s| s.total_ns).sum();
    assert_eq!(all, cpu.lost_ns);
}

/// A hypervisor that takes the CPU around a tick: what is more than usual entry and exit is outside.
#[test]
fn a_long_rest_is_outside_of_the_kernel() {
    let tick =
        |start: u64| Piece { start: start + 500, end: start + 4_500, source: 0, begins: true };
    let mut gaps: Vec<(u64, u64)> = (1..=20).map(|n| (n * 1_000_000, 6_000)).collect();
    let mut pieces: Vec<Piece> = gaps.iter().map(|g| tick(g.0)).collect();
    gaps.push((30_000_000, 506_000));
    pieces.push(tick(30_000_000));
    let interruptions: Vec<_> =
        gaps.iter().map(|&(start_ns, length_ns)| Interruption { start_ns, length_ns }).collect();
    assert_eq!(explain(&interruptions, &pieces)[20].rest, 502_000);
    let mut all = Pieces::new([(CpuId(0), LOOP)]);
    all.sources.push((NoiseKind::Interrupt, "local_timer".into()));
    all.cpus.insert(CpuId(0), CpuPieces { pieces, first: Some(0) });
    let mut sum = Sum::default();
    sum.add(&Window { loops: &[window(&gaps)], pieces: Some(&all), overrun: BTreeMap::new() });
    let cpu = sum.so_far().remove(0);
    assert_eq!(cpu.of_kind(NoiseKind::OutsideKernel), (500_000, 1));
    assert_eq!(cpu.of_kind(NoiseKind::Interrupt), (21 * 6_000, 21));
}

#[test]
fn interruptions_before_the_first_event_that_is_left_are_unknown() {
    let mut all = Pieces::new([(CpuId(0), LOOP)]);
    all.cpus.insert(CpuId(0), CpuPieces { pieces: vec![], first: Some(40_000) });
    let loops = [window(&[(10_000, 10_000), (50_000, 9_000)])];
    let mut sum = Sum::default();
    let overrun = BTreeMap::from([(CpuId(0), 3)]);
    sum.add(&Window { loops: &loops, pieces: Some(&all), overrun });
    let cpu = sum.so_far().remove(0);
    assert_eq!(cpu.of_kind(NoiseKind::Unknown), (10_000, 1));
    assert_eq!(cpu.of_kind(NoiseKind::OutsideKernel), (9_000, 1));
}

#[test]
fn what_was_not_listed_is_counted_with_an_unknown_source() {
    let mut w = window(&[(10_000, 10_000), (50_000, 9_000)]);
    w.listed.truncate(1);
    let mut sum = Sum::default();
    sum.add(&Window { loops: &[w], pieces: None, overrun: BTreeMap::new() });
    let cpu = sum.so_far().remove(0);
    assert_eq!(cpu.of_kind(NoiseKind::Unknown), (19_000, 2));
    assert_eq!((cpu.interruptions.count, cpu.not_listed), (2, 1));
}
