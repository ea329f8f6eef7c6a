//! A file's bytes, mapped read-only: reading a trace of gigabytes costs no memory of our own.
//!
//! A mapping does not own the file. If somebody makes the file shorter while
//! it is mapped, touching the lost part kills the process with SIGBUS, as in
//! every program that maps files; files that grow are safe. What cannot be
//! mapped (a pipe, `/proc`) is read. [`survive_truncation`] makes the lost part read as zeros.

use crate::recorder::compacted;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Where the mappings lie, for the handler below: start and end, 0 where a place is free.
static RANGES: [[AtomicUsize; 2]; 64] = [const { [AtomicUsize::new(0), AtomicUsize::new(0)] }; 64];

/// From now on a mapped file that was cut reads as zeros where it was, instead of killing the
/// process: for programs that keep files open for hours. Holds for 64 mappings at a time.
pub fn survive_truncation() {
    // SAFETY: `action` is fully initialised, the handler only calls mmap and signal, plain system
    // calls, and the old action is not asked for.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_bus_error as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
    }
}

extern "C" fn on_bus_error(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel hands a valid siginfo to a handler that was installed with SA_SIGINFO.
    let at = unsafe { (*info).si_addr() } as usize;
    let ours = |r: &[AtomicUsize; 2]| (r[0].load(Relaxed)..r[1].load(Relaxed)).contains(&at);
    let page = at & !(rustix::param::page_size() - 1);
    // SAFETY: only a page inside of one of our own read-only mappings is replaced, by zeros; mmap
    // and signal are plain system calls. Any other bus error ends the process at its next try.
    unsafe {
        let (prot, flags) =
            (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED);
        let size = rustix::param::page_size();
        let failed = !RANGES.iter().any(ours)
            || libc::mmap(page as *mut libc::c_void, size, prot, flags, -1, 0) == libc::MAP_FAILED;
        if failed {
            libc::signal(libc::SIGBUS, libc::SIG_DFL);
        }
    }
}

/// Memory for `capacity` elements: that of `earlier` where it is enough, otherwise new memory in huge
/// pages, where the kernel has them (madvise(2), `MADV_HUGEPAGE`). Large arrays that are filled once
/// spend a third of the time in page faults. The advice stays with the memory when the vector grows.
pub fn with_huge_pages<T>(earlier: Vec<T>, capacity: usize) -> Vec<T> {
    if earlier.capacity() >= capacity {
        return earlier;
    }
    // Before the new one is allocated.
    drop(earlier);
    let mut memory = Vec::with_capacity(capacity);
    let bytes = memory.spare_capacity_mut().as_mut_ptr_range();
    let page = rustix::param::page_size();
    let start = (bytes.start as usize).next_multiple_of(page);
    let end = bytes.end as usize & !(page - 1);
    if end > start {
        let at = (start as *mut u8).cast();
        // SAFETY: the pages lie within the vector's own memory, and the advice changes no content. A
        // kernel without huge pages refuses it, which changes nothing.
        let _ = unsafe { rustix::mm::madvise(at, end - start, rustix::mm::Advice::LinuxHugepage) };
    }
    memory
}

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

/// Larger files are not mapped in at once: their first events would wait for the disk.
const AT_ONCE: usize = 256 << 20;

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
            let too_large = "larger than this machine's address space";
            let mapped = usize::try_from(meta.len())
                .map_err(|_| io::Error::new(io::ErrorKind::FileTooLarge, too_large))
                .and_then(|len| map(&file, len));
            // The holes of a recording in progress are larger than any 32-bit address space.
            return mapped.or_else(|error| match compacted(&file)? {
                Some(bytes) => Ok(Self(Kind::Read(bytes))),
                None => Err(error),
            });
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Self(Kind::Read(bytes)))
    }

    /// As [`Self::open`], for a file of which all bytes are read soon: one call of the kernel maps
    /// them in instead of a page fault for each 16 pages (madvise(2), `MADV_POPULATE_READ`, Linux 5.14).
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_all(path: &Path) -> io::Result<Self> {
        let mapped = Self::open(path)?;
        if let Kind::Map { at, len } = mapped.0
            && len <= AT_ONCE
        {
            let advice = rustix::mm::Advice::LinuxPopulateRead;
            // SAFETY: the mapping lives as long as `mapped`, and populating changes no content. A
            // kernel that does not know the advice refuses it, which changes nothing.
            let _ = unsafe { rustix::mm::madvise(at.as_ptr().cast(), len, advice) };
        }
        Ok(mapped)
    }
}

fn map(file: &File, len: usize) -> io::Result<Mapped> {
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    // SAFETY: a new private read-only mapping at an address of the kernel's choice aliases nothing.
    let at =
        unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::PRIVATE, file, 0)? };
    let at = NonNull::<u8>::new(at.cast()).ok_or(io::ErrorKind::Other)?;
    let start = at.as_ptr() as usize;
    for range in &RANGES {
        if range[0].compare_exchange(0, start, Relaxed, Relaxed).is_ok() {
            range[1].store(start + len, Relaxed);
            break;
        }
    }
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
            let start = at.as_ptr() as usize;
            if let Some(range) = RANGES.iter().find(|r| r[0].load(Relaxed) == start) {
                range[1].store(0, Relaxed);
                range[0].store(0, Relaxed);
            }
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
        assert_eq!(&*Mapped::open_all(&path).unwrap(), b"abc");
        std::fs::write(&path, b"").unwrap();
        assert!(Mapped::open(&path).unwrap().is_empty());
        assert!(!Mapped::open(Path::new("/proc/version")).unwrap().is_empty());
        assert!(Mapped::open(dir.path()).is_err());
        assert!(Mapped::open(&dir.path().join("none")).is_err());
    }

    #[test]
    fn a_file_that_is_cut_reads_as_zeros() {
        survive_truncation();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, vec![7; 100_000]).unwrap();
        let map = Mapped::open(&path).unwrap();
        assert_eq!(map[99_999], 7);
        File::options().write(true).open(&path).unwrap().set_len(4).unwrap();
        assert_eq!(map[99_999], 0);
        assert_eq!(map[..5], [7, 7, 7, 7, 0]);
    }
}
