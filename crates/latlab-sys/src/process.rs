//! Children that must not outlive us, and signals to processes.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

/// This program, to be started again: the kernel's link to it holds also where its file was
/// replaced or removed meanwhile (proc_pid_exe(5)).
///
/// # Errors
/// Where `/proc` is not mounted.
pub fn own_program() -> io::Result<PathBuf> {
    let link = PathBuf::from("/proc/self/exe");
    std::fs::metadata(&link)?;
    Ok(link)
}

/// Gives this process its name back if it was started through [`own_program`], for which the
/// kernel calls it `exe`: traces and `ps` show the name.
pub fn name_restarted(name: &CStr) {
    if rustix::thread::name().is_ok_and(|now| now.as_c_str() == c"exe") {
        let _ = rustix::thread::set_name(name);
    }
}

/// Has the kernel kill this process when the one that started it ends.
pub fn die_with_parent() {
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
}

/// Has the kernel kill the child when the thread that started it ends, even by SIGKILL.
///
/// Start it from a thread that lives as long as the child should: the main one.
pub fn tie_to_us(command: &mut Command) {
    tie(command, rustix::process::Signal::KILL);
}

/// The same with SIGTERM, for a child that has something to restore or to end first.
pub fn ask_to_end_with_us(command: &mut Command) {
    tie(command, rustix::process::Signal::TERM);
}

fn tie(command: &mut Command, signal: rustix::process::Signal) {
    let parent = rustix::process::getpid();
    let tie = move || {
        rustix::process::set_parent_process_death_signal(Some(signal))?;
        // We may have died between the fork and the line above.
        if rustix::process::getppid() != Some(parent) {
            return Err(io::Error::other("the parent is gone"));
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes two system calls and allocates
    // nothing on its way to success; it captures a plain integer.
    unsafe {
        command.pre_exec(tie);
    }
}

/// Threads of the kernel that are named `PREFIX` and a CPU's number, by CPU: `osnoise/1`.
pub fn kernel_threads(prefix: &str) -> BTreeMap<u32, i32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let thread = |entry: std::fs::DirEntry| {
        let tid = entry.file_name().to_str()?.parse().ok()?;
        let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
        Some((name.trim().strip_prefix(prefix)?.parse().ok()?, tid))
    };
    processes.filter_map(thread).collect()
}

/// The kernel's number of the calling thread.
pub fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Stops a process (SIGSTOP) or lets it go on (SIGCONT).
pub fn set_stopped(pid: u32, stopped: bool) -> io::Result<()> {
    let signal =
        if stopped { rustix::process::Signal::STOP } else { rustix::process::Signal::CONT };
    signal_to(pid, signal)
}

/// Sends a signal by number to a process.
pub fn send(pid: u32, signal: u8) -> io::Result<()> {
    let signal = rustix::process::Signal::from_named_raw(i32::from(signal))
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    signal_to(pid, signal)
}

fn signal_to(pid: u32, signal: rustix::process::Signal) -> io::Result<()> {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ok(rustix::process::kill_process(pid, signal)?)
}

/// Waits for a child. When this process is asked to stop, the child gets this signal, once.
///
/// This thread runs four times a second at most meanwhile: it may be a measurement that is waited for.
pub fn wait_and_pass_on(child: &mut Child, signal: u8) -> io::Result<ExitStatus> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    // Readable at its end; Linux 5.3.
    let ended = pidfd_open(Pid::from_child(child), PidfdFlags::empty());
    let pause = Duration::from_millis(250);
    let limit = Timespec { tv_sec: 0, tv_nsec: pause.subsec_nanos().into() };
    let mut is_told = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if !is_told && crate::signal::stop_requested().is_some() {
            is_told = send(child.id(), signal).is_ok();
        }
        match &ended {
            // A signal ends it too, where this thread gets it.
            Ok(fd) => drop(poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&limit))),
            Err(_) => std::thread::sleep(pause),
        }
    }
}

/// What `/proc/PID/stat` says of a process or thread (proc_pid_stat(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// It has ended, and its parent has not waited for it.
    pub is_zombie: bool,
    /// Its parent.
    pub parent: u32,
    /// Its start in ticks since boot: with the id, the name of one process, since ids are used again.
    pub start: u64,
}

impl Stat {
    /// That of a process; `None`: there is none.
    pub fn of(pid: u32) -> Option<Self> {
        Self::parse(&crate::files::Root::here().text(&format!("proc/{pid}/stat"))?)
    }

    fn parse(stat: &str) -> Option<Self> {
        // The name may hold blanks and parentheses; what follows its last `)` is fields 3 and on.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let is_zombie = matches!(fields.next()?, "Z" | "X");
        let parent = fields.next()?.parse().ok()?;
        Some(Self { is_zombie, parent, start: fields.nth(17)?.parse().ok()? })
    }
}

/// Start of a process in ticks since boot.
pub fn start_ticks(pid: u32) -> Option<u64> {
    Stat::of(pid).map(|stat| stat.start)
}

/// Kills a process group whose leader we started.
pub fn kill_group(leader: u32) -> io::Result<()> {
    let pid = i32::try_from(leader)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ok(rustix::process::kill_process_group(pid, rustix::process::Signal::KILL)?)
}

/// Starts a process that ends at once, and waits for its end.
///
/// # Errors
/// When it cannot be started.
pub fn fork_and_reap() -> io::Result<()> {
    // SAFETY: the child makes one system call, _exit(2), and returns into nothing of ours.
    let pid = unsafe {
        match libc::fork() {
            0 => libc::_exit(0),
            pid => pid,
        }
    };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    let child = rustix::process::Pid::from_raw(pid);
    loop {
        match rustix::process::waitpid(child, rustix::process::WaitOptions::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
    }
}

/// Leaves the terminal and session that we were started from.
pub fn new_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// Ends this process at once, by SIGKILL: for a helper that nobody listens to any more.
pub fn end_now() {
    let _ = signal_to(std::process::id(), rustix::process::Signal::KILL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parent_and_start_are_behind_the_name() {
        let text = "12 (a) b) S 7 12 12 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 2 3";
        let expected = Stat { is_zombie: false, parent: 7, start: 4711 };
        assert_eq!(Stat::parse(text), Some(expected));
        assert_eq!(Stat::parse("12 (a) Z 7"), None);
        let own = Stat::of(std::process::id()).unwrap();
        assert_eq!(Some(own.start), start_ticks(std::process::id()));
    }
}
