//! Activations in numbers that add up, and the part that made a late one late.

use super::{Job, Late};
use latlab_model::latency::{ActivationCounts, LateBy};
use latlab_stats::histogram::Histogram;
use latlab_stats::quantile::median;

/// The usual length of each part, ns: of the start, running, preempted and waiting.
pub type Usual = [f64; 4];

/// A part of an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LatePart {
    /// Up to the first switch to the task.
    Start,
    /// With a CPU.
    Running,
    /// Runnable without a CPU after the start.
    Preempted,
    /// Waiting after the start.
    Waiting,
}

fn parts(job: &Job) -> [f64; 4] {
    [job.start_latency(), job.running, job.preempted, job.waiting].map(|ns| ns.0 as f64)
}

/// The medians of the parts of those activations that are not late.
pub fn usual(jobs: &[Job], late: Late) -> Usual {
    let others: Vec<[f64; 4]> = jobs.iter().filter(|job| !late.is(job)).map(parts).collect();
    std::array::from_fn(|k| median(&others.iter().map(|o| o[k]).collect::<Vec<_>>()).unwrap_or(0.0))
}

/// The part of a late activation that is longest against its usual length.
pub fn late_part(job: &Job, late: Late, usual: Usual) -> LatePart {
    if let Late::Start(_) = late {
        return LatePart::Start;
    }
    let excess = parts(job).into_iter().zip(usual).map(|(ns, usual)| ns - usual);
    match excess.enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).map(|longest| longest.0) {
        Some(1) => LatePart::Running,
        Some(2) => LatePart::Preempted,
        Some(3) => LatePart::Waiting,
        _ => LatePart::Start,
    }
}

/// Counts activations; skipped periods are left at 0. Times of those with a switch that was not recorded are not known, but
/// for the response time.
pub fn count<'a>(
    jobs: impl Iterator<Item = &'a Job> + Clone,
    late: Late,
    usual: Usual,
) -> ActivationCounts {
    let number = |is: &dyn Fn(&Job) -> bool| jobs.clone().filter(|job| is(job)).count() as u64;
    let sure = || jobs.clone().filter(|job| !job.unsure);
    let mut late_by = LateBy::default();
    for job in jobs.clone().filter(|job| late.is(job)) {
        match late_part(job, late, usual) {
            LatePart::Start => late_by.started_late += 1,
            LatePart::Running => late_by.ran_long += 1,
            LatePart::Preempted => late_by.preempted += 1,
            LatePart::Waiting => late_by.waited += 1,
        }
    }
    ActivationCounts {
        activations: number(&|_| true),
        unsure: number(&|job| job.unsure),
        overruns: number(&|job| job.after.is_some()),
        skipped: 0,
        late: number(&|job| late.is(job)),
        late_by,
        start: Histogram::of(sure().map(|job| job.start_latency().0)),
        response: Histogram::of(jobs.clone().map(|job| job.response().0)),
        running: Histogram::of(sure().map(|job| job.running.0)),
        preempted: Histogram::of(sure().map(|job| job.preempted.0)),
        waiting: Histogram::of(sure().map(|job| job.waiting.0)),
    }
}

/// Periods without an activation between two intended times.
pub fn skipped(from: u64, to: u64, period_ns: u64) -> u64 {
    let periods = to.saturating_sub(from) as f64 / period_ns.max(1) as f64;
    (periods.round() as u64).saturating_sub(1)
}

/// Adds the counts of other activations.
pub fn merge(into: &mut ActivationCounts, other: &ActivationCounts) {
    let sums = [
        (&mut into.activations, other.activations),
        (&mut into.unsure, other.unsure),
        (&mut into.overruns, other.overruns),
        (&mut into.skipped, other.skipped),
        (&mut into.late, other.late),
        (&mut into.late_by.started_late, other.late_by.started_late),
        (&mut into.late_by.ran_long, other.late_by.ran_long),
        (&mut into.late_by.preempted, other.late_by.preempted),
        (&mut into.late_by.waited, other.late_by.waited),
    ];
    for (to, from) in sums {
        *to = to.saturating_add(from);
    }
    into.start.merge(&other.start);
    into.response.merge(&other.response);
    into.running.merge(&other.running);
    into.preempted.merge(&other.preempted);
    into.waiting.merge(&other.waiting);
}
