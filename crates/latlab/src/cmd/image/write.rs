//! `latlab image write`: looks twice, asks, writes, reads back.

use super::build_hooks::{BuildHooks, ended};
use crate::cmd::vm::say;
use crate::outcome::{HintExt, Outcome, OwnHintExt};
use anyhow::{Context, anyhow};
use latlab_image::{device, write};
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

/// What may be written to, and whether to ask first.
#[derive(Debug)]
pub(super) struct WriteOptions {
    /// Whether to write without asking.
    pub(super) yes: bool,
    /// Whether the device may be one that is not removable.
    pub(super) fixed: bool,
    /// Whether the last partition grows to the end of the card.
    pub(super) grow: bool,
}

/// Writes an image to a card.
pub(super) fn run(
    device: &Path,
    image: &Path,
    root: &Path,
    options: &WriteOptions,
) -> anyhow::Result<Outcome> {
    // The device first: whoever names the wrong one should hear that.
    let disk = device::examine(root, device).with_hint()?;
    let length = std::fs::metadata(image).with_context(|| image.display().to_string());
    let length = length.hint("latlab image --board NAME builds sd.img")?.len();
    device::judge(&disk, length, options.fixed).with_hint()?;
    let mut hooks = BuildHooks::new();
    let sound = write::sound(image, &mut hooks);
    drop(hooks);
    ended(sound, |bytes| {
        if !options.yes && !agreed(&disk, image, bytes)? {
            return Err(anyhow!("not confirmed: nothing was written"))
                .hint("--yes writes without asking");
        }
        // Something may have been mounted, or another card inserted, while the question stood.
        let now = device::examine(root, device).with_hint()?;
        disk.same(&now).with_hint()?;
        device::judge(&now, bytes, options.fixed).with_hint()?;
        let mut hooks = BuildHooks::new();
        let written = write::write(image, &now, root, options.grow, &mut hooks);
        drop(hooks);
        ended(written, |()| {
            say(&format!("{} written to {} and verified", image.display(), disk.path.display()));
            Ok(Outcome::Done)
        })
    })
}

/// Shows what would be lost, and asks.
fn agreed(disk: &device::Disk, image: &Path, bytes: u64) -> anyhow::Result<bool> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Err(anyhow!(
            "no terminal to confirm that {} may be overwritten",
            disk.path.display()
        ))
        .hint("--yes writes without asking");
    }
    let mut stderr = crate::term::stderr();
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
