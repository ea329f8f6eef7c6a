//! From readings at switches to counters of activations, of which a bounded number is kept.

use crate::latency::activations::Job;
use latlab_model::latency::{ActivationWork, CountedWork, WorkReading};
use latlab_model::units::Tid;
use std::collections::BTreeMap;

/// A switch and the reading at it are one path of the kernel; the clock's two readings may differ by an adjustment.
const APART_NS: u64 = 1_000;
/// The time with a CPU by the counters and by the trace differ by this share and [`SLACK_NS`] at most: both begin
/// and end in the same switches.
const SHARE: f64 = 0.1;
const SLACK_NS: f64 = 20_000.0;
/// Of its time with a CPU an activation was counted for this share at least.
const COUNTED: f64 = 0.99;
/// Activations that are kept of a thread: the slowest, and others at equal distances.
const SLOWEST: usize = 200;
const OTHERS: usize = 400;

/// The counters of each activation: of the reading at its end less the last one before its start. `None` where a
/// reading is missing, so that the time with a CPU is not that of the trace, or where the counters did not count all
/// the time. `readings` are in order of time.
pub fn assign(jobs: &[Job], readings: &[WorkReading]) -> Vec<Option<ActivationWork>> {
    let one = |job: &Job| {
        let end = readings.partition_point(|r| r.at_ns + APART_NS < job.end.0);
        let start = readings.partition_point(|r| r.at_ns < job.start.0);
        let (end, start) = (readings.get(end)?, readings.get(start.checked_sub(1)?)?);
        let counts = end.counts.since(&start.counts)?;
        let apart = counts.time_ns.abs_diff(job.running.0) as f64;
        let is_whole = apart <= SHARE * job.running.0 as f64 + SLACK_NS;
        let is_counted = counts.counted_ns as f64 >= COUNTED * counts.time_ns as f64;
        (is_whole && is_counted && !job.unsure).then_some(ActivationWork {
            intended_ns: job.intended.0,
            start_ns: job.start_latency().0,
            response_ns: job.response().0,
            counts,
        })
    };
    jobs.iter().map(one).collect()
}

/// Activations of threads with their counters.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    threads: BTreeMap<Tid, Thread>,
}

#[derive(Clone, Debug)]
struct Thread {
    slowest: Vec<ActivationWork>,
    others: Vec<ActivationWork>,
    /// Each so manieth of the others is kept.
    every: u64,
    counted: u64,
    not_counted: u64,
}

impl Default for Thread {
    fn default() -> Self {
        Self { slowest: Vec::new(), others: Vec::new(), every: 1, counted: 0, not_counted: 0 }
    }
}

impl Counted {
    /// Adds activations of a thread.
    pub fn add(&mut self, tid: Tid, all: Vec<Option<ActivationWork>>) {
        let thread = self.threads.entry(tid).or_default();
        for one in all {
            match one {
                Some(one) => thread.add(one),
                None => thread.not_counted += 1,
            }
        }
    }

    /// What was counted of a thread; `error`: why none could be.
    pub fn of(&self, tid: Tid, error: Option<String>) -> CountedWork {
        let thread = self.threads.get(&tid).cloned().unwrap_or_default();
        let Thread { slowest, others, counted, not_counted, .. } = thread;
        let mut activations = [slowest, others].concat();
        activations.sort_by_key(|a| a.intended_ns);
        CountedWork { tid: tid.0, activations, counted, not_counted, error }
    }
}

