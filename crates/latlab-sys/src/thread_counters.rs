//! Counters of other threads, read each time that a thread leaves its CPU: instructions, cycles, cache misses and
//! page faults by perf_event_open(2).
//!
//! One group for each thread. Its first event counts context switches and takes a sample at each of them
//! (`sample_period` 1), in `perf_event_task_sched_out()`: after the event `sched_switch`, before the counters of
//! the thread stop. A sample has the counters of the whole group (`PERF_SAMPLE_READ`) and the time of
//! CLOCK_MONOTONIC, which the clock `mono` of traces has as well. So a thread costs one sample for each switch, and
//! nothing in between; no setting of the kernel is changed, and the counters end with their file descriptors.
//!
//! A counter that the machine does not have is left out. Without hardware counters time and page faults remain.

use latlab_model::latency::{WorkCounts, WorkReading};
use latlab_model::units::Tid;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Threads at most that are counted at one time.
pub const THREADS: usize = 32;
/// Readings of all threads that are kept at most: 8 MB.
const READINGS: usize = 65_536;
/// Bytes of the ring of a thread, a power of two.
const RING: usize = 32 * 1024;

/// `struct perf_event_attr`, of the size `PERF_ATTR_SIZE_VER3`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
}

const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_READ: u64 = 1 << 4;
/// Time enabled, time running, and all counters of the group.
const READ_GROUP: u64 = 1 | 2 | 8;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const USE_CLOCKID: u64 = 1 << 25;
const RECORD_SAMPLE: u32 = 9;
/// Where a ring's first page has `data_head` and `data_tail`.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// A counter of a group, behind the context switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Cycles.
    Cycles,
    /// Instructions.
    Instructions,
    /// Instructions in user mode.
    UserInstructions,
    /// Cache misses.
    CacheMisses,
    /// Cycles of a clock with a fixed frequency.
    ReferenceCycles,
    /// Page faults, a counter of the kernel.
    PageFaults,
}

impl Counter {
    /// Most useful first: a processor may have fewer counters than these.
    const ALL: [Self; 6] = [
        Self::Cycles,
        Self::Instructions,
        Self::UserInstructions,
        Self::CacheMisses,
        Self::ReferenceCycles,
        Self::PageFaults,
    ];

    /// Type, number and what is excluded.
    fn attr(self) -> Attr {
        let (kind, config, flags) = match self {
            Self::Cycles => (HARDWARE, 0, 0),
            Self::Instructions => (HARDWARE, 1, 0),
            Self::UserInstructions => (HARDWARE, 1, EXCLUDE_KERNEL),
            Self::CacheMisses => (HARDWARE, 3, 0),
            Self::ReferenceCycles => (HARDWARE, 9, 0),
            Self::PageFaults => (SOFTWARE, 2, 0),
        };
        Attr { kind, config, flags, ..Attr::default() }
    }

    fn put(self, counts: &mut WorkCounts, value: u64) {
        let place = match self {
            Self::Cycles => &mut counts.cycles,
            Self::Instructions => &mut counts.instructions,
            Self::UserInstructions => &mut counts.user_instructions,
            Self::CacheMisses => &mut counts.cache_misses,
            Self::ReferenceCycles => &mut counts.reference_cycles,
            Self::PageFaults => &mut counts.page_faults,
        };
        *place = Some(value);
    }
}

/// Opens one counter of a thread, in the group of `leader`.
fn open(attr: Attr, tid: Tid, leader: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let attr = Attr {
        size: size_of::<Attr>() as u32,
        read_format: READ_GROUP,
        // The counters of a group have one clock.
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
struct Ring {
    at: NonNull<u8>,
    page: usize,
}

impl Ring {
    fn map(fd: &OwnedFd) -> io::Result<Self> {
        let page = rustix::param::page_size();
        // SAFETY: a new shared mapping of a perf event, at an address that the kernel chooses.
        let at = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let (length, fd) = (page + RING, fd.as_raw_fd());
            libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, fd, 0)
        };
        match NonNull::new(at.cast::<u8>()) {
            Some(start) if at != libc::MAP_FAILED => Ok(Self { at: start, page }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page of the mapping has aligned 64-bit words at both offsets, and lives as long as `self`.
        unsafe { &*self.at.as_ptr().add(offset).cast() }
    }

    /// Takes all records out, without a gap between them.
    fn take(&self, bytes: &mut Vec<u8>) {
        bytes.clear();
        let (tail, head) =
            (self.word(TAIL).load(Ordering::Relaxed), self.word(HEAD).load(Ordering::Acquire));
        let length = head.wrapping_sub(tail).min(RING as u64) as usize;
        let start = (tail % RING as u64) as usize;
        let first = length.min(RING - start);
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
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.page + RING) };
    }
}

