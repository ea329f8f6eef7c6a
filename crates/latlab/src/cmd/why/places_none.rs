//! The build without `host` reads no debug information: captures of a board are taken to a host for that.

use crate::outcome::HintExt;
use anyhow::anyhow;
use latlab_model::latency::WhyResult;
use std::path::PathBuf;

/// Nothing.
pub struct Places;

impl Places {
    /// Refuses what `--vmlinux` names.
    ///
    /// # Errors
    /// When it names anything.
    pub fn open(files: &[PathBuf]) -> anyhow::Result<Self> {
        if files.is_empty() {
            return Ok(Self);
        }
        Err(anyhow!("--vmlinux: this build does not read debug information"))
            .hint("leave it out; `make install` builds latlab with all commands: latlab why RUN --vmlinux FILE")
    }

    /// Nothing to check.
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as the host's build has it")]
    pub fn check_here(&self, _: &str) -> anyhow::Result<()> {
        Ok(())
    }

    /// Nothing to tell.
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as the host's build has it")]
    pub fn tell(&self, _: &mut WhyResult) -> anyhow::Result<()> {
        Ok(())
    }
}
