//! `latlab image write labgrid:PLACE`: the card of a board in a laboratory.

use super::build_hooks::{BuildHooks, ended};
use crate::cmd::vm;
use crate::outcome::{HintExt, Outcome, OwnHintExt};
use crate::rundir::write_atomically;
use anyhow::{Context, anyhow};
use latlab_image::write;
use latlab_sys::signal;
use latlab_target::labgrid::Place;
use latlab_target::labgrid_card::{self, Image};
use latlab_target::spec::LabgridTarget;
use latlab_target::ssh::Connection;
use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

/// Writes an image; nothing where `once` names a file that has its checksum.
pub(super) fn run(
    target: &LabgridTarget,
    image: &Path,
    yes: bool,
    once: Option<&Path>,
) -> anyhow::Result<Outcome> {
    let mut hooks = BuildHooks::new();
    let sound = write::sound(image, &mut hooks)
        .and_then(|bytes| Ok((bytes, write::checksum(image, bytes, &mut hooks)?)));
    drop(hooks);
    ended(sound, |(bytes, sha256)| {
        let written = once.and_then(|file| fs::read_to_string(file).ok());
        if written.is_some_and(|text| text.trim() == sha256) {
            return Ok(Outcome::Done);
        }
        if !yes && !agreed(target, image)? {
            return Err(anyhow!("not confirmed: nothing was written"))
                .hint("--yes writes without asking");
        }
        let stopped = || signal::stop_requested().is_some();
        let scratch = vm::cache()?.scratch().with_hint()?;
        // The board is switched off by the writing itself.
        let unswitched = LabgridTarget { power_cycle: false, ..target.clone() };
        let place = Place::acquire(&unswitched, stopped, &mut vm::say).with_hint()?;
        let image = Image { path: image, bytes, sha256: &sha256 };
        let done = labgrid_card::write(&place, &image, scratch.path(), &mut vm::say);
        ended(done, |()| {
            if let Some(file) = once {
                write_atomically(file, |to| writeln!(to, "{sha256}"))
                    .with_context(|| file.display().to_string())?;
            }
            // A place without a network service has nobody to wait for.
            if let Ok(ssh) = place.ssh() {
                let connection = Connection::new(&ssh, scratch.path(), stopped).with_hint()?;
                vm::say(&format!("{target}: waiting for the board"));
                place.wait(&connection).with_hint()?;
            }
            vm::say(&format!("{} written to {target} and verified", image.path.display()));
            Ok(Outcome::Done)
        })
    })
}

/// Asks for the name of the place.
fn agreed(target: &LabgridTarget, image: &Path) -> anyhow::Result<bool> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Err(anyhow!("no terminal to confirm that the card of {target} may be overwritten"))
            .hint("--yes writes without asking");
    }
    let mut stderr = crate::term::stderr();
    write!(
        stderr,
        "The board of {target} will be switched off and all of its card overwritten by {}. Type the name {} to go on: ",
        image.display(),
        target.place
    )?;
    stderr.flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(answer.trim() == target.place)
}
