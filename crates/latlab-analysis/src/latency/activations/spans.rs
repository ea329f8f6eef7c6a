//! Spans: from one event to another with the same key, of any tasks, as activations.
//!
//! The way of the kernel's histogram triggers (Documentation/trace/histogram.rst): a first event remembers its time
//! under its key, a second event with that key ends the span. A first event whose span is still open begins it anew.
//! A span belongs to the task of its last event; its parts are what that task did in it: with a CPU, runnable
//! without one, asleep. What the task waited for is for the latency breakdown.

use super::Job;
use super::from_capture::Thread;
use crate::latency::capture::Capture;
use latlab_model::event::EventKind;
use latlab_model::latency::Release;
use latlab_model::units::{Nanos, Tid, TraceNs};
use latlab_trace::TraceFile;
use latlab_trace::names::IntMap;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

mod ends;

pub use ends::{EndEvent, Ends, Found, Key, Pairing, Span, SpanError, events, probe_name};

/// Open spans at most; of more the older half is forgotten.
const OPEN: usize = 1 << 20;
/// Spans of one file at most.
const SPANS: usize = 1 << 20;

/// Which spans of a file count: those that end behind the one time and not behind the other. A recording that is read
/// in overlapping parts has each span once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Spans that end until then were found before.
    pub after: TraceNs,
    /// Later events may be missing.
    pub until: TraceNs,
}

impl Default for Ending {
    /// All spans.
    fn default() -> Self {
        Self { after: TraceNs(0), until: TraceNs(u64::MAX) }
    }
}

/// The spans of a file that end in a part of it.
///
/// # Errors
/// When an end names no event or field of it.
pub fn spans(file: &TraceFile<'_>, ends: &Ends, part: Ending) -> Result<Found, SpanError> {
    let mut pairing = Pairing::new(OPEN);
    let mut found = Found::default();
    events(file, ends, |event| {
        if event.time > part.until {
            return ControlFlow::Break(());
        }
        let span = pairing.take(&event, event.time > part.after, &mut found);
        found.spans.extend(span);
        if found.spans.len() < SPANS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    found.open = pairing.begins().into_iter().map(|(from, _)| from).collect();
    Ok(found)
}

/// What a task does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    Running,
    Ready,
    Asleep,
}

/// A task's states, each from its time on, with what it did until then.
#[derive(Default)]
struct States {
    at: Vec<(TraceNs, Doing)>,
    /// Running, runnable, asleep until the state of the same number, ns.
    sums: Vec<[u64; 3]>,
    name: Option<latlab_model::event::Symbol>,
    prio: i32,
}

fn add(sums: &mut [u64; 3], doing: Doing, time: Nanos) {
    let sum = &mut sums[doing as usize];
    *sum = sum.saturating_add(time.0);
}

impl States {
    fn push(&mut self, time: TraceNs, doing: Doing) {
        let sums = match (self.at.last(), self.sums.last()) {
            (Some(&(since, before)), Some(sums)) => {
                let mut sums = *sums;
                add(&mut sums, before, time.since(since));
                sums
            }
            _ => [0; 3],
        };
        self.at.push((time, doing));
        self.sums.push(sums);
    }

    /// What it did until a time; `None` before its first event.
    fn until(&self, time: TraceNs) -> Option<[u64; 3]> {
        let i = self.at.partition_point(|s| s.0 <= time).checked_sub(1)?;
        let mut sums = self.sums[i];
        add(&mut sums, self.at[i].1, time.since(self.at[i].0));
        Some(sums)
    }

    /// Whether it has a CPU just before a time.
    fn runs_before(&self, time: TraceNs) -> bool {
        let i = self.at.partition_point(|s| s.0 < time).checked_sub(1);
        i.is_none_or(|i| self.at[i].1 == Doing::Running)
    }
}

/// The spans of a capture as activations, by the task of the last event, in order of thread id; without those that begin
/// before it has everything.
pub fn threads(capture: &Capture, spans: &[Span], ends: &Ends) -> Vec<Thread> {
    let states = states_of(capture, spans);
    let covered = spans.iter().filter(|s| s.from >= capture.covered_from);
    by_thread(capture, covered.map(|span| (span, states.get(&span.tid))), ends)
}

/// The same with those that begin before, of a capture that has the scheduler's events of these threads alone, which are
/// sorted. What another thread did, or one before the capture in a span that another one began, is not known.
pub fn threads_of_window(
    capture: &Capture,
    tids: &[Tid],
    spans: &[Span],
    ends: &Ends,
) -> Vec<Thread> {
    let states = states_of(capture, spans);
    let known = |span: &&Span| {
        let is_whole = span.from >= capture.covered_from || span.begun_by == span.tid;
        is_whole && tids.binary_search(&span.tid).is_ok()
    };
    let of = |span: &Span| Some(span).filter(known).and_then(|span| states.get(&span.tid));
    by_thread(capture, spans.iter().map(|span| (span, of(span))), ends)
}

fn states_of(capture: &Capture, spans: &[Span]) -> IntMap<Tid, States> {
    let mut states: IntMap<Tid, States> = IntMap::default();
    // The idle tasks of all CPUs have one number.
    for span in spans.iter().filter(|s| s.tid.0 > 0) {
        states.entry(span.tid).or_default();
    }
    // Who records an event has a CPU, also where the kernel did not record the switch to it.
    let mut seen: Vec<(TraceNs, Tid)> =
        spans.iter().flat_map(|s| [(s.from, s.begun_by), (s.to, s.tid)]).collect();
    seen.sort_unstable();
    follow(capture, &seen, &mut states);
    states
}

fn by_thread<'s>(
    capture: &Capture,
    spans: impl Iterator<Item = (&'s Span, Option<&'s States>)>,
    ends: &Ends,
) -> Vec<Thread> {
    let mut found: BTreeMap<Tid, (Vec<Job>, Option<&States>)> = BTreeMap::new();
    for (span, own) in spans {
        let of_thread = found.entry(span.tid).or_default();
        of_thread.0.push(job(span, own));
        of_thread.1 = of_thread.1.or(own);
    }
    let release = Release::Span { from: ends.names.0.clone(), to: ends.names.1.clone() };
    let thread = |(tid, (mut jobs, own)): (Tid, (Vec<Job>, Option<&States>))| {
        jobs.sort_by_key(|job| (job.intended, job.end));
        let name = own.and_then(|s| s.name);
        let name = name.map_or_else(|| "swapper".to_owned(), |n| capture.names.get(n).to_owned());
        Thread { tid, name, release: release.clone(), jobs, cut: None }
    };
    found.into_iter().map(thread).collect()
}

