//! Activations of which there are too many to be kept: they are counted. And the part that made a late one late.

use super::{Job, Late};
use latlab_model::finding::Note;
use latlab_model::latency::{ActivationCounts, LateBy};
use latlab_model::units::Nanos;
use latlab_stats::histogram::Histogram;
use latlab_stats::quantile::median;

/// The medians of the parts of activations that are not late.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usual([f64; 4]);

impl Usual {
    /// Of those of these activations.
    pub(super) fn of(jobs: &[Job], late: Late) -> Self {
        let others: Vec<[f64; 4]> = jobs.iter().filter(|job| !late.is(job)).map(parts).collect();
        Self(std::array::from_fn(|k| {
            median(&others.iter().map(|o| o[k]).collect::<Vec<_>>()).unwrap_or(0.0)
        }))
    }

    /// Counts a late activation by the part that is longest against its median.
    pub(super) fn count(&self, job: &Job, late: Late, by: &mut LateBy) {
        let excess = parts(job).into_iter().zip(self.0).map(|(ns, usual)| ns - usual);
        let longest = excess.enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
        match longest.map(|l| l.0).filter(|_| !matches!(late, Late::Start(_))) {
            Some(1) => by.ran_long += 1,
            Some(2) => by.preempted += 1,
            Some(3) => by.waited += 1,
            _ => by.started_late += 1,
        }
    }
}

fn parts(job: &Job) -> [f64; 4] {
    [job.start_latency(), job.running, job.preempted, job.waiting].map(|ns| ns.0 as f64)
}

/// Activations that were counted and not kept.
#[derive(Clone, Debug)]
pub(super) struct Beyond {
    /// What is late of them, and why that.
    pub(super) limit: (Late, Note),
    usual: Usual,
    counts: ActivationCounts,
}

impl Beyond {
    /// Behind those that were kept.
    pub(super) fn new(kept: &[Job], limit: (Late, Note)) -> Self {
        let usual = Usual::of(kept, limit.0);
        Self { limit, usual, counts: ActivationCounts::default() }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.counts.activations
    }

    /// How many of them are late; with another limit than theirs none is.
    pub(super) fn late(&self, late: Late) -> u64 {
        if late == self.limit.0 { self.counts.late } else { 0 }
    }

    /// Counts further ones.
    pub(super) fn add(&mut self, jobs: &[Job]) {
        let late = self.limit.0;
        let counts = &mut self.counts;
        counts.activations += jobs.len() as u64;
        counts.unsure += jobs.iter().filter(|job| job.unsure).count() as u64;
        counts.overruns += jobs.iter().filter(|job| job.after.is_some()).count() as u64;
        for job in jobs.iter().filter(|job| late.is(job)) {
            counts.late += 1;
            self.usual.count(job, late, &mut counts.late_by);
        }
        let all = distributions(jobs.iter());
        distributions_of(counts).into_iter().zip(&all).for_each(|(into, own)| into.merge(own));
    }

    /// Adds them to the counts of those that were kept. With another limit than theirs none is late.
    pub(super) fn add_to(&self, into: &mut ActivationCounts, late: Late) {
        let mut own = self.counts.clone();
        if late != self.limit.0 {
            (own.late, own.late_by) = (0, LateBy::default());
        }
        into.activations += own.activations;
        into.unsure += own.unsure;
        into.overruns += own.overruns;
        into.late += own.late;
        into.late_by.started_late += own.late_by.started_late;
        into.late_by.ran_long += own.late_by.ran_long;
        into.late_by.preempted += own.late_by.preempted;
        into.late_by.waited += own.late_by.waited;
        let pairs = distributions_of(into).into_iter().zip(distributions_of(&mut own));
        pairs.for_each(|(into, own)| into.merge(own));
    }
}

/// Response time, start, and the parts: those of activations without a switch that the kernel did not record.
fn distributions<'a>(jobs: impl Iterator<Item = &'a Job> + Clone) -> [Histogram; 5] {
    let of = |part: &dyn Fn(&Job) -> Nanos| {
        Histogram::of(jobs.clone().filter(|job| !job.unsure).map(|job| part(job).0))
    };
    [
        Histogram::of(jobs.clone().map(|job| job.response().0)),
        of(&Job::start_latency),
        of(&|job| job.running),
        of(&|job| job.preempted),
        of(&|job| job.waiting),
    ]
}

fn distributions_of(counts: &mut ActivationCounts) -> [&mut Histogram; 5] {
    let ActivationCounts { response, start, running, preempted, waiting, .. } = counts;
    [response, start, running, preempted, waiting]
}
