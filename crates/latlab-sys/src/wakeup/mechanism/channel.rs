//! Calls by which one thread wakes another, and the stamps on both sides.

use super::brought::Brought;
use super::echo::Echo;
use super::gpio::Wire;
use super::pi::{Inversion, PiMutex, set, take_word};
use super::posix_timer::{block, only, take};
use super::uring::Uring;
use crate::probe::ipc_channels::open_queue;
use crate::probe::syscall::{read, write};
use crate::sysv::{SemaphoreSet, Use};
use crate::wakeup::os;
use latlab_model::wakeup::config::Policy;
use latlab_model::wakeup::mechanism::{Mechanism, Mechanisms};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::cell::{Cell, UnsafeCell};
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

/// A way to wake a thread.
enum Channel {
    Futex(AtomicU32),
    PiMutex(PiMutex),
    PiInversion(Inversion),
    Semaphore(Semaphore),
    Sysv(SemaphoreSet),
    Queue(OwnedFd),
    Event(OwnedFd),
    /// A byte from the first to the second.
    Byte(OwnedFd, OwnedFd),
    Uring(Uring),
    /// The thread that waits for the signal.
    Signal(AtomicI32),
    Echo(Echo),
    Gpio(Wire),
}

/// A POSIX semaphore at an address that does not change.
struct Semaphore(Box<UnsafeCell<libc::sem_t>>);

// SAFETY: sem_post and sem_wait may be called by several threads at once.
unsafe impl Send for Semaphore {}
// SAFETY: as above.
unsafe impl Sync for Semaphore {}

impl Semaphore {
    fn new() -> io::Result<Self> {
        // SAFETY: a sem_t is plain integers; sem_init makes a semaphore of it.
        let new = Self(Box::new(UnsafeCell::new(unsafe { std::mem::zeroed() })));
        // SAFETY: the box is as large and aligned as a sem_t, and keeps its address.
        result(unsafe { libc::sem_init(new.0.get(), 0, 0) })?;
        Ok(new)
    }
}

fn result(returned: libc::c_int) -> io::Result<()> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn signal() -> i32 {
    libc::SIGRTMIN() + 2
}

fn udp() -> io::Result<(OwnedFd, OwnedFd)> {
    let (a, b) =
        (UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?, UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?);
    a.connect(b.local_addr()?)?;
    b.connect(a.local_addr()?)?;
    Ok((a.into(), b.into()))
}

impl Channel {
    fn open(mechanism: Mechanism, by: &Mechanisms) -> io::Result<Self> {
        let unnamed = || io::Error::from(io::ErrorKind::InvalidInput);
        Ok(match mechanism {
            Mechanism::Futex => Self::Futex(AtomicU32::new(0)),
            Mechanism::PiMutex => Self::PiMutex(PiMutex::new()?),
            Mechanism::PiInversion => Self::PiInversion(Inversion::new()?),
            Mechanism::Semaphore => Self::Semaphore(Semaphore::new()?),
            Mechanism::SysvSemaphore => {
                Self::Sysv(SemaphoreSet::new(Use::Wakeup, std::process::id(), 1)?)
            }
            Mechanism::Mqueue => Self::Queue(open_queue("wakeup")?),
            Mechanism::Eventfd => {
                let flags = rustix::event::EventfdFlags::empty();
                Self::Event(rustix::event::eventfd(0, flags)?)
            }
            Mechanism::Pipe => {
                let (input, output) = rustix::pipe::pipe()?;
                Self::Byte(output, input)
            }
            Mechanism::Socket => {
                let flags = SocketFlags::empty();
                let (a, b) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
                Self::Byte(a, b)
            }
            Mechanism::Udp => {
                let (a, b) = udp()?;
                Self::Byte(a, b)
            }
            Mechanism::IoUring => Self::Uring(Uring::open()?),
            Mechanism::Signal => Self::Signal(AtomicI32::new(0)),
            Mechanism::UdpHost => Self::Echo(Echo::open(by.host.as_ref().ok_or_else(unnamed)?)?),
            Mechanism::Gpio => Self::Gpio(Wire::open(by.gpio.as_ref().ok_or_else(unnamed)?)?),
            Mechanism::ClockNanosleep
            | Mechanism::Nanosleep
            | Mechanism::Timerfd
            | Mechanism::PosixTimer => return Err(io::ErrorKind::Unsupported.into()),
        })
    }

