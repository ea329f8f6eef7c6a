//! `latlab memory`: its options.

use std::path::PathBuf;

/// Measure caches, line size, ways, TLBs and the cost of a miss.
///
/// With --from, existing curves are analysed instead: output of lmbench's
/// lat_mem_rd, or a run of latlab.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = super::examples::MEMORY)]
pub struct Args {
    /// Less than ten seconds: fewer points, arrays up to 64 MiB.
    #[arg(long)]
    pub quick: bool,
    /// Read curves from these files instead of measuring (lat_mem_rd's text, run.json or a run's directory).
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["quick", "duration", "cpu", "size"])]
    pub from: Vec<PathBuf>,
    /// Largest array in MiB (default: four times the largest cache that sysfs reports, 64 to 256, at most a quarter of free memory).
    #[arg(short = 's', long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(4..=2048))]
    pub size: Option<u32>,
    /// Stop after this time, whatever the confidence (`30s`).
    #[arg(short = 'D', long, value_name = "TIME", value_parser = super::time::seconds)]
    pub duration: Option<std::time::Duration>,
    /// CPU to measure on (default: the last that is allowed).
    #[arg(short = 'a', long = "affinity", value_name = "CPU")]
    pub cpu: Option<u32>,
    /// Seed of the access orders.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Measure context switches in rings of processes with working sets, and find the knees
    /// (macro: 2 to 96 processes × 0 to 32 KiB; micro: 2 to 35 × 0 to 32 KiB).
    #[arg(long = "switch", value_name = "PLAN", value_parser = ["macro", "micro"], conflicts_with_all = ["from", "quick", "size", "format"])]
    pub switch: Option<String>,
    /// Numbers of processes in place of the plan's (`2,4,8`, `2..35:+1`).
    #[arg(long, value_name = "LIST", requires = "switch")]
    pub procs: Option<String>,
    /// Working sets in place of the plan's (`0,2K,24K`); 0 is needed for knees.
    #[arg(long, value_name = "LIST", requires = "switch")]
    pub working_sets: Option<String>,
    /// Write dirty pages and drop the page cache, dentries and inodes before each round (root).
    #[arg(long, requires = "switch")]
    pub cold: bool,
    /// Scheduling class of the processes; fifo keeps other processes of the machine out of the switches.
    #[arg(long, value_name = "CLASS", default_value = "other", value_parser = ["other", "fifo"], requires = "switch")]
    pub class: String,
    /// Output format of another tool: columns of lmbench's lat_mem_rd.
    #[arg(long, value_name = "TOOL", value_parser = ["lmbench"])]
    pub format: Option<String>,
}
