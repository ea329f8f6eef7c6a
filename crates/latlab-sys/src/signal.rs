//! Being asked to stop: SIGINT, SIGTERM and SIGHUP set a flag that every loop looks at.
//!
//! The first signal asks; whoever measures finishes its period, keeps what it
//! has, restores what it changed and returns. A second SIGINT while that takes
//! too long kills the process the ordinary way; the journal of knobs then has
//! what is left to restore.

use std::sync::atomic::{AtomicI32, Ordering};

static STOP: AtomicI32 = AtomicI32::new(0);

extern "C" fn on_signal(signal: libc::c_int) {
    if STOP.swap(signal, Ordering::Relaxed) != 0 {
        // SAFETY: signal(2) and raise(3) are async-signal-safe and take plain integers.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
}

/// Installs the handlers. Call once, before the first thread is started.
pub fn install() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: `action` is fully initialised, the handler is async-signal-safe (an atomic and
        // signal/raise only), and the old action is not asked for. No SA_RESTART: sleeps must end.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Takes the handlers away again, so that a signal ends the process at once: for
/// measuring processes, which have nothing to restore.
pub fn forget() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
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
    let _ = STOP.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
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
