//! Loops with known operations, and what each operation costs in a chain: what the execution time model predicts, and
//! what is measured beside it.
//!
//! Operations that must be counted exactly are written in assembly; no compiler joins or removes them. Chains of
//! arithmetic are those of [`crate::probe::arithmetic`].

use super::area::Area;
use super::{chase, timed};
use crate::clock;
use crate::probe::arithmetic;
use latlab_model::cache::detail::Pages;
use latlab_model::cache::loops::{CHASE_UNROLLED, Loop, Operation};
use latlab_model::cache::request::Limits;
use std::hint::black_box;
use std::io;

/// Operations in one turn of a chain.
const UNROLLED: usize = arithmetic::UNROLLED as usize;
/// Passes over the array of a loop, at the least; the shortest is taken.
const PASSES: usize = 5;
/// Time for one loop, ns.
const LOOP_NS: u64 = 60_000_000;

/// Cost of each operation but the load, ns; none on a processor whose instructions are not written down.
pub fn costs(batch_ns: u64) -> Vec<(Operation, f64)> {
    let chains = [
        (Operation::IntAdd, arithmetic::isa::word_add),
        (Operation::IntMul, arithmetic::isa::word_mul),
        (Operation::FloatAdd, arithmetic::isa::double_add),
        (Operation::FloatMul, arithmetic::isa::double_mul),
    ];
    let chains: Vec<(Operation, fn(u64))> =
        chains.into_iter().filter_map(|(operation, kernel)| Some((operation, kernel?.0))).collect();
    if chains.is_empty() {
        return Vec::new();
    }
    let each = |kernel: fn(u64)| {
        let turn = |n: usize| {
            let turns = n.div_ceil(UNROLLED).max(1);
            kernel(turns as u64);
            turns * UNROLLED
        };
        timed(batch_ns, UNROLLED, turn)
    };
    let empty = |n: usize| {
        (0..n).for_each(|i| {
            black_box(i);
        });
        n
    };
    let all = [(Operation::Store, isa::store as fn(u64))].into_iter().chain(chains);
    let mut all: Vec<(Operation, f64)> = all.map(|(o, kernel)| (o, each(kernel))).collect();
    all.push((Operation::Iteration, timed(batch_ns, UNROLLED, empty)));
    all
}

/// Times one step of each loop, ns; those that a processor or the memory does not allow are left out.
///
/// # Errors
/// When there is not so much memory.
pub fn times(
    loops: &[Loop],
    limits: &Limits,
    pages: Pages,
    seed: u64,
    stop: &dyn Fn() -> bool,
) -> io::Result<Vec<(Loop, f64)>> {
    let bytes = loops.iter().map(Loop::bytes).max().unwrap_or(0) as usize;
    let huge = limits.huge_page_bytes.max(1) as usize;
    let mut area = Area::new(bytes.max(4096), pages, huge)?;
    let mut found = Vec::new();
    for of in loops {
        if stop() {
            break;
        }
        found.extend(time(&mut area, of, limits, pages, seed).map(|ns| (*of, ns)));
    }
    Ok(found)
}

fn time(area: &mut Area, of: &Loop, limits: &Limits, pages: Pages, seed: u64) -> Option<f64> {
    match *of {
        Loop::PointerChase { .. } => {
            let cycles = of.request(pages, seed)?.cycles(limits);
            let mut ring = chase::link(area, cycles.first()?)?;
            let steps = ring.length();
            Some(timed(LOOP_NS / 20, steps, |n| {
                let turns = n.div_ceil(CHASE_UNROLLED as usize).max(1);
                // SAFETY: `chase` follows the words of the ring and changes none.
                unsafe { ring.run_by(turns, isa::chase) };
                turns * CHASE_UNROLLED as usize
            }))
        }
        Loop::Polynomial { bytes } => {
            let words = &mut area.doubles()[..bytes as usize / 8];
            words.fill(1.0);
            let pass = |words: &mut [f64]| {
                let c = black_box(0.5);
                black_box(words.iter().fold(0.0, |x, w| x * c + w));
            };
            Some(shortest(words, bytes as usize / 8, pass))
        }
        Loop::Multiply { bytes, stride } => {
            let words = &mut area.ints()[..bytes as usize / 4];
            let step = (stride as usize / size_of::<u32>()).max(1);
            let steps = words.len().div_ceil(step);
            Some(shortest(words, steps, |words| super::multiplied(words, step)))
        }
        Loop::Matrix { order } => {
            let n = order as usize;
            let words = &mut area.doubles()[..3 * n * n];
            words.fill(1.0);
            let mut row = 0;
            let one = |words: &mut [f64]| {
                let (a, rest) = words.split_at_mut(n * n);
                let (b, c) = rest.split_at_mut(n * n);
                let (a, c) = (&a[row * n..][..n], &mut c[row * n..][..n]);
                for (j, c) in c.iter_mut().enumerate() {
                    // One product after the other, as the three loops are written.
                    *c = black_box(
                        (a.iter().zip(b[j..].iter().step_by(n))).fold(0.0, |s, (a, b)| s + a * b),
                    );
                }
                row = (row + 1) % n;
            };
            Some(shortest(words, n * n, one))
        }
    }
}

