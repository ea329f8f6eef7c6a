//! What wakes the measured thread: a timer of its own, or another thread by a system call.

use crate::units::CpuId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A way to be woken.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// `clock_nanosleep` to an absolute time.
    #[default]
    ClockNanosleep,
    /// `clock_nanosleep` for a relative time.
    Nanosleep,
    /// Periodic `timerfd`, waited for with `read`.
    Timerfd,
    /// Periodic `timer_create` with `SIGEV_THREAD_ID`, waited for with `sigwaitinfo`.
    PosixTimer,
    /// `FUTEX_WAKE` and `FUTEX_WAIT`.
    Futex,
    /// `FUTEX_UNLOCK_PI` and `FUTEX_LOCK_PI`: a contended mutex with priority inheritance.
    PiMutex,
    /// As `PiMutex`, while a runnable thread of a priority in between keeps the holder from running.
    PiInversion,
    /// `sem_post` and `sem_wait`.
    Semaphore,
    /// `semop` on a System V semaphore.
    SysvSemaphore,
    /// `mq_send` and `mq_receive` of one byte.
    Mqueue,
    /// `write` and `read` of an event counter.
    Eventfd,
    /// `write` of an event counter, and its read by `io_uring_enter`.
    IoUring,
    /// One byte through a pipe.
    Pipe,
    /// One byte through an AF_UNIX datagram socket.
    Socket,
    /// `tgkill` and `sigwaitinfo`.
    Signal,
    /// One byte through UDP over 127.0.0.1.
    Udp,
    /// A datagram to a UDP echo on another machine, and its reply.
    UdpHost,
    /// A change of a GPIO output, and the edge at the input that it is wired to.
    Gpio,
}

impl Mechanism {
    /// Every mechanism; timers first.
    pub const ALL: [Self; 18] = [
        Self::ClockNanosleep,
        Self::Nanosleep,
        Self::Timerfd,
        Self::PosixTimer,
        Self::Futex,
        Self::PiMutex,
        Self::PiInversion,
        Self::Semaphore,
        Self::SysvSemaphore,
        Self::Mqueue,
        Self::Eventfd,
        Self::IoUring,
        Self::Pipe,
        Self::Socket,
        Self::Signal,
        Self::Udp,
        Self::UdpHost,
        Self::Gpio,
    ];

    /// Name on the command line and in records.
    pub fn id(self) -> &'static str {
        match self {
            Self::ClockNanosleep => "clock_nanosleep",
            Self::Nanosleep => "nanosleep",
            Self::Timerfd => "timerfd",
            Self::PosixTimer => "posix-timer",
            Self::Futex => "futex",
            Self::PiMutex => "pi-mutex",
            Self::PiInversion => "pi-inversion",
            Self::Semaphore => "semaphore",
            Self::SysvSemaphore => "sysv-semaphore",
            Self::Mqueue => "mqueue",
            Self::Eventfd => "eventfd",
            Self::IoUring => "io_uring",
            Self::Pipe => "pipe",
            Self::Socket => "socket",
            Self::Signal => "signal",
            Self::Udp => "udp",
            Self::UdpHost => "udp-host",
            Self::Gpio => "gpio",
        }
    }

    /// Whether the kernel's timer wakes the thread; otherwise another thread does.
    pub fn is_timer(self) -> bool {
        self <= Self::PosixTimer
    }

    /// Whether it goes through something outside of this machine's memory that has to be named.
    pub fn is_outside(self) -> bool {
        matches!(self, Self::UdpHost | Self::Gpio)
    }

    /// Whether it is the one that is used unless another is named.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// No mechanism has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownMechanism;

impl FromStr for Mechanism {
    type Err = UnknownMechanism;

    fn from_str(name: &str) -> Result<Self, UnknownMechanism> {
        Self::ALL.into_iter().find(|m| m.id() == name).ok_or(UnknownMechanism)
    }
}

/// Several mechanisms, measured in turns by one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mechanisms {
    /// Each once, in the order of the table.
    pub mechanisms: Vec<Mechanism>,
    /// CPUs from which the thread is woken, where that is not a timer's part.
    pub senders: Vec<CpuId>,
    /// The other end of [`Mechanism::UdpHost`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<EchoHost>,
    /// The lines of [`Mechanism::Gpio`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpio: Option<GpioWire>,
}

/// A machine whose UDP echo answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EchoHost {
    /// As it was named: `NAME[:PORT]`.
    pub name: String,
    /// Its address with a port: TCP of `latlab bench --serve`, or UDP of another echo server.
    pub address: String,
    /// Whether `latlab bench --serve` is there (no port was named).
    pub is_latlab: bool,
}

/// A line of a GPIO chip.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GpioLine {
    /// Name of the chip's character device, without `/dev/`.
    pub chip: String,
    /// Offset of the line, from 0.
    pub offset: u32,
}

/// An output that is connected to an input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GpioWire {
    /// The output.
    pub output: GpioLine,
    /// The input.
    pub input: GpioLine,
}

impl fmt::Display for GpioLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.chip, self.offset)
    }
}

impl Mechanisms {
    /// What is measured: each timer once, each other mechanism from each CPU.
    pub fn rows(&self) -> Vec<Woken> {
        let from = |by: Mechanism| -> Vec<Woken> {
            match by.is_timer() {
                true => vec![Woken { by, from: None }],
                false => self.senders.iter().map(|&cpu| Woken { by, from: Some(cpu) }).collect(),
            }
        };
        self.mechanisms.iter().flat_map(|&by| from(by)).collect()
    }
}

/// What woke the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Woken {
    /// The mechanism.
    pub by: Mechanism,
    /// CPU of the thread that made the call; none for a timer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<CpuId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_only_timers_need_no_sender() {
        for m in Mechanism::ALL {
            assert_eq!(m.id().parse(), Ok(m));
        }
        assert_eq!("pipes".parse::<Mechanism>(), Err(UnknownMechanism));
        let timers = Mechanism::ALL.into_iter().filter(|m| m.is_timer());
        assert_eq!(timers.map(Mechanism::id).next_back(), Some("posix-timer"));
        let plan = Mechanisms {
            mechanisms: vec![Mechanism::Timerfd, Mechanism::Pipe],
            senders: vec![CpuId(1), CpuId(0)],
            ..Mechanisms::default()
        };
        let rows = plan.rows();
        assert_eq!(rows.len(), 3);
        assert_eq!((rows[0].from, rows[2].from), (None, Some(CpuId(0))));
    }
}
