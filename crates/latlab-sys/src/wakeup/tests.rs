//! The loop on this kernel: counts, never wall time.

use super::*;
use latlab_model::units::CpuId;
use latlab_model::wakeup::config::{Policy, WakeupConfig};
use latlab_model::wakeup::result::{StopReason, WakeupResult};

fn config() -> WakeupConfig {
    WakeupConfig {
        policy: Policy::Other,
        priority: 0,
        interval_ns: 500_000,
        loops: Some(50),
        ..WakeupConfig::default()
    }
}

#[test]
fn every_loop_is_counted_once_and_every_period_once() {
    let result = run(&config(), Hooks::default()).unwrap();
    let t = &result.threads[0];
    assert!(result.complete);
    assert_eq!((t.wakeups, t.latency.count), (50, 50));
    assert_eq!(t.missed.count, t.missed_periods);
    assert_eq!(t.worst[0].latency_ns, t.latency.max);
    assert_eq!(t.timeline.slots.iter().map(|s| s.count).sum::<u64>(), 50);
}

#[test]
fn samples_are_all_delivered_and_agree_with_the_histogram() {
    let mut all: Vec<Sample> = Vec::new();
    let mut sink = |_: usize, samples: &[Sample]| {
        all.extend_from_slice(samples);
        Ok(())
    };
    let hooks = Hooks { on_samples: Some(&mut sink), ..Hooks::default() };
    let result = run(&WakeupConfig { samples: true, ..config() }, hooks).unwrap();
    let t = &result.threads[0];
    assert_eq!(all.len() as u64, t.wakeups);
    let latencies = all.iter().map(|s| s.latency_ns);
    assert_eq!(latencies.clone().max(), Some(t.latency.max));
    // Intended times advance by whole periods, missed ones included.
    let steps = all.windows(2).map(|w| (w[1].intended_ns - w[0].intended_ns) / t.interval_ns - 1);
    let after_last = t.last_ns / t.interval_ns;
    assert_eq!(steps.sum::<u64>() + after_last, t.missed_periods);
    assert!(all.windows(2).all(|w| (w[1].intended_ns - w[0].intended_ns) % t.interval_ns == 0));
}

#[test]
fn a_late_wake_up_reaches_the_hook_and_the_break_value_stops() {
    let seen = AtomicU64::new(0);
    let on_late = |wake: &LateWake| {
        seen.fetch_add(1, Ordering::Relaxed);
        assert!(wake.latency_ns > 0 && wake.tid > 0);
        Next::Continue
    };
    let late = AtomicU64::new(0);
    let hooks = Hooks { late_ns: Some(&late), on_late: Some(&on_late), ..Hooks::default() };
    let config = WakeupConfig { break_ns: Some(1), ..config() };
    let result = run(&config, hooks).unwrap();
    assert!(!result.complete && result.limit_exceeded());
    assert!(matches!(result.stopped_by, Some(StopReason::BreakValue { cycle: 1, .. })));
    assert_eq!(seen.load(Ordering::Relaxed), 1);
}

#[test]
fn a_hook_can_stop_it() {
    let stop = |_: &[LiveThread]| Next::Stop;
    let mut stop = stop;
    let hooks = Hooks { on_tick: Some(&mut stop), ..Hooks::default() };
    let config = WakeupConfig { loops: None, interval_ns: 10_000_000_000, ..config() };
    let result = run(&config, hooks).unwrap();
    assert_eq!(result.stopped_by, Some(StopReason::Hook));
    assert!(!result.complete);
}

