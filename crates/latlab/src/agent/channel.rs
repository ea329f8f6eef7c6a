//! The agent's line to the desk: a virtio port, or the serial console where there is none.

use super::Sink;
use anyhow::{Context, bail};
use latlab_core::wire::{Decoder, Item, Message};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// How often and how long we look for the port while drivers come up.
const LOOKS: u32 = 500;
const LOOK: Duration = Duration::from_millis(10);

/// The line; frames are written whole, by one thread at a time.
#[derive(Debug)]
pub struct Channel {
    out: Mutex<File>,
    input: Mutex<(File, Decoder, VecDeque<Message>)>,
    serial: bool,
}

impl Sink for Channel {
    fn send(&self, message: &Message) -> anyhow::Result<()> {
        let Ok(mut out) = self.out.lock() else { bail!("a thread of the agent panicked") };
        out.write_all(&message.encode()).context("line to the desk")
    }
}

impl Channel {
    /// Opens the port named `latlab`, or the terminal that the kernel's command line names (`latlab.port=ttyS0`).
    pub fn open() -> anyhow::Result<Self> {
        let command_line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
        let terminal = command_line.split_whitespace().find_map(|w| w.strip_prefix("latlab.port="));
        let (path, serial) = match terminal {
            Some(name) => (PathBuf::from("/dev").join(name), true),
            None => (find_port()?, false),
        };
        let file = File::options()
            .read(true)
            .write(true)
            .open(&path)
            .with_context(|| path.display().to_string())?;
        if serial {
            latlab_sys::init::make_raw(&file).with_context(|| path.display().to_string())?;
            // Only emergencies may come between our bytes.
            let _ = fs::write("/proc/sys/kernel/printk", "1");
        }
        let input = file.try_clone()?;
        Ok(Self {
            out: Mutex::new(file),
            input: Mutex::new((input, Decoder::default(), VecDeque::new())),
            serial,
        })
    }

    /// Waits for the next message; `None` when the line is closed.
    pub fn receive(&self) -> Option<Message> {
        let mut input = self.input.lock().ok()?;
        let (file, decoder, ready) = &mut *input;
        let mut buffer = [0; 512];
        loop {
            if let Some(message) = ready.pop_front() {
                return Some(message);
            }
            match file.read(&mut buffer) {
                // A port reads as ended until the desk has opened its side.
                Ok(0) => std::thread::sleep(Duration::from_secs(1)),
                Ok(n) => ready.extend(decoder.push(&buffer[..n]).into_iter().filter_map(|item| {
                    if let Item::Message(message) = item { Some(message) } else { None }
                })),
                Err(_) => return None,
            }
        }
    }

    /// Lets the last bytes leave before the machine is turned off.
    pub fn drain(&self) {
        // The desk ends the machine as soon as it has read the exit code.
        let patience = if self.serial { 5 } else { 1 };
        std::thread::sleep(Duration::from_secs(patience));
    }
}

fn find_port() -> anyhow::Result<PathBuf> {
    let ports = Path::new("/sys/class/virtio-ports");
    for _ in 0..LOOKS {
        for entry in fs::read_dir(ports).into_iter().flatten().flatten() {
            let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
            if name.trim() == "latlab" {
                return Ok(Path::new("/dev").join(entry.file_name()));
            }
        }
        std::thread::sleep(LOOK);
    }
    bail!(
        "no virtio port named latlab: the kernel needs CONFIG_VIRTIO_CONSOLE and \
         CONFIG_VIRTIO_MMIO or CONFIG_VIRTIO_PCI, built in or in its RAM disk"
    )
}
