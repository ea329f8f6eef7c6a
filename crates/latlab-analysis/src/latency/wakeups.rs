//! Finds the wake-ups of measured tasks in a capture.
//!
//! A wake-up on time leaves this trail, from which its intended time follows
//! whatever the trace's clock, because `hrtimer_expire_entry` reads the timer's clock:
//!
//! ```text
//! hrtimer_start(softexpires) … hrtimer_expire_entry(now) sched_waking sched_switch [sys_exit]
//! intended = time of hrtimer_expire_entry − (now − softexpires)
//! ```
//!
//! A late one is told by a marker of the program that saw it:
//!
//! | marker | by | says |
//! |---|---|---|
//! | `latlab late capture=N tid=T intended=N latency=N by=M threads=T,…` | `latlab why` | ns of CLOCK_MONOTONIC; what wakes the thread; threads of latlab |
//! | `latlab on-time tid=T before=N D:L …` | `latlab why` | wake-ups of the same thread: D ns before N, latency L |
//! | `hit latency threshold (X > Y)` | cyclictest `--tracemark -b` | µs; the writer is the task |

use super::capture::{Activation, Capture, End};
use super::clock_steps::ClockSteps;
use latlab_model::event::{Event, EventKind, Symbol};
use latlab_model::finding::{Note, Quantity};
use latlab_model::units::{CpuId, Nanos, Tid, TraceNs};
use latlab_model::wakeup::mechanism::Mechanism;
use latlab_trace::names::IntMap;
use std::collections::BTreeMap;

/// A late wake-up as a marker tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The task.
    pub tid: Tid,
    /// When it wanted to run, in the trace's clock.
    pub intended: TraceNs,
    /// When it did.
    pub actual: TraceNs,
    /// The limit that it was over, where the marker says.
    pub limit: Option<Nanos>,
    /// The marker's own time.
    pub marked: TraceNs,
    /// Number of the capture in its session.
    pub capture: Option<u32>,
    /// When it wanted to run, as the marker has it, ns.
    pub told_intended: u64,
    /// Another thread's call woke the task: it began at the intended time.
    pub called: bool,
    /// The marker's times cannot be the trace's: its clock was so far from the trace's, ns.
    pub clock_off_ns: Option<i64>,
}

/// Threads of latlab that are kept of a capture's markers; they write as many as fit in a line.
const RECORDERS: usize = 64;

/// A marker is written at once; a thread that was kept from it for longer was stopped with all others.
const AT_ONCE: Nanos = Nanos(10_000_000_000);

/// The beginning of the text that [`Told`] is read back from.
pub const LATE_MARK: &str = "latlab late";

/// The beginning of the text that tells of earlier wake-ups of the same thread.
pub const ON_TIME_MARK: &str = "latlab on-time";

/// Late wake-ups that markers tell of.
fn told(markers: &[Marker<'_>], monotonic: bool) -> Vec<Told> {
    let told = |&(e, text): &Marker<'_>| {
        own_marker(text, e.time, monotonic).or_else(|| threshold_marker(text, e.current, e.time))
    };
    markers.iter().filter_map(told).collect()
}

