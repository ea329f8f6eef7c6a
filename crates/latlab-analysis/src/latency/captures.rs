//! Captures of one question, explained together. The caller reads the files; each is in memory while it is
//! looked at, and only then.

use super::activations::Late;
use super::activations::from_capture::{Known, Thread, is_named};
use super::activations::summary::{Gathered, known, rank};
use super::bandwidth;
use super::capture::Capture;
use super::execution;
use super::summary::{Digest, Examples, conclude, digest_found};
#[cfg(feature = "host")]
use super::user_stacks;
use super::wakeups;
use latlab_model::event::{EventKind, Symbol};
use latlab_model::finding::{Note, Quantity};
use latlab_model::latency::{CaptureCounters, CountedWork, SystemContext, WhyResult};
use latlab_model::units::{Nanos, Tid};
use latlab_trace::Diagnostics;
use std::collections::{HashMap, HashSet};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The note of a damaged file.
const DAMAGED: &str = "why.capture-damaged";
/// Names of other tasks that are kept.
const OTHERS: usize = 10;

/// The wake-ups of a capture, and the tasks that wake up in it where the named one does not.
#[derive(Clone, Debug, Default)]
pub struct Digested {
    /// The wake-ups in numbers.
    pub digest: Digest,
    /// Names of other tasks.
    pub others: Vec<String>,
}

/// Captures without a wake-up that could be explained.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NoWakeups {
    /// Names of tasks that wake up, where one was asked for that does not: rising, ten at most.
    pub others: Vec<String>,
    /// Damage of the first capture that has any.
    pub damage: Option<Note>,
}

/// Calls `work` with each number below `count`, on up to `workers` threads, each with a state of its own.
/// Results come in order.
///
/// # Errors
/// The first, in order, that `work` returned.
///
/// # Panics
/// Where `work` does.
pub fn each<S: Default, T: Send, E: Send>(
    count: usize,
    workers: usize,
    work: impl Fn(usize, &mut S) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    let run = || {
        let (mut done, mut state) = (Vec::new(), S::default());
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= count {
                return done;
            }
            done.push((i, work(i, &mut state)));
        }
    };
    let mut all: Vec<(usize, Result<T, E>)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..workers.min(count)).map(|_| scope.spawn(run)).collect();
        // What a panic took with it is no result: it goes on in the caller.
        let joined = threads.into_iter().map(|t| t.join().unwrap_or_else(|e| resume_unwind(e)));
        joined.flatten().collect()
    });
    all.sort_by_key(|(i, _)| *i);
    all.into_iter().map(|(_, done)| done).collect()
}

/// The wake-ups of a capture, of one task where that is named; those later than `limit` are late, without
/// one (zero) what the marker of the measuring program says. `damage` is that of the file.
pub fn digest(
    capture: &mut Capture,
    limit: Nanos,
    task: Option<&str>,
    damage: &Diagnostics,
) -> Digested {
    wakeups::find(capture, limit);
    let others = task.map_or_else(Vec::new, |task| keep(capture, task));
    let mut digest = digest_found(capture, Examples::Typical);
    if let Some(first) = damage.list().first() {
        let more = damage.list().len() as u64 - 1 + damage.suppressed();
        let mut note = Note::new(DAMAGED).value("what", first.what.to_string());
        if more > 0 {
            note = note.value("more", Quantity::Count(more));
        }
        digest.note.notes.push(note);
    }
    if digest.note.late == 0 && limit.0 == 0 {
        digest.note.notes.push(Note::new("why.capture-no-marker"));
    }
    Digested { digest, others }
}

/// Keeps the wake-ups of one task, by thread id or name. Where there are none: whose there are.
fn keep(capture: &mut Capture, task: &str) -> Vec<String> {
    let mut tids: Vec<Tid> = task.parse().map(Tid).into_iter().collect();
    let mut names: HashMap<Tid, Symbol> = HashMap::new();
    for e in &capture.events {
        if let EventKind::Switch { next, .. } = e.kind
            && names.insert(next.tid, next.name) != Some(next.name)
            && is_named(task, capture.names.get(next.name))
        {
            tids.push(next.tid);
        }
    }
    let all = std::mem::take(&mut capture.activations);
    let (own, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|a| tids.contains(&a.tid));
    capture.activations = own;
    if !capture.activations.is_empty() {
        return Vec::new();
    }
    let mut woken: Vec<Tid> = others.iter().map(|a| a.tid).collect();
    woken.sort_unstable();
    woken.dedup();
    let name = |tid: &Tid| Some(capture.names.get(*names.get(tid)?).to_owned());
    woken.iter().filter_map(name).collect()
}

