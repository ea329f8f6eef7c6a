//! The main thread of a measurement: sets up, opens the gate, listens, collects.

use super::cycle::{Cycle, Live, Progress};
use super::mechanism::Source;
use super::meter::{Counted, Meter};
use super::ring::{Ring, Sample};
use super::setup::{self, PinnedSettings};
use super::trace_mark::TraceMark;
use super::window::{self, Counters};
use super::{Control, Hooks, LiveThread, Next, Stop, WakeupError, os, watchdog};
use crate::policy::{self, Budget};
use crate::shared_lock::SharedLock;
use crate::signal;
use latlab_model::finding::Note;
use latlab_model::record::Window;
use latlab_model::units::CpuId;
use latlab_model::wakeup::config::WakeupConfig;
use latlab_model::wakeup::result::{LateWake, StopReason, ThreadResult, WakeupResult};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError, mpsc};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::Duration;

/// Stack of a measuring thread. Small: with locked memory all of it is resident.
pub(super) const STACK: usize = 256 * 1024;
/// How often the main thread looks.
pub(super) const TICK: Duration = Duration::from_millis(50);
/// Time between the gate and the first wake-up, for all threads to reach their sleep.
pub(super) const LEAD_NS: u64 = 5_000_000;
/// Wake-ups before the first that counts.
const WARM_UP: u64 = 5;
const WARM_UP_INTERVAL_NS: u64 = 1_000_000;
/// Samples that a ring holds.
const RING: usize = 1 << 14;

/// Opened once: the common start, or nothing when a thread could not be set up.
#[derive(Default)]
struct Gate {
    start: Mutex<Option<Option<u64>>>,
    opened: Condvar,
}

