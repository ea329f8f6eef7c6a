//! `latlab search-worker`: the search of `latlab worst`, in the machine. Hidden.
//!
//! Ordinary comments: documentation comments become help texts in the program; those of hidden options are
//! never shown, and the board build is limited in size.

use clap::Args;

// Search, or do rounds of a load.
#[derive(Debug, Args)]
pub struct SearchArgs {
    // What to search, as JSON.
    #[arg(default_value = "{}")]
    pub plan: String,
    // Random wake-ups after the search, in place of the plan's: a number of always as many digits, so that
    // the command line takes the same room with and without them.
    #[arg(long, default_value_t = 0)]
    pub random: u64,
    // Do rounds of this load at the times that standard input has.
    #[arg(long)]
    pub round: Option<String>,
}
