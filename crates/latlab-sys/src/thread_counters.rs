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

use crate::perf_ring::{
    Attr, EXCLUDE_KERNEL, Followed, HARDWARE, Ring, SAMPLE_TIME, SOFTWARE, open, samples, word,
};
use latlab_model::latency::{WorkCounts, WorkReading};
use latlab_model::units::Tid;
use std::io;
use std::os::fd::OwnedFd;

/// Readings of all threads that are kept at most: 8 MB.
const READINGS: usize = 65_536;
/// Bytes of the ring of a thread, a power of two.
const RING: usize = 32 * 1024;
/// `PERF_SAMPLE_READ`.
const SAMPLE_READ: u64 = 1 << 4;
/// Time enabled, time running, and all counters of the group.
const READ_GROUP: u64 = 1 | 2 | 8;

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
        Attr { kind, config, flags, read_format: READ_GROUP, ..Attr::default() }
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
            read_format: READ_GROUP,
            ..Attr::default()
        };
        let leader = open(switches, tid, None)?;
        let ring = Ring::map(&leader, RING)?;
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
    bytes: &'a [u8],
    counters: &'a [Counter],
) -> impl Iterator<Item = WorkReading> + 'a {
    let reading = |body: &[u8]| {
        // Time, number of counters, time enabled, time running, context switches, and the others.
        if word(body, 1)? != counters.len() as u64 + 1 {
            return None;
        }
        let mut counts = WorkCounts {
            time_ns: word(body, 2)?,
            counted_ns: word(body, 3)?,
            ..WorkCounts::default()
        };
        for (k, counter) in counters.iter().enumerate() {
            counter.put(&mut counts, word(body, 5 + k)?);
        }
        Some(WorkReading { at_ns: word(body, 0)?, counts })
    };
    samples(bytes).filter_map(reading)
}

/// The counters of threads.
#[derive(Default)]
pub struct ThreadCounters {
    followed: Followed<Group>,
    bytes: Vec<u8>,
}

impl ThreadCounters {
    /// Begins to count these threads, 32 at most, and ends to count others. One that cannot be counted is left out:
    /// [`Self::error`].
    pub fn follow(&mut self, tids: &[Tid]) {
        self.followed.follow(tids, Group::open);
    }

    /// Why a thread could not be counted, where that is so for each of them.
    pub fn error(&self) -> Option<&io::Error> {
        self.followed.error()
    }

    /// Takes the readings out of the kernel's rings, which hold some 300 of a thread.
    pub fn take(&mut self) {
        let mut most =
            READINGS.saturating_sub(self.followed.threads.values().map(|g| g.readings.len()).sum());
        for group in self.followed.threads.values_mut() {
            most -= group.take(&mut self.bytes, most);
        }
    }

    /// The readings of a thread that were taken, in order of time.
    pub fn readings(&self, tid: Tid) -> &[WorkReading] {
        self.followed.threads.get(&tid).map_or(&[], |g| &g.readings)
    }

    /// Forgets the readings before the last one that is not later than `ns`.
    pub fn forget_before(&mut self, ns: u64) {
        for group in self.followed.threads.values_mut() {
            let later = group.readings.partition_point(|r| r.at_ns <= ns);
            group.readings.drain(..later.saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::area::Area;
    use latlab_model::cache::Pages;
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
                // A huge page would be one fault.
                let memory = (pages > 0).then(|| Area::new(pages * 4096, Pages::Base, 1).unwrap());
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
        // There are kernels with pages of 64 KiB.
        assert!(most >= 4, "{most} faults for 64 pages: {all:?}");
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
        let sample = record(9, &[5, 3, 100, 90, 1, 700, 2]);
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
