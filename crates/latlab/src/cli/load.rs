//! `latlab load-worker` (hidden): one worker of a built-in load, as its own process.

use latlab_sys::load::Worker;

/// One worker of a built-in load; runs until its standard input ends.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// `cpu`, or `memory:BYTES:STRIDE`.
    #[arg(value_name = "WORKER")]
    pub worker: Worker,
}
