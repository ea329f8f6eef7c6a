//! What the virtual lab is told of the host.

use crate::cache::Cache;
use std::path::PathBuf;
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
