//! Spans in an unending trace that is read part by part: each is told once.
//!
//! One CPU is read after the other, so that the last events of one part are later than the first ones of the next. Events
//! behind the horizon wait for it. Open spans are kept from part to part, however long they take.

use crate::latency::activations::from_capture::Thread;
use crate::latency::activations::spans::{
    EndEvent, Ends, Found, Pairing, SpanError, events, threads_of_window,
};
use crate::latency::capture::Capture;
use latlab_model::units::{Nanos, Tid, TraceNs};
use latlab_trace::TraceFile;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Open spans at most; of more the older half is forgotten.
const OPEN: usize = 1 << 16;
/// Events of ends in one part at most.
const PENDING: usize = 1 << 16;

/// The spans between two ends.
#[derive(Clone, Debug)]
pub struct FollowSpans {
    ends: Ends,
    pairing: Pairing,
    /// Events behind the last horizon.
    pending: Vec<EndEvent>,
    /// Events were lost since the last one.
    lost: bool,
}

impl FollowSpans {
    /// None yet.
    pub fn new(ends: Ends) -> Self {
        Self { ends, pairing: Pairing::new(OPEN), pending: Vec::new(), lost: false }
    }

    /// What begins and ends them.
    pub fn ends(&self) -> &Ends {
        &self.ends
    }

    /// Adds the events of a part. How many of them are too many; those are as lost.
    ///
    /// # Errors
    /// When the trace has no such event or field.
    pub fn add(&mut self, part: &TraceFile<'_>) -> Result<u64, SpanError> {
        let (pending, lost) = (&mut self.pending, &mut self.lost);
        let mut unseen = 0;
        events(part, &self.ends, |mut event| {
            if pending.len() < PENDING {
                event.after_loss |= std::mem::take(lost);
                pending.push(event);
            } else {
                (unseen, *lost) = (unseen + 1, true);
            }
            ControlFlow::Continue(())
        })?;
        Ok(unseen)
    }

    /// Nothing was recorded for a time: spans that are open are not connected with what follows.
    pub fn lose(&mut self) {
        self.lost = true;
    }

    /// Everything was lost.
    pub fn clear(&mut self) {
        self.pending.clear();
        self.pairing.clear();
    }

    /// The spans that end until a horizon, up to which all events were read, as activations of the threads that end them. The
    /// window has the scheduler's events of `tids`, which are sorted.
    pub fn take(&mut self, window: &Capture, tids: &[Tid], horizon: TraceNs) -> Vec<Thread> {
        self.pending.sort_by_key(|event| event.time);
        let read = self.pending.partition_point(|event| event.time <= horizon);
        let mut found = Found::default();
        let spans: Vec<_> = self
            .pending
            .drain(..read)
            .filter_map(|event| self.pairing.take(&event, true, &mut found))
            .collect();
        if spans.is_empty() {
            return Vec::new();
        }
        threads_of_window(window, tids, &spans, &self.ends)
    }

