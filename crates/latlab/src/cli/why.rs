//! `latlab why`: what made it late? The options of `wakeup`, and those of the hunt.

use crate::cli::wakeup;
use crate::outcome::HintExt;
use anyhow::{anyhow, bail};
use latlab_core::units::{CpuId, Nanos};
use std::path::PathBuf;
use std::time::Duration;

/// What made it late?
///
/// Measures wake-ups as `latlab wakeup` does, with the kernel's flight recorder
/// beside it; each late wake-up freezes the recorder, and what was recorded is
/// kept. From all captures it names causes by contrast with on-time wake-ups, or
/// says that they are unexplained. With FILEs it explains captures made elsewhere.
#[derive(Clone, Debug, clap::Args)]
#[command(disable_help_flag = true)]
#[group(id = "why")]
pub struct Args {
    /// Captures to explain: trace.dat files (also trace-cmd's), or run directories of latlab why.
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
    /// What to trace: the most that the period can bear (auto), or one level.
    #[arg(long, value_enum, default_value_t)]
    pub trace: Trace,
    /// Draw what this kernel function calls, beside the events (function_graph); may be repeated.
    #[arg(long = "graph-function", value_name = "FUNCTION", conflicts_with = "trace")]
    pub functions: Vec<String>,
    /// Take each named cause away where a setting can, and measure what is gone; all is put back.
    #[arg(long, conflicts_with = "files")]
    pub prove: bool,
    /// In FILEs without markers: the measured task, by name or thread id.
    #[arg(long, value_name = "TASK", requires = "files")]
    pub task: Option<String>,
    /// The kernel with debug information (vmlinux), or a module (x.ko): causes are named with source file and line. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub vmlinux: Vec<PathBuf>,
    /// How to measure.
    #[command(flatten)]
    pub wakeup: wakeup::Args,
    /// A command that runs as load meanwhile.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// How much is traced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Trace {
    /// The most that the period can bear.
    #[default]
    Auto,
    /// Scheduler, interrupts, softirqs, timers and what else disturbs.
    Events,
    /// The same, each with the kernel's stack.
    Stacks,
    /// What interrupts, timers, softirqs and work items call, beside the events.
    GraphFilter,
    /// Every kernel function, beside the events.
    Graph,
}

/// What counts as late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Late {
    /// To be found by measuring.
    Auto,
    /// Over this, ns.
    Over(u64),
    /// From, to, ns.
    Within(u64, u64),
}

/// What was asked for, resolved.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Asked {
    /// How to measure.
    pub wakeup: wakeup::Asked,
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
    /// Command run as load.
    pub command: Vec<String>,
    /// Length of the hunt, ns.
    pub duration_ns: u64,
}

impl Args {
    /// What was asked for.
    ///
    /// # Errors
    /// One sentence that names the option.
    pub fn config(&self, allowed: &[CpuId], online: &[CpuId]) -> anyhow::Result<Asked> {
        let wakeup = self.wakeup.config(allowed, online)?;
        if self.captures == 0 || self.captures > 10_000 {
            bail!("--captures {}: from 1 to 10000", self.captures);
        }
        if wakeup.samples.is_some() {
            return Err(anyhow!("--samples: `latlab why` keeps captures, not samples"))
                .hint("latlab wakeup --samples FILE");
        }
        Ok(Asked {
            late: self.late()?,
            trace: self.trace,
            functions: self.functions.clone(),
            captures: self.captures,
            load: wakeup.load.clone(),
            command: self.command.clone(),
            duration_ns: wakeup.measure.duration_ns.unwrap_or(60_000_000_000),
            wakeup,
        })
    }

    /// The limit of captures made elsewhere; zero where only markers tell.
    ///
    /// # Errors
    /// One sentence that names the option.
    pub fn file_limit(&self) -> anyhow::Result<Nanos> {
        Ok(match self.late()? {
            Late::Auto => Nanos(0),
            Late::Over(ns) | Late::Within(ns, _) => Nanos(ns),
        })
    }

    fn late(&self) -> anyhow::Result<Late> {
        if let Some(window) = &self.window {
            let ends = window.split_once("..");
            let (low, high) =
                ends.ok_or_else(|| anyhow!("--window {window}: give it as LO..HI"))?;
            let (low, high) = (time_ns("--window", low)?, time_ns("--window", high)?);
            if low >= high {
                bail!("--window {window}: it ends before it begins");
            }
            return Ok(Late::Within(low, high));
        }
        match self.limit.as_str() {
            "auto" => Ok(Late::Auto),
            text => match time_ns("--limit", text)? {
                0 => bail!("--limit {text}: every wake-up is later than that"),
                ns => Ok(Late::Over(ns)),
            },
        }
    }
}

/// `100us`, `2ms`; a bare number is µs.
fn time_ns(option: &str, text: &str) -> anyhow::Result<u64> {
    let duration = match text.trim().parse::<u64>() {
        Ok(us) => Duration::from_micros(us),
        Err(_) => humantime::parse_duration(text.trim())
            .map_err(|e| anyhow!("{option} {text}: {e}"))
            .hint("100us, 2ms, or a number of µs")?,
    };
    u64::try_from(duration.as_nanos()).map_err(|_| anyhow!("{option} {text}: too long"))
}