/// Shortest pass over an array that was passed over before, ns a step.
fn shortest<T>(words: &mut [T], steps: usize, mut pass: impl FnMut(&mut [T])) -> f64 {
    let begun = clock::now().0;
    pass(words);
    let (mut least, mut passes) = (f64::INFINITY, 0);
    while passes < PASSES || clock::now().0 - begun < LOOP_NS {
        let start = clock::now().0;
        pass(words);
        least = least.min((clock::now().0 - start) as f64);
        passes += 1;
    }
    least / steps.max(1) as f64
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm"))]
mod isa {
    use latlab_model::cache::loops::{CHASE, CHASE_UNROLLED};
    use std::arch::asm;
    use std::hint::black_box;

    const _: () = assert!(CHASE.0 == 8 && CHASE.1 == 4 && CHASE_UNROLLED == 8, "as in `chase`");

    /// An operation on a word in `{0}` and another operand, a load of `{0}` from where it points, and a store there.
    #[cfg(target_arch = "x86_64")]
    macro_rules! text {
        (add $y:literal) => {
            concat!("add {0}, ", $y, "\n")
        };
        (mul $y:literal) => {
            concat!("imul {0}, ", $y, "\n")
        };
        (load) => {
            "mov {0}, [{0}]\n"
        };
        (store) => {
            "mov [{0}], {1}\n"
        };
    }
    #[cfg(not(target_arch = "x86_64"))]
    macro_rules! text {
        (add $y:literal) => {
            concat!("add {0}, {0}, ", $y, "\n")
        };
        (mul $y:literal) => {
            concat!("mul {0}, {0}, ", $y, "\n")
        };
        (load) => {
            "ldr {0}, [{0}]\n"
        };
        (store) => {
            "str {1}, [{0}]\n"
        };
    }

    /// Written out: the compiler counts lines, to place constants within reach of the code.
    macro_rules! eight {
        ($text:expr) => {
            concat!($text, $text, $text, $text, $text, $text, $text, $text)
        };
    }
    /// One step of `chase`: a load, eight additions, four multiplications.
    macro_rules! step {
        () => {
            concat!(
                text!(load),
                eight!(text!(add "{1}")),
                text!(mul "{2}"),
                text!(mul "{2}"),
                text!(mul "{2}"),
                text!(mul "{2}"),
            )
        };
    }

    /// A turn is 64 stores.
    pub(super) fn store(turns: u64) {
        let mut word = 0u64;
        let at: *mut usize = (&raw mut word).cast();
        for _ in 0..turns {
            // SAFETY: stores into a word of this function, which nothing else uses meanwhile.
            unsafe {
                asm!(
                    eight!(text!(store)), eight!(text!(store)), eight!(text!(store)), eight!(text!(store)),
                    eight!(text!(store)), eight!(text!(store)), eight!(text!(store)), eight!(text!(store)),
                    in(reg) at, in(reg) 0usize, options(nostack),
                );
            }
        }
        black_box(word);
    }

    /// Follows `turns` × 8 addresses from `at`, each after eight additions of nought and four multiplications by one.
    ///
    /// # Safety
    /// `at` and every word that is reached from it point to a readable, aligned word.
    pub(super) unsafe fn chase(mut at: usize, turns: usize) -> usize {
        let (nought, one) = (0usize, 1usize);
        for _ in 0..turns {
            // SAFETY: the caller's promise; nothing is written.
            unsafe {
                asm!(
                    step!(), step!(), step!(), step!(), step!(), step!(), step!(), step!(),
                    inout(reg) at, in(reg) nought, in(reg) one, options(readonly, nostack),
                );
            }
        }
        at
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm")))]
mod isa {
    pub(super) fn store(_: u64) {}

    pub(super) unsafe fn chase(at: usize, _: usize) -> usize {
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_takes_time_and_each_loop_a_step() {
        let costs = costs(10_000);
        assert_eq!(costs.len(), 6, "{costs:?}");
        assert!(costs.iter().all(|c| c.1 > 0.0), "{costs:?}");
        let limits = Limits { page_bytes: 4096, base_bytes: 1 << 20, ..Limits::default() };
        let all = [
            Loop::PointerChase { bytes: 16 << 10, stride: 64 },
            Loop::Polynomial { bytes: 16 << 10 },
            Loop::Multiply { bytes: 16 << 10, stride: 64 },
            Loop::Matrix { order: 24 },
        ];
        let times = times(&all, &limits, Pages::Base, 1, &|| false).unwrap();
        assert_eq!(times.iter().map(|t| t.0).collect::<Vec<_>>(), all);
        assert!(times.iter().all(|t| t.1 > 0.0), "{times:?}");
        // Eight additions, four multiplications and a load, one after the other.
        let of = |o| costs.iter().find(|c| c.0 == o).unwrap().1;
        let chain = 8.0 * of(Operation::IntAdd) + 4.0 * of(Operation::IntMul);
        assert!(times[0].1 > chain * 0.5, "{times:?}, {costs:?}");
        assert!(super::times(&all, &limits, Pages::Base, 1, &|| true).unwrap().is_empty());
    }
}
