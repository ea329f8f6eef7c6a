//! The `latlab` binary: parses the command line, calls the libraries, sets the exit code.

#![forbid(unsafe_code)]

mod agent;
mod cli;
mod cmd;
mod diagnostics;
#[cfg(feature = "host")]
mod foreign_text;
mod outcome;
mod output;
#[cfg(feature = "host")]
mod own_run;
mod program;
mod progress;
mod restoration;
mod rundir;
mod session;
mod term;
mod trace_input;

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    if agent::is_init() {
        agent::main();
    }
    latlab_sys::process::name_restarted(c"latlab");
    latlab_sys::signal::install();
    diagnostics::install();
    if cfg!(panic = "abort") {
        put_back_before_abort();
    }
    match cli::parse() {
        Ok(cli) => {
            term::set_details(cli.global.details);
            outcome::exit(cmd::dispatch(cli))
        }
        Err(error) if error.use_stderr() => {
            // clap would exit with 2, which here means that a limit was exceeded.
            let _ = write!(term::stderr(), "{error}");
            ExitCode::FAILURE
        }
        Err(help_or_version) => outcome::exit((|| {
            write!(term::stdout_by_line(), "{help_or_version}")?;
            Ok(outcome::Outcome::Done)
        })()),
    }
}

/// Where a panic does not unwind (boards), no guard is dropped: what this process has set in the
/// kernel is put back by the hook instead.
fn put_back_before_abort() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        say(panic);
        let undone = latlab_sys::settings::restore_own(&latlab_sys::settings::Place::default());
        for line in undone.iter().map(restoration::line) {
            let _ = writeln!(term::stderr(), "latlab: {line}");
        }
    }));
}
