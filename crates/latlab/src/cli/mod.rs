//! The command line: clap derive, and nothing but it. One file a command.
//!
//! What the user typed becomes a plain, validated configuration in each
//! command's `config()`; nothing outside this folder knows clap.

// These comments are the help that users read: brackets and angles mean options and places.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

pub mod bench;
#[cfg(feature = "host")]
pub mod compare;
pub mod doctor;
#[cfg(feature = "host")]
pub mod export;
pub mod fault_worker;
#[cfg(feature = "host")]
pub mod generate;
#[cfg(feature = "host")]
pub mod history;
#[cfg(feature = "host")]
pub mod image;
pub mod load;
pub mod memory;
pub mod on_board;
pub mod record;
pub mod report;
pub mod sched;
pub mod sched_task;
pub mod survey;
pub mod sweep;
pub mod time;
pub mod timer;
#[cfg(feature = "view")]
pub mod view;
#[cfg(feature = "host")]
pub mod vm;
pub mod wakeup;
pub mod why;

use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// A latency laboratory for Linux: measures, records, explains and shows.
#[derive(Debug, Parser)]
#[command(name = "latlab", version, max_term_width = 100, arg_required_else_help = false)]
pub struct Cli {
    /// Options that every command takes.
    #[command(flatten)]
    pub global: Global,
    /// What to do; a menu is offered on a terminal when there is none.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Options that every command takes.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Global {
    /// Print the result as JSON on stdout.
    #[arg(long, global = true)]
    pub json: bool,
    /// Keep the run in this directory (default: runs/<UTC time>-<host>-<command>).
    #[arg(long, global = true, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Measure there instead of here: ssh://user@board[:port] or vm:NAME (latlab vm list).
    #[cfg(feature = "host")]
    #[arg(long, global = true, value_name = "TARGET")]
    pub on: Option<String>,
}

/// Name of the command that this process was started with.
#[cfg(feature = "host")]
pub fn command_name() -> String {
    use clap::CommandFactory;
    let matches = Cli::command().ignore_errors(true).get_matches();
    matches.subcommand_name().unwrap_or_default().to_owned()
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    Wakeup(wakeup::Args),
    Why(Box<why::Args>),
    Bench(bench::Args),
    Sweep(Box<sweep::Args>),
    Load(load::Args),
    Memory(memory::Args),
    #[cfg(feature = "host")]
    Compare(compare::Args),
    #[cfg(feature = "host")]
    History(history::Args),
    Doctor(doctor::Args),
    Survey(survey::Args),
    #[cfg(feature = "host")]
    Export(export::Args),
    Record(record::Args),
    Report(report::Args),
    Sched(Box<sched::Args>),
    Timer(timer::Args),
    #[cfg(feature = "view")]
    View(view::Args),
    #[cfg(feature = "host")]
    Vm(vm::VmArgs),
    #[cfg(feature = "host")]
    Image(Box<image::ImageArgs>),
    /// Bring back a run that a lost connection left on a board (with --on ssh://…).
    #[cfg(feature = "host")]
    Fetch {
        /// Its name; without one, the runs that are kept there are listed.
        #[arg(value_name = "RUN")]
        run: Option<String>,
    },
    #[cfg(feature = "host")]
    #[command(hide = true)]
    Generate(generate::Args),
    #[command(hide = true)]
    SchedTask(sched_task::Args),
    #[command(hide = true)]
    LoadWorker(load::WorkerArgs),
    #[command(hide = true)]
    FaultWorker(fault_worker::FaultArgs),
    #[command(hide = true)]
    OnBoard(on_board::OnBoardArgs),
}
