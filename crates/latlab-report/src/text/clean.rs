//! Text from a run without control characters.

use std::borrow::Cow;

/// Text without control characters: C0 ones become their pictures (`␛`), C1
/// ones and those that reorder text become `�`. Line feeds and tabs stay.
pub fn clean(text: &str) -> Cow<'_, str> {
    let bad = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
    };
    if !text.contains(bad) {
        return Cow::Borrowed(text);
    }
    let picture = |c: char| match c {
        c if !bad(c) => c,
        '\u{7f}' => '␡',
        c if (c as u32) < 0x20 => char::from_u32(0x2400 + c as u32).unwrap_or('�'),
        _ => '�',
    };
    Cow::Owned(text.chars().map(picture).collect())
}
