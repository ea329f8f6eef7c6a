//! Sizes with the suffixes K, M and G, powers of 1024.

/// `64`, `4K`, `16M`, `1G` as a number; upper or lower case. `None` for anything else, and above
/// `u64::MAX`.
pub fn parse(text: &str) -> Option<u64> {
    let (digits, shift) = match text.chars().last()? {
        'k' | 'K' => (&text[..text.len() - 1], 10),
        'm' | 'M' => (&text[..text.len() - 1], 20),
        'g' | 'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn suffixes_are_powers_of_1024() {
        assert_eq!(parse("64"), Some(64));
        assert_eq!(parse("4k"), Some(4096));
        assert_eq!(parse("2M"), Some(2 << 20));
        assert_eq!(parse("1G"), Some(1 << 30));
        for wrong in ["", "K", "x", "1T", "-1", "99999999999999999999", "99999999999G"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
