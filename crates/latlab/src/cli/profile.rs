//! `latlab profile`: its options.

use std::path::PathBuf;
use std::time::Duration;

/// What is recorded where no file is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum With {
    /// Calls with their lengths (function_graph).
    #[default]
    Graph,
    /// Calls without lengths (function).
    Function,
    /// Kernel stacks of switches and timer interrupts, a sample of what runs; with kernels that have no tracers.
    Stacks,
}

/// List the functions of a trace, or of what runs now, by time and number of calls.
///
/// FILE is a trace.dat or ftrace's text, of the tracers function_graph or function, or of events with
/// kernel stacks. With FILE2 the functions that take more or less time there, by the number of
/// calls and by the length of each. Without FILE the kernel's functions are recorded for 5 s, or
/// while COMMAND runs; the recording is not kept.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = super::examples::PROFILE)]
#[group(id = "profile")]
pub struct Args {
    /// A trace.
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// A trace to compare with it.
    #[arg(value_name = "FILE2", requires = "file")]
    pub other: Option<PathBuf>,
    /// Record for this time (default: 5s; with COMMAND until it ends).
    #[arg(short = 'D', long, value_name = "TIME", value_parser = super::time::seconds, conflicts_with = "file")]
    pub duration: Option<Duration>,
    /// What is recorded.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t, conflicts_with = "file")]
    pub with: With,
    /// Record the calls of this function and what it calls; may be repeated.
    #[arg(short = 'g', long = "function", value_name = "FUNCTION", conflicts_with = "file")]
    pub functions: Vec<String>,
    /// Record while this command runs.
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "file")]
    pub command: Vec<String>,
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
