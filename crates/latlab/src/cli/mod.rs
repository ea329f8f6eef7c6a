//! The command line: clap derive only, one file for each command.
//!
//! Each command's `config()` returns a plain, validated configuration; nothing
//! outside this folder uses clap.

// These comments are the help that users read: brackets and angles mean options and places.
#![expect(
    rustdoc::broken_intra_doc_links,
    rustdoc::invalid_html_tags,
    reason = "doc comments are help texts, in which <NAME> and [NAME] are placeholders"
)]

pub mod bench;
#[cfg(feature = "host")]
pub mod check;
#[cfg(feature = "host")]
pub mod compare;
pub mod cpus;
pub mod cyclictest;
pub mod doctor;
pub mod examples;
#[cfg(feature = "host")]
pub mod export;
pub mod fault_worker;
#[cfg(feature = "host")]
pub mod fleet;
pub mod foreign;
#[cfg(feature = "host")]
pub mod generate;
pub mod headings;
#[cfg(feature = "host")]
pub mod history;
#[cfg(feature = "host")]
pub mod image;
pub mod load;
mod mechanisms;
pub mod memory;
pub mod menu;
pub mod noise;
pub mod on_board;
pub mod preset;
#[cfg(feature = "host")]
pub mod profile;
pub mod record;
pub mod report;
pub mod sched;
pub mod sched_task;
pub mod search_worker;
pub mod set_priority;
pub mod survey;
pub mod sweep;
pub mod time;
pub mod timer;
pub mod trace_choice;
pub mod tune;
#[cfg(feature = "view")]
pub mod view;
#[cfg(feature = "host")]
pub mod vm;
pub mod wakeup;
pub mod watch;
pub mod why;
#[cfg(feature = "host")]
pub mod worst;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;

/// A latency laboratory for Linux: measure, record, analyse, report.
#[derive(Debug, Parser)]
#[command(name = "latlab", version, max_term_width = 100, arg_required_else_help = false)]
#[cfg_attr(feature = "host", command(after_long_help = examples::LATLAB))]
pub struct Cli {
    /// Options that every command takes.
    #[command(flatten)]
    pub global: Global,
    /// Command; without one, a menu on a terminal.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Options that every command takes.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Global {
    /// Print the result as JSON on stdout.
    #[arg(long, global = true)]
    pub json: bool,
    /// Print everything: all tables, plots and findings with their evidence.
    #[arg(long, global = true)]
    pub details: bool,
    /// Save the run in this directory (default: runs/<UTC time>-<host>-<command>).
    #[arg(long, global = true, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Memory that a trace may inflate to or that may be made of a run, with K, M or G (default: a quarter of
    /// what is free).
    #[arg(long, global = true, value_name = "SIZE", value_parser = memory_size)]
    pub max_memory: Option<u64>,
    /// Run on a board or in a virtual machine: ssh://user@board[:port], labgrid:PLACE or vm:NAME (latlab vm list).
    #[cfg(feature = "host")]
    #[arg(long, global = true, value_name = "TARGET")]
    pub on: Option<String>,
    /// Also print the results as signals of LAVA and the run as lines of this name, which `fleet collect` reads.
    #[arg(long, global = true, value_name = "NAME", hide = true, value_parser = line_name)]
    pub lava: Option<String>,
}

fn line_name(text: &str) -> anyhow::Result<String> {
    latlab_wire::run_lines::is_name(text)
        .then(|| text.to_owned())
        .ok_or_else(|| anyhow::anyhow!("expected up to 200 letters, digits, '_', '-' and '.'"))
}

fn memory_size(text: &str) -> anyhow::Result<u64> {
    const LEAST: u64 = 1 << 20;
    latlab_sys::size::parse(text)
        .filter(|size| *size >= LEAST)
        .ok_or_else(|| anyhow::anyhow!("expected a size of at least 1M, such as 512M or 4G"))
}

/// The command line of this process, with options of other tools replaced ([`foreign`]).
static WORDS: OnceLock<Vec<OsString>> = OnceLock::new();

/// The command line's definition.
pub fn command() -> clap::Command {
    headings::grouped(Cli::command())
}

/// Reads the command line of this process, and says on stderr which options have no effect.
///
/// # Errors
/// clap's, also for help and version; and an option of another tool that is refused.
pub fn parse() -> Result<Cli, clap::Error> {
    let refused =
        |reason: String| clap::Error::raw(clap::error::ErrorKind::InvalidValue, reason + "\n");
    let words = std::env::args_os().collect();
    let mut command = command();
    let translated = foreign::translate(&command, words).map_err(|e| refused(e.to_string()))?;
    let matches = command.try_get_matches_from_mut(&translated.words);
    #[cfg(not(feature = "host"))]
    let matches = matches.map_err(|error| absent(&error).map_or(error, refused));
    let matches = matches?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    crate::diagnostics::say(&translated.notes);
    let _ = WORDS.set(translated.words);
    Ok(cli)
}

/// Checks a command line, without the program's name, as [`parse`] reads it.
///
/// # Errors
/// Those of [`parse`], except requests for help or the version.
#[cfg(feature = "host")]
pub fn check(words: &[String]) -> Result<(), clap::Error> {
    let words = std::iter::once("latlab").chain(words.iter().map(String::as_str));
    let mut command = command();
    let translated = foreign::translate(&command, words.map(OsString::from).collect())
        .map_err(|e| clap::Error::raw(clap::error::ErrorKind::InvalidValue, e))?;
    match command.try_get_matches_from_mut(&translated.words) {
        Err(error) if error.use_stderr() => Err(error),
        _ => Ok(()),
    }
}

