//! Output of a target on its way to our terminal.
//!
//! A target is not trusted, and a terminal obeys more than text: OSC sequences set its title or the
//! clipboard, others make it answer as if the user had typed. What latlab itself prints passes:
//! text, line control, colours, and the cursor movements of its displays. The rest is made visible. A byte from 0x80
//! passes only in a whole character of UTF-8: alone it is a control character to a terminal without UTF-8.
//! Source: ECMA-48 (fifth edition), 5.4 control sequences; XTerm Control Sequences.

use latlab_model::control::clean;
use std::borrow::Cow;

/// Longest control sequence that is waited for.
const SEQUENCE_MAX: usize = 32;

/// Filters a stream that arrives in pieces.
#[derive(Debug, Default)]
pub struct Filter {
    /// A control sequence or character of which the end has not come.
    begun: Vec<u8>,
}

impl Filter {
    /// The part of `bytes`, and of what was held back before, that a terminal may be sent.
    pub fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            self.begun.push(byte);
            match judge(&self.begun) {
                Judgement::More => {}
                Judgement::Pass => out.append(&mut self.begun),
                Judgement::Refuse => {
                    let refused = std::mem::take(&mut self.begun);
                    show(&refused, &mut out);
                }
            }
        }
        out
    }
}

enum Judgement {
    Pass,
    Refuse,
    More,
}

fn judge(bytes: &[u8]) -> Judgement {
    match bytes {
        [b'\n' | b'\r' | b'\t' | b' '..=0x7e] => Judgement::Pass,
        [0x1b] | [0x1b, b'['] => Judgement::More,
        [0x80..=0xff, ..] => match std::str::from_utf8(bytes) {
            Ok(text) if matches!(clean(text), Cow::Borrowed(_)) => Judgement::Pass,
            Err(error) if error.error_len().is_none() => Judgement::More,
            // A control character; or what does not continue the character, and may be an escape.
            _ => Judgement::Refuse,
        },
        [0x1b, b'[', parameters @ .., last] => {
            let plain = parameters.iter().all(|b| b.is_ascii_digit() || *b == b';');
            match last {
                b'm' | b'A' | b'H' | b'J' | b'K' if plain => Judgement::Pass,
                b'0'..=b'9' | b';' if bytes.len() < SEQUENCE_MAX => Judgement::More,
                _ => Judgement::Refuse,
            }
        }
        _ => Judgement::Refuse,
    }
}

/// Control characters as their pictures (U+2400 to U+2421), and what is no character as U+FFFD.
fn show(bytes: &[u8], out: &mut Vec<u8>) {
    let ascii = bytes.iter().position(u8::is_ascii).unwrap_or(bytes.len());
    if ascii > 0 {
        out.extend("\u{fffd}".as_bytes());
    }
    for byte in &bytes[ascii..] {
        match byte {
            b'\n' | b'\r' | b'\t' | b' '..=0x7e => out.push(*byte),
            0x7f => out.extend("\u{2421}".as_bytes()),
            control @ 0..=0x1f => {
                let picture = char::from_u32(0x2400 + u32::from(*control)).unwrap_or('?');
                out.extend(picture.encode_utf8(&mut [0; 4]).as_bytes());
            }
            0x80.. => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(text: &[u8], piece: usize) -> String {
        let mut filter = Filter::default();
        let out: Vec<u8> = text.chunks(piece).flat_map(|c| filter.pass(c)).collect();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_latlab_prints_passes_in_any_pieces() {
        let ours = "\r\x1b[K12 µs \x1b[31mred\x1b[0m\n\x1b[3A\x1b[H\x1b[J\tüber ½\n";
        for piece in 1..=ours.len() {
            assert_eq!(passed(ours.as_bytes(), piece), ours);
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown_instead() {
        let title = b"\x1b]0;title\x07ok\n";
        let clipboard = b"\x1b]52;c;QUJD\x07";
        for piece in 1..=4 {
            assert_eq!(passed(title, piece), "␛]0;title␇ok\n");
            assert_eq!(passed(clipboard, piece), "␛]52;c;QUJD␇");
            assert_eq!(passed(b"\x1b[6n\x1bc\x1b[?1049h", piece), "␛[6n␛c␛[?1049h");
            // CSI and OSC as single characters of C1.
            assert_eq!(passed("\u{9b}6n\u{9d}0;x".as_bytes(), piece), "�6n�0;x");
            // The same as single bytes, and characters that reorder a line.
            assert_eq!(passed(b"a\x9b6n\x9d0;x\xe2\x82\x9b2J\xff", piece), "a�6n�0;xₛ2J�");
            assert_eq!(passed("\u{202e}x€😀\n".as_bytes(), piece), "�x€😀\n");
        }
        // The first half of a character does not hide what follows it.
        for piece in 1..=3 {
            assert_eq!(passed(b"\xc2\x1b]0;x\x07\xc2\x07\xc2a", piece), "�␛]0;x␇�␇�a");
            assert_eq!(passed(b"\xf0\x9f\x1b[6n\xe2\x80\x9b", piece), "�␛[6n\u{201b}");
        }
        let endless = [b"\x1b[".as_slice(), &[b'1'; 100]].concat();
        assert!(passed(&endless, 1).starts_with("␛[111"));
    }
}