/// Wake-ups before a late one, by the clock of the thread that was late: they end at the same event as
/// it does. On another clock than the trace's they lie as far before the late one as they were.
fn on_time(
    capture: &Capture,
    markers: &[Marker<'_>],
    told: &[Told],
    limit: Nanos,
) -> Vec<Activation> {
    let mut found = Vec::new();
    if told.is_empty() {
        return found;
    }
    for (_, text) in markers {
        let Some((_, rest)) = text.split_once(ON_TIME_MARK) else { continue };
        let mut words = rest.split_whitespace();
        let mut value = |key: &str| words.next()?.strip_prefix(key)?.parse::<u64>().ok();
        let (Some(tid), Some(before)) = (value("tid="), value("before=")) else { continue };
        let Some(late) = told.iter().find(|t| t.tid.0.unsigned_abs() == tid as u32) else {
            continue;
        };
        let shift = i128::from(late.intended.0) - i128::from(late.told_intended);
        for word in words {
            let Some((before_ns, latency)) = word.split_once(':') else { continue };
            let (Ok(ns), Ok(latency)) = (before_ns.parse::<u64>(), latency.parse::<u64>()) else {
                continue;
            };
            let intended = i128::from(before.saturating_sub(ns)) + shift;
            let Ok(intended) = u64::try_from(intended).map(TraceNs) else { continue };
            let actual = TraceNs(intended.0.saturating_add(latency));
            let cpu = cpu_of(capture, late.tid, actual);
            let is_late = limit.0 > 0 && latency > limit.0;
            let end = End::Clock;
            found.push(Activation {
                tid: late.tid,
                cpu,
                intended,
                actual,
                end,
                late: is_late,
                called: late.called,
                began: None,
            });
        }
    }
    found
}

fn own_marker(text: &str, marked: TraceNs, monotonic: bool) -> Option<Told> {
    let rest = text.split_once(LATE_MARK)?.1;
    let at = |key: &str| rest.split_whitespace().find_map(|word| word.strip_prefix(key));
    let value =
        |key: &str| at(key)?.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok();
    let (tid, told_intended, latency) = (value("tid=")?, value("intended=")?, value("latency=")?);
    let capture = value("capture=").and_then(|n| u32::try_from(n).ok());
    let actual = TraceNs(told_intended.saturating_add(latency));
    let same = marked >= actual && marked.since(actual) <= AT_ONCE;
    let off = i64::try_from(i128::from(marked.0) - i128::from(actual.0)).unwrap_or(i64::MAX);
    // On another clock the marker's own time stands for the moment at which the task ran.
    let (intended, actual) = if monotonic && same {
        (TraceNs(told_intended), actual)
    } else {
        (TraceNs(marked.0.saturating_sub(latency)), marked)
    };
    let clock_off_ns = (monotonic && !same).then_some(off);
    let tid = Tid(i32::try_from(tid).ok()?);
    let by = at("by=").and_then(|name| name.parse::<Mechanism>().ok());
    let called = by.is_some_and(|by| !by.is_timer());
    let limit = None;
    Some(Told {
        tid,
        intended,
        actual,
        limit,
        marked,
        capture,
        told_intended,
        called,
        clock_off_ns,
    })
}

/// The threads of latlab that a marker names.
fn recorders(text: &str) -> impl Iterator<Item = Tid> {
    let line = text.split_once(LATE_MARK).map_or("", |(_, rest)| rest);
    let list = line.split_whitespace().find_map(|word| word.strip_prefix("threads="));
    list.unwrap_or("").split(',').filter_map(|tid| tid.parse().ok().filter(|t| *t > 0).map(Tid))
}

fn threshold_marker(text: &str, tid: Tid, marked: TraceNs) -> Option<Told> {
    let rest = text.split_once("hit latency threshold (")?.1;
    let (latency, rest) = rest.split_once(" > ")?;
    let limit = rest.split(')').next()?;
    let us = |s: &str| s.trim().parse::<u64>().ok().map(Nanos::from_us);
    let (latency, limit) = (us(latency)?, us(limit)?);
    let intended = TraceNs(marked.0.saturating_sub(latency.0));
    let limit = Some(limit);
    Some(Told {
        tid,
        intended,
        actual: marked,
        limit,
        marked,
        capture: None,
        told_intended: intended.0,
        called: false,
        clock_off_ns: None,
    })
}

/// A program's marker, with its text.
type Marker<'a> = (&'a Event, &'a str);

/// Whether a program's marker tells of a late wake-up.
pub fn has_marker(capture: &Capture) -> bool {
    let markers = capture.events.iter().filter_map(|e| match e.kind {
        EventKind::Marker { text } => Some((e, capture.names.get(text))),
        _ => None,
    });
    !told(&markers.collect::<Vec<_>>(), capture.clock_is_monotonic).is_empty()
}

/// What one pass over a capture's events finds.
#[derive(Default)]
struct Pass<'a> {
    markers: Vec<Marker<'a>>,
    /// Wake-ups from a sleep that the events show from end to end, of all tasks, none called late. The
    /// actual time is the return from the system call where it was recorded, else the switch.
    sleeps: Vec<Activation>,
}

