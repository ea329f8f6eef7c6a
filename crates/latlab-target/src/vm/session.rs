//! A machine that runs: reads the agent's frames, watches for hangs and panics, ends QEMU.

use super::Prepared;
use super::qemu::Channel;
use crate::answer::{COMPLAINTS_MAX, keep_end};
use crate::pull::Receiver;
use crate::{Console, Result, TargetError};
use latlab_wire::frame::{Decoder, Item, Message};
use latlab_wire::log_lines::LogDecoder;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver as Queue, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often we look at clocks and signals while a machine is silent.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Pieces of up to 64 KiB that wait for us; a machine that sends faster than we write waits.
const QUEUE_MAX: usize = 64;
/// Lines of the console that are shown with an error.
const TAIL_LINES: usize = 12;
/// Bytes of the console's file at which the machine ends: it is on the host's disk.
const CONSOLE_MAX: u64 = 64 << 20;
/// For QEMU's last words after its output has ended.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Between asking a command to stop and ending the machine.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// What a machine brought back.
#[derive(Debug)]
pub struct Finished {
    /// Exit code of the command.
    pub code: u8,
    /// Release of the kernel that ran.
    pub release: String,
    /// From QEMU's start to the agent's hello.
    pub boot: Duration,
    /// From QEMU's start to its end.
    pub total: Duration,
}

/// A QEMU that is killed when this is dropped.
#[derive(Debug)]
struct Running {
    child: Child,
    stdin: ChildStdin,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

enum Event {
    Bytes(Vec<u8>),
    Complaint(Vec<u8>),
    End,
}

/// Starts the machine, waits for the job's end, and hands on what comes back.
///
/// `limit`: the longest that the whole may take. `started` is told QEMU's
/// process id once the agent was heard (for stalls from outside).
pub fn run(
    prepared: &mut Prepared,
    limit: Option<Duration>,
    console: &mut dyn Console,
    receiver: &mut Receiver,
    started: &mut dyn FnMut(u32),
) -> Result<Finished> {
    let start = Instant::now();
    let mut running = spawn(prepared)?;
    let queue = listen(&mut running.child);
    let mut session = Session {
        prepared,
        start,
        limit,
        decoder: Stream::new(prepared.machine.channel),
        serial: Vec::new(),
        complaints: Vec::new(),
        release: None,
        boot: Duration::ZERO,
        stop_asked: None,
    };
    let code = loop {
        session.forward_signals(&mut running, console)?;
        // Each time: a machine that keeps sending is never silent.
        session.check_limits()?;
        match queue.recv_timeout(POLL_INTERVAL) {
            Ok(Event::Bytes(bytes)) => {
                let pid = running.child.id();
                if let Some(code) = session.take(&bytes, pid, console, receiver, started)? {
                    break code;
                }
            }
            Ok(Event::Complaint(text)) => keep_end(&mut session.complaints, &text),
            Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => {
                return Err(session.ended(&queue));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    };
    let release = session.release.unwrap_or_default();
    Ok(Finished { code, release, boot: session.boot, total: start.elapsed() })
}

/// An interactive machine: QEMU's console is our terminal.
pub fn shell(prepared: &mut Prepared) -> Result<()> {
    let program = prepared.command.get_program().to_string_lossy().into_owned();
    let status = prepared.command.status().map_err(TargetError::file(program.as_ref()))?;
    if status.success() {
        return Ok(());
    }
    Err(TargetError::Program {
        program,
        message: format!("ended with {status}"),
        hint: "its message is above".into(),
    })
}

fn spawn(prepared: &mut Prepared) -> Result<Running> {
    let program = prepared.command.get_program().to_string_lossy().into_owned();
    // A group of its own: Ctrl-C is for us, and we pass it on to the command inside.
    prepared.command.process_group(0);
    prepared.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = prepared.command.spawn().map_err(TargetError::file(program.as_ref()))?;
    let stdin = child.stdin.take().ok_or_else(|| std::io::Error::other("no pipe to QEMU"))?;
    Ok(Running { child, stdin })
}

/// Two threads that read QEMU's output and errors; they end when QEMU does.
fn listen(child: &mut Child) -> Queue<Event> {
    let (sender, queue) = mpsc::sync_channel(QUEUE_MAX);
    if let Some(mut stdout) = child.stdout.take() {
        let sender = sender.clone();
        std::thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(n @ 1..) = stdout.read(&mut buffer) {
                if sender.send(Event::Bytes(buffer[..n].to_vec())).is_err() {
                    return;
                }
            }
            let _ = sender.send(Event::End);
        });
    }
    if let Some(mut stderr) = child.stderr.take() {
        std::thread::spawn(move || {
            let mut buffer = vec![0; 4096];
            while let Ok(n @ 1..) = stderr.read(&mut buffer) {
                if sender.send(Event::Complaint(buffer[..n].to_vec())).is_err() {
                    return;
                }
            }
        });
    }
    queue
}

/// What comes back, in either form.
enum Stream {
    Frames(Decoder),
    Log(LogDecoder),
}

impl Stream {
    fn new(channel: Channel) -> Self {
        match channel {
            Channel::Virtio => Self::Frames(Decoder::default()),
            Channel::Log => Self::Log(LogDecoder::default()),
        }
    }

