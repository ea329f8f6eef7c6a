//! Spans of programs that many use, by name.

/// The system call of epoll_wait(3): ARM64 has `epoll_pwait` alone.
const POLL: [&str; 2] = if cfg!(target_arch = "aarch64") {
    ["sysret:epoll_pwait", "syscall:epoll_pwait"]
} else {
    ["sysret:epoll_wait", "syscall:epoll_wait"]
};

/// A preset of both ends of spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// Callbacks of ROS 2 nodes (tracetools).
    Ros2Callback,
    /// Iterations of a loop of epoll_wait(2), without the wait: PipeWire's and other servers' loops.
    PollLoop,
    /// From one call of sd_notify(3) to the next: the program's watchdog.
    SdNotify,
}

impl Preset {
    /// What begins a span, and what ends it.
    pub fn ends(self) -> (&'static str, &'static str) {
        const NOTIFY: &str = "uprobe:libsystemd.so.0:sd_notify";
        match self {
            Self::Ros2Callback => (
                "uprobe:libtracetools.so:ros_trace_callback_start",
                "uprobe:libtracetools.so:ros_trace_callback_end",
            ),
            Self::PollLoop => (POLL[0], POLL[1]),
            Self::SdNotify => (NOTIFY, NOTIFY),
        }
    }
}
