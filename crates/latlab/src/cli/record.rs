//! `latlab record`: the options of trace-cmd, with its letters.

use anyhow::{Context, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, ValueEnum};
use latlab_model::cpulist;
use latlab_sys::recorder::{EventSpec, Format, Kallsyms, LATENCY_TRACERS, RecordConfig};
use latlab_trace::write::Compression;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::outcome::HintExt;

/// Record kernel events into a trace.dat (trace-cmd, KernelShark).
///
/// Uses an ftrace instance of its own, which is removed afterwards: other tracing is
/// not affected. Ends with COMMAND, with -D, with Ctrl-C, or when tracing_on of the
/// instance becomes 0 (a traceoff trigger). COMMAND's exit code is passed on. Option letters are those of trace-cmd.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = super::examples::RECORD)]
pub struct Args {
    /// The events with their filters and triggers.
    #[command(flatten)]
    pub events: Events,
    /// Tracer: function, function_graph… (see --list tracers); of irqsoff, preemptoff, preemptirqsoff, wakeup,
    /// wakeup_rt and wakeup_dl the trace of the longest latency is kept, as text.
    #[arg(short = 'p', long = "tracer", value_name = "TRACER")]
    tracer: Option<String>,
    /// With such a tracer: keep latencies longer than US only; exit code 2 if there was one.
    #[arg(long, value_name = "US", requires = "tracer")]
    threshold: Option<u64>,
    /// Function that function_graph records, with its callees; repeatable, globs allowed.
    #[arg(short = 'g', value_name = "GRAPH-FUNCTION")]
    graph_functions: Vec<String>,
    /// Trace this function only; repeatable, globs allowed.
    #[arg(short = 'l', value_name = "FUNCTION")]
    functions: Vec<String>,
    /// Do not trace this function; repeatable, globs allowed.
    #[arg(short = 'n', value_name = "NOT-FUNCTION")]
    notrace_functions: Vec<String>,
    /// Maximum call depth of function_graph.
    #[arg(long, value_name = "N")]
    max_graph_depth: Option<u32>,
    /// Set an ftrace option (`noOPTION` clears it); repeatable.
    #[arg(short = 'O', value_name = "OPTION")]
    options: Vec<String>,
    /// Trace this process with its threads only; repeatable, or several with commas.
    #[arg(short = 'P', value_name = "PID", value_delimiter = ',')]
    pids: Vec<u32>,
    /// Trace COMMAND only.
    #[arg(short = 'F', requires = "command")]
    only_command: bool,
    /// With -P or -F: their children too.
    #[arg(short = 'c')]
    children: bool,
    /// Trace on these CPUs only: a hexadecimal mask.
    #[arg(short = 'M', value_name = "CPUMASK", conflicts_with = "cpu")]
    mask: Option<String>,
    /// Trace on these CPUs only: a list (`0-3,6`).
    #[arg(long, value_name = "LIST")]
    cpu: Option<String>,
    /// Size of each CPU's ring buffer in KiB [default: depends on free memory].
    #[arg(short = 'b', value_name = "KB")]
    buffer_kb: Option<u64>,
    /// Clock of the time stamps [default: local].
    #[arg(short = 'C', value_name = "CLOCK")]
    clock: Option<String>,
    /// Record a kernel stack trace with every event.
    #[arg(short = 'T')]
    stack: bool,
    /// Duration (`10s`, `5m`; a bare number is seconds).
    #[arg(short = 'D', long, value_name = "TIME")]
    duration: Option<String>,
    /// Output file [default: trace.dat, of a longest latency trace.txt].
    #[arg(short = 'o', value_name = "FILE")]
    output: Option<PathBuf>,
    /// Flight recorder: keep only the last MB megabytes in the ring buffer; write them on SIGUSR1
    /// (and go on), when tracing_on becomes 0, and at the end.
    #[arg(long, value_name = "MB", conflicts_with = "buffer_kb")]
    last: Option<u64>,
    /// With --last: after tracing_on became 0, write and resume recording, up to N files.
    #[arg(long, value_name = "N", requires = "last")]
    rearm: Option<u32>,
    /// Write version 6 of the format (for trace-cmd before 3.0); not compressed.
    #[arg(long, conflicts_with = "compression")]
    v6: bool,
    /// Compression of the file: zstd (also `any`), zlib or none.
    #[arg(long, value_name = "METHOD", default_value = "zstd")]
    compression: String,
    /// Symbols in the file: those that the trace uses, all, or none.
    #[arg(long, value_enum, default_value_t)]
    kallsyms: Symbols,
    /// List what this kernel supports and exit.
    #[arg(long, value_name = "WHAT", num_args = 1..=2, value_names = ["WHAT", "REGEX"],
          help = "List what this kernel supports and exit: events, tracers, functions, options or clocks; matching REGEX")]
    list: Vec<String>,
    /// Check that the records of every event of this kernel can be read, and exit.
    #[arg(long, conflicts_with_all = ["list", "command", "recover"])]
    pub check_events: bool,
    /// Compact the file of a killed recorder and exit.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["list", "command"])]
    pub recover: Option<PathBuf>,
    /// Command to run while recording.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// What to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum List {
    /// Events, one `SYSTEM:EVENT` a line.
    Events,
    /// Tracers.
    Tracers,
    /// Functions that can be traced.
    Functions,
    /// Options with their present setting at the top level.
    Options,
    /// Clocks.
    Clocks,
}

