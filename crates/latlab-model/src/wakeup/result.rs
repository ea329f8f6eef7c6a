//! What was measured: plain data, one [`ThreadResult`] a thread.

use super::config::{Policy, WakeupConfig};
use super::mechanism::Woken;
use crate::finding::Note;
use crate::record::Window;
use crate::units::CpuId;
use latlab_stats::histogram::{Histogram, Summary};
use latlab_stats::stretches::{self, Stretch};
use latlab_stats::total::Total;
use serde::{Deserialize, Serialize};

/// One late wake-up, as a hook sees it inside the measuring loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LateWake {
    /// Index of the thread.
    pub thread: usize,
    /// Its thread id.
    pub tid: i32,
    /// Number of the wake-up, from 1.
    pub cycle: u64,
    /// When it was meant to wake, ns of CLOCK_MONOTONIC.
    pub intended_ns: u64,
    /// How late it was.
    pub latency_ns: u64,
}

/// A wake-up to remember.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Worst {
    /// How late, ns.
    pub latency_ns: u64,
    /// When it was meant to wake, ns of CLOCK_MONOTONIC.
    pub intended_ns: u64,
    /// Number of the wake-up, from 1.
    pub cycle: u64,
}

/// A stretch of time in [`Timeline`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slot {
    /// Wake-ups in it.
    pub count: u64,
    /// Their smallest latency, ns.
    pub min_ns: u64,
    /// Their largest latency, ns.
    pub max_ns: u64,
    /// Sum of their latencies, ns.
    pub sum_ns: u64,
}

/// Latency over time: equal stretches from the thread's first intended wake-up on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timeline {
    /// First intended wake-up, ns of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Length of a stretch, ns.
    pub width_ns: u64,
    /// The stretches, by the time at which wake-ups were intended.
    pub slots: Vec<Slot>,
}

/// A histogram with one exact bucket a microsecond (or a nanosecond) below a limit, as cyclictest keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UsHistogram {
    /// Buckets are `0..limit`.
    pub limit: u32,
    /// Width of a bucket, ns: 1000 or 1.
    pub unit_ns: u32,
    /// `(bucket, count)`, rising, counts above zero.
    pub buckets: Vec<(u32, u64)>,
    /// Wake-ups at or over the limit.
    pub overflows: u64,
    /// Numbers (from 0) of the first wake-ups that were over the limit.
    pub overflow_cycles: Vec<u64>,
}

/// What one thread measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ThreadResult {
    /// Index, from 0.
    pub index: usize,
    /// Thread id.
    pub tid: i32,
    /// CPU that it was bound to, or none.
    pub cpu: Option<CpuId>,
    /// Its NUMA node, where it was bound and the kernel says.
    pub node: Option<u32>,
    /// Its policy.
    pub policy: Policy,
    /// Its static priority, 0 for policies without one.
    pub priority: u32,
    /// Its period, ns.
    pub interval_ns: u64,
    /// What woke it, where mechanisms are measured in turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub woken: Option<Woken>,
    /// Number of wake-ups.
    pub wakeups: u64,
    /// Periods in which it should have woken and did not, because it still slept or waited.
    pub missed_periods: u64,
    /// Wake-ups that missed at least one further period.
    pub wakeups_with_misses: u64,
    /// Latency of every wake-up, ns.
    pub latency: Histogram,
    /// Lateness of every missed period when the thread came back, ns.
    pub missed: Histogram,
    /// The part of each wake-up's latency from the kernel's time stamp (of an edge, of the receipt of a datagram) on, ns,
    /// where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_stamp: Option<Histogram>,
    /// Latency of the last wake-up, ns.
    pub last_ns: u64,
    /// The worst wake-ups, largest latency first.
    pub worst: Vec<Worst>,
    /// Latency over time.
    pub timeline: Timeline,
    /// Exact microsecond buckets, where they were asked for.
    pub us_histogram: Option<UsHistogram>,
    /// CPU time of the thread while it measured, ns; 0 where nobody knows.
    pub cpu_time_ns: u64,
    /// What else was going on.
    pub window: Window,
    /// Interrupts that its CPU took meanwhile, most frequent first: name and count.
    pub interrupts: Vec<(String, u64)>,
    /// Samples that could not be delivered because the sink was too slow.
    pub samples_lost: u64,
}

impl ThreadResult {
    /// Latency of every period: that of each wake-up and that of each missed period.
    pub fn per_period(&self) -> Histogram {
        let mut all = self.latency.clone();
        all.merge(&self.missed);
        all
    }

    /// Figures of each wake-up and of each period, with intervals that contain the clustering of late wake-ups.
    pub fn summaries(&self) -> [Summary; 2] {
        let stretches = stretches_of(&[&self.timeline]);
        let inflation = |limit| stretches::cautious_inflation(&stretches, &self.latency, limit);
        [&self.latency, &self.per_period()].map(|h| stretches::summary(h, &inflation))
    }

    /// The worst wake-up.
    pub fn max(&self) -> Option<&Worst> {
        self.worst.first()
    }

    /// CPU time of the thread for each wake-up, ns.
    pub fn cpu_per_wakeup_ns(&self) -> Option<f64> {
        let known = self.wakeups > 0 && self.cpu_time_ns > 0;
        known.then(|| self.cpu_time_ns as f64 / self.wakeups as f64)
    }
}

