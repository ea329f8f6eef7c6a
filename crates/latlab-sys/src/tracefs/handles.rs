//! What a measuring thread holds of a buffer: files that are open already, one write(2) each.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

/// Stops tracing from wherever it is called, by one write(2): no allocation, no lock.
#[derive(Debug)]
pub struct TraceStopper {
    pub(super) file: File,
}

impl TraceStopper {
    /// Stops tracing. Nothing is written to the buffer afterwards.
    ///
    /// # Errors
    /// When the kernel refuses, which it does not do while the instance exists.
    pub fn stop(&self) -> io::Result<()> {
        self.file.write_at(b"0", 0).map(|_| ())
    }
    /// Starts tracing again.
    ///
    /// # Errors
    /// As [`TraceStopper::stop`].
    pub fn resume(&self) -> io::Result<()> {
        self.file.write_at(b"1", 0).map(|_| ())
    }
    /// Whether the buffer is being written to; a trigger (`traceoff`) may have stopped it.
    ///
    /// # Errors
    /// When `tracing_on` cannot be read.
    pub fn is_on(&self) -> io::Result<bool> {
        let mut byte = [0];
        let n = self.file.read_at(&mut byte, 0)?;
        Ok(n == 1 && byte[0] != b'0')
    }
    /// Another handle to the same file.
    ///
    /// # Errors
    /// When there are no file descriptors left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.try_clone()? })
    }
}

/// Writes marks into the trace by one write(2): no allocation, no lock.
#[derive(Debug)]
pub struct Marker {
    pub(super) file: File,
}

impl Marker {
    /// Writes a mark. The kernel cuts it at a page less its header.
    ///
    /// # Errors
    /// When tracing is off (EBADF) or the kernel refuses.
    pub fn write(&self, mark: &[u8]) -> io::Result<()> {
        (&self.file).write(mark).map(|_| ())
    }
    /// Another handle to the same file.
    ///
    /// # Errors
    /// When there are no file descriptors left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.try_clone()? })
    }
}
