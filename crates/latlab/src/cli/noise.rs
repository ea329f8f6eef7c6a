//! `latlab noise`: its options.

use anyhow::bail;
use clap::ValueEnum;
use latlab_model::noise::{NoiseTracer, QueueModel};
use latlab_model::units::CpuId;
use std::time::Duration;

/// Measure OS noise: what interrupts a busy loop, by source.
///
/// A loop on each CPU reads the clock without pause; a longer distance between two readings is an
/// interruption. Events of the same time tell its source: interrupt, softirq, thread, NMI, or nothing of this
/// kernel (firmware, hypervisor, hardware). Options have the meaning and defaults of rtla osnoise.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = super::examples::NOISE)]
#[group(id = "noise")]
pub struct Args {
    /// CPUs, such as 1,3-5 (default: all that are permitted).
    #[arg(short = 'c', long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Duration (`10s`; a bare number is seconds).
    #[arg(short = 'D', long, short_alias = 'd', value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub duration: Duration,
    /// From one window to the next, in µs (10000 to 10000000).
    #[arg(short = 'p', long, value_name = "US", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(10_000..=10_000_000))]
    pub period: u64,
    /// Length of a window, in µs (default: 95 % of the period, which is also the most; 50 % with --by hwlat).
    #[arg(short = 'r', long, value_name = "US")]
    pub runtime: Option<u64>,
    /// Shortest distance that counts as an interruption, in µs.
    #[arg(short = 'T', long, value_name = "US", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub threshold: u64,
    /// Stop at a single interruption longer than this, in µs, with exit code 2.
    #[arg(short = 's', long, value_name = "US")]
    pub stop: Option<u64>,
    /// Stop when the interruptions of a window add up to more than this, in µs, with exit code 2.
    #[arg(short = 'S', long, value_name = "US")]
    pub stop_total: Option<u64>,
    /// Policy of the loops: o:0 (ordinary, the default) or f:PRIORITY (SCHED_FIFO, 1 to 98).
    #[arg(short = 'P', long, value_name = "POLICY", value_parser = priority)]
    pub priority: Option<Priority>,
    /// Model a queue that the loop serves: packets per second, ns to serve one, and the longest queue permitted
    /// (exit code 2 beyond it), such as 1000000:500:1024.
    #[arg(long, value_name = "RATE:NS[:MAX]", value_parser = queue)]
    pub queue: Option<QueueModel>,
    /// What measures: a loop in user space, or a tracer of the kernel that has it.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = By::Loop)]
    pub by: By,
    /// Load during the measurement (see latlab load --list); may be repeated.
    #[arg(long, value_name = "LOAD")]
    pub load: Vec<latlab_sys::load::LoadSpec>,
    /// Show the sources until Ctrl-C (or for -D), like top.
    #[arg(long)]
    pub top: bool,
    /// Measure without events: the sources are unknown.
    #[arg(long)]
    pub no_trace: bool,
    /// Format of the output.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Latlab)]
    pub format: Format,
}

/// Formats of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The report.
    #[default]
    Latlab,
    /// The table of rtla osnoise top.
    Rtla,
    /// The rows of oslat.
    Oslat,
    /// The text of hwlatdetect.
    Hwlatdetect,
}

/// What measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// A loop in user space, and events.
    #[default]
    Loop,
    /// The kernel's osnoise tracer: a loop in the kernel.
    Osnoise,
    /// The kernel's hwlat tracer: a loop with interrupts disabled.
    Hwlat,
}

/// Policy of the loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority(pub Option<u32>);

fn priority(text: &str) -> anyhow::Result<Priority> {
    let number = |n: &str| n.parse::<u32>().ok().filter(|n| (1..=98).contains(n));
    match text.split_once(':') {
        Some(("o", "0")) => Ok(Priority(None)),
        Some(("f", n)) if number(n).is_some() => Ok(Priority(number(n))),
        None if number(text).is_some() => Ok(Priority(number(text))),
        _ => bail!("expected o:0, or f:PRIORITY with a priority from 1 to 98"),
    }
}

fn queue(text: &str) -> anyhow::Result<QueueModel> {
    let numbers: Option<Vec<u64>> = text.split(':').map(|n| n.parse().ok()).collect();
    let (per_second, service_ns, limit) = match numbers.as_deref() {
        Some([rate, ns]) => (*rate, *ns, None),
        Some([rate, ns, limit]) => (*rate, *ns, Some(*limit)),
        _ => bail!(
            "expected packets per second, ns for each, and the longest queue, such as 1000000:500:1024"
        ),
    };
    let busy = per_second.checked_mul(service_ns).filter(|b| *b > 0 && *b < 1_000_000_000);
    if busy.is_none() {
        bail!("{per_second} packets per second of {service_ns} ns each are not served by one CPU");
    }
    Ok(QueueModel { per_second, service_ns, limit })
}

