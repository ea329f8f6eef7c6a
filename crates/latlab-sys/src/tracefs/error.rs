//! What can go wrong between us and tracefs, each with what a user needs to mend it.

use crate::settings::SettingError;
use std::io;
use std::path::PathBuf;

/// Why the kernel's tracing could not be used as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TracefsError {
    /// tracefs is readable by root alone.
    #[error("tracing needs root: {path} is not open to this user")]
    NeedsRoot {
        /// What could not be opened.
        path: PathBuf,
    },
    /// There is no tracefs, and none could be mounted.
    #[error("no tracefs is mounted, and mounting one on /sys/kernel/tracing failed: {reason}")]
    NotMounted {
        /// What the system said.
        reason: String,
    },
    /// A control file refused.
    #[error("{action} {path}")]
    Io {
        /// `reading`, `writing "1" to`…
        action: String,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The kernel is locked down and does not allow this, even to root.
    #[error("this kernel is locked down and does not allow {action} {path}")]
    LockedDown {
        /// What was tried.
        action: String,
        /// On which file.
        path: PathBuf,
    },
    /// A name that this kernel does not know.
    #[error("this kernel has no {kind} {name:?}{}", suggestion(.nearest))]
    Unknown {
        /// `event`, `tracer`, `clock`, `option`.
        kind: &'static str,
        /// What was asked for.
        name: String,
        /// Names like it.
        nearest: Vec<String>,
    },
    /// The kernel rejected a filter.
    #[error("the kernel rejected the filter {filter:?} of {event}: {kernel}")]
    BadFilter {
        /// Event or system.
        event: String,
        /// What was asked for.
        filter: String,
        /// The kernel's own message.
        kernel: String,
    },
    /// The kernel rejected a trigger.
    #[error("the kernel rejected the trigger {trigger:?} of {event}: {kernel}")]
    BadTrigger {
        /// Event or system.
        event: String,
        /// What was asked for.
        trigger: String,
        /// The kernel's own message.
        kernel: String,
    },
    /// A function filter names no function that can be traced.
    #[error("the kernel rejected the function {function:?} for {file}: {reason}")]
    BadFunction {
        /// What was asked for.
        function: String,
        /// Which filter file.
        file: &'static str,
        /// What the system said.
        reason: String,
    },
    /// A CPU that is not there.
    #[error("there is no CPU {cpu}; this machine has {present}")]
    NoCpu {
        /// What was asked for.
        cpu: u32,
        /// `0-3`.
        present: String,
    },
    /// A process that is not there.
    #[error("there is no process {pid}")]
    NoProcess {
        /// What was asked for.
        pid: u32,
    },
    /// The tracer works only on the kernel's one top-level buffer.
    #[error(
        "the tracer {tracer} works only on the kernel's top-level buffer here, not in an instance"
    )]
    TopLevelOnly {
        /// Which tracer.
        tracer: String,
    },
    /// The top-level buffer is somebody else's at the moment.
    #[error("the kernel's top-level buffer, which {tracer} needs here, is in use: {how}")]
    TopLevelBusy {
        /// Which tracer.
        tracer: String,
        /// `its tracer is function`.
        how: String,
    },
    /// A setting of the top level was not changed because it could not be journalled.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

fn suggestion(names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => format!("; nearest: {}", names.join(", ")),
    }
}

impl TracefsError {
    /// Turns what the system said into the error that tells the user most.
    pub(crate) fn io(action: impl Into<String>, path: PathBuf, source: io::Error) -> Self {
        let root = rustix::process::geteuid().is_root();
        match source.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) if !root => Self::NeedsRoot { path },
            Some(libc::EPERM) => Self::LockedDown { action: action.into(), path },
            _ => Self::Io { action: action.into(), path, source },
        }
    }

    /// What a user can do about it, where that is not obvious.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NeedsRoot { .. } => {
                "run it with sudo, or give tracefs to a group (docs/explanation/security.md has the commands)"
                    .into()
            }
            Self::NotMounted { .. } => {
                "as root: mount -t tracefs nodev /sys/kernel/tracing (the kernel needs CONFIG_FTRACE)"
                    .into()
            }
            Self::LockedDown { .. } => {
                "events can be recorded all the same; function tracing needs a kernel without lockdown"
                    .into()
            }
            Self::Unknown { kind, .. } => format!("latlab record --list {kind}s shows what there is"),
            Self::TopLevelOnly { .. } => "record events (-e) instead".into(),
            Self::TopLevelBusy { .. } => {
                "wait until it is free; `trace-cmd reset` frees it, if whoever uses it agrees".into()
            }
            _ => return None,
        })
    }
}
