//! `latlab doctor`: its options.

use std::path::PathBuf;
use std::time::Duration;

/// Check whether this machine can measure and trace.
///
/// Checks clocks, timers, privileges, the kernel and its tracers, and current
/// interference. Changes nothing and needs no root; what it cannot read is
/// reported as inconclusive.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = super::examples::DOCTOR)]
pub struct Args {
    /// Restore every setting that a killed latlab left modified.
    #[arg(long, conflicts_with = "kernel_config")]
    pub restore: bool,
    /// Print the options that tracing and low latency need and a kernel's .config lacks, with
    /// reasons and build commands (default: the running kernel's).
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub kernel_config: Option<Option<PathBuf>>,
    /// With --kernel-config: use the configuration of the Debian PREEMPT_RT kernel that `latlab image` installs for this board.
    #[cfg(feature = "host")]
    #[arg(long, value_name = "BOARD", requires = "kernel_config")]
    pub board: Option<String>,
    /// Check what virtual machines need instead (as latlab vm doctor).
    #[cfg(feature = "host")]
    #[arg(long, conflicts_with_all = ["restore", "kernel_config"])]
    pub vm: bool,
    /// Duration of the interference check.
    #[arg(short = 'D', long, value_name = "TIME", default_value = "2s", value_parser = super::time::seconds)]
    pub duration: Duration,
}
