//! Keeps a one-core board reachable: a thread of higher priority that stops a
//! measuring thread which takes nearly all of its CPU.
//!
//! It wakes four times a second, half-way between the wake-ups that are measured, so as not
//! to be measured itself.

use super::{Control, Stop, os};
use crate::policy::{self, Budget};
use latlab_model::finding::Note;
use latlab_model::wakeup::config::{Policy, WakeupConfig};
use std::sync::atomic::Ordering;

/// How often it looks.
const PERIOD_NS: u64 = 250_000_000;
/// Share of a CPU, per cent, over which a thread is stopped when it took it in two looks on end.
const TOO_MUCH: u64 = 90;

/// Raises the calling thread above the measuring threads; says so when it could not.
pub fn rise(config: &WakeupConfig) -> Option<Note> {
    let above = config.priority + 1;
    let done = match config.policy {
        Policy::Fifo | Policy::Rr if above <= 99 => {
            policy::set(Policy::Fifo, above, Budget::default())
        }
        // Only a deadline task goes before FIFO 99 and other deadline tasks of a later deadline.
        Policy::Fifo | Policy::Rr | Policy::Deadline => {
            let budget = Budget { runtime_ns: 500_000, period_ns: 100_000_000 };
            policy::set(Policy::Deadline, 0, budget)
        }
        Policy::Other | Policy::Batch | Policy::Idle => return None,
    };
    let Err(error) = done else { return None };
    // As high as the measuring threads is better than nothing: it runs where they do not.
    let same = policy::set(Policy::Fifo, config.priority.clamp(1, 99), Budget::default());
    let id = match same {
        Ok(()) => "wakeup.watchdog-same-priority",
        Err(_) => "wakeup.watchdog-not-real-time",
    };
    Some(Note::new(id).value("error", error.to_string()))
}

/// Watches until the measurement is finished. `threads` are those that measure.
pub fn watch(control: &Control, threads: &[i32], start_ns: u64, config: &WakeupConfig) {
    let off_phase = config.interval_ns / (2 * threads.len().max(1) as u64);
    let period = (PERIOD_NS / config.interval_ns).max(1) * config.interval_ns;
    let mut next = start_ns + off_phase;
    let mut before: Vec<(u64, u64)> = vec![(0, 0); threads.len()];
    let mut strikes = vec![0u32; threads.len()];
    while !control.finished.load(Ordering::Relaxed) && !control.stopping() {
        next += period;
        while !os::sleep_until(next) {
            if control.finished.load(Ordering::Relaxed) {
                return;
            }
        }
        let now = os::now_ns();
        for (i, &tid) in threads.iter().enumerate() {
            let Some(cpu) = os::cpu_ns_of(tid) else { continue };
            let (then, used) = std::mem::replace(&mut before[i], (now, cpu));
            let percent = share(cpu.saturating_sub(used), now.saturating_sub(then));
            strikes[i] = if then > 0 && percent > TOO_MUCH { strikes[i] + 1 } else { 0 };
            if strikes[i] == 2 && control.stop(Stop::Runaway, i) {
                control.percent.store(percent as u32, Ordering::Relaxed);
            }
        }
        // After a stall of the machine, do not run to catch up.
        next = next.max(now.saturating_sub(now.saturating_sub(next) % period));
    }
}

fn share(used_ns: u64, of_ns: u64) -> u64 {
    (u128::from(used_ns) * 100 / u128::from(of_ns.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that never sleeps is stopped by the watch, whatever its policy.
    #[test]
    fn a_thread_that_takes_its_cpu_is_stopped() {
        let control = Control::default();
        let config = WakeupConfig { policy: Policy::Other, ..WakeupConfig::default() };
        let (tx, rx) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                tx.send(os::tid()).unwrap();
                // On a loaded machine its share is less: then the test only ends later.
                while !control.stopping() {
                    std::hint::spin_loop();
                }
            });
            let tid = rx.recv().unwrap();
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(4);
            let (control, config) = (&control, &config);
            scope.spawn(move || watch(control, &[tid], os::now_ns(), config));
            while !control.stopping() && std::time::Instant::now() < deadline {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            let seen = control.reason();
            control.finished.store(true, Ordering::Relaxed);
            control.stop(Stop::Signal, 0);
            if seen.is_some() {
                assert_eq!(seen, Some(Stop::Runaway));
                assert!(control.percent.load(Ordering::Relaxed) > 90);
            }
        });
    }

    #[test]
    fn shares_do_not_overflow() {
        assert_eq!(share(u64::MAX, u64::MAX), 100);
        assert_eq!(share(5, 0), 500);
    }
}
