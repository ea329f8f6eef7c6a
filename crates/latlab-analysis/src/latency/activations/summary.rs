//! Activations in numbers, the deadline that they suggest, and which part made the late ones late.

use super::beyond::Beyond;
use super::counts::{count, merge, skipped, usual};
use super::from_capture::{Known, Thread};
use super::release::regular;
use super::{Cut, Job, Late};
use crate::latency::class::FAIR;
use latlab_model::finding::{Note, Quantity};
use latlab_model::latency::{ActivationCounts, PeriodEstimate, Release, TaskActivations};
use latlab_model::units::{Nanos, Tid, TraceNs};
use std::cmp::Reverse;

/// Of slow activations without a deadline this share is compared with the others at most.
const SLOWEST: f64 = 0.02;
/// And they take at least so many times the median.
const SLOWER: f64 = 1.2;
/// Activations of one thread that are kept: 90 MB. A capture that begins below is kept whole.
const JOBS: usize = if cfg!(test) { 1_000 } else { 1_000_000 };

/// The activations of one thread, gathered from any number of captures.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// The thread's name.
    pub task: String,
    /// Thread id.
    pub tid: Tid,
    /// What begins an activation.
    pub release: Release,
    /// Each activation, in order of time.
    pub jobs: Vec<Job>,
    /// Where in `jobs` a recording without a gap begins: the distance to the one before tells nothing.
    pub begins: Vec<usize>,
    /// Activations of which only the begin was recorded.
    pub cut: Vec<Job>,
    /// Activations of which it is not known whether they had ended when a recording ended.
    pub maybe_cut: u64,
    /// The one that has not ended at the end of the last capture.
    pub open: Option<Cut>,
    /// The distance of intended times, where it is given.
    pub given_period: Option<Nanos>,
    /// The end of the last activation.
    told: Option<TraceNs>,
    /// What is late, where that is given.
    limit: Option<Late>,
    /// Those that are not in `jobs`, because there were too many.
    beyond: Option<Beyond>,
}

impl Gathered {
    /// No activation yet of a thread. `limit`: what is late, where that is given.
    pub fn new(task: String, tid: Tid, release: Release, limit: Option<Late>) -> Self {
        Self { task, tid, release, limit, ..Self::default() }
    }

    /// Adds the activations of the next capture, which may begin before the end of the one before; returns those that
    /// were not in that. What begins them may have been unknown until then.
    pub fn take(&mut self, thread: Thread) -> Vec<Job> {
        if self.release == Release::Wakeup {
            self.release = thread.release;
        }
        let mut jobs = thread.jobs;
        let told = self.told.filter(|told| jobs.iter().any(|job| job.end == *told));
        jobs.retain(|job| told.is_none_or(|told| job.end > told));
        let open = self.open.take();
        let woken = open.map(|cut| cut.job.woken);
        let mut goes_on = jobs.iter().chain(thread.cut.iter().map(|cut| &cut.job));
        let is_seen = goes_on.any(|job| Some(job.woken) == woken);
        let is_connected = told.is_some() || is_seen;
        if !is_connected {
            self.close(open);
        }
        self.open = thread.cut;
        self.append(&jobs, is_connected);
        jobs
    }

    /// No capture follows.
    pub fn finish(&mut self) {
        let open = self.open.take();
        self.close(open);
    }

    /// An activation whose end is in no capture.
    fn close(&mut self, open: Option<Cut>) {
        match open {
            Some(Cut { job, is_sure: true }) => self.cut.push(job),
            Some(_) => self.maybe_cut += 1,
            None => {}
        }
    }

    /// Adds the activations of the next capture.
    pub fn add(&mut self, jobs: &[Job]) {
        self.append(jobs, false);
    }