    fn push(&mut self, bytes: &[u8]) -> Vec<Item> {
        match self {
            Self::Frames(decoder) => decoder.push(bytes),
            Self::Log(decoder) => decoder.push(bytes),
        }
    }
}

struct Session<'a> {
    prepared: &'a Prepared,
    start: Instant,
    limit: Option<Duration>,
    decoder: Stream,
    serial: Vec<u8>,
    complaints: Vec<u8>,
    release: Option<String>,
    boot: Duration,
    stop_asked: Option<Instant>,
}

impl Session<'_> {
    /// Bytes from the agent; the exit code, once it has come.
    fn take(
        &mut self,
        bytes: &[u8],
        pid: u32,
        console: &mut dyn Console,
        receiver: &mut Receiver,
        started: &mut dyn FnMut(u32),
    ) -> Result<Option<u8>> {
        for item in self.decoder.push(bytes) {
            match item {
                Item::Text(text) => keep_end(&mut self.serial, &text),
                Item::Message(Message::Hello(release)) => {
                    self.boot = self.start.elapsed();
                    self.release = Some(release);
                    started(pid);
                }
                Item::Message(Message::Stdout(bytes)) => console.stdout(&bytes)?,
                Item::Message(Message::Stderr(bytes)) => console.stderr(&bytes)?,
                Item::Message(Message::File(head)) => {
                    receiver.begin(&head.path, head.length, head.directory)?;
                }
                Item::Message(Message::Data(bytes)) => receiver.data(&bytes)?,
                Item::Message(Message::Exit(code)) => {
                    receiver.finish()?;
                    return Ok(Some(code));
                }
                Item::Message(Message::Failed(reason)) => {
                    return Err(self.error(format!("its agent failed: {reason}"), ""));
                }
                Item::Message(Message::Signal(_)) => {}
            }
        }
        Ok(None)
    }

    fn forward_signals(&mut self, running: &mut Running, console: &mut dyn Console) -> Result<()> {
        while let Some(signal) = console.signal() {
            if self.release.is_none() {
                return Err(self.error("stopped before it was up".into(), "nothing was measured"));
            }
            if matches!(self.decoder, Stream::Log(_)) {
                let what = "stopped: no command channel to end the command of this machine";
                return Err(self.error(what.into(), "nothing was kept"));
            }
            self.stop_asked = Some(Instant::now());
            let frame = Message::Signal(signal).encode();
            let _ = running.stdin.write_all(&frame).and_then(|()| running.stdin.flush());
        }
        Ok(())
    }

    fn check_limits(&self) -> Result<()> {
        let boot_limit = Duration::from_secs(self.prepared.boot_timeout_s);
        if self.release.is_none() && self.start.elapsed() > boot_limit {
            return Err(self.error(
                format!("it did not come up within {} s", boot_limit.as_secs()),
                "timeout=SECONDS in the target allows more; latlab vm shell shows its whole console",
            ));
        }
        if self.stop_asked.is_some_and(|at| at.elapsed() > STOP_TIMEOUT) {
            return Err(self.error("the command did not stop when asked to".into(), ""));
        }
        if let Some(limit) = self.limit.filter(|l| self.start.elapsed() > *l) {
            return Err(self.error(
                format!("the command did not end within {} s", limit.as_secs()),
                "--timeout allows more",
            ));
        }
        let console = std::fs::metadata(self.prepared.console()).map_or(0, |file| file.len());
        if console > CONSOLE_MAX {
            return Err(self.error(
                format!("it wrote more than {} MiB to its console", CONSOLE_MAX >> 20),
                "what is for you goes to the command's output, not to /dev/console or the kernel's log",
            ));
        }
        Ok(())
    }

    /// QEMU went away before the job's end.
    fn ended(&mut self, queue: &Queue<Event>) -> TargetError {
        // Its last words may still be on their way.
        let end = Instant::now() + LAST_WORDS;
        while let Ok(event) = queue.recv_timeout(Duration::from_millis(200)) {
            if let Event::Complaint(text) = event {
                keep_end(&mut self.complaints, &text);
            }
            if Instant::now() > end {
                break;
            }
        }
        let text = self.console_text();
        if let Some(line) = text.lines().find(|l| l.contains("Kernel panic")) {
            let line = line.split_once("] ").map_or(line, |(_, l)| l).trim();
            return self
                .error(format!("its kernel panicked ({line})"), "the lines before it say why");
        }
        let complaints = String::from_utf8_lossy(&self.complaints);
        let complaint = complaints.lines().rfind(|l| !l.trim().is_empty());
        match (self.release.is_some(), complaint) {
            (_, Some(complaint)) => self.error(format!("QEMU ended: {complaint}"), ""),
            (false, None) => self.error(
                "it ended before its agent was heard".into(),
                "latlab vm shell shows its whole console",
            ),
            (true, None) => self
                .error("it ended before the command had".into(), "out of memory? mem= gives more"),
        }
    }

    fn error(&self, what: String, hint: &str) -> TargetError {
        let text = self.console_text();
        let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
        let from = lines.len().saturating_sub(TAIL_LINES);
        TargetError::Machine {
            vm: format!("vm:{}", self.prepared.name),
            what,
            console: lines[from..].join("\n"),
            hint: hint.into(),
        }
    }

    /// The end of what the console said, without anything that a terminal would obey.
    fn console_text(&self) -> String {
        let file = end_of(self.prepared.console()).unwrap_or_default();
        let all = if file.is_empty() { &self.serial } else { &file };
        String::from_utf8_lossy(all)
            .chars()
            .filter(|c| *c == '\n' || *c == '\t' || !c.is_control())
            .collect()
    }
}

