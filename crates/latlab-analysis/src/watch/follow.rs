//! Activations of chosen tasks in a window that moves over an unending trace: each is told once.
//!
//! A window overlaps the one before, because an activation may begin in one and end in the next, and is known only
//! when the next one begins. What ends after the horizon is told later, because not all events of its time were
//! read yet.

use crate::latency::activations::from_capture::{Chosen, Known, Thread, threads_to_the_end};
use crate::latency::activations::release::regular;
use crate::latency::activations::{Cut, Job};
use crate::latency::capture::Capture;
use crate::watch::counts::Gap;
use latlab_model::event::EventKind;
use latlab_model::latency::{PeriodEstimate, Release};
use latlab_model::units::{Nanos, Tid, TraceNs};
use latlab_trace::names::IntMap;

/// Threads of which it is remembered what begins their activations.
const KNOWN: usize = 4_096;

/// What was told of the windows before.
#[derive(Clone, Debug, Default)]
pub struct Follow {
    known: Known,
    /// The last activation of each thread that was told.
    told: IntMap<Tid, Told>,
}

/// An activation that was told.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    woken: TraceNs,
    end: TraceNs,
}

/// The new activations of a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fresh {
    /// Of each thread those that ended since the window before, in order of time, and the distance of its
    /// intended times in the window, where they are regular.
    pub threads: Vec<(Thread, Option<PeriodEstimate>)>,
    /// The longest activation in the window, told before or not.
    pub longest: Nanos,
    /// The longest distance of two intended times of a thread in it.
    pub distance: Nanos,
    /// A thread ran in it, and no activation of it is known: the window may be shorter than its period.
    pub unresolved: bool,
    /// Times in it of which events are missing.
    pub gaps: Vec<Gap>,
    /// Activations that have not ended at the horizon.
    pub open: Vec<Open>,
}

/// An activation that has not ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Open {
    /// The thread.
    pub tid: Tid,
    /// Its name.
    pub name: String,
    /// Until the horizon, or the last event of the window before it.
    pub job: Job,
}

impl Open {
    fn of(thread: &Thread, horizon: TraceNs) -> Option<Self> {
        let Cut { job, is_sure: true } = thread.cut? else { return None };
        let (start, end) = (job.start.min(horizon), job.end.min(horizon));
        let job = Job { start, end, ..job };
        let is_begun = job.intended < horizon;
        is_begun.then(|| Self { tid: thread.tid, name: thread.name.clone(), job })
    }
}

impl Follow {
    /// Takes a window. All events up to `horizon` were read.
    pub fn take(&mut self, window: &Capture, chosen: &Chosen, horizon: TraceNs) -> Fresh {
        let gaps = window.lost.iter().map(|lost| Gap { from: lost.from, to: lost.to }).collect();
        let mut fresh = Fresh { gaps, ..Fresh::default() };
        let mut found = threads_to_the_end(window, chosen, &self.known);
        fresh.open = found.iter().filter_map(|thread| Open::of(thread, horizon)).collect();
        found.retain(|thread| !thread.jobs.is_empty());
        fresh.unresolved = ran(window, chosen).any(|tid| !found.iter().any(|t| t.tid == tid));
        for mut thread in found {
            let longest = thread.jobs.iter().map(Job::response).max();
            fresh.longest = fresh.longest.max(longest.unwrap_or_default());
            let apart = thread.jobs.windows(2).map(|w| w[1].intended.since(w[0].intended)).max();
            fresh.distance = fresh.distance.max(apart.unwrap_or_default());
            self.remember(thread.tid, &thread.release);
            let due: Vec<u64> = thread.jobs.iter().map(|j| j.intended.0).collect();
            let told = self.told.get(&thread.tid).copied().unwrap_or_default();
            thread.jobs.retain(|job| job.end > told.end && job.end <= horizon);
            if let Some(last) = thread.jobs.last() {
                if self.told.len() < KNOWN || self.told.contains_key(&thread.tid) {
                    self.told.insert(thread.tid, Told { woken: last.woken, end: last.end });
                }
                fresh.threads.push((thread, regular(&due)));
            }
        }
        fresh
    }

    /// What begins the activations of each thread, as far as it is known.
    pub fn known(&self) -> &Known {
        &self.known
    }

    /// The threads of which activations were told, by number, and since when the next windows need their events: what follows the
    /// last activation may be one that has not ended.
    pub fn held(&self) -> Vec<(Tid, TraceNs)> {
        let mut all: Vec<_> = self.told.iter().map(|(tid, told)| (*tid, told.woken)).collect();
        all.sort_unstable_by_key(|t| t.0);
        all
    }

    /// Forgets threads that are no more.
    pub fn keep(&mut self, alive: impl Fn(Tid) -> bool) {
        self.known.retain(|tid, _| alive(*tid));
        self.told.retain(|tid, _| alive(*tid));
    }

