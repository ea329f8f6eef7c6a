//! `latlab watch`: its options.

use crate::cli::preset::Preset;
use crate::cli::time::micros_ns;
use crate::outcome::HintExt;
use anyhow::{anyhow, bail};
use latlab_analysis::latency::activations::Late;
use latlab_model::units::Nanos;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Watch tasks for weeks: count activations, and capture late ones.
///
/// A TASK is a thread's name, a process or thread id, or a control group. Counts and captures are kept in the
/// folder `--dir` within limits; `latlab watch status` and OpenMetrics tell the state. A configuration file has
/// the long names of the options as keys, a table `[[task]]` with `name`, `deadline` or `limit`, and `period` for
/// each task, and a table `[[span]]` with `name`, `from`, `to`, `key`, `task` and `deadline` for spans between two events.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = super::examples::WATCH)]
#[command(args_conflicts_with_subcommands = true)]
#[group(id = "watch")]
pub struct Args {
    /// `status` or `export`.
    #[command(subcommand)]
    pub query: Option<Query>,
    /// Tasks.
    #[arg(value_name = "TASK")]
    tasks: Vec<String>,
    /// Configuration file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// An activation that takes longer from its intended time to its end is late (default: the period).
    #[arg(long, value_name = "TIME", conflicts_with = "limit")]
    deadline: Option<String>,
    /// An activation that starts later than this after its intended time is late.
    #[arg(long, value_name = "TIME")]
    limit: Option<String>,
    /// The period of the tasks, for the count of skipped ones (default: as found).
    #[arg(long, value_name = "TIME")]
    period: Option<String>,
    /// Watch the spans that begin with this event, in place of activations: as in `latlab why --from`.
    #[arg(long, value_name = "EVENT", requires = "to", conflicts_with_all = ["limit", "period"])]
    from: Option<String>,
    /// The event that ends a span; of tasks, where they are given.
    #[arg(long, value_name = "EVENT", requires = "from")]
    to: Option<String>,
    /// Watch these spans, in place of --from and --to.
    #[arg(long, value_enum, value_name = "PRESET", conflicts_with_all = ["from", "to", "key", "limit", "period"])]
    span: Option<Preset>,
    /// What both events have in common: tid, cpu, none, or fields of them [default: tid].
    #[arg(long, value_name = "KEY", requires = "from")]
    key: Option<String>,
    /// Folder for counts and captures.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Share of one CPU that the watch and its recording may take; above, it records less [default: 1%].
    #[arg(long, value_name = "PERCENT")]
    budget: Option<String>,
    /// Answer requests for metrics at this address of 127.0.0.0/8, such as 127.0.0.1:9464.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Run this shell command for each capture, at most one at a time.
    #[arg(long, value_name = "COMMAND")]
    exec: Option<String>,
    /// Captures of each hour, task and main part [default: 3].
    #[arg(long, value_name = "N")]
    captures: Option<usize>,
    /// All captures together at most [default: 256M].
    #[arg(long, value_name = "SIZE")]
    disk: Option<String>,
    /// Memory for what captures are made of (default: 1/256 of what is available, from 1M to 8M).
    #[arg(long, value_name = "SIZE")]
    buffer: Option<String>,
    /// Days for which the counts of each hour are kept [default: 90].
    #[arg(long, value_name = "N")]
    keep_days: Option<u32>,
    /// End after this time (default: never).
    #[arg(short = 'D', long, value_name = "TIME")]
    duration: Option<String>,
}

/// What a running watch is asked, or its folder.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Query {
    /// Print the state of a running watch.
    #[command(after_long_help = super::examples::WATCH_STATUS)]
    Status {
        /// Folder of the watch.
        #[arg(long, value_name = "DIR", default_value = DIR)]
        dir: PathBuf,
    },
    /// Write the counts of all hours as Parquet tables (hour.parquet, time.parquet, cause.parquet).
    #[command(after_long_help = super::examples::WATCH_EXPORT)]
    Export {
        /// Directory for the tables.
        #[arg(value_name = "DIR")]
        out: PathBuf,
        /// Folder of the watch.
        #[arg(long, value_name = "DIR", default_value = DIR)]
        dir: PathBuf,
    },
}

