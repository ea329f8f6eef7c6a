//! Several mechanisms in turns: a receiver that measures, a sender that gives it blocks of wake-ups in
//! random order and wakes it where no timer does.

use super::channel::Pair;
use super::pi::LEAST_PRIORITY;
use super::sender::send;
use super::shared::{Ready, Row, Shared, WARM_UP};
use super::source::Source;
use super::turn::Turn;
use crate::policy::{self, Budget};
use crate::signal;
use crate::wakeup::cycle::{Cycle, Live, Progress};
use crate::wakeup::meter::Meter;
use crate::wakeup::run::{self, LEAD_NS, STACK, TICK};
use crate::wakeup::setup::{self, PinnedSettings};
use crate::wakeup::trace_mark::TraceMark;
use crate::wakeup::window::Counters;
use crate::wakeup::{Control, Hooks, LiveThread, Next, Stop, WakeupError, os};
use latlab_model::finding::{Note, Quantity};
use latlab_model::record::Window;
use latlab_model::wakeup::config::{Policy, WakeupConfig};
use latlab_model::wakeup::mechanism::{Mechanism, Mechanisms, Woken};
use latlab_model::wakeup::result::{LateWake, ThreadResult, WakeupResult};
use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{Builder, Scope};

/// Measures each row until the duration, the number of loops, the break value or a signal ends it.
///
/// # Errors
/// When it cannot begin, with a hint.
pub fn run(
    config: &WakeupConfig,
    by: &Mechanisms,
    mut hooks: Hooks<'_>,
) -> Result<WakeupResult, WakeupError> {
    let (rows, missing) = open(config, by)?;
    let mark = config.trace_mark.then(TraceMark::open).transpose()?;
    if let Some(cpu) = config.main_cpu {
        policy::bind(&[cpu]).map_err(|source| WakeupError::Bind { cpu, source })?;
    }
    os::let_sleeps_be_ended();
    let held = PinnedSettings::take(config)?;
    let (never, start_ns) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
    let receiver = AtomicI32::new(0);
    let (control, turn) = (Control::default(), Turn::default());
    let shared = Shared {
        config,
        control: &control,
        rows: &rows,
        turn: &turn,
        receiver: &receiver,
        start_ns: &start_ns,
        late_ns: hooks.late_ns.unwrap_or(&never),
        on_late: hooks.on_late,
        mark: mark.as_ref(),
    };
    let before = Counters::read();
    let cpu_before = os::process_cpu_ns();
    let mut result = std::thread::scope(|scope| measure(scope, &shared, &mut hooks))?;
    result.process_cpu_ns = os::process_cpu_ns().saturating_sub(cpu_before);
    // Of each row there is only what its own thread counted: the rows share CPU and time.
    let own: Vec<Window> = result.threads.iter().map(|t| t.window.clone()).collect();
    run::surroundings(&mut result, &before, &Counters::read());
    for (t, window) in result.threads.iter_mut().zip(own) {
        (t.window, t.interrupts) = (window, Vec::new());
    }
    let lost = rows.iter().filter(|r| r.lost.load(Ordering::Relaxed));
    result.notes.extend(missing);
    result.notes.extend(lost.map(|r| note("wakeup.mechanism-lost", r.woken)));
    result.notes.extend(rows.iter().filter_map(replies_lost));
    result.notes.extend(held.refused.iter().cloned());
    result.held = held.settings.clone();
    result.rt_throttling_us = setup::rt_throttling();
    Ok(result)
}

fn note(id: &str, woken: Woken) -> Note {
    let note = Note::new(id).value("mechanism", woken.by.id());
    match woken.from {
        Some(cpu) => note.value("cpu", cpu.to_string()),
        None => note,
    }
}

/// Calls to another machine without a reply.
fn replies_lost(row: &Row) -> Option<Note> {
    let lost = row.pair.as_ref()?.echo()?.lost();
    let note = note("wakeup.replies-lost", row.woken).value("lost", Quantity::Count(lost));
    (lost > 0).then_some(note)
}

/// The rows that this kernel can measure, and why others are missing.
fn open(config: &WakeupConfig, by: &Mechanisms) -> Result<(Vec<Row>, Vec<Note>), WakeupError> {
    let (mut rows, mut missing, mut last) = (Vec::new(), Vec::<Note>::new(), None);
    for woken in by.rows() {
        let opened = match woken.by.is_timer() {
            true => Source::timer(woken.by).map(|_| None),
            false if woken.by == Mechanism::PiInversion && !has_two_below(config) => Err(
                io::Error::other("it needs SCHED_FIFO or SCHED_RR with a priority of 3 or more"),
            ),
            false => Pair::open(woken.by, by).map(Some),
        };
        match opened {
            Ok(pair) => {
                rows.push(Row { woken, pair, live: Live::default(), lost: AtomicBool::new(false) })
            }
            Err(source) => {
                let error = source.to_string();
                let woken = Woken { from: None, ..woken };
                missing.push(note("wakeup.mechanism-missing", woken).value("error", error));
                last = Some(WakeupError::Mechanism { mechanism: woken.by, source });
            }
        }
    }
    missing.dedup();
    match last {
        _ if !rows.is_empty() => Ok((rows, missing)),
        Some(error) => Err(error),
        None => Err(WakeupError::NoThreads),
    }
}

