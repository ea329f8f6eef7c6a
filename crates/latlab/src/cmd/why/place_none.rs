//! Places of programs on a board: file offsets alone. The build for a host finds functions and lines.

use crate::outcome::HintExt;
use anyhow::anyhow;
use std::path::PathBuf;

/// A place as `uprobe_events` takes it.
///
/// # Errors
/// When it is no file offset.
pub(super) fn of_program(option: &str, place: &str) -> anyhow::Result<String> {
    match place.rsplit_once(':') {
        Some((path, offset)) if offset.starts_with("0x") && !path.starts_with("usdt:") => {
            Ok(format!("{path}:{offset}"))
        }
        _ => Err(anyhow!("{option} {place}: this build finds no functions and lines"))
            .hint("uprobe:PATH:0xOFFSET, the offset in the file as `objdump -h -t` tells it"),
    }
}

/// The file of a program or library.
pub(super) fn file(path: &str) -> PathBuf {
    path.into()
}
