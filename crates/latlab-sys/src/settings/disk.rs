//! A journal's file: whole lines or none, and operations that can be made to fail.

use serde::Serialize;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Decides which write or sync of a journal fails; for tests, which try each in turn. Before a
/// failed write half of the line is written, as when the disk gets full.
#[derive(Clone, Debug, Default)]
#[doc(hidden)]
pub struct Faults(Option<Arc<Plan>>);

#[derive(Debug)]
struct Plan {
    /// Operations until the one that fails.
    left: AtomicU32,
    error: i32,
}

impl Faults {
    /// The `n`th operation (from 0) fails once with this `errno`.
    pub fn at(n: u32, error: i32) -> Self {
        Self(Some(Arc::new(Plan { left: AtomicU32::new(n + 1), error })))
    }

    /// Whether the operation was reached.
    pub fn happened(&self) -> bool {
        self.0.as_ref().is_some_and(|plan| plan.left.load(Ordering::Relaxed) == 0)
    }

    fn next(&self) -> io::Result<()> {
        let Some(plan) = &self.0 else { return Ok(()) };
        let count = |left: u32| left.checked_sub(1);
        match plan.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count) {
            Ok(1) => Err(io::Error::from_raw_os_error(plan.error)),
            _ => Ok(()),
        }
    }
}

/// A file that only grows by whole lines that are on disk.
#[derive(Debug)]
pub(super) struct Disk {
    file: File,
    length: u64,
    /// Half of a line could not be taken away.
    torn: bool,
    faults: Faults,
}

impl Disk {
    /// A new, empty file.
    pub fn new(file: File, faults: Faults) -> Self {
        Self { file, length: 0, torn: false, faults }
    }

    /// Adds a line; on return it is on disk. When that fails, the file is as it was.
    pub fn append(&mut self, line: &impl Serialize) -> io::Result<()> {
        let start = if self.torn { "\n" } else { "" };
        let text = format!("{start}{}\n", serde_json::to_string(line)?);
        let written = self.write(text.as_bytes()).and_then(|()| self.sync());
        match written {
            Ok(()) => {
                self.length += text.len() as u64;
                self.torn = false;
            }
            // A line that is half there would be in the way of later ones.
            Err(_) => self.torn = self.take_back().is_err(),
        }
        written
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        loop {
            match self.faults.next() {
                Ok(()) => return self.file.write_all(text),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.file.write_all(&text[..text.len() / 2])?;
                    return Err(e);
                }
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        loop {
            match self.faults.next().and_then(|()| self.file.sync_data()) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                synced => return synced,
            }
        }
    }

    fn take_back(&mut self) -> io::Result<()> {
        use std::io::{Seek, SeekFrom};
        self.file.set_len(self.length)?;
        self.file.seek(SeekFrom::Start(self.length)).map(|_| ())
    }
}
