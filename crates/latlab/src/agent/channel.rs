//! The agent's line to the host: a virtio port, or the kernel's log where there is none.

use super::sink::Sink;
use anyhow::{Context, bail};
use latlab_wire::frame::{Decoder, Item, Message};
use latlab_wire::log_lines;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// How often and how long we look for the port while drivers come up.
const POLLS_MAX: u32 = 500;
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// For a console to print what is in the log.
const LOG_TIME: Duration = Duration::from_secs(600);
/// What goes through a log of 16 MiB (with base64, marks and times) before anything is overwritten.
const LOG_MAX: usize = 8 << 20;

/// The line; frames are written whole, by one thread at a time.
#[derive(Debug)]
pub enum Channel {
    /// A virtio port.
    Port {
        /// Towards the host.
        out: Mutex<File>,
        /// From it.
        input: Mutex<(File, Decoder, VecDeque<Message>)>,
    },
    /// The kernel's log, and how many bytes went into it. Nothing comes from the host.
    Log(Mutex<(File, usize)>),
}

impl Sink for Channel {
    fn send(&self, message: &Message) -> anyhow::Result<()> {
        let frame = message.encode();
        match self {
            Self::Port { out, .. } => {
                let Ok(mut out) = out.lock() else { bail!("a thread of the agent panicked") };
                out.write_all(&frame).context("line to the host")
            }
            Self::Log(log) => {
                let Ok(mut log) = log.lock() else { bail!("a thread of the agent panicked") };
                let (file, sent) = &mut *log;
                *sent += frame.len();
                if *sent > LOG_MAX && matches!(message, Message::Data(_) | Message::Stdout(_)) {
                    bail!("more than {} MiB do not fit through the kernel's log", LOG_MAX >> 20);
                }
                // One record a write; <1> is a level that is always printed.
                log_lines::lines(&frame)
                    .try_for_each(|line| file.write_all(&[b"<1>", &line[..]].concat()))
                    .context("/dev/kmsg")
            }
        }
    }
}

impl Channel {
    /// Opens the port named `latlab`, or the log if the kernel's command line says `latlab.port=kmsg`.
    pub fn open() -> anyhow::Result<Self> {
        let command_line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
        if command_line.split_whitespace().any(|w| w == "latlab.port=kmsg") {
            let file = File::options().write(true).open("/dev/kmsg").context("/dev/kmsg")?;
            return Ok(Self::Log(Mutex::new((file, 0))));
        }
        let path = find_port()?;
        let out = File::options()
            .read(true)
            .write(true)
            .open(&path)
            .with_context(|| path.display().to_string())?;
        let input = Mutex::new((out.try_clone()?, Decoder::default(), VecDeque::new()));
        Ok(Self::Port { out: Mutex::new(out), input })
    }

    /// Whether output can be sent while the command runs.
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Port { .. })
    }

    /// Waits for the next message; `None` when the line is closed.
    pub fn receive(&self) -> Option<Message> {
        let Self::Port { input, .. } = self else { return None };
        let mut input = input.lock().ok()?;
        let (file, decoder, ready) = &mut *input;
        let mut buffer = [0; 512];
        loop {
            if let Some(message) = ready.pop_front() {
                return Some(message);
            }
            match file.read(&mut buffer) {
                // A port reads as ended until the host has opened its side.
                Ok(0) => std::thread::sleep(Duration::from_secs(1)),
                Ok(n) => ready.extend(decoder.push(&buffer[..n]).into_iter().filter_map(|item| {
                    if let Item::Message(message) = item { Some(message) } else { None }
                })),
                Err(_) => return None,
            }
        }
    }

    /// Waits until the host ends the machine, which it does when it has read the exit code, or has gone.
    ///
    /// What was written to a port waits in its queue while the host is busy with files, and is lost when the machine is
    /// turned off. A time to wait would be none in virtual time, which goes on when nothing runs.
    pub fn drain(&self) {
        match self {
            Self::Port { out, .. } => {
                let Ok(mut port) = out.lock() else { return };
                // What the host still says is for a command that has ended. Without a host a port reads as ended.
                let mut buffer = [0; 512];
                while matches!(port.read(&mut buffer), Ok(1..)) {}
            }
            // A log is printed by a thread of the kernel, as fast as its console takes it.
            Self::Log(_) => std::thread::sleep(LOG_TIME),
        }
    }
}

fn find_port() -> anyhow::Result<PathBuf> {
    let ports = Path::new("/sys/class/virtio-ports");
    for _ in 0..POLLS_MAX {
        for entry in fs::read_dir(ports).into_iter().flatten().flatten() {
            let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
            if name.trim() == "latlab" {
                return Ok(Path::new("/dev").join(entry.file_name()));
            }
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    bail!(
        "no virtio port named latlab: the kernel needs CONFIG_VIRTIO_CONSOLE and \
         CONFIG_VIRTIO_MMIO or CONFIG_VIRTIO_PCI, built in, or as modules (--modules-from, --initrd)"
    )
}
