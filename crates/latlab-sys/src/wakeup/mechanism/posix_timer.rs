//! A timer of `timer_create(2)` whose signal one thread waits for. By system calls: the C library's
//! types of a timer differ.

use crate::wakeup::os;
use libc::c_long;
use std::io;

/// A timer that signals the thread which made it.
pub struct PosixTimer {
    /// The kernel's number of it.
    id: libc::c_int,
}

fn signal() -> i32 {
    libc::SIGRTMIN() + 1
}

/// The signals that [`take`] waits for: one.
pub fn only(signal: i32) -> libc::sigset_t {
    // SAFETY: a set is plain integers, and sigemptyset initialises it.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        set
    }
}

/// Blocks a signal in the calling thread, so that it can be waited for.
pub fn block(signal: i32) {
    let set = only(signal);
    // SAFETY: the set is initialised; no old mask is asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
}

/// Waits for one of the signals.
///
/// # Errors
/// `Interrupted` when another signal came.
#[inline]
pub fn take(set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: the set is initialised; no information is asked for.
    let got = unsafe { libc::sigwaitinfo(set, std::ptr::null_mut()) };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Takes what is pending of the signals.
pub fn drain(set: &libc::sigset_t) {
    // SAFETY: a timespec is plain integers, for which zero is a value.
    let now: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: set and time are initialised; no information is asked for.
    while unsafe { libc::sigtimedwait(set, std::ptr::null_mut(), &raw const now) } > 0 {}
}

impl PosixTimer {
    /// A disarmed timer on CLOCK_MONOTONIC; its signal is blocked in the calling thread.
    ///
    /// # Errors
    /// When the kernel has none (CONFIG_POSIX_TIMERS) or no more.
    pub fn new() -> io::Result<Self> {
        block(signal());
        // SAFETY: a sigevent is plain integers, for which zero is a value.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal();
        event.sigev_notify_thread_id = os::tid();
        let mut id: libc::c_int = -1;
        // SAFETY: reads one sigevent, writes one int; both are live.
        let made = unsafe {
            libc::syscall(
                libc::SYS_timer_create,
                libc::CLOCK_MONOTONIC,
                &raw const event,
                &raw mut id,
            )
        };
        if made < 0 { Err(io::Error::last_os_error()) } else { Ok(Self { id }) }
    }

    fn set(&self, first_ns: u64, interval_ns: u64) -> io::Result<()> {
        let times = [interval_ns, first_ns];
        let parts = |ns: u64| [(ns / 1_000_000_000) as c_long, (ns % 1_000_000_000) as c_long];
        // struct itimerspec of this system call: interval and value, each seconds and ns as longs.
        let spec: [[c_long; 2]; 2] = times.map(parts);
        let none = std::ptr::null_mut::<c_long>();
        // SAFETY: reads a whole itimerspec, which outlives the call; no old value is asked for.
        let set = unsafe {
            libc::syscall(
                libc::SYS_timer_settime,
                self.id,
                libc::TIMER_ABSTIME,
                spec.as_ptr(),
                none,
            )
        };
        if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Expires at `first_ns` and then each `interval_ns`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn arm(&self, first_ns: u64, interval_ns: u64) -> io::Result<()> {
        self.set(first_ns, interval_ns)
    }

    /// Expires no more, and no signal of it is pending.
    pub fn disarm(&self) {
        // Disarming a timer of one's own does not fail.
        let _ = self.set(0, 0);
        drain(&only(signal()));
    }

    /// Waits for it; the periods that are over, or `None` when another signal came.
    #[inline]
    pub fn wait(&self) -> Option<u64> {
        take(&only(signal())).ok()?;
        // SAFETY: plain integers.
        let overrun = unsafe { libc::syscall(libc::SYS_timer_getoverrun, self.id) };
        Some(1 + u64::try_from(overrun).unwrap_or(0))
    }
}

impl Drop for PosixTimer {
    fn drop(&mut self) {
        // SAFETY: plain integers; the timer is ours.
        unsafe { libc::syscall(libc::SYS_timer_delete, self.id) };
    }
}
