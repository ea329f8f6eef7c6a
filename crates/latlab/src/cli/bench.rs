//! `latlab bench`: its options.

use std::path::PathBuf;

/// Measure what system calls, switches, messages and processes cost.
///
/// NAME is a probe (`syscall.read`), a family (`syscall`) or an lmbench program
/// (`lat_syscall`, `lat_syscall null`). Values for its parameters follow a
/// colon: `syscall.select:fds=10|100,kind=tcp`. Without NAME the default suite runs.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = super::examples::BENCH)]
pub struct Args {
    /// Probes, families or lmbench programs.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// List the probes, or those of NAME, by family; --details: what each measures, its parameters, lmbench's name.
    #[arg(long)]
    pub list: bool,
    /// Run every probe with every size.
    #[arg(long)]
    pub full: bool,
    /// Stop after this time, whatever the precision (`30s`, `5m`).
    #[arg(short = 'D', long, value_name = "TIME", value_parser = super::time::seconds)]
    pub duration: Option<std::time::Duration>,
    /// Stop when half the 95% interval is this share of the median.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    pub precision: f64,
    /// Time N single operations of each NAME in place of batches: minimum, mean, standard deviation, maximum, histogram.
    #[arg(long, value_name = "N", requires = "names", conflicts_with_all = ["full", "precision", "against", "format"], value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub each: Option<u64>,
    /// Measure what goes over a network against `latlab bench --serve` on this machine.
    #[arg(long, value_name = "NAME[:PORT]")]
    pub host: Option<String>,
    /// Answer such measurements of other machines until Ctrl-C, on this address (default: 127.0.0.1, port 27380).
    #[cfg(feature = "host")]
    #[arg(long, value_name = "ADDRESS[:PORT]", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["names", "full", "host", "list", "each", "against", "format"])]
    pub serve: Option<String>,
    /// CPU to measure on (default: the last that is allowed; `any`: not bound).
    #[arg(short = 'a', long = "affinity", value_name = "CPU")]
    pub cpu: Option<String>,
    /// Measure on N CPUs at the same time, one process on each; results are those of a single process.
    #[cfg(feature = "host")]
    #[arg(short = 'P', long, value_name = "N", conflicts_with = "each")]
    pub parallel: Option<usize>,
    /// Output format: text, lmbench's line formats, or CSV.
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "lmbench", "csv"])]
    pub format: String,
    /// Compare with a published machine (`--against list` names them).
    #[arg(long, value_name = "MACHINE")]
    pub against: Vec<String>,
    /// Seed of the order in which processes are started.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Directory for the files of the file probes (default: the system's temporary directory).
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Run one trial described by this JSON; used by the suite itself.
    #[arg(long, hide = true, value_name = "JSON")]
    pub slice: Option<String>,
}
