//! The activations of tasks in a capture.

use super::release::{choose, describe};
use super::sleeps::{Sleeps, Slept};
use super::{Cut, Job, Late, jobs};
use crate::latency::capture::{Activation, Capture};
use latlab_model::event::{EventKind, Symbol};
use latlab_model::latency::Release;
use latlab_model::units::{Tid, TraceNs};
use latlab_trace::names::IntMap;

/// A thread of a capture with its activations.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    /// Thread id.
    pub tid: Tid,
    /// Its last name.
    pub name: String,
    /// What begins an activation.
    pub release: Release,
    /// The activations, in order of time.
    pub jobs: Vec<Job>,
    /// The one that has not ended when the capture ends.
    pub cut: Option<Cut>,
}

/// Which threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// Those that have this name at any time.
    Name(String),
    /// These.
    Tids(Vec<Tid>),
}

/// Whether a name is that of a thread, as events and `/proc/PID/comm` have it. Events have the first 15 bytes, and of a
/// worker of a workqueue not what it works on (`kworker/1:1-events`); `/proc` has more of the kernel's threads.
pub fn is_named(asked: &str, name: &str) -> bool {
    in_events(asked) == in_events(name)
}

fn in_events(name: &str) -> &[u8] {
    let is_worker = name.strip_prefix("kworker/").is_some_and(|of| !of.starts_with('R'));
    let own = if is_worker { name.split(['-', '+']).next() } else { None };
    let bytes = own.unwrap_or(name).as_bytes();
    &bytes[..bytes.len().min(15)]
}

impl Thread {
    /// Its activations for the latency breakdown, but for those with a switch that was not recorded.
    pub fn activations(&self, late: Late) -> Vec<Activation> {
        let of = |job: &Job| job.activation(self.tid, late);
        self.jobs.iter().filter(|job| !job.unsure).map(of).collect()
    }

    /// From when on a later capture needs the events of this one to have its last activation and what follows; `None`:
    /// all of them.
    pub fn needed_from(&self) -> Option<TraceNs> {
        let before = self.jobs.len().checked_sub(2)?;
        Some(self.jobs[before].start)
    }
}

impl Chosen {
    /// A number is a thread id, anything else a name.
    pub fn parse(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Name(text.to_owned()), |tid| Self::Tids(vec![Tid(tid)]))
    }

    /// The threads with their last names, by number.
    fn threads(&self, capture: &Capture) -> Vec<(Tid, Symbol)> {
        let mut last: IntMap<Tid, Symbol> = IntMap::default();
        let mut chosen: Vec<Tid> = Vec::new();
        if let Self::Tids(tids) = self {
            chosen.clone_from(tids);
        }
        for e in &capture.events {
            if let EventKind::Switch { prev, next, .. } = e.kind {
                for task in [prev, next] {
                    if last.insert(task.tid, task.name) != Some(task.name)
                        && matches!(self, Self::Name(name) if is_named(name, capture.names.get(task.name)))
                    {
                        chosen.push(task.tid);
                    }
                }
            }
        }
        chosen.sort_unstable();
        chosen.dedup();
        chosen.retain(|tid| tid.0 > 0);
        chosen.into_iter().filter_map(|tid| Some((tid, *last.get(&tid)?))).collect()
    }
}

/// What begins the activations of a thread, from an earlier part of the same recording.
pub type Known = IntMap<Tid, Release>;

/// The activations of the chosen threads; a thread without any is left out.
pub fn threads(capture: &Capture, chosen: &Chosen, known: &Known) -> Vec<Thread> {
    let mut all = threads_to_the_end(capture, chosen, known);
    all.retain(|t| !t.jobs.is_empty());
    all
}

/// As [`threads`], with those of which only an activation is known that has not ended.
pub fn threads_to_the_end(capture: &Capture, chosen: &Chosen, known: &Known) -> Vec<Thread> {
    let named = chosen.threads(capture);
    let tids: Vec<Tid> = named.iter().map(|n| n.0).collect();
    let thread = |slept: Slept| {
        let known = known.get(&slept.tid);
        let name = named[named.binary_search_by_key(&slept.tid, |n| n.0).ok()?].1;
        of_sleeps(capture, name, &slept, known)
    };
    sleeps_of(capture, &tids).into_iter().filter_map(thread).collect()
}

/// `None`: it has no activation.
fn of_sleeps(
    capture: &Capture,
    name: Symbol,
    slept: &Slept,
    known: Option<&Release>,
) -> Option<Thread> {
    let boundary = choose(&slept.sleeps, &capture.names, known)?;
    let end = capture.events.last().map_or(TraceNs(0), |e| e.time);
    let (mut jobs, cut) = jobs(&slept.sleeps, slept.last, &boundary, end);
    let is_covered = |job: &Job| job.intended >= capture.covered_from;
    jobs.retain(is_covered);
    let cut = cut.filter(|cut| is_covered(&cut.job));
    let release = describe(&boundary, &capture.names);
    let name = capture.names.get(name).to_owned();
    let thread = Thread { tid: slept.tid, name, release, jobs, cut };
    (!thread.jobs.is_empty() || thread.cut.is_some()).then_some(thread)
}

/// The sleeps of threads, with what was lost in between.
fn sleeps_of(capture: &Capture, tids: &[Tid]) -> Vec<Slept> {
    let mut sleeps = Sleeps::of(tids, capture.clock_is_monotonic, &capture.names);
    let mut lost: Vec<_> = capture.lost.iter().map(|l| l.to).collect();
    lost.sort_unstable();
    let mut lost = lost.into_iter().peekable();
    for e in &capture.events {
        while lost.next_if(|to| *to <= e.time).is_some() {
            sleeps.lose();
        }
        sleeps.take(e);
    }
    sleeps.finish()
}

#[cfg(test)]
mod tests {
    use super::is_named;

    #[test]
    fn names_of_proc_and_of_events_are_the_same() {
        for (asked, name) in [
            ("loop", "loop"),
            ("kworker/1:1", "kworker/1:1-mm_percpu_wq"),
            ("kworker/1:1-mm_percpu_wq", "kworker/1:1"),
            ("kworker/1:1-mm_percpu_wq", "kworker/1:1+events"),
            ("kworker/1:1-mm_", "kworker/1:1-mm_percpu_wq"),
            ("kworker/R-mm_percpu_wq", "kworker/R-mm_pe"),
            ("irq/122-ahci[0000:00:17.0]", "irq/122-ahci[00"),
            ("irq/122-ahci[00", "irq/122-ahci[0000:00:17.0]"),
            ("grüße-an-die-welt", "grüße-an-die-"),
        ] {
            assert!(is_named(asked, name), "{asked} {name}");
        }
        for (asked, name) in [
            ("loop", "loop2"),
            ("kworker/1:1", "kworker/1:1H-events"),
            ("kworker/R-a", "kworker/R-b"),
            ("irq/122-ahci", "irq/122-ahci[00"),
        ] {
            assert!(!is_named(asked, name), "{asked} {name}");
        }
    }
}
