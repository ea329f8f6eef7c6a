//! io_uring with a request that does nothing: what it costs to submit one and to reap it.
//!
//! One `io_uring_enter` submits the request and waits for its completion, so that the figure
//! stands beside `syscall.getppid`: the difference is the ring's.
//!
//! Source: io_uring(7), io_uring_setup(2), io_uring_enter(2).

use super::{Calling, Probe, ProbeError, Spec};
use rustix::io_uring::{
    IORING_OFF_CQ_RING, IORING_OFF_SQ_RING, IORING_OFF_SQES, IoringEnterFlags, IoringOp,
    io_uring_cqe, io_uring_enter, io_uring_params, io_uring_setup, io_uring_sqe,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// The probes of this file.
pub const SPECS: &[Spec] = &[Spec::new(
    "syscall.uring-nop",
    "io_uring: a request that does nothing, submitted and reaped",
    "",
    |_| Ring::new().map(|ring| Box::new(ring) as Box<dyn Probe>),
)];

/// Requests that the ring has room for; one is in it at a time.
const ENTRIES: u32 = 4;

/// A mapping of the ring's descriptor.
struct Map {
    start: *mut u8,
    length: usize,
}

impl Map {
    fn new(fd: &OwnedFd, length: usize, offset: u64) -> Result<Self, ProbeError> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let (at, flags) = (std::ptr::null_mut(), MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing of ours.
        let start = unsafe { mmap(at, length, rights, flags, fd, offset) };
        Ok(Self { start: start.calling("mmap of the io_uring")?.cast(), length })
    }

    /// The `T` at an offset that the kernel gave.
    fn at<T>(&self, offset: u32) -> Result<*mut T, ProbeError> {
        let offset = offset as usize;
        if offset.checked_add(size_of::<T>()).is_none_or(|end| end > self.length) {
            return Err(ProbeError::failed("probe.uring-offsets"));
        }
        // SAFETY: `offset` lies within the mapping, as was just seen.
        Ok(unsafe { self.start.add(offset) }.cast())
    }

    /// A word that the kernel shares.
    fn word(&self, offset: u32) -> Result<*const AtomicU32, ProbeError> {
        Ok(self.at::<AtomicU32>(offset)?.cast_const())
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made; whoever points into it goes with it.
        let _ = unsafe { munmap(self.start.cast(), self.length) };
    }
}

/// The rings and where in them things are.
struct Ring {
    fd: OwnedFd,
    submit_tail: *const AtomicU32,
    reap_head: *const AtomicU32,
    reap_tail: *const AtomicU32,
    reap_mask: u32,
    completions: *const io_uring_cqe,
    _maps: [Map; 3],
}

impl Ring {
    fn new() -> Result<Self, ProbeError> {
        let mut p = io_uring_params::default();
        // SAFETY: a whole params that the kernel fills; nothing is submitted yet.
        let fd = unsafe { io_uring_setup(ENTRIES, &mut p) }.calling("io_uring_setup")?;
        let (sq, cq) = (p.sq_off, p.cq_off);
        let (entries, reaped) = (p.sq_entries as usize, p.cq_entries as usize);
        let submit = Map::new(&fd, sq.array as usize + entries * 4, IORING_OFF_SQ_RING)?;
        let length = cq.cqes as usize + reaped * size_of::<io_uring_cqe>();
        let reap = Map::new(&fd, length, IORING_OFF_CQ_RING)?;
        let requests = Map::new(&fd, entries * size_of::<io_uring_sqe>(), IORING_OFF_SQES)?;
        let nop = io_uring_sqe { opcode: IoringOp::Nop, ..io_uring_sqe::default() };
        let first = requests.at::<io_uring_sqe>(0)?;
        // SAFETY: within the mapping; the kernel reads it only when it is submitted.
        unsafe { first.write(nop) };
        for i in 0..p.sq_entries {
            // Every place of the ring names the same request: the one that does nothing.
            let place = submit.at::<u32>(sq.array + 4 * i)?;
            // SAFETY: as above.
            unsafe { place.write(0) };
        }
        let mask = reap.word(cq.ring_mask)?;
        Ok(Self {
            submit_tail: submit.word(sq.tail)?,
            reap_head: reap.word(cq.head)?,
            reap_tail: reap.word(cq.tail)?,
            // SAFETY: within the mapping, and never changed after the set-up.
            reap_mask: unsafe { &*mask }.load(Ordering::Relaxed),
            completions: {
                // The last one too lies within the mapping.
                let last = (reaped.saturating_sub(1) * size_of::<io_uring_cqe>()) as u32;
                reap.at::<io_uring_cqe>(cq.cqes + last)?;
                reap.at::<io_uring_cqe>(cq.cqes)?.cast_const()
            },
            fd,
            _maps: [submit, reap, requests],
        })
    }

    #[inline]
    fn once(&mut self) -> Result<(), ProbeError> {
        // SAFETY: all three lie in mappings that live as long as `self`, and are shared words.
        let (tail, head, reaped) =
            unsafe { (&*self.submit_tail, &*self.reap_head, &*self.reap_tail) };
        tail.store(tail.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        // SAFETY: the only request is one that does nothing.
        unsafe { io_uring_enter(&self.fd, 1, 1, IoringEnterFlags::GETEVENTS) }
            .calling("io_uring_enter")?;
        let at = head.load(Ordering::Relaxed);
        if reaped.load(Ordering::Acquire) == at {
            return Err(ProbeError::failed("probe.uring-no-completion"));
        }
        // SAFETY: masked, so within the ring; the kernel has finished writing it (Acquire above).
        let result = unsafe { (*self.completions.add((at & self.reap_mask) as usize)).res };
        head.store(at.wrapping_add(1), Ordering::Release);
        match result {
            0.. => Ok(()),
            error => Err(std::io::Error::from_raw_os_error(-error)).calling("io_uring nop"),
        }
    }
}

impl Probe for Ring {
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        for _ in 0..n {
            self.once()?;
        }
        Ok(())
    }
}