    /// `is_connected`: no activation between them and those before is missing.
    fn append(&mut self, jobs: &[Job], is_connected: bool) {
        self.told = jobs.iter().map(|job| job.end).max().or(self.told);
        if self.jobs.len() >= JOBS {
            let beyond = self.beyond.take();
            let beyond = beyond.unwrap_or_else(|| Beyond::new(&self.jobs, self.limit_of_kept()));
            self.beyond.insert(beyond).add(jobs);
            return;
        }
        if !is_connected || self.begins.is_empty() {
            self.begins.push(self.jobs.len());
        }
        self.jobs.extend(jobs);
    }

    /// What is late: given, or as those that are kept suggest.
    fn limit_of_kept(&self) -> (Late, Note) {
        let given = self.limit.map(|late| (late, Note::new("why.limit-given")));
        given.unwrap_or_else(|| self.proposed())
    }

    /// The activations that a limit judges: those that ended, and those that did not and are late all the same.
    pub fn judged(&self, late: Late) -> impl Iterator<Item = &Job> {
        self.jobs.iter().chain(self.cut.iter().filter(move |job| late.is(job)))
    }

    /// The distance of intended times: given, or that in the longest capture in which they are regular.
    pub fn period(&self) -> Option<PeriodEstimate> {
        let found = self.found_period();
        match self.given_period {
            Some(Nanos(median_ns)) => {
                Some(PeriodEstimate { median_ns, ..found.unwrap_or_default() })
            }
            None => found,
        }
    }

    fn found_period(&self) -> Option<PeriodEstimate> {
        let ends = self.begins.iter().skip(1).copied().chain([self.jobs.len()]);
        let mut captures: Vec<&[Job]> =
            self.begins.iter().zip(ends).map(|(&from, to)| &self.jobs[from..to]).collect();
        captures.sort_by_key(|jobs| Reverse(jobs.len()));
        captures
            .into_iter()
            .find_map(|jobs| regular(&jobs.iter().map(|job| job.intended.0).collect::<Vec<_>>()))
    }

    /// Periods in which no activation began.
    fn skipped(&self, period: PeriodEstimate) -> u64 {
        let pairs = self.jobs.windows(2).enumerate();
        let within = pairs.filter(|(i, _)| self.begins.binary_search(&(i + 1)).is_err());
        let between = |w: &[Job]| skipped(w[0].intended.0, w[1].intended.0, period.median_ns);
        within.map(|(_, w)| between(w)).sum()
    }

    /// In numbers.
    pub fn summarize(&self, late: Late) -> TaskActivations {
        let late_cut = self.cut.iter().filter(|job| late.is(job)).count() as u64;
        let (deadline, start_limit) = match late {
            Late::Never => (Nanos(0), Nanos(0)),
            Late::Response(limit) => (limit, Nanos(0)),
            Late::Start(limit) => (Nanos(0), limit),
        };
        let period = self.period();
        let mut prios: Vec<i32> = self.judged(late).map(|j| j.prio).collect();
        prios.sort_unstable();
        let mut all = TaskActivations {
            task: self.task.clone(),
            tid: self.tid.0,
            prio: prios.get(prios.len() / 2).copied().filter(|p| *p != i32::MAX),
            release: self.release.clone(),
            period,
            beyond: self.beyond.as_ref().map_or(0, Beyond::count),
            cut: self.cut.len() as u64 + self.maybe_cut,
            late_cut,
            deadline_ns: deadline.0,
            start_limit_ns: start_limit.0,
            counts: self.counts(late, period),
        };
        if let Some(beyond) = &self.beyond {
            beyond.add_to(&mut all.counts, late);
        }
        all
    }

    /// Of those that are kept, and of those without an end that they are late.
    fn counts(&self, late: Late, period: Option<PeriodEstimate>) -> ActivationCounts {
        let usual = usual(&self.jobs, late);
        let mut all = count(self.jobs.iter(), late, usual);
        all.skipped = period.map_or(0, |p| self.skipped(p));
        let cut = count(self.cut.iter().filter(|job| late.is(job)), late, usual);
        let ActivationCounts { activations, late, late_by, response, .. } = cut;
        let none = ActivationCounts::default();
        merge(&mut all, &ActivationCounts { activations, late, late_by, response, ..none });
        all
    }