/// Which symbols come with the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Symbols {
    /// Those that the trace refers to.
    #[default]
    Used,
    /// All of kallsyms (5 MB).
    All,
    /// None.
    None,
}

/// `-e`, and `-f` and `-R`, which belong to the `-e` before them: their order matters.
#[derive(Clone, Debug, Default)]
pub struct Events(pub Vec<EventSpec>);

impl clap::Args for Events {
    fn augment_args(command: Command) -> Command {
        let many = |id: &'static str, letter| {
            Arg::new(id).short(letter).action(ArgAction::Append).allow_hyphen_values(false)
        };
        command
            .arg(
                many("events", 'e')
                    .value_name("EVENT")
                    .help("Event, system, SYSTEM:EVENT, or `all`; * and ? allowed; repeatable"),
            )
            .arg(many("filters", 'f').value_name("FILTER").help(
                "Filter of the events before it (`prev_prio < 100`), as the kernel defines it",
            ))
            .arg(many("triggers", 'R').value_name("TRIGGER").help(
                "Trigger of the events before it (`traceoff if …`), as the kernel defines it",
            ))
    }
    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Events {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut all: Vec<(usize, &'static str, &String)> = Vec::new();
        for id in ["events", "filters", "triggers"] {
            if let (Some(at), Some(values)) = (matches.indices_of(id), matches.get_many(id)) {
                all.extend(at.zip(values).map(|(at, value)| (at, id, value)));
            }
        }
        all.sort_by_key(|(at, ..)| *at);
        let mut specs: Vec<EventSpec> = Vec::new();
        for (_, id, value) in all {
            let orphan = || {
                let letter = if id == "filters" { "-f" } else { "-R" };
                clap::Error::raw(
                    clap::error::ErrorKind::MissingRequiredArgument,
                    format!("{letter} '{value}' belongs to the -e before it, and there is none\n"),
                )
            };
            match id {
                "events" => specs.push(EventSpec::new(value.clone())),
                "filters" => {
                    specs.last_mut().ok_or_else(orphan)?.filter = Some(value.clone());
                }
                _ => specs.last_mut().ok_or_else(orphan)?.triggers.push(value.clone()),
            }
        }
        Ok(Self(specs))
    }
    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What is to be done, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// What to record.
    pub record: RecordConfig,
    /// Processes to trace, before their threads are looked up.
    pub pids: Vec<u32>,
    /// Trace the command alone.
    pub only_command: bool,
    /// The file.
    pub output: PathBuf,
    /// Its format.
    pub format: Format,
    /// For how long.
    pub duration: Option<Duration>,
    /// Flight recorder: how many times it may write because tracing was switched off.
    pub flight: Option<u32>,
    /// What to run.
    pub command: Vec<OsString>,
    /// A tracer that keeps the longest latency, of more than so many µs.
    pub latency: Option<Latency>,
}

/// What a latency tracer is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// Latencies up to this are not kept, µs.
    pub threshold_us: u64,
    /// Whether the threshold was given: a longer latency is then exit code 2.
    pub is_limit: bool,
}

impl Args {
    /// What to list, and which of it.
    pub fn list(&self) -> anyhow::Result<Option<(List, Option<&str>)>> {
        let Some(what) = self.list.first() else { return Ok(None) };
        let list = List::from_str(what, true)
            .map_err(|_| anyhow::anyhow!("--list {what}: unknown list"))
            .hint("--list events, tracers, functions, options or clocks")?;
        Ok(Some((list, self.list.get(1).map(String::as_str))))
    }

