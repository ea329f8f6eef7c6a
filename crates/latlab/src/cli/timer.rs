//! `latlab timer`: its options.

use anyhow::bail;
use std::path::PathBuf;
use std::time::Duration;

/// When do timer interrupts come, and what do they run?
///
/// Counts interrupts and softirqs, measures the tick and whether it stops, and records meanwhile
/// what timers do: each one's way from its setting over the interrupt and the softirq to its
/// function, how late it was, what it cost. With FILE (a trace.dat or ftrace's text) only the latter.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "timer")]
pub struct Args {
    /// A trace to analyse instead of this machine.
    #[arg(value_name = "FILE", conflicts_with_all = ["duration", "top", "no_trace"])]
    pub file: Option<PathBuf>,
    /// For how long (`10s`; a bare number is seconds).
    #[arg(short = 'D', long, value_name = "TIME", default_value = "5s", value_parser = super::sched::duration)]
    pub duration: Duration,
    /// Distance of two looks at the counters.
    #[arg(short = 'i', long, value_name = "TIME", default_value = "1s", value_parser = super::sched::duration)]
    pub interval: Duration,
    /// Show the rates until Ctrl-C (or for -D), like top; nothing is recorded.
    #[arg(long)]
    pub top: bool,
    /// Count only, record nothing.
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
    /// Which part of the file.
    ///
    /// # Errors
    /// One sentence that names the option.
    pub fn select(&self) -> anyhow::Result<latlab_trace::Select> {
        let time = |option: &str, text: &Option<String>| {
            text.as_deref().map(|t| super::sched::seconds(option, t)).transpose()
        };
        let (from, to) = (time("--from", &self.from)?, time("--to", &self.to)?);
        if let (Some(from), Some(to)) = (from, to)
            && from > to
        {
            bail!("--from is later than --to");
        }
        Ok(latlab_trace::Select { from, to, ..latlab_trace::Select::default() })
    }
}