/// Where systemd's `StateDirectory=latlab/watch` lies.
const DIR: &str = "/var/lib/latlab/watch";

/// A configuration file. Keys are those of the command line.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    task: Vec<FileTask>,
    span: Vec<FileSpan>,
    dir: Option<PathBuf>,
    budget: Option<String>,
    listen: Option<String>,
    exec: Option<String>,
    captures: Option<usize>,
    disk: Option<String>,
    buffer: Option<String>,
    keep_days: Option<u32>,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct FileTask {
    name: String,
    deadline: Option<String>,
    limit: Option<String>,
    period: Option<String>,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct FileSpan {
    name: String,
    preset: Option<Preset>,
    from: String,
    to: String,
    key: Option<String>,
    task: Option<String>,
    deadline: Option<String>,
}

/// What was asked for, resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The tasks, each once.
    pub tasks: Vec<TaskConfig>,
    /// The spans, each of another name than the other ones and the tasks.
    pub spans: Vec<SpanConfig>,
    /// Folder.
    pub dir: PathBuf,
    /// Share of one CPU.
    pub budget: f64,
    /// Loopback address for metrics.
    pub listen: Option<SocketAddrV4>,
    /// Shell command.
    pub exec: Option<String>,
    /// Captures of each hour, task and main part.
    pub captures: usize,
    /// Bytes on disk.
    pub disk: u64,
    /// Bytes of the history for captures; `None`: what suits the machine.
    pub buffer: Option<u64>,
    /// Days.
    pub keep_days: u32,
    /// How long.
    pub duration: Option<Duration>,
}

/// One task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskConfig {
    /// Name, number or control group.
    pub name: String,
    /// What is late; `None`: a response time above the period.
    pub late: Option<Late>,
    /// Its period, where it is given.
    pub period_ns: Option<u64>,
}

/// Spans between two events.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanConfig {
    /// The name in counts.
    pub name: String,
    /// What begins one.
    pub from: String,
    /// What ends one.
    pub to: String,
    /// What both have in common.
    pub key: String,
    /// Only those that end in threads of this name, number or control group.
    pub task: Option<String>,
    /// A longer one is late.
    pub deadline: Option<Nanos>,
}

