//! The command that a capture starts.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A command that runs longer is killed.
const LONGEST: Duration = Duration::from_secs(30);

/// Starts a shell command, one at a time.
#[derive(Debug)]
pub(super) struct Alarm {
    command: Option<String>,
    running: Option<(Child, Instant)>,
    /// The last one could not be started, or failed: said once.
    failed: bool,
}

impl Alarm {
    /// The command of the configuration.
    pub(super) fn new(command: Option<String>) -> Self {
        Self { command, running: None, failed: false }
    }

    /// Starts it with these variables, unless it runs.
    pub(super) fn start(&mut self, variables: &[(&str, &str)]) {
        self.look();
        let Some(command) = self.command.as_deref().filter(|_| self.running.is_none()) else {
            return;
        };
        let child = Command::new("/bin/sh")
            .args(["-c", command])
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // What it starts is killed with it.
            .process_group(0)
            .spawn();
        match child {
            Ok(child) => self.running = Some((child, Instant::now())),
            Err(error) => self.fail(&error.to_string()),
        }
    }

    /// Looks whether it has ended.
    pub(super) fn look(&mut self) {
        let Some((child, since)) = &mut self.running else { return };
        let ended = match child.try_wait() {
            Ok(None) if since.elapsed() < LONGEST => return,
            Ok(None) => {
                kill(child);
                Some(format!("killed after {} s", LONGEST.as_secs()))
            }
            Ok(Some(status)) => (!status.success()).then(|| status.to_string()),
            Err(error) => Some(error.to_string()),
        };
        self.running = None;
        match ended {
            Some(reason) => self.fail(&reason),
            None => self.failed = false,
        }
    }

    fn fail(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.failed, true) {
            log::warn!("--exec: {reason}; further failures are not reported");
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if let Some((child, _)) = &mut self.running {
            kill(child);
        }
    }
}

fn kill(child: &mut Child) {
    let _ = latlab_sys::process::kill_group(child.id());
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::{fs, thread};

    #[test]
    fn what_a_command_starts_is_killed_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        let mut alarm = Alarm::new(Some("sleep 60 & echo $! >$FILE; wait; true".into()));
        alarm.start(&[("FILE", file.to_str().unwrap())]);
        let pid = loop {
            match fs::read_to_string(&file) {
                Ok(pid) if pid.ends_with('\n') => break pid.trim().to_owned(),
                _ => thread::sleep(Duration::from_millis(5)),
            }
        };
        drop(alarm);
        let stat = Path::new("/proc").join(pid).join("stat");
        // Without a parent it is a zombie until somebody reaps it.
        let is_alive = || fs::read_to_string(&stat).is_ok_and(|text| !text.contains(") Z "));
        let since = Instant::now();
        while is_alive() && since.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(!is_alive());
    }
}
