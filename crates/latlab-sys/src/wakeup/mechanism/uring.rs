//! A read of an event counter that waits in `io_uring_enter(2)`, as an event loop does. One request and
//! its completion share a pair of rings with the kernel (io_uring(7)).

use crate::probe::syscall::write;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io_uring::{
    IORING_OFF_CQ_RING, IORING_OFF_SQ_RING, IORING_OFF_SQES, IoringEnterFlags, IoringOp,
    addr_or_splice_off_in_union, io_uring_cqe, io_uring_enter, io_uring_params, io_uring_ptr,
    io_uring_setup, io_uring_sqe, len_union,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Size of a completion, bytes: [`io_uring_cqe`] without the part of 32-byte completions.
const COMPLETION: usize = size_of::<io_uring_cqe>();

/// Memory that is shared with the kernel.
struct Map {
    at: NonNull<u8>,
    length: usize,
}

impl Map {
    fn new(ring: &OwnedFd, length: usize, offset: u64) -> io::Result<Self> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice aliases nothing of ours.
        let at = unsafe { mmap(std::ptr::null_mut(), length, prot, flags, ring, offset)? };
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { at, length })
    }

    /// The aligned word at an offset that the kernel named.
    fn word(&self, offset: u32) -> &AtomicU32 {
        debug_assert!(offset as usize + 4 <= self.length && offset.is_multiple_of(4));
        // SAFETY: within the mapping, which lives as long as `self`; the kernel writes it atomically.
        unsafe { self.at.add(offset as usize).cast().as_ref() }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: unmaps what `new` mapped; no reference into it outlives `self`.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), self.length) };
    }
}

/// A ring with one read of an event counter. One thread waits, another one wakes it.
pub struct Uring {
    ring: OwnedFd,
    submissions: Map,
    requests: Map,
    completions: Map,
    params: io_uring_params,
    event: OwnedFd,
    /// Where the kernel writes the counter.
    count: Box<UnsafeCell<u64>>,
    /// The read was submitted and has not been completed.
    reading: AtomicBool,
}

// SAFETY: the pointers are mappings that live as long as `self`; only the thread that waits uses the
// rings, and the kernel alone writes `count`.
unsafe impl Send for Uring {}
// SAFETY: as above.
unsafe impl Sync for Uring {}

impl Uring {
    /// # Errors
    /// The kernel's: no io_uring, or forbidden by `kernel.io_uring_disabled`.
    pub fn open() -> io::Result<Self> {
        let mut params = io_uring_params::default();
        // SAFETY: no flag is set that gives another field a meaning.
        let ring = unsafe { io_uring_setup(1, &mut params)? };
        let (sq, cq) = (params.sq_off, params.cq_off);
        let sq_length = sq.array as usize + params.sq_entries as usize * 4;
        let cq_length = cq.cqes as usize + params.cq_entries as usize * COMPLETION;
        Ok(Self {
            submissions: Map::new(&ring, sq_length, IORING_OFF_SQ_RING)?,
            requests: Map::new(&ring, size_of::<io_uring_sqe>(), IORING_OFF_SQES)?,
            completions: Map::new(&ring, cq_length, IORING_OFF_CQ_RING)?,
            ring,
            params,
            event: eventfd(0, EventfdFlags::empty())?,
            count: Box::default(),
            reading: AtomicBool::new(false),
        })
    }

    /// Wakes the thread that waits.
    ///
    /// # Errors
    /// The kernel's.
    pub fn wake(&self) -> io::Result<()> {
        write(&self.event, &1u64.to_ne_bytes()).map(drop)
    }

    /// Submits the read, unless it waits already, and waits until it is completed.
    ///
    /// # Errors
    /// `Interrupted` when a signal came first; the read's.
    pub fn wait(&self) -> io::Result<()> {
        let submit = u32::from(!self.reading.load(Ordering::Relaxed));
        if submit == 1 {
            self.prepare();
        }
        // SAFETY: the request reads into `count`, and no other write to the counter follows the last wait.
        let entered = unsafe { io_uring_enter(&self.ring, submit, 1, IoringEnterFlags::GETEVENTS) };
        if submit == 1 {
            // Also an interrupted call has submitted it, which the ring's head shows.
            let head = self.submissions.word(self.params.sq_off.head).load(Ordering::Acquire);
            let tail = self.submissions.word(self.params.sq_off.tail).load(Ordering::Relaxed);
            if head == tail {
                self.reading.store(true, Ordering::Relaxed);
            } else {
                self.submissions.word(self.params.sq_off.tail).store(head, Ordering::Release);
            }
        }
        entered?;
        self.complete()
    }

    fn prepare(&self) {
        let sq = self.params.sq_off;
        let tail = self.submissions.word(sq.tail).load(Ordering::Relaxed);
        let request = io_uring_sqe {
            opcode: IoringOp::Read,
            fd: self.event.as_raw_fd(),
            addr_or_splice_off_in: addr_or_splice_off_in_union {
                addr: io_uring_ptr::new(self.count.get().cast()),
            },
            len: len_union { len: 8 },
            ..io_uring_sqe::default()
        };
        // SAFETY: the mapping has room for one request, and the kernel has none that it has not read.
        unsafe { self.requests.at.cast::<io_uring_sqe>().as_ptr().write(request) };
        self.submissions.word(sq.array).store(0, Ordering::Relaxed);
        self.submissions.word(sq.tail).store(tail.wrapping_add(1), Ordering::Release);
    }

    /// Takes the completion.
    fn complete(&self) -> io::Result<()> {
        let cq = self.params.cq_off;
        let head = self.completions.word(cq.head).load(Ordering::Relaxed);
        if head == self.completions.word(cq.tail).load(Ordering::Acquire) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let index = head & self.completions.word(cq.ring_mask).load(Ordering::Relaxed);
        // `res` follows the 8 bytes of user data.
        let at = cq.cqes + index * COMPLETION as u32 + 8;
        let result = self.completions.word(at).load(Ordering::Relaxed).cast_signed();
        self.completions.word(cq.head).store(head.wrapping_add(1), Ordering::Release);
        self.reading.store(false, Ordering::Relaxed);
        if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wakeup::os;
    use std::time::Duration;

    #[test]
    fn a_wake_ends_a_wait_and_a_signal_interrupts_one() {
        let ring = match Uring::open() {
            Ok(ring) => ring,
            // A machine without io_uring.
            Err(error) => {
                return assert!(matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)));
            }
        };
        os::let_sleeps_be_ended();
        std::thread::scope(|scope| {
            let (sent, ended) = std::sync::mpsc::channel();
            let ring = &ring;
            scope.spawn(move || {
                sent.send(Ok(os::tid())).unwrap();
                let mut taken = 0;
                while taken < 100 {
                    let waited = ring.wait();
                    taken += u32::from(waited.is_ok());
                    sent.send(waited.map(|()| 0)).unwrap();
                }
            });
            let tid = ended.recv().unwrap().unwrap();
            let interrupted = loop {
                os::end_sleep_of(tid);
                if let Ok(first) = ended.recv_timeout(Duration::from_millis(1)) {
                    break first;
                }
            };
            assert_eq!(interrupted.unwrap_err().kind(), io::ErrorKind::Interrupted);
            for _ in 0..100 {
                ring.wake().unwrap();
                while ended.recv().unwrap().is_err() {}
            }
        });
    }
}
