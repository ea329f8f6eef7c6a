//! A file's bytes, mapped read-only: reading a trace of gigabytes costs no memory of our own.
//!
//! A mapping does not own the file. If somebody makes the file shorter while
//! it is mapped, touching the lost part kills the process with SIGBUS, as in
//! every program that maps files; files that grow are safe. What cannot be
//! mapped (a pipe, `/proc`) is read.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;
use std::path::Path;
use std::ptr::NonNull;

/// Bytes of a file.
#[derive(Debug)]
pub struct Mapped(Kind);

#[derive(Debug)]
enum Kind {
    Map { at: NonNull<u8>, len: usize },
    Read(Vec<u8>),
}

// SAFETY: the mapping is private and read-only, and unmapped only on drop.
unsafe impl Send for Mapped {}
// SAFETY: as above; shared reads of memory that nobody here writes.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps a file, or reads it where it cannot be mapped.
    ///
    /// # Errors
    /// What the system says; a file that is larger than this machine's address space.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let meta = file.metadata()?;
        if meta.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        if meta.is_file() && meta.len() > 0 {
            let len = usize::try_from(meta.len()).map_err(|_| {
                io::Error::new(
                    io::ErrorKind::FileTooLarge,
                    "larger than this machine's address space",
                )
            })?;
            return map(&file, len);
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Self(Kind::Read(bytes)))
    }
}

fn map(file: &File, len: usize) -> io::Result<Mapped> {
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    // SAFETY: a new private read-only mapping at an address of the kernel's choice aliases nothing.
    let at =
        unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::PRIVATE, file, 0)? };
    let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::Other)?;
    Ok(Mapped(Kind::Map { at, len }))
}

impl Deref for Mapped {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            // SAFETY: mapped for `len` bytes until drop; see the module's head on files that shrink.
            Kind::Map { at, len } => unsafe { std::slice::from_raw_parts(at.as_ptr(), *len) },
            Kind::Read(bytes) => bytes,
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if let Kind::Map { at, len } = self.0 {
            // SAFETY: what `map` mapped, once; no slice of it outlives `self`.
            let _ = unsafe { rustix::mm::munmap(at.as_ptr().cast(), len) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_every_kind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, b"abc").unwrap();
        assert_eq!(&*Mapped::open(&path).unwrap(), b"abc");
        std::fs::write(&path, b"").unwrap();
        assert!(Mapped::open(&path).unwrap().is_empty());
        assert!(!Mapped::open(Path::new("/proc/version")).unwrap().is_empty());
        assert!(Mapped::open(dir.path()).is_err());
        assert!(Mapped::open(&dir.path().join("none")).is_err());
    }
}