/// Commands that only the build for a host has.
#[cfg(any(test, not(feature = "host")))]
const HOST_COMMANDS: [&str; 11] = [
    "check", "compare", "export", "fetch", "fleet", "history", "image", "profile", "view", "vm",
    "worst",
];

/// Options that only that build has.
#[cfg(any(test, not(feature = "host")))]
const HOST_OPTIONS: [&str; 3] = ["--on", "--png", "--serve"];

/// Why a command or an option is unknown to this build, where others know it.
#[cfg(not(feature = "host"))]
fn absent(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let kind = match error.kind() {
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        _ => return None,
    };
    let Some(ContextValue::String(word)) = error.get(kind) else { return None };
    (HOST_COMMANDS.contains(&word.as_str()) || HOST_OPTIONS.contains(&word.as_str())).then(|| {
        format!(
            "{word}: not in this build, which measures, records and reports on one machine\n\
             hint: `make install` builds latlab with all commands"
        )
    })
}

/// The words behind the program's name, as they were parsed.
#[cfg(feature = "host")]
pub fn words() -> &'static [OsString] {
    WORDS.get().and_then(|words| words.get(1..)).unwrap_or_default()
}

/// Name of the command that this process was started with.
#[cfg(feature = "host")]
pub fn command_name() -> String {
    let words = std::iter::once(OsString::from("latlab")).chain(words().iter().cloned());
    let matches = command().ignore_errors(true).get_matches_from(words);
    matches.subcommand_name().unwrap_or_default().to_owned()
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    Wakeup(wakeup::Args),
    Why(Box<why::Args>),
    Watch(Box<watch::Args>),
    #[cfg(feature = "host")]
    Worst(Box<worst::Args>),
    Bench(bench::Args),
    Sweep(Box<sweep::Args>),
    Noise(noise::Args),
    Load(load::Args),
    Memory(memory::Args),
    #[cfg(feature = "host")]
    Check(check::Args),
    Tune(tune::Args),
    #[cfg(feature = "host")]
    Compare(compare::Args),
    #[cfg(feature = "host")]
    History(history::Args),
    #[cfg(feature = "host")]
    Fleet(fleet::Args),
    Doctor(doctor::Args),
    Survey(survey::Args),
    #[cfg(feature = "host")]
    Export(export::Args),
    Record(record::Args),
    Report(report::Args),
    Sched(Box<sched::Args>),
    Timer(timer::Args),
    #[cfg(feature = "host")]
    Profile(profile::Args),
    #[cfg(feature = "view")]
    View(view::Args),
    #[cfg(feature = "host")]
    Vm(vm::VmArgs),
    #[cfg(feature = "host")]
    Image(Box<image::ImageArgs>),
    /// Fetch a run that a lost connection left on a board.
    #[cfg(feature = "host")]
    #[command(after_long_help = examples::FETCH)]
    Fetch {
        /// Name of the run; without one, the runs on the board are listed.
        #[arg(value_name = "RUN")]
        run: Option<String>,
    },
    #[cfg(feature = "host")]
    #[command(hide = true)]
    Generate(generate::Args),
    #[command(hide = true)]
    Menu(menu::Args),
    #[command(hide = true)]
    SchedTask(sched_task::Args),
    #[command(hide = true)]
    LoadWorker(load::WorkerArgs),
    #[command(hide = true)]
    FaultWorker(fault_worker::FaultArgs),
    /// Set the priority of interrupt threads (a part of latlab tune --boot).
    #[command(hide = true)]
    SetPriority(set_priority::SetArgs),
    #[command(hide = true)]
    SearchWorker(search_worker::SearchArgs),
    #[command(hide = true)]
    OnBoard(on_board::OnBoardArgs),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "host")]
    #[test]
    fn what_other_builds_name_as_lacking_is_here() {
        let command = command();
        for name in HOST_COMMANDS {
            assert!(command.find_subcommand(name).is_some(), "{name}");
        }
        for option in HOST_OPTIONS {
            let all = std::iter::once(&command).chain(command.get_subcommands());
            let mut longs = all.flat_map(clap::Command::get_arguments).filter_map(|a| a.get_long());
            assert!(longs.any(|long| option.strip_prefix("--") == Some(long)), "{option}");
        }
    }

    #[test]
    fn texts_of_the_packages_name_every_command_that_the_board_build_lacks() {
        let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let pages =
            ["packaging/description-board", "packaging/tarball-readme", "docs/how-to/install.md"];
        for page in pages {
            let text = std::fs::read_to_string(top.join(page)).unwrap().replace('`', "");
            let words: Vec<&str> = text.split_whitespace().collect();
            let list = format!("commands for a host ({})", HOST_COMMANDS.join(", "));
            assert!(words.join(" ").contains(&list), "{page} does not have: {list}");
        }
    }

    #[test]
    fn earlier_spellings_of_options_are_accepted_and_hidden() {
        let lines = [
            "latlab why --prove",
            #[cfg(feature = "host")]
            "latlab compare a b --tell 10us@1e-6",
            #[cfg(feature = "host")]
            "latlab history trend --figure p99",
        ];
        for line in lines {
            assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
            let mut words = line.split(' ');
            let help = [words.next().unwrap_or_default(), words.next().unwrap_or_default()];
            let help = Cli::try_parse_from(help.into_iter().chain(["--help"])).unwrap_err();
            let old = line.split(' ').find(|w| w.starts_with("--")).unwrap_or("--");
            assert!(!help.to_string().contains(old), "{old} is in the help");
        }
    }
}
