//! `latlab profile`: its options.

use std::path::PathBuf;

/// List the functions of a trace by time and number of calls.
///
/// FILE is a trace.dat or ftrace's text, of the tracers function_graph or function, or of events with
/// kernel stacks. With FILE2 the functions that take more or less time there, by the number of
/// calls and by the length of each.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = super::examples::PROFILE)]
#[group(id = "profile")]
pub struct Args {
    /// A trace.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// A trace to compare with it.
    #[arg(value_name = "FILE2")]
    pub other: Option<PathBuf>,
    /// Begin at this time, in seconds as printed.
    #[arg(long, value_name = "SECONDS", conflicts_with = "other")]
    from: Option<String>,
    /// End at this time, in seconds as printed.
    #[arg(long, value_name = "SECONDS", conflicts_with = "other")]
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