    /// The threads that began the open spans of at most an age, by number, and since when their events are needed.
    pub fn held(&self, horizon: TraceNs, most: Nanos) -> BTreeMap<Tid, TraceNs> {
        let mut all = BTreeMap::new();
        for (time, tid) in self.pairing.begins() {
            if tid.0 > 0 && horizon.since(time) <= most {
                all.entry(tid).or_insert(time);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::activations::spans::Key;
    use crate::latency::from_trace;
    use crate::watch::recent::Recent;
    use latlab_trace::Select;

    fn follow(key: &str) -> FollowSpans {
        FollowSpans::new(Ends {
            from: "sched/sched_waking : pid < 900".into(),
            to: "sched/sched_wakeup : pid < 900".into(),
            key: Key::parse(key),
            names: ("a".into(), "b".into()),
        })
    }

    fn line(us: u64, cpu: u32, name: &str, pid: i32) -> String {
        format!(
            "  loop-7  [{cpu:03}] d..2.  100.{us:06}: {name}: comm=a pid={pid} prio=120 target_cpu=000\n"
        )
    }

    fn at(us: u64) -> TraceNs {
        TraceNs(100_000_000_000 + us * 1_000)
    }

    /// The begin and the length of each span, µs, of parts with their horizons.
    fn told(follow: &mut FollowSpans, parts: &[(&[String], u64)]) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        for (lines, horizon) in parts {
            // A text has the formats of its events alone.
            let both = ["sched_waking", "sched_wakeup"].map(|name| line(0, 0, name, 999)).concat();
            let text = ["# tracer: nop\n#\n", &both, &lines.concat()].concat();
            let file = latlab_trace::open(text.as_bytes()).unwrap();
            assert_eq!(follow.add(&file).unwrap(), 0);
            for thread in follow.take(&Capture::default(), &[], at(*horizon)) {
                let job = |j: &crate::latency::activations::Job| {
                    (j.intended.since(at(0)).0 / 1_000, j.response().0 / 1_000)
                };
                all.extend(thread.jobs.iter().map(job));
            }
        }
        all
    }

    /// The end of one was recorded on another CPU, and is read before its begin.
    #[test]
    fn a_span_over_parts_is_told_once() {
        let (from, to) = ("sched_waking", "sched_wakeup");
        let first = [line(100, 0, from, 11), line(450, 1, to, 12), line(480, 1, from, 13)];
        let second = [line(400, 0, from, 12), line(500, 0, to, 11), line(600, 0, to, 13)];
        let mut own = follow("pid");
        let found = told(&mut own, &[(&first, 300), (&second, 700), (&[], 900)]);
        assert_eq!(found, [(100, 400), (400, 50), (480, 120)]);
        assert!(own.held(at(900), Nanos(1_000_000)).is_empty());
    }

    #[test]
    fn a_gap_connects_nothing() {
        let mut own = follow("pid");
        let first = [line(100, 0, "sched_waking", 11)];
        assert_eq!(told(&mut own, &[(&first, 200)]), []);
        let held = |most| own.held(at(300), Nanos(most)).into_iter().collect::<Vec<_>>();
        assert_eq!(held(200_000), [(Tid(7), at(100))]);
        assert_eq!(held(199_000), []);
        own.lose();
        let second = [
            line(400, 0, "sched_wakeup", 11),
            line(500, 0, "sched_waking", 11),
            line(600, 0, "sched_wakeup", 11),
        ];
        assert_eq!(told(&mut own, &[(&second, 700)]), [(500, 100)]);
    }

    /// Of spans that never end the newer half is kept.
    #[test]
    fn the_oldest_open_spans_are_forgotten() {
        let mut own = follow("pid");
        own.pairing = Pairing::new(8);
        let begins: Vec<String> =
            (0..20).map(|i| line(100 + u64::from(i as u32), 0, "sched_waking", 100 + i)).collect();
        let ends = [line(200, 0, "sched_wakeup", 100), line(201, 0, "sched_wakeup", 119)];
        assert_eq!(told(&mut own, &[(&begins, 150), (&ends, 300)]), [(119, 82)]);
    }

    /// A task that runs, sleeps and runs in a span that began before the window.
    #[test]
    fn the_parts_of_a_span_from_before_the_window_add_up() {
        let text = "# tracer: nop\n#\n\
            \x20 loop-7  [000] d..2.  100.000100: sched_waking: comm=a pid=11 prio=120 target_cpu=000\n\
            \x20 loop-7  [000] d..2.  100.000300: sched_switch: prev_comm=loop prev_pid=7 prev_prio=9 prev_state=S ==> next_comm=idle next_pid=0 next_prio=120\n\
            \x20 <idle>-0  [000] d..2.  100.000500: sched_waking: comm=loop pid=7 prio=9 target_cpu=000\n\
            \x20 <idle>-0  [000] d..2.  100.000520: sched_switch: prev_comm=idle prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=loop next_pid=7 next_prio=9\n\
            \x20 loop-7  [000] d..2.  100.000600: sched_wakeup: comm=a pid=11 prio=120 target_cpu=000\n";
        let file = latlab_trace::open(text.as_bytes()).unwrap();
        let mut own = follow("tid");
        own.ends.from = "sched/sched_waking : pid == 11".into();
        own.add(&file).unwrap();
        let mut recent = Recent::default();
        recent.add(&file, &Select::default(), &[Tid(7)]);
        // What was before 300 µs is forgotten, but for the events of the thread that began the span.
        assert_eq!(own.take(recent.capture(), &[Tid(7)], at(250)), []);
        let held: Vec<_> = own.held(at(250), Nanos(1_000_000)).into_iter().collect();
        recent.forget(at(310), &held);
        let other = own.clone().take(recent.capture(), &[Tid(8)], at(700));
        assert!(other[0].jobs[0].unsure, "nothing is known of a thread that is not watched");
        let threads = own.take(recent.capture(), &[Tid(7)], at(700));
        let job = threads[0].jobs[0];
        let parts = [job.running, job.preempted, job.waiting].map(|n| n.0 / 1_000);
        assert_eq!((parts, job.unsure), ([280, 20, 200], false));
        assert_eq!(threads[0].name, "loop");
        let whole = from_trace::capture(&file, "whole");
        let found =
            crate::latency::activations::spans::spans(&file, own.ends(), Default::default());
        let same =
            crate::latency::activations::spans::threads(&whole, &found.unwrap().spans, own.ends());
        assert_eq!(same[0].jobs, threads[0].jobs);
    }
}
