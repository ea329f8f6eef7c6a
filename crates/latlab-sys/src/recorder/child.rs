//! A command to trace, held at its first instruction until tracing is on.

use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

/// A forked process that waits before it becomes the command.
#[derive(Debug)]
pub struct Held {
    pid: u32,
    go: PipeWriter,
    spawner: JoinHandle<io::Result<Child>>,
}

/// The byte that lets a held process go on.
const GO: u8 = 1;

/// Why there is nothing to hold.
fn died() -> io::Error {
    io::Error::other("the command's process died before it was started")
}

/// Forks; the command is looked up and started by [`Held::release`].
///
/// # Errors
/// When a process cannot be made.
pub fn hold(command: &[OsString]) -> io::Result<Held> {
    hold_with(command, Stdio::inherit())
}

/// As [`hold`], with another standard output.
///
/// # Errors
/// As [`hold`].
pub fn hold_with(command: &[OsString], output: Stdio) -> io::Result<Held> {
    let [program, arguments @ ..] = command else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no command"));
    };
    let (mut tells_pid, pid_of) = io::pipe()?;
    let (waits, go) = io::pipe()?;
    let mut command = Command::new(program);
    command.args(arguments).stdout(output);
    wait_before_exec(&mut command, &pid_of, &waits, &go);
    // spawn() returns when exec succeeded or failed: it needs a thread of its own.
    let spawner = std::thread::Builder::new().name("latlab-spawn".into()).spawn(move || {
        let child = command.spawn();
        drop((pid_of, waits));
        child
    })?;
    let mut pid = [0; 4];
    match tells_pid.read_exact(&mut pid) {
        Ok(()) => Ok(Held { pid: u32::from_ne_bytes(pid), go, spawner }),
        Err(_) => match spawner.join() {
            Ok(Err(e)) => Err(e),
            _ => Err(died()),
        },
    }
}

/// Has the forked child send its number and wait for [`GO`]; anything else ends it, as does the
/// end of the pipe, that is, of us.
fn wait_before_exec(
    command: &mut Command,
    pid_of: &PipeWriter,
    waits: &PipeReader,
    go: &PipeWriter,
) {
    let (out, input, ours) = (pid_of.as_raw_fd(), waits.as_raw_fd(), go.as_raw_fd());
    let act = move || {
        let mut pid = [0; 4];
        // SAFETY: getpid, close, write and read are async-signal-safe; the descriptors belong to
        // pipes that were open when this process was forked, `ours` is its own copy, and each
        // buffer is valid for the length that is passed.
        let ok = unsafe {
            libc::close(ours);
            pid.copy_from_slice(&libc::getpid().to_ne_bytes());
            libc::write(out, pid.as_ptr().cast(), 4) == 4
                && libc::read(input, pid.as_mut_ptr().cast(), 1) == 1
                && pid[0] == GO
        };
        if ok { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ECANCELED)) }
    };
    // SAFETY: the closure only makes async-signal-safe system calls and allocates nothing.
    unsafe { command.pre_exec(act) };
}

impl Held {
    /// Its process number, which the command will have.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets it become the command.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] when there is no such command, what exec said otherwise.
    pub fn release(mut self) -> io::Result<Child> {
        self.go.write_all(&[GO])?;
        self.spawner.join().unwrap_or_else(|_| Err(died()))
    }

    /// Ends it without ever starting the command.
    pub fn cancel(mut self) {
        let _ = self.go.write_all(&[GO + 1]);
        let _ = self.spawner.join();
    }
}

/// The exit code that a shell would report: 128 + n for a death by signal n.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// Sends a signal to a child.
pub fn signal(child: &Child, signal: i32) {
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    let known = rustix::process::Signal::from_named_raw(signal);
    if let (Some(pid), Some(signal)) = (pid, known) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_command_starts_when_released_and_keeps_its_pid() {
        let held = hold(&["sh".into(), "-c".into(), "exit 7".into()]).unwrap();
        let pid = held.pid();
        assert_ne!(pid, std::process::id());
        let mut child = held.release().unwrap();
        assert_eq!(child.id(), pid);
        assert_eq!(exit_code(child.wait().unwrap()), 7);
    }

    #[test]
    fn a_missing_command_is_told_on_release_and_a_cancelled_one_never_runs() {
        let held = hold(&["latlab-no-such-command".into()]).unwrap();
        assert_eq!(held.release().unwrap_err().kind(), io::ErrorKind::NotFound);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ran");
        hold(&["touch".into(), file.clone().into()]).unwrap().cancel();
        assert!(!file.exists());
    }

    #[test]
    fn death_by_signal_is_128_and_its_number() {
        let mut child = hold(&["sleep".into(), "60".into()]).unwrap().release().unwrap();
        signal(&child, libc::SIGTERM);
        assert_eq!(exit_code(child.wait().unwrap()), 143);
    }
}
