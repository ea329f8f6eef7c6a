//! Tells an emulator which latency was just measured.
//!
//! `latlab vm path` counts the instructions between a timer's expiry and user space in QEMU, whose
//! plugins see instructions and addresses but no values. A latency is therefore told as addresses
//! of three stores, ten bits each, between two hint instructions that no processor gives a meaning.
//! On any other machine that is five instructions and three stores to a page that nobody reads,
//! after the measured interval.

use std::sync::atomic::AtomicU8;

/// Bits that one store tells.
const BITS: u32 = 10;
const PART: usize = 1 << BITS;
/// The largest latency that can be told, ns.
const MAX: u64 = (1 << (3 * BITS)) - 1;

/// A page: the low bits of its addresses are offsets in it.
#[repr(align(4096))]
struct Page([AtomicU8; 4 * PART]);

static PAGE: Page = Page([const { AtomicU8::new(0) }; 4 * PART]);

/// Offsets in the page that tell `ns`; what is more than 30 bits is told as the largest number.
fn offsets(ns: u64) -> [usize; 3] {
    let ns = ns.min(MAX) as usize;
    [0, 1, 2].map(|n| n * PART + (ns >> (n as u32 * BITS) & (PART - 1)))
}

/// Tells the latency of the wake-up whose clock reading was the last of this thread, ns.
#[inline]
pub fn tell(ns: u64) {
    let [a, b, c] = offsets(ns).map(|at| PAGE.0[at].as_ptr());
    // SAFETY: three stores of a byte into our own static, which has interior mutability, and two
    // hint instructions that are executed as no operation.
    #[cfg(target_arch = "arm")]
    unsafe {
        std::arch::asm!(
            "hint #0x51", "strb {z}, [{a}]", "strb {z}, [{b}]", "strb {z}, [{c}]", "hint #0x52",
            a = in(reg) a, b = in(reg) b, c = in(reg) c, z = in(reg) 0,
            options(nostack, preserves_flags)
        );
    }
    // SAFETY: as above; the hints are the long form of `nop` with a displacement of our own.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            ".byte 0x0f,0x1f,0x84,0x00,0x51,0x00,0x4c,0x4c",
            "mov byte ptr [{a}], 0", "mov byte ptr [{b}], 0", "mov byte ptr [{c}], 0",
            ".byte 0x0f,0x1f,0x84,0x00,0x52,0x00,0x4c,0x4c",
            a = in(reg) a, b = in(reg) b, c = in(reg) c,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(not(any(target_arch = "arm", target_arch = "x86_64")))]
    let _ = (a, b, c);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_the_number() {
        for ns in [0, 1, 1023, 1024, 4508, 1_048_576, 987_654_321, MAX] {
            let offsets = offsets(ns);
            let read = offsets.iter().enumerate().map(|(n, at)| {
                assert_eq!(at / PART, n);
                ((at % PART) as u64) << (n as u32 * BITS)
            });
            assert_eq!(read.sum::<u64>(), ns);
        }
        assert_eq!(offsets(u64::MAX), offsets(MAX));
        tell(4508);
    }
}
