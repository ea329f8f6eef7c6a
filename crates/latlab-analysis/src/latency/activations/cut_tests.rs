//! Activations that the end of a recording cuts.

use super::from_capture::{Chosen, Known, Thread, threads_to_the_end};
use super::summary::Gathered;
use super::tests::{WOKEN, arms, periodic, us};
use super::*;
use crate::latency::captures::{explain_activations, finish, gather};
use crate::latency::scenario::{FAIR, IDLE, RT, Script};
use latlab_model::event::{EventKind, OffCpu};
use latlab_model::latency::SystemContext;

const LIMIT: Late = Late::Response(Nanos(5_000_000));

/// The activation of 8 ms waits 75 ms for the worker, without a timer. Each runs 100 µs.
fn hanging() -> Script {
    let mut s = Script::default();
    let function = s.name("hrtimer_wakeup");
    periodic(&mut s, 100, |s, i, start| {
        if i != 8 {
            return start + 100.0;
        }
        s.switch(start + 50.0, RT, FAIR);
        // Others go on meanwhile.
        for i in 1..75 {
            s.by(FAIR, start + 1_000.0 * f64::from(i), arms(function, 1e6));
        }
        s.by(FAIR, start + 75_000.0, WOKEN).switch(start + 75_004.0, FAIR, RT);
        start + 75_100.0
    });
    s
}

/// What is recorded from a time to another, µs.
fn window(s: &Script, from: f64, to: f64) -> Vec<Thread> {
    let within = |time: TraceNs| (from..to).contains(&(time.0 as f64 / 1e3));
    let mut capture = s.capture.clone();
    capture.events.retain(|e| within(e.time));
    capture.covered_from = capture.events[0].time;
    threads_to_the_end(&capture, &Chosen::Tids(vec![RT.tid]), &Known::default())
}

fn cut(s: &Script, to: f64) -> Option<Cut> {
    window(s, 0.0, to)[0].cut
}

/// Three activations do not tell a period; one that is given does, and is the deadline.
#[test]
fn a_period_that_is_given_counts_those_that_are_left_out() {
    let s = hanging();
    let jobs = &window(&s, 0.0, 99_000.0)[0].jobs;
    let mut own = Gathered::default();
    // Two and one are left out; the last one takes 75 ms.
    own.add(&[jobs[2], jobs[5], jobs[7]]);
    let of =
        |own: &Gathered| (own.period().map(|p| p.median_ns), own.summarize(LIMIT).counts.skipped);
    assert_eq!(of(&own), (None, 0));
    own.given_period = Some(Nanos(1_000_000));
    assert_eq!(of(&own), (Some(1_000_000), 3));
    assert_eq!(own.propose().0, Late::Response(Nanos(1_000_000)));
}

#[test]
fn an_activation_is_cut_where_it_has_not_ended() {
    let s = hanging();
    let parts = |cut: Cut| {
        let job = cut.job;
        let sum = job.start_latency() + job.running + job.preempted + job.waiting;
        assert_eq!((sum, cut.is_sure), (job.response(), true), "{cut:?}");
        [job.start_latency(), job.running, job.waiting].map(|ns| us(ns).round())
    };
    assert_eq!(cut(&s, 7_500.0), None, "it sleeps until the next one");
    assert_eq!(parts(cut(&s, 8_004.5).unwrap()), [4.0, 0.0, 0.0], "woken");
    assert_eq!(parts(cut(&s, 7_104.5).unwrap()), [6.0, 98.0, 0.0], "it runs");
    assert_eq!(parts(cut(&s, 68_500.0).unwrap()), [6.0, 50.0, 59_950.0], "it waits");
    // One that was woken has ended the one before.
    assert_eq!(window(&s, 0.0, 8_004.5)[0].jobs.len(), 7);
}

