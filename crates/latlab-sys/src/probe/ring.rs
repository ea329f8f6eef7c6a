//! A token that goes round a ring of processes, each of which reads its working
//! set before it passes it on: what caches add to a context switch.
//!
//! One turn is one lap, which is as many switches as there are processes. What
//! one process pays for the same calls and the same (hot) working set without
//! switching is subtracted. While all working sets together fit into a cache the
//! figure is flat, and rises where they no longer do.
//!
//! On one CPU the processes of class `other` run under SCHED_BATCH: a woken process of that class does
//! not preempt the one that passes the token on, so that a hand-over is one switch on every kernel.
//!
//! Caches beyond the first are physically indexed: with `pages=random` the
//! working sets consist of pages from anywhere in four times as much memory,
//! with `pages=coloured` they lie side by side in huge pages (where the kernel
//! gives them), so that they cannot collide before the cache is full.

use super::peer::{BOTH_CLASSES, PLACE, Peer, Placement};
use super::syscall::{read, write};
use super::{Calling, ParamSpec, Probe, ProbeError, Setting, Spec};
use crate::policy;
use latlab_model::finding::Note;
use latlab_model::wakeup::config::Policy;
use latlab_stats::rng::SplitMix64;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use std::hint::black_box;
use std::os::fd::OwnedFd;

const PROCS: ParamSpec = ParamSpec {
    name: "procs",
    what: "processes in the ring",
    default: &["2", "8"],
    full: &["2", "4", "8", "16", "24", "32", "64", "96"],
};
const SIZE: ParamSpec = ParamSpec {
    name: "size",
    what: "bytes that each process reads",
    default: &["0", "16K"],
    full: &["0", "4K", "16K", "64K"],
};
const PAGES: ParamSpec = ParamSpec {
    name: "pages",
    what: "physical pages: random or coloured",
    default: &["random"],
    full: &["random", "coloured"],
};

/// The probes of this file.
pub const SPECS: &[Spec] = &[Spec::new(
    "ctx.ring",
    "one switch in a ring of processes with a working set, less calls and hot working set",
    "lat_ctx",
    ring,
)
.with(&[PROCS, SIZE, PAGES, PLACE, ParamSpec { full: &[], ..BOTH_CLASSES }])];

/// Memory that peers inherit: their pages are these very pages, for nobody writes to them.
#[derive(Debug)]
struct Pages(*const u8);

/// A working set: chunks of memory that are read from end to end.
#[derive(Clone, Debug, Default)]
struct WorkingSet(Vec<(*const u64, usize)>);

impl WorkingSet {
    #[inline]
    fn read(&self) {
        for &(start, words) in &self.0 {
            let mut sum = 0u64;
            for i in 0..words {
                // SAFETY: `Pages` mapped these words, and never unmaps them.
                sum = sum.wrapping_add(unsafe { start.add(i).read() });
            }
            black_box(sum);
        }
    }
}

impl Pages {
    /// Maps and writes `bytes`; they stay mapped until the process ends.
    fn map(bytes: usize, huge: bool) -> Result<Self, ProbeError> {
        const HUGE: usize = 2 << 20;
        let page = rustix::param::page_size();
        let length = bytes.next_multiple_of(HUGE) + HUGE;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing of ours.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), length, rights, MapFlags::PRIVATE) };
        let start = start.calling("mmap")?.cast::<u8>();
        let skip = start.align_offset(HUGE).min(HUGE);
        let advice = if huge { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
        // SAFETY: `skip + bytes` lies within the mapping, which is ours alone; writing makes its pages real.
        unsafe {
            let start = start.add(skip);
            let _ = madvise(start.cast(), bytes.next_multiple_of(page), advice);
            start.write_bytes(1, bytes);
            Ok(Self(start))
        }
    }

    /// Working sets of `size` bytes for `procs` processes.
    fn deal(procs: usize, size: usize, coloured: bool) -> Result<Vec<WorkingSet>, ProbeError> {
        if size == 0 {
            return Ok(vec![WorkingSet::default(); procs]);
        }
        let page = rustix::param::page_size();
        let each = size.div_ceil(page);
        let spread = if coloured { 1 } else { 4 };
        let pages = Self::map(each * procs * spread * page, coloured)?;
        let mut order: Vec<usize> = (0..each * procs * spread).collect();
        if !coloured {
            // Another deal in each process: its address is as good a seed as any.
            SplitMix64::new(u64::from(std::process::id())).shuffle(&mut order);
        }
        let set = |own: &[usize]| {
            let mut left = size;
            let chunks = own.iter().map(|&p| {
                let bytes = left.min(page);
                left -= bytes;
                // SAFETY: page `p` is below the number of pages that were mapped.
                (unsafe { pages.0.add(p * page) }.cast::<u64>(), bytes / 8)
            });
            WorkingSet(chunks.collect())
        };
        Ok(order.chunks(each).take(procs).map(set).collect())
    }
}

