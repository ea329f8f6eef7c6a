//! `latlab sched`: its options.

use crate::outcome::HintExt;
use anyhow::{anyhow, bail};
use latlab_analysis::sched::scenarios;
use latlab_analysis::sched::scenarios::Common;
use latlab_model::sched::experiment::{Cell, CellTask, Work};
use latlab_model::units::CpuId;
use latlab_model::wakeup::config::Policy;
use latlab_trace::Select;
use std::path::PathBuf;
use std::time::Duration;

/// Measure how policies and priorities share the CPU.
///
/// Runs tasks of known policy and work on one CPU, records the scheduler, and compares run
/// segments, shares and waits with theory. --matrix runs a table of such experiments.
/// With FILE (a trace.dat or ftrace's text) instead: run time, waits and their maximum for
/// every task, why run segments ended, which task preempts which, fairness, inversions.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = super::examples::SCHED)]
#[group(id = "sched")]
pub struct Args {
    /// A trace to analyse instead of running an experiment.
    #[arg(value_name = "FILE")]
    #[arg(conflicts_with_all = ["matrix", "work", "policy", "prio", "nice", "tasks", "cpu", "duration"])]
    pub file: Option<PathBuf>,
    /// The ten experiments of the study (CPU- and IO-bound tasks under the fair policy, RR and
    /// FIFO, priorities 90/90 and 90/45), and ten more: nice values, SCHED_BATCH and SCHED_IDLE, slices
    /// and latency nice where the kernel has them, groups, SCHED_DEADLINE, the real-time reserve.
    #[arg(long, conflicts_with_all = ["work", "policy", "prio", "nice", "tasks", "slice", "latency_nice", "weight", "budget"])]
    matrix: bool,
    /// With --matrix: only experiments whose name contains this (`cpu-rr`); repeatable.
    #[arg(long, value_name = "WORD", requires = "matrix")]
    only: Vec<String>,
    /// Work of the tasks: compute (matrix products), file IO, or alternately both (mixed).
    #[arg(long, value_enum, default_value_t)]
    work: WorkKind,
    /// Policy of the tasks.
    #[arg(long, value_enum, default_value_t)]
    policy: PolicyName,
    /// Real-time priorities, 1 to 99; the last one applies to all further tasks.
    #[arg(
        short = 'p',
        long,
        value_name = "LIST",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    prio: Vec<i64>,
    /// Nice values, −20 to 19; the last one applies to all further tasks.
    #[arg(long, value_name = "LIST", value_delimiter = ',', allow_hyphen_values = true)]
    nice: Vec<i64>,
    /// Slices that fair tasks request (`3ms,20ms`; Linux 6.12 and later).
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = super::time::with_unit)]
    slice: Vec<Duration>,
    /// Latency nice values, −20 to 19, where the kernel knows them.
    #[arg(long, value_name = "LIST", value_delimiter = ',', allow_hyphen_values = true)]
    latency_nice: Vec<i64>,
    /// Put each task into a control group of its own with these weights (1024 is nice 0).
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    weight: Vec<u64>,
    /// SCHED_DEADLINE: runtime and period of each task (`10ms/100ms`).
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    budget: Vec<String>,
    /// Number of tasks.
    #[arg(short = 't', long, value_name = "N")]
    tasks: Option<usize>,
    /// CPU of the tasks [default: the last one that is allowed].
    #[arg(short = 'a', long, value_name = "CPU")]
    cpu: Option<u32>,
    /// Length of each experiment (`10s`; a bare number is seconds).
    #[arg(short = 'D', long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    duration: Duration,
    /// Rows and columns of the matrices.
    #[arg(long, value_name = "N", default_value_t = 64)]
    size: u32,
    /// Size of each IO task's file in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 8)]
    file_size: u64,
    /// Run real-time tasks also where they leave other tasks no time (on the only CPU, with
    /// throttling off): 5 % is kept for others during the experiment, and the setting restored.
    #[arg(long)]
    force: bool,
    /// Directory for the files of IO tasks [default: the system's folder for temporary files].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// FILE: tables and plots, one line for each run segment, or one line for each switch.
    #[arg(long, value_enum, default_value_t)]
    pub view: View,
    /// FILE: begin at this time, in seconds as printed.
    #[arg(long, value_name = "SECONDS")]
    from: Option<String>,
    /// FILE: end at this time, in seconds as printed.
    #[arg(long, value_name = "SECONDS")]
    to: Option<String>,
    /// FILE: run segments of this task only (name or thread id); repeatable.
    #[arg(long, value_name = "TASK")]
    pub task: Vec<String>,
    /// Length of the intervals for which fairness is computed.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = window)]
    pub window: Duration,
}

