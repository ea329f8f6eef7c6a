//! Reading and writing the value of one setting.

use crate::files::chosen;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Longer values are no settings.
pub(super) const VALUE_MAX: usize = 4096;

/// The value of a setting: its text, or the chosen word of a list (`always [madvise] never`).
pub(super) fn read_setting(path: &Path) -> io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    let read = fs::File::open(path)?.take(VALUE_MAX as u64 + 1).read_to_string(&mut text)?;
    if read > VALUE_MAX {
        let reason = format!("its value is longer than {VALUE_MAX} bytes: it is not a setting");
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    let text = text.trim();
    let list = text.split_whitespace().count() > 1;
    Ok(list.then(|| chosen(text)).flatten().unwrap_or_else(|| text.to_owned()))
}

/// One write of the whole value, as sysctl files want it; opening was all for an empty one. Never
/// makes a file.
pub(super) fn write_setting(path: &Path, value: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).truncate(true).open(path)?;
    match value {
        "" => Ok(()),
        value => file.write_all(format!("{value}\n").as_bytes()),
    }
}

/// Adds a line to a list of which the kernel keeps the other lines: it is not emptied first.
pub(super) fn append_line(path: &Path, line: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().append(true).open(path)?;
    file.write_all(format!("{line}\n").as_bytes())
}

/// What is noted of a list that may be long: its length and a checksum (FNV-1a, 64 bits).
pub(super) fn fingerprint(path: &Path) -> io::Result<String> {
    let text = fs::read(path)?;
    let hash = text.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Ok(format!("{} bytes, fnv {hash:016x}", text.len()))
}
