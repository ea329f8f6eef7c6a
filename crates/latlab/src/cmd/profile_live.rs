//! `latlab profile` without a file: what runs now is recorded for a while, into a folder that goes again.

use crate::cli::profile::{Args, With};
use crate::outcome::{self, HintExt};
use crate::own_run;
use anyhow::{Context, anyhow};
use latlab_sys::scratch::ScratchDir;
use latlab_sys::tracefs::Tracefs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

/// Without a command, and without `-D`.
const LENGTH: Duration = Duration::from_secs(5);
/// Of a line so much at a time, bytes.
const LINE: u64 = 1 << 16;

/// A recording and its folder.
pub(super) struct Recorded {
    /// The trace.
    pub(super) file: PathBuf,
    _folder: ScratchDir,
}

/// Records.
///
/// # Errors
/// When the kernel or the disk refuses; with the sentence of `latlab record`.
pub(super) fn record(args: &Args) -> anyhow::Result<Recorded> {
    let parent = std::env::temp_dir();
    let folder = ScratchDir::create(&parent)
        .with_context(|| format!("no directory for the recording in {}", parent.display()))?;
    let file = folder.path().join("profile.dat");
    let mut command = own_run::command()?;
    command.arg("record");
    let tracer = match args.with {
        With::Graph => Some("function_graph"),
        With::Function => Some("function"),
        With::Stacks => None,
    };
    match tracer {
        Some(tracer) => command.args(["-p", tracer]),
        // What runs when a task leaves its CPU, and when a timer interrupts it.
        None => {
            command.args(["-T", "-e", "sched:sched_switch", "-e", "timer:hrtimer_expire_entry"])
        }
    };
    for function in &args.functions {
        command.args(["-g", function]);
    }
    command.arg("-o").arg(&file);
    let length = args.duration.or(args.command.is_empty().then_some(LENGTH));
    if let Some(length) = length {
        command.args(["-D", &format!("{}ms", length.as_millis())]);
    }
    command.stderr(Stdio::piped());
    let has_command = !args.command.is_empty();
    if has_command {
        // The result has our standard output.
        let output = std::io::stderr().as_fd().try_clone_to_owned().map(Stdio::from);
        command.stdout(output.unwrap_or_else(|_| Stdio::null()));
        command.arg("--").args(&args.command);
    }
    let own = format!("latlab: {}", file.display());
    let (status, printed) =
        own_run::run(&mut command, move |pipe| forward(pipe, has_command, &own))?;
    let has_ended = status.success() || latlab_sys::signal::stop_requested().is_some();
    // A command's own exit code is none of the recording.
    let was_started = !matches!(status.code(), Some(126 | 127)) || printed.is_empty();
    if !file.is_file() || !was_started || (!has_ended && !has_command) {
        let error = outcome::printed_error(&printed);
        if !tracer.is_some_and(is_absent) {
            return Err(error);
        }
        return Err(anyhow!(outcome::format_error_chain(&error)))
            .hint("--with stacks profiles on this kernel, by the stacks at switches and timers");
    }
    Ok(Recorded { file, _folder: folder })
}

/// Whether this kernel is known to have no such tracer.
fn is_absent(tracer: &str) -> bool {
    let tracers = Tracefs::find().and_then(|found| found.tracefs.tracers());
    tracers.is_ok_and(|all| all.iter().all(|t| t != tracer))
}

/// Reads what the recorder and the command print; of a command it is printed on, but for what the recorder says of the
/// file, which nobody keeps. Its end.
fn forward(pipe: impl Read, has_command: bool, own: &str) -> Vec<u8> {
    let mut last = Vec::new();
    let mut lines = BufReader::new(pipe);
    let mut line = Vec::new();
    // A program may print without line feeds.
    while lines.by_ref().take(LINE).read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        if has_command && !line.starts_with(b"latlab: ") && !line.starts_with(b"hint: ") {
            let _ = std::io::stderr().write_all(&line);
        } else if !line.starts_with(own.as_bytes()) && last.len() as u64 <= own_run::PRINTED {
            last.extend_from_slice(&line);
        }
        line.clear();
    }
    last
}
