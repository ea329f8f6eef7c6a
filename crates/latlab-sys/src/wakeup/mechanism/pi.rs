//! Mutexes with priority inheritance: handed over, and with a priority inversion to resolve.

use crate::policy::{self, Budget};
use crate::wakeup::os;
use latlab_model::wakeup::config::Policy;
use rustix::thread::futex::{self, Flags};
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

/// A mutex with priority inheritance that the sender has whenever the receiver begins to wait for it.
#[derive(Default)]
pub struct PiMutex {
    mutex: AtomicU32,
    /// Set by the sender when it has the mutex: the receiver may wait for it.
    pub armed: AtomicU32,
    /// Set by the receiver when it has had the mutex: the sender may take it again.
    pub had: AtomicU32,
}

impl PiMutex {
    /// A free one.
    ///
    /// # Errors
    /// When the kernel has no futexes with priority inheritance.
    pub fn new() -> io::Result<Self> {
        let mutex = Self::default();
        mutex.lock()?;
        mutex.unlock()?;
        Ok(mutex)
    }

    pub fn lock(&self) -> io::Result<()> {
        Ok(futex::lock_pi(&self.mutex, Flags::PRIVATE, None)?)
    }

    pub fn unlock(&self) -> io::Result<()> {
        Ok(futex::unlock_pi(&self.mutex, Flags::PRIVATE)?)
    }

    /// Whether a thread waits for it in the kernel.
    fn is_waited_for(&self) -> bool {
        self.mutex.load(Ordering::Relaxed) & libc::FUTEX_WAITERS != 0
    }
}

/// Sets a word and wakes who waits for it.
pub fn set(word: &AtomicU32) {
    word.store(1, Ordering::Release);
    // A failed wake means that nobody waits.
    let _ = futex::wake(word, Flags::PRIVATE, 1);
}

/// Waits until a word is set, and clears it.
///
/// # Errors
/// `Interrupted` when a signal came first.
pub fn take_word(word: &AtomicU32) -> io::Result<()> {
    while word.swap(0, Ordering::Acquire) == 0 {
        match futex::wait(word, Flags::PRIVATE, 0, None) {
            Ok(()) | Err(rustix::io::Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

const IDLE: u32 = 0;
const COMPUTE: u32 = 1;
const END: u32 = 2;
/// How long the middle thread computes where no inheritance ends the inversion, ns: an inversion that the
/// kernel does not resolve is measured as that long.
const MIDDLE_NS: u64 = 20_000_000;
/// The sender does not wait longer for the receiver to wait, ns.
const WAITER_NS: u64 = 10_000_000;
/// Stack of the middle thread, bytes.
const STACK: usize = 64 * 1024;
/// Least real-time priority of the receiver: two threads are below it.
pub const LEAST_PRIORITY: u32 = 3;

/// A priority inversion, as `pi_stress` of rt-tests makes it: the sender has the mutex and the lowest
/// priority; the receiver makes a thread of a priority in between runnable on the sender's CPU, and
/// waits for the mutex. Who inherits the receiver's priority unlocks it before the middle thread runs.
pub struct Inversion {
    pub mutex: PiMutex,
    /// When the receiver began to wait for the mutex, ns of CLOCK_MONOTONIC.
    attempt_ns: AtomicU64,
    middle: Arc<AtomicU32>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Inversion {
    /// # Errors
    /// As [`PiMutex::new`].
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            mutex: PiMutex::new()?,
            attempt_ns: AtomicU64::new(0),
            middle: Arc::default(),
            thread: Mutex::default(),
        })
    }

    /// The sender, before a block: starts the middle thread, with its own CPU and priority, and gets a
    /// lower one itself.
    pub fn begin(&self, policy: Policy, priority: u32) {
        self.middle.store(IDLE, Ordering::Relaxed);
        let middle = Arc::clone(&self.middle);
        let thread = Builder::new()
            .name("middle".into())
            .stack_size(STACK)
            .spawn(move || compute_when_asked(&middle));
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = thread.ok();
        let _ = policy::set(policy, priority.saturating_sub(1).max(1), Budget::default());
    }

    /// The sender, after a block.
    pub fn release(&self, policy: Policy, priority: u32) {
        self.middle.store(END, Ordering::Release);
        let _ = futex::wake(&self.middle, Flags::PRIVATE, 1);
        // So that it can end while this thread waits for it, and no other has this priority meanwhile.
        let _ = policy::set(policy, priority, Budget::default());
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }

    /// The sender: lets the receiver try, and unlocks once it waits.
    ///
    /// # Errors
    /// Without a middle thread; the call's.
    pub fn wake(&self) -> io::Result<()> {
        if self.thread.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.mutex.had.store(0, Ordering::Relaxed);
        set(&self.mutex.armed);
        let until = os::now_ns() + WAITER_NS;
        while !self.mutex.is_waited_for() && os::now_ns() < until {
            std::hint::spin_loop();
        }
        self.mutex.unlock()
    }

    /// The receiver: waits until it may try, and tries.
    ///
    /// # Errors
    /// `Interrupted` when a signal came first.
    pub fn wait(&self) -> io::Result<()> {
        take_word(&self.mutex.armed)?;
        let _ = self.middle.compare_exchange(IDLE, COMPUTE, Ordering::Release, Ordering::Relaxed);
        let _ = futex::wake(&self.middle, Flags::PRIVATE, 1);
        self.attempt_ns.store(os::now_ns(), Ordering::Relaxed);
        self.mutex.lock()
    }

    /// When the last wait for the mutex began, ns of CLOCK_MONOTONIC.
    pub fn attempt_ns(&self) -> u64 {
        self.attempt_ns.load(Ordering::Relaxed)
    }

    /// The receiver has had the mutex: the middle thread has nothing more to do.
    pub fn calm(&self) {
        let _ = self.middle.compare_exchange(COMPUTE, IDLE, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// The middle thread.
fn compute_when_asked(word: &AtomicU32) {
    loop {
        match word.load(Ordering::Acquire) {
            IDLE => drop(futex::wait(word, Flags::PRIVATE, IDLE, None)),
            COMPUTE => {
                let until = os::now_ns() + MIDDLE_NS;
                while word.load(Ordering::Relaxed) == COMPUTE && os::now_ns() < until {
                    std::hint::spin_loop();
                }
                let _ = word.compare_exchange(COMPUTE, IDLE, Ordering::Relaxed, Ordering::Relaxed);
            }
            _ => return,
        }
    }
}
