//! The activations of any task: from the time at which one is due to the moment at which the task sleeps
//! until the next.
//!
//! ```text
//! intended   woken   start                                                end
//!    │─ timer ─│─ ready ─│─ running ─│─ preempted ─│─ running ─│─ waiting ─│─ running ─│ sleep
//!    └──────── start latency ────────┘
//!    └──────────────────────────── response time ─────────────────────────────────────┘
//! ```
//!
//! The task itself tells its times: it arms a timer (`hrtimer_start`), is woken (`sched_waking`), gets a CPU
//! and leaves it (`sched_switch`). Which of its sleeps separate activations and which lie inside of one
//! is decided from all of them ([`release`]). The parts of an activation add up to its response time exactly.

mod beyond;
pub mod counts;
mod cut;
pub mod from_capture;
pub mod release;
mod resumed;
pub mod sleeps;
pub mod spans;
pub mod summary;

use super::capture::{Activation, Began, End};
use cut::is_open;
use latlab_model::units::{CpuId, Nanos, Tid, TraceNs};
use release::{Boundary, is_boundary};
use resumed::resumed;
use sleeps::{Last, Sleep};

/// What is late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Late {
    /// Nothing.
    #[default]
    Never,
    /// A response time above this.
    Response(Nanos),
    /// A first switch to the task later than this after the intended time.
    Start(Nanos),
}

impl Late {
    /// Whether an activation is.
    pub fn is(self, job: &Job) -> bool {
        self != Self::Never && self.judged(job) > self.limit()
    }

    /// The time that it compares with its limit; without one the response time.
    pub fn judged(self, job: &Job) -> Nanos {
        match self {
            Self::Never | Self::Response(_) => job.response(),
            Self::Start(_) => job.start_latency(),
        }
    }

    /// The limit; 0 without one.
    pub fn limit(self) -> Nanos {
        match self {
            Self::Never => Nanos(0),
            Self::Response(limit) | Self::Start(limit) => limit,
        }
    }
}

/// One activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// When it was due: the time of its timer, without one that of the wake-up.
    pub intended: TraceNs,
    /// When the task was woken for it, or went on without a sleep.
    pub woken: TraceNs,
    /// The first switch to the task.
    pub start: TraceNs,
    /// When the task went to sleep until the next one.
    pub end: TraceNs,
    /// The CPU on which it began.
    pub cpu: CpuId,
    /// Kernel priority of the task.
    pub prio: i32,
    /// With a CPU, interrupts included.
    pub running: Nanos,
    /// Runnable without a CPU, after the start.
    pub preempted: Nanos,
    /// Waiting, after the start.
    pub waiting: Nanos,
    /// A switch was not recorded: when it began, or ran, is not exactly known.
    pub unsure: bool,
    /// The end of the activation before, where this one was due before it.
    pub after: Option<TraceNs>,
    /// An event of another task begins it, whatever the task does at that moment.
    pub by_event: bool,
}

/// An activation that the end of the recording cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The activation, with the end of the recording as its end; its parts are those until then.
    pub job: Job,
    /// It has not ended. Otherwise the task sleeps, and may have ended it.
    pub is_sure: bool,
}

impl Job {
    /// From the intended time to the first switch to the task.
    pub fn start_latency(&self) -> Nanos {
        self.start.since(self.intended)
    }

    /// From the intended time to the end.
    pub fn response(&self) -> Nanos {
        self.end.since(self.intended)
    }

    /// For the latency breakdown: up to the event that the criterion judges.
    pub fn activation(&self, tid: Tid, late: Late) -> Activation {
        let (actual, end) = match late {
            Late::Start(_) => (self.start, End::Switch),
            Late::Never | Late::Response(_) => (self.end, End::Completion),
        };
        let (woken, start, after) = (self.woken, self.start, self.after);
        Activation {
            tid,
            cpu: self.cpu,
            intended: self.intended,
            actual,
            end,
            late: late.is(self),
            called: false,
            began: Some(Began { woken, start, after, by_event: self.by_event }),
        }
    }
}