/// Why a measurement ended before its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum StopReason {
    /// A signal asked for it.
    Signal {
        /// `SIGINT`…
        name: String,
    },
    /// The break value was exceeded.
    BreakValue {
        /// Index of the thread that saw it first.
        thread: usize,
        /// Number of the wake-up.
        cycle: u64,
        /// When it was meant to wake, ns of CLOCK_MONOTONIC.
        intended_ns: u64,
        /// How late it was, ns.
        latency_ns: u64,
    },
    /// A measuring thread took too much of its CPU.
    Runaway {
        /// Index of the thread.
        thread: usize,
        /// Share of the CPU that it took, per cent.
        percent: u32,
    },
    /// A hook asked for it.
    Hook,
    /// The samples could not be written any longer.
    Samples,
}

/// What a measurement found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WakeupResult {
    /// What was asked for.
    pub config: WakeupConfig,
    /// How the latency was taken (a timer's name, `timerlat tracer`, or `mechanisms in turns`).
    pub method: String,
    /// Wake-ups of each thread before the first that counts.
    pub warm_up_wakeups: u64,
    /// False when it ended before its time.
    pub complete: bool,
    /// Why it ended before its time.
    pub stopped_by: Option<StopReason>,
    /// Common start, ns of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Length, ns.
    pub duration_ns: u64,
    /// Step of the kernel's timers, ns: 1 with high-resolution timers, else a tick.
    pub timer_step_ns: Option<u64>,
    /// CPU time of the whole process meanwhile, display included, ns.
    pub process_cpu_ns: u64,
    /// Steal time of the CPUs concerned, ns (resolution: a clock tick), where readable.
    pub steal_ns: Option<u64>,
    /// Interrupts that the CPUs concerned took, where readable.
    pub interrupts: Option<u64>,
    /// Real-time throttling in force: runtime and period in µs (−1: none), where readable.
    pub rt_throttling_us: Option<(i64, u64)>,
    /// Settings held during the measurement (`wakeup.*-held`).
    pub held: Vec<Note>,
    /// Limitations of the measurement (`wakeup.*`).
    pub notes: Vec<Note>,
    /// One entry a thread.
    pub threads: Vec<ThreadResult>,
}

/// Stretches of several timelines as one series: threads wait for the same machine.
fn stretches_of(timelines: &[&Timeline]) -> Vec<Stretch> {
    let Some(width) = timelines.iter().map(|t| t.width_ns).max().filter(|&w| w > 0) else {
        return Vec::new();
    };
    let start = timelines.iter().map(|t| t.start_ns).min().unwrap_or(0);
    let mut out: Vec<Stretch> = Vec::new();
    for t in timelines {
        for (i, slot) in t.slots.iter().enumerate() {
            let at =
                (t.start_ns - start).saturating_add(t.width_ns.saturating_mul(i as u64)) / width;
            let at = usize::try_from(at).unwrap_or(usize::MAX).min(4 * t.slots.len());
            if out.len() <= at {
                out.resize(at + 1, Stretch::default());
            }
            out[at].count = out[at].count.saturating_add(slot.count);
            out[at].max = out[at].max.max(slot.max_ns);
            out[at].sum += slot.sum_ns as f64;
        }
    }
    out
}

impl WakeupResult {
    /// Stretches of all threads as one series.
    pub fn stretches(&self) -> Vec<Stretch> {
        stretches_of(&self.threads.iter().map(|t| &t.timeline).collect::<Vec<_>>())
    }

    /// Figures of all threads together: of each wake-up and of each period, with intervals that contain the
    /// clustering of late wake-ups.
    pub fn summaries(&self) -> [Summary; 2] {
        let (wakeups, stretches) = (self.all_wakeups(), self.stretches());
        let inflation = |limit| stretches::cautious_inflation(&stretches, &wakeups, limit);
        let mut periods = wakeups.clone();
        periods.merge(&self.all_missed());
        [&wakeups, &periods].map(|h| stretches::summary(h, &inflation))
    }

    /// Latencies of all wake-ups of all threads.
    pub fn all_wakeups(&self) -> Histogram {
        self.merged(|t| &t.latency)
    }

    /// Latenesses of all missed periods of all threads.
    pub fn all_missed(&self) -> Histogram {
        self.merged(|t| &t.missed)
    }

    /// Number of missed periods of all threads.
    pub fn missed_periods(&self) -> u64 {
        self.threads.iter().map(|t| t.missed_periods).total()
    }

    /// The worst wake-up and its thread.
    pub fn max(&self) -> Option<(&ThreadResult, &Worst)> {
        self.threads.iter().filter_map(|t| Some((t, t.max()?))).max_by_key(|(_, w)| w.latency_ns)
    }

    /// Whether the break value that the user set was exceeded.
    pub fn limit_exceeded(&self) -> bool {
        matches!(self.stopped_by, Some(StopReason::BreakValue { .. }))
    }

    fn merged(&self, of: impl Fn(&ThreadResult) -> &Histogram) -> Histogram {
        let mut all = Histogram::default();
        for t in &self.threads {
            all.merge(of(t));
        }
        all
    }
}
