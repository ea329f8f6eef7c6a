//! One board, reached by `ssh`; one connection that all commands share.

use super::shell::quoted;
use crate::spec::SshTarget;
use crate::vm::find_program;
use crate::{Result, TargetError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A way to run shell scripts on a board.
#[derive(Debug)]
pub struct Connection {
    target: SshTarget,
    ssh: PathBuf,
    control: PathBuf,
}

impl Connection {
    /// Asks nothing of the board yet. `scratch`: a folder for the shared connection's socket.
    pub fn new(target: &SshTarget, scratch: &Path) -> Result<Self> {
        let ssh = find_program("ssh").ok_or_else(|| TargetError::NoProgram {
            program: "ssh".into(),
            purpose: target.to_string(),
            package: "openssh-client".into(),
        })?;
        Ok(Self { target: target.clone(), ssh, control: scratch.join("s") })
    }

    /// The board.
    pub fn target(&self) -> &SshTarget {
        &self.target
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
    pub fn checked(&self, script: &str, input: &[u8], what: &str) -> Result<Vec<u8>> {
        let mut command = self.command(script);
        // To a file, not a pipe: the shared connection's master inherits stderr and would keep a pipe open.
        let complaints = self.control.with_extension("stderr");
        let sink = std::fs::File::create(&complaints).map_err(TargetError::file(&complaints))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(sink);
        let mut child = command.spawn().map_err(TargetError::file(&self.ssh))?;
        let mut stdin = child.stdin.take();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || {
            // A board that stops reading says why on its stderr.
            let _ = stdin.as_mut().map(|pipe| pipe.write_all(&input));
        });
        let output = child.wait_with_output()?;
        let _ = writer.join();
        if output.status.success() {
            return Ok(output.stdout);
        }
        let complaint = std::fs::read_to_string(&complaints).unwrap_or_default();
        Err(self.explain(what, output.status.code(), &complaint))
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
        let _ = Command::new(&self.ssh)
            .args(self.options())
            .args(["-O", "exit", "--", &self.target.destination])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
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
        let Ok(connection) = Connection::new(&target, Path::new("/tmp/x")) else {
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