fn pass(capture: &Capture) -> Pass<'_> {
    let sleeper = |s: Symbol| capture.names.get(s).starts_with("hrtimer_wakeup");
    let returns = capture.kinds().returns;
    let mut armed: IntMap<u64, (Tid, i64)> = IntMap::default();
    let mut expiring: BTreeMap<CpuId, (Tid, TraceNs)> = BTreeMap::new();
    let mut clocks = ClockSteps::default();
    let mut woken: IntMap<Tid, TraceNs> = IntMap::default();
    let mut running: IntMap<Tid, TraceNs> = IntMap::default();
    let mut found = Pass::default();
    for e in &capture.events {
        match e.kind {
            EventKind::Marker { text } => found.markers.push((e, capture.names.get(text))),
            EventKind::HrtimerStart { timer, function, softexpires, .. } if sleeper(function) => {
                armed.insert(timer, (e.current, softexpires));
            }
            EventKind::HrtimerEntry { timer, function, now, .. } if sleeper(function) => {
                if let Some((tid, due)) = armed.remove(&timer) {
                    let late = clocks.late(due, now, e.time);
                    expiring.insert(e.cpu, (tid, TraceNs(e.time.0.saturating_sub(late))));
                }
            }
            EventKind::Waking { task, .. } => {
                if let Some((tid, intended)) = expiring.get(&e.cpu).copied()
                    && tid == task.tid
                {
                    woken.insert(tid, intended);
                    expiring.remove(&e.cpu);
                }
            }
            EventKind::Switch { next, .. } => {
                if !woken.is_empty()
                    && let Some(intended) = woken.remove(&next.tid)
                {
                    if returns {
                        running.insert(next.tid, intended);
                    } else {
                        let end = End::Switch;
                        found.sleeps.push(activation(next.tid, e.cpu, intended, e.time, end));
                    }
                }
            }
            EventKind::SyscallExit { .. } => {
                if !running.is_empty()
                    && let Some(intended) = running.remove(&e.current)
                {
                    found.sleeps.push(activation(e.current, e.cpu, intended, e.time, End::Syscall));
                }
            }
            _ => {}
        }
    }
    found
}

/// Wake-ups of the kernel's own measuring threads, as timerlat tells them: of the outermost context
/// that it measures, user space before the thread.
pub fn timerlat(capture: &Capture, limit: Nanos) -> Vec<Activation> {
    let lines = || {
        capture.events.iter().filter_map(|e| match e.kind {
            EventKind::Timerlat { context, latency, .. } if context > 0 => {
                Some((e, context, latency))
            }
            _ => None,
        })
    };
    let Some(outermost) = lines().map(|l| l.1).max() else { return Vec::new() };
    let one = |e: &Event, latency: Nanos| {
        let intended = TraceNs(e.time.0.saturating_sub(latency.0));
        activation(e.current, e.cpu, intended, e.time, End::Clock)
    };
    let found = lines().filter(|l| l.1 == outermost).map(|(e, _, latency)| one(e, latency));
    found.map(|a| a.judged(limit)).collect()
}

/// A wake-up on time.
fn activation(tid: Tid, cpu: CpuId, intended: TraceNs, actual: TraceNs, end: End) -> Activation {
    Activation { tid, cpu, intended, actual, end, late: false, called: false, began: None }
}

impl Activation {
    /// Late if it took longer than a limit; 0: there is none.
    fn judged(self, limit: Nanos) -> Self {
        Self { late: limit.0 > 0 && self.latency() > limit, ..self }
    }
}