/// The counters of one thread.
struct Group {
    ring: Ring,
    /// Behind the context switches, in this order.
    counters: Vec<Counter>,
    readings: Vec<WorkReading>,
    _open: Vec<OwnedFd>,
}

impl Group {
    fn open(tid: Tid) -> io::Result<Self> {
        let switches = Attr {
            kind: SOFTWARE,
            config: 3,
            sample_period: 1,
            sample_type: SAMPLE_TIME | SAMPLE_READ,
            ..Attr::default()
        };
        let leader = open(switches, tid, None)?;
        let ring = Ring::map(&leader)?;
        let (mut counters, mut opened) = (Vec::new(), Vec::new());
        for counter in Counter::ALL {
            if let Ok(fd) = open(counter.attr(), tid, Some(&leader)) {
                counters.push(counter);
                opened.push(fd);
            }
        }
        opened.push(leader);
        Ok(Self { ring, counters, readings: Vec::new(), _open: opened })
    }

    /// Takes the readings out of the ring, and keeps `most` of them; how many these were.
    fn take(&mut self, bytes: &mut Vec<u8>, most: usize) -> usize {
        self.ring.take(bytes);
        let before = self.readings.len();
        self.readings.extend(readings(bytes, &self.counters).take(most));
        self.readings.len() - before
    }
}

/// The samples of a ring.
fn readings<'a>(
    mut bytes: &'a [u8],
    counters: &'a [Counter],
) -> impl Iterator<Item = WorkReading> + 'a {
    let next = move || -> Option<(u32, &'a [u8])> {
        let kind = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?);
        let size = usize::from(u16::from_ne_bytes(bytes.get(6..8)?.try_into().ok()?));
        let body = bytes.get(8..size)?;
        bytes = &bytes[size..];
        Some((kind, body))
    };
    let reading = |(kind, body): (u32, &[u8])| {
        let word =
            |k: usize| Some(u64::from_ne_bytes(body.get(8 * k..8 * k + 8)?.try_into().ok()?));
        // Time, number of counters, time enabled, time running, context switches, and the others.
        if kind != RECORD_SAMPLE || word(1)? != counters.len() as u64 + 1 {
            return None;
        }
        let mut counts =
            WorkCounts { time_ns: word(2)?, counted_ns: word(3)?, ..WorkCounts::default() };
        for (k, counter) in counters.iter().enumerate() {
            counter.put(&mut counts, word(5 + k)?);
        }
        Some(WorkReading { at_ns: word(0)?, counts })
    };
    std::iter::from_fn(next).filter_map(reading)
}

/// The counters of threads.
#[derive(Default)]
pub struct ThreadCounters {
    groups: BTreeMap<Tid, Group>,
    /// Threads that could not be counted, with the last error.
    refused: Vec<Tid>,
    error: Option<io::Error>,
    bytes: Vec<u8>,
}

