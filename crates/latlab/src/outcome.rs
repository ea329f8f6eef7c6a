//! How a command ends: exit codes, and errors with a hint.

use crate::term::{self, StdoutClosed};
use latlab_sys::kernel_noise::TracerError;
use latlab_sys::recorder::RecordError;
use latlab_sys::tracefs::TracefsError;
use latlab_sys::wakeup::WakeupError;
#[cfg(feature = "host")]
use latlab_target::TargetError;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// A command that did what it was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Within limits: 0.
    Done,
    /// A limit that the user set was exceeded: 2.
    LimitExceeded,
    /// Cut short by a signal, what was measured is kept: 128 + signal.
    Stopped(latlab_sys::signal::Signal),
    /// Another command's exit code, passed on (`--on`, `record -- COMMAND`).
    Code(u8),
}

impl Outcome {
    /// The same, unless all went well and a limit was exceeded.
    pub fn exceeded_if(self, over: bool) -> Self {
        if over && self == Self::Done { Self::LimitExceeded } else { self }
    }
}

/// An error with a line that says what to do about it.
#[derive(Debug)]
pub struct Hinted {
    error: anyhow::Error,
    hint: String,
}

impl fmt::Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_error_chain(&self.error))
    }
}

impl std::error::Error for Hinted {}

/// Adds a hint to an error.
pub trait HintExt<T> {
    /// The error, with what the user can do about it. The innermost hint is the one that is shown.
    fn hint(self, hint: impl Into<String>) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> HintExt<T> for Result<T, E> {
    fn hint(self, hint: impl Into<String>) -> anyhow::Result<T> {
        self.map_err(|error| {
            let error = error.into();
            if error.downcast_ref::<Hinted>().is_some() {
                return error;
            }
            anyhow::Error::new(Hinted { error, hint: hint.into() })
        })
    }
}

/// An error of another crate that knows its own hint.
pub trait OwnHint: std::error::Error + Send + Sync + 'static {
    /// What the user can do about it, if anything.
    fn own_hint(&self) -> Option<String>;
}

macro_rules! own_hint {
    ($($error:ty),*) => {$(
        impl OwnHint for $error {
            fn own_hint(&self) -> Option<String> {
                self.hint().map(Into::into)
            }
        }
    )*};
}

own_hint!(WakeupError, TracefsError, RecordError, TracerError);

#[cfg(feature = "host")]
own_hint!(TargetError, latlab_analysis::run_file::RunError);

/// Takes an error's own hint along.
pub trait OwnHintExt<T> {
    /// The error, with the hint that it knows.
    fn with_hint(self) -> anyhow::Result<T>;
}

impl<T, E: OwnHint> OwnHintExt<T> for Result<T, E> {
    fn with_hint(self) -> anyhow::Result<T> {
        self.or_else(|error| match error.own_hint() {
            Some(hint) => Err(error).hint(hint),
            None => Err(error.into()),
        })
    }
}

/// An error and its causes in one line. A cause that the text before it ends with is not said again:
/// some libraries' errors name theirs, some leave it to whoever prints them.
pub fn format_error_chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// What the user can do about an error, where somebody said it.
pub fn hint_of(error: &anyhow::Error) -> Option<&str> {
    error.chain().find_map(|e| e.downcast_ref::<Hinted>()).map(|h| h.hint.as_str())
}

/// Exit code of a target that does not answer: a later try may succeed (sysexits.h, `EX_TEMPFAIL`).
#[cfg(feature = "host")]
const TARGET_UNREACHABLE: u8 = 75;

fn exit_code(error: &anyhow::Error) -> ExitCode {
    #[cfg(feature = "host")]
    if target_errors(error).any(|e| matches!(e, TargetError::Unreachable { .. })) {
        return ExitCode::from(TARGET_UNREACHABLE);
    }
    let _ = error;
    ExitCode::FAILURE
}

/// Those among an error and its causes that a target made; beneath a hint too.
#[cfg(feature = "host")]
fn target_errors(error: &anyhow::Error) -> impl Iterator<Item = &TargetError> {
    let beneath = error.downcast_ref::<Hinted>().map(|h| h.error.chain());
    error.chain().chain(beneath.into_iter().flatten()).filter_map(|e| e.downcast_ref())
}

/// The end of the console of a virtual machine that did not come up, or went down.
#[cfg(feature = "host")]
fn console_of(error: &anyhow::Error) -> &str {
    target_errors(error).find_map(TargetError::console).unwrap_or_default()
}