/// Brings the wake-ups of all captures together; `counters` are what was counted around them.
///
/// # Errors
/// When none has a wake-up.
pub fn explain(
    digested: Vec<Digested>,
    context: SystemContext,
    counters: &[CaptureCounters],
) -> Result<WhyResult, NoWakeups> {
    let (mut digests, others): (Vec<Digest>, Vec<Vec<String>>) =
        digested.into_iter().map(|d| (d.digest, d.others)).unzip();
    digests.iter_mut().for_each(|digest| add_counters(digest, counters));
    if !digests.iter().all(|d| d.windows.is_empty()) {
        return Ok(conclude(digests, context));
    }
    let mut others = others.concat();
    others.sort();
    others.dedup();
    others.truncate(OTHERS);
    let notes = digests.into_iter().flat_map(|d| d.note.notes);
    Err(NoWakeups { others, damage: notes.into_iter().find(|n| n.id() == Some(DAMAGED)) })
}

/// Adds what was counted round the capture of a digest.
fn add_counters(digest: &mut Digest, counters: &[CaptureCounters]) {
    let Some(own) = &mut digest.note.counters else { return };
    if let Some(counted) = counters.iter().find(|c| c.capture == own.capture) {
        *own = *counted;
        for window in &mut digest.windows {
            (window.steal_ns, window.smi) = (counted.steal_ns, counted.smi);
        }
        if let Some(throttled) = counted.throttled {
            bandwidth::decide(digest, throttled);
        }
    }
}

/// Adds the threads of a capture to those of the captures before, of which the last may overlap it; returns them with
/// the activations that were not in that. A thread of another capture is the same by its number, or by its name where
/// that is the only one of it in each. `late`: what is late, where that is given.
pub fn gather(
    found: Vec<Thread>,
    by_name: bool,
    late: Option<Late>,
    all: &mut Vec<Gathered>,
) -> Vec<Thread> {
    let alone = by_name && found.len() == 1;
    let add = |thread: Thread| {
        let same = |g: &Gathered| g.tid == thread.tid || alone && g.task == thread.name;
        let at = all.iter().position(same).unwrap_or_else(|| {
            let (task, release) = (thread.name.clone(), thread.release.clone());
            all.push(Gathered::new(task, thread.tid, release, late));
            all.len() - 1
        });
        let jobs = all[at].take(thread.clone());
        Thread { jobs, ..thread }
    };
    found.into_iter().map(add).collect()
}

/// The longest of the activations that a capture has brought of a thread: of the late ones, where it is given what is late.
/// `is_cut`: also of one whose end comes in no capture.
pub fn longest(of: &Gathered, fresh: &[Thread], late: Option<Late>, is_cut: bool) -> Option<Nanos> {
    let own = |t: &&Thread| t.tid == of.tid || fresh.len() == 1 && t.name == of.task;
    let thread = fresh.iter().find(own)?;
    let cut = thread.cut.filter(|cut| is_cut && cut.is_sure).map(|cut| cut.job);
    let all = thread.jobs.iter().copied().chain(cut);
    let all = all.filter(|job| late.is_none_or(|late| late.is(job)));
    all.map(|job| late.unwrap_or_default().judged(&job)).max()
}

/// No capture follows: what has not ended does not end. Threads without any activation go.
pub fn finish(all: &mut Vec<Gathered>) {
    all.iter_mut().for_each(Gathered::finish);
    all.retain(|t| !t.jobs.is_empty() || !t.cut.is_empty());
}

/// The activations of a task, or spans, in captures. `find` reads a capture and finds them, knowing what the
/// captures before have shown; `by_name`: the task was chosen by its name; `late`: what is late, where
/// that is given. `None`: the marker of a program
/// judges wake-ups and not activations, where `marker_judges`. Empty: there is none.
///
/// # Errors
/// What `find` returns.
pub fn gather_all<E>(
    count: usize,
    mut find: impl FnMut(usize, &Known) -> Result<(Capture, Vec<Thread>), E>,
    by_name: bool,
    late: Option<Late>,
    marker_judges: bool,
) -> Result<Option<Vec<Gathered>>, E> {
    let mut all = Vec::new();
    for i in 0..count {
        let (capture, found) = find(i, &known(&all))?;
        if marker_judges && wakeups::has_marker(&capture) {
            return Ok(None);
        }
        gather(found, by_name, late, &mut all);
    }
    finish(&mut all);
    Ok(Some(all))
}