    /// Checks and converts.
    pub fn config(&self) -> anyhow::Result<Config> {
        if self.events.0.is_empty() && self.tracer.is_none() {
            return Err(anyhow::anyhow!(
                "nothing to record: select events with -e or a tracer with -p"
            ))
            .hint("start with -e sched -e irq -e timer; --list events lists all events");
        }
        if self.tracer.is_none()
            && !(self.functions.is_empty()
                && self.notrace_functions.is_empty()
                && self.graph_functions.is_empty())
        {
            bail!("-l, -n and -g select functions of a tracer: name it with -p");
        }
        let tracer = self.tracer.as_deref().unwrap_or_default();
        let latency = LATENCY_TRACERS.contains(&tracer).then(|| Latency {
            threshold_us: self.threshold.unwrap_or(0),
            is_limit: self.threshold.is_some(),
        });
        if latency.is_none() && self.threshold.is_some() {
            let known = LATENCY_TRACERS.join(", ");
            return Err(anyhow::anyhow!(
                "--threshold with -p {tracer}: it keeps no longest latency"
            ))
            .hint(format!("tracers that do: {known}"));
        }
        if latency.is_some() && (self.last.is_some() || self.v6) {
            let option = if self.v6 { "--v6" } else { "--last" };
            return Err(anyhow::anyhow!("{option} with -p {tracer}: its longest latency is text"))
                .hint("leave it out; -b sets the size of the buffer");
        }
        let output = if latency.is_some() { "trace.txt" } else { "trace.dat" };
        let compression = if self.compression == "any" { "zstd" } else { &self.compression };
        let compression: Compression = compression.parse().context("--compression")?;
        let duration = self.duration.as_deref().map(seconds).transpose()?;
        let mut record = RecordConfig {
            events: self.events.0.clone(),
            tracer: self.tracer.clone(),
            graph_functions: self.graph_functions.clone(),
            functions: self.functions.clone(),
            notrace_functions: self.notrace_functions.clone(),
            max_graph_depth: self.max_graph_depth,
            options: self.options.clone(),
            follow_children: self.children,
            cpus: self.cpus()?,
            buffer_kb: self.buffer_kb,
            clock: self.clock.clone(),
            stack: self.stack,
            ..RecordConfig::default()
        };
        if self.buffer_kb == Some(0) || self.last == Some(0) {
            bail!("the size of the ring buffer must not be 0 (-b, --last)");
        }
        if let Some(mb) = self.last {
            record.buffer_total_kb = Some(mb.saturating_mul(1024));
        }
        let kallsyms = match self.kallsyms {
            Symbols::Used => Kallsyms::Used,
            Symbols::All => Kallsyms::All,
            Symbols::None => Kallsyms::None,
        };
        Ok(Config {
            record,
            pids: self.pids.clone(),
            only_command: self.only_command,
            output: self.output.clone().unwrap_or_else(|| output.into()),
            format: Format { v6: self.v6, compression, kallsyms },
            duration,
            flight: self.last.map(|_| self.rearm.unwrap_or(1)),
            command: self.command.clone(),
            latency,
        })
    }

    fn cpus(&self) -> anyhow::Result<Option<BTreeSet<u32>>> {
        if let Some(list) = &self.cpu {
            let cpus = cpulist::parse(list).map_err(|e| anyhow::anyhow!("--cpu {list}: {e}"))?;
            return Ok(Some(cpus.into_iter().collect()));
        }
        let Some(mask) = &self.mask else { return Ok(None) };
        let digits: String = mask.trim_start_matches("0x").split(',').collect();
        let mut cpus = BTreeSet::new();
        for (n, digit) in digits.chars().rev().enumerate() {
            let Some(bits) = digit.to_digit(16) else {
                bail!("-M {mask}: {digit:?} is not a hexadecimal digit");
            };
            let first = u32::try_from(n * 4).unwrap_or(u32::MAX);
            cpus.extend((0..4).filter(|b| bits & (1 << b) != 0).map(|b| first.saturating_add(b)));
        }
        if cpus.is_empty() {
            bail!("-M {mask}: no CPU selected");
        }
        Ok(Some(cpus))
    }
}

/// `10s`, `5m`, or a bare number of seconds.
fn seconds(text: &str) -> anyhow::Result<Duration> {
    match super::time::seconds(text).ok().filter(|d| !d.is_zero()) {
        Some(duration) => Ok(duration),
        None => Err(anyhow::anyhow!("-D {text}: not a duration")).hint("write 10s, 5m or 1.5"),
    }
}
