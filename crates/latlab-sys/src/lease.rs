//! Whether somebody is writing a file.

use std::fs::File;
use std::os::fd::AsRawFd;

/// Whether a process has the file open for writing: the kernel grants a read lease only on a file that
/// no one has (fcntl(2), `F_SETLEASE`). Where it grants none at all, as for files of other users or
/// on a network, nobody is assumed to.
pub fn is_written(file: &File) -> bool {
    let fd = file.as_raw_fd();
    // SAFETY: signal and fcntl with plain integers. The lease is given back at once; who opens the file
    // for writing in between waits for that, and the SIGIO that announces it ends no process.
    let (leased, busy) = unsafe {
        libc::signal(libc::SIGIO, libc::SIG_IGN);
        let leased = libc::fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK) == 0;
        let busy = std::io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN);
        if leased {
            libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK);
        }
        (leased, busy)
    };
    !leased && busy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_seen_as_long_as_it_has_the_file_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let writer = File::create(&path).unwrap();
        let reader = File::open(&path).unwrap();
        assert!(is_written(&reader));
        drop(writer);
        assert!(!is_written(&reader));
        assert!(File::options().write(true).open(&path).is_ok(), "the lease is given back");
    }
}