/// What the tasks did, from the events of the scheduler, and from `seen`: who had a CPU when, in order of time.
fn follow(capture: &Capture, seen: &[(TraceNs, Tid)], states: &mut IntMap<Tid, States>) {
    let first = capture.events.first().map_or(TraceNs(0), |e| e.time);
    let first = seen.first().map_or(first, |s| s.0.min(first));
    // What a task did before its first event follows from that event.
    let begin = |own: &mut States, before: Doing| {
        if own.at.is_empty() {
            own.push(first, before);
        }
    };
    let runs = |states: &mut IntMap<Tid, States>, tid: Tid, time: TraceNs| {
        if let Some(own) = states.get_mut(&tid) {
            begin(own, Doing::Running);
            if own.at.last().is_some_and(|s| s.1 != Doing::Running) {
                own.push(time, Doing::Running);
            }
        }
    };
    let mut seen = seen.iter().peekable();
    for e in &capture.events {
        while let Some(&(time, tid)) = seen.next_if(|s| s.0 <= e.time) {
            runs(states, tid, time);
        }
        match e.kind {
            EventKind::Switch { prev, state, next } => {
                if let Some(own) = states.get_mut(&prev.tid) {
                    begin(own, Doing::Running);
                    (own.name, own.prio) = (Some(prev.name), prev.prio);
                    let doing = if state.is_runnable() { Doing::Ready } else { Doing::Asleep };
                    own.push(e.time, doing);
                }
                if let Some(own) = states.get_mut(&next.tid) {
                    begin(own, Doing::Ready);
                    (own.name, own.prio) = (Some(next.name), next.prio);
                    own.push(e.time, Doing::Running);
                }
            }
            EventKind::Waking { task, .. } | EventKind::WakeupNew { task, .. } => {
                if let Some(own) = states.get_mut(&task.tid) {
                    begin(own, Doing::Asleep);
                    own.name.get_or_insert(task.name);
                    if own.at.last().is_some_and(|s| s.1 == Doing::Asleep) {
                        own.push(e.time, Doing::Ready);
                    }
                }
            }
            _ => runs(states, e.current, e.time),
        }
    }
    seen.for_each(|&(time, tid)| runs(states, tid, time));
}