impl Args {
    /// The configuration file.
    pub fn file(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// What was asked for; `text` is that of the configuration file. The command line goes before the file.
    ///
    /// # Errors
    /// One sentence with the option, or with file and line.
    pub fn config(&self, text: Option<&str>) -> anyhow::Result<Config> {
        let file: File = match text {
            Some(text) => self.parse(text)?,
            None => File::default(),
        };
        self.check_names()?;
        let spans = self.spans(file.span)?;
        let given = self.tasks.iter().filter(|_| !self.has_span()).map(|name| FileTask {
            name: name.clone(),
            deadline: self.deadline.clone(),
            limit: self.limit.clone(),
            period: self.period.clone(),
        });
        let mut tasks: Vec<TaskConfig> = Vec::new();
        for task in given.chain(file.task) {
            let task = task.config()?;
            if tasks.iter().any(|t| t.name == task.name) {
                bail!("task {}: named twice", task.name);
            }
            tasks.push(task);
        }
        if let Some(span) = spans.iter().find(|span| tasks.iter().any(|t| t.name == span.name)) {
            bail!("span {}: a task has this name", span.name);
        }
        if tasks.is_empty() && spans.is_empty() {
            return Err(anyhow!("no task to watch"))
                .hint("latlab watch TASK, or --config FILE with a table [[task]]");
        }
        let size = |option: &str, text: Option<String>| {
            let parse = |text: String| {
                latlab_sys::size::parse(&text).filter(|bytes| *bytes >= 1 << 20).ok_or_else(|| {
                    anyhow!("{option} {text}: expected a size of at least 1M, such as 256M")
                })
            };
            text.map(parse).transpose()
        };
        let budget = self.budget.clone().or(file.budget);
        let listen = self.listen.clone().or(file.listen);
        let duration = self.duration.as_deref().map(super::time::seconds).transpose();
        let config = Config {
            tasks,
            spans,
            dir: self.dir.clone().or(file.dir).unwrap_or_else(|| DIR.into()),
            budget: budget.as_deref().map_or(Ok(0.01), percent)?,
            listen: listen.as_deref().map(loopback).transpose()?,
            exec: self.exec.clone().or(file.exec),
            captures: self.captures.or(file.captures).unwrap_or(3),
            disk: size("--disk", self.disk.clone().or(file.disk))?.unwrap_or(256 << 20),
            buffer: size("--buffer", self.buffer.clone().or(file.buffer))?,
            keep_days: self.keep_days.or(file.keep_days).unwrap_or(90),
            duration: duration.map_err(|e| anyhow!("-D: {e}"))?,
        };
        if config.captures == 0 || config.captures > 1_000 {
            bail!("--captures {}: from 1 to 1000", config.captures);
        }
        Ok(config)
    }
}

impl Args {
    /// The spans of the command line, one for each task there, and those of a file.
    fn spans(&self, of_file: Vec<FileSpan>) -> anyhow::Result<Vec<SpanConfig>> {
        let mut given = Vec::new();
        let ends = self.from.as_deref().zip(self.to.as_deref());
        if let Some((from, to)) = self.span.map(Preset::ends).or(ends) {
            let all: Vec<Option<&String>> = match self.tasks.as_slice() {
                [] => vec![None],
                tasks => tasks.iter().map(Some).collect(),
            };
            given.extend(all.into_iter().map(|task| FileSpan {
                name: task.map_or_else(|| "span".to_owned(), |task| format!("{task} span")),
                preset: None,
                from: from.to_owned(),
                to: to.to_owned(),
                key: self.key.clone(),
                task: task.cloned(),
                deadline: self.deadline.clone(),
            }));
        }
        let mut spans: Vec<SpanConfig> = Vec::new();
        for span in given.into_iter().chain(of_file) {
            let span = span.config()?;
            if spans.iter().any(|s| s.name == span.name) {
                bail!("span {}: named twice", span.name);
            }
            spans.push(span);
        }
        Ok(spans)
    }

    fn has_span(&self) -> bool {
        self.from.is_some() || self.span.is_some()
    }

    /// What is for the tasks of the command line needs one, and the name of a subcommand among options is no task.
    fn check_names(&self) -> anyhow::Result<()> {
        let options =
            [("--deadline", &self.deadline), ("--limit", &self.limit), ("--period", &self.period)];
        let is_named = !self.tasks.is_empty() || self.has_span();
        let given = options.iter().find(|o| o.1.is_some()).filter(|_| !is_named);
        if let Some((option, _)) = given {
            let key = option.trim_start_matches('-');
            return Err(anyhow!(
                "{option}: it is for tasks of the command line, and there is none"
            ))
            .hint(format!("name a task, or set {key} in the tables [[task]] of the file"));
        }
        match self.tasks.iter().find(|name| ["status", "export"].contains(&name.as_str())) {
            Some(name) => Err(anyhow!("{name}: with options before it, it is not the subcommand"))
                .hint(format!(
                    "latlab watch {name} …; a thread of this name is watched by its number, or by a file"
                )),
            None => Ok(()),
        }
    }

    #[cfg(feature = "host")]
    fn parse(&self, text: &str) -> anyhow::Result<File> {
        toml::from_str(text).map_err(|e| {
            let line = e
                .span()
                .map_or(1, |s| text.bytes().take(s.start).filter(|b| *b == b'\n').count() + 1);
            let path = self.config.clone().unwrap_or_default();
            anyhow!("{}, line {line}: {}", path.display(), e.message().replace('\n', " "))
        })
    }

