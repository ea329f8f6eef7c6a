//! The sources of wake-ups that the measuring loop waits for.

use super::channel::{Pair, Return};
use super::posix_timer::PosixTimer;
use crate::probe::syscall::read;
use crate::wakeup::os;
use latlab_model::wakeup::mechanism::Mechanism;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};
use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;

/// A source of wake-ups.
pub enum Source<'a> {
    /// `clock_nanosleep` to an absolute time.
    Absolute,
    /// `clock_nanosleep` for a relative time.
    Relative,
    /// `timerfd`.
    Fd(OwnedFd),
    /// `timer_create`.
    Posix(PosixTimer),
    /// Another thread, and the wake-ups of it that were taken.
    Thread(&'a Pair, Cell<u64>),
}

impl Source<'_> {
    /// A timer. The thread that opens it is the one that waits.
    ///
    /// # Errors
    /// When the kernel does not have it; `Unsupported` for what is no timer.
    pub fn timer(mechanism: Mechanism) -> io::Result<Self> {
        Ok(match mechanism {
            Mechanism::ClockNanosleep => Self::Absolute,
            Mechanism::Nanosleep => Self::Relative,
            Mechanism::Timerfd => Self::Fd(rustix::time::timerfd_create(
                TimerfdClockId::Monotonic,
                TimerfdFlags::empty(),
            )?),
            Mechanism::PosixTimer => Self::Posix(PosixTimer::new()?),
            _ => return Err(io::ErrorKind::Unsupported.into()),
        })
    }

    /// Begins: the first wake-up is intended for `first_ns`, further ones each `interval_ns`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn start(&self, first_ns: u64, interval_ns: u64) -> io::Result<()> {
        match self {
            Self::Absolute | Self::Thread(..) => {}
            Self::Relative => drop(os::sleep_until(first_ns.saturating_sub(interval_ns))),
            Self::Fd(fd) => arm(fd, first_ns, interval_ns)?,
            Self::Posix(timer) => timer.arm(first_ns, interval_ns)?,
        }
        Ok(())
    }

    /// Ends: nothing wakes the thread any longer.
    pub fn stop(&self) {
        match self {
            Self::Absolute | Self::Relative => {}
            // Disarming a timer of one's own does not fail.
            Self::Fd(fd) => drop(arm(fd, 0, 0)),
            Self::Posix(timer) => timer.disarm(),
            Self::Thread(pair, taken) => pair.leave(taken),
        }
    }

    /// Waits for the wake-up that is intended for `next`, which a source without fixed times changes.
    /// `None`: a signal ended the wait, or there is no wake-up any more.
    #[inline]
    pub fn wait(&self, next: &mut u64, interval_ns: u64) -> Option<Return> {
        let periods = match self {
            Self::Absolute => {
                if !os::sleep_until(*next) {
                    return None;
                }
                u64::MAX
            }
            Self::Relative => {
                *next = os::now_ns() + interval_ns;
                if !os::sleep_for(interval_ns) {
                    return None;
                }
                u64::MAX
            }
            Self::Fd(fd) => {
                let mut count = [0; 8];
                read(fd, &mut count).ok()?;
                u64::from_ne_bytes(count)
            }
            Self::Posix(timer) => timer.wait()?,
            Self::Thread(pair, taken) => return pair.wait(taken, next),
        };
        Some(Return { at_ns: os::now_ns(), periods, stamp_ns: 0 })
    }

    /// Whether no further wake-up will come.
    pub fn ended(&self) -> bool {
        matches!(self, Self::Thread(pair, _) if pair.ended())
    }
}

fn arm(fd: &OwnedFd, first_ns: u64, interval_ns: u64) -> io::Result<()> {
    let times =
        Itimerspec { it_interval: os::timespec(interval_ns), it_value: os::timespec(first_ns) };
    rustix::time::timerfd_settime(fd, TimerfdTimerFlags::ABSTIME, &times)?;
    Ok(())
}