/// The last [`COMPLAINTS_MAX`] bytes of a file.
fn end_of(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(COMPLAINTS_MAX as u64)))?;
    let mut end = Vec::new();
    file.take(COMPLAINTS_MAX as u64).read_to_end(&mut end)?;
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;
    use crate::cache::Cache;
    use crate::pull::Mapping;
    use crate::vm::catalog;
    use crate::vm::qemu::Machine;
    use std::process::Command;

    /// Takes everything.
    struct Nobody;

    impl Console for Nobody {
        fn stdout(&mut self, _: &[u8]) -> std::io::Result<()> {
            Ok(())
        }
        fn stderr(&mut self, _: &[u8]) -> std::io::Result<()> {
            Ok(())
        }
        fn say(&mut self, _: &str) {}
        fn signal(&mut self) -> Option<u8> {
            None
        }
    }

    /// A shell script in QEMU's place. `FRAME` is a file with this message, `CONSOLE` that of the console.
    fn run_script(script: &str, frame: &Message, limit: Option<Duration>) -> (String, Duration) {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Cache::at(dir.path()).scratch().unwrap();
        let file = dir.path().join("frame");
        let bytes = frame.encode();
        // Many at once: the shell is slow.
        std::fs::write(&file, bytes.repeat((64 << 10) / bytes.len() + 1)).unwrap();
        let Ok(Target::Vm(target)) = Target::parse("vm:x86_64-rt") else { panic!() };
        let machine = Machine::new(catalog::find("x86_64-rt").unwrap(), &target).unwrap();
        let console = dir.path().join("console");
        let mut command = Command::new("sh");
        command.args(["-c", script]).env("FRAME", &file).env("CONSOLE", &console);
        let mut prepared = Prepared {
            name: "x86_64-rt".into(),
            machine,
            command,
            boot_timeout_s: 1,
            console,
            scratch,
        };
        let start = Instant::now();
        let mut receiver = Receiver::new(dir.path(), Mapping::default());
        let ended = run(&mut prepared, limit, &mut Nobody, &mut receiver, &mut |_| {});
        (ended.unwrap_err().to_string(), start.elapsed())
    }

    #[test]
    fn a_machine_that_keeps_sending_does_not_escape_a_limit() {
        let text = Message::Stdout(b"x\n".to_vec());
        // Neither what is no frame nor output of a machine that was never heard counts as being up.
        for script in ["while :; do cat /proc/self/stat $FRAME; done", "yes", "yes >&2"] {
            let (said, took) = run_script(script, &text, None);
            assert_eq!(said, "vm:x86_64-rt: it did not come up within 1 s", "{script}");
            assert!(took < Duration::from_secs(10), "{script}: {took:?}");
        }
        let hello = Message::Hello("6.1".into());
        let limit = Some(Duration::from_millis(1_500));
        let (said, took) = run_script("while :; do cat $FRAME; done", &hello, limit);
        assert_eq!(said, "vm:x86_64-rt: the command did not end within 1 s");
        assert!(took < Duration::from_secs(10), "{took:?}");
    }

    #[test]
    fn a_console_does_not_fill_the_disk() {
        let hello = Message::Hello("6.1".into());
        let script = "cat $FRAME; truncate -s 65M $CONSOLE; echo last >>$CONSOLE; exec sleep 60";
        let (said, took) = run_script(script, &hello, None);
        assert_eq!(said, "vm:x86_64-rt: it wrote more than 64 MiB to its console");
        assert!(took < Duration::from_secs(10), "{took:?}");
    }

    #[test]
    fn the_end_is_kept() {
        let mut kept = Vec::new();
        for n in 0..100_000u32 {
            keep_end(&mut kept, format!("{n}\n").as_bytes());
        }
        assert_eq!(kept.len(), COMPLAINTS_MAX);
        assert!(kept.ends_with(b"99998\n99999\n"));
        keep_end(&mut kept, &[b'x'; 3 * COMPLAINTS_MAX]);
        assert!(kept.len() == COMPLAINTS_MAX && kept.iter().all(|b| *b == b'x'));

        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 30).unwrap();
        std::fs::OpenOptions::new()
            .append(true)
            .open(file.path())
            .unwrap()
            .write_all(b"end")
            .unwrap();
        let end = end_of(file.path()).unwrap();
        assert!(end.len() == COMPLAINTS_MAX && end.ends_with(b"end"));
    }
}