    #[cfg(not(feature = "host"))]
    fn parse(&self, _: &str) -> anyhow::Result<File> {
        Err(anyhow!("--config: this build reads no TOML"))
            .hint("name tasks and limits by options; latlab watch --help lists them")
    }
}

impl FileSpan {
    fn config(self) -> anyhow::Result<SpanConfig> {
        let Self { name, preset, mut from, mut to, key, task, deadline } = self;
        if name.is_empty() {
            return Err(anyhow!("a table [[span]] without a name")).hint("name = \"request\"");
        }
        if let Some(preset) = preset {
            if !(from.is_empty() && to.is_empty()) {
                bail!("span {name}: preset, or from and to");
            }
            (from, to) = (preset.ends().0.to_owned(), preset.ends().1.to_owned());
        }
        for (which, text) in [("from", &from), ("to", &to)] {
            if text.is_empty() {
                return Err(anyhow!("span {name}: no {which}"))
                    .hint("an event: uprobe:PATH:FUNCTION, syscall:NAME, SYSTEM:EVENT");
            }
        }
        let deadline = deadline.map(|text| micros_ns("--deadline", &text)).transpose()?;
        if deadline == Some(0) {
            bail!("--deadline of span {name}: must be above zero");
        }
        let (key, deadline) = (key.unwrap_or_else(|| "tid".into()), deadline.map(Nanos));
        Ok(SpanConfig { name, from, to, key, task, deadline })
    }
}

impl FileTask {
    fn config(self) -> anyhow::Result<TaskConfig> {
        if self.name.is_empty() {
            return Err(anyhow!("a table [[task]] without a name")).hint("name = \"ctl_loop\"");
        }
        let time = |option: &str, text: Option<String>| {
            let ns = text.map(|text| micros_ns(option, &text)).transpose()?;
            match ns {
                Some(0) => bail!("{option} of task {}: must be above zero", self.name),
                ns => anyhow::Ok(ns),
            }
        };
        let (deadline, limit) = (time("--deadline", self.deadline)?, time("--limit", self.limit)?);
        let late = match (deadline, limit) {
            (Some(_), Some(_)) => bail!("task {}: deadline or limit, not both", self.name),
            (Some(ns), None) => Some(Late::Response(Nanos(ns))),
            (None, Some(ns)) => Some(Late::Start(Nanos(ns))),
            (None, None) => None,
        };
        Ok(TaskConfig { late, period_ns: time("--period", self.period)?, name: self.name.clone() })
    }
}

/// `1%` as a share.
fn percent(text: &str) -> anyhow::Result<f64> {
    let number = text.trim().strip_suffix('%').unwrap_or(text.trim()).trim().parse::<f64>();
    match number {
        Ok(n) if (0.01..=100.0).contains(&n) => Ok(n / 100.0),
        _ => bail!("--budget {text}: expected a share of one CPU from 0.01% to 100%"),
    }
}

fn loopback(text: &str) -> anyhow::Result<SocketAddrV4> {
    match text.parse::<SocketAddrV4>() {
        Ok(address) if address.ip().is_loopback() => Ok(address),
        _ => Err(anyhow!("--listen {text}: expected an address of 127.0.0.0/8 with a port"))
            .hint("127.0.0.1:9464; let a proxy with access control serve other hosts"),
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

    fn config(line: &[&str], file: Option<&str>) -> anyhow::Result<Config> {
        Line::try_parse_from([&["watch"][..], line].concat())?.args.config(file)
    }

    #[test]
    fn the_command_line_goes_before_the_file() {
        let file = "budget = \"2%\"\ndisk = \"64M\"\nkeep-days = 7\n[[task]]\nname = \"a\"\ndeadline = \"1ms\"\n[[task]]\nname = \"b\"\nlimit = \"50us\"\nperiod = \"2ms\"\n";
        let found = config(&["--budget", "0.5%"], Some(file)).unwrap();
        assert_eq!((found.budget, found.disk, found.keep_days), (0.005, 64 << 20, 7));
        let late: Vec<_> = found.tasks.iter().map(|t| t.late).collect();
        let expected = [Late::Response(Nanos(1_000_000)), Late::Start(Nanos(50_000))].map(Some);
        assert_eq!(late, expected);
        assert_eq!(found.tasks[1].period_ns, Some(2_000_000));
    }

    /// Those of the command line are limited to its tasks.
    #[test]
    fn spans_take_the_place_of_tasks() {
        let ends = ["--from", "syscall:read", "--to", "sysret:read"];
        let of = |line: &[&str], file| config(&[line, &ends].concat(), file).unwrap();
        let found = of(&["a", "b", "--deadline", "1ms"], None);
        assert_eq!((found.tasks.len(), found.spans.len()), (0, 2));
        let b = &found.spans[1];
        assert_eq!(
            (b.name.as_str(), b.task.as_deref(), b.key.as_str()),
            ("b span", Some("b"), "tid")
        );
        assert_eq!(b.deadline, Some(Nanos(1_000_000)));
        let file = "[[task]]\nname = \"c\"\n[[span]]\nname = \"io\"\nfrom = \"syscall:write\"\nto = \"sysret:write\"\nkey = \"cpu\"\n";
        let found = of(&["--deadline", "5"], Some(file));
        let names: Vec<&str> = found.spans.iter().map(|s| s.name.as_str()).collect();
        assert_eq!((found.tasks[0].name.as_str(), names), ("c", vec!["span", "io"]));
        assert_eq!((found.spans[1].key.as_str(), found.spans[1].task.as_deref()), ("cpu", None));

        let found = config(&["a", "--span", "sd-notify"], None).unwrap();
        let own = &found.spans[0];
        assert_eq!((own.from.as_str(), &own.to), ("uprobe:libsystemd.so.0:sd_notify", &own.from));
        let file = "[[span]]\nname = \"turn\"\npreset = \"poll-loop\"\ntask = \"server\"\n";
        let found = config(&[], Some(file)).unwrap();
        assert!(found.spans[0].from.starts_with("sysret:epoll_"), "{found:?}");
    }

    #[test]
    fn each_mistake_is_named() {
        let error =
            |line: &[&str], file: Option<&'static str>| config(line, file).unwrap_err().to_string();
        assert_eq!(error(&[], None), "no task to watch");
        assert_eq!(error(&["a", "a"], None), "task a: named twice");
        let text = error(&["--config", "w.toml"], Some("[[task]]\nname = \"a\"\ndeadlin = 1\n"));
        assert!(text.starts_with("w.toml, line 3: unknown field `deadlin`"), "{text}");
        assert!(error(&["a", "--listen", "0.0.0.0:9464"], None).contains("127.0.0.0/8"));
        assert!(error(&["a", "--budget", "0"], None).contains("0.01%"));
        assert!(error(&["a", "--disk", "5"], None).contains("at least 1M"));
        assert!(error(&["a", "--deadline", "0"], None).contains("above zero"));
        let both = "[[task]]\nname = \"a\"\ndeadline = \"1ms\"\nlimit = \"1ms\"\n";
        assert!(error(&[], Some(both)).contains("not both"));
        let one = Some("[[task]]\nname = \"a\"\n");
        for option in ["--deadline", "--limit", "--period"] {
            let text = error(&["--config", "w.toml", option, "1ms"], one);
            assert_eq!(
                text,
                format!("{option}: it is for tasks of the command line, and there is none")
            );
        }
        let ends = "from = \"syscall:read\"\nto = \"sysret:read\"\n";
        let span = |rest: &str| format!("[[span]]\n{ends}{rest}");
        let of_spans =
            |line: &[&str], rest: &str| config(line, Some(&span(rest))).unwrap_err().to_string();
        let text = |rest: &str| of_spans(&[], rest);
        assert_eq!(text(""), "a table [[span]] without a name");
        assert!(text("name = \"a\"\ndeadline = \"0\"\n").contains("span a: must be above zero"));
        let named = of_spans(&["a"], "name = \"a\"\n");
        assert_eq!(named, "span a: a task has this name");
        let text = error(&[], Some("[[span]]\nname = \"a\"\nto = \"sysret:read\"\n"));
        assert_eq!(text, "span a: no from");
        assert!(error(&["--from", "syscall:read"], None).contains("--to"));
        let text = error(&["--listen", "127.0.0.1:9464", "status"], None);
        assert_eq!(text, "status: with options before it, it is not the subcommand");
        assert_eq!(config(&[], Some("[[task]]\nname = \"status\"\n")).unwrap().tasks.len(), 1);
    }
}