/// Fills [`Capture::activations`]: late wake-ups from markers, the others of the same tasks from
/// the events. Without any marker every task whose wake-ups are seen counts, late by `limit`. Where
/// that is not zero it goes before what the marker's writer called late.
pub fn find(capture: &mut Capture, limit: Nanos) {
    let Pass { markers, sleeps } = pass(capture);
    let told = told(&markers, capture.clock_is_monotonic);
    let given = limit;
    let marked = || told.iter().filter_map(|t| t.limit).max();
    let limit = if given.0 > 0 { given } else { marked().unwrap_or(given) };
    let measured_by_kernel = if told.is_empty() && capture.kinds().timerlat {
        timerlat(capture, limit)
    } else {
        Vec::new()
    };
    if !measured_by_kernel.is_empty() {
        capture.activations = measured_by_kernel;
        return;
    }
    let by_clock = on_time(capture, &markers, &told, limit);
    let recorders = markers.iter().flat_map(|(_, text)| recorders(text));
    let recorders: Vec<Tid> = recorders.take(RECORDERS).collect();
    capture.number = told.iter().find_map(|t| t.capture);
    // A thread's wake-ups end at one event: where its own clock is known, the switch is not used.
    let seen = sleeps
        .into_iter()
        .map(|a| a.judged(limit))
        .filter(|a| by_clock.iter().all(|b| b.tid != a.tid))
        .chain(by_clock.iter().copied());
    let seen: Vec<Activation> = seen.collect();
    let mut activations = Vec::new();
    capture.recorders = recorders;
    if let Some(off) = told.iter().find_map(|t| t.clock_off_ns) {
        capture.notes.push(Note::new("why.marker-clock").value("offset", Quantity::Ns(off as f64)));
    }
    for t in &told {
        let cpu = cpu_of(capture, t.tid, t.marked);
        let (intended, actual) = (t.intended, t.actual);
        let late = actual.since(intended) >= given;
        let (tid, called, end, began) = (t.tid, t.called, End::Clock, None);
        activations.push(Activation { tid, cpu, intended, actual, end, late, called, began });
    }
    let measured: Vec<Tid> = told.iter().map(|t| t.tid).collect();
    let own = |a: &Activation| measured.is_empty() || measured.contains(&a.tid);
    // What a marker told of is not counted again as it was seen.
    let known = |a: &Activation| {
        told.iter().any(|t| t.tid == a.tid && a.intended <= t.actual && t.intended <= a.actual)
    };
    activations.extend(
        seen.into_iter().filter(|a| own(a) && !known(a) && a.intended >= capture.covered_from),
    );
    activations.sort_by_key(|a| a.intended);
    capture.activations = activations;
}

