//! Numbers to text, by hand: half of a report's time would otherwise go here.

const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
2021222324252627282930313233343536373839\
4041424344454647484950515253545556575859\
6061626364656667686970717273747576777879\
8081828384858687888990919293949596979899";

/// Appends the first `len` of these bytes: a copy of constant length and a cut are several times
/// cheaper than a copy whose length is only known when it is made.
#[inline(always)]
pub fn short<const N: usize>(out: &mut Vec<u8>, bytes: &[u8; N], len: usize) {
    let end = out.len() + len.min(N);
    out.extend_from_slice(bytes);
    out.truncate(end);
}

/// Appends an unsigned decimal number.
#[inline]
pub fn decimal(out: &mut Vec<u8>, value: u64) {
    let mut digits = [0u8; 16];
    if value < 10 {
        out.push(b'0' + value as u8);
    } else if value < 100 {
        digits[..2].copy_from_slice(pair(value));
        short(out, &digits, 2);
    } else if value < 10_000_000_000_000_000 {
        let len = value.ilog10() as usize + 1;
        digits_before(&mut digits, len, value);
        short(out, &digits, len);
    } else {
        let mut digits = [0u8; 20];
        let len = value.ilog10() as usize + 1;
        digits_before(&mut digits, len, value);
        out.extend_from_slice(&digits[..len]);
    }
}

/// The two digits of a number below 100.
#[inline(always)]
fn pair(value: u64) -> &'static [u8] {
    let at = (value % 100) as usize * 2;
    &PAIRS[at..at + 2]
}

/// Writes the digits of a number so that the last one stands before `end`; where they begin.
#[inline(always)]
fn digits_before<const N: usize>(digits: &mut [u8; N], end: usize, mut value: u64) -> usize {
    let mut at = end.min(N);
    while value >= 100 && at >= 2 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(pair(value));
        value /= 100;
    }
    if value >= 10 && at >= 2 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(pair(value));
    } else if at >= 1 {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
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
    let start = digits_before(&mut digits, 20, value).min(20 - width.min(20));
    out.extend_from_slice(&digits[start..]);
}

/// Appends a decimal number in at least `width` columns, with blanks before it.
#[inline]
pub fn padded(out: &mut Vec<u8>, value: u64, width: usize) {
    let mut digits = [b' '; 20];
    let start = digits_before(&mut digits, 20, value).min(20 - width.min(20));
    out.extend_from_slice(&digits[start..]);
}

/// Appends ` SSSSS.MMMMMM: `, the seconds in at least five columns.
#[inline]
pub fn seconds(out: &mut Vec<u8>, us: u64) {
    let (seconds, us) = (us / 1_000_000, us % 1_000_000);
    if seconds >= 1_000_000 {
        out.push(b' ');
        decimal(out, seconds);
        out.push(b'.');
        zero_padded(out, us, 6);
        out.extend_from_slice(b": ");
        return;
    }
    // Blanks before, so that the seconds end at the same place however many digits they have.
    let mut text = *b"       .      : ";
    let start = digits_before(&mut text, 7, seconds).min(2) - 1;
    for (at, part) in [(8, us / 10_000), (10, us / 100), (12, us)] {
        text[at..at + 2].copy_from_slice(pair(part));
    }
    if start == 0 {
        out.extend_from_slice(&text);
    } else {
        out.extend_from_slice(&text[1..]);
    }
}

/// Appends a hexadecimal number in at least `width` digits.
#[inline]
pub fn hex(out: &mut Vec<u8>, value: u64, width: usize, upper: bool) {
    let table: &[u8; 16] = if upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    let used = (64 - value.leading_zeros() as usize).div_ceil(4).max(1);
    let count = used.max(width.min(16));
    let mut digits = [0u8; 16];
    // The highest digit first; what is shifted out on the left is nothing.
    let mut rest = value.rotate_left(64 - 4 * count as u32);
    for digit in digits.iter_mut().take(count) {
        rest = rest.rotate_left(4);
        *digit = table[(rest & 15) as usize];
    }
    short(out, &digits, count);
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
        let powers = (0..20u32).flat_map(|e| [10u64.pow(e) - 1, 10u64.pow(e), 10u64.pow(e) + 1]);
        for v in powers.chain([12_345, u64::MAX, u64::from(u32::MAX), 1 << 63]) {
            let (s, us) = (v / 1_000_000, v % 1_000_000);
            assert_eq!(text(|o| seconds(o, v)), format!(" {s:5}.{us:06}: "));
            assert_eq!(text(|o| decimal(o, v)), v.to_string());
            assert_eq!(text(|o| hex(o, v, 0, false)), format!("{v:x}"));
            assert_eq!(text(|o| hex(o, v, 8, true)), format!("{v:08X}"));
            assert_eq!(text(|o| zero_padded(o, v, 6)), format!("{v:06}"));
            assert_eq!(text(|o| padded(o, v, 7)), format!("{v:7}"));
            assert_eq!(text(|o| signed(o, v as i64)), (v as i64).to_string());
        }
    }
}
