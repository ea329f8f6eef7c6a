//! Being asked to stop: SIGINT, SIGTERM and SIGHUP set a flag that every loop looks at.
//!
//! The first signal asks; whoever measures finishes its period, keeps what it
//! has, restores what it changed and returns. A later SIGINT, at least a second
//! after the first signal, kills the process the ordinary way; the journal of
//! settings then has what is left to restore. Any other signal that is repeated
//! changes nothing: timeout(1) sends SIGTERM to its child and then to the group,
//! and a terminal that closes sends SIGHUP twice.
//!
//! A SIGHUP that was ignored when the process began stays ignored, as nohup(1)
//! wants it. SIGINT is handled all the same, as cyclictest does: shells without
//! job control start background jobs with SIGINT ignored, and scripts end them by
//! `kill -INT`.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

static STOP: AtomicI32 = AtomicI32::new(0);
/// When [`STOP`] was set, nanoseconds of CLOCK_MONOTONIC; 0: not yet.
static SINCE: AtomicU64 = AtomicU64::new(0);

/// A person who presses Ctrl-C again has seen that the first one did not end it.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Longest time in which a signal is not noticed while sleeping.
const POLL: Duration = Duration::from_millis(50);

const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGHUP, libc::SIGTERM];

extern "C" fn on_signal(signal: libc::c_int) {
    // clock_gettime(2) is async-signal-safe.
    let now = crate::clock::now().0.max(1);
    let first = SINCE.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
    match first {
        Ok(_) => STOP.store(signal, Ordering::Relaxed),
        Err(since) if signal == libc::SIGINT && now.saturating_sub(since) >= PATIENCE_NS => {
            // SAFETY: signal(2) and raise(3) are async-signal-safe and take plain integers.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
        }
        Err(_) => {}
    }
}

/// Whether the signal is SIGHUP and this process was started with it ignored.
fn is_ignored(signal: libc::c_int) -> bool {
    if signal != libc::SIGHUP {
        return false;
    }
    // SAFETY: a null action changes nothing; `old` is plain data that the kernel fills in.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut old) == 0
            && old.sa_sigaction == libc::SIG_IGN
    }
}

/// Installs the handlers. Call once, before the first thread is started.
pub fn install() {
    for signal in SIGNALS.into_iter().filter(|signal| !is_ignored(*signal)) {
        // SAFETY: `action` is fully initialised, the handler is async-signal-safe (atomics, a
        // clock, signal/raise), and the old action is not asked for. No SA_RESTART: sleeps must end.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Sleeps for that time, or until this process is asked to stop.
pub fn sleep(length: Duration) {
    let begun = Instant::now();
    while stop_requested().is_none() {
        let left = length.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return;
        }
        // std's sleep goes on after a signal.
        std::thread::sleep(left.min(POLL));
    }
}

/// Ignores SIGINT until the value is dropped: while another program has the terminal, Ctrl-C is for
/// that program.
#[must_use]
pub fn ignore_interrupts() -> Ignored {
    // SAFETY: signal(2) with SIG_IGN takes plain integers.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_IGN);
    }
    Ignored(())
}

/// SIGINT is ignored as long as this lives.
#[derive(Debug)]
pub struct Ignored(());

impl Drop for Ignored {
    fn drop(&mut self) {
        install();
    }
}

/// Takes the handlers away again, so that a signal ends the process at once: for measuring processes, and for
/// commands that only print, which have nothing to restore.
pub fn forget() {
    for signal in SIGNALS.into_iter().filter(|signal| !is_ignored(*signal)) {
        // SAFETY: signal(2) with the default action takes plain integers.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

/// The signal that asked to stop, if one did.
pub fn stop_requested() -> Option<Signal> {
    match STOP.load(Ordering::Relaxed) {
        0 => None,
        n => Some(Signal(n)),
    }
}

/// Asks to stop from within (a break value was exceeded, a child ended).
/// A signal that came first is kept.
pub fn request_stop(signal: i32) {
    let now = crate::clock::now().0.max(1);
    if SINCE.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        STOP.store(signal, Ordering::Relaxed);
    }
}

/// A signal number with its name and the exit code that a shell expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal(pub i32);

impl Signal {
    /// `SIGINT`, `SIGTERM`…
    pub fn name(self) -> String {
        match self.0 {
            libc::SIGINT => "SIGINT".into(),
            libc::SIGTERM => "SIGTERM".into(),
            libc::SIGHUP => "SIGHUP".into(),
            n => format!("signal {n}"),
        }
    }
    /// 128 + n, as shells report a death by signal.
    pub fn exit_code(self) -> u8 {
        128u8.saturating_add(u8::try_from(self.0).unwrap_or(127))
    }
}