    fn remember(&mut self, tid: Tid, release: &Release) {
        if *release != Release::Wakeup
            && (self.known.len() < KNOWN || self.known.contains_key(&tid))
        {
            self.known.insert(tid, release.clone());
        }
    }
}

/// The chosen threads that got a CPU in the window.
fn ran<'a>(window: &'a Capture, chosen: &'a Chosen) -> impl Iterator<Item = Tid> + 'a {
    let tids: &[Tid] = match chosen {
        Chosen::Tids(tids) => tids,
        Chosen::Name(_) => &[],
    };
    let mut seen: IntMap<Tid, ()> = IntMap::default();
    for e in &window.events {
        if let EventKind::Switch { next, .. } = e.kind {
            seen.insert(next.tid, ());
        }
    }
    tids.iter().copied().filter(move |tid| seen.contains_key(tid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::event::{Event, Names, OffCpu, Task};
    use latlab_model::units::CpuId;

    const US: u64 = 1_000;

    /// A task that runs 100 µs in each period of 1 ms.
    fn capture() -> Capture {
        let mut names = Names::default();
        let (name, idle, function) =
            (names.intern("loop"), names.intern("swapper/0"), names.intern("hrtimer_wakeup"));
        let task = Task { tid: Tid(7), name, prio: 49 };
        let idle = Task { tid: Tid(0), name: idle, prio: 120 };
        let mut events = Vec::new();
        let mut at = |us: u64, current: Task, kind: EventKind| {
            let time = TraceNs(us * US);
            events.push(Event { time, cpu: CpuId(0), current: current.tid, kind });
        };
        for i in 0..200u64 {
            let (t, due) = (1_000 * i, (1_000 * i * US) as i64);
            if i > 0 {
                let now = due + 1_000;
                at(
                    t + 1,
                    idle,
                    EventKind::HrtimerEntry { timer: 1, function, now, preempt_off: false },
                );
                at(t + 2, idle, EventKind::Waking { task, target: CpuId(0), in_interrupt: false });
                at(t + 3, idle, EventKind::HrtimerExit { timer: 1 });
            }
            at(t + 5, idle, EventKind::Switch { prev: idle, state: OffCpu::Runnable, next: task });
            let next = due + 1_000_000;
            let (expires, softexpires) = (next, next);
            let start = EventKind::HrtimerStart {
                timer: 1,
                function,
                relative: false,
                expires,
                softexpires,
            };
            at(t + 104, task, start);
            at(
                t + 105,
                task,
                EventKind::Switch { prev: task, state: OffCpu::Sleeping, next: idle },
            );
        }
        Capture { events, names, clock_is_monotonic: true, ..Capture::default() }
    }

    fn window(whole: &Capture, from: u64, to: u64) -> Capture {
        let within = |e: &&Event| (from * US..to * US).contains(&e.time.0);
        let events: Vec<Event> = whole.events.iter().filter(within).copied().collect();
        let covered_from = events.first().map_or(TraceNs(0), |e| e.time);
        Capture { events, covered_from, names: whole.names.clone(), ..whole.clone() }
    }

    /// What was recorded after the horizon is not complete.
    #[test]
    fn an_activation_is_open_until_the_horizon() {
        let whole = capture();
        let chosen = Chosen::Tids(vec![Tid(7)]);
        let open = |horizon: u64| {
            let mut follow = Follow::default();
            let w = window(&whole, 100_000, 150_050);
            follow.take(&w, &chosen, TraceNs(horizon * US)).open
        };
        let [own] = open(150_005).try_into().unwrap();
        assert_eq!((own.tid, own.name.as_str()), (Tid(7), "loop"));
        assert_eq!((own.job.intended.0, own.job.response()), (150_000 * US, Nanos(5 * US)));
        assert_eq!(open(149_999), []);
        let ended = window(&whole, 100_000, 150_106);
        assert_eq!(Follow::default().take(&ended, &chosen, TraceNs(150_106 * US)).open, []);
    }

    #[test]
    fn overlapping_windows_tell_each_activation_once() {
        let whole = capture();
        let chosen = Chosen::Tids(vec![Tid(7)]);
        let (mut follow, mut ends) = (Follow::default(), Vec::new());
        // Windows of 30 ms in steps of 7.3 ms; the last 0.4 ms of each are not complete.
        let mut to = 10_000u64;
        while to < 199_000 {
            let w = window(&whole, to.saturating_sub(30_000), to);
            let fresh = follow.take(&w, &chosen, TraceNs((to - 400) * US));
            ends.extend(fresh.threads.iter().flat_map(|t| &t.0.jobs).map(|j| j.end.0 / US));
            to += 7_300;
        }
        let last = ends.len() as u64;
        let expected: Vec<u64> = (1..=last).map(|i| 1_000 * i + 105).collect();
        assert!(last > 180, "{last}");
        assert_eq!(ends, expected);
        assert!(follow.known().contains_key(&Tid(7)));
        follow.keep(|_| false);
        assert!(follow.known().is_empty());
    }
}
