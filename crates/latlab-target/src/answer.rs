//! Waits for a program whose answer comes from another machine: no longer than a time, no more than so many bytes, and not
//! after latlab is asked to stop.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{self, Read};
use std::process::{Child, ChildStderr, ChildStdout, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of an answer on standard output: the longest is a list of runs.
pub(crate) const ANSWER_MAX: usize = 1 << 20;
/// Bytes of complaints, and of a console: the last line is what counts.
pub(crate) const COMPLAINTS_MAX: usize = 64 << 10;
/// How often clocks and signals are looked at.
const POLL: Duration = Duration::from_millis(20);
/// Between SIGTERM and SIGKILL.
const PATIENCE: Duration = Duration::from_secs(1);
/// For complaints after the program's end; another process may hold their pipe.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What a program said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    /// The end of its complaints, where they were a pipe.
    pub stderr: Vec<u8>,
}

/// Why there is no answer; the program was ended.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// latlab is asked to stop.
    Stopped,
    /// The time is over.
    TooLate(Duration),
    /// More than [`ANSWER_MAX`], or what the caller allows.
    TooMuch,
    Io(io::Error),
}

/// Waits for a program. `refuses` is asked as often as clocks are looked at, whether it says too much elsewhere.
pub(crate) fn of(
    mut child: Child,
    time: Duration,
    stopped: &dyn Fn() -> bool,
    refuses: &dyn Fn() -> bool,
) -> Result<Answer, NoAnswer> {
    let complaints = child.stderr.take().map(tail);
    let mut answers = child.stdout.take().map(start);
    let mut stdout = Vec::new();
    let end = Instant::now() + time;
    let status = loop {
        let reason = if stopped() {
            Some(NoAnswer::Stopped)
        } else if Instant::now() > end {
            Some(NoAnswer::TooLate(time))
        } else {
            refuses().then_some(NoAnswer::TooMuch)
        };
        if let Some(reason) = reason {
            end_it(&mut child);
            return Err(reason);
        }
        match answers.as_ref().map(|answers| answers.recv_timeout(POLL)) {
            Some(Ok(bytes)) if bytes.len() > ANSWER_MAX => {
                end_it(&mut child);
                return Err(NoAnswer::TooMuch);
            }
            Some(Ok(bytes)) => (stdout, answers) = (bytes, None),
            Some(Err(RecvTimeoutError::Timeout)) => {}
            Some(Err(RecvTimeoutError::Disconnected)) => answers = None,
            None => match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) => std::thread::sleep(POLL),
                Err(error) => return Err(NoAnswer::Io(error)),
            },
        }
    };
    Ok(Answer { status, stdout, stderr: complaints.map(Tail::take).unwrap_or_default() })
}

/// Waits for a program's end, and ends it after a time.
pub(crate) fn end_within(mut child: Child, time: Duration) {
    let end = Instant::now() + time;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() > end {
            return end_it(&mut child);
        }
        std::thread::sleep(POLL);
    }
}

/// SIGTERM, so that ssh gives the terminal back as it was, then SIGKILL.
fn end_it(child: &mut Child) {
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
    let end = Instant::now() + PATIENCE;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
        std::thread::sleep(POLL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// A thread that reads one byte more than is allowed, at most.
fn start(stdout: ChildStdout) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stdout.take(ANSWER_MAX as u64 + 1).read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    receiver
}

/// Appends bytes, and keeps the last [`COMPLAINTS_MAX`] of all.
pub(crate) fn keep_end(kept: &mut Vec<u8>, more: &[u8]) {
    let more = &more[more.len().saturating_sub(COMPLAINTS_MAX)..];
    let surplus = (kept.len() + more.len()).saturating_sub(COMPLAINTS_MAX);
    kept.drain(..surplus);
    kept.extend_from_slice(more);
}

/// The end of what a program complains.
#[derive(Debug)]
pub(crate) struct Tail {
    kept: Arc<Mutex<Vec<u8>>>,
    ended: Receiver<()>,
}

/// A thread that reads complaints as long as there are any.
pub(crate) fn tail(mut stderr: ChildStderr) -> Tail {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&kept);
    let (sender, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 8 << 10];
        while let Ok(n @ 1..) = stderr.read(&mut buffer) {
            keep_end(&mut all.lock().unwrap_or_else(PoisonError::into_inner), &buffer[..n]);
        }
        let _ = sender.send(());
    });
    Tail { kept, ended }
}

impl Tail {
    /// What was said until the program's end.
    pub(crate) fn take(self) -> Vec<u8> {
        let _ = self.ended.recv_timeout(LAST_WORDS);
        std::mem::take(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::sync::atomic::{AtomicBool, Ordering};

    fn shell(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn an_answer_is_whole_and_of_complaints_the_end_is_kept() {
        let script = "seq 100000; seq 100000 >&2; exit 3";
        let answer = of(shell(script), LONG, &|| false, &|| false).unwrap();
        assert_eq!(answer.status.code(), Some(3));
        assert_eq!(answer.stdout.len(), 588_895);
        assert_eq!(answer.stderr.len(), COMPLAINTS_MAX);
        assert!(answer.stderr.ends_with(b"99999\n100000\n"));
        // A process that goes on holds the pipe of the complaints.
        let start = Instant::now();
        let answer = of(shell("sleep 20 >&- & echo no >&2"), LONG, &|| false, &|| false).unwrap();
        assert_eq!(answer.stderr, b"no\n");
        assert!(start.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn nothing_is_waited_for_without_end() {
        let late = of(shell("exec sleep 60"), Duration::from_millis(200), &|| false, &|| false);
        assert!(matches!(late, Err(NoAnswer::TooLate(_))), "{late:?}");
        let much = of(shell("exec yes"), LONG, &|| false, &|| false);
        assert!(matches!(much, Err(NoAnswer::TooMuch)), "{much:?}");
        let much = of(shell("exec sleep 60"), LONG, &|| false, &|| true);
        assert!(matches!(much, Err(NoAnswer::TooMuch)), "{much:?}");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(200));
                stop.store(true, Ordering::Relaxed);
            });
            let is_asked = || stop.load(Ordering::Relaxed);
            // Deaf to SIGTERM.
            let script = "trap '' TERM; while :; do sleep 0.1; done";
            let stopped = of(shell(script), LONG, &is_asked, &|| false);
            assert!(matches!(stopped, Err(NoAnswer::Stopped)), "{stopped:?}");
        });
    }
}
