//! Files of others, read whole within a limit.
//!
//! A pipe without a writer does not hold the program up, and one whose writer says nothing ends with the signal that
//! asks the program to end: `std::fs::read` waits in both.

use crate::signal;
use rustix::fs::{Mode, OFlags, fcntl_setfl, open};
use std::io;
use std::path::Path;

/// Reads a file of at most `most` bytes: a regular one, or a pipe until its end.
///
/// # Errors
/// The kernel's; `FileTooLarge` beyond the limit, `InvalidInput` for directories and devices, `Interrupted` after a
/// signal that asks to end.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = open(path, flags, Mode::empty())?;
    let status = rustix::fs::fstat(&file)?;
    let kind = rustix::fs::FileType::from_raw_mode(status.st_mode);
    if !kind.is_file() && !kind.is_fifo() && !kind.is_socket() {
        let what = if kind.is_dir() { "a directory" } else { "a device" };
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{what}, not a file")));
    }
    // Without a writer the end of a pipe is there at once.
    fcntl_setfl(&file, OFlags::empty())?;
    let mut bytes = Vec::with_capacity(usize::try_from(status.st_size).unwrap_or(0).min(1 << 24));
    let mut part = vec![0; 1 << 16];
    loop {
        match rustix::io::read(&file, &mut part) {
            Ok(0) => return Ok(bytes),
            Ok(n) if bytes.len() as u64 + n as u64 > most => {
                let text = format!("larger than {} MiB", most >> 20);
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
            }
            Ok(n) => bytes.extend_from_slice(&part[..n]),
            Err(rustix::io::Errno::INTR) if signal::stop_requested().is_none() => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The same as text.
///
/// # Errors
/// As of [`read`]; `InvalidData` where it is no UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let invalid = |_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8 text");
    String::from_utf8(read(path, most)?).map_err(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_no_file_or_too_large_is_refused_and_a_pipe_without_a_writer_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("run.json");
        fs::write(&file, "12345").unwrap();
        assert_eq!(read(&file, 5).unwrap(), b"12345");
        let kind = |path: &Path, most: u64| read(path, most).unwrap_err().kind();
        assert_eq!(kind(&file, 4), io::ErrorKind::FileTooLarge);
        assert_eq!(kind(dir.path(), 4), io::ErrorKind::InvalidInput);
        assert_eq!(kind(Path::new("/dev/zero"), 4), io::ErrorKind::InvalidInput);
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RWXU, 0)
            .unwrap();
        assert_eq!(read(&pipe, 4).unwrap(), b"");
        fs::write(&file, b"\xff").unwrap();
        assert_eq!(read_text(&file, 4).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
