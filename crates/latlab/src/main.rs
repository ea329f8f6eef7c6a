//! The `latlab` binary: parses the command line, calls the rooms, sets the exit code.

mod agent;
mod cli;
mod cmd;
mod outcome;
mod output;
mod progress;
mod rundir;
mod session;
mod talk;
mod term;

use clap::Parser;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    if agent::is_init() {
        agent::main();
    }
    latlab_sys::signal::install();
    talk::install();
    match cli::Cli::try_parse() {
        Ok(cli) => outcome::exit(cmd::dispatch(cli)),
        Err(error) if error.use_stderr() => {
            // clap would exit with 2, which here means that a limit was exceeded.
            let _ = write!(std::io::stderr().lock(), "{error}");
            ExitCode::FAILURE
        }
        Err(help_or_version) => outcome::exit((|| {
            write!(std::io::stdout().lock(), "{help_or_version}")?;
            Ok(outcome::Outcome::Done)
        })()),
    }
}
