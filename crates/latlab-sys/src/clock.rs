//! Clocks: reading `CLOCK_MONOTONIC`, and measuring what a reading costs and resolves.

use latlab_model::units::MonotonicNs;
use rustix::time::{ClockId, clock_getres, clock_gettime};
use std::hint::black_box;

/// Reads enough for a stable median, and few enough for a board: about a millisecond on a slow one.
const BATCHES: usize = 15;
const BATCH: u64 = 64;
/// When the clock stands still this long, its step is a timer tick; then ticks are counted.
const READS_MAX: u64 = 2_000_000;

/// Now, `CLOCK_MONOTONIC`.
#[inline]
pub fn now() -> MonotonicNs {
    let t = clock_gettime(ClockId::Monotonic);
    MonotonicNs((t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64))
}

/// CPU time of the calling thread, ns.
pub fn thread_cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// `clock_getres(CLOCK_MONOTONIC)` in ns. The kernel says 1 when timers have
/// high resolution, and the length of its tick when they have not
/// (`hrtimer_resolution`).
pub fn resolution_ns() -> u64 {
    let t = clock_getres(ClockId::Monotonic);
    (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64)
}

/// What reading a clock costs and resolves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// Smallest difference seen between two consecutive reads that differed, ns. Never
    /// smaller than what a read costs unless the clock's own step is.
    pub step_ns: u64,
    /// Median cost of a read, ns.
    pub read_ns: u64,
}

/// Measures `CLOCK_MONOTONIC`.
pub fn measure() -> Meter {
    measure_with(|| now().0)
}

/// Measures any clock that gives nanoseconds.
fn measure_with(mut read: impl FnMut() -> u64) -> Meter {
    let mut costs = [0u64; BATCHES];
    let mut step = u64::MAX;
    for cost in &mut costs {
        let first = read();
        let mut last = first;
        for _ in 0..BATCH {
            let t = black_box(read());
            if t > last {
                step = step.min(t - last);
            }
            last = t;
        }
        *cost = last.saturating_sub(first);
    }
    costs.sort_unstable();
    let median = costs[BATCHES / 2];
    if step.saturating_mul(8) <= median {
        return Meter { step_ns: step, read_ns: median.div_ceil(BATCH) };
    }
    measure_ticking(read)
}

/// A clock that stands still between ticks: from one tick to the next, counting reads.
fn measure_ticking(mut read: impl FnMut() -> u64) -> Meter {
    let mut edge = |from: u64| {
        (1..READS_MAX).find_map(|reads| {
            let t = black_box(read());
            (t > from).then_some((t, reads))
        })
    };
    let Some((first, _)) = edge(0) else { return Meter::default() };
    let Some((start, _)) = edge(first) else { return Meter::default() };
    let Some((end, reads)) = edge(start) else { return Meter::default() };
    Meter { step_ns: end - start, read_ns: (end - start) / reads }
}

/// Frequency in Hz of the counter that user space can read (TSC, the ARM generic timer),
/// where the processor says it. Cortex-A8 has no such counter.
pub fn counter_hz() -> Option<u64> {
    counter::hz()
}

#[cfg(target_arch = "x86_64")]
mod counter {
    use std::arch::x86_64::__cpuid;

    /// From the hypervisor's timing leaf, or the crystal's (Intel SDM, CPUID leaves 15H and 16H).
    pub fn hz() -> Option<u64> {
        let hypervisor = __cpuid(1).ecx >> 31 == 1;
        if hypervisor {
            let top = __cpuid(0x4000_0000).eax;
            if (0x4000_0010..0x4000_ffff).contains(&top) {
                let khz = u64::from(__cpuid(0x4000_0010).eax);
                if khz > 0 {
                    return Some(khz * 1000);
                }
            }
        }
        let top = __cpuid(0).eax;
        if top >= 0x15 {
            let leaf = __cpuid(0x15);
            if leaf.eax > 0 && leaf.ebx > 0 && leaf.ecx > 0 {
                return Some(u64::from(leaf.ecx) * u64::from(leaf.ebx) / u64::from(leaf.eax));
            }
        }
        measured()
    }

    /// The TSC against CLOCK_MONOTONIC over 10 ms, to about 1 part in 10,000.
    fn measured() -> Option<u64> {
        // SAFETY: RDTSC reads a counter; Linux never disables it for user space unless
        // asked to by prctl(PR_SET_TSC), which latlab does not do.
        let tsc = || unsafe { std::arch::x86_64::_rdtsc() };
        let (t0, c0) = (super::now(), tsc());
        while super::now().since(t0).0 < 10_000_000 {
            std::hint::spin_loop();
        }
        let (t1, c1) = (super::now(), tsc());
        let ns = t1.since(t0).0;
        let hz = u128::from(c1.wrapping_sub(c0)) * 1_000_000_000 / u128::from(ns.max(1));
        u64::try_from(hz).ok()
    }
}

#[cfg(target_arch = "aarch64")]
mod counter {
    /// `CNTFRQ_EL0` (Arm ARM, D13.8): readable from user space on Linux.
    pub fn hz() -> Option<u64> {
        let hz: u64;
        // SAFETY: reading CNTFRQ_EL0 has no side effect, and Linux on arm64 lets EL0 read it.
        unsafe {
            std::arch::asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack, pure));
        }
        (hz > 0).then_some(hz)
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod counter {
    /// Reading it where it does not exist is an illegal instruction; the device tree is asked instead.
    pub fn hz() -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fine_clock_has_a_fine_step() {
        let mut t = 0;
        let m = measure_with(|| {
            t += 25;
            t
        });
        assert_eq!(m, Meter { step_ns: 25, read_ns: 25 });
    }

    #[test]
    fn a_clock_that_ticks_is_measured_from_tick_to_tick() {
        // 4 ms ticks, 20,000 reads each: 200 ns a read.
        let mut reads = 0u64;
        let m = measure_with(|| {
            reads += 1;
            reads / 20_000 * 4_000_000
        });
        assert_eq!(m, Meter { step_ns: 4_000_000, read_ns: 200 });
    }

    #[test]
    fn a_clock_that_stands_still_ends_the_measurement() {
        let mut reads = 0u64;
        assert_eq!(
            measure_ticking(|| {
                reads += 1;
                7
            }),
            Meter::default()
        );
        assert!(reads < 2 * READS_MAX + 10);
    }

    #[test]
    fn this_machine_has_a_clock() {
        let m = measure();
        assert!(m.step_ns > 0 && m.read_ns > 0, "{m:?}");
        assert!(resolution_ns() > 0);
    }
}