impl Gate {
    fn open(&self, start: Option<u64>) {
        *self.start.lock().unwrap_or_else(PoisonError::into_inner) = Some(start);
        self.opened.notify_all();
    }
    fn wait(&self) -> Option<u64> {
        let mut start = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(start) = *start {
                return start;
            }
            start = self.opened.wait(start).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// What all measuring threads borrow.
struct Shared<'a> {
    config: &'a WakeupConfig,
    control: &'a Control,
    gate: &'a Gate,
    lives: &'a [Live],
    rings: &'a [Ring],
    late_ns: &'a AtomicU64,
    on_late: Option<super::OnLate<'a>>,
    mark: Option<&'a TraceMark>,
    lock: Option<&'a SharedLock>,
}

/// What a measuring thread brings back.
struct Measured {
    tid: i32,
    counted: Counted,
    broke: Option<LateWake>,
    cpu_time_ns: u64,
    start_ns: u64,
    end_ns: u64,
    usage: Option<(os::Usage, os::Usage)>,
    migrations: Option<u64>,
}

/// Measures until the duration, the number of loops, the break value, a hook or a signal ends it.
///
/// # Errors
/// When it cannot begin, with a hint. Once the first thread has woken the result is
/// returned, whole or not.
pub fn run(config: &WakeupConfig, mut hooks: Hooks<'_>) -> Result<WakeupResult, WakeupError> {
    let mark = config.trace_mark.then(TraceMark::open).transpose()?;
    let lock = config.shared_lock.as_deref().map(open_lock).transpose()?;
    if let Some(cpu) = config.main_cpu {
        policy::bind(&[cpu]).map_err(|source| WakeupError::Bind { cpu, source })?;
    }
    os::let_sleeps_be_ended();
    let held = PinnedSettings::take(config)?;
    let n = config.threads.len();
    let never = AtomicU64::new(u64::MAX);
    let (control, gate) = (Control::default(), Gate::default());
    let lives: Vec<Live> = (0..n).map(|_| Live::default()).collect();
    let rings: Vec<Ring> =
        (0..if config.samples { n } else { 0 }).map(|_| Ring::new(RING)).collect();
    let shared = Shared {
        config,
        control: &control,
        gate: &gate,
        lives: &lives,
        rings: &rings,
        late_ns: hooks.late_ns.unwrap_or(&never),
        on_late: hooks.on_late,
        mark: mark.as_ref(),
        lock: lock.as_ref(),
    };
    let before = Counters::read();
    let cpu_before = os::process_cpu_ns();
    let mut result = std::thread::scope(|scope| measure(scope, &shared, &mut hooks))?;
    result.process_cpu_ns = os::process_cpu_ns().saturating_sub(cpu_before);
    surroundings(&mut result, &before, &Counters::read());
    result.held = held.settings.clone();
    result.notes.extend(held.refused.iter().cloned());
    result.rt_throttling_us = setup::rt_throttling();
    Ok(result)
}

fn open_lock(path: &Path) -> Result<SharedLock, WakeupError> {
    let path_text = || path.display().to_string();
    SharedLock::open(path).map_err(|source| WakeupError::SharedLock { path: path_text(), source })
}

fn measure<'scope, 'a: 'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'scope Shared<'a>,
    hooks: &mut Hooks<'_>,
) -> Result<WakeupResult, WakeupError> {
    let config = shared.config;
    let (ready, all_ready) = mpsc::channel();
    let mut threads = Vec::new();
    for index in 0..config.threads.len() {
        let ready = ready.clone();
        let spawned = Builder::new()
            .name(format!("wakeup/{index}"))
            .stack_size(STACK)
            .spawn_scoped(scope, move || thread(shared, index, &ready));
        match spawned {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                shared.gate.open(None);
                return Err(WakeupError::Thread(error));
            }
        }
    }
    drop(ready);
    let tids = match wait_for_all(&all_ready, threads.len()) {
        Ok(tids) => tids,
        Err(error) => {
            shared.gate.open(None);
            return Err(error);
        }
    };
    let start_ns = os::now_ns() + LEAD_NS;
    let (dog, mut notes) = start_watchdog(scope, config, shared.control, &tids, start_ns);
    shared.gate.open(Some(start_ns));
    let sink = listen(shared, hooks, &tids);
    shared.control.finished.store(true, Ordering::Relaxed);
    let measured: Vec<Measured> =
        threads.into_iter().filter_map(|t| t.join().ok().flatten()).collect();
    if let Some((dog, tid)) = dog {
        os::end_sleep_of(tid);
        let _ = dog.join();
    }
    if let Err(error) = sink {
        notes.push(Note::new("wakeup.samples-write-failed").value("error", error.to_string()));
        if measured.iter().all(|m| m.counted.latency.count == 0) {
            return Err(WakeupError::Samples(error));
        }
    }
    let mut result = collect(shared, measured, start_ns);
    result.notes = notes;
    Ok(result)
}

/// Thread ids in the order of the threads, once all are set up.
pub(super) fn wait_for_all(
    ready: &mpsc::Receiver<(usize, Result<i32, WakeupError>)>,
    n: usize,
) -> Result<Vec<i32>, WakeupError> {
    let mut tids = vec![0; n];
    for _ in 0..n {
        // A sender that is gone without a word is a thread that panicked.
        let (index, tid) = ready.recv().map_err(|_| {
            WakeupError::Thread(std::io::Error::other("it ended while it was set up"))
        })?;
        tids[index] = tid?;
    }
    if signal::stop_requested().is_some() { Err(WakeupError::StoppedBefore) } else { Ok(tids) }
}

pub(super) type Dog<'scope> = Option<(ScopedJoinHandle<'scope, ()>, i32)>;

pub(super) fn start_watchdog<'scope>(
    scope: &'scope Scope<'scope, '_>,
    config: &'scope WakeupConfig,
    control: &'scope Control,
    tids: &[i32],
    start_ns: u64,
) -> (Dog<'scope>, Vec<Note>) {
    if !config.policy.is_real_time() {
        return (None, Vec::new());
    }
    let (said, says) = mpsc::channel();
    let tids = tids.to_vec();
    let spawned = Builder::new().name("watchdog".into()).stack_size(STACK).spawn_scoped(scope, {
        move || {
            os::block_stop_signals();
            let _ = said.send((os::tid(), watchdog::rise(config)));
            watchdog::watch(control, &tids, start_ns, config);
        }
    });
    match (spawned, says.recv()) {
        (Ok(dog), Ok((tid, note))) => (Some((dog, tid)), note.into_iter().collect()),
        (Err(error), _) => {
            (None, vec![Note::new("wakeup.no-watchdog").value("error", error.to_string())])
        }
        (Ok(_), Err(_)) => (None, vec![Note::new("wakeup.no-watchdog")]),
    }
}

