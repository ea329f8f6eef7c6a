//! What to measure: the resolved configuration of `latlab wakeup`.

use super::mechanism::{Mechanism, Mechanisms};
use crate::units::CpuId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// Where the latency is taken.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// In the handler of the timer interrupt (the kernel's `timerlat` tracer).
    Irq,
    /// In a kernel thread that the handler wakes (the kernel's `timerlat` tracer).
    Kernel,
    /// In user space, after the sleep returned.
    #[default]
    User,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "user",
            Self::Irq => "irq",
            Self::Kernel => "kernel",
        })
    }
}

/// Scheduling policy of the measuring threads, by the kernel's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// `SCHED_FIFO`.
    #[default]
    Fifo,
    /// `SCHED_RR`.
    Rr,
    /// `SCHED_OTHER`, the ordinary task; its timers carry 50 µs of slack.
    Other,
    /// `SCHED_BATCH`.
    Batch,
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_DEADLINE` with the interval as period and deadline.
    Deadline,
}

impl Policy {
    /// Whether the policy has a static priority from 1 to 99.
    pub fn has_priority(self) -> bool {
        matches!(self, Self::Fifo | Self::Rr)
    }
    /// Whether timers of such a task expire without slack (`hrtimer` slack is for fair policies only).
    pub fn is_real_time(self) -> bool {
        matches!(self, Self::Fifo | Self::Rr | Self::Deadline)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fifo => "fifo",
            Self::Rr => "rr",
            Self::Other => "other",
            Self::Batch => "batch",
            Self::Idle => "idle",
            Self::Deadline => "deadline",
        })
    }
}

/// What to measure. Every time in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WakeupConfig {
    /// Where the latency is taken.
    pub level: Level,
    /// Scheduling policy of the measuring threads.
    pub policy: Policy,
    /// Static priority, 1 to 99, of the first thread; 0 for policies without one.
    pub priority: u32,
    /// Each further thread has one priority less than the one before, down to 1.
    pub priority_spread: bool,
    /// One entry a thread: the CPU that it is bound to, or none.
    pub threads: Vec<Option<CpuId>>,
    /// Period of the first thread.
    pub interval_ns: u64,
    /// What each further thread's period is longer than that of the one before.
    pub distance_ns: u64,
    /// All threads wake at the same instant, each so much after the one before;
    /// `None` spreads them evenly over the first thread's period.
    pub aligned_ns: Option<u64>,
    /// Ends after this time.
    pub duration_ns: Option<u64>,
    /// Ends after so many wake-ups of each thread.
    pub loops: Option<u64>,
    /// Locks all memory of the process (`mlockall`).
    pub lock_memory: bool,
    /// Stops when a wake-up was later than this.
    pub break_ns: Option<u64>,
    /// Writes a trace marker and stops tracing when the break value was exceeded.
    pub trace_mark: bool,
    /// Counts every microsecond below this number in a bucket of its own, as cyclictest does.
    pub histogram_us: Option<u32>,
    /// Those buckets are nanoseconds, as with cyclictest's `-N`.
    pub histogram_in_ns: bool,
    /// Delivers every sample to the sink.
    pub samples: bool,
    /// Holds `/dev/cpu_dma_latency` at so many µs; `None` leaves it alone.
    pub dma_latency_us: Option<u32>,
    /// Measures without it where it is not permitted or not there, instead of ending with an error.
    #[serde(default)]
    pub dma_latency_optional: bool,
    /// Binds the thread that displays and writes to a CPU.
    pub main_cpu: Option<CpuId>,
    /// A lock that others hold at times: it is taken and given back after each wake-up, and the
    /// latency lasts until the task has it.
    pub shared_lock: Option<PathBuf>,
    /// CPU time that a thread computes after each wake-up, ns.
    #[serde(skip_serializing_if = "is_zero")]
    pub compute_ns: u64,
    /// The timer that wakes the threads.
    #[serde(skip_serializing_if = "Mechanism::is_default")]
    pub timer: Mechanism,
    /// Other mechanisms, measured in turns by one thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Mechanisms>,
    /// The real-time core beside Linux whose own program measures a task of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core: Option<Core>,
}

/// A real-time core beside Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Core {
    /// Cobalt of Xenomai 3, measured by `latency`.
    Cobalt,
    /// EVL (Xenomai 4), measured by `latmus`.
    Evl,
}

impl Core {
    /// As on the command line.
    pub fn id(self) -> &'static str {
        match self {
            Self::Cobalt => "cobalt",
            Self::Evl => "evl",
        }
    }

    /// Its program that measures latency.
    pub fn program(self) -> &'static str {
        match self {
            Self::Cobalt => "latency",
            Self::Evl => "latmus",
        }
    }
}

fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

impl Default for WakeupConfig {
    /// One thread on any CPU, SCHED_FIFO 80, every millisecond, until stopped.
    fn default() -> Self {
        Self {
            level: Level::User,
            policy: Policy::Fifo,
            priority: 80,
            priority_spread: false,
            threads: vec![None],
            interval_ns: 1_000_000,
            distance_ns: 0,
            aligned_ns: None,
            duration_ns: None,
            loops: None,
            lock_memory: false,
            break_ns: None,
            trace_mark: false,
            histogram_us: None,
            histogram_in_ns: false,
            samples: false,
            dma_latency_us: None,
            dma_latency_optional: false,
            main_cpu: None,
            shared_lock: None,
            compute_ns: 0,
            timer: Mechanism::default(),
            by: None,
            core: None,
        }
    }
}

impl WakeupConfig {
    /// Period of thread `index`.
    pub fn interval_of(&self, index: usize) -> u64 {
        self.interval_ns.saturating_add(self.distance_ns.saturating_mul(index as u64))
    }

    /// Static priority of thread `index`, 0 for policies without one.
    pub fn priority_of(&self, index: usize) -> u32 {
        if !self.policy.has_priority() {
            return 0;
        }
        if self.priority_spread {
            return self.priority.saturating_sub(index as u32).max(1);
        }
        self.priority
    }

    /// Time after the common start at which thread `index` is first meant to wake.
    pub fn phase_of(&self, index: usize) -> u64 {
        match self.aligned_ns {
            Some(offset) => offset.saturating_mul(index as u64),
            None => {
                let n = self.threads.len().max(1) as u128;
                (u128::from(self.interval_ns) * index as u128 / n) as u64
            }
        }
    }

    /// Runtime that a `SCHED_DEADLINE` thread asks for in each period: a quarter
    /// of the period, at most 100 µs. A wake-up needs a few µs; what is asked for is
    /// taken off what other deadline tasks can be admitted with.
    pub fn deadline_runtime_of(&self, index: usize) -> u64 {
        (self.interval_of(index) / 4).clamp(1_024, 100_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_spread_over_the_period_unless_aligned() {
        let mut c = WakeupConfig { threads: vec![None; 4], ..WakeupConfig::default() };
        assert_eq!(
            (0..4).map(|i| c.phase_of(i)).collect::<Vec<_>>(),
            [0, 250_000, 500_000, 750_000]
        );
        c.aligned_ns = Some(0);
        assert!((0..4).all(|i| c.phase_of(i) == 0));
        c.aligned_ns = Some(10_000);
        assert_eq!(c.phase_of(3), 30_000);
    }

    #[test]
    fn distance_and_priority_spread_follow_cyclictest() {
        let c = WakeupConfig {
            threads: vec![None; 3],
            distance_ns: 500_000,
            priority: 2,
            priority_spread: true,
            ..WakeupConfig::default()
        };
        assert_eq!(c.interval_of(2), 2_000_000);
        assert_eq!([c.priority_of(0), c.priority_of(1), c.priority_of(2)], [2, 1, 1]);
    }
}
