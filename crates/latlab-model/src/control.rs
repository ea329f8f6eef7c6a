//! Control characters in text that others wrote: names of tasks, markers, files.
//!
//! A terminal obeys more than text: OSC sequences set its title or the clipboard, others make it
//! answer as if the user had typed. Source: ECMA-48 (fifth edition), 5.4 control sequences; UAX #9
//! for the characters that reorder a line.

use std::borrow::Cow;
use std::io::{self, Write};

/// Whether a character is shown as another: controls but line feed and tab, and those that reorder.
fn is_control(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

/// Text without control characters: C0 ones become their pictures (`␛`), C1
/// ones and those that reorder text become `�`. Line feeds and tabs stay.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let picture = |c: char| match c {
        c if !is_control(c) => c,
        '\u{7f}' => '␡',
        c if (c as u32) < 0x20 => char::from_u32(0x2400 + c as u32).unwrap_or('�'),
        _ => '�',
    };
    Cow::Owned(text.chars().map(picture).collect())
}

/// The same for bytes of which some may be no UTF-8: those become `�`. Printable ASCII, nearly all
/// of a listing, is looked at many bytes at a time, and of the rest each line for itself.
pub fn clean_bytes(text: &[u8]) -> Cow<'_, [u8]> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len() + 64);
    for line in text.split_inclusive(|b| *b == b'\n') {
        if is_plain(line) {
            out.extend_from_slice(line);
        } else {
            out.extend_from_slice(clean(&String::from_utf8_lossy(line)).as_bytes());
        }
    }
    Cow::Owned(out)
}

/// Whether all is printable ASCII, line feeds and tabs.
fn is_plain(text: &[u8]) -> bool {
    let other = |b: u8| (b < b' ' && b != b'\n' && b != b'\t') || b >= 0x7f;
    text.chunks(1024).all(|c| !c.iter().fold(false, |any, b| any | other(*b)))
}

/// Writes text for a terminal through [`clean_bytes`]. Each write has to hold whole characters, as
/// those of `write!` do.
#[derive(Debug)]
pub struct Cleaned<W>(pub W);

impl<W: Write> Write for Cleaned<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.write_all(&clean_bytes(text))?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes JSON with the control characters escaped that JSON itself lets stand (RFC 8259, 7, wants
/// only those below U+0020 escaped). As [`Cleaned`], each write has to hold whole characters.
#[derive(Debug)]
pub struct JsonEscaped<W>(pub W);

impl<W: Write> Write for JsonEscaped<W> {
    fn write(&mut self, json: &[u8]) -> io::Result<usize> {
        let mut rest = json;
        // The first bytes of DEL, of C1 controls, and of U+200E to U+2069.
        while let Some(at) = rest.iter().position(|b| matches!(b, 0x7f | 0xc2 | 0xe2)) {
            self.0.write_all(&rest[..at])?;
            let (len, code) = match rest[at..] {
                [0x7f, ..] => (1, 0x7f),
                [0xc2, second, ..] => (2, u32::from(second)),
                [0xe2, second, third, ..] => {
                    (3, 0x2000 | u32::from(second & 0x3f) << 6 | u32::from(third & 0x3f))
                }
                _ => (1, 0),
            };
            match char::from_u32(code).filter(|c| is_control(*c) && code >= 0x7f) {
                Some(_) => write!(self.0, "\\u{code:04x}")?,
                None => self.0.write_all(&rest[at..at + len])?,
            }
            rest = &rest[at + len..];
        }
        self.0.write_all(rest)?;
        Ok(json.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIPBOARD: &str = "a\x1b]52;c;QUJD\x07b\tü½\n";

    #[test]
    fn a_terminal_is_sent_pictures_of_control_characters() {
        assert_eq!(clean(CLIPBOARD), "a␛]52;c;QUJD␇b\tü½\n");
        assert_eq!(clean("\r\x7f\u{9b}\u{202e}x"), "␍␡��x");
        for plain in ["", "a-1 [000] 1.5: x:\ty\n", "über ½ │"] {
            assert!(matches!(clean(plain), Cow::Borrowed(_)), "{plain}");
            assert_eq!(clean_bytes(plain.as_bytes()), plain.as_bytes());
        }
        // C1 as a single byte, as a terminal without UTF-8 reads it.
        assert_eq!(clean_bytes(b"a\x9b6nb"), "a�6nb".as_bytes());
        let long = [b"x".repeat(5000), CLIPBOARD.into()].concat();
        assert!(!clean_bytes(&long).contains(&0x1b));
        let mut out = Vec::new();
        write!(Cleaned(&mut out), "{}: {}", 7, CLIPBOARD).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "7: a␛]52;c;QUJD␇b\tü½\n");
    }

    #[test]
    fn json_keeps_its_value_and_has_no_control_character() {
        for text in [CLIPBOARD, "\u{7f}\u{9b}6n\u{a0}½\u{202e}\u{2069}\u{200f}…€\u{20ac}â", "plain"]
        {
            let mut out = Vec::new();
            serde_json::to_writer(JsonEscaped(&mut out), text).unwrap();
            let json = String::from_utf8(out).unwrap();
            assert!(!json.contains(is_control), "{json:?}");
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
    }
}
