//! Boards that labgrid lends: a place is acquired for a command, and released after it.
//!
//! labgrid-client(1) is asked; the coordinator is the one that it finds (`LG_COORDINATOR`). The board is
//! reached by the system's ssh at the address of the place's `NetworkService`.

use crate::answer::{self, Answer, NoAnswer};
use crate::search::find_program;
use crate::spec::{LabgridTarget, SshTarget};
use crate::ssh::Connection;
use crate::{Result, TargetError};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CLIENT: &str = "labgrid-client";
/// How often a board that boots is asked.
const POLL: Duration = Duration::from_secs(2);
/// For a command of the client: a power switch may wait between off and on.
const TIME: Duration = Duration::from_secs(300);

/// A place that is ours. It is released when dropped, unless the user had acquired it before.
#[derive(Debug)]
pub struct Place {
    target: LabgridTarget,
    client: PathBuf,
    release: bool,
    stopped: fn() -> bool,
}

impl Place {
    /// Acquires a place and, if asked to, switches its board off and on. `stopped`: whether latlab is asked to stop.
    ///
    /// # Errors
    /// [`TargetError::Unreachable`] when somebody else has it, the coordinator does not answer, or the power cannot be
    /// switched; others when there is no such place or no labgrid-client.
    pub fn acquire(
        target: &LabgridTarget,
        stopped: fn() -> bool,
        say: &mut dyn FnMut(&str),
    ) -> Result<Self> {
        let client = find_program(CLIENT).ok_or_else(|| TargetError::Ssh {
            host: target.to_string(),
            message: format!("{CLIENT} is not installed"),
            hint: "pip install labgrid".into(),
        })?;
        let mut place = Self { target: target.clone(), client, release: false, stopped };
        // A signal in the middle would leave it acquired.
        let output = place.client(&["acquire"], TIME, &|| false)?;
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            place.release = true;
            say(&format!("{target}: acquired"));
        } else if !complaint.contains("You have already acquired") {
            return Err(place.explain(&complaint));
        }
        if target.power_cycle {
            say(&format!("{target}: switching the power off and on"));
            place.run(&["power", "cycle"])?;
        }
        Ok(place)
    }

    /// Where its board is.
    ///
    /// # Errors
    /// When the place has no network service.
    pub fn ssh(&self) -> Result<SshTarget> {
        network_service(&self.environment()?).ok_or_else(|| TargetError::Ssh {
            host: self.target.to_string(),
            message: "the place has no NetworkService with an address".into(),
            hint: "the exporter's configuration needs NetworkService: {address: …, username: …}"
                .into(),
        })
    }

    /// Waits until a board whose power was switched answers, or latlab is asked to stop.
    ///
    /// # Errors
    /// The connection's last one, when the time is over.
    pub fn wait(&self, connection: &Connection) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(self.target.boot_timeout_s);
        loop {
            match connection.checked("true", b"", "waiting for the board") {
                Err(TargetError::Unreachable { .. })
                    if Instant::now() < end && !(self.stopped)() =>
                {
                    std::thread::sleep(POLL);
                }
                answer => return answer.map(drop),
            }
        }
    }

    /// Whether its board boots now.
    pub fn boots(&self) -> bool {
        self.target.power_cycle
    }

    /// Whether latlab is asked to stop.
    pub(crate) fn stopped(&self) -> fn() -> bool {
        self.stopped
    }

    /// Name of the place.
    pub fn name(&self) -> &str {
        &self.target.place
    }

    /// What is known of the place's resources, as `labgrid-client env` prints it.
    ///
    /// # Errors
    /// When the coordinator does not answer.
    pub(crate) fn environment(&self) -> Result<String> {
        let output = self.client(&["env"], TIME, &self.stopped)?;
        if !output.status.success() {
            return Err(self.explain(&String::from_utf8_lossy(&output.stderr)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs a command of the client.
    ///
    /// # Errors
    /// [`TargetError::Unreachable`] when it fails: a later try may succeed.
    pub(crate) fn run(&self, words: &[&str]) -> Result<()> {
        self.run_for(words, TIME)
    }

    /// The same, for one that takes so long.
    pub(crate) fn run_for(&self, words: &[&str], time: Duration) -> Result<()> {
        let output = self.client(words, time, &self.stopped)?;
        if output.status.success() {
            return Ok(());
        }
        let complaint = String::from_utf8_lossy(&output.stderr);
        let what: Vec<&str> = words.iter().copied().take_while(|w| !w.contains('/')).collect();
        Err(self.unreachable(format!("{}: {}", what.join(" "), last_line(&complaint))))
    }

    fn client(&self, words: &[&str], time: Duration, stopped: &dyn Fn() -> bool) -> Result<Answer> {
        let mut command = Command::new(&self.client);
        command.args(["-p", &self.target.place]).args(words).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(TargetError::file(&self.client))?;
        let what = || words.first().copied().unwrap_or_default();
        answer::of(child, time, stopped, &|| false).map_err(|reason| match reason {
            NoAnswer::Stopped => TargetError::Stopped,
            NoAnswer::Io(error) => TargetError::Io(error),
            NoAnswer::TooLate(time) => {
                self.unreachable(format!("{}: no answer within {} s", what(), time.as_secs()))
            }
            NoAnswer::TooMuch => self.unreachable(format!(
                "{}: {CLIENT} prints more than {} KiB",
                what(),
                answer::ANSWER_MAX >> 10
            )),
        })
    }

    /// What the client's complaint means.
    fn explain(&self, complaint: &str) -> TargetError {
        let line = last_line(complaint);
        let is_unknown = complaint.contains("matches nothing") || complaint.contains("not found");
        if is_unknown {
            return TargetError::Ssh {
                host: self.target.to_string(),
                message: line,
                hint: format!("{CLIENT} places lists them"),
            };
        }
        self.unreachable(line)
    }

    fn unreachable(&self, message: String) -> TargetError {
        TargetError::Unreachable {
            host: self.target.to_string(),
            message,
            hint: format!(
                "{CLIENT} -p {} show; LG_COORDINATOR names the coordinator",
                self.target.place
            ),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.target.fmt(f)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.release {
            // A failure is labgrid's to tell: the place is shown as acquired.
            let _ = self.client(&["release"], TIME, &|| false);
        }
    }
}

/// The last line of a complaint, without what the client puts before it.
fn last_line(complaint: &str) -> String {
    let line = complaint.lines().rfind(|l| !l.trim().is_empty()).unwrap_or("it gave no reason");
    let line = line.trim();
    let line = line.strip_prefix("labgrid-client: ").unwrap_or(line);
    let line = line.strip_prefix("Server error: ").unwrap_or(line);
    line.strip_prefix("Error: ")
        .unwrap_or(line)
        .chars()
        .filter(|c| !c.is_control())
        .take(300)
        .collect()
}

/// Keys of the first resource of a class, as `labgrid-client env` prints it (YAML, one key a line).
pub(crate) fn keys_of(env: &str, class: &str) -> Option<Vec<(String, String)>> {
    let head = format!("- {class}:");
    let mut lines = env.lines().skip_while(|line| line.trim() != head);
    lines.next()?;
    let own = lines.take_while(|line| !line.trim_start().starts_with("- "));
    let key = |line: &str| {
        let (key, value) = line.trim().split_once(':')?;
        Some((key.to_owned(), value.trim().trim_matches(['\'', '"']).to_owned()))
    };
    Some(own.filter_map(key).collect())
}

/// The first network service of a place's environment.
fn network_service(env: &str) -> Option<SshTarget> {
    let (mut address, mut user, mut port) = (None, None, None);
    for (key, value) in keys_of(env, "NetworkService")? {
        match key.as_str() {
            "address" => address = Some(value),
            "username" if !value.is_empty() => user = Some(value),
            "port" => port = value.parse().ok(),
            _ => {}
        }
    }
    let address = address
        .filter(|a| !a.is_empty() && !a.starts_with('-') && !a.contains(char::is_whitespace))?;
    let user = user.filter(|u: &String| !u.starts_with('-') && !u.contains(char::is_whitespace));
    let destination = user.map_or_else(|| address.clone(), |user| format!("{user}@{address}"));
    Some(SshTarget { destination, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_service_is_read() {
        let env = "targets:\n  bone:\n    resources:\n    - NetworkSerialPort:\n        host: lab\n        port: 4001\n    \
                   - NetworkService:\n        username: root\n        address: 10.0.0.7\n        port: 2201\n    - NetworkPowerPort:\n        \
                   host: pdu\n";
        let expected = SshTarget { destination: "root@10.0.0.7".into(), port: Some(2201) };
        assert_eq!(network_service(env), Some(expected));
        let plain = "- NetworkService:\n    address: 'fe80::1'\n    password: ''\n    port: 22\n    username: ''\n\n";
        let expected = SshTarget { destination: "fe80::1".into(), port: Some(22) };
        assert_eq!(network_service(plain), Some(expected));
        assert_eq!(network_service("- NetworkService:\n    address: -oProxyCommand=x\n"), None);
        assert_eq!(network_service("targets: {}\n"), None);
    }

    #[test]
    fn complaints_lose_what_is_before_them() {
        let complaint = "ERROR root: coordinator is unavailable\nServer error: Error: Could not connect to coordinator\n";
        assert_eq!(last_line(complaint), "Could not connect to coordinator");
        assert_eq!(
            last_line("labgrid-client: Error: place pattern x matches nothing"),
            "place pattern x matches nothing"
        );
    }
}
