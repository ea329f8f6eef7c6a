//! Activations as counts that merge: of a second, an hour, of all time.

use crate::latency::activations::counts::{self as activations, LatePart};
use crate::latency::activations::{Job, Late};
use latlab_model::latency::ActivationCounts;
use latlab_model::units::TraceNs;
use latlab_model::watch::{CauseCount, Counters, Slice, TaskCounts};

/// Different causes that are counted; further ones are `other`.
const CAUSES: usize = 256;

/// The typical length of each part, ns: of the start, running, preempted and waiting.
pub type Usual = [u64; 4];

/// The medians of what was counted so far.
pub fn usual(counts: &ActivationCounts) -> Usual {
    [&counts.start, &counts.running, &counts.preempted, &counts.waiting]
        .map(|h| h.quantile(0.5).unwrap_or(0))
}

/// A time of which events are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// From then on.
    pub from: TraceNs,
    /// Until then.
    pub to: TraceNs,
}

/// What tells the periods without an activation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Periods<'g> {
    /// Distance of intended times, where they are regular.
    pub period_ns: Option<u64>,
    /// The intended time of the activation before.
    pub last: Option<u64>,
    /// Activations on both sides of one of these do not tell what was between them.
    pub gaps: &'g [Gap],
}

/// Counts activations of one thread that follow each other.
pub fn count(
    task: &str,
    jobs: &[Job],
    late: Late,
    usual: Usual,
    periods: Periods<'_>,
) -> TaskCounts {
    let usual = usual.map(|ns| ns as f64);
    let counts = activations::count(jobs.iter(), late, usual);
    let counts = ActivationCounts { skipped: skipped(jobs, periods), ..counts };
    TaskCounts { task: task.to_owned(), counts }
}

/// The part of a late activation that is longest against its usual length.
pub fn late_part(job: &Job, late: Late, usual: Usual) -> LatePart {
    activations::late_part(job, late, usual.map(|ns| ns as f64))
}

fn skipped(jobs: &[Job], Periods { period_ns, last, gaps }: Periods<'_>) -> u64 {
    let Some(period_ns) = period_ns else { return 0 };
    let times: Vec<u64> = last.into_iter().chain(jobs.iter().map(|j| j.intended.0)).collect();
    let is_known = |w: &&[u64]| !gaps.iter().any(|gap| gap.from.0 < w[1] && gap.to.0 > w[0]);
    let between = |w: &[u64]| activations::skipped(w[0], w[1], period_ns);
    times.windows(2).filter(is_known).map(between).sum()
}

/// Adds the counts of another time span, which is not before this one.
pub fn merge(into: &mut Slice, other: &Slice) {
    if !other.hour.is_empty() {
        into.hour.clone_from(&other.hour);
    }
    into.seq = into.seq.max(other.seq);
    for task in &other.tasks {
        match into.tasks.binary_search_by(|t| t.task.cmp(&task.task)) {
            Ok(at) => activations::merge(&mut into.tasks[at].counts, &task.counts),
            Err(at) => into.tasks.insert(at, task.clone()),
        }
    }
    for cause in &other.causes {
        add_cause(into, cause.clone());
    }
    merge_counters(&mut into.counters, &other.counters);
}

/// Counts captures with a cause.
pub fn add_cause(into: &mut Slice, cause: CauseCount) {
    fn key(c: &CauseCount) -> (&String, &String, &String) {
        (&c.task, &c.cause, &c.who)
    }
    match into.causes.binary_search_by(|c| key(c).cmp(&key(&cause))) {
        Ok(at) => {
            into.causes[at].captures = into.causes[at].captures.saturating_add(cause.captures)
        }
        Err(at) if into.causes.len() < CAUSES || cause.cause == "other" => {
            into.causes.insert(at, cause);
        }
        Err(_) => {
            let (cause_name, who) = ("other".to_owned(), String::new());
            add_cause(into, CauseCount { cause: cause_name, who, ..cause });
        }
    }
}

fn merge_counters(into: &mut Counters, other: &Counters) {
    let sums = [
        (&mut into.wall_ns, other.wall_ns),
        (&mut into.own_cpu_ns, other.own_cpu_ns),
        (&mut into.events, other.events),
        (&mut into.kernel_ns, other.kernel_ns),
        (&mut into.lost_events, other.lost_events),
        (&mut into.dead_ns, other.dead_ns),
        (&mut into.captures, other.captures),
        (&mut into.not_captured, other.not_captured),
        (&mut into.uncovered, other.uncovered),
        (&mut into.removed, other.removed),
        (&mut into.write_errors, other.write_errors),
        (&mut into.suspensions, other.suspensions),
        (&mut into.suspended_ns, other.suspended_ns),
        (&mut into.clock_steps, other.clock_steps),
        (&mut into.disturbed, other.disturbed),
        (&mut into.starts, other.starts),
    ];
    for (to, from) in sums {
        *to = to.saturating_add(from);
    }
}