impl Thread {
    fn add(&mut self, one: ActivationWork) {
        self.counted += 1;
        let mut next = Some(one);
        if self.slowest.len() < SLOWEST {
            self.slowest.extend(next.take());
        } else if let Some(least) = self.slowest.iter_mut().min_by_key(|a| a.response_ns)
            && least.response_ns < one.response_ns
        {
            next = Some(std::mem::replace(least, one));
        }
        let Some(next) = next else { return };
        if !self.counted.is_multiple_of(self.every) {
            return;
        }
        self.others.push(next);
        if self.others.len() > OTHERS {
            self.every *= 2;
            let mut n = 0;
            self.others.retain(|_| {
                n += 1;
                n % 2 == 0
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::latency::WorkCounts;
    use latlab_model::units::{CpuId, Nanos, TraceNs};

    fn job(start: u64, end: u64, running: u64) -> Job {
        Job {
            intended: TraceNs(start - 10_000),
            woken: TraceNs(start - 5_000),
            start: TraceNs(start),
            end: TraceNs(end),
            cpu: CpuId(0),
            prio: 9,
            running: Nanos(running),
            preempted: Nanos(0),
            waiting: Nanos(0),
            unsure: false,
            after: None,
            by_event: false,
        }
    }

    fn reading(at_ns: u64, time_ns: u64, instructions: u64) -> WorkReading {
        let instructions = Some(instructions);
        WorkReading {
            at_ns,
            counts: WorkCounts {
                time_ns,
                counted_ns: time_ns,
                instructions,
                ..WorkCounts::default()
            },
        }
    }

    /// Two activations; the second waits once inside, so that a reading lies in its middle.
    #[test]
    fn an_activation_has_what_was_counted_from_its_start_to_its_end() {
        let jobs = [job(1_100_000, 1_400_000, 300_000), job(2_100_000, 2_900_000, 500_000)];
        let readings = [
            reading(400_200, 300_000, 1_000),
            reading(1_400_300, 600_000, 2_000),
            reading(2_300_100, 800_000, 2_700),
            reading(2_900_200, 1_100_000, 5_000),
        ];
        let found = assign(&jobs, &readings);
        let instructions = |k: usize| found[k].and_then(|a| a.counts.instructions);
        assert_eq!((instructions(0), instructions(1)), (Some(1_000), Some(3_000)));
        assert_eq!(found[1].map(|a| (a.intended_ns, a.response_ns)), Some((2_090_000, 810_000)));
    }

    #[test]
    fn a_missing_reading_or_counters_in_use_by_others_are_no_count() {
        let jobs = [job(1_100_000, 1_400_000, 300_000), job(2_100_000, 2_400_000, 300_000)];
        // The reading at the end of the first is lost: the second would have the work of both.
        let lost = [reading(400_000, 300_000, 1), reading(2_400_100, 900_000, 3)];
        assert_eq!(assign(&jobs, &lost), [None, None]);
        let mut shared = [reading(400_000, 300_000, 1), reading(1_400_100, 600_000, 2)];
        assert!(assign(&jobs[..1], &shared)[0].is_some());
        shared[1].counts.counted_ns = 450_000;
        assert_eq!(assign(&jobs[..1], &shared), [None]);
        assert_eq!(assign(&jobs, &[]), [None, None]);
    }

    #[test]
    fn the_slowest_are_kept_and_others_from_all_of_the_time() {
        let mut counted = Counted::default();
        let one = |n: u64| {
            let response_ns = if n.is_multiple_of(1_000) { 9_000 } else { 100 + n % 7 };
            Some(ActivationWork { intended_ns: n, response_ns, ..ActivationWork::default() })
        };
        for n in 0..100 {
            counted.add(Tid(7), (n * 1_000..(n + 1) * 1_000).map(one).chain([None]).collect());
        }
        let work = counted.of(Tid(7), None);
        assert_eq!((work.counted, work.not_counted), (100_000, 100));
        assert_eq!(work.activations.iter().filter(|a| a.response_ns == 9_000).count(), 100);
        assert!(work.activations.len() <= SLOWEST + OTHERS + 1, "{}", work.activations.len());
        let early = work.activations.iter().filter(|a| a.intended_ns < 50_000).count();
        assert!(early > work.activations.len() / 4, "{early} of {}", work.activations.len());
    }
}
