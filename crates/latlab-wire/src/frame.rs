//! What a host and the agent on a target say to each other.
//!
//! The agent is process 1 of a virtual machine. Its job lies in the initial
//! RAM disk ([`Job`]), so that nothing has to be sent to it before or while it
//! measures; what comes back is a stream of frames:
//!
//! ```text
//! 0..4   magic 1F 4C 4C 77
//! 4      kind, one byte
//! 5..9   length of the payload, little endian
//! 9..13  CRC-32 (IEEE 802.3) of kind and payload, little endian
//! 13..   payload
//! ```
//!
//! The same bytes travel over a virtio port or, where a machine has none, over
//! the serial console between the kernel's own messages: whatever is no intact
//! frame is handed on as [`Item::Text`].

use serde::{Deserialize, Serialize};

const MAGIC: [u8; 4] = [0x1f, 0x4c, 0x4c, 0x77];
const HEADER: usize = 13;
/// The largest payload of one frame; larger data are cut into several.
pub const PAYLOAD_MAX: usize = 64 << 10;

/// What the agent is to do; `/latlab/job.json` in the RAM disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Job {
    /// The command with its arguments; empty: only boot and say hello.
    pub argv: Vec<String>,
    /// Environment, besides PATH and HOME.
    pub env: Vec<(String, String)>,
    /// Name that the machine gives itself.
    pub hostname: String,
    /// Wall clock to set before the command, seconds since 1970; `None` leaves the machine's.
    pub clock: Option<u64>,
    /// Send output as it is written. Otherwise it is kept in memory until the command has ended, and the agent sleeps.
    pub live: bool,
    /// Kernel modules to load, in this order, as paths in the RAM disk.
    pub modules: Vec<String>,
    /// Modules to look for, with what they need, where the RAM disk has them itself: in
    /// `/lib/modules/RELEASE` of the kernel that runs. Loaded after [`Self::modules`].
    pub seek: Vec<Sought>,
    /// Commands to run before the measured one, each with its arguments; one that fails ends the job.
    pub before: Vec<Vec<String>>,
    /// Commands that run beside the measured one, and end with it.
    pub beside: Vec<Vec<String>>,
    /// Bring up the first network interface with QEMU's user-mode address.
    pub network: bool,
    /// A shell on the console instead of a command.
    pub shell: bool,
    /// Turn address-space randomisation off, for runs that have to be alike.
    pub repeatable: bool,
}

/// A module to look for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sought {
    /// Its name.
    pub name: String,
    /// Whether it has to be there; otherwise a kernel without it is taken to have it built in.
    pub needed: bool,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The agent is up; release of its kernel.
    Hello(String),
    /// The command's standard output.
    Stdout(Vec<u8>),
    /// The command's standard error.
    Stderr(Vec<u8>),
    /// A file or directory that the command left begins.
    File(FileHead),
    /// The next bytes of that file.
    Data(Vec<u8>),
    /// The command's exit code (128 + n for death by signal n), all files having been sent.
    Exit(u8),
    /// The agent could not do its job.
    Failed(String),
    /// To the agent: pass this signal on to the command.
    Signal(u8),
}

/// Name and kind of a file that follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHead {
    /// Relative to the command's working directory.
    pub path: String,
    /// Length in bytes.
    pub length: u64,
    /// A directory rather than a file.
    pub directory: bool,
}

