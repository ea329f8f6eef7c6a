//! Where this program is.

use crate::outcome::HintExt;
use anyhow::Context;
use std::path::PathBuf;

/// This program, to start it again as a worker.
///
/// # Errors
/// When `/proc` does not have its path.
pub fn own_program() -> anyhow::Result<PathBuf> {
    latlab_sys::process::own_program()
        .context("the path of this program cannot be determined")
        .hint("mount /proc")
}
