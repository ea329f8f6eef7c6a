//! A measurement by a latlab of its own, and the run that it keeps.

use crate::{program, rundir};
use anyhow::Context;
use latlab_model::run::Run;
use latlab_sys::process;
use std::io::Read;
use std::path::Path;
use std::process::{ChildStderr, Command, ExitStatus, Stdio};

/// Asks a process to end.
const SIGTERM: u8 = 15;
/// Of its stderr, where that is a pipe, so much is read, bytes.
pub const PRINTED: u64 = 1 << 20;

/// How it ended.
pub struct Measured {
    /// Its exit code or signal.
    pub status: ExitStatus,
    /// What it printed, where its stderr is a pipe.
    pub stderr: Vec<u8>,
    /// Its run.
    pub run: anyhow::Result<Run>,
}

/// This program, with nothing to read and nobody who reads its result.
///
/// # Errors
/// When it is not found.
pub fn command() -> anyhow::Result<Command> {
    let mut command = Command::new(program::own_program()?);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command)
}

/// Runs it to its end, and reads its run from a directory. A signal that asks this process to stop is passed on: it keeps
/// what it has.
///
/// # Errors
/// When it does not start.
pub fn measure(command: &mut Command, out: &Path) -> anyhow::Result<Measured> {
    let (status, stderr) = run(command, |mut pipe| {
        let mut printed = Vec::new();
        let _ = pipe.by_ref().take(PRINTED).read_to_end(&mut printed);
        let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        printed
    })?;
    Ok(Measured { status, stderr, run: rundir::load(out) })
}

/// Runs it to its end. A signal that asks this process to stop is passed on, and so is the end of the calling thread, by
/// SIGKILL too: it restores what it changed, and ends the machine that it started. How it ended, and what `read` returns of its
/// stderr, where that is a pipe.
///
/// # Errors
/// When it does not start.
pub fn run(
    command: &mut Command,
    read: impl FnOnce(ChildStderr) -> Vec<u8> + Send + 'static,
) -> anyhow::Result<(ExitStatus, Vec<u8>)> {
    process::ask_to_end_with_us(command);
    let mut child = command.spawn().context("starting latlab")?;
    let reader = child.stderr.take().map(|pipe| std::thread::spawn(move || read(pipe)));
    // Ctrl-C reaches it from the terminal as well; a second signal of another kind is no kill.
    let status = process::wait_and_pass_on(&mut child, SIGTERM).context("waiting for latlab")?;
    let printed = reader.and_then(|r| r.join().ok()).unwrap_or_default();
    Ok((status, printed))
}