/// Whether two threads can have a lower priority than the receiver.
fn has_two_below(config: &WakeupConfig) -> bool {
    matches!(config.policy, Policy::Fifo | Policy::Rr) && config.priority >= LEAST_PRIORITY
}

/// What the receiver counted of one row.
struct Counted {
    meter: Meter,
    progress: Progress,
    cpu_ns: u64,
    usage: os::Usage,
}

/// What the receiver brings back.
struct Received {
    counted: Vec<Counted>,
    broke: Option<LateWake>,
    end_ns: u64,
}

fn measure<'scope, 'a: 'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'scope Shared<'a>,
    hooks: &mut Hooks<'_>,
) -> Result<WakeupResult, WakeupError> {
    let (ready, all_ready) = mpsc::channel();
    let said = ready.clone();
    let named = |name: &str| Builder::new().name(name.to_owned()).stack_size(STACK);
    let receiver = named("wakeup/0").spawn_scoped(scope, move || receive(shared, &said));
    let receiver = receiver.map_err(WakeupError::Thread)?;
    let sender = named("waker").spawn_scoped(scope, move || send(shared, &ready));
    let sender = sender.map_err(|error| {
        shared.turn.end();
        WakeupError::Thread(error)
    })?;
    let tids = match run::wait_for_all(&all_ready, 2) {
        Ok(tids) => tids,
        Err(error) => {
            shared.control.stop(Stop::Signal, 0);
            shared.start_ns.store(u64::MAX, Ordering::Release);
            shared.turn.end();
            return Err(error);
        }
    };
    let start_ns = os::now_ns() + LEAD_NS;
    let (dog, mut notes) =
        run::start_watchdog(scope, shared.config, shared.control, &tids, start_ns);
    shared.start_ns.store(start_ns, Ordering::Release);
    loop {
        let done = receiver.is_finished() && sender.is_finished();
        if let Some(on_tick) = hooks.on_tick.as_mut()
            && on_tick(&live(shared, tids[0])) == Next::Stop
        {
            shared.control.stop(Stop::Hook, 0);
        }
        if done {
            break;
        }
        if signal::stop_requested().is_some() {
            shared.control.stop(Stop::Signal, 0);
        }
        if shared.control.stopping() {
            tids.iter().for_each(|&tid| os::end_sleep_of(tid));
        }
        std::thread::park_timeout(TICK);
    }
    shared.control.finished.store(true, Ordering::Relaxed);
    let received = receiver.join().map_err(|_| ended())?.ok_or_else(ended)?;
    let _ = sender.join();
    if let Some((dog, tid)) = dog {
        os::end_sleep_of(tid);
        let _ = dog.join();
    }
    let mut result = collect(shared, received, tids[0], start_ns);
    result.notes.append(&mut notes);
    Ok(result)
}

fn ended() -> WakeupError {
    WakeupError::Thread(io::Error::other("it ended while it measured"))
}

fn live(shared: &Shared<'_>, tid: i32) -> Vec<LiveThread> {
    let get = |a: &AtomicU64| a.load(Ordering::Relaxed);
    let one = |Row { live: l, .. }: &Row| LiveThread {
        tid,
        priority: shared.config.priority_of(0),
        interval_ns: shared.config.interval_ns,
        wakeups: get(&l.wakeups),
        missed_periods: get(&l.missed),
        min_ns: get(&l.min_ns),
        last_ns: get(&l.last_ns),
        sum_ns: get(&l.sum_ns),
        max_ns: get(&l.max_ns),
        recent_min_ns: l.recent_min_ns.swap(u64::MAX, Ordering::Relaxed),
        recent_max_ns: l.recent_max_ns.swap(0, Ordering::Relaxed),
    };
    shared.rows.iter().map(one).collect()
}

/// The receiver, from its first to its last line.
fn receive(shared: &Shared<'_>, ready: &Ready) -> Option<Received> {
    os::block_stop_signals();
    let (mut counted, sources) = match set_up(shared) {
        Ok(set_up) => set_up,
        Err(error) => {
            let _ = ready.send((0, Err(error)));
            return None;
        }
    };
    let tid = os::tid();
    let scratch = Meter::new(shared.config, shared.config.interval_ns, None);
    let mut scratch = scratch.or_else(|| {
        let _ = ready.send((0, Err(WakeupError::Memory(0))));
        None
    })?;
    shared.receiver.store(tid, Ordering::Relaxed);
    let _ = ready.send((0, Ok(tid)));
    let (mut broke, mut begun) = (None, false);
    while let Some((row, count)) = shared.turn.take() {
        if !begun {
            let start = shared.start_ns.load(Ordering::Acquire);
            counted.iter_mut().for_each(|c| c.meter.start_at(start));
            begun = true;
        }
        let broken =
            block(shared, (row, tid), count, &sources[row], &mut counted[row], &mut scratch);
        broke = broke.or(broken);
        shared.turn.back();
    }
    let end_ns = os::now_ns();
    // What follows is no measurement: no longer in anybody's way.
    let _ = policy::set(Policy::Other, 0, Budget::default());
    Some(Received { counted, broke, end_ns })
}

