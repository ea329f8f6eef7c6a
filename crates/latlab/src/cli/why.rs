//! `latlab why`: the options of `wakeup`, and those of the capture session.

use crate::cli::preset::Preset;
use crate::cli::time::micros_ns;
use crate::cli::wakeup;
use crate::outcome::HintExt;
use anyhow::{anyhow, bail};
use latlab_analysis::latency::activations::Late as TaskLate;
use latlab_model::units::{CpuId, Nanos};
use std::path::PathBuf;

/// Find the causes of late wake-ups.
///
/// Measures wake-ups as `latlab wakeup` does, with the kernel's flight recorder
/// running; each late wake-up stops the recorder, and the trace is saved as a
/// capture. Causes are reported by comparison with on-time wake-ups; the rest is
/// reported as unexplained. With FILEs, captures of other tools are analysed. With --task, or a COMMAND,
/// a program is explained in place of latlab's own threads: what makes its activations late.
#[derive(Clone, Debug, clap::Args)]
#[command(mut_arg("by", |arg| arg.hide(true)))]
#[command(mut_arg("core", |arg| arg.hide(true)))]
#[command(mut_arg("core_program", |arg| arg.hide(true)))]
#[command(mut_arg("power", |arg| arg.hide(true)))]
#[command(after_long_help = super::examples::WHY)]
#[command(disable_help_flag = true)]
#[group(id = "why")]
pub struct Args {
    /// Captures: trace.dat files (also trace-cmd's), or run directories of latlab why.
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// A wake-up later than this is late (`100us`, `2ms`; a bare number is µs), or `auto`.
    #[arg(long, value_name = "TIME", default_value = "auto")]
    limit: String,
    /// Capture latencies from LO to HI as measured without tracing (`50us..60us`): a peak, not only the maximum.
    #[arg(long, value_name = "LO..HI", conflicts_with = "limit")]
    window: Option<String>,
    /// Stop after so many captures.
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub captures: usize,
    /// Trace preset; auto selects the most detailed one that does not change the distribution.
    #[arg(long, value_enum, default_value_t)]
    pub trace: Trace,
    /// Record the calls of this kernel function with function_graph; may be repeated.
    #[arg(long = "graph-function", value_name = "FUNCTION", conflicts_with = "trace")]
    pub functions: Vec<String>,
    /// Remove each cause by a setting where one exists, and measure the reduction of excess latency;
    /// settings are restored.
    #[arg(long = "test-mitigation", alias = "prove", conflicts_with = "files")]
    pub prove: bool,
    /// Explain this task: a name, a process or thread id, or a control group (`/system.slice/loop.service`).
    #[arg(long, value_name = "TASK")]
    pub task: Option<String>,
    /// An activation of the task that takes longer from its intended time to its end is late.
    #[arg(long, value_name = "TIME", conflicts_with_all = ["limit", "window"])]
    deadline: Option<String>,
    /// The period of the task, for skipped ones and as its deadline (default: as found, up to 2 s).
    #[arg(long, value_name = "TIME", conflicts_with_all = ["from", "span", "window"])]
    period: Option<String>,
    /// Explain spans that begin with this event: `sched:sched_waking`, `syscall:NAME`, `marker:TEXT`,
    /// `uprobe:PATH:FUNCTION`, `usdt:PATH:PROVIDER:NAME`, `kprobe:FUNCTION`; behind it ` if FILTER`.
    #[arg(long, value_name = "EVENT", requires = "to", conflicts_with_all = ["limit", "window"])]
    from: Option<String>,
    /// The event that ends a span; `sysret:`, `uretprobe:` and `kretprobe:` are returns.
    #[arg(long, value_name = "EVENT", requires = "from")]
    to: Option<String>,
    /// Explain these spans, in place of --from and --to.
    #[arg(long, value_enum, value_name = "PRESET", conflicts_with_all = ["from", "to", "key", "limit", "window"])]
    span: Option<Preset>,
    /// What is equal in both events of a span: `tid`, `cpu`, `none`, or a field of both (`FIELD,FIELD` if of other names).
    #[arg(long, value_name = "KEY", default_value = "tid", requires = "from")]
    pub key: String,
    /// Record user stacks of the task each time that it leaves its CPU, and show where in the program it waits.
    #[cfg(feature = "host")]
    #[arg(long, conflicts_with = "files")]
    pub user_stacks: bool,
    /// Run this shell command as load during the measurement.
    #[arg(long, value_name = "COMMAND", conflicts_with = "files")]
    pub load_command: Option<String>,
    /// Print one line of JSON for each capture, also for one that cannot be read: for many captures on many machines.
    #[cfg(feature = "host")]
    #[arg(long, requires = "files", conflicts_with_all = ["vmlinux", "deadline"])]
    pub map: bool,
    /// The kernel with debug information (vmlinux), or a module (x.ko), for source file and line of causes; may be repeated.
    #[arg(long, value_name = "FILE")]
    pub vmlinux: Vec<PathBuf>,
    /// Options of the measurement.
    #[command(flatten)]
    pub wakeup: wakeup::Args,
    /// Program to start and to explain.
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "files")]
    pub command: Vec<String>,
}

