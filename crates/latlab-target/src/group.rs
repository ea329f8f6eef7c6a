//! A program in a process group of its own, which is ended with all its processes.

use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// Between two looks at a program that runs.
const LOOK: Duration = Duration::from_millis(50);

/// Runs a program to its end. `stopped` is called about 20 times a second, and ends it when it is true: `None`.
///
/// # Errors
/// When it cannot be started, ended or waited for.
pub fn run(
    command: &mut Command,
    stopped: &mut dyn FnMut() -> bool,
) -> io::Result<Option<ExitStatus>> {
    let mut child = command.process_group(0).spawn()?;
    loop {
        if stopped() {
            // Before it is waited for: until then the group's number is no other's.
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            let group = group.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
            kill_process_group(group, Signal::KILL)?;
            child.wait()?;
            return Ok(None);
        }
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(LOOK);
    }
}
