//! The busy loop of `latlab_analysis::osnoise`: one thread a CPU, all at the same time.
//!
//! Ordinary scheduling on purpose: the question is what a program gets that asks
//! for nothing special. The loop reads the clock, compares, and counts into memory
//! that was allocated before.

use crate::signal;
use latlab_model::osnoise::CpuGaps;
use latlab_stats::histogram::Recorder;
use rustix::thread::{ClockId, CpuSet, sched_getaffinity, sched_setaffinity};
use std::thread;
use std::time::Duration;

/// A distance between two reads of the clock that no loop of a few instructions explains, ns.
pub const THRESHOLD_NS: u64 = 2_000;

/// Loops on every CPU that this process may use, for `length` or until a signal asks to stop.
pub fn measure(length: Duration) -> Vec<CpuGaps> {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    let start = |cpu| thread::Builder::new().spawn(move || one_cpu(cpu, length));
    // A thread that cannot be started or pinned is a CPU that is not reported.
    let threads: Vec<_> = cpus.into_iter().filter_map(|cpu| start(cpu).ok()).collect();
    threads.into_iter().filter_map(|t| t.join().ok().flatten()).collect()
}

fn one_cpu(cpu: usize, length: Duration) -> Option<CpuGaps> {
    let mut only = CpuSet::new();
    only.set(cpu);
    sched_setaffinity(None, &only).ok()?;
    let mut recorder = Recorder::new();
    let begin = now_ns();
    let end = begin.saturating_add(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX));
    let mut last = begin;
    while last < end && signal::stop_requested().is_none() {
        let now = now_ns();
        let gap = now - last;
        if gap >= THRESHOLD_NS {
            recorder.record(gap);
        }
        last = now;
    }
    Some(CpuGaps {
        cpu,
        length_ns: last - begin,
        threshold_ns: THRESHOLD_NS,
        gaps: recorder.to_histogram(),
    })
}

#[inline]
fn now_ns() -> u64 {
    let t = rustix::time::clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_allowed_cpu_is_looped_on() {
        let seen = measure(Duration::from_millis(20));
        let allowed = sched_getaffinity(None).unwrap();
        assert_eq!(seen.len(), allowed.count() as usize);
        for c in seen {
            assert!(allowed.is_set(c.cpu) && c.length_ns >= 20_000_000);
            assert!(c.gaps.min >= THRESHOLD_NS || c.gaps.count == 0);
        }
    }
}
