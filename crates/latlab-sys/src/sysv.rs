//! System V semaphores whose key names their process: the kernel removes none when a process is killed.
//!
//! A key is a byte for the kind of use, two bits for the sets of one process, and a process id (below 2^22).
//! [`remove_abandoned`] removes the sets of this user whose process has ended. A set also knows the process that changed it last
//! (`GETPID`, semctl(2)), in the PID namespace of the caller: a set of another namespace, in which the number in
//! the key means another process, reads 0 there and is left alone.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// What a set is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Trials of a benchmark: the key names the process that starts them.
    Bench = 0x6c,
    /// Wake-ups of one process.
    Wakeup = 0x6d,
}

const PID: u32 = 0x003f_ffff;
/// Sets of one process that can have a key of their own; a further one has none, and stays after SIGKILL.
const SETS: u32 = 4;
/// Sets that this process has made.
static MADE: AtomicU32 = AtomicU32::new(0);

/// A set of semaphores, removed when the process that made it drops it.
#[derive(Debug)]
pub struct SemaphoreSet {
    id: libc::c_int,
    owner: u32,
}

fn key(of: Use, set: u32, pid: u32) -> libc::key_t {
    ((of as libc::key_t) << 24) | ((set % SETS) << 22 | pid & PID) as libc::key_t
}

/// The process that a key names, if the key is one of ours.
fn pid_of(key: libc::key_t) -> Option<i32> {
    let ours = [Use::Bench, Use::Wakeup].iter().any(|of| key >> 24 == *of as libc::key_t);
    i32::try_from(key as u32 & PID).ok().filter(|pid| ours && *pid > 0)
}

fn result(returned: libc::c_int) -> io::Result<libc::c_int> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

impl SemaphoreSet {
    /// A new set of `count` semaphores at 0, under the key of process `pid`; what an earlier process of that number
    /// left is replaced.
    ///
    /// # Errors
    /// When the kernel has none, its limit is used up, or another user has a set under that key.
    pub fn new(of: Use, pid: u32, count: libc::c_int) -> io::Result<Self> {
        let flags = libc::IPC_CREAT | libc::IPC_EXCL | 0o600;
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let key = if number < SETS { key(of, number, pid) } else { libc::IPC_PRIVATE };
        // SAFETY: plain integers.
        let make = || result(unsafe { libc::semget(key, count, flags) });
        let id = make().or_else(|error| {
            if error.kind() != io::ErrorKind::AlreadyExists {
                return Err(error);
            }
            remove_key(key);
            make()
        })?;
        let set = Self { id, owner: std::process::id() };
        for n in 0..count {
            // Also tells the kernel which process changed it last.
            // SAFETY: plain integers.
            result(unsafe { libc::semctl(id, n, libc::SETVAL, 0) })?;
        }
        Ok(set)
    }

    /// Adds to one of them; waits while a negative number would make it negative.
    ///
    /// # Errors
    /// The call's, among them `Interrupted`.
    #[inline]
    pub fn add(&self, number: u16, n: i16) -> io::Result<()> {
        let mut operation = libc::sembuf { sem_num: number, sem_op: n, sem_flg: 0 };
        // SAFETY: one whole operation that outlives the call.
        result(unsafe { libc::semop(self.id, &raw mut operation, 1) }).map(drop)
    }
}

impl Drop for SemaphoreSet {
    fn drop(&mut self) {
        if std::process::id() == self.owner {
            // SAFETY: plain integers; the set is ours.
            unsafe { libc::semctl(self.id, 0, libc::IPC_RMID) };
        }
    }
}

fn remove_key(key: libc::key_t) {
    // SAFETY: plain integers.
    unsafe {
        let old = libc::semget(key, 0, 0);
        if old >= 0 {
            libc::semctl(old, 0, libc::IPC_RMID);
        }
    }
}

/// Removes the sets under the keys of process `pid`.
pub fn remove(of: Use, pid: u32) {
    (0..SETS).for_each(|set| remove_key(key(of, set, pid)));
}

/// Removes the sets of this user whose processes were killed; how many.
pub fn remove_abandoned() -> usize {
    // Not there without CONFIG_SYSVIPC or /proc: then there are no sets to see.
    let list = std::fs::read_to_string("/proc/sysvipc/sem").unwrap_or_default();
    let own = rustix::process::geteuid().as_raw();
    list.lines().skip(1).filter(|line| remove_if_abandoned(line, own).is_some()).count()
}

/// A line is key, identifier, permissions, number of semaphores, owner and more.
fn remove_if_abandoned(line: &str, own: u32) -> Option<()> {
    let mut words = line.split_whitespace();
    let pid = pid_of(words.next()?.parse().ok()?)?;
    let id: libc::c_int = words.next()?.parse().ok()?;
    let user: u32 = words.nth(2)?.parse().ok()?;
    if user != own || lives(pid) {
        return None;
    }
    // SAFETY: plain integers.
    let last = unsafe { libc::semctl(id, 0, libc::GETPID) };
    if last <= 0 || lives(last) {
        return None;
    }
    // SAFETY: plain integers.
    result(unsafe { libc::semctl(id, 0, libc::IPC_RMID) }).ok().map(drop)
}

fn lives(pid: i32) -> bool {
    let pid = rustix::process::Pid::from_raw(pid);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_of_latlab_name_a_process() {
        for of in [Use::Bench, Use::Wakeup] {
            assert_eq!(pid_of(key(of, 3, 4_194_303)), Some(4_194_303));
        }
        assert_eq!(pid_of(0x6b00_0001), None);
        assert_eq!(pid_of(0x6d00_0000), None);
        assert_eq!(pid_of(-1), None);
    }

    #[test]
    fn sets_of_a_living_process_stay() {
        let new = || SemaphoreSet::new(Use::Wakeup, std::process::id(), 1);
        let Ok(first) = new() else { return };
        let others: Vec<_> = (0..SETS).map(|_| new().unwrap()).collect();
        remove_abandoned();
        for set in others.iter().chain([&first]) {
            set.add(0, 1).unwrap();
            set.add(0, -1).unwrap();
        }
    }
}
