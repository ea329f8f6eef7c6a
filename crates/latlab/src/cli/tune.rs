//! `latlab tune`: its options.

use clap::ValueEnum;
use latlab_model::check::Requirement;
use std::time::Duration;

/// Try settings and measure which shorten wake-up latency.
///
/// Blocks with each setting and without any alternate in random order. What a setting does is claimed only
/// where the blocks decide, with a probability of a false claim of at most 5 % over all settings. Every setting is
/// restored, unless --apply keeps those that improve.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = super::examples::TUNE)]
#[group(id = "tune")]
pub struct Args {
    /// Setting to try (see --list), or several at once with `+`; may be repeated (default: all of the list that this
    /// machine has).
    #[arg(long = "try", value_name = "NAME=VALUE")]
    pub tries: Vec<String>,
    /// Try all of them at once too, and test whether their effects add up.
    #[arg(long)]
    pub together: bool,
    /// Try combinations of the settings (2 to 16) instead of one at a time: a fractional factorial design, of which each
    /// block tells about every setting and pair.
    #[arg(long, conflicts_with_all = ["together", "eliminate"])]
    pub factorial: bool,
    /// List the settings, those of this machine with their values.
    #[arg(long)]
    pub list: bool,
    /// Rounds: blocks of each setting, or with --factorial of each combination (4 to 100).
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(4..=100))]
    pub rounds: u32,
    /// Measure a setting no longer once it is decided: the blocks are judged two or three times (from 8 rounds on).
    #[arg(long)]
    pub eliminate: bool,
    /// Begin no round that would end after this time (`10m`; a bare number is seconds).
    #[arg(short = 'D', long, value_name = "TIME", value_parser = super::sched::duration)]
    pub duration: Option<Duration>,
    /// Length of a block (`2s`; a bare number is seconds).
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = super::sched::duration)]
    pub block: Duration,
    /// Quantile of latency that counts, in per cent (50 to 99.99).
    #[arg(long, value_name = "PERCENT", default_value_t = 99.0)]
    pub quantile: f64,
    /// Interval of the wake-ups, in µs.
    #[arg(short = 'i', long, value_name = "US", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    pub interval: u64,
    /// CPUs whose wake-ups are measured, such as 1 or 2-3 (default: all that are permitted).
    #[arg(short = 'a', long, value_name = "LIST")]
    pub affinity: Option<String>,
    /// SCHED_FIFO priority of the measuring threads; 0: ordinary tasks.
    #[arg(short = 'p', long, value_name = "N", default_value_t = 80, value_parser = clap::value_parser!(u32).range(0..=98))]
    pub priority: u32,
    /// Load during the measurement (see latlab load --list); may be repeated.
    #[arg(long, value_name = "LOAD")]
    pub load: Vec<latlab_sys::load::LoadSpec>,
    /// Keep the settings that improve.
    #[arg(long)]
    pub apply: bool,
    /// Seed of the order.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Format of the output.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Latlab)]
    pub format: Format,
    /// What a board cannot do alone.
    #[cfg(feature = "host")]
    #[command(flatten)]
    pub host: Host,
}

/// Options of machines that are booted, requirements and benchmarks.
#[cfg(feature = "host")]
#[derive(Clone, Debug, clap::Args)]
pub struct Host {
    /// Try boot parameters and settings in a machine of `latlab vm`, which is booted for each block (`x86_64-rt,smp=2`), or
    /// on a board whose kernel kexec starts again (`ssh://root@board`).
    #[arg(long, value_name = "MACHINE", value_parser = machine)]
    pub boot: Option<String>,
    /// Fault in the machine of --boot (see latlab vm run --fault); may be repeated.
    #[arg(long, value_name = "FAULT", requires = "boot")]
    pub fault: Vec<String>,
    /// Seconds between a boot of --boot and its first block, for what kernel threads and services still do after the boot
    /// (default: 10 in virtual time, 30 on a board, otherwise 5).
    #[arg(long, value_name = "SECONDS", requires = "boot", value_parser = clap::value_parser!(u64).range(0..=600))]
    pub settle: Option<u64>,
    /// A requirement of wake-up latency, as in the files of latlab check (`p99.9 < 80 us, under vm:128M`): its quantile, or
    /// the maximum, is the response, and the blocks that meet it are counted.
    #[arg(long, value_name = "REQUIREMENT", conflicts_with = "quantile")]
    pub require: Option<String>,
    /// The same, read.
    #[arg(skip)]
    pub requirement: Option<Requirement>,
    /// Measure this benchmark in each block too, for side effects (see latlab bench --list); may be repeated.
    #[arg(long, value_name = "NAME")]
    pub bench: Vec<String>,
}

impl Args {
    /// The machine that is booted.
    pub fn boot(&self) -> Option<&str> {
        #[cfg(feature = "host")]
        return self.host.boot.as_deref();
        #[cfg(not(feature = "host"))]
        None
    }

    /// The requirement whose statistic is the response.
    pub fn requirement(&self) -> Option<&Requirement> {
        #[cfg(feature = "host")]
        return self.host.requirement.as_ref();
        #[cfg(not(feature = "host"))]
        None
    }
}

/// Formats of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The report.
    #[default]
    Latlab,
    /// A file of sysctl.d with the settings that improve.
    Sysctl,
    /// A profile of tuned with the settings that improve.
    Tuned,
    /// The boot parameters that improve.
    Cmdline,
    /// A file of systemd's tmpfiles.d with the settings that improve.
    Tmpfiles,
    /// Tasks of Ansible with the settings and boot parameters that improve.
    Ansible,
}

#[cfg(feature = "host")]
/// A machine by its name (`vm:` before it is what other commands need), or a board.
fn machine(text: &str) -> anyhow::Result<String> {
    if text.starts_with("ssh://") {
        latlab_target::Target::parse(text)?;
        return Ok(text.to_owned());
    }
    let name = text.strip_prefix("vm:").unwrap_or(text);
    latlab_target::Target::parse(&["vm:", name].concat())?;
    Ok(name.to_owned())
}