/// The CPU that a task was on at a moment: of its last event before it.
fn cpu_of(capture: &Capture, tid: Tid, at: TraceNs) -> CpuId {
    let until = capture.events.partition_point(|e| e.time <= at);
    let is_own = |e: &&Event| {
        e.current == tid || matches!(e.kind, EventKind::Switch { next, .. } if next.tid == tid)
    };
    capture.events[..until].iter().rev().find(is_own).map_or(CpuId(0), |e| e.cpu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::scenario::{FAIR, RT, Script};
    use latlab_model::finding::Value;

    #[test]
    fn an_on_time_wake_up_is_seen_on_any_clock() {
        let mut s = Script::default();
        let function = s.name("hrtimer_wakeup");
        s.capture.clock_is_monotonic = false;
        s.preempt(0.0, FAIR, RT);
        // The timer's clock is 5 s ahead of the trace's.
        let due = 5_000_100_000;
        s.at(
            1.0,
            EventKind::HrtimerStart {
                timer: 9,
                function,
                relative: false,
                expires: due,
                softexpires: due,
            },
        );
        s.switch(2.0, RT, FAIR)
            .at(
                101.5,
                EventKind::HrtimerEntry {
                    timer: 9,
                    function,
                    now: due + 1_200,
                    preempt_off: false,
                },
            )
            .at(102.0, EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false })
            .preempt(104.0, FAIR, RT);
        find(&mut s.capture, Nanos::from_us(50));
        let seen = &s.capture.activations;
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[0].intended, seen[0].actual), (TraceNs(100_300), TraceNs(104_000)));
        assert!(!seen[0].late);
    }

    #[test]
    fn markers_of_two_programs_are_read() {
        let mut s = Script::default();
        s.preempt(0.0, FAIR, RT);
        let text = s.name("hit latency threshold (2503 > 2400)\n");
        s.at(10_000.0, EventKind::Marker { text });
        let t = told(&pass(&s.capture).markers, s.capture.clock_is_monotonic);
        assert_eq!((t[0].tid, t[0].intended), (RT.tid, TraceNs(7_497_000)));
        assert_eq!(t[0].limit, Some(Nanos::from_us(2_400)));

        // Whoever gives a limit means it: cyclictest's was another one.
        find(&mut s.capture, Nanos(0));
        assert!(s.capture.activations[0].late);
        find(&mut s.capture, Nanos::from_us(5_000));
        assert!(!s.capture.activations[0].late);

        assert!(s.capture.notes.is_empty());

        let mut s = Script::default();
        let text = s.name(
            "latlab late capture=7 tid=100 intended=400000 latency=123456 threads=90,100,x,-1",
        );
        s.at(600.0, EventKind::Marker { text });
        find(&mut s.capture, Nanos(0));
        assert_eq!(s.capture.number, Some(7));
        assert_eq!(s.capture.recorders, [Tid(90), Tid(100)]);
        let a = s.capture.activations[0];
        assert_eq!((a.tid, a.intended, a.latency()), (RT.tid, TraceNs(400_000), Nanos(123_456)));
        assert!(a.late && !a.called);
    }

    #[test]
    fn a_marker_names_what_wakes_the_thread() {
        for (by, called) in [("timerfd", false), ("pipe", true), ("unknown", false)] {
            let mut s = Script::default();
            let text =
                format!("latlab late tid=100 intended=400000 latency=5000 by={by} threads=90");
            let marker = EventKind::Marker { text: s.name(&text) };
            let on_time = "latlab on-time tid=100 before=400000 100000:2000";
            let earlier = EventKind::Marker { text: s.name(on_time) };
            s.at(406.0, marker).at(407.0, earlier);
            find(&mut s.capture, Nanos(0));
            let found: Vec<bool> = s.capture.activations.iter().map(|a| a.called).collect();
            assert_eq!(found, [called, called], "{by}");
        }
    }

    /// On-time wake-ups beside the marker end at the clock, as the late one; those that the events show
    /// up to the switch are the same ones.
    #[test]
    fn on_time_wake_ups_end_where_late_ones_do() {
        let mut s = Script::default();
        let function = s.name("hrtimer_wakeup");
        s.preempt(0.0, FAIR, RT);
        for k in [1.0, 2.0] {
            let due = (k * 1e6) as i64;
            let start = EventKind::HrtimerStart {
                timer: 9,
                function,
                relative: false,
                expires: due,
                softexpires: due,
            };
            s.at(k * 1e3 - 900.0, start).switch(k * 1e3 - 800.0, RT, FAIR);
            s.at(
                k * 1e3 + 1.0,
                EventKind::HrtimerEntry {
                    timer: 9,
                    function,
                    now: due + 1_000,
                    preempt_off: false,
                },
            )
            .at(
                k * 1e3 + 2.0,
                EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false },
            )
            .preempt(k * 1e3 + 4.0, FAIR, RT);
        }
        let late = s.name("latlab late capture=1 tid=100 intended=3000000 latency=500000");
        let kept = s.name("latlab on-time tid=100 before=3000000 1000000:9000 2000000:8000");
        s.at(3_501.0, EventKind::Marker { text: late })
            .at(3_502.0, EventKind::Marker { text: kept });
        let all = |s: &mut Script| {
            find(&mut s.capture, Nanos::from_us(100));
            let of = |a: &Activation| (a.intended.0, a.latency().0, a.end, a.late);
            s.capture.activations.iter().map(of).collect::<Vec<_>>()
        };
        let expected = [
            (1_000_000, 8_000, End::Clock, false),
            (2_000_000, 9_000, End::Clock, false),
            (3_000_000, 500_000, End::Clock, true),
        ];
        assert_eq!(all(&mut s), expected);
        // The trace's clock is another: the distances are kept.
        s.capture.clock_is_monotonic = false;
        let shifted: Vec<u64> = all(&mut s).iter().map(|a| a.0).collect();
        assert_eq!(shifted, [1_001_000, 2_001_000, 3_001_000]);
    }

    /// A file that says "mono" and whose times were moved (`trace-cmd --ts-offset`), or a thread in a
    /// time namespace: the budget must not be cut from somewhere else in the trace.
    #[test]
    fn a_marker_on_another_clock_than_the_trace_stands_where_it_was_written() {
        for (intended, is_ahead) in [(90_000_000_000_u64, true), (0, false)] {
            let mut s = Script::default();
            s.preempt(0.0, FAIR, RT);
            let text = s.name(&format!("latlab late tid=100 intended={intended} latency=123456"));
            s.at(20_000_600.0, EventKind::Marker { text });
            find(&mut s.capture, Nanos(0));
            let a = s.capture.activations[0];
            assert_eq!((a.latency(), a.actual), (Nanos(123_456), TraceNs(20_000_600_000)));
            assert_eq!(s.capture.notes.len(), 1);
            let Note::Typed(note) = &s.capture.notes[0] else { panic!("{:?}", s.capture.notes) };
            let Value::Quantity(Quantity::Ns(offset)) = note.values["offset"] else { panic!() };
            assert_eq!(offset < 0.0, is_ahead, "{offset}");
        }
    }
}
