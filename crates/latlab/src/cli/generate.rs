//! `latlab generate` (hidden): man pages and shell completions from the command line's own definition.

use std::path::PathBuf;

/// Write man pages and shell completions below a directory (share/ of a prefix).
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Gets man/man1, bash-completion/completions, zsh/site-functions, fish/vendor_completions.d.
    #[arg(value_name = "DIR", required_unless_present = "complete")]
    pub dir: Option<PathBuf>,
    /// Print the words that continue this command line, one a line.
    #[arg(long, value_name = "LINE", allow_hyphen_values = true)]
    pub complete: Option<String>,
}