/// Output of a trace analysis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum View {
    /// Tables and plots.
    #[default]
    #[value(alias = "latency")]
    Summary,
    /// One line for each run segment.
    Timehist,
    /// One line for each switch, one column for each CPU.
    Map,
}

/// Work of the tasks of an experiment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum WorkKind {
    /// Compute.
    #[default]
    Cpu,
    /// Write and read files through the page cache, with periodic fdatasync.
    Io,
    /// Write and read files past the page cache (O_DIRECT).
    IoDirect,
    /// Every other task computes, the others write and read.
    Mixed,
}

/// Scheduling policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum PolicyName {
    #[default]
    Other,
    Batch,
    Idle,
    Fifo,
    Rr,
    Deadline,
}

impl From<PolicyName> for Policy {
    fn from(name: PolicyName) -> Self {
        match name {
            PolicyName::Other => Self::Other,
            PolicyName::Batch => Self::Batch,
            PolicyName::Idle => Self::Idle,
            PolicyName::Fifo => Self::Fifo,
            PolicyName::Rr => Self::Rr,
            PolicyName::Deadline => Self::Deadline,
        }
    }
}

/// The resolved options.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Config {
    /// The experiments.
    pub cells: Vec<Cell>,
    /// Where files are made.
    pub dir: PathBuf,
    /// Experiments that starve other tasks are made with a share for those.
    pub force: bool,
}

/// Some experiments of the matrix, by name: for who does not type a command line.
pub fn some(names: &[&str], cpu: u32, duration: Duration) -> Config {
    let common = Common {
        cpu: Work::Cpu { size: 64 },
        io: Work::Io { bytes: 8 << 20, direct: false },
        duration_ns: u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX),
    };
    let mut cells = scenarios::study(common);
    cells.extend(scenarios::today(common));
    if !names.is_empty() {
        cells.retain(|c| names.contains(&c.name.as_str()));
    }
    for cell in &mut cells {
        cell.cpu = Some(cpu);
    }
    Config { cells, dir: std::env::temp_dir(), force: false }
}

/// `10s`, `5m`; a bare number is seconds.
pub fn duration(text: &str) -> anyhow::Result<Duration> {
    super::time::seconds_within(
        text,
        Duration::from_millis(100)..=Duration::from_secs(3600),
        "from 100ms to 1h",
    )
}

/// The nth of a list, of which the last holds for all further ones.
fn nth<T: Copy>(list: &[T], n: usize) -> Option<T> {
    list.get(n).or(list.last()).copied()
}

fn window(text: &str) -> anyhow::Result<Duration> {
    super::time::seconds_within(
        text,
        Duration::from_millis(1)..=Duration::from_secs(86_400),
        "from 1ms to 1day",
    )
}

impl Args {
    /// The experiments that were asked for.
    ///
    /// # Errors
    /// One sentence that names the option.
    pub fn config(&self, allowed: &[CpuId], online: &[CpuId]) -> anyhow::Result<Config> {
        let cpu = self.cpu(allowed, online)?;
        if !(1..=4096).contains(&self.size) {
            bail!("--size {}: from 1 to 4096", self.size);
        }
        if !(1..=1024).contains(&self.file_size) {
            bail!("--file-size {}: from 1 to 1024 MiB", self.file_size);
        }
        let common = Common {
            cpu: Work::Cpu { size: self.size },
            io: Work::Io { bytes: self.file_size << 20, direct: false },
            duration_ns: u64::try_from(self.duration.as_nanos()).unwrap_or(u64::MAX),
        };
        let mut cells = if self.matrix { self.matrix(common)? } else { vec![self.cell(common)?] };
        for cell in &mut cells {
            cell.cpu = Some(cpu);
        }
        let dir = self.dir.clone().unwrap_or_else(std::env::temp_dir);
        if !dir.is_dir() {
            return Err(anyhow!("--dir {}: not a directory", dir.display()))
                .hint("I/O tasks create their files there");
        }
        Ok(Config { cells, dir, force: self.force })
    }

    fn cpu(&self, allowed: &[CpuId], online: &[CpuId]) -> anyhow::Result<u32> {
        let names =
            |cpus: &[CpuId]| cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match self.cpu {
            Some(cpu) if !online.contains(&CpuId(cpu)) => {
                Err(anyhow!("--cpu {cpu}: no such CPU, or it is offline"))
                    .hint(format!("online are {}", names(online)))
            }
            Some(cpu) if !allowed.contains(&CpuId(cpu)) => {
                Err(anyhow!("--cpu {cpu}: this process may not run on it"))
                    .hint(format!("it may run on {}", names(allowed)))
            }
            Some(cpu) => Ok(cpu),
            None => allowed.last().map(|c| c.0).ok_or_else(|| anyhow!("no CPU is allowed")),
        }
    }

