//! The levels below user space, by the kernel's `timerlat` tracer
//! (Documentation/trace/timerlat-tracer.rst).
//!
//! ```text
//! intended ──▶ interrupt handler (irq) ──▶ thread timerlat/N runs (kernel) ──▶ sleeps again
//! ```
//!
//! The tracer gives two samples for each activation, into an instance of our own. The main
//! thread takes them away 20 times a second and counts them as a measuring thread of the
//! user level counts its own, with the same [`Meter`]: missed periods mean the same.

mod stream;
mod tracer;

use super::meter::Meter;
use super::window::Counters;
use super::{Hooks, LiveThread, Next, WakeupError, os, setup};
use crate::{policy, signal};
use latlab_model::finding::{Note, Quantity};
use latlab_model::record::Window;
use latlab_model::units::CpuId;
use latlab_model::wakeup::config::{Level, WakeupConfig};
use latlab_model::wakeup::result::{StopReason, ThreadResult, WakeupResult};
use std::time::Duration;
use stream::{Plan, Sample, Stream};
use tracer::Tracer;

/// How often the main thread looks.
const TICK: Duration = Duration::from_millis(50);
/// Activations before the first that counts.
const WARM_UP: u32 = 5;
/// A tracer that gives nothing for so long is broken.
const SILENCE_NS: u64 = 5_000_000_000;

/// Counters of one level on one CPU.
struct Counter {
    level: Level,
    meter: Meter,
    wakeups: u64,
    last_ns: u64,
    live: LiveThread,
}

/// One CPU: its stream and its levels.
struct Cpu {
    cpu: CpuId,
    tid: i32,
    stream: Stream,
    first: Option<u32>,
    counters: Vec<Counter>,
    cpu_time_ns: Option<u64>,
}

/// What ends counting, in the terms of one sample.
struct Ends {
    interval_ns: u64,
    end_ns: u64,
    loops: u64,
    break_ns: u64,
}

/// A wake-up over the break value: index of the CPU, and what it was.
type Broke = (usize, StopReason);

/// Measures some of the levels `irq` and `kernel` at once, one result each, in the order of
/// `levels`. The threads are the kernel's, one a CPU; of the configuration count CPUs,
/// interval, policy, priority, length, break value and histogram.
///
/// # Errors
/// When it cannot begin, with a hint.
pub fn run(
    config: &WakeupConfig,
    levels: &[Level],
    mut hooks: Hooks<'_>,
) -> Result<Vec<WakeupResult>, WakeupError> {
    setup::check(config)?;
    let mut cpus: Vec<u32> = match config.threads.iter().map(|c| c.map(|c| c.0)).collect() {
        Some(bound) => bound,
        None => policy::online().unwrap_or_default().iter().map(|c| c.0).collect(),
    };
    cpus.sort_unstable();
    cpus.dedup();
    let config = &WakeupConfig {
        threads: cpus.iter().map(|&c| Some(CpuId(c))).collect(),
        distance_ns: 0,
        ..config.clone()
    };
    let held = setup::PinnedSettings::take(config)?;
    let tracer = Tracer::start(config, levels, &cpus)?;
    let plan = Plan::read(tracer.control())?;
    let mut cpus = cpus
        .into_iter()
        .map(|cpu| Cpu::new(config, levels, &tracer, &plan, cpu))
        .collect::<Result<Vec<_>, _>>()?;
    if signal::stop_requested().is_some() {
        return Err(WakeupError::StoppedBefore);
    }
    let before = Counters::read();
    let process_cpu_ns = os::process_cpu_ns();
    let start_ns = os::now_ns();
    tracer.record(true)?;
    let stopped_by = listen(config, &plan, &mut cpus, start_ns, &mut hooks)?;
    tracer.record(false)?;
    let end_ns = os::now_ns();
    let after = Counters::read();
    let process_cpu_ns = os::process_cpu_ns().saturating_sub(process_cpu_ns);
    let lost: u64 = cpus.iter().map(|c| c.stream.lost).sum();
    let common = WakeupResult {
        method: "the kernel's timerlat tracer".into(),
        warm_up_wakeups: u64::from(WARM_UP),
        complete: stopped_by.is_none(),
        stopped_by,
        start_ns,
        timer_step_ns: Some(os::timer_step_ns()),
        duration_ns: end_ns.saturating_sub(start_ns),
        process_cpu_ns,
        rt_throttling_us: setup::rt_throttling(),
        held: held.settings.clone(),
        notes: (lost > 0).then(|| lost_note(lost)).into_iter().collect(),
        ..WakeupResult::default()
    };
    Ok(results(config, levels, cpus, &common, (&before, &after)))
}

fn lost_note(lost: u64) -> Note {
    Note::new("wakeup.trace-buffer-overrun").value("lost", Quantity::Count(lost))
}