/// Trace preset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Trace {
    /// The most detailed preset that does not change the distribution.
    #[default]
    Auto,
    /// Events of scheduler, interrupts, softirqs, timers and other sources of interference.
    Events,
    /// The same events, and the kernel's stack of what each expiring timer interrupts (from Linux 5.18 on).
    Interrupted,
    /// The same events, each with the kernel's stack.
    Stacks,
    /// Events, and function_graph of interrupts, timers, softirqs and work items.
    GraphFilter,
    /// Events, and function_graph of every kernel function.
    Graph,
}

/// What counts as late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Late {
    /// Derived from the measurement.
    Auto,
    /// Over this, ns.
    Over(u64),
    /// From, to, ns.
    Within(u64, u64),
}

/// What was asked for, resolved.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Config {
    /// How to measure.
    pub wakeup: wakeup::Config,
    /// What counts as late.
    pub late: Late,
    /// How much is traced.
    pub trace: Trace,
    /// Functions whose calls are drawn.
    pub functions: Vec<String>,
    /// Captures at most.
    pub captures: usize,
    /// Loads, as they were given.
    pub load: Vec<String>,
    /// Shell command run as load.
    pub command: Option<String>,
    /// Length of the capture session, ns.
    pub duration_ns: u64,
}

impl Args {
    /// Whether user stacks are recorded.
    pub fn user_stacks(&self) -> bool {
        #[cfg(feature = "host")]
        return self.user_stacks;
        #[cfg(not(feature = "host"))]
        false
    }

    /// What was asked for.
    ///
    /// # Errors
    /// One sentence that names the option.
    pub fn config(&self, allowed: &[CpuId], online: &[CpuId]) -> anyhow::Result<Config> {
        let wakeup = self.wakeup.config(allowed, online)?;
        if self.captures == 0 || self.captures > 10_000 {
            bail!("--captures {}: from 1 to 10000", self.captures);
        }
        if let Some(by) = wakeup.measure.by.as_ref().filter(|by| by.mechanisms.len() > 1) {
            let names: Vec<&str> = by.mechanisms.iter().map(|m| m.id()).collect();
            return Err(anyhow!(
                "--by {}: `latlab why` explains the wake-ups of one mechanism",
                names.join(",")
            ))
            .hint(format!("--by {}; latlab wakeup --by compares several", names[0]));
        }
        if wakeup.power {
            return Err(anyhow!("--power: not available with latlab why"))
                .hint("latlab wakeup --power");
        }
        if let Some(core) = wakeup.measure.core {
            let core = core.id();
            return Err(anyhow!("--core {core} with latlab why: Linux does not trace tasks of it"))
                .hint(format!("latlab wakeup --core {core}"));
        }
        if wakeup.cyclictest.is_used() {
            return Err(anyhow!(
                "-F, -M, -o, -R, --smi and --spike: not available with `latlab why`"
            ))
            .hint("use latlab wakeup; latlab why always counts SMIs");
        }
        if wakeup.samples.is_some() {
            return Err(anyhow!("--samples: `latlab why` keeps captures, not samples"))
                .hint("latlab wakeup --samples FILE");
        }
        Ok(Config {
            late: self.late()?,
            trace: self.trace,
            functions: self.functions.clone(),
            captures: self.captures,
            load: wakeup.load.clone(),
            command: self.load_command.clone(),
            duration_ns: wakeup.measure.duration_ns.unwrap_or(60_000_000_000),
            wakeup,
        })
    }

