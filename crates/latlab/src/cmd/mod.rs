//! One file a command: from configuration to a run, a report and an exit code.

mod report;

use crate::cli::{Cli, Command};
use crate::outcome::Outcome;

/// Runs what was asked for.
pub fn dispatch(cli: Cli) -> anyhow::Result<Outcome> {
    let Some(command) = cli.command else {
        return help();
    };
    match command {
        Command::Report(args) => report::run(&cli.global, &args),
    }
}

fn help() -> anyhow::Result<Outcome> {
    use clap::CommandFactory;
    use std::io::Write;
    write!(std::io::stdout().lock(), "{}", Cli::command().render_long_help())?;
    Ok(Outcome::Done)
}