impl Cpu {
    fn new(
        config: &WakeupConfig,
        levels: &[Level],
        tracer: &Tracer,
        plan: &Plan,
        cpu: u32,
    ) -> Result<Self, WakeupError> {
        let tid = tracer.threads.get(&cpu).copied().unwrap_or(0);
        let by_loops = config.loops.map(|l| l.saturating_mul(config.interval_ns));
        let counter = |&level: &Level| {
            let expected = config.duration_ns.or(by_loops);
            let meter = Meter::new(config, config.interval_ns, expected)
                .ok_or(WakeupError::Memory(config.histogram_us.unwrap_or(0)))?;
            let (priority, interval_ns) = (config.priority, config.interval_ns);
            let recent = LiveThread { recent_min_ns: u64::MAX, ..LiveThread::default() };
            let live = LiveThread { tid, priority, interval_ns, min_ns: u64::MAX, ..recent };
            Ok(Counter { level, meter, wakeups: 0, last_ns: 0, live })
        };
        Ok(Self {
            cpu: CpuId(cpu),
            tid,
            stream: Stream::open(tracer.control(), plan, cpu)?,
            first: None,
            counters: levels.iter().map(counter).collect::<Result<_, WakeupError>>()?,
            cpu_time_ns: tracer::cpu_time_ns(tid),
        })
    }

    /// Counts what came since; the first that was over the break value.
    fn drain(&mut self, plan: &Plan, ends: &Ends) -> std::io::Result<Option<StopReason>> {
        let Self { stream, first, counters, .. } = self;
        let mut broke = None;
        stream.drain(plan, &mut |sample| {
            let first = *first.get_or_insert(sample.number);
            if broke.is_some() || sample.number.wrapping_sub(first) < WARM_UP {
                return;
            }
            let level = if sample.context == 0 { Level::Irq } else { Level::Kernel };
            // Contexts beyond are those of programs that use the tracer from user space.
            if sample.context > 1 {
                return;
            }
            if let Some(counter) = counters.iter_mut().find(|c| c.level == level) {
                broke = counter.count(&sample, ends);
            }
        })?;
        Ok(broke)
    }

    fn is_done(&self, ends: &Ends) -> bool {
        self.counters.iter().all(|c| c.wakeups >= ends.loops)
    }
}

impl Counter {
    fn count(&mut self, sample: &Sample, ends: &Ends) -> Option<StopReason> {
        let latency_ns = sample.latency_ns;
        let intended_ns = sample.time_ns.saturating_sub(latency_ns);
        if self.wakeups >= ends.loops || intended_ns >= ends.end_ns {
            return None;
        }
        if self.wakeups == 0 {
            self.meter.start_at(intended_ns);
        }
        self.wakeups += 1;
        self.last_ns = latency_ns;
        self.meter.count(latency_ns, intended_ns, self.wakeups);
        if latency_ns >= ends.interval_ns {
            let missed = latency_ns / ends.interval_ns;
            self.meter.count_missed(latency_ns, ends.interval_ns, missed);
        }
        let live = &mut self.live;
        live.wakeups = self.wakeups;
        live.missed_periods = self.meter.missed_periods;
        live.last_ns = latency_ns;
        live.sum_ns += latency_ns;
        live.min_ns = live.min_ns.min(latency_ns);
        live.max_ns = live.max_ns.max(latency_ns);
        live.recent_min_ns = live.recent_min_ns.min(latency_ns);
        live.recent_max_ns = live.recent_max_ns.max(latency_ns);
        (latency_ns > ends.break_ns).then_some(StopReason::BreakValue {
            thread: 0,
            cycle: self.wakeups,
            intended_ns,
            latency_ns,
        })
    }
}

/// Until the end, a signal, a hook or the break value.
fn listen(
    config: &WakeupConfig,
    plan: &Plan,
    cpus: &mut [Cpu],
    start_ns: u64,
    hooks: &mut Hooks<'_>,
) -> Result<Option<StopReason>, WakeupError> {
    let ends = Ends {
        interval_ns: config.interval_ns,
        end_ns: config.duration_ns.map_or(u64::MAX, |d| start_ns.saturating_add(d)),
        loops: config.loops.unwrap_or(u64::MAX),
        break_ns: config.break_ns.unwrap_or(u64::MAX),
    };
    loop {
        std::thread::park_timeout(TICK);
        let now = os::now_ns();
        let mut broke: Option<Broke> = None;
        for (index, cpu) in cpus.iter_mut().enumerate() {
            let found = cpu.drain(plan, &ends).map_err(|source| WakeupError::File {
                path: format!("per_cpu/cpu{}/trace_pipe_raw", cpu.cpu),
                source,
            })?;
            broke = broke.or(found.map(|reason| (index, reason)));
        }
        if let Some((index, StopReason::BreakValue { cycle, intended_ns, latency_ns, .. })) = broke
        {
            return Ok(Some(StopReason::BreakValue {
                thread: index,
                cycle,
                intended_ns,
                latency_ns,
            }));
        }
        if let Some(on_tick) = hooks.on_tick.as_mut()
            && on_tick(&live(cpus)) == Next::Stop
        {
            return Ok(Some(StopReason::Hook));
        }
        if let Some(signal) = signal::stop_requested() {
            return Ok(Some(StopReason::Signal { name: signal.name() }));
        }
        let silent = cpus.iter().find(|c| c.first.is_none());
        if let Some(cpu) = silent.filter(|_| now.saturating_sub(start_ns) > SILENCE_NS) {
            return Err(WakeupError::NoSample(cpu.cpu));
        }
        if now >= ends.end_ns || cpus.iter().all(|c| c.is_done(&ends)) {
            return Ok(None);
        }
    }
}

