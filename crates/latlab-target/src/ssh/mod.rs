//! Boards: the system's OpenSSH, with the user's configuration, keys, jump hosts and known hosts.
//!
//! Nothing but `ssh` itself and a POSIX shell on the board is needed: files go
//! through the pipe. What runs there is latlab's own static build, pushed once
//! and kept under its checksum, in the first folder that can be written to and
//! executed from. The run belongs to a supervisor on the board; a lost connection
//! costs nothing but the wait.

mod boot;
mod connection;
mod install;
mod shell;

pub use boot::Restarts;
use connection::ANSWER_TIME;
pub use connection::Connection;
pub(crate) use connection::Script;
pub use install::Board;
pub use shell::quoted;

use crate::answer::{self, Tail};
use crate::pull::Receiver;
use crate::{Console, Result, TargetError};
use latlab_wire::frame::{Decoder, Item, Job, Message};
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Pieces of up to 64 KiB that wait for us; a board that sends faster than we write waits.
const QUEUE_MAX: usize = 64;
/// For the removal of a run: thousands of files on a card.
const REMOVAL_TIME: Duration = Duration::from_secs(600);
/// How long a board may be silent after a signal was passed on: it saves what was measured.
const SILENCE: Duration = Duration::from_secs(60);

/// Starts a job on a board under a name that is free there.
pub fn start(board: &Board<'_>, job: &Job, run: &str) -> Result<()> {
    let script = format!(
        "exec {} on-board start {}",
        quoted(&board.program),
        quoted(&board.run_folder(run))
    );
    let json = serde_json::to_vec(job).unwrap_or_default();
    let what = "the command could not be started";
    let script = Script { text: &script, input: &json, what, time: ANSWER_TIME };
    match board.connection.ask(&script, &board.connection.stopped()) {
        Err(TargetError::Stopped) => Err(board.connection.error(
            format!("stopped while the command was started; the run {run} may go on there"),
            format!("latlab --on {} fetch lists the runs there", board.connection.target()),
        )),
        started => started.map(drop),
    }
}

/// Waits for a run that was started, and brings back all of it; its exit code.
pub fn follow(
    board: &Board<'_>,
    run: &str,
    live: bool,
    console: &mut dyn Console,
    receiver: &mut Receiver,
) -> Result<u8> {
    let live = if live { " --live" } else { "" };
    let script = format!(
        "exec {} on-board follow {}{live}",
        quoted(&board.program),
        quoted(&board.run_folder(run))
    );
    let mut command = board.connection.command(&script);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(TargetError::file("ssh".as_ref()))?;
    let followed = pump(&mut child, console, receiver);
    let _ = child.kill();
    let status = child.wait();
    match followed? {
        Ended::Exit(code) => Ok(code),
        Ended::Failed(reason) => Err(board.connection.error(reason, String::new())),
        Ended::Lost(complaint) => {
            let why = complaint.lines().rfind(|l| !l.trim().is_empty()).map_or_else(
                || status.map_or_else(|e| e.to_string(), |s| format!("ssh ended with {s}")),
                str::to_owned,
            );
            Err(board.connection.unreachable(
                format!(
                    "the connection was lost ({}); the run {run} goes on and is kept on the board",
                    why.trim()
                ),
                format!("later: latlab --on {} fetch {run}", board.connection.target()),
            ))
        }
    }
}

/// Removes a run from the board.
pub fn forget(board: &Board<'_>, run: &str) -> Result<()> {
    let script = format!("rm -rf {}", quoted(&board.run_folder(run)));
    let what = "the run could not be removed";
    let script = Script { text: &script, input: &[], what, time: REMOVAL_TIME };
    // What a signal ended is here, and leaves the board too.
    board.connection.ask(&script, &|| false).map(drop)
}

/// Names of the runs that are kept on the board, oldest first.
pub fn runs(board: &Board<'_>) -> Result<Vec<String>> {
    let script =
        format!("ls -1tr {} 2>/dev/null || true", quoted(&format!("{}/runs", board.folder)));
    let output = board.connection.checked(&script, &[], "the runs could not be listed")?;
    Ok(String::from_utf8_lossy(&output).lines().map(str::to_owned).collect())
}

enum Ended {
    Exit(u8),
    Failed(String),
    Lost(String),
}

fn pump(child: &mut Child, console: &mut dyn Console, receiver: &mut Receiver) -> Result<Ended> {
    let mut stdin = child.stdin.take();
    // Read all the time: a board that complains much would wait for us.
    let complaints = child.stderr.take().map(answer::tail);
    let queue = listen(child);
    let mut decoder = Decoder::default();
    // Since when nothing was heard after a signal.
    let mut silent: Option<Instant> = None;
    loop {
        if let (Some(signal), Some(stdin)) = (console.signal(), &mut stdin) {
            let _ = stdin.write_all(&Message::Signal(signal).encode()).and_then(|()| stdin.flush());
            silent = Some(Instant::now());
        }
        let bytes = match queue.recv_timeout(POLL_INTERVAL) {
            Ok(bytes) => bytes,
            Err(RecvTimeoutError::Timeout) => {
                if silent.is_some_and(|since| since.elapsed() > SILENCE) {
                    let what = format!("no answer to a signal within {} s", SILENCE.as_secs());
                    return Ok(Ended::Lost(what));
                }
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => {
                let complaint = complaints.map(Tail::take).unwrap_or_default();
                return Ok(Ended::Lost(String::from_utf8_lossy(&complaint).into_owned()));
            }
        };
        silent = silent.map(|_| Instant::now());
        for item in decoder.push(&bytes) {
            match item {
                Item::Message(Message::Stdout(bytes)) => console.stdout(&bytes)?,
                Item::Message(Message::Stderr(bytes)) => console.stderr(&bytes)?,
                Item::Message(Message::File(head)) => {
                    receiver.begin(&head.path, head.length, head.directory)?
                }
                Item::Message(Message::Data(bytes)) => receiver.data(&bytes)?,
                Item::Message(Message::Exit(code)) => {
                    receiver.finish()?;
                    return Ok(Ended::Exit(code));
                }
                Item::Message(Message::Failed(reason)) => return Ok(Ended::Failed(reason)),
                // A login script that prints something.
                Item::Message(Message::Hello(_) | Message::Signal(_)) | Item::Text(_) => {}
            }
        }
    }
}

fn listen(child: &mut Child) -> mpsc::Receiver<Vec<u8>> {
    let (sender, queue) = mpsc::sync_channel(QUEUE_MAX);
    if let Some(mut stdout) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(n @ 1..) = stdout.read(&mut buffer) {
                if sender.send(buffer[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
    }
    queue
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_survive_a_shell() {
        for word in ["plain", "a b", "it's", "$(reboot)", "`x`;&|", ""] {
            let output = std::process::Command::new("sh")
                .args(["-c", &format!("printf %s {}", super::quoted(word))])
                .output()
                .unwrap();
            assert_eq!(output.stdout, word.as_bytes());
        }
    }
}