    /// Makes the call of this number, which begins at this time.
    #[inline]
    fn wake(&self, number: u64, at_ns: u64) -> io::Result<()> {
        match self {
            Self::Echo(echo) => echo.send(number, at_ns),
            Self::Gpio(wire) => wire.change(),
            Self::Futex(word) => {
                set(word);
                Ok(())
            }
            Self::PiMutex(m) => {
                m.had.store(0, Ordering::Relaxed);
                m.unlock()
            }
            Self::PiInversion(i) => i.wake(),
            Self::Uring(ring) => ring.wake(),
            // SAFETY: `Semaphore::new` made it, and it lives as long as `self`.
            Self::Semaphore(s) => result(unsafe { libc::sem_post(s.0.get()) }),
            Self::Sysv(s) => s.add(0, 1),
            // SAFETY: one byte of a static string.
            Self::Queue(q) => result(unsafe { libc::mq_send(q.as_raw_fd(), c"x".as_ptr(), 1, 0) }),
            Self::Event(fd) => write(fd, &1u64.to_ne_bytes()).map(drop),
            Self::Byte(out, _) => write(out, &[0]).map(drop),
            Self::Signal(tid) => {
                let tid = tid.load(Ordering::Relaxed);
                // SAFETY: plain integers; a thread that is gone is an error.
                let sent =
                    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal()) };
                if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
            }
        }
    }

    #[inline]
    fn wait(&self) -> io::Result<Brought> {
        match self {
            Self::Echo(echo) => return echo.receive(),
            Self::Gpio(wire) => return wire.wait(),
            _ => {}
        }
        self.wait_inside().map(|()| Brought::default())
    }

    /// The wait of a mechanism that brings nothing.
    #[inline]
    fn wait_inside(&self) -> io::Result<()> {
        match self {
            Self::Futex(word) => take_word(word),
            Self::PiMutex(m) => {
                take_word(&m.armed)?;
                m.lock()
            }
            Self::PiInversion(i) => i.wait(),
            Self::Uring(ring) => ring.wait(),
            // SAFETY: as in `wake`.
            Self::Semaphore(s) => result(unsafe { libc::sem_wait(s.0.get()) }),
            Self::Sysv(s) => s.add(0, -1),
            Self::Queue(q) => {
                let mut byte: libc::c_char = 0;
                let no_priority = std::ptr::null_mut();
                // SAFETY: room for the queue's message size, which is one byte.
                let n = unsafe { libc::mq_receive(q.as_raw_fd(), &raw mut byte, 1, no_priority) };
                if n < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
            }
            Self::Event(fd) => read(fd, &mut [0; 8]).map(drop),
            Self::Byte(_, input) => read(input, &mut [0]).map(drop),
            Self::Signal(_) => take(&only(signal())),
            Self::Echo(_) | Self::Gpio(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// A return from a wait.
pub struct Return {
    /// When, ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Periods that the timer counts as over; `u64::MAX` where it does not count.
    pub periods: u64,
    /// When the kernel saw what ended the wait, ns of CLOCK_MONOTONIC; 0 where it does not say.
    pub stamp_ns: u64,
}

/// A channel with what sender and receiver tell each other about it.
pub struct Pair {
    channel: Channel,
    /// When the last call began, ns of CLOCK_MONOTONIC.
    sent_ns: AtomicU64,
    /// Calls so far.
    sent: AtomicU64,
    /// Wake-ups that the receiver has dealt with.
    taken: AtomicU64,
    /// No further call will come.
    ended: AtomicBool,
}

impl Pair {
    /// A channel of a mechanism that is no timer.
    ///
    /// # Errors
    /// When the kernel does not have it.
    pub fn open(mechanism: Mechanism, by: &Mechanisms) -> io::Result<Self> {
        let zero = || AtomicU64::new(0);
        let channel = Channel::open(mechanism, by)?;
        Ok(Self {
            channel,
            sent_ns: zero(),
            sent: zero(),
            taken: zero(),
            ended: AtomicBool::new(false),
        })
    }

    /// The calling thread is the one that waits.
    pub fn adopt(&self) {
        if let Channel::Signal(tid) = &self.channel {
            block(signal());
            tid.store(os::tid(), Ordering::Relaxed);
        }
    }

    /// The sender, which has this policy and priority: before a block.
    pub fn begin(&self, policy: Policy, priority: u32) {
        self.ended.store(false, Ordering::Relaxed);
        match &self.channel {
            Channel::PiInversion(i) => i.begin(policy, priority),
            Channel::Echo(echo) => echo.begin(),
            _ => {}
        }
        self.arm();
    }

    /// The mutex that the sender has before each call.
    fn mutex(&self) -> Option<&PiMutex> {
        match &self.channel {
            Channel::PiMutex(m) => Some(m),
            Channel::PiInversion(i) => Some(&i.mutex),
            _ => None,
        }
    }

    /// The sender: wakes the receiver, and is ready for the next time.
    ///
    /// # Errors
    /// The call's.
    pub fn wake(&self) -> io::Result<()> {
        let n = self.sent.load(Ordering::Relaxed) + 1;
        let now = os::now_ns();
        self.sent_ns.store(now, Ordering::Relaxed);
        self.sent.store(n, Ordering::Release);
        self.channel.wake(n, now)?;
        if let Some(m) = self.mutex() {
            // The receiver gets it in any case: a signal only ends a wait.
            while take_word(&m.had).is_err() {}
            self.arm();
        }
        Ok(())
    }

    /// The sender has the mutex before the receiver waits for it.
    fn arm(&self) {
        if let Some(m) = self.mutex() {
            // Free, or about to be.
            let _ = m.lock();
        }
        match &self.channel {
            Channel::PiMutex(m) => set(&m.armed),
            // Nothing that is left from a block that ended early.
            Channel::PiInversion(i) => i.mutex.armed.store(0, Ordering::Relaxed),
            _ => {}
        }
    }

    /// Whether the receiver has dealt with every call.
    pub fn all_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire) == self.sent.load(Ordering::Relaxed)
    }

    /// The sender: tells the receiver to leave, wherever it waits. May be repeated.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
        // Of another machine nothing is asked: a signal ends that wait.
        if !matches!(self.channel, Channel::Echo(_)) {
            // What it leaves in the channel is ignored: it is no counted call.
            let _ = self.channel.wake(0, 0);
        }
    }

    /// The echo, where calls can be lost on their way.
    pub fn echo(&self) -> Option<&Echo> {
        match &self.channel {
            Channel::Echo(echo) => Some(echo),
            _ => None,
        }
    }

    /// Whether the kernel stamps what ends a wait.
    pub fn is_stamped(&self) -> bool {
        matches!(self.channel, Channel::Echo(_) | Channel::Gpio(_))
    }

    /// The sender, which had this policy and priority: after a block.
    pub fn release(&self, policy: Policy, priority: u32) {
        if let Some(m) = self.mutex() {
            // Not held after `end`.
            let _ = m.unlock();
        }
        if let Channel::PiInversion(i) = &self.channel {
            i.release(policy, priority);
        }
    }

    /// Whether no further call will come.
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// The receiver: deals with the last call and waits for the next, whose time becomes `next`.
    #[inline]
    pub fn wait(&self, taken: &Cell<u64>, next: &mut u64) -> Option<Return> {
        if self.taken.load(Ordering::Relaxed) != taken.get() {
            self.leave(taken);
        }
        let waited = self.channel.wait();
        let at_ns = os::now_ns();
        let brought = match waited {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return None,
            Err(_) => {
                self.ended.store(true, Ordering::Release);
                return None;
            }
            Ok(brought) => brought,
        };
        let sent = self.sent.load(Ordering::Acquire);
        if sent == taken.get() {
            // Left over from a block that ended early, or the call that ends this one.
            self.unlock();
            return None;
        }
        *next = match &self.channel {
            Channel::PiInversion(i) => i.attempt_ns(),
            Channel::Echo(echo) => {
                // Of a call that counts as lost, or a second copy.
                if brought.number != sent {
                    return None;
                }
                echo.heard();
                brought.sent_ns
            }
            _ => self.sent_ns.load(Ordering::Relaxed),
        };
        // An edge of an earlier change of the line.
        if brought.stamp_ns > 0 && brought.stamp_ns < *next {
            return None;
        }
        taken.set(sent);
        Some(Return { at_ns, periods: u64::MAX, stamp_ns: brought.stamp_ns })
    }

    /// The receiver: has dealt with the last call.
    pub fn leave(&self, taken: &Cell<u64>) {
        if self.taken.load(Ordering::Relaxed) != taken.get() {
            self.unlock();
            self.taken.store(taken.get(), Ordering::Release);
        }
    }

    fn unlock(&self) {
        if let Channel::PiInversion(i) = &self.channel {
            i.calm();
        }
        if let Some(m) = self.mutex() {
            let _ = m.unlock();
            set(&m.had);
        }
    }
}