/// The remedy for what the system refused, where nobody knows a better one.
fn system_hint(error: &anyhow::Error) -> Option<&'static str> {
    let kind = error.chain().find_map(|e| e.downcast_ref::<io::Error>()).map(io::Error::kind)?;
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("free some space there, or write to another disk")
        }
        io::ErrorKind::ReadOnlyFilesystem => Some("write to a disk that is not read-only"),
        _ => None,
    }
}

/// Prints the error, if there is one, once, to stderr; a reader that went away is no error.
pub fn exit(result: anyhow::Result<Outcome>) -> ExitCode {
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::LimitExceeded) => ExitCode::from(2),
        Ok(Outcome::Stopped(signal)) => ExitCode::from(signal.exit_code()),
        Ok(Outcome::Code(code)) => ExitCode::from(code),
        Err(error) if is_stdout_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let mut stderr = term::stderr();
            let _ = writeln!(stderr, "latlab: {}", one_line(&format_error_chain(&error)));
            #[cfg(feature = "host")]
            for line in console_of(&error).lines() {
                let _ = writeln!(stderr, "  | {}", one_line(line));
            }
            if let Some(hint) = hint_of(&error).or_else(|| system_hint(&error)) {
                let _ = writeln!(stderr, "hint: {}", one_line(hint));
            }
            exit_code(&error)
        }
    }
}

/// A message on one line: what it quotes of files and their names may have line feeds, and any length.
fn one_line(text: &str) -> String {
    const LONGEST: usize = 1_000;
    let mut line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = line.char_indices().nth(LONGEST) {
        line.truncate(end);
        line.push('…');
    }
    line
}

/// The error that another latlab process printed, as [`exit`] prints it, with its hint; without one its last line.
#[cfg(feature = "host")]
pub fn printed_error(stderr: &[u8]) -> anyhow::Error {
    let text = String::from_utf8_lossy(stderr);
    let of = |mark: &str| text.lines().rev().find_map(|line| line.strip_prefix(mark));
    let last = || text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
    let error = anyhow::Error::msg(of("latlab: ").unwrap_or_else(last).to_owned());
    match of("hint: ") {
        Some(hint) => anyhow::Error::new(Hinted { error, hint: hint.to_owned() }),
        None => error,
    }
}

/// The first line with text of what another program or a device printed, for a terminal: without control characters,
/// 300 characters at most.
#[cfg(feature = "host")]
pub fn foreign_line<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<String> {
    let line = lines.find(|line| !line.trim().is_empty())?;
    Some(line.chars().filter(|c| !c.is_control()).take(300).collect())
}

/// What was printed, where a reader that went away is no error: the command goes on to its verdict,
/// which is its exit code.
///
/// # Errors
/// Any other.
pub fn reader_may_leave(printed: anyhow::Result<()>) -> anyhow::Result<()> {
    printed.or_else(|error| if is_stdout_closed(&error) { Ok(()) } else { Err(error) })
}

fn is_stdout_closed(error: &anyhow::Error) -> bool {
    let closed = |e: &(dyn std::error::Error + 'static)| {
        e.downcast_ref::<io::Error>().is_some_and(StdoutClosed::is)
    };
    error.chain().any(closed)
        || error.downcast_ref::<Hinted>().is_some_and(|h| is_stdout_closed(&h.error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    #[cfg(feature = "host")]
    fn the_error_of_another_process_is_read_with_its_hint() {
        let printed = "[1/1] boot\nlatlab: no board build\nhint: make boards builds them\n";
        let error = printed_error(printed.as_bytes());
        assert_eq!(format_error_chain(&error), "no board build");
        let outer = error.context("armv7-rt");
        assert_eq!(hint_of(&outer), Some("make boards builds them"));
        assert_eq!(format_error_chain(&outer), "armv7-rt: no board build");
        let killed = printed_error(b"qemu: out of memory\n\n");
        assert_eq!(
            (format_error_chain(&killed).as_str(), hint_of(&killed)),
            ("qemu: out of memory", None)
        );
        assert_eq!(format_error_chain(&printed_error(b"")), "no message");
    }

    #[test]
    fn a_cause_is_said_once() {
        let missing = || io::Error::from_raw_os_error(2);
        let own = WakeupError::SharedLock { path: "/x".into(), source: missing() };
        let plain = "--lock /x: No such file or directory (os error 2)";
        assert_eq!(format_error_chain(&anyhow::Error::new(own)), plain);
        let outer: anyhow::Error = Err::<(), _>(missing()).context("/x").unwrap_err();
        assert_eq!(format_error_chain(&outer), "/x: No such file or directory (os error 2)");
        let hinted = Err::<(), _>(outer).hint("look").context("a run").unwrap_err();
        assert_eq!(
            format_error_chain(&hinted),
            "a run: /x: No such file or directory (os error 2)"
        );
    }
}
