//! `latlab doctor`: its options.

use std::path::PathBuf;
use std::time::Duration;

/// Can this machine measure and trace well, and what is in the way?
///
/// Looks at clocks, timers, privileges, the kernel and its tracers, and at what
/// disturbs a measurement right now. Changes nothing, and needs no root: what
/// it could not see is said.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Put back every setting that a latlab that was killed has left changed.
    #[arg(long, conflicts_with = "kernel_config")]
    pub restore: bool,
    /// Print the options that tracing and low latency need and a kernel's .config has not, with
    /// reasons and the commands that build it (default: the running kernel's).
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub kernel_config: Option<Option<PathBuf>>,
    /// With --kernel-config: the configuration of the Debian PREEMPT_RT kernel that `latlab image` takes for this board.
    #[cfg(feature = "host")]
    #[arg(long, value_name = "BOARD", requires = "kernel_config")]
    pub board: Option<String>,
    /// How long to look for disturbances.
    #[arg(short = 'D', long, value_name = "TIME", default_value = "2s", value_parser = super::time::seconds)]
    pub duration: Duration,
}
