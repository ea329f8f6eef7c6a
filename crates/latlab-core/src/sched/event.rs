//! The events that tell who ran, as plain data: nothing here allocates.

use crate::units::TraceNs;

/// A task's name as events carry it: at most sixteen bytes, in one word that compares fast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Comm(u128);

impl Comm {
    /// The first sixteen bytes of a name, up to a NUL.
    #[inline]
    pub fn new(bytes: &[u8]) -> Self {
        let mut all = [0u8; 16];
        for (to, from) in all.iter_mut().zip(bytes) {
            if *from == 0 {
                break;
            }
            *to = *from;
        }
        Self(u128::from_le_bytes(all))
    }
    /// Whether there is no name.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl std::fmt::Display for Comm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.0.to_le_bytes();
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        f.write_str(&String::from_utf8_lossy(&bytes[..end]))
    }
}

/// A task as an event names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Thread id; 0 is the idle task of each CPU.
    pub tid: i32,
    /// Its name at that moment.
    pub name: Comm,
    /// The kernel's priority: below 0 deadline, 0–99 real-time (99 − `sched_priority`), 100–139
    /// fair (120 + nice). Smaller runs first.
    pub prio: i32,
}

/// In which state a task left its CPU (`prev_state` of `sched_switch`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Still runnable.
    Runnable,
    /// Still runnable, and the kernel says that it was preempted (`R+`).
    Preempted,
    /// Sleeping interruptibly, or an idle kernel thread.
    Sleeping,
    /// Waiting uninterruptibly (IO, a lock).
    Blocked,
    /// Stopped or traced.
    Stopped,
    /// Dead.
    Dead,
}

impl Left {
    /// From the kernel's bits: those up to 0x80 are alike on all kernels, one above says "preempted".
    #[inline]
    pub fn from_bits(state: u64) -> Self {
        match state & 0xff {
            0 if state >= 0x100 => Self::Preempted,
            0 => Self::Runnable,
            s if s & 0x30 != 0 => Self::Dead,
            s if s & 0x0c != 0 => Self::Stopped,
            s if s & 0x02 != 0 => Self::Blocked,
            _ => Self::Sleeping,
        }
    }
    /// Whether it wanted to go on.
    pub fn is_runnable(self) -> bool {
        matches!(self, Self::Runnable | Self::Preempted)
    }
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub time: TraceNs,
    /// On which CPU it was recorded.
    pub cpu: u32,
    /// The task that was running (`common_pid`).
    pub current: i32,
    /// Events that this CPU lost just before this one: `Some(0)` for an unknown number.
    pub lost: Option<u64>,
    /// What.
    pub what: What,
}

/// What an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// `sched_switch`.
    Switch {
        /// Leaves.
        prev: Task,
        /// How.
        left: Left,
        /// Comes.
        next: Task,
    },
    /// `sched_waking`: somebody wants it to run; its CPU may still change.
    Waking(Task),
    /// `sched_wakeup`: it is on this CPU's queue.
    Wakeup(Task, u32),
    /// `sched_wakeup_new`: a new task is on this CPU's queue.
    WakeupNew(Task, u32),
    /// `sched_migrate_task`: to this CPU.
    Migrate(Task, u32),
    /// `sched_process_fork`: the child.
    Fork(Task),
    /// `task_rename`, or an exec.
    Rename(i32, Comm),
    /// `sched_stat_runtime`: ns charged to a task.
    Charged(i32, u64),
    /// `sched_pi_setprio`: old and new priority.
    SetPrio(Task, i32),
    /// The task that runs has called `sched_yield`.
    Yield,
    /// Anything else: it only shows that the CPU was recorded.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_sixteen_bytes_and_end_at_nul() {
        assert_eq!(Comm::new(b"bash\0rest").to_string(), "bash");
        assert_eq!(Comm::new(b"a-name-that-is-too-long").to_string(), "a-name-that-is-t");
        assert_eq!(Comm::new(b"bash"), Comm::new(b"bash\0\0"));
        assert!(Comm::new(b"").is_empty());
    }

    #[test]
    fn states_are_told_by_their_bits() {
        let all = [0, 0x100, 1, 2, 0x80, 4, 8, 0x10, 0x20, 0x402];
        let left: Vec<Left> = all.into_iter().map(Left::from_bits).collect();
        use Left::{Blocked, Dead, Preempted, Runnable, Sleeping, Stopped};
        assert_eq!(
            left,
            [
                Runnable, Preempted, Sleeping, Blocked, Sleeping, Stopped, Stopped, Dead, Dead,
                Blocked
            ]
        );
    }
}
