//! `latlab wakeup`: the options of cyclictest, with its letters.

mod single;

use crate::cli::mechanisms::{self, By};
use crate::cli::{cpus, cyclictest};
use crate::outcome::HintExt;
use anyhow::{anyhow, bail};
use clap::{ArgAction, ValueEnum};
use latlab_model::cpulist;
use latlab_model::units::CpuId;
use latlab_model::wakeup::config::{Level, Policy, WakeupConfig};
use latlab_model::wakeup::mechanism::Mechanism;
use serde::Serialize;
use std::path::PathBuf;

/// Measure the wake-up latency of a periodic task.
///
/// Threads sleep to absolute times and read the clock when they wake. Every missed
/// period counts. Ends with -D, -l, -b or Ctrl-C; the run is saved in each case.
/// Option letters are those of cyclictest: -h is the histogram's limit.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = super::examples::WAKEUP)]
#[command(disable_help_flag = true, args_override_self = true)]
pub struct Args {
    /// Load during the measurement (`vm:128M`, `4*cpu@0`, `hdd:64M`, `"hackbench -l 1000"`: see latlab load --list); may be repeated.
    #[arg(long, value_name = "LOAD")]
    pub load: Vec<latlab_sys::load::LoadSpec>,
    /// Bind thread N to the Nth of these CPUs (`0-3,6`; without a list: of all CPUs).
    #[arg(short, long, value_name = "CPUS", num_args = 0..=1, default_missing_value = "")]
    affinity: Option<String>,
    /// Do not bind the threads: the kernel moves them among the CPUs.
    #[arg(long, conflicts_with = "affinity")]
    unbound: bool,
    /// Compute for this many µs of CPU time after each wake-up, as the task of an application does.
    #[arg(long, value_name = "US", default_value_t = 0, hide_default_value = true)]
    compute: u64,
    /// Number of threads (default and without a number: one for each CPU).
    #[arg(short, long, value_name = "N", num_args = 0..=1, default_missing_value = "0")]
    threads: Option<u32>,
    /// One bound thread for each CPU, all of the same priority and interval (the default).
    #[arg(short = 'S', long)]
    smp: bool,
    /// Real-time priority, 1 to 99 [default: 80].
    #[arg(short, long, value_name = "PRIORITY")]
    priority: Option<u32>,
    /// Scheduling policy of the measuring threads.
    #[arg(long, value_enum, ignore_case = true)]
    policy: Option<PolicyArg>,
    /// Give each further thread one priority less.
    #[arg(long)]
    priospread: bool,
    /// Interval of the first thread in µs.
    #[arg(short, long, value_name = "US", default_value_t = 1000)]
    interval: u64,
    /// Increment of the interval from thread to thread in µs.
    #[arg(short, long, value_name = "US", default_value_t = 0)]
    distance: u64,
    /// Wake all threads at the same time, each US after the one before (default: spread evenly).
    #[arg(short = 'A', long, value_name = "US", num_args = 0..=1, default_missing_value = "0")]
    aligned: Option<u64>,
    /// Duration (`10s`, `5m`, `1h`; a bare number is seconds).
    #[arg(short = 'D', long, value_name = "TIME")]
    duration: Option<String>,
    /// Number of wake-ups of each thread (0: no limit).
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    loops: u64,
    /// Lock all memory.
    #[arg(short, long)]
    mlockall: bool,
    /// No live display.
    #[arg(short, long)]
    quiet: bool,
    /// Print a histogram with 1 µs buckets up to US.
    #[arg(short = 'h', long, value_name = "US")]
    histogram: Option<u32>,
    /// As -h, with an additional column for all threads.
    #[arg(short = 'H', long, value_name = "US", conflicts_with = "histogram")]
    histofall: Option<u32>,
    /// Write the histogram of -h or -H to FILE, in cyclictest's format; with --format xenomai that of latency -g.
    #[arg(long, value_name = "FILE")]
    histfile: Option<PathBuf>,
    /// Write the result to FILE as cyclictest's --json does.
    #[arg(long, value_name = "FILE")]
    json_file: Option<PathBuf>,
    /// Print each value on stdout as `thread:cycle:latency` (cyclictest's -v), not with -q.
    #[arg(short, long, conflicts_with = "samples")]
    verbose: bool,
    /// Values in ns instead of µs, in the formats of other tools.
    #[arg(short = 'N', long)]
    nsecs: bool,
    /// Stop when a wake-up is later than this many µs; exit code 2.
    #[arg(short, long, value_name = "US")]
    breaktrace: Option<u64>,
    /// With -b: write a trace marker and stop the tracing that you started.
    #[arg(long, requires = "breaktrace")]
    tracemark: bool,
    /// Write every sample to a file (binary, see docs/reference/wakeup.md), or with `-` to stdout as text.
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
    /// Output format: our report, or that of another tool.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Measurement points of the latency, one or several; irq and kernel need the timerlat tracer.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "user")]
    level: Vec<LevelArg>,
    /// What wakes the task: clock_nanosleep (the default), nanosleep, timerfd, posix-timer, or another
    /// thread by futex, pi-mutex, pi-inversion, semaphore, sysv-semaphore, mqueue, eventfd, io_uring,
    /// pipe, socket, signal, udp; udp:HOST[:PORT], by the reply of a UDP echo on another machine; gpio:CHIP:OUT:IN, by
    /// an input that is wired to an output; `all` but these two. Several are measured in turns.
    #[arg(long, value_name = "MECHANISM,…", value_parser = mechanisms::parse)]
    by: Option<By>,
    /// Measure a task of a real-time core beside Linux by the core's program: latency, latmus.
    #[arg(long, value_enum, value_name = "CORE", conflicts_with = "by")]
    core: Option<mechanisms::CoreArg>,
    /// With --core: the program, with arguments that it needs in addition.
    #[arg(long, value_name = "COMMAND", requires = "core")]
    core_program: Option<String>,
    /// Hold /dev/cpu_dma_latency at this many µs, which excludes idle states with a longer exit
    /// latency [default: 0, where that is permitted].
    #[arg(long, visible_alias = "dma-latency", value_name = "US")]
    latency: Option<u32>,
    /// Leave the idle states as they are configured (cyclictest's --laptop and --default-system).
    #[arg(long, visible_aliases = ["laptop", "default-system"], conflicts_with = "latency")]
    idle_states: bool,
    /// Mean electrical power meanwhile, from energy counters or sensors that can be read.
    #[arg(long)]
    power: bool,
    /// Bind the thread that displays and writes files to this CPU, the first of a list.
    #[arg(long, value_name = "CPU")]
    mainaffinity: Option<String>,
    /// Take the lock in FILE after each wake-up; latency includes the wait for it (docs/reference/faults.md).
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    #[command(flatten)]
    pub cyclictest: cyclictest::Args,
    /// Print help.
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// The report of latlab.
    #[default]
    Latlab,
    /// As cyclictest 2.x.
    Cyclictest,
    /// As the histogram of `rtla timerlat hist`.
    Rtla,
    /// As Xenomai's latency.
    Xenomai,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PolicyArg {
    Fifo,
    Rr,
    #[value(alias = "normal")]
    Other,
    Batch,
    Idle,
    Deadline,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum LevelArg {
    /// In the timer interrupt's handler.
    Irq,
    /// In a kernel thread that the handler wakes.
    Kernel,
    /// In user space, after the sleep.
    User,
}

impl From<LevelArg> for Level {
    fn from(level: LevelArg) -> Self {
        match level {
            LevelArg::Irq => Self::Irq,
            LevelArg::Kernel => Self::Kernel,
            LevelArg::User => Self::User,
        }
    }
}

/// What was asked for, resolved.
#[derive(Clone, Debug, Serialize)]
pub struct Config {
    /// What to measure.
    pub measure: WakeupConfig,
    /// At which levels, from the interrupt outwards.
    pub levels: Vec<Level>,
    /// How to print.
    pub format: Format,
    /// Values in ns where the format has a choice.
    pub nanoseconds: bool,
    /// No live display.
    pub quiet: bool,
    /// A column over all threads in the histogram.
    pub histogram_total: bool,
    /// Electrical power is read.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub power: bool,
    /// Where every sample goes.
    pub samples: Option<PathBuf>,
    /// Every value goes to stdout, as cyclictest prints it.
    pub verbose: bool,
    /// Where cyclictest's histogram goes, if not to stdout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub histogram_file: Option<PathBuf>,
    /// Where cyclictest's JSON goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json_file: Option<PathBuf>,
    /// Program of the real-time core, where it was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_program: Option<String>,
    /// Loads meanwhile, as they were given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub load: Vec<String>,
    /// What cyclictest's command lines ask for besides.
    #[serde(skip_serializing_if = "is_unused")]
    pub cyclictest: cyclictest::Args,
}

fn is_unused(args: &cyclictest::Args) -> bool {
    !args.is_used()
}

impl Config {
    /// The unit of values in cyclictest's formats, ns.
    pub fn unit_ns(&self) -> u64 {
        if self.nanoseconds { 1 } else { 1_000 }
    }

    /// Whether stdout has every sample, in place of the report.
    pub fn samples_on_stdout(&self) -> bool {
        self.verbose || self.samples.as_deref().is_some_and(|path| path.as_os_str() == "-")
    }
}

/// Between two wake-ups at most, µs.
const LONGEST_US: u64 = 3_600_000_000;

impl Args {
    /// What was asked for. `allowed` are the CPUs that this process may use, `online` all that there are.
    ///
    /// # Errors
    /// One sentence that names the option.
    pub fn config(&self, allowed: &[CpuId], online: &[CpuId]) -> anyhow::Result<Config> {
        if self.interval == 0 {
            return Err(anyhow!("-i 0: the interval must be at least 1 µs"))
                .hint("give the interval in µs, such as -i 1000");
        }
        for (option, us) in [("-i", self.interval), ("-d", self.distance)] {
            if us > LONGEST_US {
                bail!("{option} {us}: at most {LONGEST_US} µs (an hour)");
            }
        }
        let (policy, priority) = self.policy_and_priority()?;
        let mut threads = self.placement(policy, allowed, online)?;
        let levels = self.levels(policy)?;
        let (timer, by) = match &self.by {
            None => (Mechanism::default(), None),
            Some(by) => self.mechanisms(by, policy, priority, &mut threads)?,
        };
        let core = self.core(policy, &levels, &mut threads)?;
        let verbose = self.verbose && !self.quiet;
        if self.cyclictest.oscope == Some(0) {
            return Err(anyhow!("-o 0: the number of values must be at least 1"))
                .hint("-o 10 prints the largest of ten");
        }
        let histogram_us = self.histogram_limit()?;
        let has_buckets = histogram_us.is_some() || self.format == Format::Xenomai;
        if self.histfile.is_some() && !has_buckets {
            return Err(anyhow!("--histfile needs a histogram (-h or -H)"))
                .hint("add -h 400: 1 µs buckets up to 400 µs");
        }
        let measure = WakeupConfig {
            level: levels.last().copied().unwrap_or_default(),
            policy,
            priority,
            priority_spread: self.priospread,
            threads,
            interval_ns: us(self.interval),
            distance_ns: us(self.distance),
            aligned_ns: self.aligned.map(us),
            compute_ns: us(self.compute),
            duration_ns: self.duration.as_deref().map(duration_ns).transpose()?,
            loops: (self.loops > 0).then_some(self.loops),
            lock_memory: self.mlockall,
            break_ns: self.breaktrace.map(us),
            trace_mark: self.tracemark,
            histogram_us,
            histogram_in_ns: self.nsecs,
            samples: self.samples.is_some() || verbose || self.cyclictest.spike.is_some(),
            dma_latency_us: (!self.idle_states && core.is_none())
                .then(|| self.latency.unwrap_or(0)),
            dma_latency_optional: self.latency.is_none(),
            main_cpu: self.main_cpu(allowed)?,
            shared_lock: self.lock.clone(),
            timer,
            by,
            core,
        };
        Ok(Config {
            measure,
            levels,
            format: self.format,
            nanoseconds: self.nsecs,
            quiet: self.quiet,
            histogram_total: self.histofall.is_some(),
            power: self.power,
            samples: self.samples.clone(),
            verbose,
            histogram_file: self.histfile.clone(),
            json_file: self.json_file.clone(),
            core_program: self.core_program.clone(),
            load: self.load.iter().map(ToString::to_string).collect(),
            cyclictest: self.cyclictest.clone(),
        })
    }

    fn main_cpu(&self, allowed: &[CpuId]) -> anyhow::Result<Option<CpuId>> {
        let Some(list) = self.mainaffinity.as_deref() else { return Ok(None) };
        match cpus::of_list("--mainaffinity", list, allowed)?.first() {
            Some(first) => Ok(Some(*first)),
            None => bail!("--mainaffinity {list}: no CPU in the list"),
        }
    }

    /// The levels, from the interrupt outwards, each once.
    fn levels(&self, policy: Policy) -> anyhow::Result<Vec<Level>> {
        let mut levels = self.level.clone();
        levels.sort_unstable();
        levels.dedup();
        let levels: Vec<Level> = levels.into_iter().map(Level::from).collect();
        let Some(below) = levels.iter().find(|&&l| l != Level::User) else { return Ok(levels) };
        let given = [
            (policy == Policy::Deadline, "--policy deadline"),
            (self.samples.is_some(), "--samples"),
            (self.verbose, "-v"),
            (self.cyclictest.spike.is_some(), "--spike"),
            (self.lock.is_some(), "--lock"),
            (self.tracemark, "--tracemark"),
            (self.distance > 0, "-d"),
            (self.priospread, "--priospread"),
            (self.threads.is_some_and(|n| n > 0), "-t N"),
            (self.unbound, "--unbound"),
            (self.compute > 0, "--compute"),
        ];
        if let Some((_, option)) = given.iter().find(|(given, _)| *given) {
            return Err(anyhow!(
                "{option} with --level {below}: the kernel's own threads measure there"
            ))
            .hint("--level user");
        }
        if levels.len() > 1 && self.format != Format::Latlab {
            return Err(anyhow!("--level {below} with others: this --format has one level only"))
                .hint("name one --level, or leave out --format");
        }
        if self.format == Format::Rtla {
            return Err(anyhow!(
                "--format rtla with --level {below}: this format has user-space latency only"
            ))
            .hint("leave out --format, or use --level user");
        }
        if levels.contains(&Level::User) && self.duration.is_none() && self.loops == 0 {
            return Err(anyhow!(
                "--level {below},user: the levels are measured one after the other, which needs a duration"
            ))
            .hint("-D 10s, or -l 10000");
        }
        Ok(levels)
    }

    fn policy_and_priority(&self) -> anyhow::Result<(Policy, u32)> {
        let policy = match (self.policy, self.priority) {
            (Some(PolicyArg::Fifo), _) => Policy::Fifo,
            (Some(PolicyArg::Rr), _) => Policy::Rr,
            (Some(PolicyArg::Other), _) => Policy::Other,
            (Some(PolicyArg::Batch), _) => Policy::Batch,
            (Some(PolicyArg::Idle), _) => Policy::Idle,
            (Some(PolicyArg::Deadline), _) => Policy::Deadline,
            // cyclictest's way to ask for an ordinary task.
            (None, Some(0)) => Policy::Other,
            (None, _) => Policy::Fifo,
        };
        let priority = match self.priority {
            Some(0) if policy.has_priority() => bail!("-p 0: priorities of {policy} are 1 to 99"),
            Some(p) if p > 99 => bail!("-p {p}: priorities are 1 to 99"),
            Some(p) if p > 0 && !policy.has_priority() => {
                return Err(anyhow!("-p {p}: the policy {policy} has no priorities"))
                    .hint("leave out -p, or choose --policy fifo or rr");
            }
            Some(p) => p,
            None if policy.has_priority() => 80,
            None => 0,
        };
        Ok((policy, priority))
    }

    /// One entry a thread: bound to CPUs in turn, except deadline tasks, which cannot be bound.
    fn placement(
        &self,
        policy: Policy,
        allowed: &[CpuId],
        online: &[CpuId],
    ) -> anyhow::Result<Vec<Option<CpuId>>> {
        let cpus = match self.affinity.as_deref() {
            None | Some("") => allowed.to_vec(),
            Some(list) => {
                let cpus = cpus::of_list("-a", list, allowed)?;
                if let Some(absent) = cpus.iter().find(|cpu| !online.contains(cpu)) {
                    let online: Vec<u32> = online.iter().map(|cpu| cpu.0).collect();
                    let online = cpulist::format(&online);
                    return Err(anyhow!(
                        "-a {list}: CPU {absent} is not online (online: {online})"
                    ))
                    .hint("choose online CPUs, or leave out -a for all of them");
                }
                cpus
            }
        };
        let n = match self.threads {
            // With -S it is one thread for each CPU, as in cyclictest.
            Some(n) if n > 0 && !self.smp => n as usize,
            _ => cpus.len(),
        };
        if n == 0 || n > 4096 {
            bail!("-t {n}: from 1 to 4096 threads");
        }
        if policy == Policy::Deadline {
            if self.affinity.is_some() {
                return Err(anyhow!(
                    "-a with --policy deadline: the kernel places deadline tasks itself"
                ))
                .hint("leave -a away");
            }
            if self.compute > 0 {
                return Err(anyhow!(
                    "--compute with --policy deadline: a quarter of the interval, at most 100 µs, is the runtime"
                ))
                .hint("--policy fifo, or no --compute");
            }
            return Ok(vec![None; n]);
        }
        if self.unbound {
            return Ok(vec![None; n]);
        }
        Ok((0..n).map(|i| cpus.get(i % cpus.len().max(1)).copied()).collect())
    }

    /// The limit of exact buckets.
    fn histogram_limit(&self) -> anyhow::Result<Option<u32>> {
        match self.histogram.or(self.histofall) {
            Some(0) => Err(anyhow!("-h 0: the limit of the histogram is in µs, from 1"))
                .hint("for help: latlab wakeup --help"),
            Some(us) if us > 10_000_000 => bail!("-h {us}: at most 10000000 µs"),
            // rtla's table is a histogram, of 256 µs unless told otherwise.
            None if self.format == Format::Rtla => Ok(Some(256)),
            limit => Ok(limit),
        }
    }
}

fn us(us: u64) -> u64 {
    us.saturating_mul(1_000)
}

/// `10s`, `5m`, `500ms`; a bare number is seconds.
fn duration_ns(text: &str) -> anyhow::Result<u64> {
    let duration = super::time::seconds(text)
        .map_err(|e| anyhow!("-D {text}: {e}"))
        .hint("write 10s, 5m or 1h; a bare number is seconds")?;
    match u64::try_from(duration.as_nanos()) {
        Ok(0) => {
            Err(anyhow!("-D {text}: the duration must not be zero")).hint("write 10s, 5m or 1h")
        }
        Ok(ns) => Ok(ns),
        Err(_) => bail!("-D {text}: is longer than 584 years"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    #[command(disable_help_flag = true)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> anyhow::Result<Config> {
        let cpus: Vec<CpuId> = (0..4).map(CpuId).collect();
        let words = std::iter::once("wakeup").chain(line.split_whitespace());
        Line::try_parse_from(words)?.args.config(&cpus, &cpus)
    }

    fn fails(line: &str) -> String {
        format!("{:#}", parse(line).unwrap_err())
    }

    #[test]
    fn cyclictest_command_lines_mean_what_they_mean_there() {
        let m = parse("-q -m -p90 -i500 -D5 -S").unwrap().measure;
        assert_eq!((m.priority, m.interval_ns, m.duration_ns), (90, 500_000, Some(5_000_000_000)));
        assert_eq!(m.threads, (0..4).map(|c| Some(CpuId(c))).collect::<Vec<_>>());
        assert!(m.lock_memory && m.policy == Policy::Fifo);
        let m = parse("-t 3 -a 2,3 -d 500 -p 10 --policy rr -l 1000 -h 400").unwrap().measure;
        assert_eq!(m.threads, [Some(CpuId(2)), Some(CpuId(3)), Some(CpuId(2))]);
        assert_eq!((m.policy, m.loops, m.histogram_us), (Policy::Rr, Some(1000), Some(400)));
        assert_eq!(m.distance_ns, 500_000);
        assert_eq!(parse("-a1 -t").unwrap().measure.threads, [Some(CpuId(1))]);
        assert_eq!(parse("-p 0").unwrap().measure.policy, Policy::Other);
        assert_eq!(parse("-D 2m").unwrap().measure.duration_ns, Some(120_000_000_000));
    }

    #[test]
    fn idle_states_are_excluded_as_by_cyclictest() {
        let of = |line: &str| {
            let m = parse(line).unwrap().measure;
            (m.dma_latency_us, m.dma_latency_optional)
        };
        assert_eq!(of(""), (Some(0), true));
        assert_eq!(of("--dma-latency 7"), (Some(7), false));
        for left in ["--idle-states", "--laptop", "--default-system"] {
            assert_eq!(of(left), (None, true));
        }
    }

    #[test]
    fn levels_are_sorted_from_the_interrupt_outwards() {
        let levels = |line| parse(line).unwrap().levels;
        assert_eq!(levels(""), [Level::User]);
        assert_eq!(
            levels("--level user,irq,kernel,irq -D 1"),
            [Level::Irq, Level::Kernel, Level::User]
        );
        assert_eq!(levels("--level kernel --format xenomai"), [Level::Kernel]);
        assert!(fails("--level irq,user").contains("needs a duration"));
        assert!(fails("--level irq --samples s").starts_with("--samples with --level irq: "));
        assert!(fails("--level irq -t 2").starts_with("-t N with --level irq: "));
        assert!(fails("--level irq,kernel --format cyclictest").contains("one level only"));
        assert!(parse("--level disk").is_err());
    }

    #[test]
    fn one_timer_has_a_thread_on_each_cpu_and_several_mechanisms_one_thread() {
        let m = parse("--by timerfd").unwrap().measure;
        assert_eq!((m.timer, m.by, m.threads.len()), (Mechanism::Timerfd, None, 4));
        let m = parse("--by timerfd,pipe -a 2,3").unwrap().measure;
        let by = m.by.unwrap();
        assert_eq!((m.threads, by.senders), (vec![Some(CpuId(2))], vec![CpuId(2), CpuId(3)]));
        assert_eq!(by.mechanisms, [Mechanism::Timerfd, Mechanism::Pipe]);
        assert_eq!(parse("--by all -a 1").unwrap().measure.by.unwrap().senders, [CpuId(1)]);
        assert!(fails("--by pipe -t 2").starts_with("-t or -S with --by pipe: "));
        assert!(fails("--by pipe -p 1").starts_with("-p 1 with --by pipe: "));
        assert!(fails("--by pipe --format cyclictest").starts_with("--format with --by pipe: "));
        assert!(fails("--by timerfd --level irq").starts_with("--by timerfd with --level: "));
        assert!(fails("--by pipes").contains("'pipes' is no mechanism: "));
        assert!(fails("--by pipe,pipe").contains("'pipe' is named twice"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        assert!(fails("-i 0").starts_with("-i 0: "));
        assert!(
            fails("-i 3600000001").contains("an hour")
                && fails("-d 18446744073709551615").contains("an hour")
        );
        assert!(fails("-a 9").starts_with("-a 9: CPU 9 is not online (online: 0-3)"));
        assert!(fails("-a x").starts_with("-a x: 'x' is not a list of CPUs"));
        assert!(fails("-p 100").starts_with("-p 100: "));
        assert!(fails("-p 5 --policy other").contains("has no priorities"));
        assert!(fails("-h 0").starts_with("-h 0: "));
        assert!(fails("-D 5x").starts_with("-D 5x: "));
        assert!(fails("-D 0").starts_with("-D 0: "));
        assert!(fails("--policy deadline -a 1").contains("deadline"));
        assert!(parse("--tracemark").is_err(), "--tracemark needs -b");
    }
}
