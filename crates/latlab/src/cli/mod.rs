//! The command line: clap derive, and nothing but it. One file a command.
//!
//! What the user typed becomes a plain, validated configuration in each
//! command's `config()`; nothing outside this folder knows clap.

pub mod bench;
pub mod doctor;
#[cfg(feature = "host")]
pub mod generate;
pub mod load;
pub mod record;
pub mod report;
pub mod survey;
pub mod wakeup;

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
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    Wakeup(wakeup::Args),
    Bench(bench::Args),
    Doctor(doctor::Args),
    Survey(survey::Args),
    Record(record::Args),
    Report(report::Args),
    #[cfg(feature = "host")]
    #[command(hide = true)]
    Generate(generate::Args),
    #[command(hide = true)]
    LoadWorker(load::Args),
}
