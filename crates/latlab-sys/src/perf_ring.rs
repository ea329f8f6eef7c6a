//! Samples of a thread by perf_event_open(2): its attributes, a ring that the kernel fills, and the records in it.

use latlab_model::units::Tid;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// `struct perf_event_attr`, of the size `PERF_ATTR_SIZE_VER3`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Attr {
    pub kind: u32,
    pub size: u32,
    pub config: u64,
    pub sample_period: u64,
    pub sample_type: u64,
    pub read_format: u64,
    pub flags: u64,
    pub wakeup: u32,
    pub bp_type: u32,
    pub config1: u64,
    pub config2: u64,
    pub branch_sample_type: u64,
    pub sample_regs_user: u64,
    pub sample_stack_user: u32,
    pub clockid: i32,
}

pub(crate) const HARDWARE: u32 = 0;
pub(crate) const SOFTWARE: u32 = 1;
pub(crate) const SAMPLE_TIME: u64 = 1 << 2;
pub(crate) const EXCLUDE_KERNEL: u64 = 1 << 5;
const USE_CLOCKID: u64 = 1 << 25;
const RECORD_SAMPLE: u32 = 9;
/// Where a ring's first page has `data_head` and `data_tail`.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// Opens one event of a thread, in the group of `leader`, with the clock `CLOCK_MONOTONIC`.
pub(crate) fn open(attr: Attr, tid: Tid, leader: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let attr = Attr {
        size: size_of::<Attr>() as u32,
        // The events of a group have one clock.
        flags: attr.flags | USE_CLOCKID,
        clockid: libc::CLOCK_MONOTONIC,
        ..attr
    };
    let group = leader.map_or(-1, AsRawFd::as_raw_fd);
    // SAFETY: the kernel reads `attr`, whose size is in it, and returns a new file descriptor or -1.
    let fd = unsafe {
        let close_on_exec: libc::c_ulong = 8;
        libc::syscall(libc::SYS_perf_event_open, &raw const attr, tid.0, -1, group, close_on_exec)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above returned this descriptor, which nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The ring of a thread.
pub(crate) struct Ring {
    at: NonNull<u8>,
    page: usize,
    /// Bytes behind the first page, a power of two.
    bytes: usize,
}

impl Ring {
    /// Of `bytes`, a power of two of pages.
    pub fn map(fd: &OwnedFd, bytes: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        // SAFETY: a new shared mapping of a perf event, at an address that the kernel chooses.
        let at = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let (length, fd) = (page + bytes, fd.as_raw_fd());
            libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, fd, 0)
        };
        match NonNull::new(at.cast::<u8>()) {
            Some(start) if at != libc::MAP_FAILED => Ok(Self { at: start, page, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page of the mapping has aligned 64-bit words at both offsets, and lives as long as `self`.
        unsafe { &*self.at.as_ptr().add(offset).cast() }
    }

    /// Takes all records out, without a gap between them.
    pub fn take(&self, bytes: &mut Vec<u8>) {
        bytes.clear();
        let (tail, head) =
            (self.word(TAIL).load(Ordering::Relaxed), self.word(HEAD).load(Ordering::Acquire));
        let length = head.wrapping_sub(tail).min(self.bytes as u64) as usize;
        let start = (tail % self.bytes as u64) as usize;
        let first = length.min(self.bytes - start);
        for (from, length) in [(start, first), (0, length - first)] {
            // SAFETY: the range lies within the mapping behind its first page; the kernel does not write to what it
            // has not been given back.
            bytes.extend_from_slice(unsafe {
                std::slice::from_raw_parts(self.at.as_ptr().add(self.page + from), length)
            });
        }
        self.word(TAIL).store(head, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.page + self.bytes) };
    }
}

/// Threads that are sampled at one time at most.
pub(crate) const THREADS: usize = 32;

/// The threads that are sampled.
pub(crate) struct Followed<T> {
    pub threads: BTreeMap<Tid, T>,
    /// Threads that could not be opened, with the last error.
    refused: Vec<Tid>,
    error: Option<io::Error>,
}

impl<T> Default for Followed<T> {
    fn default() -> Self {
        Self { threads: BTreeMap::new(), refused: Vec::new(), error: None }
    }
}

impl<T> Followed<T> {
    /// Opens these threads, [`THREADS`] at most, and closes others. One that cannot be opened is left out.
    pub fn follow(&mut self, tids: &[Tid], open: impl Fn(Tid) -> io::Result<T>) {
        self.threads.retain(|tid, _| tids.contains(tid));
        self.refused.retain(|tid| tids.contains(tid));
        for &tid in tids {
            let known = self.threads.contains_key(&tid) || self.refused.contains(&tid);
            if known || self.threads.len() >= THREADS {
                continue;
            }
            match open(tid) {
                Ok(thread) => {
                    self.threads.insert(tid, thread);
                }
                Err(error) => {
                    self.refused.push(tid);
                    // A thread that has just ended says nothing about the machine.
                    if error.raw_os_error() != Some(libc::ESRCH) {
                        self.error = Some(error);
                    }
                }
            }
        }
    }

    /// Why a thread could not be opened, where that is so for each of them.
    pub fn error(&self) -> Option<&io::Error> {
        self.error.as_ref().filter(|_| self.threads.is_empty())
    }
}

/// The bodies of the samples in `bytes`, until one is cut off.
pub(crate) fn samples(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let next = move || {
        let kind = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?);
        let size = usize::from(u16::from_ne_bytes(bytes.get(6..8)?.try_into().ok()?));
        let body = bytes.get(8..size)?;
        bytes = &bytes[size..];
        Some((kind, body))
    };
    std::iter::from_fn(next).filter(|(kind, _)| *kind == RECORD_SAMPLE).map(|(_, body)| body)
}

/// A 64-bit word of a sample.
pub(crate) fn word(body: &[u8], k: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(body.get(8 * k..8 * k + 8)?.try_into().ok()?))
}