/// The slices of a journal of seconds, in order: what finished hours have already is left out, the rest is
/// merged by hour. The last hour may go on.
pub fn replay(seconds: impl IntoIterator<Item = Slice>, finished_seq: u64) -> Vec<Slice> {
    let mut hours: Vec<Slice> = Vec::new();
    for slice in seconds {
        if slice.seq <= finished_seq {
            continue;
        }
        match hours.last_mut().filter(|h| h.hour == slice.hour) {
            Some(hour) => merge(hour, &slice),
            None => hours.push(slice),
        }
    }
    hours
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::latency::LateBy;
    use latlab_model::units::{CpuId, Nanos};

    const US: u64 = 1_000;

    fn job(period: u64, start: u64, parts: [u64; 3]) -> Job {
        let intended = TraceNs(period * 1_000 * US);
        let end = TraceNs(intended.0 + (start + parts.iter().sum::<u64>()) * US);
        let [running, preempted, waiting] = parts.map(|us| Nanos(us * US));
        Job {
            intended,
            woken: intended,
            start: TraceNs(intended.0 + start * US),
            end,
            cpu: CpuId(0),
            prio: 49,
            running,
            preempted,
            waiting,
            unsure: false,
            after: None,
            by_event: false,
        }
    }

    #[test]
    fn late_activations_are_counted_by_the_part_that_grew() {
        let jobs = [
            job(1, 10, [100, 0, 50]),
            job(2, 400, [100, 0, 50]),
            job(3, 10, [500, 0, 50]),
            job(6, 10, [100, 390, 50]),
            job(7, 10, [100, 0, 900]),
        ];
        let late = Late::Response(Nanos(300 * US));
        let usual = [10 * US, 100 * US, 0, 50 * US];
        let mut periods =
            Periods { period_ns: Some(1_000 * US), last: Some(0), ..Periods::default() };
        let counts = count("loop", &jobs, late, usual, periods).counts;
        assert_eq!((counts.activations, counts.late, counts.skipped), (5, 4, 2));
        // Nothing was recorded in a part of the time between the third and the fourth.
        let gaps = [Gap { from: TraceNs(4_100 * US), to: TraceNs(4_200 * US) }];
        periods.gaps = &gaps;
        assert_eq!(count("loop", &jobs, late, usual, periods).counts.skipped, 0);
        let each = LateBy { started_late: 1, ran_long: 1, preempted: 1, waited: 1 };
        assert_eq!(counts.late_by, each);
        assert_eq!(counts.response.count, 5);
        let by_start =
            count("loop", &jobs, Late::Start(Nanos(300 * US)), usual, Periods::default()).counts;
        assert_eq!((by_start.late, by_start.late_by.started_late), (1, 1));
    }

    #[test]
    fn slices_merge_to_the_counts_of_all() {
        let jobs: Vec<Job> = (0..100).map(|i| job(i, i % 7, [100 + i, 0, 0])).collect();
        let late = Late::Response(Nanos(180 * US));
        let one = |jobs: &[Job], seq: u64| Slice {
            hour: "2026-11-24T23".into(),
            seq,
            tasks: vec![count("loop", jobs, late, [0; 4], Periods::default())],
            counters: Counters { events: jobs.len() as u64, ..Counters::default() },
            ..Slice::default()
        };
        let whole = one(&jobs, 4);
        let mut merged = Slice::default();
        for (i, part) in jobs.chunks(25).enumerate() {
            merge(&mut merged, &one(part, i as u64 + 1));
        }
        assert_eq!(merged, whole);
        let text = serde_json::to_string(&merged).unwrap();
        assert_eq!(serde_json::from_str::<Slice>(&text).unwrap(), whole);
    }

    #[test]
    fn a_replay_counts_nothing_twice() {
        let second = |seq: u64, hour: &str| Slice {
            hour: hour.into(),
            seq,
            counters: Counters { captures: 1, ..Counters::default() },
            ..Slice::default()
        };
        let journal = || (1..=10).map(|i| second(i, if i <= 6 { "T22" } else { "T23" }));
        let hours = replay(journal(), 0);
        assert_eq!(hours.iter().map(|h| h.counters.captures).collect::<Vec<_>>(), [6, 4]);
        // Killed between the line of the finished hour and the new journal.
        let hours = replay(journal(), 6);
        assert_eq!((hours.len(), hours[0].counters.captures, hours[0].seq), (1, 4, 10));
        assert_eq!(replay(journal(), 10), []);
    }

    #[test]
    fn causes_are_bounded() {
        let mut slice = Slice::default();
        for i in 0..1_000 {
            let (task, cause, who) = ("loop".into(), "wait".into(), format!("helper{i}"));
            add_cause(&mut slice, CauseCount { task, cause, who, captures: 1 });
        }
        assert_eq!(slice.causes.len(), CAUSES + 1);
        assert_eq!(slice.causes.iter().map(|c| c.captures).sum::<u64>(), 1_000);
    }
}