fn job(span: &Span, own: Option<&States>) -> Job {
    let sums = own.and_then(|own| own.until(span.from).zip(own.until(span.to)));
    let [running, preempted, waiting] = match sums {
        Some((before, after)) => std::array::from_fn(|i| after[i].saturating_sub(before[i])),
        None => [span.to.since(span.from).0, 0, 0],
    };
    Job {
        intended: span.from,
        woken: span.from,
        start: span.from,
        end: span.to,
        cpu: span.cpu,
        prio: own.filter(|own| own.name.is_some()).map_or(i32::MAX, |own| own.prio),
        running: Nanos(running),
        preempted: Nanos(preempted),
        waiting: Nanos(waiting),
        // The last event was recorded by the task: it had a CPU then.
        unsure: sums.is_none() || own.is_some_and(|own| !own.runs_before(span.to)),
        after: None,
        by_event: span.begun_by != span.tid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::activations::Late;
    use crate::latency::breakdown::budget;
    use crate::latency::cpu_timeline::Lanes;
    use crate::latency::scenario::{HIGH, IDLE, RT, Script};
    use latlab_model::event::Task;
    use latlab_model::latency::Cause;
    use latlab_model::units::CpuId;

    fn ends() -> Ends {
        let names = ("a".to_owned(), "b".to_owned());
        Ends { from: "x".into(), to: "y".into(), key: Key::Tid, names }
    }

    fn us(us: u64) -> TraceNs {
        TraceNs(us * 1_000)
    }

    fn span(from: u64, to: u64, begun_by: Task) -> Span {
        Span { from: us(from), to: us(to), tid: RT.tid, begun_by: begun_by.tid, cpu: CpuId(0) }
    }

    /// Some kernels do not record the switch from the idle task: who records the first event has a CPU.
    #[test]
    fn a_switch_that_was_not_recorded_takes_nothing_from_the_span() {
        let mut s = Script::default();
        s.preempt(10.0, IDLE, RT)
            .switch(50.0, RT, IDLE)
            .at(90.0, EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false })
            .switch(300.0, RT, IDLE);
        let job = |span| threads(&s.capture, &[span], &ends())[0].jobs[0];
        let own = job(span(100, 250, RT));
        assert_eq!((own.running, own.preempted, own.unsure), (Nanos(150_000), Nanos(0), false));
        let lanes = Lanes::of(&s.capture.events);
        let cut = budget(&s.capture, &lanes, own.activation(RT.tid, Late::Never));
        assert_eq!(cut.sum(|p| p.cause == Cause::Execution), Nanos(150_000), "{cut:?}");
        // Begun by another: when it got its CPU is not known.
        assert!(job(span(60, 250, HIGH)).unsure);
    }

    /// It runs 50 µs, is preempted for 100, runs 50, sleeps 30, is runnable for 20, runs 50.
    #[test]
    fn the_parts_of_a_span_add_up() {
        let mut s = Script::default();
        s.preempt(10.0, IDLE, RT)
            .preempt(150.0, RT, HIGH)
            .switch(250.0, HIGH, RT)
            .switch(300.0, RT, IDLE)
            .at(330.0, EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false })
            .preempt(350.0, IDLE, RT)
            .switch(500.0, RT, IDLE);
        let span = |from, to| span(from, to, RT);
        let found = threads(&s.capture, &[span(100, 400), span(20, 40)], &ends());
        assert_eq!((found.len(), found[0].name.as_str()), (1, "measured"));
        let [short, long] = found[0].jobs[..] else { panic!("{found:?}") };
        assert_eq!((short.running, short.response()), (Nanos(20_000), Nanos(20_000)));
        let parts = [long.running, long.preempted, long.waiting].map(|n| n.0 / 1_000);
        assert_eq!((parts, long.response(), long.unsure), ([150, 120, 30], Nanos(300_000), false));
        let late = Late::Response(Nanos(100_000));
        let activations = found[0].activations(late);
        let lanes = Lanes::of(&s.capture.events);
        let cut = budget(&s.capture, &lanes, activations[1]);
        let of = |cause| cut.sum(|p| p.cause == cause).0 / 1_000;
        assert_eq!((of(Cause::HigherPriority), of(Cause::Execution)), (100, 150), "{cut:?}");
        assert_eq!(cut.sum(|_| true), Nanos(300_000));
    }

    /// The first event is recorded by another task: its receiver sleeps until that wakes it, and the wait is its
    /// sender's time.
    #[test]
    fn a_span_over_two_tasks_follows_the_wait() {
        let mut s = Script::default();
        s.preempt(10.0, IDLE, RT)
            .switch(50.0, RT, HIGH)
            .by(HIGH, 200.0, EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: false })
            .switch(210.0, HIGH, RT)
            .switch(300.0, RT, IDLE);
        let span = span(100, 250, HIGH);
        let found = threads(&s.capture, &[span], &ends());
        let job = found[0].jobs[0];
        let parts = [job.running, job.preempted, job.waiting].map(|n| n.0 / 1_000);
        assert_eq!(parts, [40, 10, 100]);
        let lanes = Lanes::of(&s.capture.events);
        let cut = budget(&s.capture, &lanes, found[0].activations(Late::Never)[0]);
        let of = |cause| cut.sum(|p| p.cause == cause).0 / 1_000;
        assert_eq!((of(Cause::Wait), of(Cause::Execution)), (100, 40), "{cut:?}");
    }

    /// Two requests whose work overlaps, told apart by a field; the third has lost its first event.
    #[test]
    fn events_are_paired_by_their_key() {
        let text = b"# tracer: nop
#
     loop-7     [000] d..2.   100.000100: sched_waking: comm=a pid=11 prio=120 target_cpu=000
     loop-7     [000] d..2.   100.000150: sched_waking: comm=b pid=12 prio=120 target_cpu=001
     loop-7     [000] d..2.   100.000300: sched_wakeup: comm=b pid=12 prio=120 target_cpu=001
     loop-7     [001] d..2.   100.000400: sched_wakeup: comm=a pid=11 prio=120 target_cpu=000
     loop-7     [001] d..2.   100.000500: sched_wakeup: comm=c pid=13 prio=120 target_cpu=000
";
        let file = latlab_trace::open(text).unwrap();
        let asked = |key: &str, to: &str| Ends {
            from: "sched/sched_waking".into(),
            to: to.into(),
            key: Key::parse(key),
            names: ("a".into(), "b".into()),
        };
        let whole = |ends: &Ends| spans(&file, ends, Ending::default());
        let lengths = |found: &Found| -> Vec<u64> {
            found.spans.iter().map(|s| s.to.since(s.from).0 / 1_000).collect()
        };
        let found = whole(&asked("pid", "sched/sched_wakeup")).unwrap();
        assert_eq!((lengths(&found), found.events, found.unmatched), (vec![150, 300], (2, 3), 1));
        let found = whole(&asked("tid", "sched/sched_wakeup")).unwrap();
        assert_eq!((lengths(&found), found.again, found.unmatched), (vec![150], 1, 2));
        let found = whole(&asked("pid", "sched/sched_wakeup : pid == 11")).unwrap();
        assert_eq!(lengths(&found), [300]);
        assert_eq!(found.open, [TraceNs(100_000_150_000)]);
        let error = whole(&asked("nothing", "sched/sched_wakeup")).unwrap_err().to_string();
        assert!(error.contains("no field") && error.contains("target_cpu"), "{error}");
        let error = whole(&asked("pid", "no_such_event")).unwrap_err().to_string();
        assert!(error.contains("--to b") && error.contains("no_such_event"), "{error}");
    }
    /// A recording in two parts, of which the second one begins where the earliest open span did.
    #[test]
    fn a_span_that_crosses_two_parts_is_found_once() {
        let event = |us: u64, name: &str, pid: i32| {
            format!(
                "     loop-7     [000] d..2.   100.{us:06}: {name}: comm=a pid={pid} prio=120 target_cpu=000\n"
            )
        };
        let (from, to) = ("sched_waking", "sched_wakeup");
        let lines = [
            event(100, from, 11),
            event(150, to, 11),
            event(200, from, 12),
            event(300, from, 13),
            event(400, to, 13),
            event(500, from, 14),
            event(600, to, 12),
            event(700, to, 14),
        ];
        let ends = Ends {
            from: "sched/sched_waking".into(),
            to: "sched/sched_wakeup".into(),
            key: Key::parse("pid"),
            names: ("a".into(), "b".into()),
        };
        let of = |lines: &[String], part: Ending| {
            let text = ["# tracer: nop\n#\n", &lines.concat()].concat();
            let file = latlab_trace::open(text.as_bytes()).unwrap();
            spans(&file, &ends, part).unwrap()
        };
        let at = |us: u64| TraceNs(100_000_000_000 + us * 1_000);
        let begins = |found: &Found| found.spans.iter().map(|s| s.from).collect::<Vec<_>>();
        let first = of(&lines[..6], Ending { until: at(450), ..Ending::default() });
        assert_eq!((begins(&first), &first.open[..]), (vec![at(100), at(300)], &[at(200)][..]));
        let second = of(&lines[2..], Ending { after: at(450), ..Ending::default() });
        assert_eq!((begins(&second), second.open), (vec![at(200), at(500)], vec![]));
        let counted = [first.events, second.events, (first.unmatched, second.unmatched)];
        assert_eq!(counted, [(3, 2), (1, 2), (0, 0)]);
    }
}
