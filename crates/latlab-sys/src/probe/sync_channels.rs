//! What can be handed over without a descriptor: futexes in shared memory,
//! POSIX semaphores, System V semaphores.

use super::pair::Channel;
use super::shared::SharedPage;
use super::syscall::check;
use super::{Calling, ProbeError, Setting};
use crate::sysv::{self, SemaphoreSet, Use};
use rustix::thread::futex;
use std::sync::atomic::{AtomicU32, Ordering};

/// Two words in shared memory, each waited for with a futex.
#[derive(Debug)]
pub struct Futexes(SharedPage);

/// Two futexes.
///
/// # Errors
/// When there is no memory.
pub fn futexes(_: &Setting) -> Result<Futexes, ProbeError> {
    Ok(Futexes(SharedPage::new()?))
}

impl Futexes {
    fn post(word: &AtomicU32) -> Result<(), ProbeError> {
        word.store(1, Ordering::Release);
        futex::wake(word, futex::Flags::empty(), 1).calling("futex").map(drop)
    }

    fn wait(word: &AtomicU32) -> Result<(), ProbeError> {
        while word.swap(0, Ordering::Acquire) == 0 {
            match futex::wait(word, futex::Flags::empty(), 0, None) {
                Ok(()) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e).calling("futex"),
            }
        }
        Ok(())
    }
}

impl Channel for Futexes {
    fn ping(&mut self) -> Result<(), ProbeError> {
        Self::post(&self.0.line(0).word)?;
        Self::wait(&self.0.line(1).word)
    }
    fn serve(&mut self) -> Result<(), ProbeError> {
        Self::wait(&self.0.line(0).word)?;
        Self::post(&self.0.line(1).word)
    }
    fn alone(&mut self) -> Result<(), ProbeError> {
        // A wake with nobody waiting, and a wait that finds the word changed: both enter the kernel.
        for _ in 0..2 {
            let word = &self.0.line(2).word;
            Self::post(word)?;
            match futex::wait(word, futex::Flags::empty(), 0, None) {
                Err(rustix::io::Errno::AGAIN) => {}
                other => other.calling("futex")?,
            }
            word.store(0, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Three unnamed POSIX semaphores in shared memory.
#[derive(Debug)]
pub struct PosixSemaphores(SharedPage);

/// POSIX semaphores.
///
/// # Errors
/// When the C library has none that processes can share.
pub fn posix_semaphores(_: &Setting) -> Result<PosixSemaphores, ProbeError> {
    let page = SharedPage::new()?;
    for i in 0..3 {
        // SAFETY: a line is 64 bytes and aligned to them, a sem_t at most 32; it is shared memory.
        let r = unsafe { libc::sem_init(page.raw(i).cast(), 1, 0) };
        check("sem_init", r.into())?;
    }
    Ok(PosixSemaphores(page))
}

impl PosixSemaphores {
    fn post(&self, i: usize) -> Result<(), ProbeError> {
        // SAFETY: `posix_semaphores` initialised it, and the page lives as long as `self`.
        check("sem_post", unsafe { libc::sem_post(self.0.raw(i).cast()) }.into()).map(drop)
    }
    fn wait(&self, i: usize) -> Result<(), ProbeError> {
        // SAFETY: as above.
        check("sem_wait", unsafe { libc::sem_wait(self.0.raw(i).cast()) }.into()).map(drop)
    }
}

impl Channel for PosixSemaphores {
    fn ping(&mut self) -> Result<(), ProbeError> {
        self.post(0)?;
        self.wait(1)
    }
    fn serve(&mut self) -> Result<(), ProbeError> {
        self.wait(0)?;
        self.post(1)
    }
    fn alone(&mut self) -> Result<(), ProbeError> {
        for _ in 0..2 {
            self.post(2)?;
            self.wait(2)?;
        }
        Ok(())
    }
}

/// A set of three System V semaphores. The kernel removes none for a process that was
/// killed, so the runner does, by its key ([`remove_orphaned`]).
#[derive(Debug)]
pub struct SysvSemaphores(SemaphoreSet);

/// Removes the set that a trial of this process left when it was killed.
pub fn remove_orphaned() {
    sysv::remove(Use::Bench, std::process::id());
}

/// System V semaphores.
///
/// # Errors
/// When the kernel has none, or its limit is used up.
pub fn sysv_semaphores(_: &Setting) -> Result<SysvSemaphores, ProbeError> {
    let runner = std::os::unix::process::parent_id();
    Ok(SysvSemaphores(SemaphoreSet::new(Use::Bench, runner, 3).calling("semget")?))
}

impl SysvSemaphores {
    fn change(&self, number: u16, by: i16) -> Result<(), ProbeError> {
        self.0.add(number, by).calling("semop")
    }
}

impl Channel for SysvSemaphores {
    fn ping(&mut self) -> Result<(), ProbeError> {
        self.change(0, 1)?;
        self.change(1, -1)
    }
    fn serve(&mut self) -> Result<(), ProbeError> {
        self.change(0, -1)?;
        self.change(1, 1)
    }
    fn alone(&mut self) -> Result<(), ProbeError> {
        for _ in 0..2 {
            self.change(2, 1)?;
            self.change(2, -1)?;
        }
        Ok(())
    }
}
