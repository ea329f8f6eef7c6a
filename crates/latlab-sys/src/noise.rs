//! The busy loop of `latlab noise`: one thread a CPU, all at the same time, for one window.
//!
//! The loop reads CLOCK_MONOTONIC without pause and counts the distance between two readings; what is
//! longer than the threshold is an interruption and is listed, so that a trace of the same window tells what ran.
//! It is the loop of rt-tests' `oslat` and of the kernel's osnoise tracer, which keeps interrupts
//! enabled as well (Documentation/trace/osnoise-tracer.rst).
//!
//! A window ends by the clock, by a signal or by a limit; the caller pauses between windows, so that a
//! loop of real-time priority leaves a part of each period to everything else. The loop allocates nothing,
//! and its memory is written before it starts.

use crate::policy::{self, Budget};
use crate::signal;
use latlab_model::noise::{CpuWindow, Interruption};
use latlab_model::units::{CpuId, Tid};
use latlab_model::wakeup::config::Policy;
use latlab_stats::histogram::Recorder;
use rustix::thread::ClockId;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How the loops run.
#[derive(Clone, Copy, Debug)]
pub struct LoopConfig {
    /// Shortest distance that counts as an interruption, ns.
    pub threshold_ns: u64,
    /// SCHED_FIFO priority; `None` is an ordinary task.
    pub priority: Option<u32>,
    /// A single interruption longer than this ends the window on all CPUs, ns.
    pub stop_ns: Option<u64>,
    /// Interruptions that are listed, at most; all are counted.
    pub listed_max: usize,
}

/// From the start of the threads to the start of the loops: all begin at the same time.
const LEAD: Duration = Duration::from_millis(5);

/// Loops on the CPUs for `length` each, or until a signal asks to stop or the limit is exceeded. A CPU that
/// the threads may not use is not in the result.
///
/// # Errors
/// When no thread can be started, or the priority is not permitted.
pub fn window(cpus: &[CpuId], config: LoopConfig, length: Duration) -> io::Result<Vec<CpuWindow>> {
    let start = now_ns() + LEAD.as_nanos() as u64;
    let length_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for &cpu in cpus {
            let stop = &stop;
            let builder = thread::Builder::new().name("latlab-noise".into());
            threads.push(
                builder
                    .spawn_scoped(scope, move || one_cpu(cpu, config, (start, length_ns), stop))?,
            );
        }
        let joined = threads.into_iter().filter_map(|t| t.join().ok());
        joined.filter_map(Result::transpose).collect()
    })
}

/// `Ok(None)`: the CPU cannot be used (offline, not permitted).
fn one_cpu(
    cpu: CpuId,
    config: LoopConfig,
    (start, length_ns): (u64, u64),
    stop: &AtomicBool,
) -> io::Result<Option<CpuWindow>> {
    if policy::bind(&[cpu]).is_err() {
        return Ok(None);
    }
    let mut recorder = Recorder::new();
    let mut listed = vec![Interruption::default(); config.listed_max];
    listed.fill(Interruption { start_ns: 1, length_ns: 1 });
    if let Some(priority) = config.priority {
        policy::set(Policy::Fifo, priority, Budget::default())?;
    }
    let limit = config.stop_ns.unwrap_or(u64::MAX);
    while now_ns() < start {
        thread::sleep(Duration::from_nanos(start.saturating_sub(now_ns())));
    }
    let (mut count, mut lost) = (0u64, 0u64);
    let begin = now_ns();
    // A thread that started late loops as long as the others.
    let end = begin.saturating_add(length_ns);
    let mut last = begin;
    while last < end && signal::stop_requested().is_none() && !stop.load(Ordering::Relaxed) {
        let now = now_ns();
        let distance = now - last;
        recorder.record(distance);
        if distance >= config.threshold_ns {
            if let Some(place) = listed.get_mut(count as usize) {
                *place = Interruption { start_ns: last, length_ns: distance };
            }
            count += 1;
            lost += distance;
            if distance > limit {
                stop.store(true, Ordering::Relaxed);
            }
        }
        last = now;
    }
    let tid = Tid(rustix::thread::gettid().as_raw_nonzero().get());
    listed.truncate(usize::try_from(count).unwrap_or(usize::MAX));
    let distances = recorder.to_histogram();
    Ok(Some(CpuWindow {
        cpu,
        tid,
        threshold_ns: config.threshold_ns,
        start_ns: begin,
        end_ns: last,
        count,
        lost_ns: lost,
        distances,
        listed,
    }))
}

#[inline]
fn now_ns() -> u64 {
    let t = rustix::time::clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> LoopConfig {
        LoopConfig { threshold_ns: 2_000, priority: None, stop_ns: None, listed_max: 4 }
    }

    #[test]
    fn counts_cover_the_window_and_the_list_is_bounded() {
        let cpus = policy::allowed().unwrap();
        let seen = window(&cpus, config(), Duration::from_millis(50)).unwrap();
        assert_eq!(seen.len(), cpus.len());
        for w in seen {
            let length = w.end_ns - w.start_ns;
            // Every distance is counted, so that their sum is the window.
            let sum = w.distances.mean().unwrap() * w.distances.count as f64;
            assert!((sum - length as f64).abs() <= 1.0 + length as f64 * 1e-9, "{sum} {length}");
            assert_eq!(w.listed.len() as u64, w.count.min(4));
            assert!(w.listed.iter().all(|i| i.length_ns >= 2_000 && i.start_ns >= w.start_ns));
        }
    }

    #[test]
    fn a_limit_ends_the_window() {
        let cpus = policy::allowed().unwrap();
        // The first interruption of any length ends it: here at the latest a tick.
        let config = LoopConfig { stop_ns: Some(1), threshold_ns: 1, ..config() };
        let begun = now_ns();
        let seen = window(&cpus[..1], config, Duration::from_secs(20)).unwrap();
        assert!(seen[0].count > 0 && seen[0].end_ns - begun < 19_000_000_000);
    }
}
