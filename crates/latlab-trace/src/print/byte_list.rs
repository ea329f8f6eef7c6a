//! Bytes as hexadecimal, as arrays of numbers and as bitmaps.

use super::number;
use crate::Endian;

pub(crate) fn hex_bytes(out: &mut Vec<u8>, bytes: &[u8], between: &str) {
    for (n, b) in bytes.iter().enumerate() {
        if n > 0 {
            out.extend_from_slice(between.as_bytes());
        }
        number::hex(out, u64::from(*b), 2, false);
    }
}

/// `{0x1,0x2}`, as the kernel prints it.
pub(crate) fn array(
    out: &mut Vec<u8>,
    bytes: &[u8],
    count: Option<usize>,
    width: usize,
    endian: Endian,
    decimal: bool,
) {
    let width = if width.is_power_of_two() { width } else { 1 };
    out.push(b'{');
    for (n, b) in bytes.chunks_exact(width).take(count.unwrap_or(usize::MAX)).enumerate() {
        if n > 0 {
            out.push(b',');
        }
        let v = endian.uint(b, width).unwrap_or(0);
        if decimal {
            number::decimal(out, v);
        } else {
            out.extend_from_slice(b"0x");
            number::hex(out, v, 0, false);
        }
    }
    out.push(b'}');
}

/// Groups of 32 bits, the highest first.
pub(crate) fn bitmask(out: &mut Vec<u8>, bytes: &[u8], endian: Endian) {
    // Masks are arrays of longs; the word order within them matters on big-endian machines only.
    let mut words: Vec<u32> =
        bytes.chunks_exact(4).map(|b| endian.uint(b, 4).unwrap_or(0) as u32).collect();
    if endian == Endian::Big {
        words.chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
    }
    for (n, w) in words.iter().rev().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        number::hex(out, u64::from(*w), 8, false);
    }
}
