//! `latlab fault-worker`: the faults of user space, for the virtual lab (docs/reference/faults.md).

use crate::cli::fault_worker::{FaultArgs, FaultKind};
use crate::outcome::Outcome;
use anyhow::Context;
use latlab_model::units::CpuId;
use latlab_model::wakeup::config::Policy;
use latlab_sys::reclaim::Piece;
use latlab_sys::shared_lock::SharedLock;
use latlab_sys::{clock, policy, process, reclaim, signal};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// What `memory` maps, touches and unmaps at a time.
const PIECE: usize = 4 << 20;
/// What `tlb` touches and gives back at a time.
const SMALL_PIECE: usize = 64 << 10;
/// Where `inversion`, `inversion-pi` and `lock` have their lock; made before we are started.
const LOCK: &str = "/dev/shm/latlab-lock";
/// Where the activations of this process are written, as those of the module: start and end in ns of CLOCK_MONOTONIC.
const ACTIVATIONS: &str = "/dev/shm/latlab-fault-activations";
/// Activations that are written at most.
const ACTIVATIONS_MAX: usize = 100_000;
/// Below every measured task.
const LOW: u32 = 10;
/// Between the holder of the lock and the measured task.
const MIDDLE: u32 = 50;

/// Strikes until it is asked to stop.
pub fn run(args: &FaultArgs) -> anyhow::Result<Outcome> {
    let size = Duration::from_nanos(args.ns);
    let mut beat = Beat::new(args);
    match args.kind {
        FaultKind::Fifo => {
            become_fifo(args, args.priority)?;
            beat.strike(|| busy(size));
        }
        FaultKind::Throttle => {
            become_fifo(args, args.priority)?;
            beat.strike(|| until_throttled(size));
        }
        FaultKind::Inversion => invert(args, size / 10, size)?,
        FaultKind::InversionPi => invert(args, size, size * 5)?,
        FaultKind::Lock => {
            let lock = SharedLock::open(Path::new(LOCK)).context(LOCK)?;
            become_fifo(args, LOW)?;
            let tid = process::thread_id();
            beat.strike(|| {
                if lock.lock(tid) {
                    std::thread::sleep(size);
                    lock.unlock(tid);
                }
            });
        }
        FaultKind::PageFault => beat.strike(take_pages),
        FaultKind::Memory => {
            policy::bind(&[CpuId(args.cpu)]).context("binding to a CPU")?;
            beat.strike(|| {
                again_for(size, || {
                    // Without memory there is nothing to press with.
                    let _ = Piece::new(PIECE).map(|mut piece| piece.touch());
                });
            });
        }
        FaultKind::Compaction => {
            let mut scattered = Scattered::default();
            beat.strike(|| again_for(size, || scattered.compact()));
        }
        FaultKind::Tlb => shoot_down(args, size)?,
    }
    Ok(Outcome::Done)
}

fn become_fifo(args: &FaultArgs, priority: u32) -> anyhow::Result<()> {
    policy::bind(&[CpuId(args.cpu)]).context("binding to a CPU")?;
    policy::set(Policy::Fifo, priority, policy::Budget::default()).context("SCHED_FIFO")
}

/// From stroke to stroke, with a jitter whose random numbers are those of the module.
struct Beat {
    next: Instant,
    every: Duration,
    jitter: u32,
    random: u32,
    /// Where activations are written, and how many still may be.
    log: Option<(File, usize)>,
}

impl Beat {
    fn new(args: &FaultArgs) -> Self {
        Self::since(Instant::now(), args)
    }

    /// Beats that start together stay together.
    fn since(next: Instant, args: &FaultArgs) -> Self {
        let every = Duration::from_nanos(args.every_ns);
        let jitter = args.jitter.min(90);
        // Without the file nothing shows when it was active.
        let log = File::options().create(true).append(true).open(ACTIVATIONS).ok();
        let log = log.map(|file| (file, ACTIVATIONS_MAX));
        Self { next, every, jitter, random: args.seed.max(1), log }
    }

    fn note(&mut self, start: u64) {
        if let Some((file, left)) = self.log.as_mut().filter(|(_, left)| *left > 0) {
            *left -= 1;
            // One call: each is a part of what the fault takes.
            let line = format!("process {start} {}\n", clock::now().0);
            let _ = file.write_all(line.as_bytes());
        }
    }

    fn strike(&mut self, mut body: impl FnMut()) {
        while signal::stop_requested().is_none() {
            let period = self.period();
            self.next += period;
            let now = Instant::now();
            if now < self.next {
                std::thread::sleep(self.next - now);
            } else {
                self.next = now;
            }
            let start = clock::now().0;
            body();
            self.note(start);
        }
    }

    /// xorshift32: the same seed gives the same periods everywhere.
    fn period(&mut self) -> Duration {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        let share = f64::from(self.random) / f64::from(u32::MAX) * 2.0 - 1.0;
        self.every.mul_f64(1.0 + share * f64::from(self.jitter) / 100.0)
    }
}

