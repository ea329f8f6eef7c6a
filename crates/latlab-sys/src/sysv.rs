//! System V semaphores whose key names their process: the kernel removes none when a process is killed.
//!
//! A key is a byte for the kind of use, two bits for the sets of one process, and a process id (below 2^22).
//! ftok(3) makes such keys too, so that a key alone proves nothing: behind its semaphores a set has two more, whose
//! values mark it as one of latlab. Only sets of this user with mode 0600 and the mark are removed.
//! [`remove_abandoned`] removes those whose process has ended. A set also knows the process that changed it last
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
/// Values of the last two semaphores of a set: "la", "tl".
const MARK: [libc::c_int; 2] = [0x6c61, 0x746c];
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
    /// A new set of `count` semaphores at 0, under a key of process `pid`. What an earlier process of that number left
    /// is replaced; where another program or a process that lives has a set under a key, the next key is tried.
    ///
    /// # Errors
    /// When the kernel has none, or its limit is used up.
    pub fn new(of: Use, pid: u32, count: libc::c_int) -> io::Result<Self> {
        let id = make(of, pid, count + MARK.len() as libc::c_int)?;
        let set = Self { id, owner: std::process::id() };
        // Also tells the kernel which process changed it last; the mark comes last, so that a marked set is complete.
        for (n, value) in (0..).zip(std::iter::repeat_n(0, count as usize).chain(MARK)) {
            // SAFETY: plain integers.
            result(unsafe { libc::semctl(id, n, libc::SETVAL, value) })?;
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

fn make(of: Use, pid: u32, semaphores: libc::c_int) -> io::Result<libc::c_int> {
    let flags = libc::IPC_CREAT | libc::IPC_EXCL | 0o600;
    // SAFETY: plain integers.
    let get = |key| result(unsafe { libc::semget(key, semaphores, flags) });
    let is_taken = |got: &io::Result<_>| {
        got.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
    };
    for number in MADE.fetch_add(1, Ordering::Relaxed)..SETS {
        let key = key(of, number, pid);
        let mut got = get(key);
        if is_taken(&got) && remove_where(|set| set.key == key && !lives(set.last)) > 0 {
            got = get(key);
        }
        if !is_taken(&got) {
            return got;
        }
    }
    get(libc::IPC_PRIVATE)
}

/// A set of latlab and of this user, last changed in this PID namespace.
struct Marked {
    key: libc::key_t,
    id: libc::c_int,
    /// The process that changed it last.
    last: i32,
}

impl Marked {
    /// From a line of `/proc/sysvipc/sem`: key, identifier, permissions, number of semaphores, user, group, and
    /// those that made it.
    fn of(line: &str, own: u32) -> Option<Self> {
        let words: Vec<_> = line.split_whitespace().collect();
        let [key, id, mode, count, user, _, maker, ..] = words[..] else { return None };
        let (key, id) = (key.parse().ok()?, id.parse().ok()?);
        pid_of(key)?;
        let users = [user, maker].map(str::parse);
        if mode != "600" || users != [Ok(own), Ok(own)] {
            return None;
        }
        let first = count.parse::<libc::c_int>().ok()?.checked_sub(MARK.len() as libc::c_int)?;
        // SAFETY: plain integers.
        let value = |n| unsafe { libc::semctl(id, n, libc::GETVAL) };
        let is_marked = first > 0 && (first..).zip(MARK).all(|(n, mark)| value(n) == mark);
        // SAFETY: plain integers.
        let last = unsafe { libc::semctl(id, 0, libc::GETPID) };
        (is_marked && last > 0).then_some(Self { key, id, last })
    }
}

/// Removes sets of latlab and of this user; how many.
fn remove_where(is_meant: impl Fn(&Marked) -> bool) -> usize {
    // Not there without CONFIG_SYSVIPC or /proc: then there are no sets to see.
    let list = std::fs::read_to_string("/proc/sysvipc/sem").unwrap_or_default();
    let own = rustix::process::geteuid().as_raw();
    let meant = list.lines().skip(1).filter_map(|line| Marked::of(line, own)).filter(is_meant);
    // SAFETY: plain integers.
    meant.filter(|set| unsafe { libc::semctl(set.id, 0, libc::IPC_RMID) } == 0).count()
}

/// Removes the sets under the keys of process `pid`.
pub fn remove(of: Use, pid: u32) {
    let keys: [_; SETS as usize] = std::array::from_fn(|set| key(of, set as u32, pid));
    remove_where(|set| keys.contains(&set.key));
}

/// Removes the sets of this user whose processes were killed; how many.
pub fn remove_abandoned() -> usize {
    remove_where(|set| !pid_of(set.key).is_some_and(lives) && !lives(set.last))
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

    /// What a program that ended left: under these keys, with this mode and these values. `None` without semaphores.
    fn left(mode: libc::c_int, values: &[libc::c_int], at: [u32; 2]) -> Option<(u32, [i32; 2])> {
        // SAFETY: the child makes system calls and ends.
        let child = unsafe { libc::fork() };
        let pid = if child == 0 { std::process::id() } else { u32::try_from(child).ok()? };
        let keys = at.map(|set| key(Use::Wakeup, set, pid));
        // SAFETY: plain integers.
        let get = |key, n, flags| result(unsafe { libc::semget(key, n, flags) }).ok();
        if child == 0 {
            for key in keys {
                let id = get(key, values.len() as libc::c_int, libc::IPC_CREAT | mode);
                for (n, value) in (0..).zip(values) {
                    // SAFETY: plain integers.
                    unsafe { libc::semctl(id.unwrap_or(-1), n, libc::SETVAL, *value) };
                }
            }
            // SAFETY: ends the child without what its parent does at its end.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: a child of ours; nobody asks for its status.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        let [first, second] = keys.map(|key| get(key, 0, 0));
        Some((pid, [first?, second?]))
    }

    fn is_there(id: i32) -> bool {
        // SAFETY: plain integers.
        unsafe { libc::semctl(id, 0, libc::GETPID) >= 0 }
    }

    #[test]
    fn sets_of_other_programs_stay_and_another_key_is_used() {
        // As of `semget(ftok(path, 'm'), 1, IPC_CREAT | 0666)`; and more alike from one to the next.
        let foreign: [(_, &[_]); 4] =
            [(0o666, &[0]), (0o600, &[0]), (0o600, &[0, 0, 0]), (0o666, &[0, MARK[0], MARK[1]])];
        for (mode, values) in foreign {
            let Some((pid, ids)) = left(mode, values, [0, 1]) else { return };
            remove_abandoned();
            remove(Use::Wakeup, pid);
            // Whatever number this is of the process, its key is not one of theirs.
            let made = SemaphoreSet::new(Use::Wakeup, pid, 1).unwrap();
            let all_there = ids.into_iter().all(is_there);
            // SAFETY: plain integers; the sets are this test's.
            ids.into_iter().for_each(|id| unsafe {
                libc::semctl(id, 0, libc::IPC_RMID);
            });
            assert!(all_there, "{mode:o} {values:?}");
            assert!(!ids.contains(&made.id));
            made.add(0, 1).unwrap();
        }
    }

    #[test]
    fn sets_of_latlab_whose_process_ended_are_removed() {
        let Some((_, ids)) = left(0o600, &[1, MARK[0], MARK[1]], [2, 3]) else { return };
        // Another process may be first.
        remove_abandoned();
        assert!(!ids.into_iter().any(is_there));
    }
}
