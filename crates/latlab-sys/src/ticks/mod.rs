//! Counters of interrupts and ticks, and how often a busy CPU's tick comes.

mod proc;

use crate::clock;
use crate::files::Root;
use crate::policy;
use latlab_model::finding::Note;
use latlab_model::timer::Counters;
use latlab_model::timer::{BusySample, Live};
use latlab_model::units::CpuId;
use rustix::thread::ClockId;
use std::time::Duration;

/// `USER_HZ`: in what `/proc/stat` counts, whatever the kernel's tick is.
const USER_HZ: f64 = 100.0;
/// Steps of the coarse clock that are enough.
const STEPS: usize = 200;

/// Reads all counters; what cannot be read is empty.
pub fn counters(root: &Root) -> Counters {
    let text = |path: &str| root.text(path).unwrap_or_default();
    Counters {
        time_ns: clock::now().0,
        // The head of the table is indented: the first line must keep its columns only.
        interrupts: proc::table(&text("/proc/interrupts")),
        softirqs: proc::table(&text("/proc/softirqs")),
        idle_s: idle(&text("/proc/stat")),
        ticks: proc::timer_list(&text("/proc/timer_list")),
    }
}

/// Idle and IO-wait time of each CPU, seconds.
fn idle(stat: &str) -> Vec<(u32, f64)> {
    let line = |line: &str| {
        let (cpu, rest) = line.strip_prefix("cpu")?.split_once(' ')?;
        let times: Vec<f64> = rest.split_whitespace().filter_map(|w| w.parse().ok()).collect();
        Some((cpu.parse().ok()?, (times.get(3)? + times.get(4).unwrap_or(&0.0)) / USER_HZ))
    };
    stat.lines().filter_map(line).collect()
}

/// What the kernel says of its tick, before anything is measured.
pub fn stated(root: &Root, config_hz: Option<u32>) -> Live {
    let cmdline = root.text("/proc/cmdline").unwrap_or_default();
    let nohz = |w: &&str| w.starts_with("nohz");
    let step = rustix::time::clock_getres(ClockId::MonotonicCoarse);
    let step_ns = step.tv_sec as u64 * 1_000_000_000 + step.tv_nsec as u64;
    let mut notes = Vec::new();
    if root.text("/proc/interrupts").is_none_or(|t| t.is_empty()) {
        notes.push(Note::new("timer.interrupts-unreadable"));
    }
    if root.text("/proc/timer_list").is_none_or(|t| t.is_empty()) {
        notes.push(Note::new("timer.timer-list-unreadable"));
    }
    Live {
        stated_tick_ns: (step_ns > 1).then_some(step_ns),
        config_hz,
        cmdline: cmdline.split_whitespace().filter(nohz).map(str::to_owned).collect(),
        notes,
        ..Live::default()
    }
}

/// Keeps a CPU busy for a while and looks how long its ticks are: the coarse clock steps with
/// each. `None` when the thread cannot be bound to that CPU.
///
/// A CPU that computes keeps its tick (but for `nohz_full=`), so that this works whatever the
/// kernel does on idle CPUs, without permission, and on every architecture.
pub fn busy(cpu: u32, length: Duration) -> Option<BusySample> {
    std::thread::scope(|scope| scope.spawn(|| measure(cpu, length)).join().ok().flatten())
}

fn measure(cpu: u32, length: Duration) -> Option<BusySample> {
    policy::bind(&[CpuId(cpu)]).ok()?;
    let root = Root::here();
    let before = root.text("/proc/interrupts").map(|t| proc::table(&t));
    let begin = clock::now();
    let end = begin.0 + u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    let mut steps = Vec::with_capacity(STEPS);
    let mut last = coarse();
    while clock::now().0 < end && steps.len() < STEPS {
        let now = coarse();
        if now != last {
            steps.push(now - last);
            last = now;
        }
    }
    let seconds = clock::now().since(begin).as_secs_f64();
    let after = root.text("/proc/interrupts").map(|t| proc::table(&t));
    steps.sort_unstable();
    // The clock steps by whole ticks: several at once when the CPU was taken away meanwhile, never
    // less than one. A low quantile, not the least: the clock is also steered.
    let step_ns = steps.get(steps.len() / 20).copied().unwrap_or(0);
    Some(BusySample { cpu, steps: steps.len() as u64, step_ns, seconds, before, after })
}

/// CLOCK_MONOTONIC_COARSE, ns.
fn coarse() -> u64 {
    let t = rustix::time::clock_gettime(ClockId::MonotonicCoarse);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tick_of_a_busy_cpu_is_that_of_the_coarse_clock() {
        let cpu = policy::allowed().unwrap()[0].0;
        let busy = busy(cpu, Duration::from_millis(400)).unwrap();
        let stated = stated(&Root::here(), None).stated_tick_ns.unwrap();
        assert!(busy.steps > 0);
        // A busy machine may take the CPU away for some ticks; a step is never shorter than one.
        assert!(busy.step_ns * 101 >= stated * 100, "{busy:?}, stated {stated}");
    }

    #[test]
    fn idle_time_is_by_cpu() {
        let stat = "cpu  1 2 3 400 500 6\ncpu0 1 2 3 100 50 6\ncpu1 0 0 0 300\nintr 5\n";
        assert_eq!(idle(stat), [(0, 1.5), (1, 3.0)]);
    }
}
