//! `latlab report`: its options.

use super::trace_choice::Choice;
use std::path::PathBuf;

/// Show a saved run, or print a trace.
///
/// PATH is a run (its directory or run.json), a trace.dat (version 6 or 7, of
/// trace-cmd or of latlab), or ftrace's text (`trace`, `trace_pipe`, the output
/// of `trace-cmd report`).
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = super::examples::REPORT)]
pub struct Args {
    /// A run, a trace.dat, or ftrace's text.
    pub path: PathBuf,
    /// Write the report as one self-contained HTML file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write every plot as an SVG file into this directory.
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
    /// Write every plot as a PNG file into this directory.
    #[cfg(feature = "png")]
    #[arg(long, value_name = "DIR")]
    pub png: Option<PathBuf>,

    #[command(flatten)]
    pub choice: Choice,
    /// Traces: only events of these tasks (pids, with commas).
    #[arg(short = 'P', long, value_name = "LIST", value_delimiter = ',')]
    pub pid: Vec<i32>,
    /// Traces: count events instead of printing them.
    #[arg(long)]
    pub stat: bool,
    /// Traces: how the file is laid out, instead of its events: sections, options, data of each CPU.
    #[cfg(feature = "host")]
    #[arg(long, conflicts_with_all = ["stat", "follow", "html", "svg"])]
    pub dump: bool,
    /// Traces: go on with what a running recording writes, until it ends.
    #[arg(long, conflicts_with_all = ["stat", "html", "svg"])]
    pub follow: bool,
    /// Traces: every field as name=value, without the kernel's text.
    #[arg(short = 'R', long)]
    pub raw: bool,
    /// Traces: the kernel's own text instead of that of trace-cmd's plug-ins.
    #[arg(short = 'N', long, conflicts_with = "raw")]
    pub no_plugins: bool,
    /// Traces: the latency column (interrupts off, need for a switch, context, preemption).
    #[arg(short = 'l', long)]
    pub latency: bool,
    /// Traces: time stamps to the nanosecond.
    #[arg(short = 't', long)]
    pub nanoseconds: bool,
    /// Traces: number of formatting threads (default: one for each CPU, at most 8).
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}
