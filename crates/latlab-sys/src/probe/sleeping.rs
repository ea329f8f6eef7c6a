//! Sleeping for a given time: how long it takes by each call, as lmbench's `lat_usleep` has it.

use super::{ParamSpec, ProbeError, Setting, Spec, repeat};
use std::ptr;

const BY: ParamSpec = ParamSpec {
    name: "by",
    what: "clock_nanosleep, nanosleep, select, poll or itimer (setitimer and SIGALRM)",
    default: &["nanosleep"],
    full: &["clock_nanosleep", "nanosleep", "select", "poll", "itimer"],
};
const TIME: ParamSpec = ParamSpec {
    name: "us",
    what: "length of the sleep, µs (poll: rounded up to a millisecond)",
    default: &["100"],
    full: &["100", "1000"],
};

/// The probes of this file.
pub const SPECS: &[Spec] = &[Spec::new(
    "timer.sleep",
    "a sleep of so many µs, all of it: the delay of the timer is what exceeds them",
    "lat_usleep",
    sleep,
)
.with(&[BY, TIME])
.full()];

/// Longest sleep, µs.
const LONGEST: u64 = 1_000_000;

fn sleep(setting: &Setting) -> Result<Box<dyn super::Probe>, ProbeError> {
    let us = setting.number("us")?;
    if !(1..=LONGEST).contains(&us) {
        return Err(setting.bad("us", "1 to 1000000"));
    }
    let (seconds, rest) = ((us / 1_000_000) as i64, (us % 1_000_000) as i64);
    let time = libc::timespec { tv_sec: seconds as _, tv_nsec: (rest * 1000) as _ };
    match setting.text("by") {
        "clock_nanosleep" | "nanosleep" => {
            let clock = setting.text("by") == "clock_nanosleep";
            repeat(move || {
                // SAFETY: a whole timespec that outlives the call; the rest is not asked for.
                let r = unsafe {
                    match clock {
                        true => {
                            -libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &time, ptr::null_mut())
                        }
                        false => libc::nanosleep(&time, ptr::null_mut()),
                    }
                };
                super::syscall::check("nanosleep", r.into()).map(drop)
            })
        }
        "select" => repeat(move || {
            let mut time = libc::timeval { tv_sec: seconds as _, tv_usec: rest as _ };
            let none = ptr::null_mut();
            // SAFETY: no sets; a whole timeval, which the kernel may change.
            let r = unsafe { libc::select(0, none, none, none, &mut time) };
            super::syscall::check("select", r.into()).map(drop)
        }),
        "poll" => {
            let ms = us.div_ceil(1000) as libc::c_int;
            repeat(move || {
                // SAFETY: no descriptors are passed.
                let r = unsafe { libc::poll(ptr::null_mut(), 0, ms) };
                super::syscall::check("poll", r.into()).map(drop)
            })
        }
        "itimer" => itimer(seconds, rest),
        _ => Err(setting.bad("by", "clock_nanosleep, nanosleep, select, poll or itimer")),
    }
}

/// SIGALRM blocked and waited for, so that no signal is lost between the call and the wait.
fn itimer(seconds: i64, us: i64) -> Result<Box<dyn super::Probe>, ProbeError> {
    // SAFETY: an all-zero set is initialised by sigemptyset; only this process's mask changes.
    let set = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGALRM);
        libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
        set
    };
    repeat(move || {
        let value = libc::timeval { tv_sec: seconds as _, tv_usec: us as _ };
        let zero = libc::timeval { tv_sec: 0, tv_usec: 0 };
        let timer = libc::itimerval { it_interval: zero, it_value: value };
        // SAFETY: a whole itimerval that outlives the call; the old one is not asked for.
        let r = unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, ptr::null_mut()) };
        super::syscall::check("setitimer", r.into())?;
        let mut signal = 0;
        // SAFETY: an initialised set and an integer, both of which outlive the call.
        let r = unsafe { libc::sigwait(&set, &mut signal) };
        super::syscall::check("sigwait", (-r).into()).map(drop)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::time::{Duration, Instant};

    #[test]
    fn each_call_sleeps_as_long_as_it_should() {
        // SIGALRM of a timer of the process may reach another thread of the tests, which it would end: `itimer` is
        // tested on the command line, whose measuring processes have one thread.
        for by in BY.full.iter().filter(|by| **by != "itimer") {
            let text = |k: &str, v: &str| (k.to_owned(), v.to_owned());
            let params = BTreeMap::from([text("by", by), text("us", "2000")]);
            let setting = Setting { params, ..Setting::default() };
            let mut probe = sleep(&setting).unwrap();
            let begun = Instant::now();
            probe.run(3).unwrap();
            assert!(begun.elapsed() >= Duration::from_millis(6), "{by}: {:?}", begun.elapsed());
        }
        let wrong = Setting {
            params: BTreeMap::from([("us".to_owned(), "0".to_owned())]),
            ..Setting::default()
        };
        assert!(sleep(&wrong).is_err());
    }
}
