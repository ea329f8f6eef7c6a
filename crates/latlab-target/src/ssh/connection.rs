//! One board, reached by `ssh`; one connection that all commands share.

use super::shell::quoted;
use crate::answer::{self, ANSWER_MAX, COMPLAINTS_MAX, NoAnswer};
use crate::spec::SshTarget;
use crate::vm::find_program;
use crate::{Result, TargetError};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// For the answer to a script, a login included: a key's passphrase may have to be typed.
pub(super) const ANSWER_TIME: Duration = Duration::from_secs(180);
/// For the end of the shared connection.
const CLOSE_TIME: Duration = Duration::from_secs(10);

/// A way to run shell scripts on a board.
#[derive(Debug)]
pub struct Connection {
    target: SshTarget,
    ssh: PathBuf,
    control: PathBuf,
    stopped: fn() -> bool,
}

/// A script for the board, and how long its answer is waited for.
#[derive(Debug)]
pub(crate) struct Script<'a> {
    /// What the board's `sh` runs.
    pub text: &'a str,
    /// On its stdin.
    pub input: &'a [u8],
    /// What an error begins with.
    pub what: &'a str,
    /// The longest that it takes, with the connection.
    pub time: Duration,
}

impl Connection {
    /// Asks nothing of the board yet. `scratch`: a folder for the shared connection's socket. `stopped`: whether latlab is
    /// asked to stop.
    pub fn new(target: &SshTarget, scratch: &Path, stopped: fn() -> bool) -> Result<Self> {
        let ssh = find_program("ssh").ok_or_else(|| TargetError::NoProgram {
            program: "ssh".into(),
            purpose: target.to_string(),
            package: "openssh-client".into(),
        })?;
        Ok(Self { target: target.clone(), ssh, control: scratch.join("s"), stopped })
    }

    /// The board.
    pub fn target(&self) -> &SshTarget {
        &self.target
    }

    /// Whether latlab is asked to stop.
    pub(super) fn stopped(&self) -> fn() -> bool {
        self.stopped
    }

    /// `ssh` with everything but the streams; the script runs in the board's `sh`.
    pub fn command(&self, script: &str) -> Command {
        let mut command = Command::new(&self.ssh);
        command.args(self.options());
        command.arg("--").arg(&self.target.destination);
        // The login shell may be anything; what it has to understand is one quoted word.
        command.arg(format!("exec sh -c {}", quoted(script)));
        command
    }

    fn options(&self) -> Vec<String> {
        let mut options: Vec<String> = [
            "-T",
            "-x",
            "-o",
            "ConnectTimeout=15",
            "-o",
            "ServerAliveInterval=5",
            "-o",
            "ServerAliveCountMax=3",
            "-o",
            "LogLevel=ERROR",
        ]
        .map(String::from)
        .to_vec();
        // A socket's path may have 104 bytes; without one, every command connects anew.
        if self.control.as_os_str().len() < 80 {
            options.extend([
                "-o".into(),
                "ControlMaster=auto".into(),
                "-o".into(),
                "ControlPersist=60".into(),
            ]);
            options.extend(["-o".into(), format!("ControlPath={}", self.control.display())]);
        }
        if let Some(port) = self.target.port {
            options.extend(["-p".into(), port.to_string()]);
        }
        options
    }

    /// Runs a script with this on its stdin; what it printed, or an error that begins with `what`.
    ///
    /// # Errors
    /// When the board does not answer, answers without end, or the script fails; when latlab is asked to stop meanwhile.
    pub fn checked(&self, script: &str, input: &[u8], what: &str) -> Result<Vec<u8>> {
        self.checked_for(&Script { text: script, input, what, time: ANSWER_TIME })
    }

    /// The same, for a script that takes its own time.
    pub(super) fn checked_for(&self, script: &Script<'_>) -> Result<Vec<u8>> {
        self.ask(script, &self.stopped).map_err(|error| match error {
            TargetError::Stopped => {
                self.error(format!("{}: stopped by a signal", script.what), String::new())
            }
            other => other,
        })
    }

    /// Runs a script; what it printed. `stopped` ends the wait, with [`TargetError::Stopped`].
    pub(crate) fn ask(&self, script: &Script<'_>, stopped: &dyn Fn() -> bool) -> Result<Vec<u8>> {
        let mut command = self.command(script.text);
        // To a file, not a pipe: the shared connection's master inherits stderr and would keep a pipe open.
        let complaints = self.control.with_extension("stderr");
        let sink = File::create(&complaints).map_err(TargetError::file(&complaints))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(sink);
        let mut child = command.spawn().map_err(TargetError::file(&self.ssh))?;
        let mut stdin = child.stdin.take();
        let input = script.input.to_vec();
        // It ends with ssh: a board that stops reading says why on its stderr.
        std::thread::spawn(move || stdin.as_mut().map(|pipe| pipe.write_all(&input)));
        let refuses =
            || fs::metadata(&complaints).is_ok_and(|file| file.len() > COMPLAINTS_MAX as u64);
        let answer = match answer::of(child, script.time, stopped, &refuses) {
            Ok(answer) if answer.status.success() => return Ok(answer.stdout),
            Ok(answer) => answer,
            Err(reason) => return Err(self.no_answer(script.what, reason)),
        };
        let mut complaint = Vec::new();
        if let Ok(file) = File::open(&complaints) {
            let _ = file.take(COMPLAINTS_MAX as u64).read_to_end(&mut complaint);
        }
        let complaint = String::from_utf8_lossy(&complaint);
        Err(self.explain(script.what, answer.status.code(), &complaint))
    }