/// A measuring thread from its first to its last line. `None`: it could not be set up.
fn thread(
    shared: &Shared<'_>,
    index: usize,
    ready: &mpsc::Sender<(usize, Result<i32, WakeupError>)>,
) -> Option<Measured> {
    os::block_stop_signals();
    let config = shared.config;
    let (mut meter, source) = match set_up(config, index) {
        Ok(set_up) => set_up,
        Err(error) => {
            let _ = ready.send((index, Err(error)));
            return None;
        }
    };
    let tid = os::tid();
    warm_up(shared, index, tid, &mut meter, &source);
    let migrations = window::migrations();
    let _ = ready.send((index, Ok(tid)));
    let start_ns = shared.gate.wait()? + config.phase_of(index);
    let cycle = Cycle {
        index,
        tid,
        interval_ns: config.interval_of(index),
        loops: config.loops.unwrap_or(u64::MAX),
        end_ns: config.duration_ns.map_or(u64::MAX, |d| start_ns.saturating_add(d)),
        break_ns: config.break_ns.unwrap_or(u64::MAX),
        late_ns: shared.late_ns,
        on_late: shared.on_late,
        mark: shared.mark,
        control: shared.control,
        live: &shared.lives[index],
        ring: shared.rings.get(index),
        lock: shared.lock.zip(u32::try_from(tid).ok()),
        source: &source,
        compute_ns: config.compute_ns,
    };
    let (mut next, mut progress) = (start_ns, Progress::default());
    meter.start_at(start_ns);
    // That it can be started is known from the warm-up.
    let _ = source.start(start_ns, cycle.interval_ns);
    let usage = os::thread_usage();
    let cpu = os::thread_cpu_ns();
    let broke = cycle.run(&mut meter, &mut progress, &mut next);
    let cpu_time_ns = os::thread_cpu_ns().saturating_sub(cpu);
    let usage = usage.zip(os::thread_usage());
    let end_ns = os::now_ns();
    source.stop();
    // What follows is no measurement: no longer in anybody's way.
    let _ = policy::set(latlab_model::wakeup::config::Policy::Other, 0, Budget::default());
    shared.lives[index].done.store(true, Ordering::Release);
    let migrations = window::migrations().zip(migrations).map(|(b, a)| b.saturating_sub(a));
    let counted = meter.finish();
    Some(Measured { tid, counted, broke, cpu_time_ns, start_ns, end_ns, usage, migrations })
}

/// Runs the loop a few times, uncounted, so that its code and data are mapped and cached.
fn warm_up(shared: &Shared<'_>, index: usize, tid: i32, meter: &mut Meter, source: &Source<'_>) {
    let live = Live::default();
    let never = AtomicU64::new(u64::MAX);
    let interval_ns = shared.config.interval_of(index).min(WARM_UP_INTERVAL_NS);
    let cycle = Cycle {
        index,
        tid,
        interval_ns,
        loops: WARM_UP,
        end_ns: u64::MAX,
        break_ns: u64::MAX,
        late_ns: &never,
        on_late: None,
        mark: None,
        control: shared.control,
        live: &live,
        ring: None,
        lock: shared.lock.zip(u32::try_from(tid).ok()),
        source,
        compute_ns: 0,
    };
    let mut next = os::now_ns() + interval_ns;
    meter.start_at(next);
    if source.start(next, interval_ns).is_ok() {
        cycle.run(meter, &mut Progress::default(), &mut next);
    }
    source.stop();
    meter.reset();
}

