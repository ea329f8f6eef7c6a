//! Named pipes (fifo(7)).

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use std::fs::File;
use std::io;
use std::path::Path;

/// Makes one that its owner reads and writes.
///
/// # Errors
/// The system call's, among them that the name is taken.
pub fn make(path: &Path) -> io::Result<()> {
    Ok(mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?)
}

/// Opens one for writing without waiting for a reader.
///
/// # Errors
/// ENXIO where nobody reads; a full pipe is an error of a later write.
pub fn writer(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(open(path, flags, Mode::empty())?))
}