fn duration(text: &str) -> anyhow::Result<Duration> {
    let bounds = Duration::from_millis(10)..=Duration::from_secs(30 * 86_400);
    super::time::seconds_within(text, bounds, "from 10ms to 30days")
}

/// What is measured.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Config {
    /// CPUs, rising.
    pub cpus: Vec<CpuId>,
    /// Duration, ns.
    pub duration_ns: u64,
    /// From one window to the next, ns.
    pub period_ns: u64,
    /// Length of a window, ns.
    pub runtime_ns: u64,
    /// Threshold, ns.
    pub threshold_ns: u64,
    /// Limit of a single interruption, ns.
    pub stop_ns: Option<u64>,
    /// Limit of a window, ns.
    pub stop_total_ns: Option<u64>,
    /// SCHED_FIFO priority.
    pub priority: Option<u32>,
    /// Whether events are recorded.
    pub trace: bool,
    /// The kernel's tracer that measures; `None`: a loop in user space.
    pub tracer: Option<NoiseTracer>,
    /// A queue that the loop serves.
    pub queue: Option<QueueModel>,
    /// Loads.
    pub load: Vec<String>,
}

impl Args {
    /// The configuration, for a process that may use these CPUs.
    ///
    /// # Errors
    /// One sentence that names the option.
    pub fn config(&self, allowed: &[CpuId]) -> anyhow::Result<Config> {
        let cpus = super::cpus::permitted("--cpus", self.cpus.as_deref(), allowed)?;
        let tracer = match self.by {
            By::Loop => None,
            By::Osnoise => Some(NoiseTracer::Osnoise),
            By::Hwlat => Some(NoiseTracer::Hwlat),
        };
        if tracer.is_some() && self.no_trace {
            bail!("--no-trace: not possible with --by, which traces");
        }
        if tracer == Some(NoiseTracer::Hwlat) && self.priority.is_some() {
            bail!("--priority: the loop of --by hwlat has interrupts disabled, not a priority");
        }
        // A pause in each period: events are read in it, and a loop of real-time priority, or with
        // interrupts disabled, lets others run.
        let share = if tracer == Some(NoiseTracer::Hwlat) { 50 } else { 95 };
        let most = self.period * share / 100;
        let runtime = self.runtime.unwrap_or(most);
        if runtime < 1_000 || runtime > most {
            bail!("--runtime {runtime}: expected from 1000 to {most} µs, {share} % of the period");
        }
        Ok(Config {
            cpus,
            duration_ns: u64::try_from(self.duration.as_nanos()).unwrap_or(u64::MAX),
            period_ns: self.period * 1_000,
            runtime_ns: runtime * 1_000,
            threshold_ns: self.threshold * 1_000,
            stop_ns: self.stop.map(|us| us.saturating_mul(1_000)),
            stop_total_ns: self.stop_total.map(|us| us.saturating_mul(1_000)),
            priority: self.priority.and_then(|p| p.0),
            trace: !self.no_trace,
            queue: self.queue,
            tracer,
            load: self.load.iter().map(ToString::to_string).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn config(words: &str) -> Result<Config, String> {
        let line = Line::try_parse_from(std::iter::once("noise").chain(words.split_whitespace()));
        let line = line.map_err(|e| e.to_string())?;
        line.args.config(&[CpuId(0), CpuId(1)]).map_err(|e| e.to_string())
    }

    #[test]
    fn a_pause_stays_in_each_period() {
        assert_eq!(config("").unwrap().runtime_ns, 950_000_000);
        assert!(config("-p 100000 -r 99000").unwrap_err().contains("95000"));
        assert!(config("-c 7").unwrap_err().contains("CPU 7"));
        assert_eq!(config("-P f:80 -c 1").unwrap().priority, Some(80));
        assert!(config("--queue 1000000:1000").unwrap_err().contains("not served"));
        assert_eq!(config("--queue 1000000:500:64").unwrap().queue.unwrap().limit, Some(64));
        assert_eq!(config("--by hwlat").unwrap().runtime_ns, 500_000_000);
        assert!(config("--by hwlat -r 600000").unwrap_err().contains("50 %"));
        assert!(config("--by osnoise --no-trace").is_err() && config("--by hwlat -P f:9").is_err());
        assert!(config("-P f:99").is_err() && config("-P d:1:2").is_err());
    }
}