/// Binds the thread, allocates and writes what it will write, then takes the policy.
fn set_up(config: &WakeupConfig, index: usize) -> Result<(Meter, Source<'static>), WakeupError> {
    if let Some(cpu) = config.threads[index] {
        policy::bind(&[cpu]).map_err(|source| WakeupError::Bind { cpu, source })?;
    }
    let interval = config.interval_of(index);
    let by_loops = config.loops.map(|l| l.saturating_mul(interval));
    let expected = match (config.duration_ns, by_loops) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    let meter = Meter::new(config, interval, expected)
        .ok_or(WakeupError::Memory(config.histogram_us.unwrap_or(0)))?;
    let source = Source::timer(config.timer)
        .map_err(|source| WakeupError::Mechanism { mechanism: config.timer, source })?;
    take_policy(config, index)?;
    Ok((meter, source))
}

/// Writes what the loop will use of the stack, then takes the policy of thread `index`.
pub(super) fn take_policy(config: &WakeupConfig, index: usize) -> Result<(), WakeupError> {
    prefault_stack();
    let interval = config.interval_of(index);
    let priority = config.priority_of(index);
    let budget = Budget { runtime_ns: config.deadline_runtime_of(index), period_ns: interval };
    policy::set(config.policy, priority, budget).map_err(|source| WakeupError::Policy {
        policy: config.policy,
        priority,
        source,
    })
}

/// Writes the part of the stack that the loop will use.
#[inline(never)]
fn prefault_stack() {
    let mut stack = [0u8; 64 * 1024];
    for page in stack.chunks_mut(1024) {
        page[0] = 1;
    }
    std::hint::black_box(&mut stack);
}

/// Until all threads are done: takes samples away, tells the display, passes signals on.
fn listen(shared: &Shared<'_>, hooks: &mut Hooks<'_>, tids: &[i32]) -> std::io::Result<()> {
    let mut samples: Vec<Sample> = Vec::with_capacity(RING);
    let mut outcome = Ok(());
    loop {
        let done = shared.lives.iter().all(|l| l.done.load(Ordering::Acquire));
        for (index, ring) in shared.rings.iter().enumerate() {
            samples.clear();
            ring.drain(&mut samples);
            let Some(sink) = hooks.on_samples.as_mut().filter(|_| outcome.is_ok()) else {
                continue;
            };
            if !samples.is_empty()
                && let Err(error) = sink(index, &samples)
            {
                outcome = Err(error);
                shared.control.stop(Stop::Sink, index);
            }
        }
        if let Some(on_tick) = hooks.on_tick.as_mut()
            && on_tick(&live(shared, tids)) == Next::Stop
        {
            shared.control.stop(Stop::Hook, 0);
        }
        if done {
            return outcome;
        }
        if signal::stop_requested().is_some() {
            shared.control.stop(Stop::Signal, 0);
        }
        if shared.control.stopping() {
            let still =
                (tids.iter().zip(shared.lives)).filter(|(_, l)| !l.done.load(Ordering::Acquire));
            still.for_each(|(&tid, _)| os::end_sleep_of(tid));
        }
        std::thread::park_timeout(TICK);
    }
}

fn live(shared: &Shared<'_>, tids: &[i32]) -> Vec<LiveThread> {
    let get = |a: &AtomicU64| a.load(Ordering::Relaxed);
    let one = |(index, (l, &tid)): (usize, (&Live, &i32))| LiveThread {
        tid,
        priority: shared.config.priority_of(index),
        interval_ns: shared.config.interval_of(index),
        wakeups: get(&l.wakeups),
        missed_periods: get(&l.missed),
        min_ns: get(&l.min_ns),
        last_ns: get(&l.last_ns),
        sum_ns: get(&l.sum_ns),
        max_ns: get(&l.max_ns),
        recent_min_ns: l.recent_min_ns.swap(u64::MAX, Ordering::Relaxed),
        recent_max_ns: l.recent_max_ns.swap(0, Ordering::Relaxed),
    };
    shared.lives.iter().zip(tids).enumerate().map(one).collect()
}