impl Message {
    /// The frame.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, payload): (u8, Vec<u8>) = match self {
            Self::Hello(s) => (1, s.as_bytes().to_vec()),
            Self::Stdout(b) => (2, b.clone()),
            Self::Stderr(b) => (3, b.clone()),
            Self::File(head) => (4, serde_json::to_vec(head).unwrap_or_default()),
            Self::Data(b) => (5, b.clone()),
            Self::Exit(code) => (6, vec![*code]),
            Self::Failed(s) => (7, s.as_bytes().to_vec()),
            Self::Signal(n) => (8, vec![*n]),
        };
        let mut frame = Vec::with_capacity(HEADER + payload.len());
        frame.extend_from_slice(&MAGIC);
        frame.push(kind);
        frame.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        frame.extend_from_slice(&crc32([&[kind], &payload]).to_le_bytes());
        frame.extend_from_slice(&payload);
        frame
    }

    fn decode(kind: u8, payload: &[u8]) -> Option<Self> {
        let text = || String::from_utf8_lossy(payload).into_owned();
        Some(match kind {
            1 => Self::Hello(text()),
            2 => Self::Stdout(payload.to_vec()),
            3 => Self::Stderr(payload.to_vec()),
            4 => Self::File(serde_json::from_slice(payload).ok()?),
            5 => Self::Data(payload.to_vec()),
            6 => Self::Exit(*payload.first()?),
            7 => Self::Failed(text()),
            8 => Self::Signal(*payload.first()?),
            _ => return None,
        })
    }
}

/// What a [`Decoder`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An intact frame.
    Message(Message),
    /// Bytes that belong to no frame: a console's text.
    Text(Vec<u8>),
}

/// Finds frames in a stream that arrives in pieces.
///
/// Whatever looks like a header costs a checksum, and headers may overlap. Damaged frames cost little
/// of that; a stream of nothing but headers would cost 5,000 times its length. So the bytes that are
/// checked are at most `CHECKED_FREE` and `CHECKED_FACTOR` times the stream's; further headers
/// are text.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Bytes of the stream before the buffer.
    passed: u64,
    /// Bytes of which a checksum was computed.
    checked: u64,
}

/// Bytes that may be checked in any stream.
const CHECKED_FREE: u64 = 1 << 20;
/// Bytes that may be checked for each byte of the stream.
const CHECKED_FACTOR: u64 = 16;

impl Decoder {
    /// Adds bytes and returns what can be told from them.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Item> {
        self.buffer.extend_from_slice(bytes);
        let mut items = Vec::new();
        let mut at = 0;
        let mut text_from = 0;
        while at < self.buffer.len() {
            let allowed = CHECKED_FREE + CHECKED_FACTOR * (self.passed + at as u64);
            match parse(&self.buffer[at..], allowed.saturating_sub(self.checked)) {
                Parsed::Frame(message, length) => {
                    self.flush_text(text_from, at, &mut items);
                    items.push(Item::Message(message));
                    self.checked += length as u64;
                    at += length;
                    text_from = at;
                }
                Parsed::More => break,
                Parsed::NoFrame(checked) => {
                    self.checked += checked;
                    at += 1;
                }
            }
        }
        self.flush_text(text_from, at, &mut items);
        self.buffer.drain(..at);
        self.passed += at as u64;
        items
    }

    fn flush_text(&self, from: usize, to: usize, items: &mut Vec<Item>) {
        if to > from {
            items.push(Item::Text(self.buffer[from..to].to_vec()));
        }
    }
}

enum Parsed {
    Frame(Message, usize),
    More,
    /// And the bytes that were checked to tell so.
    NoFrame(u64),
}

