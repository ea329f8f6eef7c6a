//! Numbers to text, by hand: half of a report's time would otherwise go here.

const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
2021222324252627282930313233343536373839\
4041424344454647484950515253545556575859\
6061626364656667686970717273747576777879\
8081828384858687888990919293949596979899";

/// Appends an unsigned decimal number.
#[inline]
pub fn decimal(out: &mut Vec<u8>, value: u64) {
    if value < 10 {
        out.push(b'0' + value as u8);
        return;
    }
    let mut digits = [0u8; 20];
    let start = digits_into(&mut digits, value);
    out.extend_from_slice(&digits[start..]);
}

/// Writes the digits at the end of `digits`; where they begin.
#[inline]
fn digits_into(digits: &mut [u8; 20], mut value: u64) -> usize {
    let mut at = 20;
    while value >= 100 {
        let pair = (value % 100) as usize * 2;
        value /= 100;
        at -= 2;
        digits[at] = PAIRS[pair];
        digits[at + 1] = PAIRS[pair + 1];
    }
    if value >= 10 {
        let pair = value as usize * 2;
        at -= 2;
        digits[at] = PAIRS[pair];
        digits[at + 1] = PAIRS[pair + 1];
    } else {
        at -= 1;
        digits[at] = b'0' + value as u8;
    }
    at
}

/// Appends a signed decimal number.
#[inline]
pub fn signed(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    decimal(out, value.unsigned_abs());
}

/// Appends a decimal number in at least `width` digits, with zeros before it.
#[inline]
pub fn zero_padded(out: &mut Vec<u8>, value: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let start = digits_into(&mut digits, value).min(20 - width.min(20));
    out.extend_from_slice(&digits[start..]);
}

/// Appends a decimal number in at least `width` columns, with blanks before it.
#[inline]
pub fn padded(out: &mut Vec<u8>, value: u64, width: usize) {
    let mut digits = [b' '; 20];
    let start = digits_into(&mut digits, value).min(20 - width.min(20));
    out.extend_from_slice(&digits[start..]);
}

/// Appends a hexadecimal number in at least `width` digits.
#[inline]
pub fn hex(out: &mut Vec<u8>, value: u64, width: usize, upper: bool) {
    let table: &[u8; 16] = if upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    let used = (64 - value.leading_zeros() as usize).div_ceil(4).max(1);
    let count = used.max(width.min(16));
    let mut digits = [b'0'; 16];
    let mut rest = value;
    let mut at = 16;
    while rest != 0 {
        at -= 1;
        digits[at] = table[(rest & 15) as usize];
        rest >>= 4;
    }
    out.extend_from_slice(&digits[16 - count..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(f: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        f(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_same_text_as_the_standard_library() {
        for v in [0, 9, 10, 99, 100, 12_345, 999_999, u64::MAX, u64::from(u32::MAX), 1 << 63] {
            assert_eq!(text(|o| decimal(o, v)), v.to_string());
            assert_eq!(text(|o| hex(o, v, 0, false)), format!("{v:x}"));
            assert_eq!(text(|o| hex(o, v, 8, true)), format!("{v:08X}"));
            assert_eq!(text(|o| zero_padded(o, v, 6)), format!("{v:06}"));
            assert_eq!(text(|o| padded(o, v, 7)), format!("{v:7}"));
            assert_eq!(text(|o| signed(o, v as i64)), (v as i64).to_string());
        }
    }
}