/// Explains the late activations of the first of the threads by the captures; without a limit by the one
/// that the activations suggest. `find` as for [`gather_all`]; `work` has the counters of a thread, where its
/// activations were recorded with them.
///
/// # Errors
/// What `find` returns.
pub fn explain_activations<E>(
    count: usize,
    mut find: impl FnMut(usize, &Known) -> Result<(Capture, Vec<Thread>), E>,
    mut all: Vec<Gathered>,
    late: Option<Late>,
    mut context: SystemContext,
    counters: &[CaptureCounters],
    work: impl FnOnce(Tid) -> Option<CountedWork>,
) -> Result<WhyResult, E> {
    rank(&mut all, late.unwrap_or_default());
    let Some(first) = all.first() else { return Ok(WhyResult::default()) };
    let given = late;
    let (late, reason) = match given {
        Some(late) => (late, Note::new("why.limit-given")),
        None => first.propose(),
    };
    context.limit_ns = late.limit().0;
    let mut digests = Vec::new();
    let mut explained = HashSet::new();
    #[cfg(feature = "host")]
    let mut waits = Vec::new();
    for i in 0..count {
        let (mut capture, found) = find(i, &known(std::slice::from_ref(first)))?;
        let own = |t: &&Thread| t.tid == first.tid || found.len() == 1 && t.name == first.task;
        if let Some(thread) = found.iter().find(own) {
            capture.activations = thread.activations(late);
            // It ended in no capture.
            let cut = thread.cut.iter().map(|cut| &cut.job).filter(|job| late.is(job));
            let cut = cut.filter(|job| first.cut.iter().any(|own| own.woken == job.woken));
            capture.activations.extend(cut.map(|job| job.activation(thread.tid, late)));
            // Captures may overlap.
            capture.activations.retain(|a| explained.insert((a.intended, a.actual)));
        }
        #[cfg(feature = "host")]
        waits.push(user_stacks::wait_sites(&capture));
        let mut digest = digest_found(&capture, Examples::Typical);
        add_counters(&mut digest, counters);
        digests.push(digest);
    }
    let mut result = conclude(digests, context);
    result.limit_reason = Some(reason);
    // A limit that is derived is that of the explained thread alone.
    let others = given.unwrap_or_default();
    let numbers = |g: &Gathered| g.summarize(if g.tid == first.tid { late } else { others });
    result.activations = all.iter().map(numbers).collect();
    result.work = work(first.tid);
    #[cfg(feature = "host")]
    {
        result.waits = user_stacks::merge(waits);
    }
    execution::tell(&mut result, late);
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::activations::Job;
    use latlab_model::latency::Release;
    use latlab_model::units::{CpuId, TraceNs};

    /// A fair thread is late each time, and the real-time thread, which is explained, twice.
    #[test]
    fn the_explained_thread_decides_what_is_kept() {
        let job = |i: u64, ns: u64, prio: i32| {
            let (from, none) = (TraceNs(i * 10_000_000), Nanos(0));
            let end = TraceNs(from.0 + ns);
            let (running, unsure, after, by_event) = (Nanos(ns), false, None, false);
            let (intended, woken, start, cpu) = (from, from, from, CpuId(0));
            Job {
                intended,
                woken,
                start,
                end,
                cpu,
                prio,
                running,
                preempted: none,
                waiting: none,
                unsure,
                after,
                by_event,
            }
        };
        let thread = |tid: i32, name: &str, jobs: Vec<Job>| {
            let release = Release::Timer { function: "hrtimer_wakeup".into() };
            Thread { tid: Tid(tid), name: name.into(), release, jobs, cut: None }
        };
        let limit = Late::Response(Nanos(1_000_000));
        let late = Some(limit);
        let mut all = Vec::new();
        let mut take = |from: u64, slow: u64| {
            let helper = (from..from + 10).map(|i| job(i, 5_000_000, 120)).collect();
            let own = |i| job(i, if i - from < slow { 2_000_000 } else { 300_000 }, 49);
            let own = (from..from + 10).map(own).collect();
            let found = vec![thread(7, "helper", helper), thread(8, "loop", own)];
            let fresh = gather(found, false, late, &mut all);
            rank(&mut all, limit);
            assert_eq!(all[0].task, "loop");
            longest(&all[0], &fresh, late, false)
        };
        assert_eq!(take(0, 0), None);
        assert_eq!(take(10, 2), Some(Nanos(2_000_000)));
        assert_eq!(take(20, 0), None);
        let find = |_: usize, _: &Known| Ok::<_, ()>((Capture::default(), Vec::new()));
        let none = |_: Tid| None;
        let system = SystemContext::default();
        let result = explain_activations(0, find, all, late, system, &[], none).unwrap();
        let late: Vec<_> = result.activations.iter().map(|a| (&*a.task, a.counts.late)).collect();
        assert_eq!(late, [("loop", 2), ("helper", 30)]);
    }

    #[test]
    fn results_come_in_order_and_the_first_error_counts() {
        let double = |i: usize, seen: &mut usize| {
            *seen += 1;
            Ok::<_, String>((2 * i, *seen > 0))
        };
        let all = each(100, 3, double).unwrap();
        assert!(all.iter().enumerate().all(|(i, &(twice, counted))| twice == 2 * i && counted));
        assert!(each(0, 3, double).unwrap().is_empty());
        let odd = |i: usize, _: &mut ()| if i % 2 == 1 { Err(i) } else { Ok(i) };
        assert_eq!(each(9, 4, odd), Err(1));
    }

    /// Results of the others alone would be taken for those of all.
    #[test]
    fn a_worker_that_panics_is_no_shorter_list() {
        let work = |i: usize, _: &mut ()| {
            assert!(i != 5, "of capture 5");
            Ok::<_, String>(i)
        };
        let caught = std::panic::catch_unwind(|| each(20, 3, work));
        let message = caught.unwrap_err().downcast::<&str>().map(|s| *s);
        assert_eq!(message.ok(), Some("of capture 5"));
    }
}