    /// The deadline where none was given: the period, where activations took longer than that; else one that the
    /// slowest exceed, to compare them with the others. Nothing is late where no activation was slow.
    pub fn propose(&self) -> (Late, Note) {
        // The same by which those that were not kept are counted.
        self.beyond.as_ref().map_or_else(|| self.proposed(), |beyond| beyond.limit.clone())
    }

    fn proposed(&self) -> (Late, Note) {
        let longer = |ns: u64| {
            let late = Late::Response(Nanos(ns));
            self.judged(late).filter(|job| late.is(job)).count()
        };
        if let Some(period) = self.period()
            && longer(period.median_ns) > 0
        {
            let ns = period.median_ns;
            let note = Note::new("why.deadline-period").value("period", Quantity::Ns(ns as f64));
            return (Late::Response(Nanos(ns)), note);
        }
        let mut responses: Vec<u64> = self.jobs.iter().map(|j| j.response().0).collect();
        responses.sort_unstable();
        let n = responses.len();
        let Some(&middle) = responses.get(n / 2) else {
            return (Late::Never, Note::new("why.deadline-none"));
        };
        let slowest = ((n as f64 * SLOWEST) as usize).clamp(1, 200).min(n);
        let ns = responses[n - slowest].saturating_sub(1).max((middle as f64 * SLOWER) as u64);
        match longer(ns) {
            0 => (Late::Never, Note::new("why.deadline-none")),
            late => {
                let limit = Late::Response(Nanos(ns));
                let of = self.judged(limit).count();
                let note = Note::new("why.deadline-slowest")
                    .value("late", Quantity::Count(late as u64))
                    .value("of", Quantity::Count(of as u64));
                (limit, note)
            }
        }
    }
}

/// What begins the activations of the threads, where that is a timer or a task.
pub fn known(threads: &[Gathered]) -> Known {
    let named = threads.iter().filter(|t| t.release != Release::Wakeup);
    named.map(|t| (t.tid, t.release.clone())).collect()
}

/// Threads by the order in which they are explained: deadline and real-time ones before fair ones, those with a
/// quarter of the most late activations before others, those that a timer begins before those that a task does,
/// those at irregular times after them, a task before those that it begins, then by the number of late
/// activations and of all. A thread with fewer than three comes last.
pub fn rank(threads: &mut [Gathered], late: Late) {
    let late_of = |t: &Gathered| {
        let beyond = t.beyond.as_ref().map_or(0, |beyond| beyond.late(late) as usize);
        beyond + t.judged(late).filter(|job| late.is(job)).count()
    };
    let is_fair = |t: &Gathered| t.jobs.iter().chain(&t.cut).all(|j| j.prio >= FAIR);
    let most =
        |fair: bool| threads.iter().filter(|t| is_fair(t) == fair).map(late_of).max().unwrap_or(0);
    let most = [most(false), most(true)];
    let is_seldom = |t: &Gathered| 4 * late_of(t) < most[usize::from(is_fair(t))];
    let often = threads.iter().filter(|t| late_of(t) > 0 && !is_seldom(t));
    let often: Vec<String> = often.map(|t| t.task.clone()).collect();
    let begun = |t: &Gathered| match &t.release {
        Release::Timer { .. } => 0,
        Release::Task { waker } if often.contains(waker) && *waker != t.task => 3,
        Release::Task { .. } => 1,
        Release::Wakeup => 2,
        Release::Span { .. } => 0,
    };
    threads.sort_by_cached_key(|t| {
        let (few, fair, late) = (t.jobs.len() + t.cut.len() < 3, is_fair(t), late_of(t));
        (few, fair, is_seldom(t), begun(t), Reverse(late), Reverse(t.jobs.len()), t.tid)
    });
}
