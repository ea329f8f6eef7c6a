//! The system calls of the measurement, one a function.

pub use crate::clock::thread_cpu_ns;
use rustix::thread::ClockId;
use rustix::time::Timespec;
use std::io;

/// Now, ns of CLOCK_MONOTONIC. One vDSO call where the kernel has one.
#[inline]
pub fn now_ns() -> u64 {
    let t = rustix::time::clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Step of the kernel's timers, ns: 1 with high-resolution timers, else a tick (clock_getres(2)).
pub fn timer_step_ns() -> u64 {
    let t = rustix::time::clock_getres(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// A time as the kernel takes it.
#[inline]
pub fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ }
}

/// Sleeps to an absolute time; false when a signal ended the sleep before.
#[inline]
pub fn sleep_until(ns: u64) -> bool {
    rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &timespec(ns)).is_ok()
}

/// Sleeps so long; false when a signal ended the sleep before.
#[inline]
pub fn sleep_for(ns: u64) -> bool {
    let slept = rustix::thread::clock_nanosleep_relative(ClockId::Monotonic, &timespec(ns));
    matches!(slept, rustix::thread::NanosleepRelativeResult::Ok)
}

/// CPU time of this process, ns.
pub fn process_cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// CPU time of another thread of this process, ns.
pub fn cpu_ns_of(tid: i32) -> Option<u64> {
    // A thread's CPU clock is numbered ~tid << 3 | 0b110 (per thread, scheduler's time);
    // linux/posix-timers.h, MAKE_THREAD_CPUCLOCK.
    let clock = (!tid << 3) | 6;
    // SAFETY: a timespec is plain integers, for which zero is a value.
    let mut t: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: writes one timespec to a live value; a clock of a thread that is gone is an error.
    let rc = unsafe { libc::clock_gettime(clock, &raw mut t) };
    (rc == 0).then(|| t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// Counters of the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Page faults served without I/O.
    pub minor_faults: u64,
    /// Page faults that needed I/O.
    pub major_faults: u64,
    /// Switches because the thread waited.
    pub voluntary: u64,
    /// Switches because it was preempted.
    pub involuntary: u64,
}

impl Usage {
    /// Adds what was counted from `before` to `after`.
    pub fn add(&mut self, before: &Self, after: &Self) {
        self.minor_faults += after.minor_faults.saturating_sub(before.minor_faults);
        self.major_faults += after.major_faults.saturating_sub(before.major_faults);
        self.voluntary += after.voluntary.saturating_sub(before.voluntary);
        self.involuntary += after.involuntary.saturating_sub(before.involuntary);
    }
}

/// Counters of the calling thread (`RUSAGE_THREAD`), if the kernel tells.
pub fn thread_usage() -> Option<Usage> {
    // SAFETY: a rusage is plain integers, for which zero is a value.
    let mut u: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: writes one rusage to a live value.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut u) } != 0 {
        return None;
    }
    Some(Usage {
        minor_faults: u.ru_minflt as u64,
        major_faults: u.ru_majflt as u64,
        voluntary: u.ru_nvcsw as u64,
        involuntary: u.ru_nivcsw as u64,
    })
}

/// Thread id of the caller.
pub fn tid() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Leaves SIGINT, SIGTERM and SIGHUP to the main thread.
pub fn block_stop_signals() {
    // SAFETY: the set is initialised by sigemptyset before use; no old mask is asked for.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

extern "C" fn nothing(_: libc::c_int) {}

/// Makes SIGURG end a sleep and do nothing else. (Its default is to be ignored.)
pub fn let_sleeps_be_ended() {
    // SAFETY: `action` is fully initialised, the handler does nothing; no SA_RESTART, so that
    // sleeps return. The old action is not asked for.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGURG, &raw const action, std::ptr::null_mut());
    }
}

/// Ends the sleep of another thread of this process.
pub fn end_sleep_of(tid: i32) {
    // SAFETY: tgkill takes plain integers; a thread that is gone is an error that does not matter.
    unsafe {
        libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, libc::SIGURG);
    }
}

/// Locks all memory, present and future.
///
/// # Errors
/// `ENOMEM` over RLIMIT_MEMLOCK, `EPERM` without any.
pub fn lock_memory() -> io::Result<()> {
    use rustix::mm::MlockAllFlags as Flags;
    Ok(rustix::mm::mlockall(Flags::CURRENT | Flags::FUTURE)?)
}

/// Undoes [`lock_memory`].
pub fn unlock_memory() {
    let _ = rustix::mm::munlockall();
}
