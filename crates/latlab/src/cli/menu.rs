//! `latlab menu`: the command lines of the menu, for tests.

/// Print the command lines of the menu.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// With parameters for a short measurement.
    #[arg(long)]
    pub brief: bool,
}
