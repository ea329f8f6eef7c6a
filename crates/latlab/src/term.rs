//! The terminal: whether there is one, how wide it is, whether it wants colour.
//!
//! stdout is data and stderr is talk. Colour follows <https://no-color.org>:
//! only on a terminal, never when `NO_COLOR` is set to anything, never when
//! `TERM` is `dumb`.

use latlab_model::control::Cleaned;
use std::fmt;
use std::io::{self, BufWriter, IsTerminal, StderrLock, StdoutLock, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Narrower than this, tables are not squeezed any further.
const WIDTH_MIN: usize = 40;
/// Wider than this, tables do not become.
const WIDTH_MAX: usize = 240;
/// The width for files, pipes and terminals that do not say.
const WIDTH_DEFAULT: usize = 100;

/// Whether `--details` was given.
static DETAILS: AtomicBool = AtomicBool::new(false);

/// Sets what [`details`] returns, once, after the command line was read.
pub fn set_details(on: bool) {
    DETAILS.store(on, Ordering::Relaxed);
}

/// Whether everything is printed, or the first screen.
pub fn details() -> bool {
    DETAILS.load(Ordering::Relaxed)
}

/// Whoever read stdout went away, which is no error. A broken pipe of anything else is one.
#[derive(Clone, Copy, Debug)]
pub struct StdoutClosed;

impl fmt::Display for StdoutClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stdout: broken pipe")
    }
}

impl std::error::Error for StdoutClosed {}

impl StdoutClosed {
    /// Marks a broken pipe as stdout's, and names stdout in any other error.
    pub fn mark(error: io::Error) -> io::Error {
        match error.kind() {
            io::ErrorKind::BrokenPipe => io::Error::new(error.kind(), Self),
            io::ErrorKind::Interrupted => error,
            kind => io::Error::new(kind, format!("standard output: {error}")),
        }
    }

    /// Whether an error is this one.
    pub fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Self>())
    }
}

/// A writer to stdout: a broken pipe comes back as [`StdoutClosed`], which the exit code maps to 0.
#[derive(Debug)]
pub struct Stdout<W = StdoutLock<'static>>(pub W);

impl<W: Write> Write for Stdout<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(StdoutClosed::mark)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(StdoutClosed::mark)
    }
}

/// Buffered stdout for sentences, lists and JSON: names of files, tasks and machines in them are shown without control
/// characters. Flush it: an error in `drop` would be lost.
pub fn stdout() -> Cleaned<BufWriter<Stdout>> {
    Cleaned(raw_stdout())
}

/// Buffered stdout for what has colours or moves the cursor: reports, tables, listings of traces. Their renderers
/// show text from elsewhere without control characters; what else is written to it goes through [`Cleaned`].
pub fn raw_stdout() -> BufWriter<Stdout> {
    BufWriter::with_capacity(1 << 16, stdout_by_line())
}

/// stdout by the line. Flush it, as [`stdout`].
pub fn stdout_by_line() -> Stdout {
    Stdout(io::stdout().lock())
}

/// stderr for sentences: names of files and tasks in them are shown without control characters.
/// Displays, which move the cursor, write to stderr itself.
pub fn stderr() -> Cleaned<StderrLock<'static>> {
    Cleaned(io::stderr().lock())
}

/// Whether stdout is a terminal.
pub fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Set by a host that shows a target's progress: stderr is a terminal at the other end of the line.
pub const PROGRESS_VARIABLE: &str = "LATLAB_PROGRESS";

/// Whether stderr is a terminal, here or at the host that started us.
pub fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal() || std::env::var_os(PROGRESS_VARIABLE).is_some_and(|v| v == "1")
}

/// Whether to colour stdout.
pub fn color() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|t| t == "dumb");
    stdout_is_terminal() && !set("NO_COLOR") && !dumb
}

/// `COLUMNS`, where it is a number.
fn columns() -> Option<usize> {
    std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok()).filter(|&w| w > 0)
}

/// Columns to lay text out in: `COLUMNS`, the terminal's, or 100.
pub fn width() -> usize {
    columns()
        .or_else(|| terminal_size::terminal_size().map(|(w, _)| usize::from(w.0)))
        .filter(|&w| w > 0)
        .map_or(WIDTH_DEFAULT, |w| w.clamp(WIDTH_MIN, WIDTH_MAX))
}

/// Whether lines are wrapped: on a terminal, and where `COLUMNS` asks for a width.
pub fn wraps() -> bool {
    stdout_is_terminal() || columns().is_some()
}
