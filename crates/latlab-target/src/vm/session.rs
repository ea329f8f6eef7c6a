//! A machine that runs: reads the agent's frames, watches for hangs and panics, ends QEMU.

use super::Prepared;
use super::qemu::Channel;
use crate::pull::Receiver;
use crate::{Console, Result, TargetError};
use latlab_wire::frame::{Decoder, Item, Message};
use latlab_wire::log_lines::LogDecoder;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver as Queue, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often we look at clocks and signals while a machine is silent.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Pieces of up to 64 KiB that wait for us; a machine that sends faster than we write waits.
const QUEUE_MAX: usize = 64;
/// Lines of the console that are shown with an error.
const TAIL_LINES: usize = 12;
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
    Complaint(String),
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
        complaints: String::new(),
        release: None,
        boot: Duration::ZERO,
        stop_asked: None,
    };
    let code = loop {
        session.forward_signals(&mut running, console)?;
        match queue.recv_timeout(POLL_INTERVAL) {
            Ok(Event::Bytes(bytes)) => {
                let pid = running.child.id();
                if let Some(code) = session.take(&bytes, pid, console, receiver, started)? {
                    break code;
                }
            }
            Ok(Event::Complaint(line)) => session.complaints.push_str(&line),
            Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => {
                return Err(session.ended(&queue));
            }
            Err(RecvTimeoutError::Timeout) => session.check_limits()?,
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
                let text = String::from_utf8_lossy(&buffer[..n]).into_owned();
                if sender.send(Event::Complaint(text)).is_err() {
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
    complaints: String,
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
                Item::Text(text) => self.serial.extend(text),
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
                    receiver.end()?;
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
        Ok(())
    }

    /// QEMU went away before the job's end.
    fn ended(&mut self, queue: &Queue<Event>) -> TargetError {
        // Its last words may still be on their way.
        while let Ok(event) = queue.recv_timeout(Duration::from_millis(200)) {
            if let Event::Complaint(text) = event {
                self.complaints.push_str(&text);
            }
        }
        let text = self.console_text();
        if let Some(line) = text.lines().find(|l| l.contains("Kernel panic")) {
            let line = line.split_once("] ").map_or(line, |(_, l)| l).trim();
            return self
                .error(format!("its kernel panicked ({line})"), "the lines before it say why");
        }
        let complaint = self.complaints.lines().rfind(|l| !l.trim().is_empty());
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

    /// What the console said, without anything that a terminal would obey.
    fn console_text(&self) -> String {
        let file = std::fs::read(self.prepared.console()).unwrap_or_default();
        let all = if file.is_empty() { &self.serial } else { &file };
        String::from_utf8_lossy(all)
            .chars()
            .filter(|c| *c == '\n' || *c == '\t' || !c.is_control())
            .collect()
    }
}
