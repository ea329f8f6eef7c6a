//! `latlab image write`: looks twice, asks, writes, reads back.

use super::{Desk, ended};
use crate::cmd::vm::say;
use crate::outcome::{HintExt, Outcome, OwnHintExt};
use anyhow::{Context, anyhow};
use latlab_target::image::{device, write};
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

/// What the user allows.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) yes: bool,
    pub(super) fixed: bool,
    pub(super) grow: bool,
}

/// Writes an image to a card.
pub(super) fn run(
    device: &Path,
    image: &Path,
    root: &Path,
    wish: &Wish,
) -> anyhow::Result<Outcome> {
    // The device first: whoever names the wrong one should hear that.
    let disk = device::examine(root, device).hinted()?;
    let length = std::fs::metadata(image).with_context(|| image.display().to_string());
    let length = length.hint("latlab image --board NAME builds sd.img")?.len();
    device::judge(&disk, length, wish.fixed).hinted()?;
    let mut desk = Desk::new();
    let sound = write::sound(image, &mut desk);
    drop(desk);
    ended(sound, |bytes| {
        if !wish.yes && !agreed(&disk, image, bytes)? {
            return Err(anyhow!("nothing was written")).hint("--yes writes without asking");
        }
        // Something may have been mounted while the question stood.
        let disk = device::examine(root, device).hinted()?;
        device::judge(&disk, bytes, wish.fixed).hinted()?;
        let mut desk = Desk::new();
        let written = write::write(image, &disk.path, disk.bytes, wish.grow, &mut desk);
        drop(desk);
        ended(written, |()| {
            say(&format!("{} is on {}, and was read back", image.display(), disk.path.display()));
            Ok(Outcome::Done)
        })
    })
}

/// Shows what would be lost, and asks.
fn agreed(disk: &device::Disk, image: &Path, bytes: u64) -> anyhow::Result<bool> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Err(anyhow!(
            "there is nobody to ask whether {} may be overwritten",
            disk.path.display()
        ))
        .hint("--yes writes without asking");
    }
    let mut stderr = io::stderr().lock();
    let model = if disk.model.is_empty() { "no name" } else { &disk.model };
    let parts = match disk.partitions.len() {
        0 => "no partitions".to_owned(),
        _ => disk.partitions.join(", "),
    };
    write!(
        stderr,
        "{}: {model}, {} MiB, {parts}\nAll of it will be overwritten by {} ({} MiB). Type the name {} to go on: ",
        disk.path.display(),
        disk.bytes >> 20,
        image.display(),
        bytes >> 20,
        disk.name
    )?;
    stderr.flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(answer.trim() == disk.name)
}
