//! The simplest system calls: what entering and leaving the kernel costs.

use super::{Calling, Probe, ProbeError, Setting, Spec, repeat};
use rustix::time::ClockId;
use std::fs::File;
use std::hint::black_box;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The probes of this file.
pub const SPECS: &[Spec] = &[
    Spec::new("syscall.getppid", "getppid(): kernel entry and exit", "lat_syscall null", getppid),
    Spec::new("syscall.clock", "clock_gettime() as a system call", "", clock_syscall),
    Spec::new("syscall.clock-vdso", "clock_gettime() as programs call it (vDSO)", "", clock_vdso),
    Spec::new("syscall.futex-wake", "futex(FUTEX_WAKE) without a waiter", "", futex_wake),
];

fn getppid(_: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    repeat(|| {
        // SAFETY: getppid(2) has no arguments and cannot fail.
        black_box(unsafe { libc::getppid() });
        Ok(())
    })
}

/// The result of a system call that returns -1 for an error.
pub(crate) fn check(what: &str, result: libc::c_long) -> Result<libc::c_long, ProbeError> {
    if result < 0 {
        return Err(ProbeError::Call { call: what.to_owned(), source: io::Error::last_os_error() });
    }
    Ok(result)
}

fn clock_syscall(_: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    // Two longs and more: room for either layout of a timespec.
    let mut time = [0u64; 4];
    repeat(move || {
        // SAFETY: the buffer is larger than any timespec and outlives the call.
        let r = unsafe {
            libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, time.as_mut_ptr())
        };
        check("clock_gettime", r).map(drop)
    })
}

fn clock_vdso(_: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    repeat(|| {
        black_box(rustix::time::clock_gettime(ClockId::Monotonic));
        Ok(())
    })
}

fn futex_wake(_: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let word = Box::new(std::sync::atomic::AtomicU32::new(0));
    repeat(move || {
        rustix::thread::futex::wake(&word, rustix::thread::futex::Flags::PRIVATE, 1)
            .calling("futex")
            .map(drop)
    })
}

/// read(2) through the C library's function, as programs make it. That is no detail: inlined into its
/// loop the same call came out 48 ns (a quarter) cheaper on a Zen 4 with the mitigation "Safe RET",
/// most likely because the first return after a system call is mispredicted there.
#[inline]
pub(crate) fn read(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is writable for all of its length; the descriptor is borrowed for the call.
    let n = unsafe { libc::read(fd.as_fd().as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// write(2) through the C library's function; see [`read`].
#[inline]
pub(crate) fn write(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the bytes are readable for all of their length; the descriptor is borrowed for the call.
    let n = unsafe { libc::write(fd.as_fd().as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// Opens a device that every machine has.
pub(crate) fn device(path: &str, write: bool) -> Result<File, ProbeError> {
    File::options().read(!write).write(write).open(path).calling(&format!("open {path}"))
}