/// Binds, opens timers, allocates and writes what will be written, then takes the policy.
fn set_up<'a>(shared: &Shared<'a>) -> Result<(Vec<Counted>, Vec<Source<'a>>), WakeupError> {
    let config = shared.config;
    if let Some(cpu) = config.threads[0] {
        policy::bind(&[cpu]).map_err(|source| WakeupError::Bind { cpu, source })?;
    }
    let (mut counted, mut sources) = (Vec::new(), Vec::new());
    for row in shared.rows {
        let mechanism = row.woken.by;
        sources.push(match &row.pair {
            Some(pair) => {
                pair.adopt();
                Source::Thread(pair, Cell::new(0))
            }
            None => Source::timer(mechanism)
                .map_err(|source| WakeupError::Mechanism { mechanism, source })?,
        });
        let meter = Meter::new(config, config.interval_ns, config.duration_ns);
        let mut meter = meter.ok_or(WakeupError::Memory(0))?;
        if row.pair.as_ref().is_some_and(Pair::is_stamped) {
            meter.count_stamps();
        }
        let (progress, usage) = (Progress::default(), os::Usage::default());
        counted.push(Counted { meter, progress, cpu_ns: 0, usage });
    }
    run::take_policy(config, 0)?;
    Ok((counted, sources))
}

/// Measures one block of a row: the first wake-ups do not count.
fn block(
    shared: &Shared<'_>,
    (row, tid): (usize, i32),
    count: u64,
    source: &Source<'_>,
    counted: &mut Counted,
    scratch: &mut Meter,
) -> Option<LateWake> {
    let config = shared.config;
    let never = AtomicU64::new(u64::MAX);
    let live = Live::default();
    let warm_up = Cycle {
        index: row,
        tid,
        interval_ns: config.interval_ns,
        loops: WARM_UP,
        end_ns: u64::MAX,
        break_ns: u64::MAX,
        late_ns: &never,
        on_late: None,
        mark: None,
        control: shared.control,
        live: &live,
        ring: None,
        lock: None,
        source,
        compute_ns: 0,
    };
    let cycle = Cycle {
        loops: count,
        end_ns: shared.end_ns(),
        break_ns: config.break_ns.unwrap_or(u64::MAX),
        late_ns: shared.late_ns,
        on_late: shared.on_late,
        mark: shared.mark,
        live: &shared.rows[row].live,
        ..warm_up
    };
    let mut next = os::now_ns() + config.interval_ns;
    scratch.start_at(next);
    let mut broke = None;
    if source.start(next, config.interval_ns).is_ok() {
        warm_up.run(scratch, &mut Progress::default(), &mut next);
        scratch.reset();
        let (usage, cpu) = (os::thread_usage(), os::thread_cpu_ns());
        broke = cycle.run(&mut counted.meter, &mut counted.progress, &mut next);
        counted.cpu_ns += os::thread_cpu_ns().saturating_sub(cpu);
        if let Some((before, after)) = usage.zip(os::thread_usage()) {
            counted.usage.add(&before, &after);
        }
    } else {
        shared.rows[row].lost.store(true, Ordering::Relaxed);
    }
    source.stop();
    broke
}

fn collect(shared: &Shared<'_>, received: Received, tid: i32, start_ns: u64) -> WakeupResult {
    let config = shared.config;
    let stopped_by = run::stop_reason(shared.control, received.broke);
    let duration_ns = received.end_ns.saturating_sub(start_ns);
    let row = |(index, (row, counted)): (usize, (&Row, Counted))| {
        let (usage, m) = (counted.usage, counted.meter.finish());
        ThreadResult {
            index,
            tid,
            cpu: config.threads[0],
            policy: config.policy,
            priority: config.priority_of(0),
            interval_ns: config.interval_ns,
            woken: Some(row.woken),
            wakeups: m.latency.count,
            missed_periods: m.missed_periods,
            wakeups_with_misses: m.with_misses,
            latency: m.latency,
            missed: m.missed,
            since_stamp: m.since_stamp,
            last_ns: row.live.last_ns.load(Ordering::Relaxed),
            worst: m.worst,
            timeline: m.timeline,
            cpu_time_ns: counted.cpu_ns,
            window: Window {
                start_ns,
                length_ns: duration_ns,
                minor_faults: Some(usage.minor_faults),
                major_faults: Some(usage.major_faults),
                voluntary_switches: Some(usage.voluntary),
                involuntary_switches: Some(usage.involuntary),
                ..Window::default()
            },
            ..ThreadResult::default()
        }
    };
    WakeupResult {
        config: config.clone(),
        method: "mechanisms in turns".into(),
        warm_up_wakeups: WARM_UP,
        complete: stopped_by.is_none(),
        stopped_by,
        start_ns,
        duration_ns,
        timer_step_ns: Some(os::timer_step_ns()),
        threads: shared.rows.iter().zip(received.counted).enumerate().map(row).collect(),
        ..WakeupResult::default()
    }
}
