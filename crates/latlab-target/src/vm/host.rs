//! What the virtual lab is told of the host.

use crate::cache::Cache;
use crate::{Result, TargetError, search};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the virtual lab needs to know of the host.
#[derive(Debug)]
pub struct Host<'a> {
    /// The cache.
    pub cache: &'a Cache,
    /// Folder of board builds that the user named.
    pub boards: Option<PathBuf>,
    /// Our own program.
    pub program: PathBuf,
    /// Working directory.
    pub cwd: PathBuf,
    /// Prepares a child so that it dies with us.
    pub tie: fn(&mut Command),
}

impl Host<'_> {
    /// The folder of sources that has the file `main`: in `share/latlab` beside our program, or above it or the
    /// working directory where nobody else can write to it, because what is in it is built and run here. `what` is
    /// built from it.
    pub(super) fn source(&self, folder: &str, main: &str, what: &str) -> Result<PathBuf> {
        let file = Path::new(folder).join(main);
        let above = self.program.ancestors().skip(1).chain(self.cwd.ancestors());
        let above = above.map(|p| p.join(&file));
        let beside = self.program.parent().map(|p| p.join("../share/latlab").join(&file));
        let found = search::first(beside, above);
        found.and_then(|source| source.parent().map(Path::to_path_buf)).ok_or_else(|| {
            TargetError::Content {
                path: file,
                reason: format!(
                    "the {what}'s source was not found above the program or the working directory, in a \
                     directory that only its owner may write to"
                ),
                hint: "run it in a checkout of latlab, or put the folder in share/latlab beside bin"
                    .into(),
            }
        })
    }
}
