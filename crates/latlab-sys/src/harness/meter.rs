//! What measuring costs: the clock's step, a read of it, a turn of the timing loop.

use crate::clock;
use std::hint::black_box;

/// Now, ns of CLOCK_MONOTONIC.
#[inline]
pub fn now_ns() -> u64 {
    clock::now().0
}

/// What measuring costs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Smallest step seen between two reads, ns.
    pub step_ns: f64,
    /// Median time from one read to the next, ns.
    pub read_ns: f64,
    /// One turn of an empty loop, ns.
    pub loop_ns: f64,
}

/// Measures the meter: about a millisecond.
pub fn measure() -> Cost {
    let clock = clock::measure();
    let turns = 100_000u64;
    // The shortest of three: an interrupt makes a loop longer, nothing makes it shorter.
    let loop_ns = (0..3)
        .map(|_| {
            let start = now_ns();
            for i in 0..black_box(turns) {
                black_box(i);
            }
            (now_ns() - start) as f64 / turns as f64
        })
        .fold(f64::INFINITY, f64::min);
    Cost { step_ns: clock.step_ns as f64, read_ns: clock.read_ns as f64, loop_ns }
}

/// Calls before those that are timed: what a batch left cold.
const SENTINEL_WARM: u32 = 24;
/// Calls that are timed: some twenty microseconds on a workstation, a tenth of a millisecond on a board.
const SENTINEL_CALLS: u32 = 128;

/// The same short work each time, ns a call: in and out of the kernel, which a shared core, a slower
/// clock or somebody else's use of the caches makes slower with everything else.
pub fn sentinel() -> f64 {
    // SAFETY: getppid(2) has no arguments and cannot fail.
    let call = || black_box(unsafe { libc::getppid() });
    for _ in 0..SENTINEL_WARM {
        call();
    }
    let start = now_ns();
    for _ in 0..SENTINEL_CALLS {
        call();
    }
    (now_ns() - start) as f64 / f64::from(SENTINEL_CALLS)
}
