//! Base64 (RFC 4648) without padding: bytes that survive a console.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The digits of some bytes.
pub fn encode(bytes: &[u8]) -> impl Iterator<Item = u8> + '_ {
    bytes.chunks(3).flat_map(|group| {
        let byte = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        (0..=group.len()).map(move |i| ALPHABET[(bits >> (18 - 6 * i)) as usize & 63])
    })
}

/// Whether a byte is a digit.
pub fn is_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/'
}

/// The bytes of digits; `None` where one is none.
pub fn decode(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |c: &u8| ALPHABET.iter().position(|a| a == c).and_then(|v| u32::try_from(v).ok());
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let mut bits = 0;
        for digit in group {
            bits = bits << 6 | value(digit)?;
        }
        bits <<= 6 * (4 - group.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_survives() {
        for n in 0..10u8 {
            let bytes: Vec<u8> = (0..n).map(|b| b.wrapping_mul(97)).collect();
            assert_eq!(decode(&encode(&bytes).collect::<Vec<u8>>()), Some(bytes));
        }
        assert_eq!(decode(b"A*"), None);
        assert_eq!(encode(b"foobar").collect::<Vec<u8>>(), b"Zm9vYmFy", "RFC 4648, section 10");
    }
}
