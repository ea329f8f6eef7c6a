//! Signals: installing a handler, being called, and the fault that a write to read-only memory is.

use super::{Calling, Probe, ProbeError, Setting, Spec, repeat};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, mprotect};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The probes of this file.
pub const SPECS: &[Spec] = &[
    Spec::new("signal.install", "sigaction()", "lat_sig install", install_probe),
    Spec::new(
        "signal.catch",
        "a signal to its own process, caught; less the call that sends it",
        "lat_sig catch",
        catch,
    ),
    Spec::new(
        "signal.fault",
        "a write to read-only memory, its SIGSEGV caught",
        "lat_sig prot",
        fault,
    ),
];

fn install(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) -> Result<(), ProbeError> {
    // SAFETY: an all-zero sigaction is valid; the handlers of this file only use atomics and mprotect(2).
    let r = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        libc::sigaction(signal, &action, std::ptr::null_mut())
    };
    super::syscall::check("sigaction", r.into()).map(drop)
}

extern "C" fn ignore(_: libc::c_int) {}

fn install_probe(_: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    repeat(|| install(libc::SIGUSR1, ignore))
}

struct Catch {
    me: libc::pid_t,
}

impl Catch {
    fn kill(&self, signal: libc::c_int, n: u64) -> Result<(), ProbeError> {
        for _ in 0..n {
            // SAFETY: a signal to this very process, which catches it (0 sends none).
            let r = unsafe { libc::kill(self.me, signal) };
            super::syscall::check("kill", r.into())?;
        }
        Ok(())
    }
}

impl Probe for Catch {
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        self.kill(libc::SIGUSR1, n)
    }
    fn baseline(&mut self, n: u64) -> Result<bool, ProbeError> {
        self.kill(0, n).map(|()| true)
    }
}

fn catch(_: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    install(libc::SIGUSR1, ignore)?;
    // SAFETY: getpid(2) cannot fail.
    Ok(Box::new(Catch { me: unsafe { libc::getpid() } }))
}

static LEFT: AtomicU64 = AtomicU64::new(0);
static PAGE: AtomicPtr<libc::c_void> = AtomicPtr::new(std::ptr::null_mut());

fn protect(rights: rustix::mm::MprotectFlags) -> rustix::io::Result<()> {
    let page = PAGE.load(Ordering::Relaxed);
    // SAFETY: the page that `fault` mapped, which nothing else uses; it is never unmapped.
    unsafe { mprotect(page, rustix::param::page_size(), rights) }
}

/// Returning repeats the write, which faults again, until the count is over.
extern "C" fn on_fault(_: libc::c_int) {
    let left = LEFT.load(Ordering::Relaxed);
    if left <= 1 {
        use rustix::mm::MprotectFlags as Rights;
        if protect(Rights::READ | Rights::WRITE).is_err() {
            // SAFETY: abort(3) may be called from a handler.
            unsafe { libc::abort() };
        }
    }
    LEFT.store(left.saturating_sub(1), Ordering::Relaxed);
}

struct Fault;

impl Probe for Fault {
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        protect(rustix::mm::MprotectFlags::READ).calling("mprotect")?;
        LEFT.store(n, Ordering::Relaxed);
        // SAFETY: the mapped page; the fault is what is wanted, and the handler ends by allowing the write.
        unsafe { PAGE.load(Ordering::Relaxed).cast::<u8>().write_volatile(1) };
        Ok(())
    }
}

fn fault(_: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let length = rustix::param::page_size();
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing of ours.
    let page =
        unsafe { mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::PRIVATE) };
    PAGE.store(page.calling("mmap")?, Ordering::Relaxed);
    install(libc::SIGSEGV, on_fault)?;
    install(libc::SIGBUS, on_fault)?;
    Ok(Box::new(Fault))
}
