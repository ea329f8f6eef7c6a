//! Reading and writing the value of one setting.

use crate::files::chosen;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Longer values are no knobs.
pub(super) const VALUE_MAX: usize = 4096;

/// The value of a knob: its text, or the chosen word of a list (`always [madvise] never`).
pub(super) fn read_knob(path: &Path) -> io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    fs::File::open(path)?.take(VALUE_MAX as u64).read_to_string(&mut text)?;
    let text = text.trim();
    let list = text.split_whitespace().count() > 1;
    Ok(list.then(|| chosen(text)).flatten().unwrap_or_else(|| text.to_owned()))
}

/// One write of the whole value, as sysctl files want it; opening was all for an empty one. Never
/// makes a file.
pub(super) fn write_knob(path: &Path, value: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).truncate(true).open(path)?;
    match value {
        "" => Ok(()),
        value => file.write_all(format!("{value}\n").as_bytes()),
    }
}