#[test]
fn what_cannot_be_measured_is_refused_in_a_sentence() {
    let refuse = |config: WakeupConfig| run(&config, Hooks::default()).unwrap_err();
    let zero = refuse(WakeupConfig { interval_ns: 0, ..config() });
    assert!(matches!(zero, WakeupError::ZeroInterval) && zero.hint().is_some());
    let absent = refuse(WakeupConfig { threads: vec![Some(CpuId(4_000))], ..config() });
    assert!(absent.to_string().starts_with("CPU 4000 is not online (online: 0"), "{absent}");
    assert!(matches!(
        refuse(WakeupConfig { threads: Vec::new(), ..config() }),
        WakeupError::NoThreads
    ));
    let short = refuse(WakeupConfig { interval_ns: 100, ..config() });
    assert!(matches!(short, WakeupError::Share { .. }), "{short}");
    let bound =
        WakeupConfig { policy: Policy::Deadline, threads: vec![Some(CpuId(0))], ..config() };
    assert!(matches!(refuse(bound), WakeupError::BoundDeadline));
}

#[test]
fn a_sink_that_fails_keeps_what_was_measured() {
    let mut sink = |_: usize, _: &[Sample]| Err(io::Error::from_raw_os_error(28));
    let hooks = Hooks { on_samples: Some(&mut sink), ..Hooks::default() };
    let config = WakeupConfig { samples: true, loops: Some(1_000_000), ..config() };
    let result = run(&config, hooks).unwrap();
    assert_eq!(result.stopped_by, Some(StopReason::Samples));
    assert!(!result.complete && result.threads[0].wakeups > 0);
}

#[test]
fn each_timer_wakes_once_a_period() {
    use latlab_model::wakeup::mechanism::Mechanism;
    for timer in [Mechanism::Nanosleep, Mechanism::Timerfd, Mechanism::PosixTimer] {
        let result = run(&WakeupConfig { timer, ..config() }, Hooks::default()).unwrap();
        let t = &result.threads[0];
        assert_eq!((t.wakeups, result.method.as_str()), (50, timer.id()));
        assert_eq!(t.missed.count, t.missed_periods);
        // Woken before time would be no latency at all.
        assert!(t.latency.min > 0, "{timer}");
        assert!(result.duration_ns >= 49 * 500_000, "{timer}: {}", result.duration_ns);
    }
}

/// All mechanisms in turns, from the receiver's CPU and from another where there is one.
fn in_turns(loops: Option<u64>, break_ns: Option<u64>, hooks: Hooks<'_>) -> WakeupResult {
    use latlab_model::wakeup::mechanism::{Mechanism, Mechanisms};
    let cpus = crate::policy::allowed().unwrap();
    let by = Mechanisms {
        mechanisms: Mechanism::ALL.into_iter().filter(|m| !m.is_outside()).collect(),
        senders: cpus.iter().copied().take(2).collect(),
        ..Mechanisms::default()
    };
    let config =
        WakeupConfig { threads: vec![Some(cpus[0])], by: Some(by), loops, break_ns, ..config() };
    run(&config, hooks).unwrap()
}

#[test]
fn every_mechanism_wakes_as_often_as_it_was_asked_to() {
    let result = in_turns(Some(25), None, Hooks::default());
    assert!(result.complete, "{:?}", result.stopped_by);
    assert!(result.notes.iter().all(|n| n.id() != Some("wakeup.mechanism-lost")));
    assert!(result.threads.len() >= 12, "{:?}", result.notes);
    for t in &result.threads {
        let woken = t.woken.unwrap();
        assert_eq!((t.wakeups, t.latency.count), (25, 25), "{woken:?}");
        assert!(t.latency.min > 0, "{woken:?}");
        assert_eq!(t.timeline.slots.iter().map(|s| s.count).sum::<u64>(), 25);
    }
}

#[test]
fn mechanisms_in_turns_stop_at_a_break_value_and_when_they_are_told_to() {
    let result = in_turns(None, Some(1), Hooks::default());
    assert!(matches!(result.stopped_by, Some(StopReason::BreakValue { cycle: 1, .. })));
    // Wherever the receiver waits just then.
    for ticks in 1..8 {
        let mut left = ticks;
        let mut tick = |_: &[LiveThread]| {
            left -= 1;
            if left == 0 { Next::Stop } else { Next::Continue }
        };
        let hooks = Hooks { on_tick: Some(&mut tick), ..Hooks::default() };
        assert_eq!(in_turns(None, None, hooks).stopped_by, Some(StopReason::Hook));
    }
}
