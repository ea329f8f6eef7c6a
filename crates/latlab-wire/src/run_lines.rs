//! A run as lines of text between the other lines of a log: where nothing but a console leads out of a board, and
//! other programs print on it too.
//!
//! ```text
//! latlab-run ID 3/41 1a2b3c4d 9e8f7a6b SGVsbG8…   piece 3 of 41: checksum of all, checksum of this line, base64
//! latlab-run ID exit 0                            exit code of the command
//! ```
//! A line that another one runs through is lost alone: all lines are sent twice, and a piece of either will do.
//! Checksums are CRC-32 (IEEE 802.3); that of a line is over what is before it and the bytes of the piece.

use crate::base64;
use crate::frame::crc32;
use std::collections::BTreeMap;

const MARK: &str = "latlab-run ";
/// Bytes of a piece.
const PIECE: usize = 384;
/// Most bytes of a run: 100 seconds of a console of 115,200 baud.
pub const BYTES_MAX: usize = 512 << 10;
/// Transmissions of one name that are kept: a test that is repeated sends another run.
const VERSIONS: usize = 4;

/// The lines for a run.
pub fn lines<'a>(name: &'a str, bytes: &'a [u8]) -> impl Iterator<Item = String> + 'a {
    let (all, count) = (crc32([bytes]), bytes.chunks(PIECE).count());
    let once = move || {
        bytes.chunks(PIECE).enumerate().map(move |(i, piece)| {
            let head = format!("{name} {}/{count} {all:08x}", i + 1);
            let check = crc32([head.as_bytes(), piece]);
            let digits: String = base64::encode(piece).map(char::from).collect();
            format!("{MARK}{head} {check:08x} {digits}")
        })
    };
    once().chain(once())
}

/// Whether a name can be one of a line: 1 to 200 letters, digits, `_`, `-` and `.`.
pub fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
    (1..=200).contains(&name.len()) && name.bytes().all(plain)
}

/// What a log has of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The latest run that is whole.
    pub bytes: Option<Vec<u8>>,
    /// Pieces that the latest one lacks; 0 when it is whole, or none was sent.
    pub missing: usize,
    /// Exit code of the latest command.
    pub exit_code: Option<i32>,
}

/// Pieces of one transmission.
#[derive(Debug)]
struct Version {
    count: usize,
    all: u32,
    pieces: BTreeMap<usize, Vec<u8>>,
}

/// Finds runs in the lines of a log. Others than those of the names that are expected are not kept.
#[derive(Debug)]
pub struct Reader {
    names: BTreeMap<String, (Vec<Version>, Option<i32>)>,
}

impl Reader {
    /// A reader of these names.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self { names: names.into_iter().map(|name| (name, (Vec::new(), None))).collect() }
    }

    /// Looks at a line: ours may have anything before and behind it (times, quotes).
    pub fn push(&mut self, line: &[u8]) {
        let mark = MARK.as_bytes();
        let Some(at) = line.windows(mark.len()).position(|w| w == mark) else { return };
        let mut words = line[at + mark.len()..].splitn(5, |b| *b == b' ');
        let mut word = || words.next().and_then(|w| std::str::from_utf8(w).ok());
        let (Some(name), Some(place), Some(third)) = (word(), word(), word()) else { return };
        let Some((versions, exit_code)) = self.names.get_mut(name) else { return };
        if place == "exit" {
            let digits: String = third.chars().take_while(char::is_ascii_digit).collect();
            *exit_code = digits.parse().ok().or(*exit_code);
            return;
        }
        let (Some(check), Some(digits)) = (word(), word()) else { return };
        let digits = digits.as_bytes();
        let end = digits.iter().position(|b| !base64::is_digit(*b)).unwrap_or(digits.len());
        if let Some((number, count, all, bytes)) = piece(name, place, third, check, &digits[..end])
        {
            keep(versions, number, count, all, bytes);
        }
    }

    /// What was found, by name.
    pub fn finish(self) -> BTreeMap<String, Received> {
        let received = |(versions, exit_code): (Vec<Version>, _)| {
            let missing = versions.last().map_or(0, |v| v.count - v.pieces.len());
            let bytes = versions.into_iter().rev().find_map(whole);
            Received { missing: if bytes.is_some() { 0 } else { missing }, bytes, exit_code }
        };
        self.names.into_iter().map(|(name, found)| (name, received(found))).collect()
    }
}