struct Ring {
    to_next: OwnedFd,
    from_last: OwnedFd,
    self_out: OwnedFd,
    self_in: OwnedFd,
    set: WorkingSet,
    peers: Vec<Peer>,
    placement: Placement,
}

impl Ring {
    fn step(out: &OwnedFd, input: &OwnedFd, set: &WorkingSet) -> Result<(), ProbeError> {
        let mut token = [0u8; 4];
        write(out, &token).calling("write")?;
        read(input, &mut token).calling("read")?;
        set.read();
        Ok(())
    }
}

impl Probe for Ring {
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        for _ in 0..n {
            Self::step(&self.to_next, &self.from_last, &self.set)?;
        }
        Ok(())
    }

    fn baseline(&mut self, n: u64) -> Result<bool, ProbeError> {
        for _ in 0..n * (self.peers.len() as u64 + 1) {
            Self::step(&self.self_out, &self.self_in, &self.set)?;
        }
        Ok(true)
    }

    fn per_turn(&self) -> f64 {
        self.peers.len() as f64 + 1.0
    }

    fn peer_switches(&mut self) -> Option<u64> {
        self.peers.iter().map(Peer::switches).sum()
    }

    fn switches_expected(&self) -> f64 {
        1.0
    }

    fn switches_must_match(&self) -> bool {
        self.placement.one_cpu
    }

    fn is_fifo(&self) -> bool {
        self.placement.fifo
    }

    fn notes(&self) -> Vec<Note> {
        self.placement.note().into_iter().collect()
    }
}

fn ring(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let (procs, size) = (setting.size("procs")?, setting.size("size")?);
    if !(2..=1000).contains(&procs) {
        return Err(setting.bad("procs", "2 to 1000"));
    }
    let coloured = match setting.text("pages") {
        "random" => false,
        "coloured" | "colored" => true,
        _ => return Err(setting.bad("pages", "random or coloured")),
    };
    super::fits_memory(&[size, procs, 4])?;
    let placement = Placement::take(setting)?;
    if placement.one_cpu && !placement.fifo {
        // Where it is refused the switches are counted as everywhere, and batches with more are rejected.
        let _ = policy::set(Policy::Batch, 0, policy::Budget::default());
    }
    let sets = Pages::deal(procs, size, coloured)?;
    let mut pipes = Vec::with_capacity(procs + 1);
    for _ in 0..=procs {
        pipes.push(rustix::pipe::pipe().calling("pipe")?);
    }
    let mut peers = Vec::with_capacity(procs - 1);
    for i in 1..procs {
        // Peer i reads from pipe i - 1 and writes to pipe i.
        let (input, out) = (&pipes[i - 1].0, &pipes[i].1);
        let set = &sets[i];
        peers.push(Peer::fork(&placement, || pass_on(input, out, set))?);
    }
    // Ours: the write end of the first, the read end of the last of the ring, and all of the one beyond.
    let (self_in, self_out) = pipes.swap_remove(procs);
    let (from_last, _) = pipes.swap_remove(procs - 1);
    let (_, to_next) = pipes.swap_remove(0);
    let set = sets.into_iter().next().unwrap_or_default();
    Ok(Box::new(Ring { to_next, from_last, self_out, self_in, set, peers, placement }))
}

fn pass_on(input: &OwnedFd, out: &OwnedFd, set: &WorkingSet) {
    let mut token = [0u8; 4];
    while matches!(read(input, &mut token), Ok(n) if n > 0) {
        set.read();
        if write(out, &token).is_err() {
            return;
        }
    }
}
