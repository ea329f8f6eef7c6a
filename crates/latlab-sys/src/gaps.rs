//! The busy loop of `latlab_analysis::osnoise`: [`crate::noise`] on every CPU for one window.
//!
//! Ordinary scheduling on purpose: the question is what a program gets that asks
//! for nothing special.

use crate::noise::{LoopConfig, window};
use crate::policy;
use latlab_model::noise::CpuWindow;
use latlab_model::osnoise::CpuGaps;
use latlab_stats::histogram::Histogram;
use std::time::Duration;

/// A distance between two reads of the clock that no loop of a few instructions explains, ns.
pub const THRESHOLD_NS: u64 = 2_000;
/// Loops on every CPU that this process may use, for `length` or until a signal asks to stop.
pub fn measure(length: Duration) -> Vec<CpuGaps> {
    let config =
        LoopConfig { threshold_ns: THRESHOLD_NS, priority: None, stop_ns: None, listed_max: 0 };
    // Where no thread can be started there is no CPU to report.
    let cpus = policy::allowed().unwrap_or_default();
    let seen = window(&cpus, config, length).unwrap_or_default();
    seen.into_iter().map(gaps).collect()
}

fn gaps(w: CpuWindow) -> CpuGaps {
    CpuGaps {
        cpu: w.cpu.0 as usize,
        length_ns: w.end_ns - w.start_ns,
        threshold_ns: w.threshold_ns,
        gaps: interruptions(&w),
    }
}

/// The distances from the threshold on. Its bucket has no other value: buckets below 2048 are exact.
fn interruptions(w: &CpuWindow) -> Histogram {
    let counted = w.distances.buckets.iter().filter(|b| b.0 >= w.threshold_ns);
    let buckets: Vec<(u64, u64)> = counted.copied().collect();
    let (min, max) = buckets.first().map_or((0, 0), |shortest| (shortest.0, w.distances.max));
    Histogram { count: w.count, min, max, sum: w.lost_ns as f64, buckets }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::sched_getaffinity;

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