/// Computes for so long on the clock.
fn busy(size: Duration) {
    again_for(size, std::hint::spin_loop);
}

fn again_for(size: Duration, mut body: impl FnMut()) {
    let start = Instant::now();
    while start.elapsed() < size {
        body();
    }
}

/// Computes until it was kept from the CPU for as long as a throttled task is: the share of real-time
/// tasks, half of a period of twice `size`, is used up once in two periods at the latest.
fn until_throttled(size: Duration) {
    let start = Instant::now();
    let mut last = start;
    while last - start < size * 4 {
        let now = Instant::now();
        if now - last > size / 2 {
            return;
        }
        last = now;
    }
}

/// On its CPU, pages are touched and given back; on each other one a thread of the same process runs at
/// the same time, so that the kernel has to interrupt it each time.
fn shoot_down(args: &FaultArgs, size: Duration) -> anyhow::Result<()> {
    let mut piece = Piece::new(SMALL_PIECE).context("memory")?;
    let start = Instant::now();
    std::thread::scope(|scope| {
        for cpu in policy::online()?.into_iter().filter(|cpu| cpu.0 != args.cpu) {
            scope.spawn(move || {
                let bound = policy::bind(&[cpu]).is_ok();
                if bound {
                    Beat::since(start, args).strike(|| busy(size));
                }
            });
        }
        policy::bind(&[CpuId(args.cpu)]).context("binding to a CPU")?;
        Beat::since(start, args).strike(|| {
            again_for(size, || {
                piece.touch();
                piece.give_back();
            });
        });
        Ok(())
    })
}

/// The holder takes the lock, and the middle task wants the CPU for `between` before the holder
/// can compute for `held` and give it back. Who waits for a plain lock waits for both; who
/// waits for an inheriting one lends the holder its priority and waits for `held`.
fn invert(args: &FaultArgs, held: Duration, between: Duration) -> anyhow::Result<()> {
    let lock = SharedLock::open(Path::new(LOCK)).context(LOCK)?;
    let (wake, woken) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let ready = become_fifo(args, MIDDLE);
            while ready.is_ok() && woken.recv().is_ok() {
                busy(between);
            }
        });
        become_fifo(args, LOW)?;
        let tid = process::thread_id();
        Beat::new(args).strike(|| {
            if lock.lock(tid) {
                let _ = wake.send(());
                compute(held);
                lock.unlock(tid);
            }
        });
        drop(wake);
        Ok(())
    })
}

/// Computes for so much time of this thread's own, however often it is preempted.
fn compute(size: Duration) {
    let start = clock::thread_cpu_ns();
    while u128::from(clock::thread_cpu_ns() - start) < size.as_nanos() {
        std::hint::spin_loop();
    }
}

/// Pages of every process's private memory go to swap: not ours, not the first process's,
/// and none that are locked.
fn take_pages() {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids.filter(|&pid| pid != 1 && pid != std::process::id()) {
        // Whoever ended meanwhile has no pages.
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let ranges: Vec<_> = maps.lines().filter_map(private_range).collect();
        let _ = reclaim::page_out(pid, &ranges);
    }
}

/// Start and length of a line of /proc/PID/maps, if it is writable memory of the process's own.
fn private_range(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let own = words.next()?.starts_with("rw-p");
    let (start, end) =
        (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    (own && end > start).then_some((start, end - start))
}

/// Memory with a hole behind each page, so that the kernel has something to move.
#[derive(Default)]
struct Scattered(Vec<Vec<u8>>);

impl Scattered {
    fn compact(&mut self) {
        const PAGES: usize = 512;
        const PAGE: usize = 4096;
        if self.0.len() >= 32 {
            self.0.clear();
        }
        let mut piece = vec![1u8; PAGES * PAGE];
        reclaim::give_back_every_other(&mut piece);
        self.0.push(piece);
        let _ = std::fs::write("/proc/sys/vm/compact_memory", "1");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writable_memory_of_its_own_is_found_in_the_maps() {
        let of = private_range;
        assert_eq!(of("00010000-00012000 rw-p 00000000 00:00 0 [heap]"), Some((0x10000, 0x2000)));
        assert_eq!(of("00010000-00012000 r-xp 00000000 00:02 9 /bin/latlab"), None);
        assert_eq!(of("00010000-00012000 rw-s 00000000 00:02 9 /dev/shm/x"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn a_seed_gives_the_same_periods_again() {
        let args = FaultArgs {
            kind: FaultKind::Memory,
            ns: 1,
            every_ns: 1_000_000,
            cpu: 0,
            priority: 1,
            jitter: 30,
            seed: 7,
        };
        let periods = |args: &FaultArgs| {
            let mut beat = Beat::new(args);
            (0..100).map(|_| beat.period()).collect::<Vec<_>>()
        };
        let first = periods(&args);
        assert_eq!(first, periods(&args));
        assert_ne!(first, periods(&FaultArgs { seed: 8, ..args }));
        assert!(first.iter().all(|p| (700..=1300).contains(&p.as_micros())));
    }
}
