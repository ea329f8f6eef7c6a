//! Why a measurement could not be made, each with what to do about it.

use latlab_model::units::{CpuId, format_ns};
use latlab_model::wakeup::config::{Core, Policy};
use latlab_model::wakeup::mechanism::Mechanism;
use std::io;

/// Why wake-up latency could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WakeupError {
    /// The configuration has no thread.
    #[error("no thread to measure with")]
    NoThreads,
    /// An interval of zero.
    #[error("an interval of 0 would never sleep")]
    ZeroInterval,
    /// The kernel does not give the policy.
    #[error("{}: {source}", policy_text(*policy, *priority))]
    Policy {
        /// The policy.
        policy: Policy,
        /// The priority.
        priority: u32,
        /// Why.
        source: io::Error,
    },
    /// The thread cannot be bound.
    #[error("CPU {cpu}: a thread cannot be bound to it: {source}")]
    Bind {
        /// The CPU.
        cpu: CpuId,
        /// Why.
        source: io::Error,
    },
    /// A CPU that is not there or off.
    #[error("CPU {cpu} is not online (online: {online})")]
    Offline {
        /// The CPU.
        cpu: CpuId,
        /// The CPUs that are.
        online: String,
    },
    /// A deadline task that is to be bound.
    #[error("SCHED_DEADLINE threads cannot be bound to a CPU")]
    BoundDeadline,
    /// Memory cannot be locked.
    #[error("memory cannot be locked (limit: {limit}): {source}")]
    Lock {
        /// RLIMIT_MEMLOCK in words.
        limit: String,
        /// Why.
        source: io::Error,
    },
    /// The interval is so short that the thread would take the CPU.
    #[error(
        "an interval of {} is too short for this machine: a wake-up costs about {} of CPU time, which is {percent}% of it",
        format_ns(*interval_ns as f64), format_ns(*cost_ns as f64)
    )]
    Share {
        /// The interval.
        interval_ns: u64,
        /// Cost of a wake-up.
        cost_ns: u64,
        /// Share of a CPU.
        percent: u64,
    },
    /// A file of the kernel could not be opened or written.
    #[error("{path}: {source}")]
    File {
        /// Its path.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The lock that the task should share with others cannot be had.
    #[error("--lock {path}: {source}")]
    SharedLock {
        /// Its path.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The kernel does not have a mechanism, or no resources for it.
    #[error("--by {mechanism}: not available: {source}")]
    Mechanism {
        /// The mechanism.
        mechanism: Mechanism,
        /// Why.
        source: io::Error,
    },
    /// The samples could not be written.
    #[error("samples: {0}")]
    Samples(io::Error),
    /// A thread could not be started.
    #[error("a measuring thread could not be started: {0}")]
    Thread(io::Error),
    /// The histogram would not fit in memory.
    #[error("the histogram of {0} µs does not fit in memory")]
    Memory(u32),
    /// The kernel was built without the tracer of the levels below user space.
    #[error("--level {levels}: this kernel has no timerlat tracer (CONFIG_TIMERLAT_TRACER)")]
    NoTimerlat {
        /// The levels that were asked for.
        levels: String,
    },
    /// Somebody else uses the tracer, whose settings are one for the whole machine.
    #[error("the {tracer} tracer is in use by {by}; its settings are one for the whole machine")]
    TimerlatBusy {
        /// `timerlat` or `osnoise`.
        tracer: String,
        /// The directory of the trace buffer.
        by: String,
    },
    /// tracefs refused.
    #[error(transparent)]
    Record(#[from] crate::recorder::RecordError),
    /// A setting of the tracer was refused.
    #[error(transparent)]
    Setting(#[from] crate::settings::SettingError),
    /// The tracer runs and gives nothing.
    #[error("the timerlat tracer gave no sample of CPU {0}")]
    NoSample(CpuId),
    /// The program of a real-time core is not installed.
    #[error("--core {}: no program `{}` in PATH, /usr/xenomai/bin or /usr/evl/bin", .0.id(), .0.program())]
    NoCoreProgram(Core),
    /// It cannot be started.
    #[error("{program}: {source}")]
    CoreProgram {
        /// Its path.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It ended without a result.
    #[error("{program} measured nothing ({status}){}{said}", if said.is_empty() { "" } else { ": " })]
    CoreFailed {
        /// Its path.
        program: String,
        /// How it ended.
        status: String,
        /// Its last line.
        said: String,
    },
    /// A signal came before the first wake-up.
    #[error("stopped before the first wake-up")]
    StoppedBefore,
}

fn policy_text(policy: Policy, priority: u32) -> String {
    let name = format!("SCHED_{}", policy.to_string().to_uppercase());
    match policy.has_priority() {
        true => format!("{name} with priority {priority} is not permitted"),
        false => format!("{name} was refused"),
    }
}

impl WakeupError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Policy { policy: Policy::Deadline, source, .. } => match source.raw_os_error() {
                Some(libc::EBUSY) => {
                    "other deadline tasks have the bandwidth; a longer interval (-i) asks for less"
                }
                Some(libc::EINVAL) => {
                    "the kernel takes periods from 100 µs on (sched_deadline_period_min_us); a longer interval (-i)"
                }
                _ => "SCHED_DEADLINE needs root (CAP_SYS_NICE) and all CPUs of its cpuset",
            },
            Self::Policy { source, .. } if source.raw_os_error() == Some(libc::EPERM) => {
                "run as root, or give the binary CAP_SYS_NICE (setcap cap_sys_nice+ep latlab), or the user RLIMIT_RTPRIO (`rtprio` in /etc/security/limits.conf); --policy other measures an ordinary task"
            }
            Self::Policy { .. } => {
                "priorities go from 1 to 99; --policy other measures an ordinary task"
            }
            Self::Bind { .. } => {
                "the CPU may be offline, or outside this process's cpuset; see /proc/self/status, Cpus_allowed_list"
            }
            Self::Offline { .. } => "choose CPUs with -a, or leave it away for all of them",
            Self::BoundDeadline => "leave -a away; the kernel places deadline tasks itself",
            Self::Lock { .. } => {
                "run as root, raise RLIMIT_MEMLOCK (`memlock` in /etc/security/limits.conf), or do not lock memory (wakeup without -m, tune with -p 0)"
            }
            Self::Share { .. } => {
                "a longer interval with -i, or less --compute; at most half of a CPU is taken, so that the machine stays reachable"
            }
            Self::ZeroInterval => "give the interval in µs, such as -i 1000",
            Self::File { path, source } if path.contains("cpu_dma_latency") => {
                if source.kind() == io::ErrorKind::NotFound {
                    return Some(
                        "this kernel does not have it (CONFIG_CPU_IDLE): leave --latency away",
                    );
                }
                "needs root; without --latency the machine is measured as it is"
            }
            Self::File { .. } => {
                "needs root and tracefs: mount -t tracefs nodev /sys/kernel/tracing"
            }
            Self::SharedLock { .. } => {
                "the faults inversion and inversion-pi of `latlab vm run` make one in /dev/shm/latlab-lock"
            }
            Self::Memory(_) => "set a smaller limit with -h; results do not depend on it",
            Self::NoTimerlat { .. } => {
                "`latlab --on vm:armv7-rt wakeup --level irq,kernel,user` measures all levels on a kernel that has it; --level user measures here"
            }
            Self::TimerlatBusy { .. } => "end rtla or whoever else traces with it, then try again",
            Self::Record(_) => "needs root and tracefs: mount -t tracefs nodev /sys/kernel/tracing",
            Self::Setting(crate::settings::SettingError::Refused { .. }) => {
                "the timerlat tracer takes intervals (-i) from 100 µs to 1 s and CPUs that are online"
            }
            Self::Setting(_) => {
                "needs root; `latlab doctor --restore` restores settings of a killed latlab process"
            }
            Self::NoSample(_) => {
                "is the CPU online, and is something of a higher priority running on it?"
            }
            Self::Mechanism { mechanism: Mechanism::UdpHost, .. } => {
                "chrt -f 80 latlab bench --serve ADDRESS on the other machine, which has a host's build of latlab"
            }
            Self::Mechanism { mechanism: Mechanism::Gpio, .. } => {
                "a virtual machine with two lines that are connected: latlab vm run x86_64-rt --fault none -- latlab wakeup --by gpio:gpiochip0:0:1"
            }
            Self::Mechanism { .. } => {
                "choose others with --by; without it the timer is clock_nanosleep"
            }
            Self::NoCoreProgram(_) | Self::CoreProgram { .. } => {
                "name it with --core-program; Xenomai 3 and libevl install it with their test programs"
            }
            Self::CoreFailed { .. } => {
                "`latlab doctor` tells whether this kernel has the core; try the program alone"
            }
            Self::NoThreads | Self::Samples(_) | Self::Thread(_) | Self::StoppedBefore => {
                return None;
            }
        })
    }
}
