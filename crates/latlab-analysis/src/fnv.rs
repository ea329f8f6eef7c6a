//! Checksums that tell texts apart: FNV-1a of 64 bits (draft-eastlake-fnv).

/// The checksum of some bytes.
pub(crate) fn fnv(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes
        .into_iter()
        .fold(0xcbf2_9ce4_8422_2325, |h, byte| (h ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// That of texts, each with an end.
pub(crate) fn of_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> u64 {
    fnv(texts.into_iter().flat_map(|text| text.bytes().chain([0])))
}

/// The first of its 16 hexadecimal digits.
pub(crate) fn digits(sum: u64, count: u32) -> String {
    let digit = |i: u32| char::from_digit((sum >> (60 - 4 * i)) as u32 & 15, 16);
    (0..count.min(16)).filter_map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vectors of the draft.
    #[test]
    fn known_texts_have_known_checksums() {
        assert_eq!(fnv([]), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv(*b"foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(digits(fnv(*b"foobar"), 8), "85944171");
    }
}