/// The deepest level of each CPU.
fn live(cpus: &mut [Cpu]) -> Vec<LiveThread> {
    let one = |cpu: &mut Cpu| {
        let Some(counter) = cpu.counters.last_mut() else { return LiveThread::default() };
        let seen = counter.live;
        (counter.live.recent_min_ns, counter.live.recent_max_ns) = (u64::MAX, 0);
        seen
    };
    cpus.iter_mut().map(one).collect()
}

/// One result a level.
fn results(
    config: &WakeupConfig,
    levels: &[Level],
    cpus: Vec<Cpu>,
    common: &WakeupResult,
    (before, after): (&Counters, &Counters),
) -> Vec<WakeupResult> {
    let with = |&level: &Level| WakeupResult {
        config: WakeupConfig { level, ..config.clone() },
        ..common.clone()
    };
    let mut results: Vec<WakeupResult> = levels.iter().map(with).collect();
    for (index, cpu) in cpus.into_iter().enumerate() {
        let used = tracer::cpu_time_ns(cpu.tid).zip(cpu.cpu_time_ns);
        let used = used.map_or(0, |(after, before)| after.saturating_sub(before));
        for (result, counter) in results.iter_mut().zip(cpu.counters) {
            // An interrupt's time is nobody's: it is not in the thread's.
            let cpu_time_ns = if counter.level == Level::Kernel { used } else { 0 };
            let counted = counter.meter.finish();
            result.threads.push(ThreadResult {
                index,
                tid: cpu.tid,
                cpu: Some(cpu.cpu),
                node: setup::node_of(cpu.cpu.0),
                policy: config.policy,
                priority: config.priority,
                interval_ns: config.interval_ns,
                wakeups: counted.latency.count,
                missed_periods: counted.missed_periods,
                wakeups_with_misses: counted.with_misses,
                latency: counted.latency,
                missed: counted.missed,
                last_ns: counter.last_ns,
                worst: counted.worst,
                timeline: counted.timeline,
                us_histogram: counted.us,
                cpu_time_ns,
                window: Window {
                    start_ns: common.start_ns,
                    length_ns: common.duration_ns,
                    ..Window::default()
                },
                ..ThreadResult::default()
            });
        }
    }
    for result in &mut results {
        super::run::surroundings(result, before, after);
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter() -> Counter {
        let meter = Meter::new(&WakeupConfig::default(), 1_000_000, None).unwrap();
        let live = LiveThread { min_ns: u64::MAX, ..LiveThread::default() };
        Counter { level: Level::Kernel, meter, wakeups: 0, last_ns: 0, live }
    }

    fn ends() -> Ends {
        Ends { interval_ns: 1_000_000, end_ns: 50_000_000, loops: 3, break_ns: 2_000_000 }
    }

    fn sample(time_ns: u64, latency_ns: u64) -> Sample {
        Sample { number: 9, context: 1, latency_ns, time_ns }
    }

    #[test]
    fn a_late_thread_misses_periods_as_at_the_user_level() {
        let mut c = counter();
        assert_eq!(c.count(&sample(1_008_000, 8_000), &ends()), None);
        assert_eq!(
            c.count(&sample(4_500_000, 2_500_000), &Ends { break_ns: u64::MAX, ..ends() }),
            None
        );
        let counted = c.meter.finish();
        assert_eq!((counted.latency.count, counted.missed_periods), (2, 2));
        assert_eq!((counted.missed.min, counted.missed.max), (500_000, 1_500_000));
        assert_eq!(counted.worst[0].intended_ns, 2_000_000);
    }

    #[test]
    fn counting_ends_with_the_loops_with_the_time_and_at_the_break_value() {
        let mut c = counter();
        for i in 1..=5 {
            c.count(&sample(i * 1_000_000 + 7, 7), &ends());
        }
        assert_eq!(c.wakeups, 3);
        let mut c = counter();
        assert_eq!(c.count(&sample(50_000_007, 7), &ends()), None);
        assert_eq!(c.wakeups, 0);
        let broke = c.count(&sample(9_000_000, 2_000_001), &ends());
        assert!(matches!(
            broke,
            Some(StopReason::BreakValue { cycle: 1, latency_ns: 2_000_001, .. })
        ));
    }
}