/// A sleep for longer than any to a next activation lies inside of one; a stopped task may be in both.
#[test]
fn a_sleep_at_the_end_is_judged_by_its_timer_and_state() {
    let sleeping = |asked_us: f64, state: OffCpu| {
        let mut s = Script::default();
        let function = s.name("hrtimer_wakeup");
        periodic(&mut s, 10, |_, _, start| start + 100.0);
        s.by(RT, 10_104.0, arms(function, 10_104.0 + asked_us));
        let mut events = std::mem::take(&mut s.capture.events);
        events.retain(|e| e.time.0 < 10_104_500);
        s.capture.events = events;
        s.at(10_106.0, EventKind::Switch { prev: RT, state, next: IDLE });
        s.at(90_000.0, arms(function, 1e6));
        cut(&s, 1e9).map(|cut| cut.is_sure)
    };
    assert_eq!(sleeping(900.0, OffCpu::Sleeping), None);
    assert_eq!(sleeping(80_000.0, OffCpu::Sleeping), Some(true));
    assert_eq!(sleeping(900.0, OffCpu::Blocked), Some(true));
    assert_eq!(sleeping(900.0, OffCpu::Stopped), Some(false));
    assert_eq!(sleeping(900.0, OffCpu::Dead), None);
}

/// Windows that overlap have each activation once, also one that is longer than the first of them.
#[test]
fn overlapping_windows_have_each_activation_once() {
    let s = hanging();
    let mut all: Vec<Gathered> = Vec::new();
    let mut fresh = 0;
    for (from, to) in [(0.0, 6_050.0), (4_000.0, 40_050.0), (6_000.0, 95_500.0)] {
        fresh += gather(window(&s, from, to), false, Some(LIMIT), &mut all)[0].jobs.len();
    }
    finish(&mut all);
    let own = &all[0];
    assert_eq!((own.jobs.len(), own.begins.len(), own.cut.len(), fresh), (19, 1, 0, 19));
    let numbers = own.summarize(LIMIT);
    let counts = &numbers.counts;
    assert_eq!((counts.activations, counts.late, numbers.cut), (19, 1, 0));
    assert_eq!(counts.skipped, 75, "of one recording: {:?}", own.period());
}

/// The window after the one in which it begins does not reach back to it.
#[test]
fn an_activation_whose_end_is_in_no_window_is_late_by_its_age() {
    let s = hanging();
    let late = |to: f64| {
        let mut all: Vec<Gathered> = Vec::new();
        gather(window(&s, 0.0, to), false, Some(LIMIT), &mut all);
        gather(window(&s, 84_000.0, 95_500.0), false, Some(LIMIT), &mut all);
        finish(&mut all);
        let numbers = all[0].summarize(LIMIT);
        let c = &numbers.counts;
        (numbers.cut, numbers.late_cut, c.late, c.late_by.waited, c.response.max / 1_000_000)
    };
    assert_eq!(late(40_000.0), (1, 1, 1, 1, 31));
    assert_eq!(late(9_500.0), (1, 0, 0, 0, 0), "not late by then");
    let mut all: Vec<Gathered> = Vec::new();
    gather(window(&s, 0.0, 40_000.0), false, Some(LIMIT), &mut all);
    finish(&mut all);
    assert_eq!(all[0].propose().0, Late::Response(Nanos(1_000_000)), "the period");
    // Its capture explains it as far as it goes.
    let find = |_: usize, known: &Known| {
        let mut capture = s.capture.clone();
        capture.events.retain(|e| e.time.0 < 40_000_000);
        let found = threads_to_the_end(&capture, &Chosen::Tids(vec![RT.tid]), known);
        Ok::<_, ()>((capture, found))
    };
    let none = |_: Tid| None;
    let system = SystemContext::default();
    let result = explain_activations(1, find, all, Some(LIMIT), system, &[], none).unwrap();
    assert_eq!(result.late_in_captures(), 1);
    let window = result.windows.iter().find(|w| w.late).unwrap();
    assert_eq!(window.latency_ns / 1_000_000, 31);
}