/// Why the threads ended; `broke` is the wake-up that exceeded the break value.
pub(super) fn stop_reason(control: &Control, broke: Option<LateWake>) -> Option<StopReason> {
    let by = control.by.load(Ordering::Relaxed) as usize;
    match control.reason() {
        None => None,
        Some(Stop::Signal) => Some(StopReason::Signal {
            name: signal::stop_requested().map_or_else(|| "signal".into(), |s| s.name()),
        }),
        Some(Stop::BreakValue) => broke.map(|w| StopReason::BreakValue {
            thread: w.thread,
            cycle: w.cycle,
            intended_ns: w.intended_ns,
            latency_ns: w.latency_ns,
        }),
        Some(Stop::Runaway) => Some(StopReason::Runaway {
            thread: by,
            percent: control.percent.load(Ordering::Relaxed),
        }),
        Some(Stop::Hook) => Some(StopReason::Hook),
        Some(Stop::Sink) => Some(StopReason::Samples),
    }
}

fn collect(shared: &Shared<'_>, measured: Vec<Measured>, start_ns: u64) -> WakeupResult {
    let config = shared.config;
    let end_ns = measured.iter().map(|m| m.end_ns).max().unwrap_or(start_ns);
    let broke = measured.iter().find_map(|m| m.broke);
    let stopped_by = stop_reason(shared.control, broke);
    WakeupResult {
        config: config.clone(),
        method: config.timer.id().into(),
        warm_up_wakeups: WARM_UP,
        complete: stopped_by.is_none(),
        stopped_by,
        start_ns,
        timer_step_ns: Some(os::timer_step_ns()),
        duration_ns: end_ns.saturating_sub(start_ns),
        threads: measured
            .into_iter()
            .enumerate()
            .map(|(i, m)| thread_result(shared, i, m))
            .collect(),
        ..WakeupResult::default()
    }
}

fn thread_result(shared: &Shared<'_>, index: usize, m: Measured) -> ThreadResult {
    let config = shared.config;
    let cpu = config.threads[index];
    let since = |of: fn(&os::Usage) -> u64| m.usage.map(|(a, b)| of(&b).saturating_sub(of(&a)));
    ThreadResult {
        since_stamp: None,
        index,
        tid: m.tid,
        cpu,
        node: cpu.and_then(|cpu| setup::node_of(cpu.0)),
        policy: config.policy,
        priority: config.priority_of(index),
        interval_ns: config.interval_of(index),
        woken: None,
        wakeups: m.counted.latency.count,
        missed_periods: m.counted.missed_periods,
        wakeups_with_misses: m.counted.with_misses,
        latency: m.counted.latency,
        missed: m.counted.missed,
        last_ns: shared.lives[index].last_ns.load(Ordering::Relaxed),
        worst: m.counted.worst,
        timeline: m.counted.timeline,
        us_histogram: m.counted.us,
        cpu_time_ns: m.cpu_time_ns,
        window: Window {
            start_ns: m.start_ns,
            length_ns: m.end_ns.saturating_sub(m.start_ns),
            migrations: m.migrations,
            minor_faults: since(|u| u.minor_faults),
            major_faults: since(|u| u.major_faults),
            voluntary_switches: since(|u| u.voluntary),
            involuntary_switches: since(|u| u.involuntary),
            ..Window::default()
        },
        interrupts: Vec::new(),
        samples_lost: shared.rings.get(index).map_or(0, Ring::lost),
    }
}

/// Adds what the CPUs took meanwhile: to each bound thread, and once for all CPUs concerned.
pub(super) fn surroundings(result: &mut WakeupResult, before: &Counters, after: &Counters) {
    let interrupts = |cpus: &[CpuId]| {
        let list = after.interrupts_since(before, cpus);
        let total = after.knows_interrupts().then(|| list.iter().map(|(_, n)| n).sum());
        (list, total)
    };
    for t in &mut result.threads {
        if let Some(cpu) = t.cpu {
            t.window.steal_ns = after.steal_ns_since(before, &[cpu]);
            (t.interrupts, t.window.interrupts) = interrupts(&[cpu]);
        }
    }
    let mut cpus: Vec<CpuId> = match result.threads.iter().map(|t| t.cpu).collect() {
        Some(bound) => bound,
        None => policy::online().unwrap_or_default(),
    };
    cpus.sort_unstable();
    cpus.dedup();
    result.steal_ns = after.steal_ns_since(before, &cpus);
    result.interrupts = interrupts(&cpus).1;
}
