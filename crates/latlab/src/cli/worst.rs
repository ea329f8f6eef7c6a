//! `latlab worst`: the search for the worst wake-up.

use clap::{Args as ClapArgs, ValueEnum};
use latlab_model::worst::Method;
use std::path::PathBuf;

/// Search for the worst wake-up of a machine in virtual time, over the times at which faults and loads begin.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = super::examples::WORST)]
pub struct Args {
    /// The machine (latlab vm list) with its options; icount=0 is its default here.
    #[arg(value_name = "MACHINE", required_unless_present = "replay")]
    pub machine: Option<String>,
    /// Fault whose time is searched, e.g. irqs-off:us=30,every=1ms (docs/reference/faults.md); may be repeated.
    #[arg(long = "fault", value_name = "FAULT")]
    pub faults: Vec<String>,
    /// Load whose rounds are begun at searched times (latlab load --list); may be repeated.
    #[arg(long = "load", value_name = "LOAD")]
    pub loads: Vec<String>,
    /// Wake-ups of the search.
    #[arg(long, short = 'l', value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub loops: u64,
    /// How times are chosen.
    #[arg(long, value_name = "METHOD", default_value = "combined")]
    pub method: ChosenMethod,
    /// Start of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// SCHED_FIFO priority of the measured task.
    #[arg(long, short = 'p', value_name = "N", default_value_t = 80, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub priority: u32,
    /// Leave out the random wake-ups that the search is compared with.
    #[arg(long)]
    pub no_random: bool,
    /// Repeat the search of this run: the worst wake-up must have the same latency, else exit code 1.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["machine", "faults", "loads", "loops", "method", "seed", "priority", "no_random", "kernel", "modules_from", "initrd", "dtb"])]
    pub replay: Option<PathBuf>,
    /// Record the functions of the worst wake-up (needs a C compiler; see latlab vm path).
    #[arg(long)]
    pub path: bool,
    /// Compute an upper bound from what is executed meanwhile (needs a C compiler; see latlab vm bound).
    #[arg(long, conflicts_with = "path")]
    pub bound: bool,
    /// A kernel of your own (as for latlab vm run).
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<PathBuf>,
    /// The modules of your kernel.
    #[arg(long, value_name = "FOLDER")]
    pub modules_from: Option<PathBuf>,
    /// A RAM disk of your own.
    #[arg(long, value_name = "FILE")]
    pub initrd: Option<PathBuf>,
    /// A device tree of your own.
    #[arg(long, value_name = "FILE")]
    pub dtb: Option<PathBuf>,
}

/// How times are chosen.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ChosenMethod {
    /// Scan and climb in turns.
    Combined,
    /// One input after the other in steps, then bisection.
    Scan,
    /// Random changes of 16 ns to 0.5 ms, kept unless the latency falls.
    Climb,
    /// At random.
    Random,
}

impl From<ChosenMethod> for Method {
    fn from(chosen: ChosenMethod) -> Self {
        match chosen {
            ChosenMethod::Combined => Self::Combined,
            ChosenMethod::Scan => Self::Scan,
            ChosenMethod::Climb => Self::Climb,
            ChosenMethod::Random => Self::Random,
        }
    }
}
