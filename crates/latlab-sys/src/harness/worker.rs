//! A process that measures one trial: its start, its lines, its end.

use crate::probe::ProbeError;
use crate::probe::descriptor_limit;
use crate::probe::peer::fork_error;
use crate::{signal, tracefs};
use latlab_model::bench::trial::{SliceReply, SliceSpec};
use latlab_model::finding::{Note, Quantity};
use rustix::process::{Pid, Signal as Kill, kill_process_group};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Why a trial gave no reply.
#[derive(Debug, thiserror::Error)]
pub(super) enum TrialError {
    #[error("stopped")]
    Stopped,
    #[error("no answer after {seconds} s; killed")]
    NoReply { seconds: u64 },
    #[error("no program to measure with was given")]
    NoProgram,
    #[error("no pipe")]
    NoPipe,
    #[error("{0}")]
    NotStarted(#[source] io::Error),
    #[error("{0}")]
    Request(#[source] serde_json::Error),
    #[error("its answer: {0}")]
    Reply(#[source] serde_json::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl TrialError {
    pub(super) fn note(&self) -> Note {
        match self {
            Self::NoReply { seconds } => {
                Note::new("probe.no-reply").value("limit", Quantity::S(*seconds as f64))
            }
            error => Note::new("probe.trial-failed").value("error", error.to_string()),
        }
    }
}

/// What it means that a process could not be started.
pub(super) fn not_started(error: io::Error) -> SliceReply {
    let error: ProbeError = match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => ProbeError::Unavailable(descriptor_limit("fork")),
        _ => fork_error(error),
    };
    error.reply()
}

/// What it means that a process ended without an answer.
fn ended(status: ExitStatus) -> SliceReply {
    let reason = match status.signal() {
        Some(libc::SIGSYS) => {
            return SliceReply::Unavailable { reason: Note::new("probe.seccomp") };
        }
        Some(libc::SIGKILL) => Note::new("probe.killed"),
        Some(libc::SIGXCPU) => Note::new("probe.cpu-time-limit"),
        _ => Note::new("probe.no-result").value("status", status.to_string()),
    };
    SliceReply::Failed { reason }
}

/// A process that measures.
pub(super) struct Trial {
    child: Child,
    /// What it writes.
    pub(super) lines: Lines,
}

impl Trial {
    /// Starts it with `spec` as its last argument.
    pub(super) fn start(
        worker: &[String],
        spec: &SliceSpec,
        input: Stdio,
    ) -> Result<Self, TrialError> {
        let json = serde_json::to_string(spec).map_err(TrialError::Request)?;
        let (program, arguments) = worker.split_first().ok_or(TrialError::NoProgram)?;
        let child = Command::new(program)
            .args(arguments)
            .arg(json)
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        let mut child = child.map_err(TrialError::NotStarted)?;
        match child.stdout.take() {
            Some(out) => Ok(Self { child, lines: Lines { out, read: Vec::new() } }),
            None => Err(TrialError::NoPipe),
        }
    }
}

/// Ends a process; what its last line says.
pub(super) fn finished(
    mut trial: Trial,
    line: Result<Option<String>, TrialError>,
) -> Result<SliceReply, TrialError> {
    // Whatever the process started is in its group; nothing of it outlives the trial.
    if let Some(group) = Pid::from_raw(trial.child.id() as i32) {
        let _ = kill_process_group(group, Kill::KILL);
    }
    let status = trial.child.wait()?;
    // One that did not come to its end has not removed its tracing instance.
    if !matches!(line, Ok(Some(_))) {
        tracefs::remove_left();
    }
    match line? {
        Some(line) => serde_json::from_str(&line).map_err(TrialError::Reply),
        None => Ok(ended(status)),
    }
}

/// What a process writes, line by line.
pub(super) struct Lines {
    out: ChildStdout,
    /// What is read of the next line.
    read: Vec<u8>,
}

impl Lines {
    /// The next line; `None` when the process ends without one.
    pub(super) fn next(&mut self, limit: Duration) -> Result<Option<String>, TrialError> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let started = Instant::now();
        let mut buffer = [0u8; 16384];
        loop {
            if let Some(end) = self.read.iter().position(|&b| b == b'\n') {
                let behind = self.read.split_off(end + 1);
                let line = std::mem::replace(&mut self.read, behind);
                return Ok(Some(String::from_utf8_lossy(&line[..end]).into_owned()));
            }
            if signal::stop_requested().is_some() {
                return Err(TrialError::Stopped);
            }
            if started.elapsed() > limit {
                return Err(TrialError::NoReply { seconds: limit.as_secs() });
            }
            let wait = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
            let ready =
                poll(&mut [PollFd::from_borrowed_fd(self.out.as_fd(), PollFlags::IN)], Some(&wait));
            if !ready.is_ok_and(|n| n > 0) {
                continue;
            }
            match self.out.read(&mut buffer) {
                Ok(0) => return Ok(None),
                Ok(n) => self.read.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e.into()),
            }
        }
    }
}
