//! From a run to what the user sees: text on stdout.

use crate::term;
use latlab_core::run::Run;
use latlab_report::{sections, text};
use std::io::{self, Write};

/// Writes the run as text, laid out for the terminal.
///
/// # Errors
/// Whatever the writer says; a broken pipe among it.
pub fn text(run: &Run, mut out: &mut dyn Write) -> io::Result<()> {
    let options = text::TextOptions { width: term::width(), color: term::color() };
    text::render(&sections::of_run(run), &options, &mut out)
}
