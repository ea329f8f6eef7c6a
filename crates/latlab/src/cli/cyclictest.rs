//! Options that `latlab wakeup` has for the sake of cyclictest's command lines.
//!
//! Ordinary comments: documentation comments become help texts in the program; those of hidden options are
//! never shown, and the board build is limited in size.

use serde::Serialize;
use std::path::PathBuf;

// They are not in `--help`; docs/reference/wakeup.md has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, clap::Args)]
#[group(skip)]
pub struct Args {
    // Draw the live display only when a new maximum was measured.
    #[arg(short = 'M', long = "refresh_on_max", visible_alias = "refresh-on-max", hide = true)]
    pub refresh_on_max: bool,
    // With -v: of each N values of a thread print the largest.
    #[arg(short = 'o', long, value_name = "N", hide = true)]
    pub oscope: Option<u64>,
    // Print the resolution of the clock first.
    #[arg(short = 'R', long, hide = true)]
    pub resolution: bool,
    // Record wake-ups later than this many µs and print them at the end.
    #[arg(long, value_name = "US", hide = true)]
    pub spike: Option<u64>,
    // Record at most so many of them.
    #[arg(long, value_name = "N", default_value_t = 1024, hide = true)]
    pub spike_nodes: usize,
    // Count system-management interrupts.
    #[arg(long, hide = true)]
    pub smi: bool,
    // Create a named pipe that gives each reader the values so far.
    #[arg(short = 'F', long, value_name = "PATH", hide = true)]
    pub fifo: Option<PathBuf>,
}

impl Args {
    // Whether one of them was given; a number of spikes alone asks for nothing.
    pub fn is_used(&self) -> bool {
        *self != Self { spike_nodes: self.spike_nodes, ..Self::default() }
    }
}