    fn no_answer(&self, what: &str, reason: NoAnswer) -> TargetError {
        let by_hand = format!("try it by hand: ssh {}", self.target.destination);
        match reason {
            NoAnswer::Stopped => TargetError::Stopped,
            NoAnswer::Io(error) => TargetError::Io(error),
            NoAnswer::TooLate(time) => self.unreachable(
                format!("{what}: no answer within {} s", time.as_secs().max(1)),
                by_hand,
            ),
            NoAnswer::TooMuch => self.error(
                format!(
                    "{what}: it sends more than {} KiB, or complains with more than {} KiB",
                    ANSWER_MAX >> 10,
                    COMPLAINTS_MAX >> 10
                ),
                format!("a login script that prints without end, or hostile software on the board; {by_hand}"),
            ),
        }
    }

    /// What ssh's or the board's complaint means.
    fn explain(&self, what: &str, code: Option<i32>, complaint: &str) -> TargetError {
        let host = self.target.destination.rsplit('@').next().unwrap_or_default();
        let (message, hint) = classify(complaint, host).unwrap_or_else(|| {
            let last =
                complaint.lines().rfind(|l| !l.trim().is_empty()).unwrap_or("no reason was given");
            let hint = if code == Some(255) {
                format!("try it by hand: ssh {}", self.target.destination)
            } else {
                String::new()
            };
            (format!("{what}: {}", last.trim()), hint)
        });
        // Without a word it ends where the other end does.
        if code == Some(255) && (complaint.trim().is_empty() || is_temporary(complaint)) {
            return self.unreachable(message, hint);
        }
        self.error(message, hint)
    }

    /// Ends the shared connection, if there is one; the next command makes a new one.
    pub fn close(&self) {
        if !self.control.exists() {
            return;
        }
        let ended = Command::new(&self.ssh)
            .args(self.options())
            .args(["-O", "exit", "--", &self.target.destination])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        if let Ok(child) = ended {
            answer::end_within(child, CLOSE_TIME);
        }
    }

    /// This board does not answer now.
    pub fn unreachable(&self, message: String, hint: String) -> TargetError {
        TargetError::Unreachable { host: self.target.to_string(), message, hint }
    }

    /// An error of this board.
    pub fn error(&self, message: String, hint: String) -> TargetError {
        TargetError::Ssh { host: self.target.to_string(), message, hint }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close();
    }
}

/// Whether OpenSSH's complaint is of a network or a board that may be there again later (the texts of
/// connect(2)'s errors and of getaddrinfo(3)).
fn is_temporary(complaint: &str) -> bool {
    [
        "Connection refused",
        "Connection timed out",
        "Connection closed",
        "Connection reset",
        "No route to host",
        "Network is unreachable",
        "Temporary failure in name resolution",
    ]
    .iter()
    .any(|text| complaint.contains(text))
}

/// OpenSSH's complaints that mean something to a user.
fn classify(complaint: &str, host: &str) -> Option<(String, String)> {
    let has = |needle: &str| complaint.contains(needle);
    let (message, hint) = if has("IDENTIFICATION HAS CHANGED") {
        (
            "its host key is another one than before; nothing was run",
            format!(
                "if the board was set up anew: ssh-keygen -R {host}, then ssh to it once; if not, somebody may be in between"
            ),
        )
    } else if has("Host key verification failed") {
        (
            "its host key is not known; nothing was run",
            format!("ssh to {host} once by hand, compare the key, and accept it"),
        )
    } else if has("Permission denied (") {
        ("it did not let us in", "check user and key: ssh with the same name must work".into())
    } else if has("Could not resolve hostname") {
        (
            "there is no host of this name",
            "check the name, or the HostName in ssh's configuration".into(),
        )
    } else if has("Connection refused") {
        ("nothing listens there", "is the board on, and sshd on this port?".into())
    } else if has("Connection timed out") || has("No route to host") {
        ("it does not answer", "is the board on and on the network?".into())
    } else if has("No space left on device") {
        ("its disk is full", "free some space on the board".into())
    } else {
        return None;
    };
    Some((message.to_owned(), hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_keys_are_never_skipped() {
        let target = SshTarget { destination: "root@bone".into(), port: Some(2222) };
        let Ok(connection) = Connection::new(&target, Path::new("/tmp/x"), || false) else {
            assert!(std::env::var_os("CI").is_none(), "openssh-client has to be installed in CI");
            return;
        };
        let command = connection.command("true");
        let line: Vec<String> =
            command.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
        let line = line.join(" ");
        assert!(line.ends_with("-p 2222 -- root@bone exec sh -c 'true'"), "{line}");
        assert!(!line.contains("StrictHostKeyChecking") && !line.contains("UserKnownHostsFile"));
    }

    #[test]
    fn complaints_become_one_sentence() {
        let changed = "@@@@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.\n";
        let (message, hint) = classify(changed, "bone").unwrap();
        assert!(message.starts_with("its host key is another one"));
        assert!(hint.contains("ssh-keygen -R bone"));
        assert!(classify("Host key verification failed.\n", "b").unwrap().0.contains("not known"));
        assert!(
            classify("x@y: Permission denied (publickey).\n", "b").unwrap().0.contains("let us in")
        );
        assert!(classify("something else", "b").is_none());
        assert!(is_temporary("ssh: connect to host b port 22: Connection refused\r\n"));
        assert!(!is_temporary("x@y: Permission denied (publickey).\n"));
    }
}
