//! Sends what a command left behind: its kept output, and every file in its working folder.

use super::sink::Sink;
use anyhow::Context;
use latlab_wire::frame::{FileHead, Message, PAYLOAD_MAX};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// The content of a file, in pieces; `length`: at most so many bytes, for a file that still grows.
pub fn pieces(
    sink: &dyn Sink,
    path: &Path,
    length: u64,
    wrap: fn(Vec<u8>) -> Message,
) -> anyhow::Result<()> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let mut file = file.take(length);
    let mut buffer = vec![0; PAYLOAD_MAX];
    loop {
        let n = file.read(&mut buffer).with_context(|| path.display().to_string())?;
        if n == 0 {
            return Ok(());
        }
        sink.send(&wrap(buffer[..n].to_vec()))?;
    }
}

/// Every folder and regular file below `root`, in order of name.
pub fn folder(sink: &dyn Sink, root: &Path) -> anyhow::Result<()> {
    below(sink, root, root)
}

fn below(sink: &dyn Sink, root: &Path, folder: &Path) -> anyhow::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let Ok(relative) = path.strip_prefix(root) else { continue };
        let kind = entry.file_type()?;
        let length = entry.metadata().map_or(0, |m| m.len());
        let head = FileHead {
            path: relative.to_string_lossy().into_owned(),
            length,
            directory: kind.is_dir(),
        };
        if kind.is_dir() {
            sink.send(&Message::File(head))?;
            below(sink, root, &path)?;
        } else if kind.is_file() {
            sink.send(&Message::File(head))?;
            pieces(sink, &path, length, Message::Data)?;
        }
    }
    Ok(())
}
