//! Frames of [`crate::frame`] as lines of a kernel's log, for machines on which nothing else gets out.
//!
//! ```text
//! [   12.345678] latlab# H0xMdwMAAAAA…     up to 600 bytes of the stream in base64 (RFC 4648), no padding
//! ```
//! The kernel prints its log without interrupts, so this works before and
//! without any driver. There is no way back.

use crate::base64;
use crate::frame::{Decoder, Item};

const MARK: &[u8] = b"latlab# ";
/// A record of /dev/kmsg holds less than 1 KiB.
const PIECE: usize = 600;
/// A longer line is handed on in parts, as text: a console may never end one.
const LINE_MAX: usize = 16 << 10;

/// The lines for a frame.
pub fn lines(frame: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    frame.chunks(PIECE).map(|piece| {
        let mut line = MARK.to_vec();
        line.extend(base64::encode(piece));
        line
    })
}

/// Finds the lines in a console's output that arrives in pieces.
#[derive(Debug, Default)]
pub struct LogDecoder {
    line: Vec<u8>,
    frames: Decoder,
}

impl LogDecoder {
    /// Adds bytes and returns what can be told from them.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Item> {
        let mut items = Vec::new();
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            self.line.extend_from_slice(piece);
            if self.line.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                match decode(&line) {
                    Some(bytes) => items.extend(self.frames.push(&bytes)),
                    None => items.push(Item::Text(line)),
                }
            } else if self.line.len() > LINE_MAX {
                items.push(Item::Text(std::mem::take(&mut self.line)));
            }
        }
        items
    }
}

/// The bytes of a line of ours.
fn decode(line: &[u8]) -> Option<Vec<u8>> {
    let at = line.windows(MARK.len()).position(|w| w == MARK)?;
    base64::decode(line[at + MARK.len()..].trim_ascii_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Message;

    #[test]
    fn frames_survive_a_log_with_other_lines_in_any_cut() {
        let sent = [Message::Hello("6.1".into()), Message::Stdout(vec![7; 2000]), Message::Exit(3)];
        let mut log = b"[    0.0] Booting Linux\r\n".to_vec();
        for message in &sent {
            for line in lines(&message.encode()) {
                log.extend(b"[    1.234567] ");
                log.extend(line);
                log.extend(b"\r\n[    1.3] another line\r\n");
            }
        }
        for cut in [1, 5, 100, log.len()] {
            let mut decoder = LogDecoder::default();
            let items: Vec<Item> = log.chunks(cut).flat_map(|c| decoder.push(c)).collect();
            let got: Vec<&Message> = items
                .iter()
                .filter_map(|i| if let Item::Message(m) = i { Some(m) } else { None })
                .collect();
            assert_eq!(got, sent.iter().collect::<Vec<_>>(), "cut {cut}");
            assert!(items.contains(&Item::Text(b"[    0.0] Booting Linux\r\n".to_vec())));
        }
    }

    #[test]
    fn a_line_without_an_end_is_not_kept() {
        let mut decoder = LogDecoder::default();
        let text: usize = (0..1_000)
            .flat_map(|_| decoder.push(&[b'x'; 1_000]))
            .map(|i| if let Item::Text(t) = i { t.len() } else { 0 })
            .sum();
        assert!(decoder.line.len() <= LINE_MAX, "{}", decoder.line.len());
        assert_eq!(text + decoder.line.len(), 1_000_000);
    }

    #[test]
    fn lines_of_others_are_none() {
        assert_eq!(decode(b"latlab# A*\n"), None);
        assert_eq!(decode(b"no mark\n"), None);
    }
}
