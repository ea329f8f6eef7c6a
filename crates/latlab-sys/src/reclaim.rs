//! Memory that is taken away: another process's to swap, every other page of our own.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;

/// Has the kernel move private memory of a process to swap, range by range (start, length).
/// What is locked, or cannot be moved, stays.
///
/// # Errors
/// When there is no such process, or the kernel is older than 5.10 (`process_madvise`).
pub fn page_out(pid: u32, ranges: &[(usize, usize)]) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
    let process = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
    for &(start, len) in ranges {
        match advise(&process, start, len) {
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn advise(process: &OwnedFd, start: usize, len: usize) -> io::Result<()> {
    // The address is one of the other process: it is never followed here.
    let range = libc::iovec { iov_base: start as *mut c_void, iov_len: len };
    let (fd, advice) = (process.as_raw_fd(), libc::MADV_PAGEOUT);
    // SAFETY: process_madvise(2) reads one iovec that lives here, and touches memory of the process
    // behind the descriptor only, whose content it keeps.
    let rc = unsafe {
        libc::syscall(libc::SYS_process_madvise, fd, &raw const range, 1usize, advice, 0u32)
    };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Private memory of whole pages, mapped when it is made and unmapped when it is dropped: an
/// allocator would keep it.
#[derive(Debug)]
pub struct Piece {
    at: NonNull<u8>,
    len: usize,
}

impl Piece {
    /// Maps it; no page is there yet.
    ///
    /// # Errors
    /// When there is no room for it.
    pub fn new(len: usize) -> io::Result<Self> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new private memory at an address of the kernel's choice aliases nothing.
        let at = unsafe { mmap_anonymous(std::ptr::null_mut(), len, prot, MapFlags::PRIVATE)? };
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { at, len })
    }

    /// Writes a byte of every page, so that all are there.
    pub fn touch(&mut self) {
        // SAFETY: the mapping is ours alone, `len` bytes long, zeroed by the kernel, and lives as `self`.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) };
        for page in bytes.chunks_mut(rustix::param::page_size()) {
            page[0] = 1;
        }
        std::hint::black_box(bytes);
    }

    /// Gives all pages back; CPUs that run this process have to forget where they were.
    pub fn give_back(&mut self) {
        let at = self.at.as_ptr().cast();
        // SAFETY: the whole mapping, to which no reference is alive; it reads as zero afterwards.
        let rc = unsafe { libc::madvise(at, self.len, libc::MADV_DONTNEED) };
        debug_assert_eq!(rc, 0);
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        // SAFETY: unmaps what `new` mapped; no reference into it outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

/// Gives every other page of this memory back to the kernel; it reads as zero afterwards.
pub fn give_back_every_other(memory: &mut [u8]) {
    let page = rustix::param::page_size();
    let skip = memory.as_ptr().align_offset(page);
    for piece in memory.get_mut(skip..).unwrap_or_default().chunks_exact_mut(page).step_by(2) {
        // SAFETY: a whole page of memory that is ours to write, which becomes zeros.
        let rc = unsafe { libc::madvise(piece.as_mut_ptr().cast(), page, libc::MADV_DONTNEED) };
        debug_assert_eq!(rc, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_are_given_back_are_zero_and_the_others_stay() {
        let page = rustix::param::page_size();
        let mut memory = vec![1u8; 16 * page];
        give_back_every_other(&mut memory);
        let zeros = memory.iter().filter(|b| **b == 0).count();
        assert!((7 * page..=8 * page).contains(&zeros), "{zeros}");
    }

    #[test]
    fn a_piece_is_touched_and_given_back_again_and_again() {
        let mut piece = Piece::new(8 * rustix::param::page_size()).unwrap();
        for _ in 0..3 {
            piece.touch();
            piece.give_back();
        }
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        assert!(page_out(0, &[]).is_err());
        assert!(page_out(u32::MAX, &[]).is_err());
    }
}
