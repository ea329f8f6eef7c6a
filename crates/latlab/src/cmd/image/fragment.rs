//! `latlab image --from-config`: what a kernel of one's own needs, and how it gets on a card.

use crate::cli::Global;
use crate::cmd::kernel_config;
use crate::cmd::vm::{cache, say};
use crate::outcome::{HintExt, Outcome, OwnHintExt};
use crate::term;
use anyhow::{Context, anyhow};
use latlab_image::{Flavour, board};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Prints the fragment for a configuration, or for that of the board's Debian kernel.
pub(super) fn run(
    name: Option<&str>,
    kernel: &str,
    file: Option<&Path>,
    offline: bool,
    global: &Global,
) -> anyhow::Result<Outcome> {
    let path = match (file, name) {
        (Some(file), _) => file.to_path_buf(),
        (None, Some(name)) => debian(name, kernel, offline)?,
        (None, None) => {
            return Err(anyhow!("no configuration named"))
                .hint("--from-config FILE, or --board NAME for that of the board's Debian kernel");
        }
    };
    kernel_config::print(global, Some(&path))?;
    if !global.json {
        let mut out = term::stdout();
        let board = name.unwrap_or("NAME");
        writeln!(
            out,
            "#   make ARCH=… CROSS_COMPILE=… bindeb-pkg     # the same make as above: linux-image-….deb\n\
             #   latlab image --board {board} --kernel ../linux-image-….deb"
        )?;
        out.flush()?;
    }
    Ok(Outcome::Done)
}

/// The configuration of the kernel that `latlab image --board NAME` takes.
pub fn debian(name: &str, kernel: &str, offline: bool) -> anyhow::Result<PathBuf> {
    let board = board::find(name).with_hint()?;
    let cache = cache()?;
    let kernel = flavour(kernel)?.kernel(&cache, board.arch, offline, &mut say);
    let kernel = kernel.with_hint()?;
    let path = kernel.package.join("boot").join(format!("config-{}", kernel.release));
    std::fs::metadata(&path).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// The kernel that `--kernel` names.
pub(super) fn flavour(word: &str) -> anyhow::Result<Flavour> {
    match word {
        "rt" => Ok(Flavour::Rt),
        "stock" => Ok(Flavour::Stock),
        file if file.ends_with(".deb") => Ok(Flavour::Deb(PathBuf::from(file))),
        _ => Err(anyhow!("--kernel {word}: not a kernel"))
            .hint("rt, stock, or the FILE.deb of a linux-image package"),
    }
}