    /// What makes an activation of the task late; `None`: to be chosen from the measurement.
    ///
    /// # Errors
    /// One sentence that names the option.
    pub fn task_limit(&self) -> anyhow::Result<Option<TaskLate>> {
        if let Some(text) = &self.deadline {
            return match micros_ns("--deadline", text)? {
                0 => bail!("--deadline {text}: the deadline must be above zero"),
                ns => Ok(Some(TaskLate::Response(Nanos(ns)))),
            };
        }
        match self.late()? {
            Late::Auto => Ok(None),
            Late::Over(ns) => Ok(Some(TaskLate::Start(Nanos(ns)))),
            Late::Within(..) => Err(anyhow!("--window: not available with --task"))
                .hint("--deadline for the response time, --limit for the start"),
        }
    }

    /// The period of the task, where it is given.
    ///
    /// # Errors
    /// When it is no time above zero.
    pub fn task_period(&self) -> anyhow::Result<Option<Nanos>> {
        let Some(text) = &self.period else { return Ok(None) };
        match micros_ns("--period", text)? {
            0 => bail!("--period {text}: the period must be above zero"),
            ns => Ok(Some(Nanos(ns))),
        }
    }

    /// The first and last event of spans.
    pub fn ends(&self) -> Option<(&str, &str)> {
        self.span.map(Preset::ends).or(self.from.as_deref().zip(self.to.as_deref()))
    }

    /// Whether a window of latencies was given.
    pub fn has_window(&self) -> bool {
        self.window.is_some()
    }

    /// Whether a deadline was given.
    pub fn has_deadline(&self) -> bool {
        self.deadline.is_some()
    }

    /// The option that is about a task or spans alone, where one was given.
    pub fn of_task(&self) -> Option<&'static str> {
        let given = [("--deadline", self.deadline.is_some()), ("--period", self.period.is_some())];
        given.into_iter().find(|o| o.1).map(|o| o.0)
    }

    /// The limit for captures from files; zero where only markers define late wake-ups.
    ///
    /// # Errors
    /// One sentence that names the option.
    pub fn file_limit(&self) -> anyhow::Result<Nanos> {
        Ok(match self.late()? {
            Late::Auto => Nanos(0),
            Late::Over(ns) => Nanos(ns),
            Late::Within(..) => bail!("--window: not available with files"),
        })
    }

    fn late(&self) -> anyhow::Result<Late> {
        if let Some(window) = &self.window {
            let ends = window.split_once("..");
            let (low, high) = ends.ok_or_else(|| anyhow!("--window {window}: expected LO..HI"))?;
            let (low, high) = (micros_ns("--window", low)?, micros_ns("--window", high)?);
            if low >= high {
                bail!("--window {window}: the upper limit must be above the lower");
            }
            return Ok(Late::Within(low, high));
        }
        match self.limit.as_str() {
            "auto" => Ok(Late::Auto),
            text => match micros_ns("--limit", text)? {
                0 => bail!("--limit {text}: the limit must be above zero"),
                ns => Ok(Late::Over(ns)),
            },
        }
    }
}