/// Looks for a frame at the beginning, unless its checksum is over more than `allowed` bytes.
fn parse(bytes: &[u8], allowed: u64) -> Parsed {
    let known = bytes.len().min(MAGIC.len());
    if bytes[..known] != MAGIC[..known] {
        return Parsed::NoFrame(0);
    }
    let (Some(kind), Some(length), Some(crc)) = (bytes.get(4), le32(bytes, 5), le32(bytes, 9))
    else {
        return Parsed::More;
    };
    let length = length as usize;
    if length > PAYLOAD_MAX || length as u64 > allowed {
        return Parsed::NoFrame(0);
    }
    let Some(payload) = bytes.get(HEADER..HEADER + length) else {
        return Parsed::More;
    };
    if crc32([&[*kind], payload]) != crc {
        return Parsed::NoFrame(length as u64);
    }
    match Message::decode(*kind, payload) {
        Some(message) => Parsed::Frame(message, HEADER + length),
        None => Parsed::NoFrame(length as u64),
    }
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// CRC-32 of IEEE 802.3 (reflected, polynomial EDB88320) over all parts, bit by bit: frames are few.
pub(crate) fn crc32<const N: usize>(parts: [&[u8]; N]) -> u32 {
    let mut crc = !0u32;
    for byte in parts.into_iter().flatten() {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Message> {
        vec![
            Message::Hello("6.1.0-rt".into()),
            Message::Stdout(b"late\n".to_vec()),
            Message::Stderr(vec![]),
            Message::File(FileHead { path: "runs/a b".into(), length: 3, directory: false }),
            Message::Data(vec![0x1f, 0x4c, 0]),
            Message::Failed("no".into()),
            Message::Signal(2),
            Message::Exit(130),
        ]
    }

    #[test]
    fn crc_is_that_of_ethernet() {
        // The catalogue's check value is over "123456789".
        assert_eq!(crc32([b"1", b"23456789"]), 0xcbf4_3926);
    }

    #[test]
    fn frames_survive_any_cut_and_console_text_between_them() {
        let mut stream = b"Booting Linux\n".to_vec();
        for message in all() {
            stream.extend(message.encode());
            stream.extend(b"[    1.2] kernel says\n");
        }
        for piece in [1, 3, 7, 64, stream.len()] {
            let mut decoder = Decoder::default();
            let items: Vec<Item> = stream.chunks(piece).flat_map(|c| decoder.push(c)).collect();
            let messages: Vec<Message> = items
                .iter()
                .filter_map(|i| if let Item::Message(m) = i { Some(m.clone()) } else { None })
                .collect();
            assert_eq!(messages, all(), "pieces of {piece}");
            let text: Vec<u8> = items
                .into_iter()
                .filter_map(|i| if let Item::Text(t) = i { Some(t) } else { None })
                .flatten()
                .collect();
            assert!(text.starts_with(b"Booting Linux\n[    1.2] kernel says\n"));
            assert_eq!(text.len(), 14 + 22 * all().len());
        }
    }

    #[test]
    fn a_damaged_frame_is_text_and_the_next_one_is_read() {
        let mut broken = Message::Stdout(b"abc".to_vec()).encode();
        broken[14] ^= 1;
        let mut stream = broken.clone();
        stream.extend(Message::Exit(0).encode());
        let items = Decoder::default().push(&stream);
        assert_eq!(items.last(), Some(&Item::Message(Message::Exit(0))));
        assert_eq!(items[0], Item::Text(broken));
    }

    #[test]
    fn an_absurd_length_is_not_waited_for() {
        let mut stream = MAGIC.to_vec();
        stream.extend([2, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0]);
        stream.extend(Message::Exit(1).encode());
        let items = Decoder::default().push(&stream);
        assert_eq!(items.last(), Some(&Item::Message(Message::Exit(1))));
    }

    #[test]
    fn overlapping_headers_cost_no_more_than_a_multiple_of_the_stream() {
        let mut header = MAGIC.to_vec();
        header.extend([2, 0, 0, 1, 0, 0, 0, 0, 0]);
        assert_eq!(le32(&header, 5), Some(PAYLOAD_MAX as u32));
        let stream = header.repeat(10_000);
        let all = |piece: usize| {
            let mut decoder = Decoder::default();
            let items: Vec<Item> = stream.chunks(piece).flat_map(|c| decoder.push(c)).collect();
            let message = |i: &Item| matches!(i, Item::Message(_));
            assert!(!items.iter().any(message));
            (decoder.checked, decoder.passed)
        };
        let (checked, passed) = all(stream.len());
        assert!(passed > 60_000, "{passed}");
        assert!(checked > CHECKED_FREE);
        assert!(checked <= CHECKED_FREE + CHECKED_FACTOR * stream.len() as u64, "{checked}");
        // The same in any pieces.
        assert_eq!(all(1_000), (checked, passed));
    }
}