impl ThreadCounters {
    /// Begins to count these threads, [`THREADS`] at most, and ends to count others. One that cannot be counted is
    /// left out: [`Self::error`].
    pub fn follow(&mut self, tids: &[Tid]) {
        self.groups.retain(|tid, _| tids.contains(tid));
        self.refused.retain(|tid| tids.contains(tid));
        for &tid in tids {
            let known = self.groups.contains_key(&tid) || self.refused.contains(&tid);
            if known || self.groups.len() >= THREADS {
                continue;
            }
            match Group::open(tid) {
                Ok(group) => {
                    self.groups.insert(tid, group);
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

    /// Why a thread could not be counted, where that is so for each of them.
    pub fn error(&self) -> Option<&io::Error> {
        self.error.as_ref().filter(|_| self.groups.is_empty())
    }

    /// Takes the readings out of the kernel's rings, which hold some 300 of a thread.
    pub fn take(&mut self) {
        let mut most =
            READINGS.saturating_sub(self.groups.values().map(|g| g.readings.len()).sum());
        for group in self.groups.values_mut() {
            most -= group.take(&mut self.bytes, most);
        }
    }

    /// The readings of a thread that were taken, in order of time.
    pub fn readings(&self, tid: Tid) -> &[WorkReading] {
        self.groups.get(&tid).map_or(&[], |g| &g.readings)
    }

    /// Forgets the readings before the last one that is not later than `ns`.
    pub fn forget_before(&mut self, ns: u64) {
        for group in self.groups.values_mut() {
            let later = group.readings.partition_point(|r| r.at_ns <= ns);
            group.readings.drain(..later.saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Of the kernel that runs: each sleep of a thread is a reading, and touched pages are page faults.
    #[test]
    fn each_time_that_a_thread_leaves_its_cpu_its_counters_are_read() {
        let (told, tid) = std::sync::mpsc::channel();
        let (begin, begun) = std::sync::mpsc::channel::<()>();
        let worker = std::thread::spawn(move || {
            let _ = told.send(Tid(rustix::thread::gettid().as_raw_nonzero().get()));
            let _ = begun.recv();
            for pages in [0, 64, 0] {
                std::thread::sleep(Duration::from_millis(1));
                // 1 MiB is mapped anew, and its pages come when they are written.
                let mut memory = Vec::<u8>::with_capacity(1 << 20);
                memory.resize(pages * 4096, 1);
                std::hint::black_box(&memory);
            }
            std::thread::sleep(Duration::from_millis(1));
        });
        let tid = tid.recv().unwrap();
        let mut counters = ThreadCounters::default();
        counters.follow(&[tid]);
        assert!(counters.error().is_none(), "{:?}", counters.error());
        begin.send(()).unwrap();
        worker.join().unwrap();
        counters.take();
        let all = counters.readings(tid).to_vec();
        assert!(all.len() >= 4, "{all:?}");
        assert!(all.windows(2).all(|w| w[0].at_ns < w[1].at_ns), "{all:?}");
        let faults = |w: &[WorkReading]| {
            w[1].counts.since(&w[0].counts).and_then(|c| c.page_faults).unwrap()
        };
        let most = all.windows(2).map(faults).max().unwrap();
        assert!(most >= 16, "{most} of 64 pages: {all:?}");
        counters.forget_before(all[1].at_ns);
        assert_eq!(counters.readings(tid), &all[1..]);
        counters.follow(&[]);
        assert!(counters.readings(tid).is_empty());
    }

    #[test]
    fn what_is_no_sample_or_is_cut_off_is_passed_over() {
        let record = |kind: u32, words: &[u64]| {
            let mut bytes = kind.to_ne_bytes().to_vec();
            bytes.extend([0; 2]);
            bytes.extend((8 + 8 * words.len() as u16).to_ne_bytes());
            bytes.extend(words.iter().flat_map(|w| w.to_ne_bytes()));
            bytes
        };
        let counters = [Counter::Cycles, Counter::PageFaults];
        let sample = record(RECORD_SAMPLE, &[5, 3, 100, 90, 1, 700, 2]);
        let all = [record(2, &[1, 2]), sample.clone(), record(9, &[6, 9]), sample[..20].to_vec()];
        let found: Vec<_> = readings(&all.concat(), &counters).collect();
        let counts = WorkCounts {
            time_ns: 100,
            counted_ns: 90,
            cycles: Some(700),
            page_faults: Some(2),
            ..WorkCounts::default()
        };
        assert_eq!(found, [WorkReading { at_ns: 5, counts }]);
        assert_eq!(readings(&[0; 64], &counters).count(), 0, "a size of zero ends it");
    }
}