/// A piece: its number from 0, their count, the checksum of all, its bytes.
fn piece(
    name: &str,
    place: &str,
    all: &str,
    check: &str,
    digits: &[u8],
) -> Option<(usize, usize, u32, Vec<u8>)> {
    let (number, count) = place.split_once('/')?;
    let (number, count) = (number.parse::<usize>().ok()?, count.parse::<usize>().ok()?);
    if digits.len() > PIECE * 2 || !(1..=count).contains(&number) || count > BYTES_MAX / PIECE + 1 {
        return None;
    }
    let bytes = base64::decode(digits)?;
    let head = format!("{name} {place} {all}");
    let is_intact = u32::from_str_radix(check, 16) == Ok(crc32([head.as_bytes(), &bytes]));
    is_intact.then_some((number - 1, count, u32::from_str_radix(all, 16).ok()?, bytes))
}

fn keep(versions: &mut Vec<Version>, number: usize, count: usize, all: u32, bytes: Vec<u8>) {
    let known = versions.iter().position(|v| (v.count, v.all) == (count, all));
    let at = known.unwrap_or_else(|| {
        if versions.len() == VERSIONS {
            versions.remove(0);
        }
        versions.push(Version { count, all, pieces: BTreeMap::new() });
        versions.len() - 1
    });
    versions[at].pieces.insert(number, bytes);
}

fn whole(version: Version) -> Option<Vec<u8>> {
    if version.pieces.len() < version.count {
        return None;
    }
    let bytes = version.pieces.into_values().collect::<Vec<_>>().concat();
    (crc32([bytes.as_slice()]) == version.all).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Received {
        let mut reader = Reader::new(["a-1".to_owned()]);
        lines.into_iter().for_each(|line| reader.push(line));
        reader.finish().remove("a-1").unwrap()
    }

    fn sent(bytes: &[u8]) -> Vec<Vec<u8>> {
        lines("a-1", bytes).map(String::into_bytes).collect()
    }

    #[test]
    fn a_run_survives_what_others_print_into_either_copy_of_a_line() {
        let bytes: Vec<u8> = (0..5_000u32).map(|i| ((i * i) >> 3) as u8).collect();
        let mut log = sent(&bytes);
        let half = log.len() / 2;
        // Lines of one copy are cut by the kernel's, and the log's own words surround them.
        for (i, line) in log.iter_mut().enumerate() {
            if (i < half) == (i % 2 == 0) {
                line.splice(40..40, *b"[   12.345] usb 1-1: new device\r\n");
            } else {
                line.splice(0..0, *b"- {\"dt\": \"2026\", \"lvl\": \"target\", \"msg\": \"");
                line.extend(b"\"}\r\n");
            }
        }
        log.push(b"latlab-run a-1 exit 2\"}".to_vec());
        log.push(b"latlab-run other exit 1".to_vec());
        let got = read(log.iter().map(Vec::as_slice));
        assert_eq!(got, Received { bytes: Some(bytes), missing: 0, exit_code: Some(2) });
    }

    #[test]
    fn the_latest_whole_run_of_a_repeated_test_counts() {
        let (first, second) = (vec![1; 1_000], vec![2; 1_000]);
        let both = [sent(&first), sent(&second)].concat();
        assert_eq!(read(both.iter().map(Vec::as_slice)).bytes, Some(second.clone()));
        let mut cut = [sent(&first), sent(&second)[..2].to_vec()].concat();
        assert_eq!(read(cut.iter().map(Vec::as_slice)).bytes, Some(first));
        cut.drain(..6);
        assert_eq!(read(cut.iter().map(Vec::as_slice)).missing, 1);
    }

    #[test]
    fn what_is_sent_by_somebody_else_is_bounded() {
        let mut reader = Reader::new(["a-1".to_owned()]);
        for i in 0..1_000u32 {
            for line in lines("a-1", &i.to_le_bytes()) {
                reader.push(line.as_bytes());
                reader.push(line.replace("a-1", "b").as_bytes());
            }
        }
        assert_eq!(reader.names.len(), 1);
        assert_eq!(reader.names["a-1"].0.len(), VERSIONS);
        reader.push(b"latlab-run a-1 1/999999999 00000000 00000000 AAAA");
        assert_eq!(reader.finish()["a-1"].bytes, Some(999u32.to_le_bytes().to_vec()));
        assert!(is_name("bb1-wakeup-1-00c0ffee") && !is_name("a b") && !is_name(""));
    }

    proptest! {
        #[test]
        fn any_line_is_read_without_a_panic(line in prop::collection::vec(any::<u8>(), 0..200), tail in ".{0,60}") {
            read([line.as_slice(), format!("latlab-run a-1 {tail}").as_bytes()]);
        }

        #[test]
        fn any_run_survives(bytes in prop::collection::vec(any::<u8>(), 1..3_000)) {
            let lines = sent(&bytes);
            prop_assert_eq!(read(lines.iter().map(Vec::as_slice)).bytes, Some(bytes));
        }
    }
}