    fn matrix(&self, common: Common) -> anyhow::Result<Vec<Cell>> {
        let mut cells = scenarios::study(common);
        cells.extend(scenarios::today(common));
        let all: Vec<String> = cells.iter().map(|c| c.name.clone()).collect();
        for word in &self.only {
            if !all.iter().any(|n| n.contains(word)) {
                return Err(anyhow!("--only {word}: no experiment of this name"))
                    .hint(format!("there are {}", all.join(", ")));
            }
        }
        if !self.only.is_empty() {
            cells.retain(|c| self.only.iter().any(|w| c.name.contains(w)));
        }
        Ok(cells)
    }

    fn cell(&self, common: Common) -> anyhow::Result<Cell> {
        let policy = Policy::from(self.policy);
        let lists = [
            self.prio.len(),
            self.nice.len(),
            self.slice.len(),
            self.latency_nice.len(),
            self.weight.len(),
            self.budget.len(),
        ];
        let longest = lists.into_iter().max().unwrap_or(0);
        let count = self.tasks.unwrap_or(longest.max(2));
        if !(1..=26).contains(&count) {
            bail!("--tasks {count}: from 1 to 26");
        }
        if longest > count {
            bail!("--tasks {count}: a list has {longest} entries");
        }
        self.options_fit(policy)?;
        let mut tasks = Vec::new();
        for n in 0..count {
            tasks.push(self.task(n, policy, common)?);
        }
        let name = format!("{}-{}", self.work_word(), policy);
        Ok(Cell { name, tasks, duration_ns: common.duration_ns, ..Cell::default() })
    }

    /// Options that the policy cannot have are refused, not ignored.
    fn options_fit(&self, policy: Policy) -> anyhow::Result<()> {
        let fair = !policy.is_real_time();
        if !self.prio.is_empty() && !policy.has_priority() {
            return Err(anyhow!(
                "--prio: SCHED_{} has no priorities",
                policy.to_string().to_uppercase()
            ))
            .hint("use --policy fifo or rr; --nice for tasks of policy other");
        }
        let plain = self.nice.is_empty() && self.slice.is_empty() && self.weight.is_empty();
        if !(fair || plain) {
            bail!("--nice, --slice and --weight are for other, batch and idle");
        }
        if policy != Policy::Deadline && !self.budget.is_empty() {
            bail!("--budget is for --policy deadline");
        }
        Ok(())
    }

    fn work_word(&self) -> &'static str {
        match self.work {
            WorkKind::Cpu => "cpu",
            WorkKind::Io => "io",
            WorkKind::IoDirect => "io-direct",
            WorkKind::Mixed => "mixed",
        }
    }

    fn task(&self, n: usize, policy: Policy, common: Common) -> anyhow::Result<CellTask> {
        let io = |direct| match common.io {
            Work::Io { bytes, .. } => Work::Io { bytes, direct },
            cpu => cpu,
        };
        let work = match self.work {
            WorkKind::Cpu => common.cpu,
            WorkKind::Mixed if n.is_multiple_of(2) => common.cpu,
            WorkKind::Io | WorkKind::Mixed => io(false),
            WorkKind::IoDirect => io(true),
        };
        let priority = match nth(&self.prio, n) {
            Some(p) if !(1..=99).contains(&p) => {
                return Err(anyhow!("--prio {p}: real-time priorities are 1 to 99"))
                    .hint("1 is the lowest, 99 the highest");
            }
            Some(p) => p as u32,
            None if policy.has_priority() => 90,
            None => 0,
        };
        let small = |option: &str, list: &[i64]| match nth(list, n) {
            Some(v) if !(-20..=19).contains(&v) => Err(anyhow!("{option} {v}: from −20 to 19")),
            v => Ok(v.map(|v| v as i32)),
        };
        let slice = nth(&self.slice, n).map(|s| s.as_nanos() as u64);
        if let Some(ns) = slice.filter(|ns| !(100_000..=100_000_000).contains(ns)) {
            bail!("--slice {ns} ns: the kernel accepts 0.1ms to 100ms");
        }
        let weight = nth(&self.weight, n);
        if let Some(weight) = weight.filter(|w| !(2..=262_144).contains(w)) {
            bail!("--weight {weight}: from 2 to 262144; 1024 is that of nice 0");
        }
        let (runtime_ns, period_ns) = match (policy, nth(&indices(&self.budget), n)) {
            (Policy::Deadline, Some(i)) => budget(&self.budget[i])?,
            (Policy::Deadline, None) => (10_000_000, 100_000_000),
            _ => (0, 0),
        };
        Ok(CellTask {
            name: format!("latlab-{}", char::from(b'a' + n as u8)),
            tid: 0,
            work,
            policy,
            priority,
            nice: small("--nice", &self.nice)?.unwrap_or(0),
            slice_ns: slice,
            latency_nice: small("--latency-nice", &self.latency_nice)?,
            runtime_ns,
            period_ns,
            group_weight: weight,
        })
    }

    /// Which part of the file.
    ///
    /// # Errors
    /// One sentence that names the option.
    pub fn select(&self) -> anyhow::Result<Select> {
        time_range(self.from.as_deref(), self.to.as_deref())
    }
}