/// The activations between the sleeps that separate them, and the one that has not ended when the recording ends, where
/// there is one. What begins before the first such sleep is not known. A sleep to the next activation that a signal or a
/// stop interrupts ends the activation before, though the task runs a handler and sleeps on.
pub fn jobs(
    sleeps: &[Sleep],
    last: Last,
    boundary: &Boundary,
    end: TraceNs,
) -> (Vec<Job>, Option<Cut>) {
    let mut sleeps = std::borrow::Cow::Borrowed(sleeps);
    if let Last::Woken(woken) = last {
        // It gets its CPU after the end.
        sleeps.to_mut().push(Sleep { start: end.max(woken.woken), ..woken });
    }
    let (found, open) = complete(&sleeps, boundary);
    let cut = |job| Some(Cut { job, is_sure: is_open(&sleeps, last, boundary)? });
    (found, open.map(|open| until(open, last, end)).and_then(cut))
}

/// An activation until the end of the recording.
fn until(open: Job, last: Last, end: TraceNs) -> Job {
    let mut job = Job { end: end.max(open.start), ..open };
    let since = |from: TraceNs| job.end.since(from.max(job.intended));
    match last {
        // One that was woken is one of the sleeps, and begins at the end.
        Last::Unknown | Last::Woken(_) => {}
        Last::Running(from) => job.running = job.running + since(from),
        Last::Runnable(from) => job.preempted = job.preempted + since(from),
        Last::Asleep { out, .. } => job.waiting = job.waiting + since(out),
    }
    job
}

/// The activations that ended, and the one after them, with what is known of it.
fn complete(sleeps: &[Sleep], boundary: &Boundary) -> (Vec<Job>, Option<Job>) {
    let mut found: Vec<Job> = Vec::new();
    let mut open: Option<Job> = None;
    let mut at = 0;
    while let Some(sleep) = sleeps.get(at) {
        let last = resumed(sleeps, at).filter(|_| !is_boundary(sleep, boundary));
        let begins = last.map_or(sleep, |last| &sleeps[last]);
        if is_boundary(begins, boundary) {
            let is_connected = open.is_some() && last.is_none();
            if let Some(job) = open.take() {
                found.push(Job { end: sleep.out, ..job });
            }
            open = Some(begun(begins, is_connected, &sleeps[at..last.unwrap_or(at)]));
            at = last.unwrap_or(at);
        } else if let Some(job) = &mut open {
            job.unsure |= sleep.unsure;
            job.waiting = job.waiting + sleep.length();
            job.preempted = job.preempted + sleep.start.since(sleep.woken) + sleep.preempted;
            job.running = job.running + sleep.ran;
        }
        if sleeps[at].gap {
            open = None;
        }
        at += 1;
    }
    (found, open)
}

/// The activation that begins with a sleep's end; `before`: what the sleep goes on from, with what interrupted it.
fn begun(sleep: &Sleep, is_connected: bool, before: &[Sleep]) -> Job {
    let intended = sleep.due().min(sleep.woken);
    let mut job = Job {
        intended,
        woken: sleep.woken,
        start: sleep.start,
        end: sleep.start,
        cpu: sleep.cpu,
        prio: sleep.prio,
        running: sleep.ran,
        preempted: sleep.preempted,
        waiting: Nanos(0),
        unsure: sleep.unsure,
        after: Some(sleep.out).filter(|end| is_connected && *end > intended),
        by_event: false,
    };
    // Its time came while it was stopped, or ran a handler.
    if !before.is_empty() && intended < sleep.out {
        let since = |from: TraceNs, to: TraceNs| to.since(from.max(intended).min(to));
        for s in before {
            job.waiting = job.waiting + since(s.out, s.woken);
            job.preempted = job.preempted + since(s.woken, s.start);
            job.unsure |= s.unsure;
        }
        let kept = job.waiting + job.preempted;
        let own = Nanos(sleep.start.since(intended).0.saturating_sub(kept.0));
        job.running = job.running + own;
        (job.woken, job.start, job.by_event) = (intended, intended, true);
    }
    job
}

#[cfg(test)]
mod cut_tests;
#[cfg(test)]
mod interrupted_tests;
#[cfg(test)]
mod tests;
