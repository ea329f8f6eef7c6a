//! `latlab timer`: its options.

use std::path::PathBuf;
use std::time::Duration;

/// Measure timer interrupts, the tick and timer functions.
///
/// Counts interrupts and softirqs, measures the tick and whether it stops, and records the life
/// cycle of each timer: setting, interrupt, softirq, function, with lateness and cost. With FILE
/// (a trace.dat or ftrace's text) only the life cycles.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = super::examples::TIMER)]
#[group(id = "timer")]
pub struct Args {
    /// A trace to analyse instead of this machine.
    #[arg(value_name = "FILE", conflicts_with_all = ["duration", "top", "no_trace"])]
    pub file: Option<PathBuf>,
    /// Duration (`10s`; a bare number is seconds).
    #[arg(short = 'D', long, value_name = "TIME", default_value = "5s", value_parser = super::sched::duration)]
    pub duration: Duration,
    /// Interval between two readings of the counters.
    #[arg(short = 'i', long, value_name = "TIME", default_value = "1s", value_parser = super::sched::duration)]
    pub interval: Duration,
    /// Show the rates until Ctrl-C (or for -D), like top, without recording.
    #[arg(long)]
    pub top: bool,
    /// Read counters only, without recording.
    #[arg(long)]
    pub no_trace: bool,
    /// FILE: begin at this time, in seconds as printed.
    #[arg(long, value_name = "SECONDS")]
    from: Option<String>,
    /// FILE: end at this time, in seconds as printed.
    #[arg(long, value_name = "SECONDS")]
    to: Option<String>,
}

impl Args {
    /// The selected part of the file.
    ///
    /// # Errors
    /// One sentence that names the option.
    pub fn select(&self) -> anyhow::Result<latlab_trace::Select> {
        super::sched::time_range(self.from.as_deref(), self.to.as_deref())
    }
}
