//! `latlab generate DIR` (hidden): man pages and shell completions from the command line's own definition.

use std::path::PathBuf;

/// Write man pages and shell completions below a directory (share/ of a prefix).
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Gets man/man1, bash-completion/completions, zsh/site-functions, fish/vendor_completions.d.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}