fn indices(list: &[String]) -> Vec<usize> {
    (0..list.len()).collect()
}

/// `10ms/100ms`.
fn budget(text: &str) -> anyhow::Result<(u64, u64)> {
    let parsed = (|| {
        let (runtime, period) = text.split_once('/')?;
        let ns = |t: &str| u64::try_from(humantime::parse_duration(t.trim()).ok()?.as_nanos()).ok();
        Some((ns(runtime)?, ns(period)?))
    })();
    match parsed {
        Some((runtime, period)) if runtime < 1_024 || period < 100_000 || runtime > period => {
            Err(anyhow!("--budget {text}: the kernel accepts a runtime of at least 1.024 µs and a period of at least 100 µs"))
                .hint("such as 10ms/100ms")
        }
        Some(both) => Ok(both),
        None => Err(anyhow!("--budget {text}: expected RUNTIME/PERIOD")).hint("such as 10ms/100ms"),
    }
}

/// The events from `--from` to `--to`, where they are given.
///
/// # Errors
/// One sentence that names the option.
pub fn time_range(from: Option<&str>, to: Option<&str>) -> anyhow::Result<Select> {
    let time = |option: &str, text: Option<&str>| text.map(|t| seconds(option, t)).transpose();
    let (from, to) = (time("--from", from)?, time("--to", to)?);
    if let (Some(from), Some(to)) = (from, to)
        && from > to
    {
        bail!("--from is later than --to");
    }
    Ok(Select { from, to, ..Select::default() })
}

/// The time stamp of an option, ns.
pub fn seconds(option: &str, text: &str) -> anyhow::Result<u64> {
    super::time::timestamp_ns(text)
        .ok_or_else(|| anyhow!("{option} {text}: not a time"))
        .hint("write times as they are printed: 923.632241")
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

    fn asked(line: &str) -> anyhow::Result<Config> {
        let words = std::iter::once("sched").chain(line.split_whitespace());
        let line = Line::try_parse_from(words)?;
        line.args.config(&[CpuId(0), CpuId(1)], &[CpuId(0), CpuId(1), CpuId(2)])
    }

    #[test]
    fn lists_are_lengthened_by_their_last_entry() {
        let asked = asked("--policy rr --prio 90,45 --tasks 3 -D 2").unwrap();
        let cell = &asked.cells[0];
        let prios: Vec<u32> = cell.tasks.iter().map(|t| t.priority).collect();
        assert_eq!((prios, cell.cpu, cell.duration_ns), (vec![90, 45, 45], Some(1), 2_000_000_000));
        assert_eq!(cell.name, "cpu-rr");
    }

    #[test]
    fn what_cannot_be_is_said_by_its_option() {
        for (line, words) in [
            ("--policy rr --prio 0", "--prio 0: real-time priorities are 1 to 99"),
            ("--policy fifo --prio 100", "--prio 100: real-time priorities are 1 to 99"),
            ("--policy fifo --prio -1", "--prio -1: real-time priorities"),
            ("--prio 50", "--prio: SCHED_OTHER has no priorities"),
            ("--nice 20", "--nice 20: from −20 to 19"),
            ("--cpu 7", "--cpu 7: no such CPU, or it is offline"),
            ("--cpu 2", "--cpu 2: this process may not run on it"),
            ("--tasks 0", "--tasks 0: from 1 to 26"),
            ("--policy fifo --nice 5", "--nice, --slice and --weight are for other"),
            ("--policy deadline --budget 5", "--budget 5: expected RUNTIME/PERIOD"),
            ("--policy deadline --budget 5ms/1ms", "--budget 5ms/1ms: the kernel accepts"),
            ("--matrix --only nonsense", "--only nonsense: no experiment of this name"),
            ("--dir /nonexistent", "--dir /nonexistent: not a directory"),
            ("--size 0", "--size 0: from 1 to 4096"),
        ] {
            let error = asked(line).expect_err(line);
            assert!(format!("{error:#}").contains(words), "{line}: {error:#}");
        }
    }

    #[test]
    fn the_matrix_has_the_study_and_today() {
        assert!(asked("--matrix").unwrap().cells.len() >= 18);
        assert_eq!(asked("--matrix --only cpu-rr").unwrap().cells.len(), 2);
    }
}
